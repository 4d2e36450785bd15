"""What tasks of whole texts share: a row is a text or a pair, its output the mean of its windows' logits.

Shapes: n texts, C outputs of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from bertlite.corpus.rows import Row
from bertlite.inputs.batch import Label
from bertlite.tasks.readers import Columns, Text, take_text
from bertlite.tasks.task import Examples, Windows
from bertlite.tasks.texts import TextEncoder


@dataclass(frozen=True)
class LabelledText:
    """A text or a pair, and its label as the task has it; None where labels are not read."""

    text: Text
    label: Any = None


@dataclass(frozen=True)
class TextTask(ABC):
    """Texts or pairs; the output of a text is its logits (C,)."""

    texts: TextEncoder

    @staticmethod
    @abstractmethod
    def take_label(row: Row, columns: Columns, where: str, line: int) -> Any:
        """Return a row's label; raises InputError for a row without one."""

    @classmethod
    def take(cls, row: Row, columns: Columns, where: str, line: int, *, labelled: bool) -> LabelledText:
        """Return a row's text and, if `labelled`, its label; raises InputError for a row without them."""
        text = take_text(row, columns, where, line)
        return LabelledText(text, cls.take_label(row, columns, where, line) if labelled else None)

    @staticmethod
    def prepare(examples: Examples[LabelledText], columns: Columns) -> Examples[LabelledText]:
        """Return the examples as they are."""
        return examples

    @abstractmethod
    def targets(self, examples: Examples[LabelledText]) -> Sequence[Label]:
        """Return what the model learns of each text; raises InputError for a label that is not known."""

    def check(self, examples: Examples[LabelledText]) -> None:
        """Raise InputError for a label that the training rows do not have."""
        self.targets(examples)

    def windows(self, examples: Examples[LabelledText], *, labelled: bool) -> Windows:
        """Return the texts' windows."""
        targets = self.targets(examples) if labelled else None
        return Windows(*self.texts.windows([item.text for item in examples.items], targets))

    def outputs(self, model: nn.Module, logits: list[np.ndarray], windows: Windows, examples: Examples[LabelledText],
                ) -> list[np.ndarray]:
        """Return the mean logits of each text's windows."""
        if not logits:
            return []
        sums = np.zeros((len(examples), len(logits[0])))
        np.add.at(sums, windows.owners, logits)
        return list(sums / np.bincount(windows.owners, minlength=len(examples))[:, None])

    def groups(self, examples: Examples[LabelledText]) -> np.ndarray:
        """Return a group for each text."""
        return np.arange(len(examples))
