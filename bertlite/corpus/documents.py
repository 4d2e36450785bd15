"""Files of raw text -> documents, each a list of paragraphs (or of sentences, where a line is a sentence).

Plain text is read in three layouts: a paragraph, a sentence or a hard-wrapped piece a line; a document ends at a
blank line or at the end of its file. In jsonl, csv, tsv, parquet and saved `datasets` a row is a document.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertlite.corpus.rows import (
    Row,
    check_characters,
    csv_rows,
    dataset_rows,
    is_saved_dataset,
    json_rows,
    kind_of,
    parquet_rows,
    text_lines,
)
from bertlite.corpus.sentences import split_sentences
from bertlite.errors import InputError, nearest

TEXT_KINDS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How raw text is laid out in its files."""

    line: Literal["paragraph", "sentence", "wrapped"] = "paragraph"
    """What one line of a text file is; wrapped: a piece of a paragraph broken to a width."""
    document: Literal["blank-line", "file"] = "blank-line"
    """Where a document ends, besides the end of its file."""
    encoding: str = "utf-8"
    """Encoding of the text files; a byte-order mark is accepted."""
    language: str | None = None
    """ISO 639 code, for splitting sentences; English when not given."""
    text_column: str = "text"
    """The column of jsonl, csv, parquet and saved data sets that holds the text."""


@dataclass(frozen=True)
class Document:
    """One document: its lines, which are paragraphs or sentences as the layout says."""

    lines: list[str]


def find_sources(patterns: Iterable[str | Path]) -> list[Path]:
    """Return the files (and saved data sets) that paths, folders and globs name, each once, in sorted order.

    Raises InputError for a pattern that names nothing, or a file of a kind that is not read.
    """
    sources: dict[Path, None] = {}
    for pattern in patterns:
        for source in _sources_of(str(pattern)):
            sources[source] = None
    if not sources:
        raise InputError("--corpus is empty", remedy="name text files, folders or globs")
    return list(sources)


def _sources_of(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        if is_saved_dataset(path):
            return [path]
        for name, kind in (("store.json", "a token store"), ("run.json", "the folder of a run")):
            if (path / name).exists():
                raise InputError(f"is {kind}, not text", where=path)
        found = sorted(p for p in path.rglob("*") if p.is_file() and kind_of(p) in TEXT_KINDS)
        if not found:
            raise InputError(f"the folder holds no {', '.join(TEXT_KINDS)} file (or .gz of one)", where=path)
        return found
    if path.exists():
        if kind_of(path) not in TEXT_KINDS:
            raise InputError(f"files of kind {path.suffix or 'no suffix'!r} are not read as text", where=path,
                             remedy=f"rename or convert it to one of {', '.join(TEXT_KINDS)}")
        return [path]
    matches = sorted(Path(p) for p in glob.glob(pattern, recursive=True) if kind_of(Path(p)) in TEXT_KINDS)
    if not matches:
        raise InputError("there is no such file, folder or glob match", where=pattern)
    return matches


def read_documents(source: Path, layout: Layout) -> Iterator[Document]:
    """Yield the documents of one source; empty ones are left out.

    Raises InputError with file and line for text that is not in the encoding, NUL bytes, a malformed row or a
    missing column.
    """
    if source.is_dir():
        yield from _read_rows(dataset_rows(source), source, layout)
    elif kind_of(source) == ".parquet":
        yield from _read_rows(parquet_rows(source), source, layout)
    elif kind_of(source) == ".jsonl":
        yield from _read_rows(json_rows(text_lines(source, layout.encoding), source), source, layout)
    elif kind_of(source) in (".csv", ".tsv"):
        yield from _read_rows(csv_rows(source, encoding=layout.encoding), source, layout)
    else:
        yield from _read_text(source, layout)


# --- plain text ------------------------------------------------------------------------------------------------


def _read_text(source: Path, layout: Layout) -> Iterator[Document]:
    blocks: list[list[str]] = []
    block: list[str] = []
    for _, line in text_lines(source, layout.encoding):
        if line.strip():
            block.append(line)
            continue
        if block:
            blocks.append(block)
            block = []
        if layout.document == "blank-line" and blocks:
            yield Document(_join(blocks, layout))
            blocks = []
    if block:
        blocks.append(block)
    if blocks:
        yield Document(_join(blocks, layout))


def _join(blocks: list[list[str]], layout: Layout) -> list[str]:
    """Lines between blank lines -> lines of the document; hard-wrapped pieces become one paragraph a block."""
    if layout.line == "wrapped":
        return [_unwrap(block) for block in blocks]
    return [line for block in blocks for line in block]


def _unwrap(pieces: list[str]) -> str:
    text = pieces[0].strip()
    for piece in (p.strip() for p in pieces[1:]):
        # Chinese and Japanese put no space between words, so none at a line's end either.
        text += piece if _is_cjk(text[-1]) and _is_cjk(piece[0]) else " " + piece
    return text


def _is_cjk(character: str) -> bool:
    return "\u3000" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff" or "\uff00" <= character <= "\uffef"


# --- rows ------------------------------------------------------------------------------------------------------


def _read_rows(rows: Iterator[tuple[int, Row]], source: Path, layout: Layout) -> Iterator[Document]:
    for number, row in rows:
        if layout.text_column not in row:
            raise InputError(f"there is no column {layout.text_column!r}{nearest(layout.text_column, row)}",
                             where=source, line=number,
                             remedy=f"--text-column names one of {', '.join(map(str, row))}")
        text = row[layout.text_column]
        if text is None:
            continue
        if not isinstance(text, str):
            raise InputError(f"the column {layout.text_column!r} holds {type(text).__name__}, not text", where=source,
                             line=number)
        check_characters(text, source, number)
        lines = [line for line in text.splitlines() if line.strip()]
        if lines:
            yield Document([_unwrap(lines)] if layout.line == "wrapped" else lines)


def document_sentences(document: Document, layout: Layout, language: str) -> list[str]:
    """Return the sentences of a document."""
    if layout.line == "sentence":
        return [line.strip() for line in document.lines]
    return [sentence for line in document.lines for sentence in split_sentences(line, language)]


# --- does the layout fit? --------------------------------------------------------------------------------------


def layout_advice(documents: list[Document], num_sentences: list[int], layout: Layout) -> str | None:
    """Return what looks wrong about `layout` for a sample of documents, or None.

    `num_sentences` holds the number of sentences found in each document of the sample.
    """
    lines = [line.strip() for document in documents for line in document.lines]
    if not lines:
        return None
    ended = sum(line[-1] in ".!?。！？…\"'”’)]:;" for line in lines) / len(lines)
    longest = max(map(len, lines))
    if layout.line != "wrapped" and len(lines) >= 50 and ended < 0.5 and 40 <= longest <= 120:
        return f"only {ended:.0%} of the lines end like a sentence and none is longer than {longest}: --line wrapped?"
    if layout.line == "paragraph" and len(documents) > 20 and sum(n <= 1 for n in num_sentences) > len(documents) / 2:
        return "most documents are one sentence: if blank lines separate paragraphs, --document file"
    return None
