"""The work of `bertlite pretrain`: opens what a run reads, resolves what was not given, trains, writes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import nn

from bertlite.config import to_dict
from bertlite.corpus.prefetch import prefetch
from bertlite.corpus.store import DocumentSet
from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError
from bertlite.examples.sentence_pairs import PairPlan
from bertlite.formats.huggingface import (
    check_vocabulary,
    load_weights,
    read_config,
    read_tokenizer,
    read_weights,
    write_model,
    write_tokenizer,
)
from bertlite.formats.sentence_transformers import write_sentence_model
from bertlite.inputs.loader import Cut, Position, PretrainingLoader, Step, make_loader
from bertlite.inputs.masking import check_whole_words
from bertlite.model.config import ModelConfig
from bertlite.model.flops import training_flops
from bertlite.objectives.pretraining import BertForPretraining
from bertlite.report.page import write_report
from bertlite.runs.console import Console, duration
from bertlite.runs.corpus import is_store, open_corpus
from bertlite.runs.model_card import write_card
from bertlite.runs.pretrain_settings import PretrainRun
from bertlite.runs.run_directory import read_run, write_run
from bertlite.runs.tokenizer import train_on_corpus
from bertlite.runs.training_run import TrainingRun
from bertlite.runs.validation import Validation
from bertlite.training.checkpoint import TrainingState
from bertlite.training.hardware import Hardware, start
from bertlite.training.log import MetricsLog
from bertlite.training.loop import Hooks, LoopSettings
from bertlite.training.optimizer import OptimizerSettings
from bertlite.training.presets import Phase, parse_phases, phase_ends, preset_for, preset_named
from bertlite.training.speed import step_seconds

LEAST_EVERY = 50  # steps between validations and checkpoints, when not given
EPOCHS = 40.0  # Devlin et al. 2019, app. A.2: about 40 epochs


class Pretraining:
    """One run from settings to report: opens what it reads, resolves what was not given, trains, writes."""

    def __init__(self, run: PretrainRun, is_resumed: bool):
        self.run, self.is_resumed = run, is_resumed
        self.console = Console(run.quiet)
        self.log = MetricsLog(run.out / "metrics.jsonl")

    def go(self) -> None:
        """Do the run.  Raises InputError for what cannot be used, Stopped when it was asked to stop."""
        accelerator, hardware = self._start()
        tokenizer = self._tokenizer(accelerator)
        training, validation = self._documents(tokenizer, accelerator)
        model, config = self._model(tokenizer)
        phases = self._phases()
        longest = max(phase.length for phase in phases)
        if longest > config.max_positions:
            raise InputError(f"a phase has {longest} tokens, the model {config.max_positions} positions")
        settings = self.run.train
        loaders = [make_loader(training, tokenizer, objective=settings.objective, length=phase.length,
                               masking=self.run.masking, seed=settings.seed) for phase in phases]
        # Every process measures; the main one's result holds for all.
        (resolved,) = broadcast_object_list([self._resolve(model, accelerator, phases, loaders)])
        if accelerator.is_main_process:
            sources = {"training": training, "validation": validation}
            write_run(self.run.out, resolved=resolved,
                      data={part: documents.store.description["sources"] for part, documents in sources.items() if documents})
        validate = None
        if validation is not None:
            # Made now: what is wrong with the held-out text should be said before the run, not during it.
            validate = Validation(validation, training.unigram_counts(), tokenizer, masking=self.run.masking,
                                  objective=settings.objective)
            for phase in phases:
                validate.batches(phase.length)
        self._train(accelerator, hardware, model, tokenizer, phases, loaders, validate, resolved)
        if accelerator.is_main_process:
            write_report(self.run.out)
            write_card(self.run.out)
            self.console.say(f"done: {self.run.out} is a model directory; a page to look at: {self.run.out}/report.html")

    # --- what is read ------------------------------------------------------------------------------------------

    def _start(self) -> tuple[Accelerator, Hardware]:
        settings = self.run.hardware
        if self.is_resumed:
            # "auto" was decided when the run began; a second measurement might decide otherwise.
            before = read_run(self.run.out)["hardware"]
            settings = dataclasses.replace(settings, precision=before["precision"])
        accelerator, hardware = start(settings)
        if self.run.processes not in (None, accelerator.num_processes):
            raise InputError(f"--processes {self.run.processes}, but {accelerator.num_processes} run",
                             remedy=f"start them: torchrun --nproc-per-node {self.run.processes} -m bertlite ...")
        self.console.say(f"device: {hardware.describe()}")
        self.device_type = accelerator.device.type
        if accelerator.is_main_process:
            # Before anything else is there: a run killed from here on can be gone on with.
            write_run(self.run.out, verb="pretrain", settings=to_dict(self.run), hardware=hardware.to_dict())
        return accelerator, hardware

    def _tokenizer(self, accelerator: Accelerator) -> WordPiece:
        run = self.run
        place = run.model or run.tokenizer
        if self.is_resumed and (run.out / "tokenizer.json").exists():
            place = run.out
        elif place is None and is_store(run.corpus):
            place = run.corpus[0]
        if place is None:
            with accelerator.main_process_first():
                if accelerator.is_main_process:
                    trained = train_on_corpus(run.corpus, run.layout, run.vocabulary, self.console)
                    write_tokenizer(run.out, trained, max_length=512)
            place = run.out
        tokenizer, notes = read_tokenizer(place)
        for note in notes:
            self.console.say(note)
        return tokenizer

    def _documents(self, tokenizer: WordPiece, accelerator: Accelerator) -> tuple[DocumentSet, DocumentSet | None]:
        run, folder = self.run, self.run.out / "store"
        with accelerator.main_process_first():
            store = open_corpus(run.corpus, tokenizer, run.layout, folder / "training", self.console,
                                may_rebuild=not self.is_resumed)
            if run.masking.whole_word:
                check_whole_words(store.counts)
            if run.validation:
                held = open_corpus(run.validation, tokenizer, run.layout, folder / "validation", self.console,
                                   may_rebuild=not self.is_resumed)
                return DocumentSet(store), DocumentSet(held)
        validation = DocumentSet(store, "validation", run.train.held_out)
        if not len(validation):
            self.console.say("the corpus is too small to hold documents out: no validation; give --validation")
            return DocumentSet(store), None
        self.console.say(f"{len(validation):,} documents held out for validation")
        return DocumentSet(store, "train", run.train.held_out), validation

    def _model(self, tokenizer: WordPiece) -> tuple[BertForPretraining, ModelConfig]:
        run, train_settings = self.run, self.run.train
        with_nsp = train_settings.objective == "mlm+nsp"
        if run.model:
            config, _ = read_config(run.model)
            if train_settings.dropout is not None:
                dropout = train_settings.dropout
                config = dataclasses.replace(config, hidden_dropout=dropout, attention_dropout=dropout)
            check_vocabulary(tokenizer, config, run.model)
        else:
            config = self._new_config(tokenizer)
        model = BertForPretraining(config, mask_id=tokenizer.mask_id, with_next_sentence=with_nsp)
        model.initialise(train_settings.seed)
        if run.model:
            missing = load_weights(model, read_weights(run.model), where=run.model)
            if missing:
                self.console.say(f"{run.model} has no {', '.join(sorted({m.split('.')[0] for m in missing}))}: begun anew")
        return model, config

    def _new_config(self, tokenizer: WordPiece) -> ModelConfig:
        preset, settings = preset_named(self._preset_name()), self.run.train
        dropout = preset.dropout if settings.dropout is None else settings.dropout
        return ModelConfig(
            vocab_size=tokenizer.vocab_size, hidden_size=preset.hidden_size, num_layers=preset.num_layers,
            num_heads=preset.num_heads, intermediate_size=4 * preset.hidden_size, hidden_dropout=dropout,
            attention_dropout=dropout, init_std=settings.init_std or preset.init_std, pad_id=tokenizer.pad_id,
        )

    def _preset_name(self) -> str:
        """Return the preset whose settings hold: the one asked for, that of the model's size, or what suits the device."""
        if self.is_resumed and "resolved" in read_run(self.run.out):
            return str(read_run(self.run.out)["resolved"]["preset"])
        if self.run.model:
            return preset_for(read_config(self.run.model)[0].hidden_size)
        return self.run.train.preset or ("small" if self.device_type == "cuda" else "mini")

    def _phases(self) -> list[Phase]:
        settings = self.run.train
        if settings.max_length or settings.batch_size:
            return parse_phases((f"{settings.max_length or 128}x{settings.batch_size or 32}",))
        return parse_phases(settings.phases or preset_named(self._preset_name()).phases)

    # --- what is resolved --------------------------------------------------------------------------------------

    def _resolve(self, model: BertForPretraining, accelerator: Accelerator, phases: list[Phase],
                 loaders: list[PretrainingLoader]) -> dict[str, Any]:
        """Return what the settings come to: rate, steps, phases, rows at once; say it and how long it will take."""
        settings, limits = self.run.train, self.run.limits
        preset = preset_named(self._preset_name())
        resolved = {
            "preset": self._preset_name(),
            "phases": [str(phase) for phase in phases],
            "learning_rate": settings.learning_rate or preset.learning_rate,
            "warmup_share": preset.warmup_share if settings.warmup_share is None else settings.warmup_share,
            "parameters": sum(p.numel() for p in model.parameters()),
        }
        before = read_run(self.run.out).get("resolved") if self.is_resumed else None
        if before and before.get("limits") == to_dict(limits):
            return before
        per_step = sum(phase.share * self._seconds(model, accelerator, phase, loader)
                       for phase, loader in zip(phases, loaders, strict=True))
        if limits.max_steps:
            num_steps = limits.max_steps
        elif limits.max_minutes:
            num_steps = max(len(phases), int(limits.max_minutes * 60 / per_step))
        else:
            num_steps = self._steps_for_epochs(limits.epochs or EPOCHS, phases, loaders)
        self._say_plan(resolved, phases, loaders, num_steps, per_step)
        return resolved | {"num_steps": num_steps, "limits": to_dict(limits)}

    def _say_plan(self, resolved: dict[str, Any], phases: list[Phase], loaders: list[PretrainingLoader], num_steps: int,
                  per_step: float) -> None:
        tokens = sum(phase.share * phase.length * phase.num_sequences for phase in phases) * num_steps
        end = time.strftime("%a %H:%M", time.localtime(time.time() + per_step * num_steps))
        self.console.say(f"model: {resolved['preset'] if not self.run.model else self.run.model}, "
                         f"{resolved['parameters'] / 1e6:.1f} M parameters; phases {' '.join(resolved['phases'])}, "
                         f"learning rate {resolved['learning_rate']:g}")
        shorter = "" if self.run.limits.max_minutes else "; shorter: --max-minutes 60; smaller: --preset tiny"
        for phase, loader in zip(phases, loaders, strict=True):
            plan = loader.plan(0, 0)
            if isinstance(plan, PairPlan):
                self.console.say(f"next-sentence pairs at length {phase.length}: {plan.random_share:.1%} random")
        self.console.say(f"{num_steps:,} steps, up to {tokens / 1e6:,.1f} M tokens to see, "
                         f"{tokens / num_steps / per_step:,.0f} tokens/s: about {duration(per_step * num_steps)}, until {end}"
                         + shorter)

    def _seconds(self, model: BertForPretraining, accelerator: Accelerator, phase: Phase, loader: PretrainingLoader) -> float:
        steps = loader.steps(Position(), num_sequences=phase.num_sequences, cut=self._cut(accelerator, phase))
        return step_seconds(model, accelerator, next(steps), self._optimizer_settings())

    def _steps_for_epochs(self, epochs: float, phases: list[Phase], loaders: list[PretrainingLoader]) -> int:
        per_step = sum(p.share * p.num_sequences / loader.epoch_size() for p, loader in zip(phases, loaders, strict=True))
        return max(len(phases), round(epochs / per_step))

    def _cut(self, accelerator: Accelerator, phase: Phase) -> Cut:
        """Return how a step is divided: --micro-batch-size, or as many rows as a device works on well."""
        tokens_at_once = 65_536 if accelerator.device.type == "cuda" else 8_192
        rows = self.run.train.micro_batch_size or max(1, tokens_at_once // phase.length)
        return Cut(accelerator.process_index, accelerator.num_processes, rows)

    # --- training ----------------------------------------------------------------------------------------------

    def _train(self, accelerator: Accelerator, hardware: Hardware, model: BertForPretraining, tokenizer: WordPiece,
               phases: list[Phase], loaders: list[PretrainingLoader], validate: Validation | None,
               resolved: dict[str, Any]) -> TrainingState:
        run, num_steps = self.run, resolved["num_steps"]
        every = max(LEAST_EVERY, num_steps // 20)
        ends = phase_ends(phases, num_steps)

        def write(folder: Path) -> None:
            write_model(folder, model, model.config, tokenizer, max_length=model.config.max_positions)
            write_sentence_model(folder, hidden_size=model.config.hidden_size, max_length=model.config.max_positions)

        def evaluate(step: int, prepared: nn.Module) -> dict[str, Any]:
            if validate is None:
                return {}
            index = next(i for i, end in enumerate(ends) if step <= end)
            result, line = validate(prepared, accelerator, phases[index].length)
            self.console.say(f"step {step:,}, length {phases[index].length}: {line}")
            total = sum(result[f"{name}_loss"] for name in model.losses)
            # A later phase is always better: losses at different lengths do not compare.
            return result | {"length": phases[index].length, "selection": 1000.0 * index - total}

        def hooks(prepared: nn.Module) -> Hooks:
            return Hooks(
                steps_from=lambda state: prefetch(self._steps(state, phases, loaders, ends, accelerator), depth=2),
                evaluate=lambda step: evaluate(step, prepared),
                flops=lambda batch: training_flops(model.config, batch),
                log=self.log if accelerator.is_main_process else None,
            )

        settings = LoopSettings(
            num_steps=num_steps, learning_rate=resolved["learning_rate"], clip_norm=run.optimizer.clip_norm,
            warmup_share=resolved["warmup_share"], seed=run.train.seed, log_steps=run.saving.log_steps,
            eval_steps=(run.saving.eval_steps or every) if validate else None, save_steps=run.saving.save_steps or every,
        )
        training_run = TrainingRun(run.out, f"pretrain --out {run.out}", accelerator, hardware, self.console, self.is_resumed,
                                   run.saving.keep, write)
        return training_run.go(model, settings, self._optimizer_settings(), hooks)

    def _optimizer_settings(self) -> OptimizerSettings:
        given = self.run.optimizer
        correct = preset_named(self._preset_name()).bias_correction if given.bias_correction is None else given.bias_correction
        return dataclasses.replace(given, bias_correction=correct)

    def _steps(self, state: TrainingState, phases: list[Phase], loaders: list[PretrainingLoader], ends: list[int],
               accelerator: Accelerator) -> Iterator[Step]:
        """Yield the steps that are left, phase after phase."""
        begin = 0
        for phase, loader, end in zip(phases, loaders, ends, strict=True):
            if state.step < end:
                # A phase that begins here is read from its start; the position belongs to the phase before.
                position = state.position if state.step > begin else Position()
                steps = loader.steps(position, num_sequences=phase.num_sequences, cut=self._cut(accelerator, phase))
                for _ in range(max(begin, state.step), end):
                    yield next(steps)
            begin = end
