"""Packing: several short sequences share a row, and no attention crosses from one to another.

Source: Krell et al. 2021, "Efficient sequence packing without cross-contamination"; here first-fit by length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pack(lengths: Sequence[int], row_length: int) -> list[list[int]]:
    """Return rows of indices into `lengths`, each row's sum at most `row_length`: first-fit, longest first.

    The result depends on the lengths alone, and every index is in exactly one row.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    rows: list[list[int]] = []
    free = np.zeros(len(lengths), dtype=np.int64)
    for index in order:
        length = lengths[index]
        assert length <= row_length, f"a sequence of {length} tokens does not fit a row of {row_length}"
        fits = free[: len(rows)] >= length
        row = int(fits.argmax()) if fits.any() else len(rows)
        if row == len(rows):
            rows.append([])
            free[row] = row_length
        rows[row].append(index)
        free[row] -= length
    return rows


def deal(rows: Sequence[list[int]], *, num_processes: int, rows_at_once: int) -> list[list[list[list[int]]]]:
    """Deal rows to micro-batches and processes: `dealt[process][micro_batch]` is a list of rows.

    Every process gets equally many micro-batches, each of at most `rows_at_once` rows; one may be empty.
    """
    num_micro = max(1, -(-len(rows) // (num_processes * rows_at_once)))
    slots = num_micro * num_processes
    return [[list(rows[m * num_processes + p :: slots]) for m in range(num_micro)] for p in range(num_processes)]
