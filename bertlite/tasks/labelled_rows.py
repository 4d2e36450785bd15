"""Labelled rows: texts or pairs with the names of their labels, and the lines they were read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bertlite.errors import InputError
from bertlite.tasks.readers import Columns, Text, open_table, take_label, take_text


@dataclass
class LabelledRows:
    """Texts with their labels and the places they were read from."""

    texts: list[Text]
    labels: list[str]
    lines: list[int]
    where: str

    def at(self, numbers: np.ndarray) -> LabelledRows:
        """Return some of the rows."""
        pick = numbers.tolist()
        texts, labels, lines = ([values[i] for i in pick] for values in (self.texts, self.labels, self.lines))
        return LabelledRows(texts, labels, lines, self.where)


def read_labelled(source: Any, columns: Columns) -> LabelledRows:
    """Read texts and labels; raises InputError naming file and line, or when there are no rows."""
    table = open_table(source, columns)
    rows = LabelledRows([], [], [], table.where)
    for line, row in table.rows:
        rows.texts.append(take_text(row, columns, table.where, line))
        rows.labels.append(take_label(row, columns, table.where, line))
        rows.lines.append(line)
    if not rows.texts:
        raise InputError("there are no rows", where=table.where)
    return rows
