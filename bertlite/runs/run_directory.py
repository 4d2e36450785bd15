"""The run directory: a model directory with run.json, metrics.jsonl, checkpoints and a model card.

run.json holds what was asked (`settings`, itself a valid --config), what that came to (`resolved`), the hardware, the
versions and the fingerprints of the data.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bertlite.config import differences, flatten
from bertlite.errors import InputError
from bertlite.files import atomic_path, folder_lock, read_json, read_object, remove_partials, write_json
from bertlite.runs.console import is_main_process

# What a run leaves in its folder; --overwrite removes these and nothing else.
MODEL_FILES = ("bertlite.json", "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "modules.json",
               "sentence_bert_config.json", "1_Pooling/config.json", "model.safetensors")
OWN_FILES = ("run.json", "metrics.jsonl", "checkpoints", "store", "report.html", "README.md", "results.json", "held_out.json",
             *(name.partition("/")[0] for name in MODEL_FILES))
TRIALS = ("seed-*", "fold-*")  # folders of several trainings
PACKAGES = ("bertlite", "torch", "tokenizers", "accelerate", "numpy", "safetensors", "sentencex")


@contextlib.contextmanager
def hold_folder(out: Path, *, is_resumed: bool, overwrite: bool) -> Iterator[None]:
    """Hold a run's folder, new or gone on with, for as long as the run works; of several processes the main one holds it."""
    if not is_main_process():
        yield
        return
    if not is_resumed and out.is_dir():
        _check_folder(out, overwrite=overwrite)  # a folder that is refused is not so much as locked
    with folder_lock(out):
        for folder in (out, out / "checkpoints", *(path for trial in TRIALS for path in out.glob(f"{trial}/checkpoints"))):
            remove_partials(folder)
        with contextlib.nullcontext() if is_resumed else fresh_run(out, overwrite=overwrite):
            yield


@contextlib.contextmanager
def fresh_run(out: Path, *, overwrite: bool) -> Iterator[None]:
    """Make `out` ready for a new run, and put things back as they were if the run cannot begin.

    A run that is there is moved aside; it is gone only when the new one has something to go on from. Raises InputError
    when something is there and `overwrite` is not given.
    """
    there = _check_folder(out, overwrite=overwrite)
    aside = out / f".run.{os.getpid()}.old"
    aside.mkdir()
    for name in there:
        os.replace(out / name, aside / name)
    try:
        yield
    except BaseException:
        if not _has_begun(out):
            for name in _own(out):
                _remove(out / name)
            for path in aside.iterdir():
                os.replace(path, out / path.name)
        raise
    finally:
        shutil.rmtree(aside)


def _check_folder(out: Path, *, overwrite: bool) -> list[str]:
    there = _own(out)
    if not there and any(p.name != ".lock" for p in out.iterdir()):
        raise InputError("the folder holds other files", where=out, remedy="choose an empty or new --out")
    if there and not overwrite:
        raise InputError(f"there is a run already ({there[0]})", where=out,
                         remedy="--resume to go on, --overwrite to replace it, or another --out")
    return there


def _own(out: Path) -> list[str]:
    there = [name for name in OWN_FILES if (out / name).exists() or (out / name).is_symlink()]
    return there + ([path.name for trial in TRIALS for path in out.glob(trial)] if there else [])


def _has_begun(out: Path) -> bool:
    folders = ("", *(f"{trial}/" for trial in TRIALS))
    return any(any(out.glob(folder + sign)) for folder in folders for sign in ("checkpoints/step-*", "results.json"))


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def copy_model(source: Path, target: Path) -> None:
    """Copy the files of a model directory, each atomically."""
    for name in MODEL_FILES:
        if (source / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(target / name) as partial:
                shutil.copyfile(source / name, partial)


def check_apart(out: Path, *inputs: Any) -> None:
    """Raise InputError for an input that lies in the folder of the run, which would be moved or written over."""
    inside = out.resolve()
    for value in inputs:
        if isinstance(value, (str, Path)) and inside in (Path(value).resolve(), *Path(value).resolve().parents):
            raise InputError("is in the folder of the run, --out", where=value, remedy="choose another --out")


def write_run(out: Path, **parts: Any) -> None:
    """Write run.json, keeping the parts that are there and not given."""
    old = read_json(out / "run.json") if (out / "run.json").exists() else {}
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    write_json(out / "run.json", old | parts | {"versions": versions})


def read_run(out: Path) -> dict[str, Any]:
    """Read run.json; raises InputError when there is none."""
    if not (out / "run.json").exists():
        raise InputError("not a run directory (no run.json)", where=out)
    run = read_object(out / "run.json")
    if not isinstance(run.get("settings"), dict):
        raise InputError("not a run.json (no settings)", where=out / "run.json")
    return run


def read_run_of(out: Path, verb: str) -> dict[str, Any]:
    """Read the run.json of a run to go on with; raises InputError when another verb began it."""
    run = read_run(out)
    if run.get("verb", verb) != verb:
        raise InputError(f"the run was begun by {run['verb']}", where=out, remedy=f"bertlite {run['verb']} --out {out} --resume")
    return run


def merge_for_resume(old: Mapping[str, Any], given: Mapping[str, Any], changeable: Iterable[str], *, where: Path,
                     ) -> dict[str, Any]:
    """Return the settings to resume with: the old ones, and of `given` what may change.

    `given` holds only what was set now. Raises InputError naming the first setting that differs and may not.
    """
    allowed = set(changeable)
    flat_given = flatten(given)
    merged = flatten(old)
    if any(name.startswith("limits.") for name in flat_given):  # a new limit stands in the old one's place
        merged = {name: None if name.startswith("limits.") else value for name, value in merged.items()}
    for name, (before, now) in differences(flatten(old), merged | flat_given).items():
        if name not in allowed and name != "out":  # the folder may have been moved
            flag = re.sub(r"^(train|tune|limits|saving|layout|vocabulary|hardware|columns)\.", "", name).replace("_", "-")
            raise InputError(f"--{flag} was {before!r} when the run began and is {now!r} now", where=where,
                             remedy="leave it out to go on, or begin a new run in another --out")
    return merged | flat_given | {"out": str(where)}
