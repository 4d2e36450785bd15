"""Checkpoints: a loadable model directory, the optimizer and the place in the run; whole or not there.

    checkpoints/step-00000500/   model files, optimizer.safetensors, state.json

A checkpoint is written aside, synced and renamed. The newest N are kept, and the best.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertlite.errors import InputError
from bertlite.files import atomic_folder, read_json, write_json
from bertlite.inputs.loader import Position


@dataclass
class TrainingState:
    """Where a run stands, besides weights and optimizer."""

    step: int = 0
    """Steps done."""
    position: Position = field(default_factory=Position)
    """Where the next step begins to read, in the phase that `step` is in."""
    pending: dict[str, float] = field(default_factory=dict)
    """Sums since the last logged step."""
    best_step: int | None = None
    best_value: float | None = None
    stale_evaluations: int = 0
    """Evaluations since the best one."""


def save_checkpoint(folder: Path, state: TrainingState, optimizer: dict[str, Tensor],
                    write_model: Callable[[Path], None]) -> Path:
    """Write one checkpoint under `folder` and return its path."""
    path = folder / f"step-{state.step:08d}"
    with atomic_folder(path) as partial:
        write_model(partial)
        save_file(optimizer, partial / "optimizer.safetensors")
        write_json(partial / "state.json", asdict(state))
    return path


def rotate(folder: Path, *, keep: int | None, best_step: int | None) -> None:
    """Remove all but the newest `keep` checkpoints (None: keep all) and the best."""
    paths = checkpoints(folder)
    if keep is None:
        return
    for path in paths[:-keep]:
        if best_step is None or path.name != f"step-{best_step:08d}":
            shutil.rmtree(path)


def checkpoints(folder: Path) -> list[Path]:
    """Return the whole checkpoints under `folder`, oldest first."""
    found = [p for p in folder.glob("step-*") if re.fullmatch(r"step-\d{8,}", p.name) and (p / "state.json").exists()]
    return sorted(found, key=lambda p: int(p.name.split("-")[1]))


def load_checkpoint(path: Path) -> tuple[TrainingState, dict[str, Tensor]]:
    """Return the state and the optimizer's tensors; raises InputError when they are damaged."""
    raw: dict[str, Any] = read_json(path / "state.json")
    try:
        state = TrainingState(**(raw | {"position": Position(**raw["position"])}))
        return state, load_file(path / "optimizer.safetensors")
    except (KeyError, TypeError, SafetensorError, OSError) as error:
        raise InputError(f"the checkpoint is damaged ({error})", where=path,
                         remedy="remove it to go on from the one before") from None
