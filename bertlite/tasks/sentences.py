"""Sentences of words and tags: rows in, whatever the file; and raw text split into words with their offsets.

Tags come out in IOB2. What a row holds: columns of words (CoNLL), lists of words and tags, or a text that is yet to be split.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bertlite.corpus.rows import Row, check_characters
from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError
from bertlite.tasks.conll import column_number
from bertlite.tasks.readers import Columns, column_of, from_json, text_of
from bertlite.tasks.schemes import BadTag, is_span_tag, scheme_of, to_iob2
from bertlite.tasks.task import Examples

UNTYPED = "entity"  # the type of entities whose tags are bare letters
DEFAULT_TAGS = "tags"  # the column of labels, when --label-column is not given


@dataclass(frozen=True)
class Sentence:
    """Words, or a text that is yet to be split into them, with tags and the words' lines where there are any."""

    text: str | None = None
    words: tuple[str, ...] = ()
    tags: tuple[str, ...] | None = None
    lines: tuple[int, ...] = ()
    offsets: tuple[tuple[int, int], ...] = ()
    """Of the words in the text (n, 2), characters."""


def take_sentence(row: Row, columns: Columns, where: str, line: int, *, labelled: bool) -> Sentence:
    """Return a row's words, or its text where it holds no words; tags are still as the file has them."""
    if "columns" in row:
        sentence = _from_columns(row, columns, where, line, labelled=labelled)
    elif labelled or (columns.words_column or "words") in row:
        sentence = _from_lists(row, columns, where, line, labelled=labelled)
    else:
        return Sentence(text=text_of(row, columns.text_column, "text", where, line))
    for number, word in enumerate(sentence.words):
        check_characters(word, where, sentence.lines[number])
        if not word:
            raise InputError(f"word {number + 1} is empty", where=where, line=sentence.lines[number])
    return sentence


def prepare_sentences(examples: Examples[Sentence], columns: Columns) -> Examples[Sentence]:
    """Return labelled sentences with tags in IOB2, and words split into characters where that is asked for."""
    examples = with_iob2(examples, columns.scheme)
    items = [_by_character(sentence) if columns.split_words else sentence for sentence in examples.items]
    return Examples(items, examples.lines, examples.where)


def _from_columns(row: Row, columns: Columns, where: str, line: int, *, labelled: bool) -> Sentence:
    place = column_number(columns.words_column, "words", row, "words", where, line)
    words = tuple(word[place] for word in row["columns"])
    if not labelled:
        return Sentence(words=words, lines=tuple(row["lines"]))
    at = column_number(columns.label_column, DEFAULT_TAGS, row, "label", where, line)
    if at == place:
        raise InputError("words and tags are in the same column", where=where, line=line, remedy="--label-column names another")
    tags = tuple(word[at].strip() for word in row["columns"])
    if "" in tags:
        raise InputError("the tag is empty", where=where, line=row["lines"][tags.index("")])
    return Sentence(words=words, tags=tags, lines=tuple(row["lines"]))


def _from_lists(row: Row, columns: Columns, where: str, line: int, *, labelled: bool) -> Sentence:
    words = _texts(column_of(row, columns.words_column, "words", where, line), columns.words_column or "words", where, line)
    lines = (line,) * len(words)
    if not labelled:
        return Sentence(words=words, lines=lines)
    tags = _texts(column_of(row, columns.label_column, "label", where, line), columns.label_column or "label", where, line)
    if len(tags) != len(words):
        raise InputError(f"there are {len(words)} words and {len(tags)} tags", where=where, line=line)
    return Sentence(words=words, tags=tags, lines=lines)


def _texts(value: Any, column: str, where: str, line: int) -> tuple[str, ...]:
    value = value.tolist() if isinstance(value, np.ndarray) else from_json(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise InputError(f"the column {column!r} is no list of texts", where=where, line=line)
    return tuple(value)


def _by_character(sentence: Sentence) -> Sentence:
    """Return the sentence with a word a character: a B- begins with the first and goes on with I-."""
    assert sentence.tags is not None
    rows = [(c, tag if k == 0 or not is_span_tag(tag) else f"I-{tag[2:]}", line)
            for word, tag, line in zip(sentence.words, sentence.tags, sentence.lines, strict=True) for k, c in enumerate(word)]
    words, tags, lines = zip(*rows, strict=True) if rows else ((), (), ())
    return Sentence(words=tuple(words), tags=tuple(tags), lines=tuple(lines))


def with_iob2(examples: Examples[Sentence], scheme: str) -> Examples[Sentence]:
    """Return training or validation sentences with their tags in IOB2; `auto` finds out how they are written.

    Raises InputError naming the line of a tag that is not one of the scheme.
    """
    if scheme == "auto":
        examples = _typed(examples)
    try:
        found = scheme_of(s.tags or () for s in examples.items) if scheme == "auto" else scheme
    except InputError as error:
        raise InputError(str(error).partition(";")[0], where=examples.where, line=_line_of_odd_tag(examples, str(error)),
                         remedy=str(error).partition("; ")[2]) from None
    items = []
    for sentence in examples.items:
        try:
            tags = tuple(to_iob2(sentence.tags or (), found))  # type: ignore[arg-type]
        except BadTag as error:
            raise InputError(str(error), where=examples.where, line=sentence.lines[error.number],
                             remedy="--scheme says how tags are written: iob1, iob2, iobes or plain") from None
        items.append(Sentence(words=sentence.words, tags=tags, lines=sentence.lines))
    return Examples(items, examples.lines, examples.where)


def _typed(examples: Examples[Sentence]) -> Examples[Sentence]:
    """Return sentences whose tags are bare letters (B, I, O) with a type, which is the same for all; others as they are."""
    letters = {tag for sentence in examples.items for tag in sentence.tags or ()}
    if not letters <= set("BIESULMO") or not letters & set("BS") or len(letters) < 2:
        return examples
    items = [replace(s, tags=tuple(tag if tag == "O" else f"{tag}-{UNTYPED}" for tag in s.tags or ())) for s in examples.items]
    return Examples(items, examples.lines, examples.where)


def _line_of_odd_tag(examples: Examples[Sentence], message: str) -> int | None:
    for sentence in examples.items:
        for tag, line in zip(sentence.tags or (), sentence.lines, strict=True):
            if repr(tag) in message:
                return line
    return None


def split_text(tokenizer: WordPiece, text: str) -> list[tuple[int, int]]:
    """Return the character offsets of a text's words, as the tokenizer splits them: at spaces, punctuation and ideographs.

    Accents and joiners that follow a word's last letter belong to it.
    """
    encoding = tokenizer.backend.encode(text, add_special_tokens=False)
    found: dict[int, tuple[int, int]] = {}
    for word, (begin, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
        first, last = found.get(word or 0, (begin, end))
        found[word or 0] = (min(first, begin), max(last, end))
    ordered = sorted(found.values())
    limits = [*(begin for begin, _ in ordered), len(text)][1:]
    return [(begin, _with_marks(text, end, limit)) for (begin, end), limit in zip(ordered, limits, strict=False) if begin < end]


def _with_marks(text: str, end: int, limit: int) -> int:
    while end < limit and (unicodedata.category(text[end])[0] == "M" or text[end] in "\u200d\ufe0f"):
        end += 1
    return end
