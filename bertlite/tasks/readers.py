"""Tables as they are found: files or Python rows in; texts, pairs and labels out, each with its place for errors.

Columns of words and tags (CoNLL) and question files (SQuAD) are read elsewhere, into rows like a table's.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertlite.corpus.rows import (
    Row,
    check_characters,
    csv_rows,
    dataset_rows,
    decoded_lines,
    is_saved_dataset,
    json_rows,
    kind_of,
    parquet_rows,
    text_lines,
)
from bertlite.errors import InputError, nearest
from bertlite.tasks.conll import SUFFIXES as CONLL
from bertlite.tasks.conll import conll_rows
from bertlite.tasks.squad import squad_rows

Text = str | tuple[str, str]
LARGEST_NUMBER = 1e30  # what float32 can square the tenth part of, and no measure reaches
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".txt", ".json", *CONLL)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns hold what, by name; without a header by number, from 1."""

    text_column: str | None = None
    """The text, `text`; of question answering the question, `question`."""
    pair_column: str | None = None
    """The second text of a pair; of question answering the passage, `context`."""
    label_column: str | None = None
    """Label, labels or number, `label`; of tagging `tags`, or a column of CoNLL by number or name; of questions `answers`."""
    label_separator: str | None = None
    """What stands between the labels of a multi-label text, where they are no JSON list."""
    words_column: str | None = None
    """Tagging: the words, `words`, or a column of CoNLL by number or name."""
    id_column: str | None = None
    """A column to keep beside the results."""
    format: Literal["auto", "table", "columns"] = "auto"
    """What a .txt, .tsv or .csv is: a table, or columns of words and tags (CoNLL)."""
    scheme: Literal["auto", "iob1", "iob2", "iobes", "plain"] = "auto"
    """How tags mark spans; plain takes each as it is, as parts of speech."""
    split_words: bool = False
    """Tagging: make each character a word of its own, as Chinese is best tagged."""
    no_header: bool = False
    """The table's first line is a row; columns are called 1, 2, 3 ..."""
    delimiter: str | None = None
    """What separates the columns of a csv; found out when not given."""
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.delimiter in ("\\t", "tab"):
            object.__setattr__(self, "delimiter", "\t")
        if self.label_separator == "":
            raise InputError("--label-separator must not be empty")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise InputError(f"--delimiter must be one character; got {self.delimiter!r}")

    def check(self, task: str, *used: str) -> None:
        """Raise InputError for a setting that was given and that `task` has no use for."""
        for name in ("pair_column", "label_separator", "words_column", "scheme", "split_words"):
            if name not in used and getattr(self, name) != getattr(Columns(), name):
                raise InputError(f"--{name.replace('_', '-')} is not for {task}", remedy="leave it out")


@dataclass(frozen=True)
class Table:
    """Rows with their line numbers; `where` names the source. `rows` can be gone through once."""

    rows: Iterator[tuple[int, Row]]
    where: str
    kind: str
    """The suffix its rows came from: .csv, .tsv, .jsonl, .parquet, .txt, .conll, .json, or empty for Python rows."""


def open_table(source: Any, columns: Columns) -> Table:
    """Open a file, `-` for standard input, a list of dicts or texts, a DataFrame or a datasets.Dataset.

    Raises InputError for a file that is not there or of a kind that is not read.
    """
    if not isinstance(source, (str, Path)):
        return Table(_python_rows(source), "the rows given", "")
    if str(source) == "-":
        return _standard_input(columns.encoding)
    path = Path(source)
    if path.is_dir() and is_saved_dataset(path):
        return Table(dataset_rows(path), str(path), "")
    if not path.is_file():
        raise InputError("there is no such file", where=path)
    kind = kind_of(path)
    if kind in CONLL or columns.format == "columns":
        return Table(conll_rows(path, columns.encoding), str(path), ".conll")
    makers: dict[str, Callable[[], Iterator[tuple[int, Row]]]] = {
        ".parquet": lambda: parquet_rows(path),
        ".jsonl": lambda: json_rows(text_lines(path, columns.encoding), path),
        ".json": lambda: squad_rows(path, columns.encoding),
        ".txt": lambda: ((number, {"text": line}) for number, line in text_lines(path, columns.encoding)),
        ".csv": lambda: csv_rows(path, encoding=columns.encoding, has_header=not columns.no_header, delimiter=columns.delimiter),
    }
    makers[".tsv"] = makers[".csv"]
    if kind not in makers:
        raise InputError(f"files of kind {path.suffix or 'no suffix'!r} are not read", where=path,
                         remedy=f"rename or convert it to one of {', '.join(TABLES)}")
    return Table(makers[kind](), str(path), kind)


