"""The token store: a corpus tokenised once, on disk, memory-mapped and cut into shards; larger than memory.

A store is a folder: `store.json` (written last: without it the store is not whole) and for each shard

    ids.bin         (tokens,) uint16 or uint32, every sentence's ids in order, no special tokens
    sentences.npy   (sentences + 1,) int64, where each sentence begins in ids.bin
    documents.npy   (documents + 1,) int64, where each document begins among the sentences

and `unigram.npy`, (V,) int64: how often each id occurs in the store.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from bertlite.draws import Purpose, stream
from bertlite.errors import InputError
from bertlite.files import read_json

FORMAT = 1


@dataclass
class Counts:
    """What a store holds."""

    documents: int = 0
    sentences: int = 0
    characters: int = 0
    tokens: int = 0
    words: int = 0
    """Pieces that begin a word (so a punctuation mark is one)."""
    split_words: int = 0
    """Words of two pieces or more."""
    unknown: int = 0
    """Tokens that are [UNK]."""

    def add(self, other: Counts) -> None:
        """Add another's figures to these."""
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))

    def describe(self) -> str:
        """Say it in one line."""
        share = self.unknown / max(1, self.tokens)
        return (f"{self.documents:,} documents, {self.sentences:,} sentences, {self.words:,} words, "
                f"{self.tokens:,} tokens, {share:.2%} unknown pieces")


@dataclass(frozen=True)
class Shard:
    """One shard, memory-mapped; the arrays are those of the module's header."""

    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1

    def tokens(self, begin: int, end: int) -> np.ndarray:
        """Return the ids of sentences `begin` up to `end`, (n,)."""
        return self.ids[self.sentences[begin] : self.sentences[end]]


class TokenStore:
    """A whole store, opened for reading.  Raises InputError if it is not whole."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if not (self.folder / "store.json").exists():
            raise InputError("not a whole token store (no store.json)", where=folder, remedy="build it with `bertlite corpus`")
        self.description = read_json(self.folder / "store.json")
        if self.description.get("format") != FORMAT:
            raise InputError(f"a store of format {self.description.get('format')}, not {FORMAT}", where=folder,
                             remedy="build it again")
        self.counts = Counts(**self.description["counts"])
        self.documents_per_shard: list[int] = [s["documents"] for s in self.description["shards"]]
        self._shards: dict[int, Shard] = {}

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self.documents_per_shard)

    @property
    def tokenizer_fingerprint(self) -> str:
        """SHA-256 of the tokenizer that made the ids."""
        return str(self.description["tokenizer"])

    def shard(self, index: int) -> Shard:
        """Return shard `index`, mapped on first use."""
        if index not in self._shards:
            folder, expected = self.folder / f"shard-{index:05d}", self.description["shards"][index]
            try:
                ids = np.memmap(folder / "ids.bin", dtype=self.description["dtype"], mode="r")
                shard = Shard(ids, np.load(folder / "sentences.npy", mmap_mode="r"),
                              np.load(folder / "documents.npy", mmap_mode="r"))
            except (OSError, ValueError) as error:
                raise InputError(f"a shard is damaged ({error})", where=folder, remedy="build the store again") from None
            if (len(shard.ids), len(shard.sentences) - 1, shard.num_documents) != tuple(expected.values()):
                raise InputError("a shard has not the size store.json says", where=folder, remedy="build the store again")
            self._shards[index] = shard
        return self._shards[index]

    def unigram_counts(self) -> np.ndarray:
        """Return how often each id occurs, (V,) int64."""
        return np.load(self.folder / "unigram.npy")


class DocumentSet:
    """Some of a store's documents: all of them, or what is left of them for training or validation.

    In each shard `round(share * documents)` documents are held out, drawn from the shard's own stream, so that the
    same store and share always give the same split and no other shard has to be read to know it.
    """

    def __init__(self, store: TokenStore, part: str = "all", share: float = 0.0):
        self.store, self.part, self.share = store, part, share
        self.per_shard = [self._count(shard) for shard in range(store.num_shards)]
        self.first = np.concatenate([[0], np.cumsum(self.per_shard)])
        self._members: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return int(self.first[-1])

    def members(self, shard: int) -> np.ndarray:
        """Return the numbers, within `shard`, of the documents that belong, ascending."""
        if shard not in self._members:
            num = self.store.documents_per_shard[shard]
            held = np.zeros(num, dtype=bool)
            held[stream(0, Purpose.HOLD_OUT, shard).permutation(num)[: self._num_held_out(shard)]] = True
            chosen = {"all": np.ones(num, dtype=bool), "train": ~held, "validation": held}[self.part]
            self._members[shard] = np.flatnonzero(chosen)
        return self._members[shard]

    def locate(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn numbers among this set's documents, (n,), into their shards and their numbers there, (n,) each."""
        shards = np.searchsorted(self.first, numbers, side="right") - 1
        documents = np.empty_like(numbers)
        for shard in np.unique(shards):
            here = shards == shard
            documents[here] = self.members(int(shard))[numbers[here] - self.first[shard]]
        return shards, documents

    def unigram_counts(self) -> np.ndarray:
        """Return how often each id occurs in these documents, (V,) int64."""
        counts = self.store.unigram_counts()
        if self.part == "all":
            return counts
        held = DocumentSet(self.store, "validation", self.share)
        in_held = np.zeros_like(counts)
        for index in range(self.store.num_shards):
            shard = self.store.shard(index)
            for document in held.members(index):
                ids = shard.tokens(shard.documents[document], shard.documents[document + 1])
                in_held += np.bincount(ids, minlength=len(counts))
        return in_held if self.part == "validation" else counts - in_held

    def _num_held_out(self, shard: int) -> int:
        num = self.store.documents_per_shard[shard]
        # Next-sentence pairs need two held-out documents: the second is the random partner.
        least = 2 if shard == 0 and num >= 10 and self.share > 0 else 0
        return max(least, round(self.share * num))

    def _count(self, shard: int) -> int:
        held = self._num_held_out(shard)
        return {"all": self.store.documents_per_shard[shard], "train": self.store.documents_per_shard[shard] - held,
                "validation": held}[self.part]
