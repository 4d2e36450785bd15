"""The loop, the only one: a model and steps of micro-batches in, trained weights out.

It knows no task. The model says what its losses are summed over (`counts`) and gives the sums (`forward`); each loss
is divided by its count over all micro-batches and processes, so 64 sequences at once and 8 x 8 accumulated give the
same update. (Averaging the means of micro-batches, as is usual, weighs them wrongly.)
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor, nn
from tqdm import tqdm

from bertlite.draws import Purpose, torch_seed
from bertlite.errors import InputError
from bertlite.inputs.batch import Batch
from bertlite.inputs.loader import Step
from bertlite.objectives.sums import Sums
from bertlite.training.checkpoint import TrainingState
from bertlite.training.log import MetricsLog
from bertlite.training.schedule import LinearSchedule


class Trainable(Protocol):
    """What the loop asks of a model."""

    losses: tuple[str, ...]

    def counts(self, batch: Batch) -> dict[str, int]:
        """Return what each loss is summed over."""

    def __call__(self, batch: Batch) -> dict[str, Sums]:
        """Return the sums of each loss."""


@dataclass(frozen=True)
class LoopSettings:
    """When the loop does what; steps counted from 1."""

    num_steps: int
    learning_rate: float
    clip_norm: float
    warmup_share: float
    seed: int
    log_steps: int = 10
    eval_steps: int | None = None
    save_steps: int | None = None


@dataclass
class Hooks:
    """What the loop calls and does not know."""

    steps_from: Callable[[TrainingState], Iterator[Step]]
    evaluate: Callable[[int], dict[str, Any]] = lambda step: {}
    """Return figures of step `step`; under "selection", the one to choose the best by, larger is better."""
    save: Callable[[TrainingState], None] = lambda state: None
    flops: Callable[[Batch], float] = lambda batch: 0.0
    log: MetricsLog | None = None
    should_stop: Callable[[TrainingState], bool] = lambda state: False
    """Asked after each evaluation: has it gone long enough without a better one?"""


class StopRequest:
    """Catches Ctrl-C and SIGTERM: the first is noted, for the loop to stop at a step's end; a second Ctrl-C leaves."""

    def __init__(self) -> None:
        self.code = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        with contextlib.suppress(ValueError):  # not in the main thread: signals stay as they are
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: object) -> None:
        if self.code and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.code = 128 + number


@dataclass
class Meter:
    """One process's sums since the last logged step; they survive a resume through `TrainingState.pending`."""

    sums: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """Add to one sum."""
        self.sums[name] = self.sums.get(name, 0.0) + value

    def over_processes(self) -> Meter:
        """Return the sums over all processes."""
        total = Meter()
        for part in gather_object([self.sums]):
            for name, value in part.items():
                total.add(name, value)
        return total

    def figures(self) -> dict[str, float]:
        """Return means and rates."""
        figures: dict[str, float] = {}
        for name, count in self.sums.items():
            if name.endswith("/size") and count:
                loss = name.removesuffix("/size")
                figures[f"{loss}_loss"] = self.sums[f"{loss}/loss"] / count
                figures[f"{loss}_accuracy"] = self.sums[f"{loss}/correct"] / count
        return figures


def train(model: nn.Module, optimizer: torch.optim.Optimizer, accelerator: Accelerator, settings: LoopSettings,
          hooks: Hooks, state: TrainingState, *, peak_flops: float = 0.0, quiet: bool = False) -> int:
    """Train `model` (prepared by `accelerator`) from `state` to the last step, or until it is asked to stop.

    Returns 0, or the exit code of the signal that stopped it (130, 143) after `hooks.save`.
    Raises InputError at a loss that is not finite.
    """
    schedule = LinearSchedule(settings.num_steps, settings.warmup_share)
    # What was pending is summed over processes already: one of them takes it up again. Its time is gone, so are its tokens.
    pending = {name: value for name, value in state.pending.items() if name not in ("tokens", "flops")}
    meter, clock = Meter(pending if accelerator.is_main_process else {}), time.perf_counter()
    steps = hooks.steps_from(state)
    bar = tqdm(total=settings.num_steps, initial=state.step, unit="step", dynamic_ncols=True, file=sys.stderr,
               disable=quiet or not accelerator.is_main_process or not sys.stderr.isatty())
    with StopRequest() as stop, bar:
        model.train()
        while state.step < settings.num_steps:
            step = next(steps)
            rate = settings.learning_rate * schedule.factor(state.step)
            for group in optimizer.param_groups:
                group["lr"] = rate * group["share"]
            stop_code = _update(model, optimizer, accelerator, settings, step, state.step, meter, hooks.flops, stop.code)
            state.step, state.position = state.step + 1, step.after
            bar.update()
            if state.step % settings.log_steps == 0 or state.step == settings.num_steps:
                seconds = time.perf_counter() - clock
                figures = _log(meter.over_processes(), rate, seconds, peak_flops, hooks.log, state.step)
                bar.set_postfix_str(_postfix(figures))
                meter, clock = Meter(), time.perf_counter()
            done = state.step == settings.num_steps
            if (settings.eval_steps and state.step % settings.eval_steps == 0) or (done and settings.eval_steps):
                clock = _evaluate(model, hooks, state, clock)
            is_best = state.best_step == state.step  # its weights may be asked for at the end
            if stop_code or done or is_best or (settings.save_steps and state.step % settings.save_steps == 0):
                begin = time.perf_counter()
                state.pending = meter.over_processes().sums
                hooks.save(state)
                clock += time.perf_counter() - begin  # saving is not training
            if stop_code and not done:
                return stop_code
            if hooks.should_stop(state):
                break
    return 0


