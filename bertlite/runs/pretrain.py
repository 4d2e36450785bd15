"""`bertlite pretrain`: raw text in, a BERT pretrained on it out; goes on from where it was stopped."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from bertlite.config import flatten, to_dict
from bertlite.corpus.documents import Layout
from bertlite.corpus.store import DocumentSet, prefetch
from bertlite.corpus.tokenizer import TokenizerSettings, WordPiece
from bertlite.errors import InputError, Stopped
from bertlite.examples.example import Examples
from bertlite.examples.full_sentences import FullSentences
from bertlite.examples.sentence_pairs import SentencePairs
from bertlite.files import folder_lock, remove_partials
from bertlite.formats.huggingface import check_vocabulary, load_weights, read_config, read_tokenizer, read_weights
from bertlite.formats.huggingface import write_model, write_tokenizer
from bertlite.formats.sentence_transformers import write_sentence_model
from bertlite.inputs.batch import Batch
from bertlite.inputs.loader import Cut, Position, PretrainingLoader, Step
from bertlite.inputs.masking import Masker, MaskingSettings, check_whole_words
from bertlite.model.config import ModelConfig
from bertlite.model.flops import training_flops
from bertlite.objectives.evaluation import baselines, figures, plain_words
from bertlite.objectives.pretraining import BertForPretraining
from bertlite.report.page import write_report
from bertlite.runs.console import Console, duration, is_main_process
from bertlite.runs.corpus import is_store, open_corpus
from bertlite.runs.model_card import write_card
from bertlite.runs.run_directory import merge_for_resume, prepare_folder, read_run, write_run
from bertlite.runs.settings import PLAIN, LimitSettings, SavingSettings, build
from bertlite.runs.tokenizer import train_on_corpus
from bertlite.training.checkpoint import TrainingState, checkpoints, load_checkpoint, rotate, save_checkpoint
from bertlite.training.hardware import Hardware, HardwareSettings, start
from bertlite.training.log import MetricsLog
from bertlite.training.loop import Hooks, LoopSettings, sum_over, train
from bertlite.training.optimizer import OptimizerSettings, make_optimizer, optimizer_tensors, restore_optimizer
from bertlite.training.presets import Phase, parse_phases, phase_ends, preset_named

EPOCHS = 40.0  # Devlin et al. 2019, app. A.2: about 40 epochs
# What a resumed run may set anew.
CHANGEABLE = ("limits.max_steps", "limits.max_minutes", "limits.epochs", "saving.save_steps", "saving.eval_steps",
              "saving.keep", "micro_batch_size", "processes", "quiet", "resume", "overwrite")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Size of the model and course of the training; what is not given is the preset's."""

    preset: str | None = None
    """tiny, mini, small, medium, base or large; without one small on a GPU and mini on a CPU."""
    objective: Literal["mlm+nsp", "mlm"] = "mlm+nsp"
    phases: tuple[str, ...] = ()
    """LENGTHxSEQUENCES:SHARE of the steps, such as 128x256:0.9 512x64:0.1."""
    max_length: int | None = None
    """Tokens a sequence, for a run of one phase."""
    batch_size: int | None = None
    """Sequences a step, over all processes, for a run of one phase."""
    micro_batch_size: int | None = None
    """Rows at once on one device; what fits well when not given."""
    learning_rate: float | None = None
    init_std: float | None = None
    dropout: float | None = None
    warmup_share: float | None = None
    """Share of the steps over which the learning rate rises."""
    held_out: float = 0.02
    """Share of the documents kept for validation, when --validation is not given."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class PretrainRun:
    """Pretrain a BERT on raw text."""

    out: Path
    """Folder of the run, which is a model directory."""
    corpus: tuple[Path, ...] = ()
    """Text files, folders or globs, or a token store."""
    validation: tuple[Path, ...] = ()
    """Held-out text; without it a share of the corpus's documents."""
    tokenizer: Path | None = None
    """Tokenizer folder, tokenizer.json or vocab.txt; trained on the corpus when not given."""
    model: Path | None = None
    """Go on from these weights and their tokenizer."""
    resume: bool = False
    """Go on with the run in --out."""
    overwrite: bool = False
    """Replace the run in --out."""
    processes: int | None = None
    """Fail unless this many processes run."""
    quiet: bool = False
    """Say nothing but errors."""
    train: Annotated[TrainSettings, PLAIN] = field(default_factory=TrainSettings)
    limits: Annotated[LimitSettings, PLAIN] = field(default_factory=LimitSettings)
    saving: Annotated[SavingSettings, PLAIN] = field(default_factory=SavingSettings)
    layout: Annotated[Layout, PLAIN] = field(default_factory=Layout)
    vocabulary: Annotated[TokenizerSettings, PLAIN] = field(default_factory=TokenizerSettings)
    hardware: Annotated[HardwareSettings, PLAIN] = field(default_factory=HardwareSettings)
    masking: MaskingSettings = field(default_factory=MaskingSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)


