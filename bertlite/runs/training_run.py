"""What every training run does around the loop: go on from a checkpoint, save, stop, keep the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import nn

from bertlite.errors import InputError, Stopped
from bertlite.formats.huggingface import load_weights, read_weights
from bertlite.runs.console import Console
from bertlite.training.checkpoint import TrainingState, checkpoints, load_checkpoint, rotate, save_checkpoint
from bertlite.training.hardware import Hardware
from bertlite.training.log import MetricsLog
from bertlite.training.loop import Hooks, LoopSettings, train
from bertlite.training.optimizer import OptimizerSettings, make_optimizer, optimizer_tensors, restore_optimizer


@dataclass(frozen=True)
class TrainingRun:
    """One run in one folder."""

    out: Path
    command: str
    """What goes on with it, `--resume` aside."""
    accelerator: Accelerator
    hardware: Hardware
    console: Console
    is_resumed: bool
    keep: int
    write_model: Callable[[Path], None]
    """Write the model's files into a folder."""
    root_is_best: bool = False
    """Whether the model at the folder's root is the best one, rather than the last."""

    def go(self, model: nn.Module, settings: LoopSettings, optimizer_settings: OptimizerSettings,
           make_hooks: Callable[[nn.Module], Hooks], rate_of: Callable[[str], float] = lambda name: 1.0) -> TrainingState:
        """Train `model` and return where it ended; `make_hooks` gets it as Accelerate prepared it.

        `rate_of` gives a parameter's share of the learning rate by its name.

        Raises Stopped when it was asked to stop, with its state saved.
        """
        found = checkpoints(self.out / "checkpoints") if self.is_resumed else []
        if found:
            load_weights(model, read_weights(found[-1]), where=found[-1])
        optimizer = make_optimizer(model, optimizer_settings, learning_rate=settings.learning_rate, rate_of=rate_of)
        state = TrainingState()
        if found:
            state, tensors = load_checkpoint(found[-1])
            restore_optimizer(model, optimizer, tensors)
        if state.step > settings.num_steps:
            raise InputError(f"the run has done {state.step:,} steps, more than {settings.num_steps:,}", where=self.out)
        if self.is_resumed:
            self.console.say(f"going on from step {state.step:,} of {settings.num_steps:,}")
        prepared, prepared_optimizer = self.accelerator.prepare(model, optimizer)
        hooks = make_hooks(prepared)
        hooks.save = lambda state: self._save(state, model, optimizer)
        self._begin(hooks.log, state)
        code = train(prepared, prepared_optimizer, self.accelerator, settings, hooks, state,
                     peak_flops=self.hardware.peak_flops, quiet=self.console.quiet)
        if code:
            raise Stopped(f"saved step {state.step:,} in {self._path(state.step)}. Go on: "
                          f"bertlite {self.command} --resume", code=code)
        if self.root_is_best and state.best_step not in (None, state.step):
            load_weights(model, read_weights(self._path(state.best_step)), where=self._path(state.best_step))
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                self.write_model(self.out)
        return state

    def _path(self, step: int | None) -> Path:
        return self.out / "checkpoints" / f"step-{step or 0:08d}"

    def _begin(self, log: MetricsLog | None, state: TrainingState) -> None:
        if self.accelerator.is_main_process:
            if log is not None:
                log.begin(state.step)
            if state.step == 0:
                self.write_model(self.out)
        self.accelerator.wait_for_everyone()

    def _save(self, state: TrainingState, model: nn.Module, optimizer: Any) -> None:
        if self.accelerator.is_main_process:
            tensors = optimizer_tensors(model, optimizer)
            save_checkpoint(self.out / "checkpoints", state, tensors, self.write_model)
            rotate(self.out / "checkpoints", keep=self.keep or None, best_step=state.best_step)
            if not self.root_is_best or state.best_step in (None, state.step):
                self.write_model(self.out)
        self.accelerator.wait_for_everyone()
