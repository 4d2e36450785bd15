"""Packing and dealing lose nothing and depend on the lengths alone."""

from hypothesis import given
from hypothesis import strategies as st

from bertlite.inputs.packing import deal, pack


@given(st.lists(st.integers(1, 64), max_size=60))
def test_every_sequence_is_in_one_row_and_fits(lengths):
    rows = pack(lengths, 64)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in row) <= 64 for row in rows)


def test_the_longest_comes_first_and_the_first_row_that_fits_is_taken():
    assert pack([2, 6, 3, 5], 8) == [[1, 0], [3, 2]]


@given(st.integers(0, 40), st.integers(1, 4), st.integers(1, 8))
def test_every_row_is_dealt_once_and_micro_batches_agree(num_rows, processes, rows_at_once):
    dealt = deal([[i] for i in range(num_rows)], num_processes=processes, rows_at_once=rows_at_once)
    assert len(dealt) == processes and len({len(micro) for micro in dealt}) == 1
    assert sorted(row[0] for process in dealt for micro in process for row in micro) == list(range(num_rows))
    assert all(len(micro) <= rows_at_once for process in dealt for micro in process)