def _update(model: nn.Module, optimizer: torch.optim.Optimizer, accelerator: Accelerator, settings: LoopSettings,
            step: Step, number: int, meter: Meter, flops: Callable[[Batch], float], stop_code: int) -> int:
    """Do one optimizer step; return the exit code any process was asked to stop with."""
    bare: Trainable = accelerator.unwrap_model(model)
    counts, stop_code = _global_counts(bare, accelerator, step.micro_batches, stop_code)
    last = len(step.micro_batches) - 1
    for index, batch in enumerate(step.micro_batches):
        batch = batch.to(accelerator.device)
        together = contextlib.nullcontext() if index == last else accelerator.no_sync(model)
        with together, _own_dropout(accelerator.device, settings.seed, number, index, accelerator.process_index):
            sums: dict[str, Sums] = model(batch)
            # DDP averages over processes, the loss is a sum over them.
            loss = sum(sums[name].loss / max(1.0, counts[name]) for name in bare.losses) * accelerator.num_processes
            accelerator.backward(loss)
        _measure(meter, sums, batch, flops)
    norm = accelerator.clip_grad_norm_(model.parameters(), settings.clip_norm)
    meter.add("norm", float(norm))
    meter.add("steps", 1)
    if not torch.isfinite(torch.as_tensor(norm)):
        raise InputError(f"step {number + 1}: the gradient is {float(norm)}; nothing was saved of it",
                         remedy="a smaller --learning-rate or --precision fp32")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return stop_code


def _global_counts(model: Trainable, accelerator: Accelerator, batches: list[Batch], stop_code: int,
                   ) -> tuple[dict[str, float], int]:
    """Sum what the losses are summed over, and agree on stopping, over micro-batches and processes."""
    here = {name: float(sum(model.counts(batch)[name] for batch in batches)) for name in model.losses}
    if accelerator.num_processes == 1:
        return here, stop_code
    sums = torch.tensor([*here.values(), float(stop_code)], dtype=torch.float64, device=accelerator.device)
    sums = accelerator.reduce(sums, reduction="sum")  # type: ignore[assignment]
    *counts, stops = sums.tolist()
    return dict(zip(here, counts, strict=True)), (130 if stops % 143 else 143) if stops else 0


@contextlib.contextmanager
def _own_dropout(device: torch.device, seed: int, step: int, micro: int, process: int) -> Iterator[None]:
    """Fork torch's generator and seed it from this micro-batch's place: the only use of the global generator."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(torch_seed(seed, Purpose.DROPOUT, step, micro, process))
        yield


def _measure(meter: Meter, sums: dict[str, Sums], batch: Batch, flops: Callable[[Batch], float]) -> None:
    for name, value in sums.items():
        for part, tensor in zip(value._fields, value, strict=True):
            meter.add(f"{name}/{part}", float(tensor.detach()))
    meter.add("tokens", batch.num_tokens)
    meter.add("sequences", batch.num_sequences)
    meter.add("flops", flops(batch))


def _log(meter: Meter, rate: float, seconds: float, peak: float, log: MetricsLog | None, step: int) -> dict[str, float]:
    figures = meter.figures() | {
        "learning_rate": rate,
        "gradient_norm": meter.sums["norm"] / meter.sums["steps"],
        "tokens_per_second": meter.sums.get("tokens", 0.0) / seconds,
    }
    if peak:
        figures["share_of_peak"] = meter.sums["flops"] / seconds / peak
    if log is not None:
        log.write("train", step, figures)
    return figures


def _postfix(figures: dict[str, float]) -> str:
    losses = [f"{name.removesuffix('_loss')} {value:.2f}" for name, value in figures.items() if name.endswith("_loss")]
    return ", ".join([*losses, f"{figures['tokens_per_second']:,.0f} tokens/s"])


def _evaluate(model: nn.Module, hooks: Hooks, state: TrainingState, clock: float) -> float:
    """Evaluate, remember the best; return the clock without the time this took."""
    begin = time.perf_counter()
    model.eval()
    figures = hooks.evaluate(state.step)
    model.train()
    if "selection" in figures:
        value = float(figures["selection"])
        if state.best_value is None or value > state.best_value:
            state.best_step, state.best_value, state.stale_evaluations = state.step, value, 0
        else:
            state.stale_evaluations += 1
    if hooks.log is not None and figures:
        hooks.log.write("validation", state.step, figures)
    return clock + time.perf_counter() - begin


def sum_over(batches: list[Batch], model: nn.Module, accelerator: Accelerator) -> dict[str, dict[str, float]]:
    """Return loss, size and correct of each of the model's figures, summed over batches and processes."""
    here: dict[str, Tensor] = {}
    with torch.no_grad():
        for batch in batches[accelerator.process_index :: accelerator.num_processes]:
            for name, sums in model(batch.to(accelerator.device)).items():
                values = torch.stack([part.cpu().double() for part in sums])
                here[name] = here[name] + values if name in here else values
    # A process without a batch has no names to sum under, so objects are gathered rather than tensors reduced.
    everywhere: list[dict[str, Tensor]] = gather_object([here])
    names = {name: None for part in everywhere for name in part}
    totals = {name: sum(part[name] for part in everywhere if name in part) for name in names}
    return {name: dict(zip(Sums._fields, value.tolist(), strict=True)) for name, value in totals.items()}  # type: ignore[union-attr]
