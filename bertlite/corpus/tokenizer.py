"""WordPiece tokenizers: trained on a corpus or loaded, with the special ids and word starts that pretraining needs.

Source: Devlin et al. 2019, sec. 3; the pieces are those of the library `tokenizers`, whose training is BPE-like.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from bertlite.errors import InputError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 100  # characters; a longer word becomes [UNK], as in the reference


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """How a WordPiece vocabulary is trained."""

    vocab_size: int = 30_000
    """Number of pieces, special tokens included; fewer when the corpus does not have them."""
    case: Literal["cased", "uncased"] = "cased"
    """cased keeps capitals, uncased lower-cases everything."""
    accents: Literal["keep", "strip"] = "keep"
    """keep, or strip: é becomes e."""
    min_frequency: int = 2
    """A piece must occur this often."""

    def __post_init__(self) -> None:
        if self.vocab_size < 100:
            raise InputError(f"--vocab-size must be at least 100; got {self.vocab_size}")
        if self.min_frequency < 1:
            raise InputError(f"--min-frequency must be at least 1; got {self.min_frequency}")


class WordPiece:
    """A WordPiece tokenizer and what pretraining has to know of its vocabulary.

    `pad_id, unk_id, cls_id, sep_id, mask_id` are the special ids; `backend` is the `tokenizers.Tokenizer`.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, where: str | Path | None = None):
        backend.no_padding()
        backend.no_truncation()
        vocab = backend.get_vocab(with_added_tokens=True)
        missing = [token for token in SPECIAL_TOKENS if token not in vocab]
        if missing:
            raise InputError(f"the vocabulary has no {missing[0]}", where=where,
                             remedy=f"BERT needs {' '.join(SPECIAL_TOKENS)}")
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (vocab[token] for token in SPECIAL_TOKENS)
        self.backend = backend
        self.backend.post_processor = _bert_template(self.cls_id, self.sep_id)
        self.backend.decoder = decoders.WordPiece(prefix="##")

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return max(self.backend.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def tokens(self) -> list[str]:
        """The tokens in the order of their ids."""
        tokens = [f"[unused-id-{i}]" for i in range(self.vocab_size)]
        for token, index in self.backend.get_vocab(with_added_tokens=True).items():
            tokens[index] = token
        return tokens

    @cached_property
    def is_special(self) -> np.ndarray:
        """(V,) bool: the five special tokens and whatever else was added as special."""
        special = np.zeros(self.vocab_size, dtype=bool)
        special[[self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id]] = True
        for index, token in self.backend.get_added_tokens_decoder().items():
            special[index] |= token.special
        return special

    @cached_property
    def continues_word(self) -> np.ndarray:
        """(V,) bool: pieces that go on with the word before them (`##ing`)."""
        return np.array([token.startswith("##") and len(token) > 2 for token in self.tokens])

    @property
    def is_uncased(self) -> bool:
        """Whether text is lower-cased before it is split."""
        return self.normalize("A") == "a"

    @property
    def strips_accents(self) -> bool:
        """Whether accents are removed before text is split."""
        return self.normalize("é") == "e"

    @property
    def splits_chinese(self) -> bool:
        """Whether each Chinese character is a word of its own."""
        return self.normalize("中文").strip() == "中  文"

    def normalize(self, text: str) -> str:
        """Return `text` as it is before it is split into words."""
        normalizer = self.backend.normalizer
        return text if normalizer is None else normalizer.normalize_str(text)

    def encode_texts(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of each text, without special tokens; uses every core."""
        encodings = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`, pieces joined into words."""
        return self.backend.decode([int(i) for i in ids], skip_special_tokens=False)


def train_wordpiece(sentences: Iterable[str], settings: TokenizerSettings) -> WordPiece:
    """Train a WordPiece vocabulary on sentences, which are gone through twice; the same text gives the same vocabulary.

    Raises InputError when there is no text.
    """
    lowercase, strip_accents = settings.case == "uncased", settings.accents == "strip"

    def train(known: list[str], vocab_size: int) -> dict[str, int]:
        backend = _untrained(lowercase=lowercase, strip_accents=strip_accents)
        trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, min_frequency=settings.min_frequency, special_tokens=known,
                                            continuing_subword_prefix="##", show_progress=False)
        backend.train_from_iterator(sentences, trainer=trainer)
        return backend.get_vocab()

    # The trainer numbers single characters in the order of a hash table, which differs from run to run, and settles ties
    # between pairs by those numbers. So they are found first, and given their places.
    special = list(SPECIAL_TOKENS)
    characters = sorted(train(special, len(special)).keys() - set(special))
    if not characters:
        raise InputError("the corpus holds no text to make a vocabulary of")
    vocab = train(special + characters, settings.vocab_size)
    return WordPiece(_with_vocab(vocab, lowercase=lowercase, strip_accents=strip_accents))


def wordpiece_from_vocab(path: str | Path, *, lowercase: bool | None = None, strip_accents: bool | None = None,
                         split_chinese: bool = True) -> WordPiece:
    """Load a `vocab.txt` (one piece a line, the line's number is its id).

    A vocabulary does not record its casing: with `lowercase=None` it is uncased unless a piece holds a capital.
    `strip_accents=None` follows `lowercase`, as in the reference.
    """
    path = Path(path)
    try:
        tokens = path.read_text(encoding="utf-8").split("\n")
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"not a readable vocabulary ({error})", where=path) from None
    tokens = [token.rstrip("\r") for token in (tokens[:-1] if tokens[-1] == "" else tokens)]
    vocab = {token: index for index, token in enumerate(tokens)}
    if len(vocab) != len(tokens):
        line = next(i for i, token in enumerate(tokens) if token in tokens[:i])
        raise InputError(f"the piece {tokens[line]!r} is there twice", where=path, line=line + 1)
    if lowercase is None:
        lowercase = not any(any(c.isupper() for c in token) for token in tokens if token not in SPECIAL_TOKENS
                            and not token.startswith("["))
    backend = _with_vocab(vocab, lowercase=lowercase, strip_accents=strip_accents, split_chinese=split_chinese)
    return WordPiece(backend, where=path)


def wordpiece_from_json(path: str | Path) -> WordPiece:
    """Load a `tokenizer.json`; raises InputError unless its model is WordPiece."""
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust library raises plain Exception
        raise InputError(f"not a readable tokenizer.json ({error})", where=path) from None
    if not isinstance(backend.model, models.WordPiece):
        raise InputError(f"its model is {type(backend.model).__name__}, not WordPiece", where=path)
    return WordPiece(backend, where=path)


def _with_vocab(vocab: dict[str, int], *, lowercase: bool, strip_accents: bool | None,
                split_chinese: bool = True) -> tokenizers.Tokenizer:
    backend = _untrained(lowercase=lowercase, strip_accents=strip_accents, split_chinese=split_chinese)
    backend.model = models.WordPiece(vocab=vocab, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD)
    backend.add_special_tokens([token for token in SPECIAL_TOKENS if token in vocab])
    return backend


def _untrained(*, lowercase: bool, strip_accents: bool | None, split_chinese: bool = True) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split_chinese, strip_accents=strip_accents, lowercase=lowercase
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend


def _bert_template(cls_id: int, sep_id: int) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls_id), ("[SEP]", sep_id)],
    )
