"""The settings of `bertlite finetune`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from bertlite.errors import InputError
from bertlite.runs.settings import PLAIN, LimitSettings, Rows, SavingSettings
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.readers import Columns
from bertlite.tasks.texts import LongTexts
from bertlite.training.hardware import HardwareSettings
from bertlite.training.optimizer import OptimizerSettings
from bertlite.training.transfer import TransferSettings


@dataclass(frozen=True, kw_only=True)
class SelectionSettings:
    """Which checkpoint is the best, and when to stop looking."""

    metric: str | None = None
    """A figure of the validation rows; when not given accuracy, micro_f1, spearman or f1, as the task is."""
    patience: int | None = None
    """Stop after this many evaluations without a better one."""

    def __post_init__(self) -> None:
        if self.patience is not None and self.patience < 1:
            raise InputError(f"--selection.patience must be at least 1; got {self.patience}")


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """Course of the training."""

    max_length: int | None = None
    """Tokens a text; the model's limit when not given."""
    long_texts: LongTexts = "cut"
    """Classification and regression: lose the end, keep head and tail, or read windows and take the mean."""
    overlap: int | None = None
    """Tokens that neighbouring windows share; a quarter of the length when not given."""
    batch_size: int = 32
    """Texts a step, over all processes."""
    micro_batch_size: int | None = None
    """Rows at once on one device; the whole batch when not given."""
    learning_rate: float | None = None
    """When not given 5e-5 for a hidden size of 768, more for smaller ones."""
    warmup_share: float = 0.1
    """Share of the steps over which the learning rate rises."""
    dropout: float | None = None
    """The model's own when not given."""
    held_out: float = 0.1
    """Share of each label's rows kept for validation, when neither --validation nor --folds is given."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "micro_batch_size", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"--{name.replace('_', '-')} must be positive; got {value}")
        for name in ("dropout", "warmup_share"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 0 and below 1; got {value}")
        if not 0 < self.held_out < 1:
            raise InputError(f"--held-out must be between 0 and 1; got {self.held_out}")


@dataclass(frozen=True, kw_only=True)
class FinetuneRun:
    """Fine-tune a BERT on a task of your own."""

    out: Path
    """Folder of the run, which is a model directory."""
    model: Path | None = None
    """Model directory to start from."""
    train: Rows = None
    """Labelled rows: csv, tsv, jsonl, parquet, CoNLL or SQuAD's JSON; in Python also rows."""
    validation: Rows = None
    """Rows to choose the best checkpoint by; without them a tenth of the training rows."""
    task: Literal["classification", "multi-label", "regression", "tagging", "span-qa"] | None = None
    """What to learn; found out from the training file when not given: columns of words are tagging, .json is span-qa."""
    seeds: tuple[int, ...] = (0,)
    """One training a seed; with several, mean and deviation of the figures."""
    folds: int | None = None
    """Cross-validation: train so many times, each time with another part of the rows held out."""
    resume: bool = False
    """Go on with the run in --out."""
    overwrite: bool = False
    """Replace the run in --out."""
    quiet: bool = False
    """Say nothing but errors."""
    columns: Annotated[Columns, PLAIN] = field(default_factory=Columns)
    tune: Annotated[TuneSettings, PLAIN] = field(default_factory=TuneSettings)
    limits: Annotated[LimitSettings, PLAIN] = field(default_factory=LimitSettings)
    saving: Annotated[SavingSettings, PLAIN] = field(default_factory=SavingSettings)
    hardware: Annotated[HardwareSettings, PLAIN] = field(default_factory=HardwareSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    head: HeadSettings = field(default_factory=HeadSettings)
    transfer: TransferSettings = field(default_factory=TransferSettings)
    # Zhang et al. 2021, "Revisiting few-sample BERT fine-tuning", sec. 4: without the correction small sets fail.
    optimizer: OptimizerSettings = field(default_factory=lambda: OptimizerSettings(bias_correction=True))

    def __post_init__(self) -> None:
        if self.optimizer.bias_correction is None:
            object.__setattr__(self, "optimizer", replace(self.optimizer, bias_correction=True))
        if self.limits.max_minutes:
            raise InputError("--max-minutes is for pretraining", remedy="use --epochs or --max-steps")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError("--seeds must name different numbers from 0", remedy="for example --seeds 1 2 3")
        if self.tune.held_out != TuneSettings().held_out and (self.validation is not None or self.folds is not None):
            raise InputError("--held-out has no place beside --validation or --folds", remedy="leave it out")
        if self.folds is not None:
            if self.folds < 2:
                raise InputError(f"--folds must be at least 2; got {self.folds}")
            if self.validation is not None or len(self.seeds) > 1:
                other = "--validation" if self.validation is not None else "several --seeds"
                raise InputError(f"--folds holds out its own rows: {other} cannot stand beside it", remedy="leave one out")