def pretrain(**settings: Any) -> Path:
    """Pretrain a BERT on raw text; keywords are the fields of PretrainRun and its groups.

    Returns the run directory, a model directory. Raises InputError for text or settings that cannot be used, Stopped
    when it was asked to stop and saved its state.
    """
    run, is_resumed = _settings(settings)
    if not is_main_process():
        _Pretraining(run, is_resumed).go()
        return run.out
    with folder_lock(run.out):
        remove_partials(run.out)
        remove_partials(run.out / "checkpoints")
        if not is_resumed:
            prepare_folder(run.out, overwrite=run.overwrite)
        _Pretraining(run, is_resumed).go()
    return run.out


def _settings(given: Mapping[str, Any]) -> tuple[PretrainRun, bool]:
    """Return the settings to run with, and whether they go on with a run that is there."""
    run = build(PretrainRun, given)
    if run.resume and (run.out / "run.json").exists():
        asked = _only_given(run)
        old = read_run(run.out)["settings"]
        return build(PretrainRun, merge_for_resume(old, asked, CHANGEABLE, where=run.out)), True
    if run.resume:
        Console(run.quiet).say(f"there is no run in {run.out} yet: beginning one")
    if not run.corpus:
        raise InputError("--corpus is missing", remedy="name text files, folders or globs")
    if run.model and run.tokenizer:
        raise InputError("--model brings its own tokenizer; leave --tokenizer out")
    if run.train.phases and (run.train.max_length or run.train.batch_size):
        raise InputError("--phases names lengths and batches; leave --max-length and --batch-size out")
    return run, False


def _only_given(run: PretrainRun) -> dict[str, Any]:
    """Return, of the settings, those that differ from the defaults: what a resume was given besides --out."""
    default = flatten(to_dict(PretrainRun(out=run.out)))
    return {name: value for name, value in flatten(to_dict(run)).items() if default.get(name) != value or name == "out"}


