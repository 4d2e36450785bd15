"""The token store: what goes in comes out, whole or not at all."""

import json
import os

import numpy as np
import pytest

from bertlite.corpus import store_builder as module
from bertlite.corpus.documents import Layout
from bertlite.corpus.prefetch import prefetch
from bertlite.corpus.store import DocumentSet, TokenStore
from bertlite.corpus.store_builder import build_store
from bertlite.errors import InputError

LAYOUT = Layout(language="en")


def texts(store, tokenizer):
    shards = [store.shard(i) for i in range(store.num_shards)]
    return [[tokenizer.decode(shard.tokens(s, s + 1)) for s in range(shard.documents[d], shard.documents[d + 1])]
            for shard in shards for d in range(shard.num_documents)]


def test_the_store_holds_every_sentence_in_order(store, sharded_store, documents, tokenizer):
    expected = [[tokenizer.decode(tokenizer.encode_texts([s])[0]) for s in d.sentences()] for d in documents]
    assert texts(store, tokenizer) == expected
    assert sharded_store.num_shards > 3
    assert texts(sharded_store, tokenizer) == expected


def test_counts_are_those_of_a_plain_count(store, documents, tokenizer):
    sentences = [s for d in documents for s in d.sentences()]
    ids = [i for encoded in tokenizer.encode_texts(sentences) for i in encoded]
    assert store.counts.documents == len(documents)
    assert store.counts.sentences == len(sentences)
    assert store.counts.characters == sum(map(len, sentences))
    assert store.counts.tokens == len(ids)
    assert store.counts.words == sum(not tokenizer.tokens[i].startswith("##") for i in ids)
    assert store.counts.unknown == ids.count(tokenizer.unk_id)
    np.testing.assert_array_equal(store.unigram_counts(), np.bincount(ids, minlength=tokenizer.vocab_size))


def test_the_held_out_documents_are_apart_and_fixed(sharded_store):
    training, held = DocumentSet(sharded_store, "train", 0.2), DocumentSet(sharded_store, "validation", 0.2)
    for shard in range(sharded_store.num_shards):
        both = np.concatenate([training.members(shard), held.members(shard)])
        assert sorted(both.tolist()) == list(range(sharded_store.documents_per_shard[shard]))
    assert len(training) + len(held) == sharded_store.counts.documents
    np.testing.assert_array_equal(held.members(0), DocumentSet(sharded_store, "validation", 0.2).members(0))
    np.testing.assert_array_equal(training.unigram_counts() + held.unigram_counts(), sharded_store.unigram_counts())


def test_documents_are_found_by_number(sharded_store):
    training = DocumentSet(sharded_store, "train", 0.2)
    shards, numbers = training.locate(np.arange(len(training)))
    found = list(zip(shards.tolist(), numbers.tolist(), strict=True))
    assert found == [(s, int(d)) for s in range(sharded_store.num_shards) for d in training.members(s)]


def test_a_store_is_reused_until_something_changes(tmp_path, tokenizer):
    source, said = tmp_path / "a.txt", []
    source.write_text("One. Two.\n\nThree. Four.\n")
    build_store([source], tokenizer, LAYOUT, tmp_path / "store", say=said.append)
    build_store([source], tokenizer, LAYOUT, tmp_path / "store", say=said.append)
    assert said[-1].startswith("corpus as before")
    source.write_text("One. Two.\n\nThree. Four. Five.\n")
    build_store([source], tokenizer, LAYOUT, tmp_path / "store", say=said.append)
    assert said[-2] == "the corpus files changed: building the token store again"
    build_store([source], tokenizer, Layout(language="de"), tmp_path / "store", say=said.append)
    assert said[-2] == "the corpus layout changed: building the token store again"


def test_a_store_interrupted_half_way_is_not_whole(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(module, "SHARD_TOKENS", 1)
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 1)
    good, bad = tmp_path / "a.txt", tmp_path / "b.txt"
    good.write_text("One. Two.\n\nThree. Four.\n")
    bad.write_bytes(b"Five. \xff\n")
    with pytest.raises(InputError, match=r"b\.txt, line 1"):
        build_store([good, bad], tokenizer, LAYOUT, tmp_path / "store")
    with pytest.raises(InputError, match="not a whole token store"):
        TokenStore(tmp_path / "store")
    bad.write_text("Five.\n")
    store = build_store([good, bad], tokenizer, LAYOUT, tmp_path / "store")
    assert store.counts.sentences == 5 and store.num_shards == 3


def test_a_rebuild_that_fails_leaves_the_old_store(tmp_path, tokenizer):
    source = tmp_path / "a.txt"
    source.write_text("One. Two.\n")
    build_store([source], tokenizer, LAYOUT, tmp_path / "store")
    source.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="line 1"):
        build_store([source], tokenizer, LAYOUT, tmp_path / "store")
    assert TokenStore(tmp_path / "store").counts.sentences == 2


def test_a_damaged_shard_is_named(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text("One. Two.\n")
    store = build_store([tmp_path / "a.txt"], tokenizer, LAYOUT, tmp_path / "store")
    os.truncate(store.folder / "shard-00000" / "ids.bin", 2)
    with pytest.raises(InputError, match="shard-00000"):
        TokenStore(tmp_path / "store").shard(0)


def test_text_without_tokens_is_refused(tmp_path, tokenizer):
    for name, text in (("empty.txt", "\n\n"), ("control.txt", "\x01\x02\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match="no text"):
            build_store([tmp_path / name], tokenizer, LAYOUT, tmp_path / "store")


def test_fingerprints_are_written(store, corpus):
    description = json.loads((store.folder / "store.json").read_text())
    assert description["sources"][0]["path"] == str(corpus) and len(description["sources"][0]["sha256"]) == 64


def test_prefetch_hands_over_items_and_errors():
    def items():
        yield 1
        raise ValueError("late")

    iterator = prefetch(items(), depth=2)
    assert next(iterator) == 1
    with pytest.raises(ValueError, match="late"):
        next(iterator)
    assert list(prefetch(iter(range(10)), depth=2)) == list(range(10))
