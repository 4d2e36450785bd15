"""Next-sentence pairs: a token store in, `[CLS] A [SEP] B [SEP]` and its label out.

Source: Devlin et al. 2019, sec. 3.1 and app. A.2, and the released `create_pretraining_data.py`. Consecutive sentences
are collected up to a target length and split at a random sentence into A and B; half of the time B is replaced by
sentences of another document, and the replaced ones are used again.

Departures from the released code, each of which mends a fault: a random partner is never from A's own document; a
chunk of one sentence takes the next one too (there it is always labelled random, so more than half are); a last
sentence left alone joins the chunk before it; a document of one sentence serves only as a partner; the shorter target
is drawn for each chunk rather than for each document.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from bertlite.corpus.store import DocumentSet, Shard
from bertlite.corpus.tokenizer import WordPiece
from bertlite.draws import Purpose, stream
from bertlite.errors import InputError
from bertlite.examples.example import IS_NEXT, IS_RANDOM, Example, assemble, row_order

SHORT_PROB = 0.1  # Devlin et al. 2019, released code: short_seq_prob
RANDOM_PROB = 0.5
NUM_SPECIAL = 3  # [CLS] and two [SEP]

# One row of a plan: A is sentences a_begin:a_end of this shard, B is sentences b_begin:b_end of shard b_shard.
PAIR = np.dtype([("a_begin", "i8"), ("a_end", "i8"), ("b_shard", "i4"), ("b_begin", "i8"), ("b_end", "i8"),
                 ("label", "i1")])


class SentencePairs:
    """Makes the plans of next-sentence pairs of at most `length` tokens.

    Raises InputError when the documents hold no next sentences.
    """

    def __init__(self, documents: DocumentSet, tokenizer: WordPiece, *, length: int, seed: int):
        check_next_sentences(documents)
        self.documents, self.tokenizer, self.length, self.seed = documents, tokenizer, length, seed

    def plan(self, epoch: int, shard: int) -> PairPlan:
        """Return the pairs of a shard in an epoch: chunks, labels and partners are drawn anew each time."""
        draws = stream(self.seed, Purpose.PAIR, self.length, epoch, shard)
        pairs, partners = _cut_into_pairs(self.documents, shard, self.length - NUM_SPECIAL, draws)
        _find_partners(self.documents, shard, pairs, partners)
        order = row_order(self.seed, self.length, epoch, shard, len(pairs))
        return PairPlan(self, epoch, shard, pairs[order])


class PairPlan:
    """The pairs of one shard in one epoch; `pairs` has dtype PAIR."""

    def __init__(self, source: SentencePairs, epoch: int, shard: int, pairs: np.ndarray):
        self.source, self.epoch, self.shard, self.pairs = source, epoch, shard, pairs

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def random_share(self) -> float:
        """Share of pairs whose B comes from another document."""
        return float((self.pairs["label"] == IS_RANDOM).mean()) if len(self.pairs) else 0.0

    def example(self, row: int) -> Example:
        """Return pair `row`, cut to the length."""
        pair, source = self.pairs[row], self.source
        store = source.documents.store
        first = store.shard(self.shard).tokens(pair["a_begin"], pair["a_end"])
        second = store.shard(int(pair["b_shard"])).tokens(pair["b_begin"], pair["b_end"])
        draws = stream(source.seed, Purpose.PAIR, source.length, self.epoch, self.shard, row)
        first, second = truncate_pair(first, second, source.length - NUM_SPECIAL, draws)
        return assemble(source.tokenizer, [first, second], int(pair["label"]))


def check_next_sentences(documents: DocumentSet) -> None:
    """Raise InputError unless there are documents with next sentences, and other documents to draw partners from."""
    store = documents.store
    if len(documents) < 2:
        raise InputError(f"next-sentence prediction needs two documents; there is {len(documents)}", where=store.folder,
                         remedy="separate documents by blank lines, or by files with --document file; "
                         "or train with --objective mlm")
    members = documents.members(0)
    sizes = np.diff(store.shard(0).documents)[members]
    if (sizes < 2).mean() > 0.5:
        raise InputError(f"{(sizes < 2).mean():.0%} of the documents are a single sentence, so there is no next one",
                         where=store.folder,
                         remedy="--document file if blank lines separate paragraphs; or --objective mlm")


def truncate_pair(first: np.ndarray, second: np.ndarray, longest: int, draws: np.random.Generator,
                  ) -> tuple[np.ndarray, np.ndarray]:
    """Cut a pair to `longest` tokens together: always from the longer one, from its front or its back at random."""
    excess = len(first) + len(second) - longest
    if excess <= 0:
        return first, second
    difference = len(first) - len(second)
    from_longer = min(excess, abs(difference))
    from_first, from_second = (from_longer, 0) if difference > 0 else (0, from_longer)
    # Once they are equally long the second is cut first, then they take turns.
    rest = excess - from_longer
    from_first, from_second = from_first + rest // 2, from_second + rest - rest // 2
    return _cut(first, from_first, draws), _cut(second, from_second, draws)


def _cut(tokens: np.ndarray, count: int, draws: np.random.Generator) -> np.ndarray:
    front = int(draws.binomial(count, 0.5))
    return tokens[front : len(tokens) - (count - front)]


def _uniforms(draws: np.random.Generator, width: int) -> Iterator[list[float]]:
    """Yield rows of `width` numbers in [0, 1)."""
    while True:
        yield from draws.random((4096, width)).tolist()


def _cut_into_pairs(documents: DocumentSet, shard_index: int, longest: int, draws: np.random.Generator,
                    ) -> tuple[np.ndarray, np.ndarray]:
    """Cut a shard's documents into pairs.

    Returns (pairs, partners): in the rows labelled IS_RANDOM B is still to be found, and `partners`, (rows, 3), says
    from which: the document's uniform draw, the first sentence's uniform draw, the tokens wanted.
    """
    shard = documents.store.shard(shard_index)
    offsets, bounds = shard.sentences.tolist(), shard.documents.tolist()
    uniforms = _uniforms(draws, 6)
    rows: list[tuple[int, ...]] = []
    partners: list[tuple[float, float, int]] = []
    for document in documents.members(shard_index).tolist():
        begin, end = bounds[document], bounds[document + 1]
        if end - begin < 2:
            continue
        while begin < end:
            short, short_length, split, is_random, partner, start = next(uniforms)
            target = longest if short >= SHORT_PROB else 2 + int(short_length * (longest - 1))
            stop = _chunk_end(offsets, begin, end, target)
            middle = begin + 1 + int(split * (stop - begin - 1))
            if is_random >= RANDOM_PROB:
                rows.append((begin, middle, shard_index, middle, stop, IS_NEXT))
                partners.append((0.0, 0.0, 0))
                begin = stop
            else:
                # A lone last sentence could not begin a pair of its own.
                middle = end if end - middle == 1 else middle
                rows.append((begin, middle, -1, document, 0, IS_RANDOM))
                partners.append((partner, start, max(1, target - (offsets[middle] - offsets[begin]))))
                begin = middle
    return np.array(rows, dtype=PAIR), np.array(partners, dtype=np.float64).reshape(-1, 3)


def _chunk_end(offsets: list[int], begin: int, end: int, target: int) -> int:
    """Return the end of the chunk of sentences from `begin` that reaches `target` tokens, two sentences at least."""
    stop = max(begin + 2, min(end, bisect_left(offsets, offsets[begin] + target, begin + 1, end)))
    return end if end - stop == 1 else stop


def _find_partners(documents: DocumentSet, shard_index: int, pairs: np.ndarray, partners: np.ndarray) -> None:
    """Fill in B of the pairs labelled IS_RANDOM, in place: sentences of a document that is not A's own."""
    rows = np.flatnonzero(pairs["label"] == IS_RANDOM)
    own = documents.first[shard_index] + np.searchsorted(documents.members(shard_index), pairs["b_begin"][rows])
    numbers = (partners[rows, 0] * (len(documents) - 1)).astype(np.int64)
    numbers += numbers >= own  # one of the others
    shards, in_shard = documents.locate(numbers)
    for index in np.unique(shards):
        here = shards == index
        begin, end = _partner_sentences(documents.store.shard(int(index)), in_shard[here], partners[rows[here], 1],
                                        partners[rows[here], 2])
        pairs["b_shard"][rows[here]], pairs["b_begin"][rows[here]], pairs["b_end"][rows[here]] = index, begin, end


def _partner_sentences(shard: Shard, documents: np.ndarray, start: np.ndarray, wanted: np.ndarray,
                       ) -> tuple[np.ndarray, np.ndarray]:
    """Return (begin, end) sentences, (n,) each: from a random sentence on until `wanted` tokens or the document's end."""
    first, last = np.asarray(shard.documents)[documents], np.asarray(shard.documents)[documents + 1]
    begin = first + (start * (last - first)).astype(np.int64)
    end = np.searchsorted(shard.sentences, shard.sentences[begin] + wanted.astype(np.int64))
    return begin, np.minimum(end, last)
