"""Settings of what stands on the encoder, and of its loss."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from bertlite.errors import InputError, nearest


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """What stands on the encoder, and its loss; each task takes some of these."""

    kind: Literal["softmax", "crf"] = "softmax"
    """Tagging: a softmax a word, or a linear-chain CRF over the sentence."""
    class_weights: tuple[str, ...] = ()
    """Classification: balanced, or weights such as fox=2 wolf=1; all alike when not given."""
    label_smoothing: float = 0.0
    """Classification: how much of a label's probability is spread over all classes."""
    max_answer_length: int = 30
    """Question answering: tokens of the longest answer (Devlin et al. 2019, released code)."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"--head.label-smoothing must be at least 0 and below 1; got {self.label_smoothing}")
        if self.max_answer_length < 1:
            raise InputError(f"--head.max-answer-length must be at least 1; got {self.max_answer_length}")

    def check(self, task: str, *used: str) -> None:
        """Raise InputError for a setting that was changed and that `task` has no use for."""
        default = HeadSettings()
        for field in fields(self):
            if field.name not in used and getattr(self, field.name) != getattr(default, field.name):
                raise InputError(f"--head.{field.name.replace('_', '-')} is not for --task {task}", remedy="leave it out")

    def weights_for(self, labels: list[str], counts: list[int]) -> tuple[float, ...] | None:
        """Return a weight for each label, or None where all weigh alike; `counts` are the labels' training rows.

        Balanced weights are n / (C * count), so that their mean over the rows is 1.
        """
        if not self.class_weights:
            return None
        if self.class_weights == ("balanced",):
            total = sum(counts)
            return tuple(total / (len(labels) * max(1, count)) for count in counts)
        given: dict[str, float] = {}
        for text in self.class_weights:
            label, _, weight = text.rpartition("=")
            try:
                given[label] = float(weight)
            except ValueError:
                label = ""
            if label not in labels or not 0 < given[label] < float("inf"):
                raise InputError(f"--head.class-weights {text!r} is not balanced, nor a label with a positive weight"
                                 + nearest(label, labels), remedy=f"for example {labels[0]}=2")
        return tuple(given.get(label, 1.0) for label in labels)
