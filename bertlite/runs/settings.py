"""Settings that several verbs share, and how a verb's function turns its keywords into settings.

Groups marked PLAIN give their fields without a prefix, on the command line (`--line`) and in Python (`line=`).
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from bertlite.config import from_dict
from bertlite.errors import InputError, nearest
from bertlite.files import read_json

T = TypeVar("T")
PLAIN = tyro.conf.arg(name="")
# A file named on the command line; in Python also rows: dictionaries, texts, a DataFrame, a datasets.Dataset.
Rows = Annotated[Any, tyro.conf.arg(constructor=str)]


@dataclass(frozen=True, kw_only=True)
class LimitSettings:
    """How long a run goes on; at most one of the three."""

    max_steps: int | None = None
    """Optimizer steps."""
    max_minutes: float | None = None
    """Minutes of training, turned into steps after a short measurement."""
    epochs: float | None = None
    """Passes over the training text or rows."""

    def __post_init__(self) -> None:
        given = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        if len(given) > 1:
            raise InputError(f"give one of --max-steps, --max-minutes and --epochs; got {len(given)}")
        for name, value in given.items():
            if value <= 0:
                raise InputError(f"--{name.replace('_', '-')} must be positive; got {value}")


@dataclass(frozen=True, kw_only=True)
class SavingSettings:
    """When figures are logged, validated and saved."""

    log_steps: int = 10
    eval_steps: int | None = None
    """Steps between validations; a twentieth of the run, 50 at least, when not given."""
    save_steps: int | None = None
    """Steps between checkpoints; a twentieth of the run, 50 at least, when not given."""
    keep: int = 2
    """Newest checkpoints to keep, besides the best; 0 keeps all."""

    def __post_init__(self) -> None:
        for name in ("log_steps", "eval_steps", "save_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 1; got {value}")
        if self.keep < 0:
            raise InputError(f"--keep must be at least 0; got {self.keep}")


@dataclass(frozen=True, kw_only=True)
class UseSettings:
    """How a model that is there is used."""

    batch_size: int = 32
    """Texts at once."""
    max_length: int | None = None
    """Tokens a text; what the model's own files say when not given (raw text of a masked LM: 128)."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1 or mps."""
    threads: int | None = None
    """CPU threads; those the machine has when not given."""
    quiet: bool = False
    """Say nothing but errors."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"--batch-size must be at least 1; got {self.batch_size}")

    def opening(self) -> dict[str, Any]:
        """Return the keywords that open a model, those of Predictor's and Embedder's `from_pretrained`."""
        return {"device": self.device, "max_length": self.max_length, "threads": self.threads}


def build(kind: type[T], given: Mapping[str, Any]) -> T:
    """Build settings from keywords: fields of PLAIN groups may stand beside the others, `config` names a JSON file.

    Raises InputError for an unknown name.
    """
    values = dict(given)
    config = values.pop("config", None)
    below = {} if config is None else _place(kind, _read_config_file(Path(config)))
    return from_dict(kind, _merge(below, _place(kind, values)))


def from_config(kind: type[T], config: str, flags: Sequence[str]) -> T:
    """Build settings from a JSON file alone, for flags to be put on top; required ones may come from `flags`."""
    required = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING  # type: ignore[arg-type]
                and f.default_factory is dataclasses.MISSING]
    filled = _place(kind, _read_config_file(Path(config)))
    for name in required:
        if name not in filled:
            given = _value_of(f"--{name.replace('_', '-')}", list(flags))
            filled |= {} if given is None else {name: given}
    return from_dict(kind, filled, where=config)


def _value_of(flag: str, flags: list[str]) -> str | None:
    for number, text in enumerate(flags):
        if text.startswith(flag + "="):
            return text.partition("=")[2]
        if text == flag and number + 1 < len(flags):
            return flags[number + 1]
    return None


def _read_config_file(path: Path) -> dict[str, Any]:
    raw = read_json(path)
    settings = raw.get("settings", raw) if isinstance(raw, dict) else None
    if not isinstance(settings, dict):
        raise InputError("not settings", where=path, remedy="give a run.json or a JSON object of settings")
    return settings


def plain_fields(kind: type) -> dict[str, str]:
    """Return where fields of PLAIN groups belong: {"line": "layout", ...}."""
    places: dict[str, str] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        if typing.get_origin(hint) is typing.Annotated and PLAIN in hint.__metadata__:
            places |= {f.name: name for f in dataclasses.fields(hint.__origin__)}
    return places


def _place(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    places = plain_fields(kind)
    own = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    result: dict[str, Any] = {}
    for name, value in values.items():
        head = name.partition(".")[0]
        if head in own:
            result[name] = value
        elif name in places:
            result[f"{places[name]}.{name}"] = value
        else:
            raise InputError(f"unknown setting {name!r}{nearest(name, own | places.keys())}")
    return _nest(result)


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in values.items():
        head, _, rest = name.partition(".")
        if rest:
            nested.setdefault(head, {})[rest] = value
        elif isinstance(value, Mapping):
            nested.setdefault(head, {}).update(value)
        else:
            nested[head] = value
    return nested


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merge(merged[name], dict(value)) if both else value
    return merged
