"""Texts and pairs -> sequences for the encoder, cut to a length; and batches of texts of like length.

A pair is `[CLS] a [SEP] b [SEP]` with segment ids 0 and 1. What is cut is counted, so that a verb can report it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from bertlite.corpus.tokenizer import WordPiece
from bertlite.inputs.batch import Batch, BatchItem, make_batch, plain_sequence
from bertlite.inputs.packing import pack
from bertlite.tasks.readers import Text

PADDING_TO_PACK = 0.05  # rows are shared where sorting by length leaves more padding than this


class TextEncoder:
    """Turns texts into sequences of at most `max_length` tokens (the model takes `limit`); counts the lengths before the cut."""

    def __init__(self, tokenizer: WordPiece, max_length: int, *, limit: int):
        self.tokenizer, self.max_length, self.limit = tokenizer, max_length, limit
        self.lengths_before: Counter[int] = Counter()

    def __call__(self, texts: Sequence[Text], labels: Sequence[int] | None = None) -> list[BatchItem]:
        """Return one sequence a text."""
        encodings = self.tokenizer.backend.encode_batch_fast(list(texts))
        items = []
        for index, encoding in enumerate(encodings):
            ids, segments = np.array(encoding.ids), np.array(encoding.type_ids)
            self.lengths_before[len(ids)] += 1
            keep = kept_tokens(segments, self.max_length)
            items.append(plain_sequence(ids[keep], segments[keep], -100 if labels is None else labels[index]))
        return items

    def report(self) -> str | None:
        """Say how many of the texts so far were cut, or None if none was."""
        total, num_cut = self.lengths_before.total(), self._longer_than(self.max_length)
        if not num_cut:
            return None
        line = f"{num_cut:,} of {total:,} texts ({num_cut / total:.1%}) cut at {self.max_length} tokens"
        longer = min(2 * self.max_length, self.limit)
        if longer == self.max_length:
            return line + ", the model's limit"
        return line + f"; --max-length {longer} would cut {self._longer_than(longer) / total:.1%}"

    def _longer_than(self, length: int) -> int:
        return sum(count for n, count in self.lengths_before.items() if n > length)


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
