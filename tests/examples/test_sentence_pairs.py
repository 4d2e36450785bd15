"""Next-sentence pairs: the paper's rules and the corrections to its code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlite.corpus.documents import Layout
from bertlite.corpus.store import DocumentSet
from bertlite.corpus.store_builder import build_store
from bertlite.draws import Purpose, stream
from bertlite.errors import InputError
from bertlite.examples.example import IS_NEXT, IS_RANDOM
from bertlite.examples.sentence_pairs import SentencePairs, _chunk_end, truncate_pair
from tests.oracles.pairs import chunk_end, truncated_lengths


@pytest.fixture
def pairs(sharded_store, tokenizer):
    return SentencePairs(DocumentSet(sharded_store), tokenizer, length=64, seed=5)


def owner(shard, sentence):
    return int(np.searchsorted(shard.documents, sentence, side="right") - 1)


def all_plans(pairs, epoch=0):
    return [pairs.plan(epoch, shard) for shard in range(pairs.documents.store.num_shards)]


@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.integers(2, 90))
def test_a_chunk_ends_where_the_oracle_says(lengths, target):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    assert _chunk_end(offsets, 0, len(lengths), target) == chunk_end(lengths, target)


@settings(max_examples=200)
@given(st.integers(1, 80), st.integers(1, 80), st.integers(2, 60), st.integers(0, 99))
def test_truncation_is_the_oracles_and_keeps_runs(first, second, longest, seed):
    a, b = np.arange(first), np.arange(100, 100 + second)
    cut_a, cut_b = truncate_pair(a, b, longest, stream(seed, Purpose.PAIR))
    assert (len(cut_a), len(cut_b)) == truncated_lengths(first, second, longest)
    assert all((np.diff(part) == 1).all() for part in (cut_a, cut_b))


def test_truncation_drops_from_both_ends():
    fronts = [truncate_pair(np.arange(50), np.arange(5), 15, stream(seed, Purpose.PAIR))[0][0] for seed in range(300)]
    assert 18 < np.mean(fronts) < 22  # 40 tokens go, each from the front with probability one half


def test_next_sentences_follow_and_random_ones_are_of_other_documents(pairs):
    store, next_, random = pairs.documents.store, 0, 0
    for plan in all_plans(pairs):
        shard = store.shard(plan.shard)
        for pair in plan.pairs:
            own = owner(shard, pair["a_begin"])
            assert owner(shard, pair["a_end"] - 1) == own
            partner = store.shard(int(pair["b_shard"]))
            assert owner(partner, pair["b_end"] - 1) == owner(partner, pair["b_begin"])
            if pair["label"] == IS_NEXT:
                assert (pair["b_shard"], pair["b_begin"]) == (plan.shard, pair["a_end"])
                next_ += 1
            else:
                assert (pair["b_shard"], owner(partner, pair["b_begin"])) != (plan.shard, own)
                random += 1
    assert next_ > 30 and random > 30


def test_every_sentence_of_a_document_with_two_is_seen_once(pairs):
    for plan in all_plans(pairs):
        shard, seen = pairs.documents.store.shard(plan.shard), []
        for pair in plan.pairs:
            end = pair["b_end"] if pair["label"] == IS_NEXT else pair["a_end"]
            seen += range(pair["a_begin"], end)
        wanted = [s for d in range(shard.num_documents) if shard.documents[d + 1] - shard.documents[d] > 1
                  for s in range(shard.documents[d], shard.documents[d + 1])]
        assert sorted(seen) == wanted


def test_partners_come_from_the_whole_corpus(pairs):
    plan = pairs.plan(0, 0)
    random = plan.pairs[plan.pairs["label"] == IS_RANDOM]
    assert len(set(random["b_shard"].tolist())) > 1


def test_partners_of_validation_are_held_out_too(sharded_store, tokenizer):
    held = DocumentSet(sharded_store, "validation", 0.3)
    pairs = SentencePairs(held, tokenizer, length=64, seed=1)
    for plan in all_plans(pairs):
        for pair in plan.pairs:
            shard = sharded_store.shard(int(pair["b_shard"]))
            assert owner(shard, pair["b_begin"]) in held.members(int(pair["b_shard"]))


def test_half_of_the_pairs_are_random(store, tokenizer):
    pairs = SentencePairs(DocumentSet(store), tokenizer, length=32, seed=0)
    shares = [pairs.plan(epoch, 0).random_share for epoch in range(20)]
    rows = sum(len(pairs.plan(epoch, 0)) for epoch in range(20))
    assert abs(np.mean(shares) - 0.5) < 4 * 0.5 / rows**0.5


def test_an_example_is_two_segments_within_the_length(pairs, tokenizer):
    for plan in all_plans(pairs):
        for row in range(len(plan)):
            ids, segments, label = plan.example(row)
            assert ids[0] == tokenizer.cls_id and ids[-1] == tokenizer.sep_id and len(ids) <= 64
            middle = np.flatnonzero(ids == tokenizer.sep_id)
            assert len(middle) == 2 and segments[middle[0]] == 0 and segments[middle[0] + 1] == 1
            assert label in (IS_NEXT, IS_RANDOM)


def test_a_tenth_of_the_chunks_has_a_shorter_target(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text("\n\n".join(["\n".join(["the man and the."] * 2000)] * 4))
    layout = Layout(line="sentence", language="en")
    documents = DocumentSet(build_store([tmp_path / "a.txt"], tokenizer, layout, tmp_path / "store"))
    plan = SentencePairs(documents, tokenizer, length=128, seed=3).plan(0, 0)
    shorts = np.array([(p["a_end"] - p["a_begin"] + p["b_end"] - p["b_begin"]) * 5 < 120 for p in plan.pairs])
    assert len(shorts) > 200
    assert abs(shorts.mean() - 0.1) < 4 * (0.1 * 0.9 / len(shorts)) ** 0.5


def test_each_epoch_has_new_pairs_and_each_plan_is_rebuilt_equal(pairs, sharded_store, tokenizer):
    again = SentencePairs(DocumentSet(sharded_store), tokenizer, length=64, seed=5)
    np.testing.assert_array_equal(pairs.plan(3, 1).pairs, again.plan(3, 1).pairs)
    assert not np.array_equal(pairs.plan(0, 1).pairs[:5], pairs.plan(1, 1).pairs[:5])


@pytest.mark.parametrize(("text", "words"), [
    ("One. Two. Three.\n", "needs two documents; there is 1"),
    ("One.\n\nTwo.\n\nThree.\n\nFour. Five.\n", "75% of the documents are a single sentence"),
])
def test_a_corpus_without_next_sentences_is_refused(tmp_path, tokenizer, text, words):
    (tmp_path / "a.txt").write_text(text)
    store = build_store([tmp_path / "a.txt"], tokenizer, Layout(language="en"), tmp_path / "store")
    with pytest.raises(InputError, match=words + ".*--objective mlm"):
        SentencePairs(DocumentSet(store), tokenizer, length=32, seed=0)


@pytest.mark.slow
def test_the_balance_holds_on_wikipedia(shared, tmp_path, tokenizer):
    store = build_store([shared / "raw-en-wikipedia" / "wiki-en-train-00.txt"], tokenizer, Layout(language="en"), tmp_path / "store")
    for length in (32, 128, 512):
        assert 0.49 < SentencePairs(DocumentSet(store), tokenizer, length=length, seed=0).plan(0, 0).random_share < 0.51
