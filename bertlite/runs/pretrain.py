"""`bertlite pretrain`: raw text in, a BERT pretrained on it out; goes on from where it was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertlite.config import flatten, to_dict
from bertlite.corpus.documents import Layout
from bertlite.corpus.tokenizer import TokenizerSettings
from bertlite.errors import InputError
from bertlite.runs.console import Console
from bertlite.runs.corpus import is_store
from bertlite.runs.pretrain_settings import PretrainRun
from bertlite.runs.pretraining import Pretraining
from bertlite.runs.run_directory import check_apart, hold_folder, merge_for_resume, read_run_of
from bertlite.runs.settings import build

# What a resumed run may set anew.
CHANGEABLE = ("limits.max_steps", "limits.max_minutes", "limits.epochs", "saving.save_steps", "saving.eval_steps",
              "saving.keep", "train.micro_batch_size", "processes", "quiet", "resume", "overwrite")


def pretrain(**settings: Any) -> Path:
    """Pretrain a BERT on raw text; keywords are the fields of PretrainRun and its groups.

    Returns the run directory, a model directory. Raises InputError for text or settings that cannot be used, Stopped
    when it was asked to stop and saved its state.
    """
    run, is_resumed = _settings(settings)
    with hold_folder(run.out, is_resumed=is_resumed, overwrite=run.overwrite):
        Pretraining(run, is_resumed).go()
    return run.out


def _settings(given: Mapping[str, Any]) -> tuple[PretrainRun, bool]:
    """Return the settings to run with, and whether they go on with a run that is there."""
    run = build(PretrainRun, given)
    if run.resume and (run.out / "run.json").exists():
        asked = _only_given(run)
        old = read_run_of(run.out, "pretrain")["settings"]
        return build(PretrainRun, merge_for_resume(old, asked, CHANGEABLE, where=run.out)), True
    if run.resume:
        Console(run.quiet).say(f"there is no run in {run.out} yet: beginning one")
    if not run.corpus:
        raise InputError("--corpus is missing", remedy="name text files, folders or globs")
    check_apart(run.out, *run.corpus, *run.validation, run.model, run.tokenizer)
    if run.model and run.tokenizer:
        raise InputError("--model brings its own tokenizer; leave --tokenizer out")
    if (run.model or run.tokenizer or is_store(run.corpus)) and run.vocabulary != TokenizerSettings():
        raise InputError("--vocab-size, --case, --accents and --min-frequency are for a new tokenizer; one is given")
    if is_store(run.corpus) and not run.validation and run.layout != Layout():
        raise InputError("--line, --document, --encoding, --language and --text-column are for text; a token store is given")
    if run.model and (run.train.init_std or run.train.preset):
        raise InputError("--preset and --init-std are for a new model; --model has its own sizes and weights")
    if run.train.phases and (run.train.max_length or run.train.batch_size):
        raise InputError("--phases names lengths and batches; leave --max-length and --batch-size out")
    return run, False


def _only_given(run: PretrainRun) -> dict[str, Any]:
    """Return, of the settings, those that differ from the defaults: what a resume was given besides --out."""
    default = flatten(to_dict(PretrainRun(out=run.out)))
    return {name: value for name, value in flatten(to_dict(run)).items()
            if default.get(name) != value}


