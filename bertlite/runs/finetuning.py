"""The work of `bertlite finetune`: rows read and cut into windows, and one training for each seed or fold."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from torch import nn

from bertlite.config import to_dict
from bertlite.corpus.prefetch import prefetch
from bertlite.errors import InputError
from bertlite.files import quick_fingerprint, read_json, sha256_of, write_json
from bertlite.formats.huggingface import (
    check_vocabulary,
    load_weights,
    read_config,
    read_tokenizer,
    read_weights,
    write_model,
)
from bertlite.formats.sentence_transformers import write_sentence_model
from bertlite.inputs.item_loader import ItemLoader
from bertlite.inputs.loader import Cut, Step
from bertlite.model.flops import training_flops
from bertlite.report.page import write_report
from bertlite.runs.console import Console
from bertlite.runs.finetune_rows import Part, read_rows
from bertlite.runs.finetune_settings import FinetuneRun
from bertlite.runs.model_card import write_card
from bertlite.runs.run_directory import copy_model, read_run, write_run
from bertlite.runs.training_run import TrainingRun
from bertlite.tasks.task import Task, is_better, run_task
from bertlite.training.checkpoint import TrainingState
from bertlite.training.hardware import HardwareSettings, start
from bertlite.training.log import MetricsLog
from bertlite.training.loop import Hooks, LoopSettings
from bertlite.training.transfer import prepare, rate_of
from bertlite.training.trials import summarise

EPOCHS = 3.0  # Devlin et al. 2019, app. A.3: 2 to 4


@dataclass(frozen=True)
class Trial:
    """One training: its folder, its seed, and its part of the rows."""

    name: str
    out: Path
    seed: int
    part: int


class Finetuning:
    """All trainings of a run."""

    def __init__(self, run: FinetuneRun, is_resumed: bool):
        self.run, self.is_resumed = run, is_resumed
        self.console = Console(run.quiet)

    def go(self) -> None:
        """Train every seed or fold; the folder's root gets the best one's model."""
        accelerator, self.hardware = start(self._hardware())
        self.accelerator = accelerator
        self.console.say(f"device: {self.hardware.describe()}")
        if accelerator.is_main_process:
            # Before anything else is there: a run killed from here on can be gone on with.
            write_run(self.run.out, verb="finetune", settings=self._asked(), hardware=self.hardware.to_dict())
        self._read_model()
        self._check_data()
        self._read_rows()
        trials, out = self._trials(), self.run.out
        results = []
        for trial in trials:
            done = trial.out / "results.json"
            results.append(read_json(done) if self.is_resumed and done.exists() else self._one(trial))
        joined = results[0] if len(trials) == 1 else summarise(results, self.metric, is_better(self.metric))
        if accelerator.is_main_process:
            if len(trials) > 1:
                copy_model(out / joined["best"], out)
                write_run(out, resolved=read_run(out / joined["best"])["resolved"])
            write_json(out / "results.json", joined)
            write_report(out)
            write_card(out)
            self._say_results(joined)

    # --- what is read ------------------------------------------------------------------------------------------

    def _hardware(self) -> HardwareSettings:
        if not self.is_resumed:
            return self.run.hardware
        return dataclasses.replace(self.run.hardware, precision=read_run(self.run.out)["hardware"]["precision"])

    def _read_model(self) -> None:
        run = self.run
        assert run.model is not None
        self.config, _ = read_config(run.model)
        if run.tune.dropout is not None:
            self.config = dataclasses.replace(self.config, hidden_dropout=run.tune.dropout, attention_dropout=run.tune.dropout)
        run.transfer.check(self.config)
        self.tokenizer, notes = read_tokenizer(run.model)
        check_vocabulary(self.tokenizer, self.config, run.model)
        self.pretrained = read_weights(run.model)
        for note in notes:
            self.console.say(note)

    def _check_data(self) -> None:
        """Raise InputError where a run that is gone on with began with other rows."""
        known = read_run(self.run.out).get("data", {}) if self.is_resumed else {}
        for name, path in self._files().items():
            if known.get(name) and known[name][0]["sha256"] != sha256_of(path):
                raise InputError(f"is not the file the run began with, as --{name}", where=path,
                                 remedy="put that one back, or begin a new run in another --out")

    def _files(self) -> dict[str, str | Path]:
        given = {"train": self.run.train, "validation": self.run.validation}
        return {name: value for name, value in given.items() if isinstance(value, (str, Path)) and Path(value).is_file()}

    def _read_rows(self) -> None:
        rows = read_rows(self.run, self.config, self.tokenizer, self.console.say)
        self.task, self.columns, self.metric, self.parts = rows.task, rows.columns, rows.metric, rows.parts
        self.texts = rows.task.texts
        if self.accelerator.is_main_process and rows.held_out is not None:
            write_json(self.run.out / "held_out.json", rows.held_out)

    def _trials(self) -> list[Trial]:
        out, seeds = self.run.out, self.run.seeds
        if self.run.folds is not None:
            return [Trial(f"fold-{n + 1}", out / f"fold-{n + 1}", seeds[0], n) for n in range(self.run.folds)]
        if len(seeds) == 1:
            return [Trial(f"seed-{seeds[0]}", out, seeds[0], 0)]
        return [Trial(f"seed-{seed}", out / f"seed-{seed}", seed, 0) for seed in seeds]

    # --- one training ------------------------------------------------------------------------------------------

    def _one(self, trial: Trial) -> dict[str, Any]:
        """Train in the trial's folder and return its results."""
        part, out, accelerator = self.parts[trial.part], trial.out, self.accelerator
        model = self._model(trial)
        batch_size, pad_id = self.run.tune.batch_size, self.tokenizer.pad_id
        loader = ItemLoader(part.training.items, batch_size=batch_size, seed=trial.seed, pad_id=pad_id)
        settings = self._loop_settings(loader, trial.seed)
        if accelerator.is_main_process:
            self._describe(trial, model, settings)
        log = MetricsLog(out / "metrics.jsonl")
        is_resumed = self.is_resumed and (out / "checkpoints").exists()
        training_run = TrainingRun(out, f"finetune --out {self.run.out}", accelerator, self.hardware, self.console, is_resumed,
                                   self.run.saving.keep, lambda folder: self._write(folder, model, self.task), root_is_best=True)
        training_run.go(model, settings, self.run.optimizer, lambda prepared: self._hooks(model, part, loader, log),
                        rate_of=self._rates(model, settings.learning_rate))
        outputs = self._outputs(model, part)
        task = self.task.tuned(outputs, part.examples)
        results = {"name": trial.name, "metrics": task.score(outputs, part.examples)} | task.details(outputs, part.examples)
        results["lengths"] = self._lengths()
        if accelerator.is_main_process:
            self._write_extra(out, task)
            write_json(out / "results.json", results)
            shutil.rmtree(out / "checkpoints", ignore_errors=True)  # the best is at the root
        accelerator.wait_for_everyone()
        accelerator.free_memory()  # it holds every model and optimizer that it prepared
        return results

    def _model(self, trial: Trial) -> nn.Module:
        model = self.task.make_model(self.config)
        model.initialise(trial.seed)  # type: ignore[operator]
        missing = load_weights(model, self.pretrained, where=self.run.model or trial.out)
        anew = sorted({name.split(".")[0] for name in missing})
        self.console.say(f"{trial.name.replace('-', ' ')}: begun anew: {', '.join(anew) or 'nothing'}")
        prepare(model, self.config, self.run.transfer, seed=trial.seed)
        return model

    def _rates(self, model: nn.Module, learning_rate: float) -> Callable[[str], float]:
        rates: Mapping[str, float] = model.rates  # type: ignore[assignment]
        return lambda name: rate_of(name, self.config.num_layers, self.run.transfer, learning_rate, rates)

    def _loop_settings(self, loader: ItemLoader, seed: int) -> LoopSettings:
        tune, limits, saving = self.run.tune, self.run.limits, self.run.saving
        num_steps = limits.max_steps or max(1, round((limits.epochs or EPOCHS) * loader.steps_per_epoch))
        eval_steps = saving.eval_steps or min(loader.steps_per_epoch, num_steps)
        return LoopSettings(num_steps=num_steps, learning_rate=tune.learning_rate or default_rate(self.config.hidden_size),
                            clip_norm=self.run.optimizer.clip_norm, warmup_share=tune.warmup_share, seed=seed,
                            log_steps=saving.log_steps, eval_steps=eval_steps,
                            # The best is kept from a checkpoint, so each evaluation has one.
                            save_steps=saving.save_steps or eval_steps)

    def _hooks(self, model: nn.Module, part: Part, loader: ItemLoader, log: MetricsLog) -> Hooks:
        accelerator = self.accelerator
        rows = self.run.tune.micro_batch_size or -(-self.run.tune.batch_size // accelerator.num_processes)
        cut = Cut(accelerator.process_index, accelerator.num_processes, rows)
        patience = self.run.selection.patience

        def steps_from(state: TrainingState) -> Iterator[Step]:
            return prefetch(loader.steps(state.position, cut), depth=2)

        def evaluate(step: int) -> dict[str, Any]:
            # Every process measures; the main one's figures hold for all, so that all choose and stop alike.
            (figures,) = broadcast_object_list([self.task.score(self._outputs(model, part), part.examples)])
            self.console.say(f"step {step:,}: " + ", ".join(f"{name} {value:.4f}" for name, value in figures.items()))
            return figures | {"selection": is_better(self.metric) * figures[self.metric]}

        return Hooks(steps_from=steps_from, evaluate=evaluate, flops=lambda batch: training_flops(self.config, batch),
                     log=log if accelerator.is_main_process else None,
                     should_stop=lambda state: patience is not None and state.stale_evaluations >= patience)

    def _outputs(self, model: nn.Module, part: Part) -> list[Any]:
        # In float32, as `evaluate` and `predict` do: the figures are the ones a user will see again.
        return run_task(self.task, model, part.examples, device=self.accelerator.device, windows=part.validation)

    # --- what is written ---------------------------------------------------------------------------------------

    def _describe(self, trial: Trial, model: nn.Module, settings: LoopSettings) -> None:
        resolved = {"task": self.task.name, "labels": self.task.labels, "num_steps": settings.num_steps, "seed": trial.seed,
                    "learning_rate": settings.learning_rate, "max_length": self.texts.max_length, "selection": self.metric,
                    "parameters": sum(p.numel() for p in model.parameters()),
                    "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad)}
        data = {name: [quick_fingerprint(path) | {"sha256": sha256_of(path)}] for name, path in self._files().items()}
        trial.out.mkdir(parents=True, exist_ok=True)
        for folder in {trial.out, self.run.out}:
            write_run(folder, settings=self._asked(), resolved=resolved, hardware=self.hardware.to_dict(), data=data)

    def _asked(self) -> dict[str, Any]:
        """Return the settings as run.json holds them: rows that were given in Python are left out."""
        rows = {"train": self.run.train, "validation": self.run.validation}
        names = {name: str(value) if isinstance(value, (str, Path)) else None for name, value in rows.items()}
        return to_dict(dataclasses.replace(self.run, train=None, validation=None)) | names

    def _write(self, folder: Path, model: nn.Module, task: Task) -> None:
        length = self.texts.max_length
        write_model(folder, model, self.config, self.tokenizer, max_length=length, **task.config_entries())
        write_sentence_model(folder, hidden_size=self.config.hidden_size, max_length=length)
        self._write_extra(folder, task)

    def _write_extra(self, folder: Path, task: Task) -> None:
        write_json(folder / "bertlite.json", {
            "task": task.name, "columns": to_dict(self.columns), "max_length": self.texts.max_length,
            "long_texts": self.texts.long_texts, "overlap": self.texts.overlap, **task.extra()})

    def _lengths(self) -> dict[str, Any]:
        """Return how long the texts are, in tokens, for the report."""
        counts = sorted(self.texts.lengths_before.items())
        return {"max_length": self.texts.max_length, "lengths": [n for n, _ in counts], "texts": [count for _, count in counts]}

    def _say_results(self, results: dict[str, Any]) -> None:
        if "trials" in results:
            figures = ", ".join(f"{name} {results['mean'][name]:.4f} (sd {results['sd'][name]:.4f})" for name in results["mean"])
            kind = "folds" if self.run.folds else "seeds"
            best = results["best"].replace("-", " ")
            self.console.say(f"{len(results['trials'])} {kind}: {figures}; the model is that of {best}")
        else:
            self.console.say("best: " + ", ".join(f"{name} {value:.4f}" for name, value in results["metrics"].items()))
        self.console.say(f"done: {self.run.out} is a model directory; a page to look at: {self.run.out}/report.html")


def default_rate(hidden_size: int) -> float:
    """Return the learning rate for a hidden size: 5e-5 at 768 (Devlin et al. 2019, app. A.3), rising as it shrinks to 3e-4."""
    return min(3e-4, 5e-5 * 768 / hidden_size)
