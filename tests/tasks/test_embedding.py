"""Embeddings equal sentence-transformers', whatever the batch, and know their characters."""

import numpy as np
import pytest
import torch

from bertlite.errors import InputError
from bertlite.tasks.embedding import Embedder

TEXTS = ["The fox ran over the hill.", "A much longer sentence, with commas, that has more than a few words in it.", "Short.", "",
         "Überraschung! 12,000 people came. 🙂 狐狸", "the fox " * 300]


@pytest.fixture(scope="module")
def embedder(minilm):
    return Embedder.from_pretrained(minilm, device="cpu")


@pytest.fixture(scope="module")
def peer(minilm):
    return pytest.importorskip("sentence_transformers").SentenceTransformer(str(minilm), device="cpu")


def test_vectors_are_sentence_transformers(embedder, peer):
    np.testing.assert_allclose(embedder.encode(TEXTS), peer.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(embedder.encode(TEXTS[0]), peer.encode(TEXTS[0]), atol=1e-5)
    np.testing.assert_allclose(embedder.encode(TEXTS, truncate_dim=64), peer.encode(TEXTS, truncate_dim=64), atol=1e-5)


def test_vectors_do_not_depend_on_the_batch(embedder):
    whole = embedder.encode(TEXTS * 3, batch_size=32)
    for batch_size in (1, 5):
        np.testing.assert_allclose(embedder.encode(TEXTS * 3, batch_size=batch_size), whole, atol=1e-6)


@pytest.mark.parametrize("pooling", ["cls", "max"])
def test_other_poolings_are_what_they_say(minilm, pooling):
    embedder = Embedder.from_pretrained(minilm, device="cpu", pooling=pooling)
    embedder.normalize = False
    ids = embedder.tokenizer.backend.encode(TEXTS[0]).ids
    from bertlite.formats.huggingface import load_model

    with torch.inference_mode():
        states = load_model(minilm)(torch.tensor([ids])).sequence_output[0]
    expected = states[0] if pooling == "cls" else states.amax(0)
    np.testing.assert_allclose(embedder.encode([TEXTS[0], TEXTS[1]])[0], expected.numpy(), atol=1e-5)


def test_layers_are_averaged_or_concatenated(embedder):
    mean = embedder.encode(TEXTS[:2], layers=(-1, -2, -3, -4))
    joined = embedder.encode(TEXTS[:2], layers=(-1, -2, -3, -4), combine="concat")
    assert mean.shape == (2, 384) and joined.shape == (2, 4 * 384)
    np.testing.assert_allclose(embedder.encode(TEXTS[:2], layers=(6,)), embedder.encode(TEXTS[:2]), atol=1e-6)
    with pytest.raises(InputError, match="the model has layers 0"):
        embedder.encode(TEXTS[:2], layers=(9,))


def test_no_texts_give_no_rows(embedder):
    assert embedder.encode([]).shape == (0, 384)
    assert isinstance(embedder.encode(TEXTS[:2], convert_to_numpy=False), torch.Tensor)


def test_tokens_know_their_characters(embedder):
    for text, found in zip(TEXTS, embedder.encode_tokens(TEXTS), strict=True):
        assert found.vectors.shape == (len(found.tokens), 384)
        for token, (begin, end) in zip(found.tokens, found.offsets.tolist(), strict=True):
            assert 0 <= begin < end <= len(text)
            if token.isascii() and token != "[UNK]":
                assert text[begin:end].lower().replace("ü", "u") == token.removeprefix("##")


def test_words_average_their_pieces(embedder):
    text = "An unbelievable fox."
    tokens, words = (embedder.encode_tokens([text], level=level)[0] for level in ("token", "word"))
    assert words.tokens == ["An", "unbelievable", "fox", "."]
    inside = (tokens.offsets[:, 0] >= 3) & (tokens.offsets[:, 1] <= 15)
    np.testing.assert_allclose(words.vectors[1], tokens.vectors[inside].mean(0), atol=1e-6)


def test_token_vectors_do_not_depend_on_the_batch(embedder):
    alone = embedder.encode_tokens([TEXTS[1]])[0]
    among = embedder.encode_tokens(TEXTS)[1]
    np.testing.assert_allclose(alone.vectors, among.vectors, atol=1e-5)


@pytest.mark.slow
def test_two_thousand_real_sentences_of_mixed_length(minilm, shared, peer):
    lines = (shared / "cls-en-sentence-polarity" / "rt-polarity.pos").read_text(encoding="utf-8").splitlines()[:1500]
    lines += (shared / "raw-en-wikipedia" / "wiki-en-train-00.txt").read_text(encoding="utf-8").split("\n")[:500]
    embedder = Embedder.from_pretrained(minilm, device="cpu")
    expected = peer.encode(lines)
    for batch_size in (1, 32, 100):
        assert np.abs(embedder.encode(lines, batch_size=batch_size) - expected).max() < 1e-5


@pytest.mark.slow
def test_the_similarity_of_pairs_is_ranked_as_theirs(minilm, shared, peer):
    from scipy.stats import spearmanr

    rows = [line.split("\t") for line in (shared / "sim-en-sts-ccbysa" / "2014-images.test.tsv").read_text(encoding="utf-8").splitlines()]
    gold = [float(row[0]) for row in rows]

    def spearman(encode):
        first, second = encode([row[1] for row in rows]), encode([row[2] for row in rows])
        return spearmanr((first * second).sum(1), gold).statistic

    ours, theirs = spearman(Embedder.from_pretrained(minilm, device="cpu").encode), spearman(peer.encode)
    assert ours == pytest.approx(theirs, abs=1e-4) and ours == pytest.approx(0.8625, abs=1e-3)
