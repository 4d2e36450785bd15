"""Where a run speaks: lines on standard error, from one process, unless it is quiet."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from tqdm import tqdm


@dataclass
class Console:
    """Says lines."""

    quiet: bool = False

    def say(self, line: str) -> None:
        """Write one line to standard error, above a progress bar."""
        if not self.quiet and is_main_process():
            tqdm.write(line, file=sys.stderr)
            sys.stderr.flush()


def duration(seconds: float) -> str:
    """Return seconds in words: 40 s, 12 min, 3 h 20 min, 2 days 4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"


def is_main_process() -> bool:
    """Return whether this is the first of the processes that torchrun or accelerate started, or the only one."""
    return int(os.environ.get("RANK", "0")) == 0
