"""The learning rate: up in a line, down in a line to 0.

Source: Devlin et al. 2019, app. A.2. In the released code the decay counts from step 0, so the rate drops when the
warm-up ends; here the decay begins where the warm-up ends, at the full rate.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinearSchedule:
    """A factor on the learning rate for each of `num_steps` steps."""

    num_steps: int
    warmup_share: float

    def factor(self, step: int) -> float:
        """Return the factor of step `step`, the first being 0."""
        warmup = round(self.warmup_share * self.num_steps)
        if step < warmup:
            return (step + 1) / warmup
        return max(0.0, (self.num_steps - step) / max(1, self.num_steps - warmup))
