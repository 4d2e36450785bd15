"""Files of raw text -> documents, each a list of paragraphs (or of sentences, where a line is a sentence).

Plain text is read in three layouts: a paragraph, a sentence or a hard-wrapped piece a line; a document ends at a
blank line or at the end of its file. In jsonl, csv, tsv, parquet and saved `datasets` a row is a document.
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from bertlite.errors import InputError, nearest

TEXT_KINDS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet")
LONGEST_FIELD = 1 << 30  # characters in one csv field; the csv module's own limit is 131,072


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
    """One document: its lines, where it began, and whether the lines are sentences already."""

    lines: list[str]
    source: Path
    line_number: int


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
        if _is_saved_dataset(path):
            return [path]
        found = sorted(p for p in path.rglob("*") if p.is_file() and _kind(p) in TEXT_KINDS)
        if not found:
            raise InputError(f"the folder holds no {', '.join(TEXT_KINDS)} file (or .gz of one)", where=path)
        return found
    if path.exists():
        if _kind(path) not in TEXT_KINDS:
            raise InputError(f"files of kind {path.suffix or 'no suffix'!r} are not read as text", where=path,
                             remedy=f"rename or convert it to one of {', '.join(TEXT_KINDS)}")  # fmt: skip
        return [path]
    matches = sorted(Path(p) for p in glob.glob(pattern, recursive=True) if _kind(Path(p)) in TEXT_KINDS)
    if not matches:
        raise InputError("there is no such file, folder or glob match", where=pattern)
    return matches


def _kind(path: Path) -> str:
    suffixes = path.suffixes
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else path.suffix


def _is_saved_dataset(path: Path) -> bool:
    return (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists()


def read_documents(source: Path, layout: Layout) -> Iterator[Document]:
    """Yield the documents of one source; empty ones are left out.

    Raises InputError with file and line for text that is not in the encoding, NUL bytes, a malformed row or a
    missing column.
    """
    if source.is_dir():
        yield from _read_rows(_dataset_rows(source), source, layout)
    elif _kind(source) == ".parquet":
        yield from _read_rows(_parquet_rows(source), source, layout)
    elif _kind(source) == ".jsonl":
        yield from _read_rows(_json_rows(source, layout), source, layout)
    elif _kind(source) in (".csv", ".tsv"):
        yield from _read_rows(_csv_rows(source, layout), source, layout)
    else:
        yield from _read_text(source, layout)


# --- plain text ------------------------------------------------------------------------------------------------


def text_lines(source: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a text file or .gz; any line end, byte-order mark dropped."""
    number = 0
    with _decoding_errors(source, encoding, lambda: number), _open_text(source, encoding) as handle:
        for number, line in enumerate(handle, start=1):  # noqa: B007 (the error handler reads it)
            if "\0" in line:
                raise InputError("the line holds a NUL byte", where=source, line=number,
                                 remedy="is it a binary file, or UTF-16? then give --encoding")  # fmt: skip
            yield number, line.rstrip("\n")


def _open_text(source: Path, encoding: str) -> IO[str]:
    name = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    if source.suffix == ".gz":
        return gzip.open(source, "rt", encoding=name)  # type: ignore[return-value]
    return open(source, encoding=name)


@contextmanager
def _decoding_errors(source: Path, encoding: str, line_number: Any) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        # The text is decoded in blocks, so the line is found by looking again.
        raise InputError(f"the text is not {encoding} ({error.reason})", where=source,
                         line=_first_bad_line(source, encoding) or line_number() + 1,
                         remedy="give its --encoding, such as latin-1 or cp1252") from None  # fmt: skip
    except LookupError:
        raise InputError(f"--encoding {encoding!r} is not a known encoding", remedy="try utf-8 or latin-1") from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"not a whole gzip file ({error})", where=source) from None
    except (PermissionError, IsADirectoryError) as error:
        raise InputError(f"cannot be read ({error.strerror})", where=source) from None


def _first_bad_line(source: Path, encoding: str) -> int | None:
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rb") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return number
    return None


def _read_text(source: Path, layout: Layout) -> Iterator[Document]:
    begin, blocks, block = 1, [], []  # type: int, list[list[str]], list[str]
    for number, line in text_lines(source, layout.encoding):
        if line.strip():
            if not blocks and not block:
                begin = number
            block.append(line)
            continue
        if block:
            blocks.append(block)
            block = []
        if layout.document == "blank-line" and blocks:
            yield Document(_join(blocks, layout), source, begin)
            blocks = []
    if block:
        blocks.append(block)
    if blocks:
        yield Document(_join(blocks, layout), source, begin)


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


def _read_rows(rows: Iterator[tuple[int, dict[str, Any]]], source: Path, layout: Layout) -> Iterator[Document]:
    for number, row in rows:
        if layout.text_column not in row:
            raise InputError(f"there is no column {layout.text_column!r}{nearest(layout.text_column, row)}",
                             where=source, line=number,
                             remedy=f"--text-column names one of {', '.join(map(str, row))}")  # fmt: skip
        text = row[layout.text_column]
        if text is None:
            continue
        if not isinstance(text, str):
            raise InputError(f"the column {layout.text_column!r} holds {type(text).__name__}, not text", where=source,
                             line=number)  # fmt: skip
        if "\0" in text:
            raise InputError("the text holds a NUL character", where=source, line=number)
        lines = [line for line in text.splitlines() if line.strip()]
        if lines:
            yield Document([_unwrap(lines)] if layout.line == "wrapped" else lines, source, number)


def _json_rows(source: Path, layout: Layout) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in text_lines(source, layout.encoding):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"not valid JSON ({error})", where=source, line=number) from None
        if not isinstance(row, dict):
            raise InputError("a line must be a JSON object", where=source, line=number)
        yield number, row


def _csv_rows(source: Path, layout: Layout) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(LONGEST_FIELD)
    lines = (line + "\n" for _, line in text_lines(source, layout.encoding))
    reader = csv.DictReader(lines, delimiter="\t" if _kind(source) == ".tsv" else ",")
    try:
        for row in reader:
            yield reader.line_num, {k: v for k, v in row.items() if k is not None}
    except csv.Error as error:
        raise InputError(f"not valid csv ({error})", where=source, line=reader.line_num) from None


def _parquet_rows(source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    import datasets  # slow to load and rarely needed

    try:
        rows = datasets.load_dataset("parquet", data_files=str(source), split="train", streaming=True)
        yield from enumerate(rows, start=1)
    except (datasets.exceptions.DatasetGenerationError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"not a readable parquet file ({error})", where=source) from None


def _dataset_rows(source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    import datasets  # slow to load and rarely needed

    try:
        rows = datasets.load_from_disk(str(source))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"not a readable saved data set ({error})", where=source) from None
    if isinstance(rows, datasets.DatasetDict):
        raise InputError("the folder holds several splits", where=source,
                         remedy=f"name one of them: {', '.join(str(source / name) for name in rows)}")  # fmt: skip
    yield from enumerate(rows, start=1)


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
