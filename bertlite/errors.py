"""The user's error: what is wrong, where, and what would be right.

The command line prints it as one sentence and exits with 2; in Python it is an ordinary ValueError.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class InputError(ValueError):
    """Input or settings that cannot be used; the message says what, where and what would be right."""

    def __init__(self, what: str, *, where: str | Path | None = None, line: int | None = None, remedy: str = ""):
        place = "" if where is None else f"{where}" + (f", line {line:,}" if line is not None else "") + ": "
        super().__init__(f"{place}{what}" + (f"; {remedy}" if remedy else ""))


class Stopped(Exception):
    """A run that was asked to stop and saved its state; `code` is the exit status, the message says how to go on."""

    def __init__(self, message: str, *, code: int):
        super().__init__(message)
        self.code = code


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean X?" for the known name most like `name`, or an empty string."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f", did you mean {matches[0]}?" if matches else ""