class _Pretraining:
    """One run from settings to report: opens what it reads, resolves what was not given, trains, writes."""

    def __init__(self, run: PretrainRun, is_resumed: bool):
        self.run, self.is_resumed = run, is_resumed
        self.console = Console(run.quiet)
        self.log = MetricsLog(run.out / "metrics.jsonl")

    def go(self) -> None:
        """Do the run."""
        accelerator, hardware = self._start()
        tokenizer = self._tokenizer(accelerator)
        training, validation = self._documents(tokenizer, accelerator)
        model, config = self._model(tokenizer)
        phases = self._phases()
        too_long = max(phase.length for phase in phases)
        if too_long > config.max_positions:
            raise InputError(f"a phase has {too_long} tokens, the model {config.max_positions} positions")
        loaders = [self._loader(training, tokenizer, phase.length) for phase in phases]
        # Every process measures; the main one's result holds for all.
        (resolved,) = broadcast_object_list([self._resolve(model, accelerator, phases, loaders)])
        if accelerator.is_main_process:
            write_run(self.run.out, settings=to_dict(self.run), resolved=resolved, hardware=hardware.to_dict(),
                      data={"training": training.store.description["sources"],
                            "validation": validation.store.description["sources"] if validation else []})  # fmt: skip
        self._train(accelerator, model, config, tokenizer, phases, loaders, validation, training, resolved, hardware)

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
                             remedy=f"start them: torchrun --nproc-per-node {self.run.processes} -m bertlite ...")  # fmt: skip
        self.console.say(f"device: {hardware.describe()}")
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
                    write_tokenizer(run.out, train_on_corpus(run.corpus, run.layout, run.vocabulary, self.console), max_length=512)
            place = run.out
        tokenizer, notes = read_tokenizer(place)
        for note in notes:
            self.console.say(note)
        return tokenizer

    def _documents(self, tokenizer: WordPiece, accelerator: Accelerator) -> tuple[DocumentSet, DocumentSet | None]:
        run, folder = self.run, self.run.out / "store"
        with accelerator.main_process_first():
            store = open_corpus(run.corpus, tokenizer, run.layout, folder / "training", self.console)
            if run.masking.whole_word:
                check_whole_words(store.counts)
            if run.validation:
                held = open_corpus(run.validation, tokenizer, run.layout, folder / "validation", self.console)
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
            dropout = config.hidden_dropout if train_settings.dropout is None else train_settings.dropout
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
        )  # fmt: skip

    def _preset_name(self) -> str:
        return self.run.train.preset or ("small" if torch.cuda.is_available() else "mini")

    def _phases(self) -> list[Phase]:
        settings = self.run.train
        if settings.max_length or settings.batch_size:
            return parse_phases((f"{settings.max_length or 128}x{settings.batch_size or 32}",))
        return parse_phases(settings.phases or preset_named(self._preset_name()).phases)

    def _loader(self, documents: DocumentSet, tokenizer: WordPiece, length: int) -> PretrainingLoader:
        settings = self.run.train
        kind = SentencePairs if settings.objective == "mlm+nsp" else FullSentences
        examples: Examples = kind(documents, tokenizer, length=length, seed=settings.seed)
        return PretrainingLoader(examples, Masker(tokenizer, self.run.masking, length=length), pad_id=tokenizer.pad_id)

    # --- what is resolved --------------------------------------------------------------------------------------

    def _resolve(self, model: BertForPretraining, accelerator: Accelerator, phases: list[Phase],
                 loaders: list[PretrainingLoader]) -> dict[str, Any]:  # fmt: skip
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
        if before and read_run(self.run.out)["settings"]["limits"] == to_dict(limits):
            return before | {"num_steps": before["num_steps"]}
        seconds = [self._step_seconds(model, accelerator, phase, loader) for phase, loader in zip(phases, loaders, strict=True)]
        per_step = sum(phase.share * s for phase, s in zip(phases, seconds, strict=True))
        if limits.max_steps:
            num_steps = limits.max_steps
        elif limits.max_minutes:
            num_steps = max(len(phases), int(limits.max_minutes * 60 / per_step))
        else:
            num_steps = self._steps_for_epochs(limits.epochs or EPOCHS, phases, loaders)
        self._say_plan(resolved, phases, num_steps, per_step)
        return resolved | {"num_steps": num_steps}

    def _say_plan(self, resolved: dict[str, Any], phases: list[Phase], num_steps: int, per_step: float) -> None:
        tokens = sum(phase.share * phase.length * phase.num_sequences for phase in phases) * num_steps
        end = time.strftime("%a %H:%M", time.localtime(time.time() + per_step * num_steps))
        self.console.say(f"model: {resolved['preset'] if not self.run.model else self.run.model}, "
                         f"{resolved['parameters'] / 1e6:.1f} M parameters; phases {' '.join(resolved['phases'])}, "
                         f"learning rate {resolved['learning_rate']:g}")  # fmt: skip
        shorter = "" if self.run.limits.max_minutes else "; shorter: --max-minutes 60; smaller: --preset tiny"
        self.console.say(f"{num_steps:,} steps, up to {tokens / 1e6:,.1f} M tokens to see, "
                         f"{tokens / num_steps / per_step:,.0f} tokens/s: about {duration(per_step * num_steps)}, until {end}"
                         + shorter)  # fmt: skip

    def _step_seconds(self, model: BertForPretraining, accelerator: Accelerator, phase: Phase,
                      loader: PretrainingLoader) -> float:  # fmt: skip
        """Time a step on a copy of the model, so that the measurement leaves no trace."""
        cut = self._cut(accelerator, phase)
        step = next(loader.steps(Position(), num_sequences=phase.num_sequences, cut=cut))
        trial = copy.deepcopy(model).to(accelerator.device)
        optimizer = make_optimizer(trial, self.run.optimizer, learning_rate=0.0)
        times: list[float] = []
        end = time.perf_counter() + 2.0
        with torch.random.fork_rng(devices=[accelerator.device] if accelerator.device.type == "cuda" else []):
            while len(times) < 3 or (time.perf_counter() < end and len(times) < 50):
                begin = time.perf_counter()
                for batch in step.micro_batches:
                    with accelerator.autocast():
                        sums = trial(batch.to(accelerator.device))
                    sum((sums[name].loss for name in trial.losses), torch.zeros(())).backward()
                optimizer.step()
                optimizer.zero_grad()
                times.append(time.perf_counter() - begin)
        return sorted(times[1:])[len(times[1:]) // 2]

    def _steps_for_epochs(self, epochs: float, phases: list[Phase], loaders: list[PretrainingLoader]) -> int:
        per_step = sum(p.share * p.num_sequences / loader.epoch_size() for p, loader in zip(phases, loaders, strict=True))
        return max(len(phases), round(epochs / per_step))

    def _cut(self, accelerator: Accelerator, phase: Phase) -> Cut:
        """Return how a step is divided: --micro-batch-size, or as many rows as a device works on well."""
        tokens_at_once = 65_536 if accelerator.device.type == "cuda" else 8_192
        rows = self.run.train.micro_batch_size or max(1, tokens_at_once // phase.length)
        return Cut(accelerator.process_index, accelerator.num_processes, rows)

    # --- training ----------------------------------------------------------------------------------------------

    def _train(self, accelerator: Accelerator, model: BertForPretraining, config: ModelConfig, tokenizer: WordPiece,
               phases: list[Phase], loaders: list[PretrainingLoader], validation: DocumentSet | None,
               training: DocumentSet, resolved: dict[str, Any], hardware: Hardware) -> None:  # fmt: skip
        run, out, num_steps = self.run, self.run.out, resolved["num_steps"]
        state, found = TrainingState(), checkpoints(out / "checkpoints") if self.is_resumed else []
        if found:
            load_weights(model, read_weights(found[-1]), where=found[-1])
        optimizer = make_optimizer(model, run.optimizer, learning_rate=resolved["learning_rate"])
        if found:
            state, tensors = load_checkpoint(found[-1])
            restore_optimizer(model, optimizer, tensors)
        if self.is_resumed:
            self.console.say(f"going on from step {state.step:,} of {num_steps:,}")
        prepared, prepared_optimizer = accelerator.prepare(model, optimizer)
        ends = phase_ends(phases, num_steps)
        every = max(1, num_steps // 20)

        def steps_from(state: TrainingState) -> Iterator[Step]:
            begin = 0
            for phase, loader, end in zip(phases, loaders, ends, strict=True):
                if state.step < end:
                    # A phase that is begun here is read from its start; the position belongs to the phase before.
                    position = state.position if state.step > begin else Position()
                    steps = loader.steps(position, num_sequences=phase.num_sequences, cut=self._cut(accelerator, phase))
                    for _ in range(max(begin, state.step), end):
                        yield next(steps)
                begin = end

        evaluate = _Evaluation(self, accelerator, prepared, tokenizer, phases, ends, training, validation) if validation else None

        def save(state: TrainingState) -> None:
            if accelerator.is_main_process:
                save_checkpoint(out / "checkpoints", state, optimizer_tensors(model, optimizer),
                                lambda folder: self._write_model(folder, model, config, tokenizer))  # fmt: skip
                rotate(out / "checkpoints", keep=run.saving.keep or None, best_step=state.best_step)
                self._write_model(out, model, config, tokenizer)
            accelerator.wait_for_everyone()

        self._write_first(accelerator, out, model, config, tokenizer, state)
        settings = LoopSettings(num_steps=num_steps, learning_rate=resolved["learning_rate"], clip_norm=run.optimizer.clip_norm,
                                warmup_share=resolved["warmup_share"], seed=run.train.seed, log_steps=run.saving.log_steps,
                                eval_steps=(run.saving.eval_steps or every) if validation else None,
                                save_steps=run.saving.save_steps or every)  # fmt: skip
        hooks = Hooks(steps_from=lambda state: prefetch(steps_from(state), depth=2), evaluate=evaluate or (lambda step: {}),
                      save=save, flops=lambda batch: training_flops(config, batch),
                      log=self.log if accelerator.is_main_process else None)  # fmt: skip
        code = train(prepared, prepared_optimizer, accelerator, settings, hooks, state, peak_flops=hardware.peak_flops,
                     quiet=run.quiet)  # fmt: skip
        if code:
            raise Stopped(f"saved step {state.step:,} in {out}/checkpoints/step-{state.step:08d}. "
                          f"Go on: bertlite pretrain --out {out} --resume", code=code)  # fmt: skip
        if accelerator.is_main_process:
            write_report(out)
            write_card(out)
            self.console.say(f"done: {out} is a model directory; a page to look at: {out}/report.html")

    def _write_first(self, accelerator: Accelerator, out: Path, model: BertForPretraining, config: ModelConfig,
                     tokenizer: WordPiece, state: TrainingState) -> None:  # fmt: skip
        if accelerator.is_main_process:
            self.log.begin(state.step)
            if state.step == 0:
                self._write_model(out, model, config, tokenizer)
        accelerator.wait_for_everyone()

    def _write_model(self, folder: Path, model: BertForPretraining, config: ModelConfig, tokenizer: WordPiece) -> None:
        write_model(folder, model, config, tokenizer, max_length=config.max_positions)
        write_sentence_model(folder, hidden_size=config.hidden_size, max_length=config.max_positions)


class _Evaluation:
    """Validation at the length of the phase a step is in, on batches that are always the same."""

    NUM_SEQUENCES = 512

    def __init__(self, run: _Pretraining, accelerator: Accelerator, model: torch.nn.Module, tokenizer: WordPiece,
                 phases: list[Phase], ends: list[int], training: DocumentSet, validation: DocumentSet):  # fmt: skip
        self.run, self.accelerator, self.model, self.tokenizer = run, accelerator, model, tokenizer
        self.phases, self.ends, self.training, self.validation = phases, ends, training, validation
        self.batches: dict[int, list[Batch]] = {}
        self.unigram = training.unigram_counts()

    def __call__(self, step: int) -> dict[str, Any]:
        phase = next(i for i, end in enumerate(self.ends) if step <= end)
        if phase not in self.batches:
            self.batches[phase] = self._fixed(self.phases[phase].length)
        batches = self.batches[phase]
        sums = sum_over(batches, self.model, self.accelerator)
        result = figures(sums, baselines(batches, self.unigram, self.tokenizer.mask_id))
        self.run.console.say(f"step {step:,}, length {self.phases[phase].length}: {plain_words(result)}")
        losses: tuple[str, ...] = self.accelerator.unwrap_model(self.model).losses
        total = sum(result[f"{name}_loss"] for name in losses)
        # A later phase is always better: losses at different lengths do not compare.
        return result | {"length": self.phases[phase].length, "selection": 1000.0 * phase - total}

    def _fixed(self, length: int) -> list[Batch]:
        return fixed_batches(self.validation, self.tokenizer, length=length, masking=self.run.run.masking,
                             objective=self.run.run.train.objective, num_sequences=self.NUM_SEQUENCES)  # fmt: skip


def fixed_batches(documents: DocumentSet, tokenizer: WordPiece, *, length: int, masking: MaskingSettings, objective: str,
                  num_sequences: int) -> list[Batch]:  # fmt: skip
    """Return validation batches whose samples and masks do not depend on a run's seed."""
    kind = SentencePairs if objective == "mlm+nsp" else FullSentences
    loader = PretrainingLoader(kind(documents, tokenizer, length=length, seed=0), Masker(tokenizer, masking, length=length),
                               pad_id=tokenizer.pad_id)  # fmt: skip
    return loader.fixed_batches(num_sequences, max(1, 8192 // length))
