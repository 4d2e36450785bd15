"""The settings of `bertlite pretrain`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from bertlite.corpus.documents import Layout
from bertlite.corpus.tokenizer import TokenizerSettings
from bertlite.errors import InputError
from bertlite.inputs.masking import MaskingSettings
from bertlite.runs.settings import PLAIN, LimitSettings, SavingSettings
from bertlite.training.hardware import HardwareSettings
from bertlite.training.optimizer import OptimizerSettings
from bertlite.training.presets import parse_phases, preset_named


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Size of the model and course of the training; what is not given is the preset's."""

    preset: str | None = None
    """tiny, mini, small, medium, base or large; without one small on a GPU and mini on a CPU."""
    objective: Literal["mlm+nsp", "mlm"] = "mlm+nsp"
    phases: tuple[str, ...] = ()
    """LENGTHxSEQUENCES:SHARE of the steps, such as 128x256:0.9 512x64:0.1."""
    max_length: int | None = None
    """Tokens a sequence, for a run of one phase."""
    batch_size: int | None = None
    """Sequences a step, over all processes, for a run of one phase."""
    micro_batch_size: int | None = None
    """Rows at once on one device; what fits well when not given."""
    learning_rate: float | None = None
    init_std: float | None = None
    dropout: float | None = None
    warmup_share: float | None = None
    """Share of the steps over which the learning rate rises."""
    held_out: float = 0.02
    """Share of the documents kept for validation, when --validation is not given; 0 for no validation."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("max_length", "batch_size", "micro_batch_size", "learning_rate", "init_std"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"--{name.replace('_', '-')} must be positive; got {value}")
        for name in ("dropout", "warmup_share", "held_out"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 0 and below 1; got {value}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0; got {self.seed}")
        if self.preset is not None:
            preset_named(self.preset)
        if self.phases:
            parse_phases(self.phases)


@dataclass(frozen=True, kw_only=True)
class PretrainRun:
    """Pretrain a BERT on raw text."""

    out: Path
    """Folder of the run, which is a model directory."""
    corpus: tuple[Path, ...] = ()
    """Text files, folders or globs, or a token store."""
    validation: tuple[Path, ...] = ()
    """Held-out text; without it a share of the corpus's documents."""
    tokenizer: Path | None = None
    """Tokenizer folder, tokenizer.json or vocab.txt; trained on the corpus when not given."""
    model: Path | None = None
    """Go on from these weights and their tokenizer."""
    resume: bool = False
    """Go on with the run in --out."""
    overwrite: bool = False
    """Replace the run in --out."""
    processes: int | None = None
    """Fail unless this many processes run."""
    quiet: bool = False
    """Say nothing but errors."""
    train: Annotated[TrainSettings, PLAIN] = field(default_factory=TrainSettings)
    limits: Annotated[LimitSettings, PLAIN] = field(default_factory=LimitSettings)
    saving: Annotated[SavingSettings, PLAIN] = field(default_factory=SavingSettings)
    layout: Annotated[Layout, PLAIN] = field(default_factory=Layout)
    vocabulary: Annotated[TokenizerSettings, PLAIN] = field(default_factory=TokenizerSettings)
    hardware: Annotated[HardwareSettings, PLAIN] = field(default_factory=HardwareSettings)
    masking: MaskingSettings = field(default_factory=MaskingSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
