"""Windows hold every word, whole, and each word has one in which its context is the largest."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bertlite.tasks.texts import word_sizes
from bertlite.tasks.windows import best_windows, cut_windows

CASES = st.tuples(st.lists(st.integers(1, 5), max_size=60), st.integers(5, 20), st.integers(0, 8))


@given(CASES)
def test_windows_hold_every_word_and_share_no_more_than_the_overlap(case):
    sizes, budget, overlap = case
    windows = cut_windows(sizes, budget, overlap)
    assert sorted({word for begin, end in windows for word in range(begin, end)}) == list(range(len(sizes)))
    assert all(sum(sizes[begin:end]) <= budget for begin, end in windows)
    for (_, before), (begin, end) in itertools.pairwise(windows):
        assert begin <= before < end and sum(sizes[begin:before]) <= max(overlap, 0)


@given(CASES)
def test_each_word_is_in_the_window_with_most_context(case):
    sizes, budget, overlap = case
    windows = cut_windows(sizes, budget, overlap)
    best = best_windows(windows, sizes)

    def context(word, begin, end):
        left = float("inf") if begin == 0 else sum(sizes[begin:word])
        right = float("inf") if end == len(sizes) else sum(sizes[word + 1 : end])
        return min(left, right)

    for word in range(len(sizes)):
        begin, end = windows[best[word]]
        assert begin <= word < end
        assert context(word, begin, end) == max(context(word, b, e) for b, e in windows if b <= word < e)


def test_a_text_that_fits_is_one_window():
    assert cut_windows([2, 3, 1], 6, 2) == [(0, 3)] and cut_windows([], 6, 2) == [(0, 0)]


def test_a_word_of_too_many_tokens_counts_as_several():
    assert word_sizes(np.array([0, 0, 1, 2, 2, 2, 2, 2]), 2).tolist() == [2, 1, 2, 2, 1]
