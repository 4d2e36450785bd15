"""A fine-tuned model at work: texts, pairs, words or questions in; what its task says of them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertlite.config import from_dict, to_dict
from bertlite.corpus.rows import Row, kind_of, text_lines
from bertlite.errors import InputError
from bertlite.files import read_object
from bertlite.formats.huggingface import (
    check_vocabulary,
    load_weights,
    read_config,
    read_tokenizer,
    read_weights,
    task_of,
)
from bertlite.tasks.classification import Classification
from bertlite.tasks.multi_label import MultiLabel
from bertlite.tasks.readers import Columns
from bertlite.tasks.regression import Regression
from bertlite.tasks.sentences import DEFAULT_TAGS
from bertlite.tasks.span_qa import SpanQA
from bertlite.tasks.tagging import Tagging
from bertlite.tasks.task import Examples, Task, run_task
from bertlite.tasks.texts import TextEncoder
from bertlite.training.hardware import HardwareSettings, choose_device

TASKS: dict[str, type[Task]] = {task.name: task for task in (Classification, MultiLabel, Regression, Tagging, SpanQA)}
# The columns of each task where the flags name none.
USUAL_COLUMNS = {"tagging": {"label_column": DEFAULT_TAGS},
                 "span-qa": {"text_column": "question", "pair_column": "context", "label_column": "answers"}}
READ_IN_WINDOWS = ("tagging", "span-qa")  # every word of a long text is to be labelled, every place may hold the answer
# What of the columns each task has a use for, besides text and label.
USED_COLUMNS = {"classification": ("pair_column",), "multi-label": ("pair_column", "label_separator"),
                "regression": ("pair_column",), "tagging": ("words_column", "scheme", "split_words"), "span-qa": ("pair_column",)}


class Predictor:
    """A model with its task, tokenizer and labels."""

    def __init__(self, task: Task, model: nn.Module, *, columns: Columns | None = None, device: torch.device | None = None):
        self.device = device or torch.device("cpu")
        self.task, self.model = task, model.eval().to(self.device)
        self.columns = columns or usual_columns(task.name, Columns())

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, device: str = "auto", max_length: int | None = None,
                        threads: int | None = None) -> Predictor:
        """Open a fine-tuned model directory, ours or transformers'; raises InputError for one without a task's head."""
        folder = Path(folder)
        config, raw = read_config(folder)
        tokenizer, _ = read_tokenizer(folder)
        check_vocabulary(tokenizer, config, folder)
        extra = read_object(folder / "bertlite.json") if (folder / "bertlite.json").exists() else {}
        name = extra.get("task") or task_of(raw)
        if name not in TASKS:
            raise InputError("the model was not fine-tuned for a task" if name is None else f"the task {name!r} is not known",
                             where=folder, remedy="fine-tune it first: bertlite finetune")
        state = read_weights(folder)
        head = state.get("span.output.weight" if name == "span-qa" else "classifier.output.weight")
        if head is None:
            raise InputError(f"the weights have no head for {name}", where=folder, remedy="fine-tune it first: bertlite finetune")
        limit = config.max_positions
        length = min(extra.get("max_length") or limit, limit) if max_length is None else max_length
        overlap = extra.get("overlap") if max_length is None else None  # a quarter of another length
        texts = TextEncoder(tokenizer, length, limit=limit, overlap=overlap,
                            long_texts="windows" if name in READ_IN_WINDOWS else extra.get("long_texts", "cut"))
        task = TASKS[name].restored(raw, extra, texts, len(head))
        model = task.make_model(config)
        model.initialise(seed=0)  # type: ignore[operator]
        missing = load_weights(model, state, where=folder)
        if missing:
            raise InputError(f"the weights lack {missing[0]}", where=folder)
        columns = from_dict(Columns, to_dict(usual_columns(name, Columns())) | extra.get("columns", {}), where=folder)
        return cls(task, model, columns=columns, device=choose_device(HardwareSettings(device=device, threads=threads)))

    @property
    def labels(self) -> list[str]:
        """The labels' names in the order of their ids."""
        return self.task.labels

    @property
    def texts(self) -> TextEncoder:
        """What turns texts into sequences, and counts their lengths."""
        return self.task.texts

    def outputs(self, examples: Examples[Any], batch_size: int = 32) -> list[Any]:
        """Return the task's output of each example."""
        return run_task(self.task, self.model, examples, device=self.device, batch_size=batch_size)

    def predict(self, inputs: Sequence[Any], batch_size: int = 32) -> list[dict[str, Any]]:
        """Return what the task says of each input: a text, a pair, a list of words, or a question with its passage.

        Classification: `label`, its probability `score`, and `scores` of all labels. Multi-label: `labels` and `scores`.
        Regression: `value`. Tagging: `tags`, `scores` and `entities` (`entity_group, score, word, start, end`). Question
        answering: `answer`, `score`, `start`, `end` and `n_best`.
        """
        columns = self.columns if self.columns.pair_column else replace(self.columns, pair_column=_pair_of(inputs))
        items = [self.task.take(_row_of(value, columns), columns, "the inputs given", number, labelled=False)
                 for number, value in enumerate(inputs, start=1)]
        examples = Examples(items, list(range(1, len(items) + 1)), "the inputs given")
        return self.task.answers(self.outputs(examples, batch_size), examples)


def usual_columns(task: str, columns: Columns) -> Columns:
    """Return the columns with the names that are usual for a task where none was given."""
    usual = {name: value for name, value in USUAL_COLUMNS.get(task, {}).items() if getattr(columns, name) is None}
    return replace(columns, **usual)  # type: ignore[arg-type]


def columns_of(task: str, columns: Columns, source: Any) -> Columns:
    """Return the columns of a task's labelled rows; words and their tags are in columns of their own, unless rows hold lists."""
    columns = usual_columns(task, columns)
    if task != "tagging" or columns.format != "auto" or not isinstance(source, (str, Path)):
        return columns
    path = Path(source)
    holds_lists = kind_of(path) in (".jsonl", ".parquet", ".csv", ".json") or path.is_dir()
    if not holds_lists and kind_of(path) == ".tsv" and path.is_file():
        names = next(text_lines(path, columns.encoding), (0, ""))[1].split("\t")
        holds_lists = (columns.words_column or "words") in names
    return columns if holds_lists else replace(columns, format="columns")


def _pair_of(inputs: Sequence[Any]) -> str | None:
    return "pair" if any(isinstance(value, tuple) for value in inputs) else None


def _row_of(value: Any, columns: Columns) -> Row:
    if isinstance(value, str):
        return {columns.text_column or "text": value}
    if isinstance(value, tuple) and len(value) == 2:
        return {columns.text_column or "text": value[0], columns.pair_column or "pair": value[1]}
    if isinstance(value, list):
        return {columns.words_column or "words": value}
    raise InputError(f"an input must be a text, a pair or a list of words; got {type(value).__name__}")
