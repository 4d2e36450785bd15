"""Several trainings of the same thing: seeds, with mean and deviation of every figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def summarise(trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and sample deviation of each trial's `metrics`, {"mean": {...}, "sd": {...}}."""
    names = list(trials[0]["metrics"])
    values = {name: [float(trial["metrics"][name]) for trial in trials] for name in names}
    return {"mean": {name: statistics.fmean(v) for name, v in values.items()},
            "sd": {name: statistics.stdev(v) if len(v) > 1 else 0.0 for name, v in values.items()}}
