"""`bertlite embed`: texts in, vectors out as .npy, .parquet or .jsonl; as many rows as came in, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from bertlite.errors import InputError
from bertlite.files import atomic_path
from bertlite.formats.sentence_transformers import PoolingMode
from bertlite.runs.console import Console
from bertlite.runs.settings import PLAIN, Rows, UseSettings, build
from bertlite.runs.tables import Writer, check_output, open_writer
from bertlite.tasks.embedding import Combination, Embedder
from bertlite.tasks.readers import Columns, Table, chunks, open_table, take_text

ROWS_AT_ONCE = 4096  # read, sorted by length and embedded together: memory does not grow with the input
NPY_HEADER = 128  # bytes; the number of rows is filled in when it is known


@dataclass(frozen=True, kw_only=True)
class EmbedRun:
    """Embed texts, words or tokens."""

    model: Path
    """Folder of a model."""
    input: Rows
    """A csv, tsv, jsonl, parquet or txt file (a text a line), or - for standard input."""
    output: Path
    """A .npy (texts only), .parquet or .jsonl file."""
    pooling: PoolingMode | None = None
    """mean, cls or max; what the model's modules.json says when not given, else mean."""
    layers: tuple[int, ...] = ()
    """Hidden states to take, -1 the last, 0 the embeddings; the last when not given."""
    combine: Combination = "mean"
    """Average or concatenate several layers."""
    level: Literal["text", "word", "token"] = "text"
    normalize: bool = False
    """Scale each vector to length 1."""
    truncate_dim: int | None = None
    """Keep the first dimensions only."""
    overwrite: bool = False
    """Replace an output file that is there."""
    columns: Annotated[Columns, PLAIN] = field(default_factory=Columns)
    use: Annotated[UseSettings, PLAIN] = field(default_factory=UseSettings)

    def __post_init__(self) -> None:
        if self.truncate_dim is not None and self.truncate_dim < 1:
            raise InputError(f"--truncate-dim must be at least 1; got {self.truncate_dim}")
        if self.level != "text" and (self.normalize or self.truncate_dim or self.pooling):
            raise InputError("--pooling, --normalize and --truncate-dim are for --level text")
        if self.level != "text" and self.columns.pair_column:
            raise InputError("--level word and token take single texts; leave --pair-column out")
        if self.level != "text" and self.output.suffix == ".npy":
            raise InputError("--level word and token need an output of rows", remedy="name a .parquet or .jsonl file")


def embed(**settings: Any) -> int:
    """Embed the rows of a table and return their number; keywords are the fields of EmbedRun and Columns.

    Raises InputError for rows or settings that cannot be used.
    """
    run = build(EmbedRun, settings)
    console = Console(run.use.quiet)
    check_output(run.output, (".npy", ".parquet", ".jsonl"), overwrite=run.overwrite)
    embedder = Embedder.from_pretrained(run.model, pooling=run.pooling, **run.use.opening())
    table = open_table(run.input, run.columns)
    if run.output.suffix == ".npy":
        total = _write_npy(run, embedder, table)
    else:
        total = _write_rows(run, embedder, table)
    cut = embedder.texts.report()
    if cut:
        console.say(cut)
    console.say(f"{total:,} texts embedded in {run.output}")
    return total


def _vectors(run: EmbedRun, embedder: Embedder, table: Table) -> Iterator[tuple[list[Any], np.ndarray]]:
    for rows in chunks(table.rows, ROWS_AT_ONCE):
        texts = [take_text(row, run.columns, table.where, line) for line, row in rows]
        yield rows, embedder.encode(texts, run.use.batch_size, layers=run.layers or None, combine=run.combine,
                                    normalize_embeddings=run.normalize, truncate_dim=run.truncate_dim)


def _dimension(run: EmbedRun, embedder: Embedder) -> int:
    full = embedder.dimension(run.layers or None, run.combine)
    return min(full, run.truncate_dim or full)


def _write_npy(run: EmbedRun, embedder: Embedder, table: Table) -> int:
    total = 0
    with atomic_path(run.output) as partial, open(partial, "wb") as handle:
        handle.write(bytes(NPY_HEADER))
        for rows, vectors in _vectors(run, embedder, table):
            handle.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
            total += len(rows)
        handle.seek(0)
        handle.write(_npy_header(total, _dimension(run, embedder)))
    return total


def _npy_header(rows: int, columns: int) -> bytes:
    """Return the header of a version 1.0 .npy file of float32, padded to NPY_HEADER bytes."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    return b"\x93NUMPY\x01\x00" + (NPY_HEADER - 10).to_bytes(2, "little") + text.ljust(NPY_HEADER - 11).encode() + b"\n"


def _write_rows(run: EmbedRun, embedder: Embedder, table: Table) -> int:
    with open_writer(run.output, table.kind, overwrite=run.overwrite, vectors={"embedding": _dimension(run, embedder)}) as writer:
        return (_write_texts if run.level == "text" else _write_tokens)(run, embedder, table, writer)


def _write_texts(run: EmbedRun, embedder: Embedder, table: Table, writer: Writer) -> int:
    total = 0
    for rows, embedded in _vectors(run, embedder, table):
        for (line, row), vector in zip(rows, embedded.tolist(), strict=True):
            writer.write(_identity(row, run.columns.id_column, table.where, line) | {"embedding": vector})
        total += len(rows)
    return total


def _write_tokens(run: EmbedRun, embedder: Embedder, table: Table, writer: Writer) -> int:
    """Write a row for each token or word, with the number of its text."""
    total = 0
    for rows in chunks(table.rows, ROWS_AT_ONCE):
        texts = [str(take_text(row, run.columns, table.where, line)) for line, row in rows]
        level: Literal["token", "word"] = "word" if run.level == "word" else "token"
        found = embedder.encode_tokens(texts, run.use.batch_size, layers=run.layers or None, combine=run.combine, level=level)
        for (line, row), tokens in zip(rows, found, strict=True):
            kept = {"row": total} | _identity(row, run.columns.id_column, table.where, line)
            parts = zip(tokens.tokens, tokens.offsets.tolist(), tokens.vectors.tolist(), strict=True)
            for token, (begin, end), vector in parts:
                writer.write(kept | {level: token, "start": begin, "end": end, "embedding": vector})
            total += 1
    return total


def _identity(row: dict[str, Any], column: str | None, where: str, line: int) -> dict[str, Any]:
    if column is None:
        return {}
    if column not in row:
        raise InputError(f"there is no column {column!r}", where=where, line=line,
                         remedy=f"--id-column names one of {', '.join(map(str, row))}")
    return {column: row[column]}
