"""Texts and pairs -> sequences for the encoder; and batches of sequences of like length.

A pair is `[CLS] a [SEP] b [SEP]` with segment ids 0 and 1. A text that is too long loses its end, or its middle, or is read in
overlapping windows; what was cut is counted, so that a verb can report it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError
from bertlite.inputs.batch import IGNORED, Batch, BatchItem, Label, make_batch, plain_sequence
from bertlite.inputs.packing import pack
from bertlite.tasks.readers import Text
from bertlite.tasks.windows import cut_windows

PADDING_TO_PACK = 0.05  # rows are shared where sorting by length leaves more padding than this
HEAD_SHARE = 0.25  # Sun et al. 2019, "How to fine-tune BERT", sec. 5.3.1: 128 tokens of the beginning, 382 of the end
LongTexts = Literal["cut", "head-tail", "windows"]


class TextEncoder:
    """Turns texts into sequences of at most `max_length` tokens (the model takes `limit`); counts the lengths before the cut.

    `overlap` is the tokens that neighbouring windows share, a quarter of the length when not given.
    """

    def __init__(self, tokenizer: WordPiece, max_length: int, *, limit: int, long_texts: LongTexts = "cut",
                 overlap: int | None = None):
        least = 8 if long_texts == "windows" else 3
        if not least <= max_length <= limit:
            raise InputError(f"--max-length must be between {least} and the model's {limit}; got {max_length}")
        overlap = max_length // 4 if overlap is None else overlap
        if not 0 <= overlap <= max_length // 2:
            raise InputError(f"--overlap must be between 0 and half of --max-length, {max_length // 2}; got {overlap}")
        self.tokenizer, self.max_length, self.limit = tokenizer, max_length, limit
        self.long_texts, self.overlap = long_texts, overlap
        self.lengths_before: Counter[int] = Counter()
        self.num_questions_cut = 0

    def __call__(self, texts: Sequence[Text]) -> list[BatchItem]:
        """Return one sequence a text, its end cut where it is too long."""
        return [self._one(ids, segments, IGNORED) for ids, segments, _ in self._encode(texts)]

    def windows(self, texts: Sequence[Text], labels: Sequence[Label] | None = None) -> tuple[list[BatchItem], list[int]]:
        """Return sequences, and for each the number of its text; texts that fit, and cut ones, have one."""
        items: list[BatchItem] = []
        owners: list[int] = []
        for number, (ids, segments, words) in enumerate(self._encode(texts)):
            label = IGNORED if labels is None else labels[number]
            if len(ids) <= self.max_length or self.long_texts != "windows":
                new = [self._one(ids, segments, label)]
            else:
                new = self._several(ids, words, label)
            items += new
            owners += [number] * len(new)
        return items, owners

    def _encode(self, texts: Sequence[Text]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield ids, segments and words (-1 for special tokens) of each text."""
        for encoding in self.tokenizer.backend.encode_batch_fast(list(texts)):
            self.lengths_before[len(encoding)] += 1
            words = np.array([-1 if word is None else word for word in encoding.word_ids])
            yield np.array(encoding.ids), np.array(encoding.type_ids), words

    def _one(self, ids: np.ndarray, segments: np.ndarray, label: Label) -> BatchItem:
        if self.long_texts == "head-tail" and len(ids) > self.max_length:
            head = 1 + round(HEAD_SHARE * (self.max_length - 2))
            keep = np.r_[:head, len(ids) - (self.max_length - head) : len(ids)]
        else:
            keep = kept_tokens(segments, self.max_length)
        return plain_sequence(ids[keep], segments[keep], label)

    def _several(self, ids: np.ndarray, words: np.ndarray, label: Label) -> list[BatchItem]:
        budget = self.max_length - 2
        sizes = word_sizes(words[1:-1], budget)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        items = []
        for begin, end in cut_windows(sizes, budget, self.overlap):
            inner = ids[1:-1][ends[begin] : ends[end]]
            items.append(plain_sequence(np.r_[ids[0], inner, ids[-1]], np.zeros(len(inner) + 2, dtype=np.int64), label))
        return items

    def count(self, length: int) -> None:
        """Take note of a text of `length` tokens that was encoded elsewhere."""
        self.lengths_before[length] += 1

    def report(self) -> str | None:
        """Say how many of the texts so far were too long, and what was done; or None if none was."""
        parts = [part for part in (self._long(), self._questions()) if part]
        return "; ".join(parts) or None

    def _questions(self) -> str:
        return f"{self.num_questions_cut:,} questions lost their end" if self.num_questions_cut else ""

    def _long(self) -> str:
        total, num_long = self.lengths_before.total(), self._longer_than(self.max_length)
        if not num_long:
            return ""
        share = f"{num_long:,} of {total:,} texts ({num_long / total:.1%})"
        if self.long_texts == "windows":
            return f"{share} are longer than {self.max_length} tokens and are read in overlapping windows"
        line = f"{share} cut {'in their middle ' if self.long_texts == 'head-tail' else ''}at {self.max_length} tokens"
        longer = min(2 * self.max_length, self.limit)
        if longer == self.max_length:
            return line + ", the model's limit"
        return line + f"; --max-length {longer} would cut {self._longer_than(longer) / total:.1%}"

    def _longer_than(self, length: int) -> int:
        return sum(count for n, count in self.lengths_before.items() if n > length)


