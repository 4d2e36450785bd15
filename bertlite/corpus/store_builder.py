"""Building a token store: files of text in, a store out; what is there is reused when nothing changed.

The text is read and split by one thread while the other tokenises, a batch at a time, so memory does not grow with
the corpus. `store.json` is written last: a store that was interrupted is not whole, and is built again.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bertlite.corpus.documents import Document, Layout, document_sentences, layout_advice, read_documents
from bertlite.corpus.prefetch import prefetch
from bertlite.corpus.sentences import check_language
from bertlite.corpus.store import FORMAT, Counts, TokenStore
from bertlite.corpus.tokenizer import WordPiece
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


def tokenizer_fingerprint(tokenizer: WordPiece) -> str:
    """Return the SHA-256 of everything that decides a tokenizer's ids."""
    return hashlib.sha256(tokenizer.backend.to_str().encode()).hexdigest()


def build_store(sources: list[Path], tokenizer: WordPiece, layout: Layout, folder: str | Path, *,
                may_rebuild: bool = True, say: Callable[[str], None] = lambda _: None) -> TokenStore:
    """Tokenise `sources` into a store at `folder`, or reuse the one there when nothing changed.

    `say` gets one line about what was read, reused or rebuilt, and about a layout that looks wrong.
    Raises InputError for text that cannot be read, or when something changed and not `may_rebuild`.
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
            if not may_rebuild:
                raise InputError(f"the {changed} changed since the run began", where=folder,
                                 remedy="put the old one back to go on, or begin a new run")
            say(f"the {changed} changed: building the token store again")
        if layout.language is None and layout.line != "sentence":
            say("sentences are split as English; another language: --language")
        # Built beside the old store, which stays whole until the new one is.
        building = folder / f".building.{os.getpid()}.partial"
        building.mkdir()
        builder = _Builder(building, tokenizer)
        for batch in prefetch(_batches(sources, layout, language, say), depth=2):
            builder.add(batch)
        description = builder.finish()
        for source in fingerprints:
            source["sha256"] = sha256_of(source["path"])
        _move_in(building, folder)
        write_json(folder / "store.json", wanted | description)
    store = TokenStore(folder)
    say(f"read {len(sources):,} files: {store.counts.describe()}")
    return store


def _move_in(building: Path, folder: Path) -> None:
    (folder / "store.json").unlink(missing_ok=True)  # from here until it is written again, the store is not whole
    for path in [*folder.glob("shard-*"), folder / "unigram.npy"]:
        if path.is_dir():
            shutil.rmtree(path)
    for path in building.iterdir():
        os.replace(path, folder / path.name)
    building.rmdir()


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
        self.ids_path = folder / f".ids.{os.getpid()}.partial"
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
