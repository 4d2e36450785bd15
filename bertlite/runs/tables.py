"""Rows out, one at a time: csv, tsv, jsonl, parquet, CoNLL or standard output; a file appears whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from bertlite.corpus.rows import kind_of
from bertlite.errors import InputError
from bertlite.files import atomic_path, check_writable

Row = dict[str, Any]
PREFIXES = ("", "predicted_", *(f"predicted_{n}_" for n in range(2, 10)))  # of the columns that predict adds
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
PARQUET_ROWS = 4096  # rows a row group


class Writer(Protocol):
    """Takes rows."""

    def write(self, row: Row) -> None:
        """Write one row."""

    def close(self) -> None:
        """Write what is held back."""


def check_names(row: Row, names: list[str]) -> None:
    """Raise InputError for a row whose columns are not those of the first one."""
    if row.keys() != set(names):
        different = sorted(str(name) for name in row.keys() ^ set(names))
        raise InputError(f"the rows have different columns ({', '.join(different[:5])}), so they make no table",
                         remedy="name a .jsonl output")


def _cell(value: Any) -> Any:
    """Return a value as a csv holds it: lists and objects as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value


class CsvWriter:
    """Rows as csv or tsv; the first one names the columns."""

    def __init__(self, handle: IO[str], delimiter: str):
        self.writer = csv.writer(handle, delimiter=delimiter, lineterminator="\n")
        self.is_tsv = delimiter == "\t"
        self.names: list[str] | None = None

    def write(self, row: Row) -> None:
        """Write one row."""
        if self.names is None:
            self.names = list(row)
            self.writer.writerow(self.names)
        check_names(row, self.names)
        cells = [_cell(row[name]) for name in self.names]
        if self.is_tsv and any(isinstance(cell, str) and set(cell) & set("\t\n\r") for cell in cells):
            raise InputError("a text holds a tab or a line's end, which a tsv cannot hold", remedy="name a .csv or .jsonl output")
        self.writer.writerow(cells)

    def close(self) -> None:
        """Nothing is held back."""


class JsonlWriter:
    """Rows as JSON lines."""

    def __init__(self, handle: IO[str]):
        self.handle = handle

    def write(self, row: Row) -> None:
        """Write one row."""
        # Dates and the like, which parquet has and JSON has not, become their text.
        self.handle.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")

    def close(self) -> None:
        """Nothing is held back."""


class ConllWriter:
    """Sentences as columns of words: the columns that were read, then tag and probability; an empty line between sentences."""

    def __init__(self, handle: IO[str]):
        self.handle = handle

    def write(self, row: Row) -> None:
        """Write one sentence."""
        for columns, tag, score in zip(row["columns"], row["tags"], row["scores"], strict=True):
            self.handle.write("\t".join([*columns, tag, f"{score:.6f}"]) + "\n")
        self.handle.write("\n")

    def close(self) -> None:
        """Nothing is held back."""


class AnswerWriter:
    """The answer of each question under its id, one JSON object, as SQuAD's evaluation script reads it."""

    def __init__(self, handle: IO[str]):
        self.handle = handle
        self.answers: dict[str, str] = {}

    def write(self, row: Row) -> None:
        """Keep one answer; raises InputError for an id that is there twice."""
        if str(row["id"]) in self.answers:
            raise InputError(f"the question id {row['id']!r} is there twice, so answers cannot be told apart by it",
                             remedy="name a .jsonl output")
        self.answers[str(row["id"])] = row["answer"]

    def close(self) -> None:
        """Write all answers."""
        json.dump(self.answers, self.handle, ensure_ascii=False, indent=1)


