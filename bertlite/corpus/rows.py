"""Files of rows or lines -> (line number, row): text, jsonl, csv, tsv, parquet, saved `datasets`; also .gz of the first four.

Everything is read a piece at a time, and every error names file and line.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bertlite.errors import InputError

LONGEST_FIELD = 1 << 30  # characters in one csv field; the csv module's own limit is 131,072
DELIMITERS = ",\t;|"

Row = dict[str, Any]


def kind_of(path: Path) -> str:
    """Return the suffix that says what a file holds, .gz aside: `.csv` for both a.csv and a.csv.gz."""
    suffixes = path.suffixes
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else path.suffix


def is_saved_dataset(path: Path) -> bool:
    """Return whether a folder was written by `datasets.save_to_disk`."""
    return (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists()


def text_lines(source: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a text file or .gz; any line end, byte-order mark dropped.

    Raises InputError for text that is not in the encoding, a NUL byte or a broken .gz.
    """
    number = 0
    with _reading_errors(source, encoding, lambda: number), _open_text(source, encoding) as handle:
        for number, line in enumerate(handle, start=1):
            if "\0" in line:
                raise InputError("the line holds a NUL byte", where=source, line=number,
                                 remedy="is it a binary file, or UTF-16? then give --encoding")
            yield number, line.rstrip("\n")


def decoded_lines(stream: IO[bytes], encoding: str, where: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a stream of bytes; raises InputError naming the line."""
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw.decode(encoding).removeprefix("\ufeff")
        except (UnicodeError, LookupError) as error:
            raise InputError(f"the text is not {encoding} ({error})", where=where, line=number,
                             remedy="give its --encoding, such as latin-1 or cp1252") from None
        check_characters(line, where, number)
        yield number, line.rstrip("\r\n")


def check_characters(text: str, where: str | Path, line: int) -> None:
    """Raise InputError for a NUL character, or half of a character (a lone surrogate, as cut-off JSON has)."""
    if "\0" in text:
        raise InputError("the text holds a NUL character", where=where, line=line)
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise InputError("the text holds half of a character (a lone surrogate)", where=where, line=line)


def _open_text(source: Path, encoding: str) -> IO[str]:
    name = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    if source.suffix == ".gz":
        return gzip.open(source, "rt", encoding=name)  # type: ignore[return-value]
    return open(source, encoding=name)


@contextmanager
def _reading_errors(source: Path, encoding: str, line_number: Callable[[], int]) -> Iterator[None]:
    try:
        yield
    except UnicodeError as error:
        # The text is decoded in blocks, so the line is found by looking again.
        raise InputError(f"the text is not {encoding} ({getattr(error, 'reason', error)})", where=source,
                         line=_first_bad_line(source, encoding) or line_number() + 1,
                         remedy="give its --encoding, such as latin-1 or cp1252") from None
    except LookupError:
        raise InputError(f"--encoding {encoding!r} is not a known encoding", remedy="try utf-8 or latin-1") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"not a whole gzip file ({error})", where=source) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=source) from None


def _first_bad_line(source: Path, encoding: str) -> int | None:
    opener: Any = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rb") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                line.decode(encoding)
            except UnicodeError:
                return number
    return None


def json_rows(lines: Iterator[tuple[int, str]], where: str | Path) -> Iterator[tuple[int, Row]]:
    """Yield the objects of JSON lines; blank lines are passed over."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"not valid JSON ({error})", where=where, line=number) from None
        if not isinstance(row, dict):
            raise InputError("a line must be a JSON object", where=where, line=number)
        yield number, row


def csv_rows(source: Path, *, encoding: str = "utf-8", has_header: bool = True, delimiter: str | None = None,
             ) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a csv or tsv; without a header the columns are "1", "2" and so on.

    Fields between tabs are taken as they stand, quotes included, unless a quote is doubled inside a quoted field.
    """
    csv.field_size_limit(LONGEST_FIELD)
    delimiter = delimiter or _sniff_delimiter(source, encoding)
    quoting: Any = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    lines = (line + "\n" for _, line in text_lines(source, encoding))
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting)
    names: list[str] | None = None
    try:
        for fields in reader:
            if not fields:
                continue
            if names is None:
                names = [name.strip() for name in fields] if has_header else [str(i + 1) for i in range(len(fields))]
                if len(set(names)) < len(names):
                    raise InputError("two columns have the same name", where=source, line=reader.line_num)
                if has_header:
                    continue
            if len(fields) != len(names):
                raise InputError(f"the row has {len(fields)} columns, the first one has {len(names)}", where=source,
                                 line=reader.line_num, remedy="quote a field that holds the delimiter")
            yield reader.line_num, dict(zip(names, map(_unquote, fields) if delimiter == "\t" else fields, strict=True))
    except csv.Error as error:
        raise InputError(f"not valid csv ({error})", where=source, line=reader.line_num) from None


def _sniff_delimiter(source: Path, encoding: str) -> str:
    if kind_of(source) == ".tsv":
        return "\t"
    first = next(text_lines(source, encoding), (0, ""))[1]
    return max(DELIMITERS, key=first.count)


def _unquote(text: str) -> str:
    inner = text[1:-1]
    is_quoted = len(text) > 2 and text[0] == text[-1] == '"' and '""' in inner and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if is_quoted else text


def parquet_rows(source: Path) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a parquet file, numbered from 1."""
    import datasets  # slow to load and rarely needed

    try:
        rows = datasets.load_dataset("parquet", data_files=str(source), split="train", streaming=True)
        for number, row in enumerate(rows, start=1):
            yield number, dict(row)
    except (datasets.exceptions.DatasetGenerationError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"not a readable parquet file ({error})", where=source) from None


def dataset_rows(source: Path) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a saved data set, numbered from 1; raises InputError for a folder of several splits."""
    import datasets  # slow to load and rarely needed

    try:
        rows = datasets.load_from_disk(str(source))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"not a readable saved data set ({error})", where=source) from None
    if isinstance(rows, datasets.DatasetDict):
        raise InputError("the folder holds several splits", where=source,
                         remedy=f"name one of them: {', '.join(str(source / name) for name in rows)}")
    for number, row in enumerate(rows, start=1):
        yield number, dict(row)
