"""`bertlite evaluate`: figures of a model on labelled rows, or of a masked LM on raw text, as one dictionary."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from bertlite.corpus.documents import Layout, find_sources
from bertlite.corpus.store import DocumentSet, TokenStore
from bertlite.corpus.store_builder import build_store
from bertlite.errors import InputError
from bertlite.examples.sentence_pairs import check_next_sentences
from bertlite.formats.huggingface import read_config, read_weights
from bertlite.inputs.masking import MaskingSettings
from bertlite.runs.console import Console
from bertlite.runs.predict import columns_as_trained
from bertlite.runs.settings import PLAIN, Rows, build
from bertlite.runs.validation import Validation
from bertlite.tasks.classification import details, score
from bertlite.tasks.fill_mask import load_pretraining_model
from bertlite.tasks.labelled_rows import read_labelled
from bertlite.tasks.predictor import Predictor
from bertlite.tasks.readers import Columns
from bertlite.training.hardware import HardwareSettings, start


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
    """Labelled rows (csv, tsv, jsonl, parquet), or raw text for a masked LM."""
    batch_size: int = 32
    max_length: int | None = None
    """Tokens a text; for raw text 128 when not given."""
    device: str = "auto"
    threads: int | None = None
    quiet: bool = False
    """Say nothing but errors."""
    columns: Annotated[Columns, PLAIN] = field(default_factory=Columns)
    text: Annotated[TextSettings, PLAIN] = field(default_factory=TextSettings)


def evaluate(**settings: Any) -> dict[str, Any]:
    """Return the figures of a model; keywords are the fields of EvaluateRun and its groups.

    A fine-tuned model: loss, accuracy, macro and weighted F1, Matthews' correlation, confusion matrix, each label's
    figures. A masked LM: losses and accuracies (all chosen positions, and those that show [MASK]), the unigram floor,
    next-sentence accuracy, bits a character. Raises InputError for input that cannot be used.
    """
    run = build(EvaluateRun, settings)
    config, _ = read_config(run.model)
    if run.batch_size < 1:
        raise InputError(f"--batch-size must be at least 1; got {run.batch_size}")
    if run.max_length is not None and not 8 <= run.max_length <= config.max_positions:
        raise InputError(f"--max-length must be between 8 and the model's {config.max_positions}; got {run.max_length}")
    if "classifier.output.weight" in read_weights(run.model):
        return _evaluate_classifier(run)
    return _evaluate_masked_lm(run)


def _evaluate_classifier(run: EvaluateRun) -> dict[str, Any]:
    predictor = Predictor.from_pretrained(run.model, device=run.device, max_length=run.max_length, threads=run.threads)
    rows = read_labelled(run.input, columns_as_trained(run.columns, predictor.columns))
    ids = np.array([predictor.labels.id_of(label, rows.where, line) for label, line in zip(rows.labels, rows.lines, strict=True)])
    probabilities = predictor.probabilities(rows.texts, run.batch_size)
    cut = predictor.texts.report()
    if cut:
        Console(run.quiet).say(cut)
    return {"rows": len(ids), **score(probabilities, ids), **details(probabilities, ids, predictor.labels.names)}


def _evaluate_masked_lm(run: EvaluateRun) -> dict[str, Any]:
    console = Console(run.quiet)
    model, tokenizer, missing = load_pretraining_model(run.model)
    accelerator, _ = start(HardwareSettings(device=run.device, precision="fp32", threads=run.threads))
    model.to(accelerator.device)
    layout = Layout(line=run.text.line, document=run.text.document, language=run.text.language,
                    text_column=run.columns.text_column, encoding=run.columns.encoding)
    length = min(run.max_length or 128, model.config.max_positions)
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