class ParquetWriter:
    """Rows as parquet; `vectors` names columns that become fixed_size_list<float>."""

    def __init__(self, path: Path, vectors: dict[str, int] | None = None):
        self.path, self.vectors = path, vectors or {}
        self.rows: list[Row] = []
        self.types: dict[str, Any] = {}
        self.writer: Any = None

    def write(self, row: Row) -> None:
        """Write one row, a row group at a time."""
        if self.rows:
            check_names(row, list(self.rows[0]))
        self.rows.append(row)
        if len(self.rows) == PARQUET_ROWS:
            self._flush()

    def close(self) -> None:
        """Write the last row group."""
        if self.rows or self.writer is None:
            self._flush()
        self.writer.close()

    def _flush(self) -> None:
        import pyarrow as pa  # comes with datasets; only parquet output needs it
        import pyarrow.parquet as pq

        names = list(self.rows[0]) if self.rows else list(self.vectors)
        try:
            arrays = [self._array(pa, name, [row[name] for row in self.rows]) for name in names]
        except (pa.lib.ArrowInvalid, pa.lib.ArrowTypeError, pa.lib.ArrowNotImplementedError) as error:
            raise InputError(f"a column holds values of several kinds ({error})", remedy="name a .jsonl output") from None
        table = pa.Table.from_arrays(arrays, names=names)
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.path, table.schema)
            self.types = dict(zip(names, table.schema.types, strict=True))
        self.writer.write_table(table)
        self.rows = []

    def _array(self, pa: Any, name: str, values: list[Any]) -> Any:
        """Return a column; its type is settled by the first row group, ours by what they are, empty ones being texts."""
        if name in self.vectors:
            return pa.array(values, type=pa.list_(pa.float32(), self.vectors[name]))
        kind = self.types.get(name) or _type_of(pa, name, values)
        return pa.array(values, type=kind) if kind is not None else pa.array(values)


def _type_of(pa: Any, name: str, values: list[Any]) -> Any:
    """Return the type of a column that lists of any length and missing places would leave open, or None."""
    place = [("score", pa.float64()), ("start", pa.int64()), ("end", pa.int64())]
    known = {"tags": pa.list_(pa.string()), "words": pa.list_(pa.string()), "labels": pa.list_(pa.string()),
             "scores": pa.list_(pa.float64()), "offsets": pa.list_(pa.list_(pa.int64())), "start": pa.int64(), "end": pa.int64(),
             "entities": pa.list_(pa.struct([("entity_group", pa.string()), *place, ("word", pa.string())])),
             "n_best": pa.list_(pa.struct([("answer", pa.string()), *place]))}
    bare = next(name.removeprefix(prefix) for prefix in reversed(PREFIXES) if name.startswith(prefix))
    if bare in known:
        with contextlib.suppress(pa.lib.ArrowInvalid, pa.lib.ArrowTypeError):  # a column of the user's own with such a name
            pa.array(values, type=known[bare])
            return known[bare]
    return pa.string() if all(value is None for value in values) else None


@contextlib.contextmanager
def open_writer(output: Path, input_kind: str, *, overwrite: bool, vectors: dict[str, int] | None = None,
                inputs: Sequence[Any] = ()) -> Iterator[Writer]:
    """Yield a writer for `output` by its suffix; `-` writes csv, tsv or CoNLL where the input is that, else JSON lines.

    Columns of words are written where the input's own suffix is named. Raises InputError for another suffix, a file that is
    there, or one of the `inputs`.
    """
    if str(output) == "-":
        writer = _writer(input_kind if input_kind in (".csv", ".tsv", ".conll") else ".jsonl", sys.stdout)
        yield writer
        writer.close()
        sys.stdout.flush()
        return
    own = {kind_of(Path(i)) for i in inputs if isinstance(i, (str, Path)) and input_kind in (".conll", ".json")}
    check_output(output, tuple(dict.fromkeys((*TABLES, *own))), overwrite=overwrite)
    for i in inputs:
        if isinstance(i, (str, Path)) and Path(i).resolve() == output.resolve():
            raise InputError("is the input, and would be written over", where=output, remedy="name another --output")
    with atomic_path(output) as partial:
        if output.suffix == ".parquet":
            parquet = ParquetWriter(partial, vectors)
            yield parquet
            parquet.close()
            return
        with open(partial, "w", encoding="utf-8", newline="") as handle:
            writer = _writer(".conll" if input_kind == ".conll" and output.suffix in own else output.suffix, handle)
            yield writer
            writer.close()


def _writer(kind: str, handle: IO[str]) -> Writer:
    if kind in (".csv", ".tsv"):
        return CsvWriter(handle, "\t" if kind == ".tsv" else ",")
    return ConllWriter(handle) if kind == ".conll" else AnswerWriter(handle) if kind == ".json" else JsonlWriter(handle)


def check_output(output: Path, suffixes: tuple[str, ...], *, overwrite: bool) -> None:
    """Raise InputError unless `output` may be written: a suffix that is known, and not there yet."""
    if output.suffix not in suffixes:
        raise InputError(f"--output {output} must end in one of {', '.join(suffixes)}")
    check_writable(output)
    if output.exists() and not overwrite:
        raise InputError("the file is there already", where=output, remedy="--overwrite replaces it")
