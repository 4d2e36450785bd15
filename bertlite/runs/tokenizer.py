"""`bertlite tokenizer`: train a WordPiece vocabulary on raw text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from bertlite.corpus.documents import Layout, document_sentences, find_sources, read_documents
from bertlite.corpus.sentences import check_language
from bertlite.corpus.tokenizer import TokenizerSettings, WordPiece, train_wordpiece
from bertlite.errors import InputError
from bertlite.files import check_writable
from bertlite.formats.huggingface import write_tokenizer
from bertlite.runs.console import Console
from bertlite.runs.settings import PLAIN, build


@dataclass(frozen=True, kw_only=True)
class TokenizerRun:
    """Train a WordPiece vocabulary on raw text."""

    corpus: tuple[Path, ...]
    """Text files, folders or globs."""
    out: Path
    """Folder to write tokenizer.json, vocab.txt and tokenizer_config.json to."""
    overwrite: bool = False
    """Replace a tokenizer that is there."""
    quiet: bool = False
    """Say nothing but errors."""
    vocabulary: Annotated[TokenizerSettings, PLAIN] = field(default_factory=TokenizerSettings)
    layout: Annotated[Layout, PLAIN] = field(default_factory=Layout)


def train_tokenizer(**settings: Any) -> WordPiece:
    """Train a vocabulary and write it; keywords are the fields of TokenizerRun and its groups.

    Raises InputError for text or settings that cannot be used.
    """
    run = build(TokenizerRun, settings)
    console = Console(run.quiet)
    if (run.out / "tokenizer.json").exists() and not run.overwrite:
        raise InputError("there is a tokenizer already", where=run.out, remedy="--overwrite replaces it")
    check_writable(run.out / "tokenizer.json")
    wordpiece = train_on_corpus(run.corpus, run.layout, run.vocabulary, console)
    run.out.mkdir(parents=True, exist_ok=True)
    write_tokenizer(run.out, wordpiece, max_length=512)
    console.say(f"wrote {run.out}/tokenizer.json")
    return wordpiece


def train_on_corpus(corpus: tuple[Path, ...], layout: Layout, vocabulary: TokenizerSettings, console: Console) -> WordPiece:
    """Train a vocabulary on files of raw text and say what it came to."""
    check_language(layout.language or "en")
    sources = find_sources(corpus)
    console.say(f"tokenizer: training {vocabulary.vocab_size:,} pieces, {vocabulary.case}, on {len(sources):,} files")
    wordpiece = train_wordpiece(_Sentences(sources, layout), vocabulary)
    if wordpiece.vocab_size < vocabulary.vocab_size:
        console.say(f"tokenizer: the corpus gave {wordpiece.vocab_size:,} pieces that occur "
                    f"{vocabulary.min_frequency} times or more")
    return wordpiece


@dataclass(frozen=True)
class _Sentences:
    """The sentences of some files, read anew each time they are gone through."""

    sources: list[Path]
    layout: Layout

    def __iter__(self) -> Iterator[str]:
        for source in self.sources:
            for document in read_documents(source, self.layout):
                yield from document_sentences(document, self.layout, self.layout.language or "en")
