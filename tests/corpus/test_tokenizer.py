"""WordPiece: training, loading, and ids equal to transformers'."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlite.corpus.tokenizer import TokenizerSettings, train_wordpiece, wordpiece_from_json, wordpiece_from_vocab
from bertlite.errors import InputError

SENTENCES = ["The fox ran over Élan and the wolf.", "The wolf ran, the fox ran.", "狐狸跑了。狼也跑了。"] * 5


def small(**changes):
    return train_wordpiece(SENTENCES, TokenizerSettings(vocab_size=120, **changes))


def test_special_tokens_come_first_and_stand_for_themselves():
    tokenizer = small()
    assert tokenizer.tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    ids = tokenizer.backend.encode("fox [MASK]", "wolf").ids
    assert ids[0] == tokenizer.cls_id and ids[-1] == tokenizer.sep_id and tokenizer.mask_id in ids
    assert tokenizer.backend.encode("fox", "wolf").type_ids[-2:] == [1, 1]


@pytest.mark.parametrize(("changes", "uncased", "strips"), [
    ({}, False, False), ({"case": "uncased"}, True, False), ({"case": "uncased", "accents": "strip"}, True, True),
    ({"accents": "strip"}, False, True),
])
def test_case_and_accents_are_what_was_asked(changes, uncased, strips):
    tokenizer = small(**changes)
    assert (tokenizer.is_uncased, tokenizer.strips_accents) == (uncased, strips)


def test_chinese_characters_are_words():
    tokenizer = small()
    assert tokenizer.splits_chinese
    assert [tokenizer.tokens[i] for i in tokenizer.encode_texts(["狐狸"])[0]] == ["狐", "狸"]


def test_pieces_that_continue_a_word_are_known():
    tokenizer = small()
    assert all(tokenizer.continues_word[i] == token.startswith("##") for i, token in enumerate(tokenizer.tokens))
    assert tokenizer.is_special.sum() == 5


def test_a_vocabulary_survives_its_files(tmp_path):
    tokenizer = small(case="uncased", accents="strip")
    (tmp_path / "vocab.txt").write_text("\n".join(tokenizer.tokens) + "\n", encoding="utf-8")
    tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    for loaded in (wordpiece_from_vocab(tmp_path / "vocab.txt"), wordpiece_from_json(tmp_path / "tokenizer.json")):
        assert loaded.encode_texts(SENTENCES) == tokenizer.encode_texts(SENTENCES)
        assert loaded.is_uncased


@pytest.mark.parametrize(("content", "words"), [
    ("[PAD]\n[UNK]\na\n", r"no \[CLS\]"), ("[PAD]\na\na\n", r"line 3: the piece 'a' is there twice"), ("\xff", "not a readable"),
])
def test_a_bad_vocabulary_is_named(tmp_path, content, words):
    (tmp_path / "vocab.txt").write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=words):
        wordpiece_from_vocab(tmp_path / "vocab.txt")


def test_the_same_text_gives_the_same_vocabulary(documents):
    sentences = [sentence for document in documents for sentence in document.sentences()]
    first, second = (train_wordpiece(sentences, TokenizerSettings(vocab_size=500)) for _ in range(2))
    assert first.backend.to_str() == second.backend.to_str()
    assert first.vocab_size == 500 and first.is_special.sum() == 5


def test_an_empty_corpus_makes_no_vocabulary():
    with pytest.raises(InputError, match="no text"):
        train_wordpiece([], TokenizerSettings())


def peer_of(tokenizer, folder):
    from transformers import BertTokenizerFast

    path = folder / "vocab.txt"
    path.write_text("\n".join(tokenizer.tokens) + "\n", encoding="utf-8")
    return BertTokenizerFast(vocab=str(path), do_lower_case=tokenizer.is_uncased, strip_accents=tokenizer.strips_accents)


@pytest.mark.parametrize("changes", [{}, {"case": "uncased", "accents": "strip"}])
def test_ids_equal_transformers_on_any_text(changes, tmp_path_factory):
    tokenizer = small(**changes)
    peer = peer_of(tokenizer, tmp_path_factory.mktemp("peer"))

    @settings(max_examples=300, deadline=None)
    @given(st.text(max_size=60), st.none() | st.text(min_size=1, max_size=30))
    def equal(text, pair):
        ours = tokenizer.backend.encode(text, pair) if pair is not None else tokenizer.backend.encode(text)
        theirs = peer(text, pair)
        assert ours.ids == theirs["input_ids"]
        assert ours.type_ids == theirs["token_type_ids"]

    equal()


@pytest.mark.slow
@pytest.mark.parametrize(("vocab", "folder"), [("bert-base-uncased-vocab.txt", "raw-en-*"), ("bert-base-chinese-vocab.txt", "raw-zh-*")])
def test_ids_equal_the_legacy_tokenizer_on_every_line(shared, vocab, folder):
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    path = shared / "vocab" / vocab
    uncased = "uncased" in vocab
    tokenizer = wordpiece_from_vocab(path, lowercase=uncased)
    legacy = BertTokenizerLegacy(str(path), do_lower_case=uncased)
    different, total = [], 0
    for file in sorted(shared.glob(f"{folder}/*.txt")):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        for line, ours in zip(lines, tokenizer.encode_texts(lines), strict=True):
            total += 1
            if ours != legacy.convert_tokens_to_ids(legacy.tokenize(line)):
                different.append(line)
    # Python lower-cases a capital sigma at a word's end to its final form, the fast tokenizer (and so ours) does not.
    assert total > 1000 and all("Σ" in line for line in different), different
