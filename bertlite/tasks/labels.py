"""Labels by their names: names in, ids out and back."""

from __future__ import annotations

from collections.abc import Iterable

from bertlite.errors import InputError, nearest


class Labels:
    """The labels of a task in the order of their ids: numbers ascending, else names in alphabetical order."""

    def __init__(self, names: Iterable[str]):
        self.names = list(names)
        self.ids = {name: index for index, name in enumerate(self.names)}

    @classmethod
    def found_in(cls, values: Iterable[str], where: str) -> Labels:
        """Collect the labels of training rows; raises InputError unless there are two."""
        distinct = sorted(set(values), key=lambda name: (0, float(name), name) if is_number(name) else (1, 0.0, name))
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


def is_number(name: str) -> bool:
    """Return whether a label's name is a number."""
    try:
        float(name)
    except ValueError:
        return False
    return True
