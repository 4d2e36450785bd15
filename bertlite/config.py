"""Settings: frozen dataclasses to JSON and back; an unknown key or a value of the wrong type is an error.

Settings nest (`optimizer.beta2`), so a flat name with dots and a nested dictionary say the same.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from bertlite.errors import InputError, nearest

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """Return a dataclass as nested plain values that JSON can hold (paths become strings, tuples lists)."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def from_dict(kind: type[T], values: Mapping[str, Any], *, where: str | Path | None = None) -> T:
    """Build dataclass `kind` from nested or dotted `values`.

    Raises InputError for a name `kind` does not have, a missing one, or a value of the wrong type.
    """
    hints = typing.get_type_hints(kind)
    nested = _nest(values)
    unknown = [name for name in nested if name not in hints]
    if unknown:
        raise InputError(f"unknown setting {unknown[0]!r}{nearest(unknown[0], hints)}", where=where,
                         remedy=f"there are {', '.join(sorted(hints))}")
    arguments = {name: _coerce(hints[name], value, name, where) for name, value in nested.items()}
    required = [f.name for f in dataclasses.fields(kind)  # type: ignore[arg-type]
                if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
    missing = [name for name in required if name not in arguments]
    if missing:
        raise InputError(f"the setting {missing[0]!r} is missing", where=where)
    return kind(**arguments)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as one level of dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the dotted names at which two nested settings differ, each with (old, new)."""
    before, after = flatten(old), flatten(new)
    return {name: (before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in values.items():
        head, _, rest = name.partition(".")
        if rest:
            inner = nested.setdefault(head, {})
            inner[rest] = value
        else:
            nested[head] = value
    return nested


def _coerce(hint: Any, value: Any, name: str, where: str | Path | None) -> Any:
    origin, choices = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _coerce(choices[0], value, name, where)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        return _first_that_fits([c for c in choices if c is not type(None)], value, name, where)
    if origin is typing.Literal:
        if value not in choices:
            raise InputError(f"{name} must be one of {', '.join(map(str, choices))}; got {value!r}", where=where)
        return value
    if origin is tuple:
        items = [value] if isinstance(value, (str, Path)) or not isinstance(value, (list, tuple)) else value
        return tuple(_coerce(choices[0], item, name, where) for item in items)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, hint):  # type: ignore[arg-type]
            return value
        if isinstance(value, Mapping):
            return from_dict(hint, value, where=where)  # type: ignore[arg-type]
    return _scalar(hint, value, name, where)


def _first_that_fits(kinds: list[Any], value: Any, name: str, where: str | Path | None) -> Any:
    for kind in kinds[:-1]:
        try:
            return _coerce(kind, value, name, where)
        except InputError:
            continue
    return _coerce(kinds[-1], value, name, where)


def _scalar(hint: Any, value: Any, name: str, where: str | Path | None) -> Any:
    if hint is Any:
        return value
    if hint is Path and isinstance(value, (str, Path)):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and not (hint in (int, float) and isinstance(value, bool)):
        return value
    raise InputError(f"{name} must be {getattr(hint, '__name__', hint)}; got {value!r}", where=where)
