"""`bertlite evaluate`: figures of a model on labelled rows, or of a masked LM on raw text, as one dictionary."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from bertlite.corpus.documents import Layout, find_sources
from bertlite.corpus.rows import Row
from bertlite.corpus.store import DocumentSet, TokenStore
from bertlite.corpus.store_builder import build_store
from bertlite.errors import InputError
from bertlite.examples.sentence_pairs import check_next_sentences
from bertlite.formats.huggingface import read_config, task_of
from bertlite.inputs.masking import MaskingSettings
from bertlite.runs.console import Console
from bertlite.runs.predict import columns_as_trained
from bertlite.runs.settings import PLAIN, Rows, UseSettings, build
from bertlite.runs.tables import PREFIXES
from bertlite.runs.validation import Validation
from bertlite.tasks.fill_mask import load_pretraining_model
from bertlite.tasks.predictor import Predictor, columns_of
from bertlite.tasks.readers import Columns, open_table
from bertlite.tasks.task import Task, examples_of, read_examples
from bertlite.training.hardware import HardwareSettings, start

# The column in which predict tells each task's answer.
PREDICTED = {"classification": "label", "multi-label": "labels", "regression": "value", "tagging": "tags", "span-qa": "answer"}


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """How raw text is read and masked, for a masked LM."""

    line: Literal["paragraph", "sentence", "wrapped"] = "paragraph"
    """What one line of a text file is."""
    document: Literal["blank-line", "file"] = "blank-line"
    """Where a document ends."""
    language: str | None = None
    """ISO 639 code; English when not given."""
    num_sequences: int = 2048
    """At most so many sequences are masked and scored."""

    def __post_init__(self) -> None:
        if self.num_sequences < 1:
            raise InputError(f"--num-sequences must be at least 1; got {self.num_sequences}")


@dataclass(frozen=True, kw_only=True)
class EvaluateRun:
    """Measure a model: a fine-tuned one on labelled rows, a masked LM on raw text."""

    model: Path
    """Folder of a model."""
    input: Rows
    """Labelled rows (csv, tsv, jsonl, parquet, CoNLL, SQuAD's JSON), or raw text for a masked LM."""
    predicted: bool = False
    """The rows hold predictions, written by bertlite predict: score these."""
    columns: Annotated[Columns, PLAIN] = field(default_factory=Columns)
    use: Annotated[UseSettings, PLAIN] = field(default_factory=UseSettings)
    text: Annotated[TextSettings, PLAIN] = field(default_factory=TextSettings)


def evaluate(**settings: Any) -> dict[str, Any]:
    """Return the figures of a model; keywords are the fields of EvaluateRun and its groups.

    A fine-tuned model: the figures of its task (classification: loss, accuracy, macro and weighted F1, Matthews' correlation,
    calibration error, confusion matrix; tagging: accuracy, and of entities precision, recall and F1; question answering: EM
    and F1; ...) and those of each label. A masked LM: losses and accuracies (all chosen positions, and those that show
    [MASK]), the unigram floor, next-sentence accuracy, bits a character. Raises InputError for input that cannot be used.
    """
    run = build(EvaluateRun, settings)
    config, raw = read_config(run.model)
    if run.use.max_length is not None and not 8 <= run.use.max_length <= config.max_positions:
        raise InputError(f"--max-length must be between 8 and the model's {config.max_positions}; got {run.use.max_length}")
    if is_fine_tuned(run.model, raw):
        return _evaluate_task(run)
    if run.predicted:
        raise InputError("--predicted is for a fine-tuned model", where=run.model)
    return _evaluate_masked_lm(run)


def is_fine_tuned(model: Path, raw: Mapping[str, Any]) -> bool:
    """Return whether a model directory is that of a task, by its bertlite.json or by its config.json, `raw`."""
    return task_of(raw) is not None or (model / "bertlite.json").exists()


def _evaluate_task(run: EvaluateRun) -> dict[str, Any]:
    predictor = Predictor.from_pretrained(run.model, **run.use.opening())
    task = predictor.task
    columns = columns_of(task.name, columns_as_trained(run.columns, predictor.columns), run.input)
    if run.predicted:
        table = open_table(run.input, columns)
        rows = list(table.rows)
        examples = examples_of(task, ((line, _as_before(row)) for line, row in rows), columns, table.where)
        outputs = _outputs_of(task, [row for _, row in rows], columns, table.where)
    else:
        examples = read_examples(task, run.input, columns)
    task.check(examples)
    if not run.predicted:
        outputs = predictor.outputs(examples, run.use.batch_size)
    for line in filter(None, [*task.says(examples), predictor.texts.report()]):
        Console(run.use.quiet).say(line)
    details = {name: value for name, value in task.details(outputs, examples).items() if name not in ("worst", "scatter")}
    return {"task": task.name, "rows": len(examples), **task.score(outputs, examples), **details}


def _as_before(row: Row) -> Row:
    """Return a predicted row as it was read: of columns of words the last two are tag and probability."""
    return row | {"columns": [word[:-2] for word in row["columns"]]} if "columns" in row else row


def _outputs_of(task: Task, rows: list[Row], columns: Columns, where: str) -> list[Any]:
    """Return the outputs that rows tell of, the last ones that were predicted."""
    said = PREDICTED[task.name]
    prefix = next((p for p in reversed(PREFIXES) if p + said in rows[0]), "")
    if prefix == "" and (columns.label_column or "label") == said and "columns" not in rows[0]:
        raise InputError("the rows hold predictions and no true labels", where=where, remedy="predict labelled rows")
    try:
        return task.outputs_of(rows, prefix)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise InputError(f"the rows do not hold predictions ({error})", where=where,
                         remedy="give what bertlite predict wrote, or leave --predicted out") from None


def _evaluate_masked_lm(run: EvaluateRun) -> dict[str, Any]:
    console = Console(run.use.quiet)
    model, tokenizer, missing = load_pretraining_model(run.model)
    accelerator, _ = start(HardwareSettings(device=run.use.device, precision="fp32", threads=run.use.threads))
    model.to(accelerator.device)
    layout = Layout(line=run.text.line, document=run.text.document, language=run.text.language,
                    text_column=run.columns.text_column or "text", encoding=run.columns.encoding)
    length = min(run.use.max_length or 128, model.config.max_positions)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        store = build_store(find_sources([run.input]), tokenizer, layout, Path(folder) / "store", say=console.say)
        documents = DocumentSet(store)
        with_pairs = not any(name.startswith("next_sentence.") for name in missing) and _has_next_sentences(documents)
        if not with_pairs:
            model.losses = ("masked_lm",)
        counts, source = _training_counts(run.model, documents)
        validation = Validation(documents, counts, tokenizer, masking=MaskingSettings(),
                                objective="mlm+nsp" if with_pairs else "mlm", num_sequences=run.text.num_sequences)
        figures, line = validation(model, accelerator, length)
        sequences = sum(batch.num_sequences for batch in validation.batches(length))
    console.say(line)
    bits = figures["masked_lm_on_mask_loss"] / math.log(2) * store.counts.tokens / store.counts.characters
    return {"sequences": sequences, "length": length, **figures, "bits_per_character": bits,
            "unigram_counts_from": source, "corpus": dataclasses.asdict(store.counts)}


def _has_next_sentences(documents: DocumentSet) -> bool:
    try:
        check_next_sentences(documents)
    except InputError:
        return False
    return True


def _training_counts(model: Path, documents: DocumentSet) -> tuple[np.ndarray, str]:
    """Return the unigram counts of the text a model was trained on, where its store is there, else of this text."""
    try:
        store = TokenStore(model / "store" / "training")
    except InputError:
        return documents.unigram_counts(), "the evaluated text"
    return DocumentSet(store).unigram_counts(), "the training text"
