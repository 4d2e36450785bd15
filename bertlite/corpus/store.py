"""The token store: a corpus tokenised once, on disk, memory-mapped and cut into shards; larger than memory.

A store is a folder: `store.json` (written last: without it the store is not whole) and for each shard

    ids.bin         (tokens,) uint16 or uint32, every sentence's ids in order, no special tokens
    sentences.npy   (sentences + 1,) int64, where each sentence begins in ids.bin
    documents.npy   (documents + 1,) int64, where each document begins among the sentences

and `unigram.npy`, (V,) int64: how often each id occurs in the store.
"""

from __future__ import annotations

import hashlib
import itertools
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from bertlite.corpus.documents import Document, Layout, layout_advice, read_documents
from bertlite.corpus.sentences import check_language, split_sentences
from bertlite.corpus.tokenizer import WordPiece
from bertlite.draws import Purpose, stream
from bertlite.errors import InputError
from bertlite.files import (
    atomic_folder,
    atomic_path,
    folder_lock,
    quick_fingerprint,
    read_json,
    remove_partials,
    sha256_of,
    write_json,
)

SHARD_TOKENS = 50_000_000
BATCH_CHARACTERS = 1_000_000  # text tokenised at once: enough for every core, little enough to hold
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


# --- building ----------------------------------------------------------------------------------------------------


def tokenizer_fingerprint(tokenizer: WordPiece) -> str:
    """Return the SHA-256 of everything that decides a tokenizer's ids."""
    return hashlib.sha256(tokenizer.backend.to_str().encode()).hexdigest()


def build_store(sources: list[Path], tokenizer: WordPiece, layout: Layout, folder: str | Path, *,
                say: Callable[[str], None] = lambda _: None) -> TokenStore:
    """Tokenise `sources` into a store at `folder`, or reuse the one there when nothing changed.

    `say` gets one line about what was read, reused or rebuilt, and about a layout that looks wrong.
    """
    folder, language = Path(folder), layout.language or "en"
    check_language(language)
    fingerprints = [quick_fingerprint(path) for source in sources for path in _files(source)]
    wanted = {"format": FORMAT, "tokenizer": tokenizer_fingerprint(tokenizer), "layout": asdict(layout),
              "sources": fingerprints}
    with folder_lock(folder):
        remove_partials(folder)
        if (folder / "store.json").exists():
            changed = _what_changed(read_json(folder / "store.json"), wanted)
            if changed is None:
                store = TokenStore(folder)
                say(f"corpus as before: {len(sources):,} files, {store.counts.describe()}")
                return store
            say(f"the {changed} changed: building the token store again")
            (folder / "store.json").unlink()
        for left_over in folder.glob("shard-*"):
            shutil.rmtree(left_over)
        if layout.language is None and layout.line != "sentence":
            say("sentences are split as English; another language: --language")
        builder = _Builder(folder, tokenizer)
        for batch in prefetch(_batches(sources, layout, language, say), depth=2):
            builder.add(batch)
        description = builder.finish()
        for source in fingerprints:
            source["sha256"] = sha256_of(source["path"])
        write_json(folder / "store.json", wanted | description)
    store = TokenStore(folder)
    say(f"read {len(sources):,} files: {store.counts.describe()}")
    return store


def _files(source: Path) -> list[Path]:
    return sorted(p for p in source.rglob("*") if p.is_file()) if source.is_dir() else [source]


