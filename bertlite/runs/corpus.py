"""`bertlite corpus`: tokenise raw text into a token store, which `pretrain` takes as --corpus."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from bertlite.corpus.documents import Layout, find_sources
from bertlite.corpus.store import TokenStore
from bertlite.corpus.store_builder import build_store, tokenizer_fingerprint
from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError
from bertlite.formats.huggingface import read_tokenizer, write_tokenizer
from bertlite.runs.console import Console, is_main_process
from bertlite.runs.settings import PLAIN, build


@dataclass(frozen=True, kw_only=True)
class CorpusRun:
    """Tokenise raw text into a token store."""

    corpus: tuple[Path, ...]
    """Text files, folders or globs."""
    tokenizer: Path
    """Folder of a tokenizer or model, a tokenizer.json or a vocab.txt."""
    out: Path
    """Folder of the store; one that is there is reused when nothing changed."""
    quiet: bool = False
    """Say nothing but errors."""
    layout: Annotated[Layout, PLAIN] = field(default_factory=Layout)


def build_corpus(**settings: Any) -> TokenStore:
    """Build a token store; keywords are the fields of CorpusRun and its groups.

    Raises InputError for text or settings that cannot be used.
    """
    run = build(CorpusRun, settings)
    console = Console(run.quiet)
    wordpiece, notes = read_tokenizer(run.tokenizer)
    for note in notes:
        console.say(note)
    if run.out.exists() and not (run.out / "store.json").exists() and any(not _is_of_store(p) for p in run.out.iterdir()):
        raise InputError("the folder holds other files", where=run.out, remedy="choose an empty or new --out")
    store = build_store(find_sources(run.corpus), wordpiece, run.layout, run.out, say=console.say)
    # Beside the ids, the tokenizer that made them: `pretrain --corpus STORE` needs no other.
    write_tokenizer(run.out, wordpiece, max_length=512)
    return store


def _is_of_store(path: Path) -> bool:
    names = ("unigram.npy", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
    return path.name.startswith(".") or re.fullmatch(r"shard-\d{5}", path.name) is not None or path.name in names


def is_store(corpus: tuple[Path, ...]) -> bool:
    """Return whether --corpus names a token store."""
    return len(corpus) == 1 and (corpus[0] / "store.json").exists()


def open_corpus(corpus: tuple[Path, ...], tokenizer: WordPiece, layout: Layout, folder: Path, console: Console, *,
                may_rebuild: bool = True) -> TokenStore:
    """Open the store --corpus names, or build one from its files at `folder`; of several processes the main one builds.

    Raises InputError when the store was made with another tokenizer, or the files changed and not `may_rebuild`.
    """
    if not is_store(corpus):
        if not is_main_process():
            return TokenStore(folder)
        return build_store(find_sources(corpus), tokenizer, layout, folder, may_rebuild=may_rebuild, say=console.say)
    store = TokenStore(corpus[0])
    if store.tokenizer_fingerprint != tokenizer_fingerprint(tokenizer):
        raise InputError("the token store was made with another tokenizer", where=corpus[0],
                         remedy="give the tokenizer it was made with, or the raw text")
    console.say(f"token store {corpus[0]}: {store.counts.describe()}")
    return store
