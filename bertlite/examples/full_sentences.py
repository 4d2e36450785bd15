"""Rows of consecutive sentences of one document: a token store in, `[CLS] sentences [SEP]` out, for the MLM alone.

Source: Liu et al. 2019 (RoBERTa), sec. 4.2, DOC-SENTENCES. A sentence longer than a row goes on in the next one.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from bertlite.corpus.store import DocumentSet
from bertlite.corpus.tokenizer import WordPiece
from bertlite.examples.example import NO_LABEL, Example, assemble, row_order

NUM_SPECIAL = 2  # [CLS] and [SEP]


class FullSentences:
    """Makes the plans of rows of at most `length` tokens, cut between sentences."""

    def __init__(self, documents: DocumentSet, tokenizer: WordPiece, *, length: int, seed: int):
        self.documents, self.tokenizer, self.length, self.seed = documents, tokenizer, length, seed

    def plan(self, epoch: int, shard: int) -> RowPlan:
        """Return a shard's rows: the same in each epoch, in another order."""
        rows = _cut_into_rows(self.documents, shard, self.length - NUM_SPECIAL)
        return RowPlan(self, shard, rows[row_order(self.seed, self.length, epoch, shard, len(rows))])


class RowPlan:
    """The rows of one shard in one epoch; `rows`, (n, 2), are token ranges."""

    def __init__(self, source: FullSentences, shard: int, rows: np.ndarray):
        self.source, self.shard, self.rows = source, shard, rows

    def __len__(self) -> int:
        return len(self.rows)

    def example(self, row: int) -> Example:
        """Return row `row`."""
        begin, end = self.rows[row]
        return assemble(self.source.tokenizer, [self.source.documents.store.shard(self.shard).ids[begin:end]], NO_LABEL)


def _cut_into_rows(documents: DocumentSet, shard_index: int, longest: int) -> np.ndarray:
    shard = documents.store.shard(shard_index)
    offsets, bounds = shard.sentences.tolist(), shard.documents.tolist()
    rows = []
    for document in documents.members(shard_index).tolist():
        first, last = bounds[document], bounds[document + 1]
        begin, end = offsets[first], offsets[last]
        while begin < end:
            cut = offsets[bisect_right(offsets, begin + longest, first, last + 1) - 1]
            if cut <= begin:
                cut = min(begin + longest, end)
            rows.append((begin, cut))
            begin = cut
    return np.array(rows, dtype=np.int64).reshape(-1, 2)
