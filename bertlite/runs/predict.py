"""`bertlite predict`: rows in; the same rows with label and probabilities out, one for one and in order."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from bertlite.config import from_dict, to_dict
from bertlite.errors import InputError
from bertlite.runs.console import Console
from bertlite.runs.settings import PLAIN, Rows, build
from bertlite.runs.tables import open_writer
from bertlite.tasks.predictor import Predictor
from bertlite.tasks.readers import Columns, Table, chunks, open_table, take_text

ROWS_AT_ONCE = 4096  # read, sorted by length and predicted together: memory does not grow with the input


@dataclass(frozen=True, kw_only=True)
class PredictRun:
    """Predict labels with a fine-tuned model."""

    model: Path
    """Folder of a fine-tuned model."""
    input: Rows
    """A csv, tsv, jsonl, parquet or txt file (a text a line), or - for standard input."""
    output: Path
    """A csv, tsv, jsonl or parquet file, or - for standard output."""
    batch_size: int = 32
    max_length: int | None = None
    """Tokens a text; that of the training when not given."""
    device: str = "auto"
    threads: int | None = None
    overwrite: bool = False
    """Replace an output file that is there."""
    quiet: bool = False
    """Say nothing but errors."""
    columns: Annotated[Columns, PLAIN] = field(default_factory=Columns)


def predict(**settings: Any) -> int:
    """Predict the labels of a table's rows and return their number; keywords are the fields of PredictRun and Columns.

    Every input column is kept, first and unchanged; then come `label`, `score` and a `score_` column a label, with
    `predicted_` before them where the input has a column of that name. Raises InputError for rows that cannot be used.
    """
    run = build(PredictRun, settings)
    console = Console(run.quiet)
    if run.batch_size < 1:
        raise InputError(f"--batch-size must be at least 1; got {run.batch_size}")
    predictor = Predictor.from_pretrained(run.model, device=run.device, max_length=run.max_length, threads=run.threads)
    columns = columns_as_trained(run.columns, predictor.columns)
    table = open_table(run.input, columns)
    if table.kind == ".txt":
        columns = dataclasses.replace(columns, text_column="text", pair_column=None)
    total = _write_rows(run, predictor, table, columns)
    cut = predictor.texts.report()
    if cut:
        console.say(cut)
    console.say(f"{total:,} rows predicted")
    return total


def _write_rows(run: PredictRun, predictor: Predictor, table: Table, columns: Columns) -> int:
    total, prefix = 0, None
    with open_writer(run.output, table.kind, overwrite=run.overwrite) as writer:
        for rows in chunks(table.rows, ROWS_AT_ONCE):
            texts = [take_text(row, columns, table.where, line) for line, row in rows]
            for (_, row), answer in zip(rows, predictor.predict(texts, run.batch_size), strict=True):
                new = {"label": answer["label"], "score": answer["score"],
                       **{f"score_{name}": value for name, value in answer["scores"].items()}}
                if prefix is None:
                    prefix = "predicted_" if new.keys() & row.keys() else ""
                taken = {prefix + name for name in new} & row.keys()
                if taken:
                    raise InputError(f"a row has a column {sorted(taken)[0]!r}, the first one has not", where=table.where)
                writer.write(row | {prefix + name: value for name, value in new.items()})
            total += len(rows)
    return total


def columns_as_trained(given: Columns, trained: dict[str, Any]) -> Columns:
    """Return the columns to read: what was given, and for the rest what the model was trained with."""
    defaults, asked = to_dict(Columns()), to_dict(given)
    known = {name: value for name, value in trained.items() if name in ("text_column", "pair_column", "label_column")}
    return from_dict(Columns, defaults | known | {name: value for name, value in asked.items() if value != defaults[name]})