def _what_changed(old: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """Return what makes an existing store stale, or None."""
    without_hash = [{k: v for k, v in s.items() if k != "sha256"} for s in old.get("sources", [])]
    if old.get("format") != wanted["format"]:
        return "store's format"
    for name, words in (("tokenizer", "tokenizer"), ("layout", "corpus layout")):
        if old.get(name) != wanted[name]:
            return words
    return None if without_hash == wanted["sources"] else "corpus files"


@dataclass
class _Batch:
    """Sentences of whole documents: `sentences_per_document` says which are whose."""

    sentences: list[str] = field(default_factory=list)
    sentences_per_document: list[int] = field(default_factory=list)
    characters: int = 0

    def add(self, sentences: list[str]) -> None:
        self.sentences += sentences
        self.sentences_per_document.append(len(sentences))
        self.characters += sum(map(len, sentences))


def document_sentences(document: Document, layout: Layout, language: str) -> list[str]:
    """Return the sentences of a document."""
    if layout.line == "sentence":
        return [line.strip() for line in document.lines]
    return [sentence for line in document.lines for sentence in split_sentences(line, language)]


def _batches(sources: list[Path], layout: Layout, language: str, say: Callable[[str], None]) -> Iterator[_Batch]:
    batch = _Batch()
    sample: list[Document] = []
    sample_sentences: list[int] = []
    for source in sources:
        for document in read_documents(source, layout):
            sentences = document_sentences(document, layout, language)
            batch.add(sentences)
            if len(sample) < 200:
                sample.append(document)
                sample_sentences.append(len(sentences))
            if batch.characters >= BATCH_CHARACTERS:
                yield batch
                batch = _Batch()
    if batch.sentences:
        yield batch
    if not sample:
        raise InputError("the corpus holds no text", where=", ".join(map(str, sources[:3])))
    advice = layout_advice(sample, sample_sentences, layout)
    if advice:
        say(f"does the layout fit? {advice}")


class _Builder:
    """Appends batches to the shard being written and closes it when it is full."""

    def __init__(self, folder: Path, tokenizer: WordPiece):
        self.folder, self.tokenizer = folder, tokenizer
        self.dtype = "uint16" if tokenizer.vocab_size <= 1 << 16 else "uint32"
        self.counts, self.unigram = Counts(), np.zeros(tokenizer.vocab_size, dtype=np.int64)
        self.shards: list[dict[str, int]] = []
        self.ids_path = folder / ".ids.partial"
        self.lengths: list[np.ndarray] = []
        self.per_document: list[np.ndarray] = []

    def add(self, batch: _Batch) -> None:
        """Tokenise a batch and append it."""
        encodings = self.tokenizer.backend.encode_batch_fast(batch.sentences, add_special_tokens=False)
        lengths = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
        ids = np.fromiter(itertools.chain.from_iterable(e.ids for e in encodings), dtype=self.dtype, count=lengths.sum())
        # A sentence of nothing but control characters has no tokens, a document of such sentences no sentences.
        owner = np.repeat(np.arange(len(batch.sentences_per_document)), batch.sentences_per_document)
        per_document = np.bincount(owner[lengths > 0], minlength=len(batch.sentences_per_document))
        lengths, per_document = lengths[lengths > 0], per_document[per_document > 0]
        self._count(ids, lengths, per_document, batch.characters)
        with open(self.ids_path, "ab") as handle:
            ids.tofile(handle)
        self.lengths.append(lengths)
        self.per_document.append(per_document)
        if self.ids_path.stat().st_size >= SHARD_TOKENS * ids.itemsize:
            self._write_shard()

    def finish(self) -> dict[str, Any]:
        """Write what is left; return the store's description."""
        if self.lengths:
            self._write_shard()
        if not self.counts.tokens:
            raise InputError("the corpus holds no text that the tokenizer keeps", where=self.folder)
        with atomic_path(self.folder / "unigram.npy") as partial, open(partial, "wb") as handle:
            np.save(handle, self.unigram)
        return {"dtype": self.dtype, "shards": self.shards, "counts": asdict(self.counts)}

    def _count(self, ids: np.ndarray, lengths: np.ndarray, per_document: np.ndarray, characters: int) -> None:
        continues = self.tokenizer.continues_word[ids]
        self.unigram += np.bincount(ids, minlength=len(self.unigram))
        self.counts.add(Counts(
            documents=len(per_document), sentences=len(lengths), characters=characters, tokens=len(ids),
            words=int((~continues).sum()), split_words=int((continues[1:] & ~continues[:-1]).sum()),
            unknown=int((ids == self.tokenizer.unk_id).sum()),
        ))

    def _write_shard(self) -> None:
        sentences = np.concatenate([[0], np.cumsum(np.concatenate(self.lengths))])
        documents = np.concatenate([[0], np.cumsum(np.concatenate(self.per_document))])
        self.lengths, self.per_document = [], []
        with atomic_folder(self.folder / f"shard-{len(self.shards):05d}") as partial:
            self.ids_path.rename(partial / "ids.bin")
            np.save(partial / "sentences.npy", sentences)
            np.save(partial / "documents.npy", documents)
        self.shards.append({"tokens": int(sentences[-1]), "sentences": len(sentences) - 1, "documents": len(documents) - 1})


def prefetch(items: Iterator[Any], *, depth: int) -> Iterator[Any]:
    """Yield `items` made by a second thread, at most `depth` ahead; an error there is raised here."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(entry: tuple[bool, Any]) -> None:
        while not stop.is_set():
            try:
                return ready.put(entry, timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((True, item))
                if stop.is_set():
                    return
            put((False, None))
        except BaseException as error:  # carried over to the thread that reads
            put((False, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            is_item, value = ready.get()
            if not is_item:
                if value is not None:
                    raise value
                return
            yield value
    finally:
        stop.set()
