"""Rows of consecutive sentences."""

import numpy as np

from bertlite.corpus.store import DocumentSet
from bertlite.examples.full_sentences import FullSentences


def test_rows_cover_every_token_once_and_stay_in_a_document(store, tokenizer):
    source = FullSentences(DocumentSet(store), tokenizer, length=48, seed=0)
    rows = np.array(sorted(source.plan(0, 0).rows.tolist()))
    shard = store.shard(0)
    np.testing.assert_array_equal(rows[1:, 0], rows[:-1, 1])
    assert rows[0, 0] == 0 and rows[-1, 1] == len(shard.ids)
    ends = set(np.asarray(shard.sentences)[shard.documents].tolist())
    assert all(not any(begin < end < stop for end in ends) for begin, stop in rows.tolist())


def test_a_row_ends_between_sentences_unless_one_is_too_long(store, tokenizer):
    source = FullSentences(DocumentSet(store), tokenizer, length=48, seed=0)
    ends = set(np.asarray(store.shard(0).sentences).tolist())
    for begin, end in source.plan(0, 0).rows.tolist():
        assert end - begin <= 46
        assert end in ends or end - begin == 46
        next_end = min((e for e in ends if e > end), default=None)
        assert next_end is None or next_end - begin > 46 or end in np.asarray(store.shard(0).sentences)[store.shard(0).documents]


def test_an_example_is_one_segment_without_a_pair_label(store, tokenizer):
    example = FullSentences(DocumentSet(store), tokenizer, length=48, seed=0).plan(0, 0).example(0)
    assert example.label == -100 and not example.segment_ids.any()
    assert (example.input_ids[0], example.input_ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)


def test_epochs_differ_in_order(store, tokenizer):
    source = FullSentences(DocumentSet(store), tokenizer, length=48, seed=0)
    first, second = source.plan(0, 0).rows, source.plan(1, 0).rows
    assert not np.array_equal(first, second) and sorted(first.tolist()) == sorted(second.tolist())
