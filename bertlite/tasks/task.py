"""What fine-tuning, evaluation and prediction ask of a task, and how windows go through a model.

A row becomes an example, an example one window or several, a window logits; the task puts the logits of an example's
windows together into its output, says what the output means, and scores it.
Shapes: n examples or windows, M labelled positions of a window, C labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import nn

from bertlite.corpus.rows import Row
from bertlite.errors import InputError
from bertlite.inputs.batch import BatchItem
from bertlite.model.config import ModelConfig
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.readers import Columns, Text, open_table
from bertlite.tasks.texts import TextEncoder, length_batches

E = TypeVar("E")
WORST = 20  # errors that are kept for the report
LONGEST_SHOWN = 300  # characters


@dataclass
class Examples(Generic[E]):
    """Examples of a task with the lines they were read from."""

    items: list[E]
    lines: list[int]
    where: str

    def at(self, numbers: np.ndarray) -> Examples[E]:
        """Return some of the examples."""
        pick = numbers.tolist()
        return Examples([self.items[i] for i in pick], [self.lines[i] for i in pick], self.where)

    def __len__(self) -> int:
        return len(self.items)


@dataclass
class Windows:
    """Sequences for the encoder, each with the number of the example it is a window of, ascending."""

    items: list[BatchItem]
    owners: list[int]
    places: Sequence[Any] = ()
    """What the task needs to put each window's logits back in place."""

    def of(self, numbers: np.ndarray) -> Windows:
        """Return the windows of some examples, in ascending order, which are numbered anew."""
        place = {number: new for new, number in enumerate(numbers.tolist())}
        kept = [w for w, owner in enumerate(self.owners) if owner in place]
        places = [self.places[w] for w in kept] if self.places else ()
        return Windows([self.items[w] for w in kept], [place[self.owners[w]] for w in kept], places)


class Task(Protocol):
    """One way to use an encoder. Made from training examples or restored from a model directory; `tuned` on validation."""

    name: ClassVar[str]
    """As --task says."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Figures that a model can be chosen by, the default first; of "loss" and "mse" the smaller is better."""

    @property
    def texts(self) -> TextEncoder:
        """What turns texts into sequences."""

    @property
    def labels(self) -> list[str]:
        """The labels' names in the order of their ids; none where outputs are not labels."""

    @classmethod
    def learned_from(cls, examples: Examples[Any], texts: TextEncoder, head: HeadSettings) -> Self:
        """Return the task with the labels of training examples; raises InputError for examples it cannot learn from."""

    @classmethod
    def restored(cls, config: Mapping[str, Any], extra: Mapping[str, Any], texts: TextEncoder, num_outputs: int) -> Self:
        """Return the task of a model directory, from config.json and bertlite.json."""

    @staticmethod
    def take(row: Row, columns: Columns, where: str, line: int, *, labelled: bool) -> Any:
        """Return a row's example; raises InputError for a row that holds none."""

    @staticmethod
    def prepare(examples: Examples[Any], columns: Columns) -> Examples[Any]:
        """Return labelled examples in the form that the task learns and scores; raises InputError for what has none."""

    def make_model(self, config: ModelConfig) -> nn.Module:
        """Return the model, with weights not yet drawn."""

    def check(self, examples: Examples[Any]) -> None:
        """Raise InputError for a label that the task does not know, naming its line."""

    def windows(self, examples: Examples[Any], *, labelled: bool) -> Windows:
        """Return the examples' windows, for training with their labels; raises InputError for one that is not known."""

    def outputs(self, model: nn.Module, logits: list[np.ndarray], windows: Windows, examples: Examples[Any]) -> list[Any]:
        """Return each example's output."""

    def outputs_of(self, rows: Sequence[Row], prefix: str) -> list[Any]:
        """Return the outputs that rows written by `predict` tell of; KeyError for a column that is not there."""

    def tuned(self, outputs: list[Any], examples: Examples[Any]) -> Self:
        """Return the task with what is chosen on validation examples: thresholds, temperature."""

    def answers(self, outputs: list[Any], examples: Examples[Any]) -> list[dict[str, Any]]:
        """Return for each example what `predict` says of it."""

    def score(self, outputs: list[Any], examples: Examples[Any]) -> dict[str, float]:
        """Return the figures of outputs against the examples' labels."""

    def details(self, outputs: list[Any], examples: Examples[Any]) -> dict[str, Any]:
        """Return what a report shows beside the figures."""

    def strata(self, examples: Examples[Any]) -> np.ndarray:
        """Return (n,) int: examples of one number are shared out evenly when some are held out."""

    def groups(self, examples: Examples[Any]) -> np.ndarray:
        """Return (n,) int: examples of one number are held out together or not at all."""

    def config_entries(self) -> dict[str, Any]:
        """Return what config.json says of the task."""

    def extra(self) -> dict[str, Any]:
        """Return what bertlite.json says of the task."""

    def says(self, examples: Examples[Any]) -> list[str]:
        """Return what is worth saying of the training examples."""


def read_examples(task: type[Task] | Task, source: Any, columns: Columns) -> Examples[Any]:
    """Read all labelled examples of a file or of rows; raises InputError naming file and line, or when there are none."""
    table = open_table(source, columns)
    return examples_of(task, table.rows, columns, table.where)


def examples_of(task: type[Task] | Task, rows: Iterable[tuple[int, Row]], columns: Columns, where: str) -> Examples[Any]:
    """Return the labelled examples of rows with their lines; raises InputError naming the line, or when there are none."""
    examples: Examples[Any] = Examples([], [], where)
    for line, row in rows:
        examples.items.append(task.take(row, columns, where, line, labelled=True))
        examples.lines.append(line)
    if not examples.items:
        raise InputError("there are no rows", where=where)
    return task.prepare(examples, columns)


@torch.inference_mode()
def window_logits(model: nn.Module, items: Sequence[BatchItem], *, device: torch.device, pad_id: int, batch_size: int = 32,
                  ) -> list[np.ndarray]:
    """Return each item's logits, float32, in their order: (C,) of a sequence, (M, C) of its labelled positions."""
    was_training = model.training
    model.eval()
    found: list[np.ndarray] = [np.zeros(0, dtype=np.float32)] * len(items)
    for numbers, batch in length_batches(items, batch_size=batch_size, pad_id=pad_id):
        logits = model.logits(batch.to(device)).float().cpu().numpy()  # type: ignore[operator]
        sizes = [len(items[number].labelled_positions) for number in numbers]
        parts = np.split(logits, np.cumsum(sizes)[:-1]) if model.reads_tokens else list(logits)
        for number, part in zip(numbers, parts, strict=True):
            found[number] = part
    model.train(was_training)
    return found


def run_task(task: Task, model: nn.Module, examples: Examples[Any], *, device: torch.device, windows: Windows | None = None,
             batch_size: int = 32) -> list[Any]:
    """Return the outputs of a model for examples; `windows` are theirs, where they are cut already."""
    windows = windows or task.windows(examples, labelled=False)
    pad_id = task.texts.tokenizer.pad_id
    logits = window_logits(model, windows.items, device=device, pad_id=pad_id, batch_size=batch_size)
    return task.outputs(model, logits, windows, examples)


def shown(text: Text) -> str:
    """Return a text or a pair in one line, shortened for a report."""
    line = " ||| ".join(text) if isinstance(text, tuple) else text
    return line if len(line) <= LONGEST_SHOWN else line[: LONGEST_SHOWN - 1] + "…"


def is_better(metric: str) -> int:
    """Return 1 where a larger figure is better, -1 where a smaller one is."""
    return -1 if metric in ("loss", "mse") else 1
