"""`bertlite finetune`: a pretrained BERT and labelled rows in, a model of a task out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bertlite.config import flatten, to_dict
from bertlite.errors import InputError, Stopped
from bertlite.runs.finetune_settings import FinetuneRun
from bertlite.runs.finetuning import Finetuning
from bertlite.runs.run_directory import check_apart, hold_folder, merge_for_resume, read_run_of
from bertlite.runs.settings import build

CHANGEABLE = ("saving.save_steps", "saving.eval_steps", "saving.keep", "tune.micro_batch_size", "quiet", "resume", "overwrite")


def finetune(**settings: Any) -> Path:
    """Fine-tune a BERT; keywords are the fields of FinetuneRun and its groups.

    Returns the run directory, a model directory. Raises InputError for rows or settings that cannot be used, Stopped
    when it was asked to stop and saved its state.
    """
    run, is_resumed = _settings(settings)
    with hold_folder(run.out, is_resumed=is_resumed, overwrite=run.overwrite):
        try:
            Finetuning(run, is_resumed).go()
        except KeyboardInterrupt:  # between two trainings, or for the second time
            raise Stopped(f"stopped. Go on: bertlite finetune --out {run.out} --resume", code=130) from None
    return run.out


def _settings(given: dict[str, Any]) -> tuple[FinetuneRun, bool]:
    """Return the settings to run with, and whether they go on with a run that is there."""
    # Rows given in Python are no setting: they are not written down, and not compared on a resume.
    rows = {name: given[name] for name in ("train", "validation") if not isinstance(given.get(name), (str, Path, type(None)))}
    run = build(FinetuneRun, {name: value for name, value in given.items() if name not in rows})
    is_resumed = run.resume and (run.out / "run.json").exists()
    if is_resumed:
        default = flatten(to_dict(FinetuneRun(out=run.out)))
        asked = {name: value for name, value in flatten(to_dict(run)).items() if default.get(name) != value}
        run = build(FinetuneRun, merge_for_resume(read_run_of(run.out, "finetune")["settings"], asked, CHANGEABLE, where=run.out))
    run = dataclasses.replace(run, **rows)
    if run.model is None or run.train is None:
        raise InputError(f"--{'model' if run.model is None else 'train'} is missing",
                         remedy="give the same rows again" if is_resumed else "give --model DIR --train FILE --out DIR")
    check_apart(run.out, run.model, run.train, run.validation)
    return run, is_resumed
