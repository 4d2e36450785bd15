"""Several trainings of the same thing, with seeds or folds: mean and deviation of every figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def summarise(trials: Sequence[dict[str, Any]], metric: str, direction: int) -> dict[str, Any]:
    """Join the results of trials, each with a `name` and `metrics`.

    Returns the best one's by `metric` (`direction` 1: the largest), its name under `best`, every trial's figures under
    `trials`, and their mean and sample deviation under `mean` and `sd`.
    """
    best = max(trials, key=lambda trial: direction * trial["metrics"][metric])
    names = [name for name in trials[0]["metrics"] if all(name in trial["metrics"] for trial in trials)]
    values = {name: [float(trial["metrics"][name]) for trial in trials] for name in names}
    return best | {
        "best": best["name"],
        "trials": [{"name": trial["name"], "metrics": trial["metrics"]} for trial in trials],
        "mean": {name: statistics.fmean(v) for name, v in values.items()},
        "sd": {name: statistics.stdev(v) if len(v) > 1 else 0.0 for name, v in values.items()},
    }
