"""Labels by their names: names in, ids out and back; and a held-out tenth in which every label has its share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bertlite.draws import Purpose, stream
from bertlite.errors import InputError, nearest


class Labels:
    """The labels of a task in the order of their ids: numbers ascending, else names in alphabetical order."""

    def __init__(self, names: Iterable[str]):
        self.names = list(names)
        self.ids = {name: index for index, name in enumerate(self.names)}

    @classmethod
    def found_in(cls, values: Iterable[str], where: str) -> Labels:
        """Collect the labels of training rows; raises InputError unless there are two."""
        distinct = sorted(set(values), key=lambda name: (0, float(name), name) if _is_number(name) else (1, 0.0, name))
        if len(distinct) < 2:
            raise InputError(f"the training rows have {len(distinct)} label, a classifier needs two", where=where)
        return cls(distinct)

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, name: str, where: str, line: int) -> int:
        """Return a label's id; raises InputError for a label that the training rows do not have."""
        if name not in self.ids:
            raise InputError(f"the label {name!r} is not in the training rows{nearest(name, self.names)}", where=where,
                             line=line)
        return self.ids[name]


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def hold_out(label_ids: Sequence[int], share: float, seed: int) -> np.ndarray:
    """Return the row numbers to hold out, ascending: `share` of each label's rows, at least one where it has two.

    Raises InputError when no label has two rows.
    """
    ids = np.asarray(label_ids)
    held = []
    for label in np.unique(ids):
        rows = np.flatnonzero(ids == label)
        count = max(1, round(share * len(rows))) if len(rows) > 1 else 0
        held.append(stream(seed, Purpose.HOLD_OUT, 0, int(label)).permutation(rows)[:count])
    chosen = np.sort(np.concatenate(held))
    if not len(chosen):
        raise InputError("no label has two rows, so none can be held out", remedy="give --validation, or another --label-column")
    return chosen
