"""The run directory: a model directory with run.json, metrics.jsonl, checkpoints and a model card.

run.json holds what was asked (`settings`, itself a valid --config), what that came to (`resolved`), the hardware, the
versions and the fingerprints of the data.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bertlite.config import differences, flatten
from bertlite.errors import InputError
from bertlite.files import read_json, write_json

# What a run leaves in its folder; --overwrite removes these and nothing else.
OWN_FILES = ("run.json", "metrics.jsonl", "checkpoints", "store", "report.html", "README.md", "bertlite.json", "config.json",
             "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "modules.json",
             "sentence_bert_config.json", "1_Pooling", "results.json", "held_out.json")
PACKAGES = ("bertlite", "torch", "tokenizers", "accelerate", "numpy", "safetensors", "sentencex")


def prepare_folder(out: Path, *, overwrite: bool) -> None:
    """Make `out` ready for a new run; raises InputError when something is there and `overwrite` is not given."""
    there = [name for name in OWN_FILES if (out / name).exists() or (out / name).is_symlink()]
    there += [path.name for path in out.glob("seed-*")] if there else []
    if out.exists() and not out.is_dir():
        raise InputError("--out is a file, not a folder", where=out)
    if out.exists() and not there and any(p.name != ".lock" for p in out.iterdir()):
        raise InputError("the folder holds other files", where=out, remedy="choose an empty or new --out")
    if there and not overwrite:
        raise InputError(f"there is a run already ({there[0]})", where=out,
                         remedy="--resume to go on, --overwrite to replace it, or another --out")
    for name in there:
        path = out / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    out.mkdir(parents=True, exist_ok=True)


def write_run(out: Path, **parts: Any) -> None:
    """Write run.json, keeping the parts that are there and not given."""
    old = read_json(out / "run.json") if (out / "run.json").exists() else {}
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    write_json(out / "run.json", old | parts | {"versions": versions})


def read_run(out: Path) -> dict[str, Any]:
    """Read run.json; raises InputError when there is none."""
    if not (out / "run.json").exists():
        raise InputError("not a run directory (no run.json)", where=out)
    run = read_json(out / "run.json")
    if not isinstance(run, dict) or "settings" not in run:
        raise InputError("not a run.json (no settings)", where=out / "run.json")
    return run


def merge_for_resume(old: Mapping[str, Any], given: Mapping[str, Any], changeable: Iterable[str], *, where: Path,
                     ) -> dict[str, Any]:
    """Return the settings to resume with: the old ones, and of `given` what may change.

    `given` holds only what was set now. Raises InputError naming the first setting that differs and may not.
    """
    allowed = set(changeable)
    flat_given = flatten(given)
    merged = flatten(old)
    for name, (before, now) in differences(flatten(old), merged | flat_given).items():
        if name not in allowed and name != "out":  # the folder may have been moved
            raise InputError(f"--{name.replace('_', '-')} was {before!r} when the run began and is {now!r} now", where=where,
                             remedy="leave it out to go on, or begin a new run in another --out")
    return merged | flat_given | {"out": str(where)}
