"""Rows out, one at a time: csv, tsv, jsonl, parquet, CoNLL or standard output; a file appears whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from bertlite.errors import InputError
from bertlite.files import atomic_path, check_writable
from bertlite.tasks.conll import SUFFIXES as CONLL

Row = dict[str, Any]
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
        self.names: list[str] | None = None

    def write(self, row: Row) -> None:
        """Write one row."""
        if self.names is None:
            self.names = list(row)
            self.writer.writerow(self.names)
        check_names(row, self.names)
        self.writer.writerow([_cell(row[name]) for name in self.names])

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
        """Keep one answer."""
        self.answers[str(row["id"])] = row["answer"]

    def close(self) -> None:
        """Write all answers."""
        json.dump(self.answers, self.handle, ensure_ascii=False, indent=1)


class ParquetWriter:
    """Rows as parquet; `vectors` names columns that become fixed_size_list<float>."""

    def __init__(self, path: Path, vectors: dict[str, int] | None = None):
        self.path, self.vectors = path, vectors or {}
        self.rows: list[Row] = []
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
        except (pa.lib.ArrowInvalid, pa.lib.ArrowTypeError) as error:
            raise InputError(f"a column holds values of several kinds ({error})", where=self.path,
                             remedy="name a .jsonl output") from None
        table = pa.Table.from_arrays(arrays, names=names)
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.path, table.schema)
        self.writer.write_table(table)
        self.rows = []

    def _array(self, pa: Any, name: str, values: list[Any]) -> Any:
        if name in self.vectors:
            return pa.array(values, type=pa.list_(pa.float32(), self.vectors[name]))
        return pa.array(values)


@contextlib.contextmanager
def open_writer(output: Path, input_kind: str, *, overwrite: bool, vectors: dict[str, int] | None = None) -> Iterator[Writer]:
    """Yield a writer for `output` by its suffix; `-` writes csv, tsv or CoNLL where the input is that, else JSON lines.

    Raises InputError for another suffix, or a file that is there.
    """
    if str(output) == "-":
        writer = _writer(input_kind if input_kind in (".csv", ".tsv", ".conll") else ".jsonl", sys.stdout)
        yield writer
        writer.close()
        sys.stdout.flush()
        return
    kinds = {".conll": (*TABLES, *CONLL), ".json": (*TABLES, ".json")}.get(input_kind, TABLES)
    check_output(output, kinds, overwrite=overwrite)
    with atomic_path(output) as partial:
        if output.suffix == ".parquet":
            parquet = ParquetWriter(partial, vectors)
            yield parquet
            parquet.close()
            return
        with open(partial, "w", encoding="utf-8", newline="") as handle:
            writer = _writer(output.suffix, handle)
            yield writer
            writer.close()


def _writer(kind: str, handle: IO[str]) -> Writer:
    if kind in (".csv", ".tsv"):
        return CsvWriter(handle, "\t" if kind == ".tsv" else ",")
    return ConllWriter(handle) if kind in CONLL else AnswerWriter(handle) if kind == ".json" else JsonlWriter(handle)


def check_output(output: Path, suffixes: tuple[str, ...], *, overwrite: bool) -> None:
    """Raise InputError unless `output` may be written: a suffix that is known, and not there yet."""
    if output.suffix not in suffixes:
        raise InputError(f"--output {output} must end in one of {', '.join(suffixes)}")
    check_writable(output)
    if output.exists() and not overwrite:
        raise InputError("the file is there already", where=output, remedy="--overwrite replaces it")
