"""Presets: sizes, and the settings that were measured to train them.

Sizes: Devlin et al. 2019 (base, large) and Turc et al. 2019, table 1 (the smaller ones). `measured` says what the other
settings rest on; recipes/README.md has the figures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bertlite.errors import InputError, nearest


@dataclass(frozen=True)
class Phase:
    """A part of a run: sequences of at most `length` tokens, `num_sequences` a step, for `share` of the steps."""

    length: int
    num_sequences: int
    share: float

    def __str__(self) -> str:
        return f"{self.length}x{self.num_sequences}:{self.share:g}"


@dataclass(frozen=True)
class Preset:
    """Sizes of the encoder and how to train it."""

    num_layers: int
    hidden_size: int
    num_heads: int
    phases: tuple[str, ...]
    learning_rate: float
    init_std: float
    dropout: float
    warmup_share: float
    bias_correction: bool
    measured: str


PRESETS = {
    "tiny": Preset(2, 128, 2, ("32x64:0.5", "128x16:0.5"), 2e-3, 0.08, 0.0, 0.06, True, "recipes/presets.py"),
    "mini": Preset(4, 256, 4, ("32x64:0.5", "128x16:0.5"), 1e-3, 0.05, 0.0, 0.06, True, "not yet: between tiny and small"),
    "small": Preset(4, 512, 8, ("32x128:0.5", "128x32:0.5"), 7e-4, 0.04, 0.1, 0.06, True, "not yet: scaled from tiny and mini"),
    "medium": Preset(8, 512, 8, ("128x128:0.9", "512x32:0.1"), 5e-4, 0.03, 0.1, 0.06, True, "not yet: between small and base"),
    "base": Preset(12, 768, 12, ("128x256:0.9", "512x256:0.1"), 1e-4, 0.02, 0.1, 0.01, False, "Devlin et al. 2019, app. A.2"),
    "large": Preset(24, 1024, 16, ("128x256:0.9", "512x256:0.1"), 1e-4, 0.02, 0.1, 0.01, False, "Devlin et al. 2019, app. A.2"),
}


def preset_named(name: str) -> Preset:
    """Return a preset; raises InputError for an unknown name."""
    if name not in PRESETS:
        raise InputError(f"--preset {name!r} is not one of {', '.join(PRESETS)}{nearest(name, PRESETS)}")
    return PRESETS[name]


def preset_for(hidden_size: int) -> str:
    """Return the name of the smallest preset at least as wide as a model: whose settings suit it."""
    return next((name for name, preset in PRESETS.items() if preset.hidden_size >= hidden_size), "large")


def parse_phases(texts: tuple[str, ...]) -> list[Phase]:
    """Read phases such as `128x256:0.9`; shares are scaled to sum to 1.

    Raises InputError for another form, a share or size that is not positive, or a length named twice.
    """
    phases = []
    for text in texts:
        match = re.fullmatch(r"(\d+)x(\d+)(?::([\d.]+))?", text)
        try:
            phase = Phase(int(match[1]), int(match[2]), float(match[3] or 1)) if match else None
        except ValueError:
            phase = None
        if phase is None or phase.length < 8 or phase.num_sequences < 1 or phase.share <= 0:
            raise InputError(f"--phases {text!r} is not LENGTHxSEQUENCES:SHARE with a length of 8 or more",
                             remedy="for example --phases 128x256:0.9 512x64:0.1")
        phases.append(phase)
    lengths = [phase.length for phase in phases]
    if not phases or len(set(lengths)) < len(lengths):
        raise InputError("--phases must name each length once", remedy="for example --phases 128x256:0.9 512x64:0.1")
    total = sum(phase.share for phase in phases)
    return [Phase(p.length, p.num_sequences, p.share / total) for p in phases]


def phase_ends(phases: list[Phase], num_steps: int) -> list[int]:
    """Return the step after which each phase is over."""
    ends, share = [], 0.0
    for phase in phases:
        share += phase.share
        ends.append(round(share * num_steps))
    return [*ends[:-1], num_steps]
