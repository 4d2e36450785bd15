"""`bertlite finetune`: a pretrained BERT and labelled rows in, a classifier out."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import nn

from bertlite.config import flatten, to_dict
from bertlite.corpus.prefetch import prefetch
from bertlite.errors import InputError
from bertlite.files import quick_fingerprint, read_json, sha256_of, write_json
from bertlite.formats.huggingface import (
    check_vocabulary,
    dump_labels,
    load_weights,
    read_config,
    read_tokenizer,
    read_weights,
    write_model,
)
from bertlite.formats.sentence_transformers import read_sentence_model, write_sentence_model
from bertlite.inputs.batch import BatchItem
from bertlite.inputs.item_loader import ItemLoader
from bertlite.inputs.loader import Cut, Step
from bertlite.model.flops import training_flops
from bertlite.report.page import write_report
from bertlite.runs.console import Console
from bertlite.runs.finetune_settings import FinetuneRun
from bertlite.runs.model_card import write_card
from bertlite.runs.run_directory import check_apart, hold_folder, merge_for_resume, read_run, read_run_of, write_run
from bertlite.runs.settings import build
from bertlite.runs.training_run import TrainingRun
from bertlite.tasks.classification import Classifier, classify, details, score
from bertlite.tasks.labelled_rows import LabelledRows, read_labelled
from bertlite.tasks.labels import Labels, hold_out
from bertlite.tasks.texts import TextEncoder
from bertlite.training.checkpoint import TrainingState
from bertlite.training.hardware import Hardware, HardwareSettings, start
from bertlite.training.log import MetricsLog
from bertlite.training.loop import Hooks, LoopSettings
from bertlite.training.trials import summarise

EPOCHS = 3.0  # Devlin et al. 2019, app. A.3: 2 to 4
CHANGEABLE = ("saving.save_steps", "saving.eval_steps", "saving.keep", "tune.micro_batch_size", "quiet", "resume", "overwrite")


def finetune(**settings: Any) -> Path:
    """Fine-tune a BERT; keywords are the fields of FinetuneRun and its groups.

    Returns the run directory, a model directory. Raises InputError for rows or settings that cannot be used, Stopped
    when it was asked to stop and saved its state.
    """
    run, is_resumed = _settings(settings)
    with hold_folder(run.out, is_resumed=is_resumed, overwrite=run.overwrite):
        _Finetuning(run, is_resumed).go()
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


class _Finetuning:
    """All seeds of a run, on the same rows."""

    def __init__(self, run: FinetuneRun, is_resumed: bool):
        self.run, self.is_resumed = run, is_resumed
        self.console = Console(run.quiet)

    def go(self) -> None:
        """Train every seed; the folder's root gets the best one's model."""
        accelerator, hardware = start(self._hardware())
        self.console.say(f"device: {hardware.describe()}")
        if accelerator.is_main_process:
            # Before anything else is there: a run killed from here on can be gone on with.
            write_run(self.run.out, verb="finetune", settings=self._asked(), hardware=hardware.to_dict())
        self._read(accelerator)
        seeds, out = self.run.seeds, self.run.out
        folders = [out] if len(seeds) == 1 else [out / f"seed-{seed}" for seed in seeds]
        trials = []
        for seed, folder in zip(seeds, folders, strict=True):
            done = folder / "results.json"
            is_done = self.is_resumed and done.exists()
            trials.append(read_json(done) if is_done else self._one(folder, seed, accelerator, hardware))
        results = trials[0] if len(seeds) == 1 else self._several(trials)
        if accelerator.is_main_process:
            if len(seeds) > 1:
                self._copy_best(results["best_seed"])
            write_json(out / "results.json", results)
            write_report(out)
            write_card(out)
            self._say_results(results)

    # --- what is read ------------------------------------------------------------------------------------------

    def _hardware(self) -> HardwareSettings:
        if not self.is_resumed:
            return self.run.hardware
        return dataclasses.replace(self.run.hardware, precision=read_run(self.run.out)["hardware"]["precision"])

    def _read(self, accelerator: Accelerator) -> None:
        run = self.run
        assert run.model is not None
        self.config, _ = read_config(run.model)
        if run.tune.dropout is not None:
            self.config = dataclasses.replace(self.config, hidden_dropout=run.tune.dropout, attention_dropout=run.tune.dropout)
        self.tokenizer, notes = read_tokenizer(run.model)
        check_vocabulary(self.tokenizer, self.config, run.model)
        self.pretrained = read_weights(run.model)
        for note in notes:
            self.console.say(note)
        rows = read_labelled(run.train, run.columns)
        self.labels = Labels.found_in(rows.labels, rows.where)
        if run.validation is not None:
            training, validation = rows, read_labelled(run.validation, run.columns)
        else:
            held = hold_out([self.labels.ids[label] for label in rows.labels], run.tune.held_out, seed=0)
            training, validation = rows.at(np.setdiff1d(np.arange(len(rows.texts)), held)), rows.at(held)
            if accelerator.is_main_process:
                write_json(run.out / "held_out.json", {"file": rows.where, "lines": validation.lines})
        self.max_length = self._length()
        encoder = TextEncoder(self.tokenizer, self.max_length, limit=self.config.max_positions)
        self.training, self.training_ids = self._encode(encoder, training)
        self.validation, self.validation_ids = self._encode(encoder, validation)
        self.console.say(f"{len(training.texts):,} training rows, {len(validation.texts):,} for validation, "
                         f"{len(self.labels)} labels; the commonest has {self._majority():.1%}")
        cut = encoder.report()
        if cut:
            self.console.say(cut)

    def _length(self) -> int:
        limit = self.config.max_positions
        asked = self.run.tune.max_length
        if asked is None:
            asked = min(read_sentence_model(self.run.model or "").max_length or limit, limit)
        if not 3 <= asked <= limit:
            raise InputError(f"--max-length must be between 3 and the model's {limit}; got {asked}")
        return asked

    def _encode(self, encoder: TextEncoder, rows: LabelledRows) -> tuple[list[BatchItem], np.ndarray]:
        ids = [self.labels.id_of(label, rows.where, line) for label, line in zip(rows.labels, rows.lines, strict=True)]
        return encoder(rows.texts, ids), np.array(ids)

    def _majority(self) -> float:
        return float(np.bincount(self.training_ids).max() / len(self.training_ids))

    # --- one seed ----------------------------------------------------------------------------------------------

    def _one(self, out: Path, seed: int, accelerator: Accelerator, hardware: Hardware) -> dict[str, Any]:
        """Train one seed in `out` and return its results."""
        model = Classifier(self.config, len(self.labels))
        model.initialise(seed)
        missing = load_weights(model, self.pretrained, where=self.run.model or out)
        anew = sorted({name.split(".")[0] for name in missing})
        self.console.say(f"seed {seed}: begun anew: {', '.join(anew) or 'nothing'}")
        loader = ItemLoader(self.training, batch_size=self.run.tune.batch_size, seed=seed, pad_id=self.tokenizer.pad_id)
        settings = self._loop_settings(loader, seed)
        if accelerator.is_main_process:
            self._describe(out, model, settings, hardware, seed)
        log = MetricsLog(out / "metrics.jsonl")
        is_resumed = self.is_resumed and (out / "checkpoints").exists()
        training_run = TrainingRun(out, f"finetune --out {self.run.out}", accelerator, hardware, self.console, is_resumed,
                                   self.run.saving.keep, lambda folder: self._write(folder, model), root_is_best=True)
        training_run.go(model, settings, self.run.optimizer,
                        lambda prepared: self._hooks(prepared, model, loader, accelerator, log))
        probabilities = self._probabilities(model, accelerator)
        results = {"seed": seed, "metrics": score(probabilities, self.validation_ids)}
        results |= details(probabilities, self.validation_ids, self.labels.names)
        if accelerator.is_main_process:
            write_json(out / "results.json", results)
            shutil.rmtree(out / "checkpoints", ignore_errors=True)  # the best is at the root
        accelerator.wait_for_everyone()
        return results

    def _loop_settings(self, loader: ItemLoader, seed: int) -> LoopSettings:
        tune, limits, saving = self.run.tune, self.run.limits, self.run.saving
        num_steps = limits.max_steps or max(1, round((limits.epochs or EPOCHS) * loader.steps_per_epoch))
        eval_steps = saving.eval_steps or min(loader.steps_per_epoch, num_steps)
        return LoopSettings(num_steps=num_steps, learning_rate=tune.learning_rate or default_rate(self.config.hidden_size),
                            clip_norm=self.run.optimizer.clip_norm, warmup_share=tune.warmup_share, seed=seed,
                            log_steps=saving.log_steps, eval_steps=eval_steps,
                            # The best is kept from a checkpoint, so each evaluation has one.
                            save_steps=saving.save_steps or eval_steps)

    def _hooks(self, prepared: nn.Module, model: Classifier, loader: ItemLoader, accelerator: Accelerator,
               log: MetricsLog) -> Hooks:
        rows = self.run.tune.micro_batch_size or -(-self.run.tune.batch_size // accelerator.num_processes)
        cut = Cut(accelerator.process_index, accelerator.num_processes, rows)
        metric, patience = self.run.selection.metric, self.run.selection.patience

        def steps_from(state: TrainingState) -> Iterator[Step]:
            return prefetch(loader.steps(state.position, cut), depth=2)

        def evaluate(step: int) -> dict[str, Any]:
            # Every process measures; the main one's figures hold for all, so that all choose and stop alike.
            (figures,) = broadcast_object_list([score(self._probabilities(model, accelerator), self.validation_ids)])
            self.console.say(f"step {step:,}: " + ", ".join(f"{name} {value:.4f}" for name, value in figures.items()))
            return figures | {"selection": -figures["loss"] if metric == "loss" else figures[metric]}

        return Hooks(steps_from=steps_from, evaluate=evaluate, flops=lambda batch: training_flops(self.config, batch),
                     log=log if accelerator.is_main_process else None,
                     should_stop=lambda state: patience is not None and state.stale_evaluations >= patience)

    def _probabilities(self, model: Classifier, accelerator: Accelerator) -> np.ndarray:
        # In float32, as `evaluate` and `predict` do: the figures are the ones a user will see again.
        return classify(model, self.validation, device=accelerator.device, pad_id=self.tokenizer.pad_id)

    # --- what is written ---------------------------------------------------------------------------------------

    def _describe(self, out: Path, model: Classifier, settings: LoopSettings, hardware: Hardware, seed: int) -> None:
        resolved = {"task": "classification", "labels": self.labels.names, "num_steps": settings.num_steps, "seed": seed,
                    "learning_rate": settings.learning_rate, "max_length": self.max_length,
                    "parameters": sum(p.numel() for p in model.parameters())}
        files = {name: value for name, value in (("train", self.run.train), ("validation", self.run.validation))
                 if isinstance(value, (str, Path)) and Path(value).is_file()}
        data = {name: [quick_fingerprint(path) | {"sha256": sha256_of(path)}] for name, path in files.items()}
        out.mkdir(parents=True, exist_ok=True)
        for folder in {out, self.run.out}:
            write_run(folder, settings=self._asked(), resolved=resolved, hardware=hardware.to_dict(), data=data)

    def _asked(self) -> dict[str, Any]:
        """Return the settings as run.json holds them: rows that were given in Python are left out."""
        rows = {"train": self.run.train, "validation": self.run.validation}
        names = {name: str(value) if isinstance(value, (str, Path)) else None for name, value in rows.items()}
        return to_dict(dataclasses.replace(self.run, train=None, validation=None)) | names

    def _write(self, folder: Path, model: Classifier) -> None:
        write_model(folder, model, self.config, self.tokenizer, max_length=self.max_length,
                    problem_type="single_label_classification", **dump_labels(self.labels.names))
        write_sentence_model(folder, hidden_size=self.config.hidden_size, max_length=self.max_length)
        write_json(folder / "bertlite.json", {"task": "classification", "columns": to_dict(self.run.columns),
                                              "max_length": self.max_length})

    def _several(self, trials: list[dict[str, Any]]) -> dict[str, Any]:
        """Join the seeds' results: the best one's own, every seed's figures, mean and deviation."""
        metric = self.run.selection.metric
        best = max(trials, key=lambda t: -t["metrics"]["loss"] if metric == "loss" else t["metrics"][metric])
        seeds = [{"seed": trial["seed"], "metrics": trial["metrics"]} for trial in trials]
        return best | {"best_seed": best["seed"], "seeds": seeds} | summarise(trials)

    def _copy_best(self, seed: int) -> None:
        folder = self.run.out / f"seed-{seed}"
        model = Classifier(self.config, len(self.labels))
        load_weights(model, read_weights(folder), where=folder)
        self._write(self.run.out, model)

    def _say_results(self, results: dict[str, Any]) -> None:
        if "seeds" in results:
            figures = ", ".join(f"{name} {results['mean'][name]:.4f} (sd {results['sd'][name]:.4f})" for name in results["mean"])
            self.console.say(f"{len(results['seeds'])} seeds: {figures}; the model is seed {results['best_seed']}'s")
        else:
            self.console.say("best: " + ", ".join(f"{name} {value:.4f}" for name, value in results["metrics"].items()))
        self.console.say(f"done: {self.run.out} is a model directory; a page to look at: {self.run.out}/report.html")


def default_rate(hidden_size: int) -> float:
    """Return the learning rate for a hidden size: 5e-5 at 768 (Devlin et al. 2019, app. A.3), rising as it shrinks to 3e-4."""
    return min(3e-4, 5e-5 * 768 / hidden_size)