def _standard_input(encoding: str) -> Table:
    lines = decoded_lines(sys.stdin.buffer, encoding, "standard input")
    first = next(lines, None)
    if first is None:
        return Table(iter(()), "standard input", ".txt")
    lines = itertools.chain([first], lines)
    if first[1].lstrip().startswith("{"):
        return Table(json_rows(lines, "standard input"), "standard input", ".jsonl")
    return Table(((number, {"text": line}) for number, line in lines), "standard input", ".txt")


def _python_rows(source: Any) -> Iterator[tuple[int, Row]]:
    if hasattr(source, "to_dict") and hasattr(source, "columns"):  # a DataFrame
        source = source.to_dict("records")
    for number, row in enumerate(source, start=1):
        if isinstance(row, str):
            row = {"text": row}
        if not isinstance(row, dict):
            raise InputError(f"a row must be a dictionary or a text; got {type(row).__name__}", where="the rows given",
                             line=number)
        # Arrays and scalars of NumPy, as DataFrames hold them, become lists and numbers.
        yield number, {name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}


def take_text(row: Row, columns: Columns, where: str, line: int) -> Text:
    """Return the text of a row, or its pair; raises InputError for a missing column or a value that is not text."""
    if columns.pair_column is None:
        return text_of(row, columns.text_column, "text", where, line)
    return text_of(row, columns.text_column, "text", where, line), text_of(row, columns.pair_column, "pair", where, line)


def take_label(row: Row, columns: Columns, where: str, line: int) -> str:
    """Return the label of a row by its name; numbers become their text."""
    value = column_of(row, columns.label_column, "label", where, line)
    if value is None or value == "" or value != value:
        raise InputError(f"the column {columns.label_column or 'label'!r} is empty", where=where, line=line)
    return _label_name(value, where, line)


def _label_name(value: Any, where: str, line: int) -> str:
    """Return a label as a name; whole numbers may have become floats, as they do in a column with gaps."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, (str, int)) or not str(value).strip():
        remedy = "--task regression predicts numbers" if isinstance(value, float) else "a label is a text or a whole number"
        raise InputError(f"the label {value!r} is a {type(value).__name__}, not a name", where=where, line=line, remedy=remedy)
    return str(value).strip()


def take_label_list(row: Row, columns: Columns, where: str, line: int) -> tuple[str, ...]:
    """Return the labels of a row, which may be none: a list, a JSON list, or texts between separators."""
    value = column_of(row, columns.label_column, "label", where, line)
    if value is None or value == "" or value != value:
        return ()
    if isinstance(value, str):
        value = _split_labels(value, columns.label_separator, where, line)
    if not isinstance(value, (list, tuple)):
        raise InputError(f"the labels {value!r} are no list of names", where=where, line=line,
                         remedy='give a JSON list such as ["a", "b"], or --label-separator')
    return tuple(dict.fromkeys(_label_name(name, where, line) for name in value))


def _split_labels(value: str, separator: str | None, where: str, line: int) -> Any:
    if separator is not None:
        return [name for name in value.split(separator) if name.strip()]
    try:
        found = json.loads(value)
    except json.JSONDecodeError:
        found = None
    if isinstance(found, list):
        return found
    raise InputError(f"the labels {value!r} are no JSON list", where=where, line=line,
                     remedy="--label-separator names what stands between them")


def from_json(value: Any) -> Any:
    """Return the list or object that a text holds as JSON, as cells of a csv do; anything else as it is."""
    if isinstance(value, str) and value.startswith(("[", "{")):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value


def take_number(row: Row, columns: Columns, where: str, line: int) -> float:
    """Return the number of a row."""
    value = column_of(row, columns.label_column, "label", where, line)
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not abs(number) < LARGEST_NUMBER:
        raise InputError(f"the column {columns.label_column or 'label'!r} holds {value!r}, not a number", where=where, line=line)
    return number


def text_of(row: Row, column: str | None, flag: str, where: str, line: int) -> str:
    """Return the text of a column, empty where there is nothing; raises InputError for what is not text."""
    value = column_of(row, column, flag, where, line)
    column = column or flag
    if value is None or value != value:  # None and NaN: how tables say that there is nothing
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"the column {column!r} holds {type(value).__name__}, not text", where=where, line=line)
    check_characters(value, where, line)
    return value


def column_of(row: Row, column: str | None, flag: str, where: str, line: int) -> Any:
    """Return the value of a column, by default called `flag`, which --FLAG-column names; raises InputError without one."""
    column = column or flag
    if "columns" in row and "lines" in row:
        raise InputError("the file holds columns of words and tags, which are for tagging", where=where, line=line)
    if column not in row:
        raise InputError(f"there is no column {column!r}{nearest(column, map(str, row))}", where=where, line=line,
                         remedy=f"--{flag}-column names one of {', '.join(map(str, row))}")
    return row[column]


def chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
