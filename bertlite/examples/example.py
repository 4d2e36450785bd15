"""One pretraining example, and the order in which an epoch visits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from bertlite.corpus.store import DocumentSet
from bertlite.corpus.tokenizer import WordPiece
from bertlite.draws import Purpose, stream

IS_NEXT, IS_RANDOM, NO_LABEL = 0, 1, -100  # the reference's labels; -100 where there is nothing to predict


class Example(NamedTuple):
    """`[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`: ids and segments, (n,) each, and the sentence-pair label."""

    input_ids: np.ndarray
    segment_ids: np.ndarray
    label: int


class Place(NamedTuple):
    """Where an example stands: everything about it is a function of this, the seed and the length."""

    epoch: int
    shard: int
    row: int


class Plan(Protocol):
    """The examples of one shard in one epoch, in the order they are seen."""

    def __len__(self) -> int: ...

    def example(self, row: int) -> Example:
        """Return example `row`."""


class Examples(Protocol):
    """What makes plans: next-sentence pairs, or full rows of consecutive sentences."""

    documents: DocumentSet
    length: int
    seed: int

    def plan(self, epoch: int, shard: int) -> Plan:
        """Return the plan of a shard in an epoch."""


def assemble(tokenizer: WordPiece, segments: Sequence[np.ndarray], label: int) -> Example:
    """Join one or two segments with [CLS] and [SEP]."""
    parts, segment_ids = [np.array([tokenizer.cls_id])], [np.zeros(1, dtype=np.int64)]
    for index, segment in enumerate(segments):
        parts += [segment, np.array([tokenizer.sep_id])]
        segment_ids.append(np.full(len(segment) + 1, index))
    return Example(np.concatenate(parts).astype(np.int64), np.concatenate(segment_ids), label)


def shard_order(seed: int, length: int, epoch: int, num_shards: int) -> np.ndarray:
    """Return the order in which an epoch visits the shards, (num_shards,)."""
    return stream(seed, Purpose.ORDER, length, epoch).permutation(num_shards)


def row_order(seed: int, length: int, epoch: int, shard: int, num_rows: int) -> np.ndarray:
    """Return the order of a shard's examples in an epoch, (num_rows,)."""
    return stream(seed, Purpose.ORDER, length, epoch, shard).permutation(num_rows)
