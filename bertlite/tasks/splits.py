"""Which examples are held out: a share of them, or fold after fold; every stratum has its part, and no group is divided.

Shapes: n examples.
"""

from __future__ import annotations

import numpy as np

from bertlite.draws import Purpose, stream
from bertlite.errors import InputError


def hold_out(strata: np.ndarray, groups: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return the numbers of the examples to hold out, ascending: `share` of each stratum's groups, one at least of two.

    `strata` and `groups` are (n,); a group is of the stratum of its first example. Raises InputError when no stratum has two
    groups.
    """
    held = []
    for members in _shuffled(strata, groups, seed):
        count = min(max(1, round(share * len(members))), len(members) - 1)
        held.append(members[:count])
    chosen = np.flatnonzero(np.isin(groups, np.concatenate(held)))
    if not len(chosen):
        raise InputError("there are too few rows to hold some out: no label has two, or questions have one passage",
                         remedy="give --validation, or another --label-column")
    return chosen


def folds(strata: np.ndarray, groups: np.ndarray, num_folds: int, seed: int) -> list[np.ndarray]:
    """Return the numbers of each fold's examples, ascending; together they are all, and every stratum is dealt out evenly.

    Raises InputError when there are fewer groups than folds.
    """
    fold_of: dict[int, int] = {}
    for members in _shuffled(strata, groups, seed):
        # One stratum goes on where the last one ended, so that small strata do not all fall to the first folds.
        fold_of |= {int(group): (len(fold_of) + place) % num_folds for place, group in enumerate(members)}
    if len(fold_of) < num_folds:
        raise InputError(f"--folds {num_folds} is more than there are rows or passages to part, {len(fold_of)}")
    dealt = np.array([fold_of[int(group)] for group in groups])
    return [np.flatnonzero(dealt == fold) for fold in range(num_folds)]


def _shuffled(strata: np.ndarray, groups: np.ndarray, seed: int) -> list[np.ndarray]:
    """Return each stratum's groups in an order drawn from (seed, stratum)."""
    distinct, firsts = np.unique(groups, return_index=True)
    stratum_of = strata[firsts]
    return [stream(seed, Purpose.HOLD_OUT, 0, place).permutation(distinct[stratum_of == stratum])
            for place, stratum in enumerate(np.unique(stratum_of))]
