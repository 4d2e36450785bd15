"""`bertlite predict`: rows in; the same rows with what the model's task says of them out, one for one and in order."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from bertlite.config import from_dict, to_dict
from bertlite.corpus.rows import Row
from bertlite.errors import InputError
from bertlite.runs.console import Console
from bertlite.runs.settings import PLAIN, Rows, UseSettings, build
from bertlite.runs.tables import PREFIXES, ConllWriter, open_writer
from bertlite.tasks.conll import column_number
from bertlite.tasks.predictor import USED_COLUMNS, Predictor
from bertlite.tasks.readers import Columns, Table, chunks, open_table
from bertlite.tasks.sentences import DEFAULT_TAGS
from bertlite.tasks.task import Examples

ROWS_AT_ONCE = 4096  # read, sorted by length and predicted together: memory does not grow with the input


@dataclass(frozen=True, kw_only=True)
class PredictRun:
    """Predict with a fine-tuned model."""

    model: Path
    """Folder of a fine-tuned model."""
    input: Rows
    """A csv, tsv, jsonl, parquet, CoNLL or SQuAD file, a txt file (a text a line), or - for standard input."""
    output: Path
    """A csv, tsv, jsonl or parquet file, or - for standard output; like the input also .conll, or .json of answers."""
    n_best: int = 1
    """Question answering: keep so many answers a question."""
    overwrite: bool = False
    """Replace an output file that is there."""
    columns: Annotated[Columns, PLAIN] = field(default_factory=Columns)
    use: Annotated[UseSettings, PLAIN] = field(default_factory=UseSettings)


def predict(**settings: Any) -> int:
    """Predict a table's rows and return their number; keywords are the fields of PredictRun and Columns.

    Every input column is kept, first and unchanged; then comes what the task says: `label`, `score` and `score_<label>`;
    `labels`; `value`; `tags`, `scores` and `entities`; `answer`, `score`, `start` and `end`. Where the input has a column of
    one of these names, all have `predicted_` (then `predicted_2_` ...) before them. Raises InputError for rows that cannot be
    used.
    """
    run = build(PredictRun, settings)
    console = Console(run.use.quiet)
    if run.n_best < 1:
        raise InputError(f"--n-best must be at least 1; got {run.n_best}")
    predictor = Predictor.from_pretrained(run.model, **run.use.opening())
    run.columns.check(f"a model of {predictor.task.name}", *USED_COLUMNS[predictor.task.name])
    if run.columns.split_words:
        raise InputError("--split-words is a matter of training; the model does as it was trained", remedy="leave it out")
    columns = columns_as_trained(run.columns, predictor.columns)
    if run.n_best > 1 and predictor.task.name != "span-qa":
        raise InputError(f"--n-best is for question answering; the model does {predictor.task.name}")
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
    with open_writer(run.output, table.kind, overwrite=run.overwrite, inputs=[run.input]) as writer:
        is_columns = isinstance(writer, ConllWriter)
        for rows in chunks(table.rows, ROWS_AT_ONCE):
            lines = [line for line, _ in rows]
            items = [predictor.task.take(row, columns, table.where, line, labelled=False) for line, row in rows]
            examples = Examples(items, lines, table.where)
            answers = predictor.task.answers(predictor.outputs(examples, run.use.batch_size), examples)
            for (line, row), answer in zip(rows, answers, strict=True):
                new = new_columns(answer, run.n_best)
                if is_columns:
                    writer.write({"columns": row["columns"], **new})
                    continue
                if "columns" in row:
                    row = _listed(row, columns, table.where, line)
                if prefix is None:
                    prefix = next(p for p in PREFIXES if not {p + name for name in new} & row.keys())
                taken = {prefix + name for name in new} & row.keys()
                if taken:
                    raise InputError(f"the row has a column {sorted(taken)[0]!r}, the first one has not", where=table.where,
                                     line=line, remedy="put it first, or rename the column")
                writer.write(row | {prefix + name: value for name, value in new.items()})
            total += len(rows)
    return total


def new_columns(answer: dict[str, Any], n_best: int) -> dict[str, Any]:
    """Return an answer as columns: a dictionary of scores becomes a column a label."""
    new = {name: value for name, value in answer.items() if name != "n_best" and not isinstance(value, dict)}
    new |= {f"score_{name}": score for value in answer.values() if isinstance(value, dict) for name, score in value.items()}
    return new | ({"n_best": answer["n_best"][:n_best]} if n_best > 1 else {})


def _listed(row: Row, columns: Columns, where: str, line: int) -> Row:
    """Return a sentence of columns as a row of lists: its words, its tags, and where there are more columns all `fields`."""
    words = column_number(columns.words_column, "words", row, "words", where, line)
    listed: Row = {"words": [word[words] for word in row["columns"]]}
    if len(row["columns"][0]) > 1:
        tags = column_number(columns.label_column, DEFAULT_TAGS, row, "label", where, line)
        listed |= {DEFAULT_TAGS: [word[tags] for word in row["columns"]]} if tags != words else {}
    return listed | ({"fields": row["columns"]} if len(row["columns"][0]) > 2 else {})


def columns_as_trained(given: Columns, trained: Columns) -> Columns:
    """Return the columns to read: what was given, and for the rest what the model was trained with."""
    default, asked = to_dict(Columns()), to_dict(given)
    of_the_file = ("format", "no_header", "delimiter", "encoding", "id_column")
    known = {name: value for name, value in to_dict(trained).items() if name not in of_the_file}
    return from_dict(Columns, default | known | {name: value for name, value in asked.items() if value != default[name]})
