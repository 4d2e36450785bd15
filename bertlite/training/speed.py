"""How long a step takes on this machine, measured before a run begins."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
from accelerate import Accelerator

from bertlite.inputs.loader import Step
from bertlite.training.hardware import wait_for
from bertlite.training.optimizer import OptimizerSettings, make_optimizer

SECONDS = 2.0  # spent on a measurement, three steps at least
MOST_STEPS = 50


def step_seconds(model: Any, accelerator: Accelerator, step: Step, settings: OptimizerSettings) -> float:
    """Return the median seconds of `step`, taken on a copy of the model so that the measurement leaves no trace."""
    trial = copy.deepcopy(model).to(accelerator.device)
    optimizer = make_optimizer(trial, settings, learning_rate=0.0)
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    with torch.random.fork_rng(devices=[accelerator.device] if accelerator.device.type == "cuda" else []):
        while len(times) < 3 or (time.perf_counter() < end and len(times) < MOST_STEPS):
            begin = time.perf_counter()
            for batch in step.micro_batches:
                with accelerator.autocast():
                    sums = trial(batch.to(accelerator.device))
                sum(sums[name].loss for name in trial.losses).backward()
            optimizer.step()
            optimizer.zero_grad()
            wait_for(accelerator.device)
            times.append(time.perf_counter() - begin)
    return sorted(times[1:])[len(times[1:]) // 2]  # the first one warms up
