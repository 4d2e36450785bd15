"""Texts longer than the model: overlapping windows of whole words, and for each word the window with most context.

A window never begins inside a word. Shapes: W words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def cut_windows(sizes: Sequence[int] | np.ndarray, budget: int, overlap: int) -> list[tuple[int, int]]:
    """Return windows as ranges of words, (first, one past the last); together they hold every word.

    `sizes` (W,) are the words' tokens, none above `budget`, the tokens of a window; neighbours share at most `overlap`
    tokens. No words make one empty window.
    """
    ends = np.cumsum(sizes)
    total = len(ends)
    windows, begin = [], 0
    while True:
        before = ends[begin - 1] if begin else 0
        end = int(np.searchsorted(ends, before + budget, side="right"))
        windows.append((begin, end))
        if end >= total:
            return windows
        # The next one begins with as many whole words as the overlap holds, and as leave room for the first new word.
        least = max(ends[end - 1] - overlap, ends[end] - budget)
        begin = min(end, int(np.searchsorted(ends, least, side="left")) + 1)


def best_windows(windows: Sequence[tuple[int, int]], sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return for each word the number of the window with most context on its scarcer side, (W,).

    At the ends of the text there is no more context to be had, so only the other side counts.
    """
    sizes = np.asarray(sizes)
    ends = np.cumsum(sizes)
    total = len(ends)
    best, most = np.zeros(total, dtype=np.int64), np.full(total, -1.0)
    for number, (begin, end) in enumerate(windows):
        words = np.arange(begin, end)
        left = np.full(len(words), np.inf) if begin == 0 else ends[words] - sizes[words] - ends[begin - 1]
        right = np.full(len(words), np.inf) if end == total else ends[end - 1] - ends[words]
        context = np.minimum(left, right)
        better = context > most[words]
        best[words[better]], most[words[better]] = number, context[better]
    return best
