"""The rows of a fine-tuning: read, given to their task, held out, and cut into windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertlite.corpus.rows import kind_of
from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError, nearest
from bertlite.formats.sentence_transformers import read_sentence_model
from bertlite.model.config import ModelConfig
from bertlite.runs.finetune_settings import FinetuneRun
from bertlite.tasks.conll import SUFFIXES as CONLL
from bertlite.tasks.predictor import READ_IN_WINDOWS, TASKS, USED_COLUMNS, columns_of
from bertlite.tasks.readers import Columns
from bertlite.tasks.splits import folds, hold_out
from bertlite.tasks.task import Examples, Task, Windows, read_examples
from bertlite.tasks.texts import TextEncoder


@dataclass(frozen=True)
class Part:
    """What one training learns from and is measured on, cut into windows."""

    training: Windows
    validation: Windows
    examples: Examples[Any]
    """Of the validation."""


@dataclass(frozen=True)
class FinetuneRows:
    """What the rows of a run come to."""

    task: Task
    columns: Columns
    metric: str
    """The figure that the best model is chosen by."""
    parts: list[Part]
    """One, or one for each fold."""
    held_out: dict[str, Any] | None
    """The lines that were held out, with their file; None where validation rows were given."""


def read_rows(run: FinetuneRun, config: ModelConfig, tokenizer: WordPiece, say: Callable[[str], None]) -> FinetuneRows:
    """Read a run's rows; raises InputError for rows, or settings, that its task cannot use."""
    kind = TASKS[run.task or _task_of(run.train)]
    run.columns.check(f"--task {kind.name}", *USED_COLUMNS[kind.name])
    columns = columns_of(kind.name, run.columns, run.train)
    rows = read_examples(kind, run.train, columns)
    in_windows = kind.name in READ_IN_WINDOWS
    _check_long_texts(run, columns, kind.name, in_windows=in_windows)
    texts = TextEncoder(tokenizer, _length(run, config), limit=config.max_positions, overlap=run.tune.overlap,
                        long_texts="windows" if in_windows else run.tune.long_texts)
    task = kind.learned_from(rows, texts, run.head)
    metric = _metric(run, task)
    for line in (f"{kind.name}: {len(rows):,} rows", *task.says(rows)):
        say(line)
    if run.validation is not None:
        parts, held_out = [_given(run, task, rows)], None
    else:
        parts, held_out = _held_out(run, task, rows)
    if not all(part.training.items for part in parts):
        raise InputError("no row can be learned from", where=rows.where)
    cut = texts.report()
    if cut:
        say(cut)
    return FinetuneRows(task, columns, metric, parts, held_out)


def _task_of(source: Any) -> str:
    """Return the task that a training file's kind speaks of."""
    kind = kind_of(Path(source)) if isinstance(source, (str, Path)) else ""
    return "tagging" if kind in CONLL else "span-qa" if kind == ".json" else "classification"


def _check_long_texts(run: FinetuneRun, columns: Columns, task: str, *, in_windows: bool) -> None:
    way = run.tune.long_texts
    if in_windows and way != "cut":
        raise InputError(f"--long-texts {way} is not for --task {task}, which reads long texts in windows")
    if way != "cut" and columns.pair_column:
        raise InputError(f"--long-texts {way} is for single texts", remedy="leave it or --pair-column out")
    if run.tune.overlap is not None and not in_windows and way != "windows":
        raise InputError("--overlap is for windows", remedy="add --long-texts windows")


def _length(run: FinetuneRun, config: ModelConfig) -> int:
    """Return the tokens of a text: what was asked for, else what the model's own files say, else its limit."""
    if run.tune.max_length is not None:
        return run.tune.max_length
    return min(read_sentence_model(run.model or "").max_length or config.max_positions, config.max_positions)


def _metric(run: FinetuneRun, task: Task) -> str:
    metric = run.selection.metric or task.metrics[0]
    if metric not in task.metrics:
        raise InputError(f"--selection.metric {metric!r} is not a figure of {task.name}{nearest(metric, task.metrics)}",
                         remedy=f"one of {', '.join(task.metrics)}")
    return metric


def _given(run: FinetuneRun, task: Task, rows: Examples[Any]) -> Part:
    validation = read_examples(task, run.validation, columns_of(task.name, run.columns, run.validation))
    task.check(validation)
    return Part(task.windows(rows, labelled=True), task.windows(validation, labelled=False), validation)


def _held_out(run: FinetuneRun, task: Task, rows: Examples[Any]) -> tuple[list[Part], dict[str, Any]]:
    """Return what is learned and what is held out, once or for each fold, and the lines of the latter."""
    strata, groups = task.strata(rows), task.groups(rows)
    if run.folds is not None:
        held_out = folds(strata, groups, run.folds, seed=0)
    else:
        held_out = [hold_out(strata, groups, run.tune.held_out, seed=0)]
    learned = task.windows(rows, labelled=True)
    counted = task.texts.lengths_before.copy()  # each text once, though it is learned from and measured on
    measured = task.windows(rows, labelled=False)
    task.texts.lengths_before = counted
    everything = np.arange(len(rows))
    parts = [Part(learned.of(np.setdiff1d(everything, held)), measured.of(held), rows.at(held)) for held in held_out]
    lines = [rows.at(held).lines for held in held_out]
    return parts, {"file": rows.where} | ({"folds": lines} if run.folds is not None else {"lines": lines[0]})