def word_sizes(words: np.ndarray, most: int) -> np.ndarray:
    """Return the number of tokens of each word, given the tokens' words (n,); a word of more than `most` counts as several."""
    begins = np.flatnonzero(np.diff(words, prepend=-2))
    sizes = np.diff(begins, append=len(words))
    return np.array([part for size in sizes.tolist() for part in [most] * (size // most) + [size % most] * (size % most > 0)],
                    dtype=np.int64)


def kept_tokens(segments: np.ndarray, max_length: int) -> np.ndarray:
    """Return which tokens, by position, remain of `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` with these segment ids.

    The longer text of a pair loses its end first, then both alike, as `longest_first` does in tokenizers.
    """
    num = len(segments)
    if num <= max_length:
        return np.arange(num)
    first = int((segments == 0).sum()) - 2  # without [CLS] and [SEP]
    second = num - first - 3 if segments[-1] == 1 else None
    if second is None:
        return np.append(np.arange(max_length - 1), num - 1)
    keep_first, keep_second = _longest_first(first, second, max_length - 3)
    return np.concatenate([np.arange(1 + keep_first), [first + 1], first + 2 + np.arange(keep_second), [num - 1]])


def _longest_first(first: int, second: int, budget: int) -> tuple[int, int]:
    shorter, longer = min(first, second), max(first, second)
    longer = max(shorter, budget - shorter) if shorter <= budget else shorter
    if shorter + longer > budget:
        shorter, longer = budget // 2, budget - budget // 2
    return (longer, shorter) if first > second else (shorter, longer)


def length_batches(items: Sequence[BatchItem], *, batch_size: int, pad_id: int) -> Iterator[tuple[list[int], Batch]]:
    """Yield (numbers of the items in the batch's order, batch), longest texts first, so that little is padding.

    A batch holds at most `batch_size` texts.
    """
    order = sorted(range(len(items)), key=lambda i: -len(items[i]))
    for begin in range(0, len(order), batch_size):
        chosen = order[begin : begin + batch_size]
        rows = rows_of([items[i] for i in chosen])
        numbers = [chosen[i] for row in rows for i in row]
        yield numbers, make_batch([[items[chosen[i]] for i in row] for row in rows], length=len(items[chosen[0]]), pad_id=pad_id)


def rows_of(items: Sequence[BatchItem]) -> list[list[int]]:
    """Return rows of numbers of `items`: one a row, or several where much would be padding."""
    lengths = [len(item) for item in items]
    longest = max(lengths)
    if sum(lengths) >= (1 - PADDING_TO_PACK) * longest * len(lengths):
        return [[i] for i in range(len(items))]
    return pack(lengths, longest)
