"""Files that are whole or not there: atomic writes, a lock on a folder, fingerprints of sources."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bertlite.errors import InputError


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; on leaving without error it is synced and takes `path`'s place."""
    path = Path(path)
    check_writable(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        _sync(partial)
        os.replace(partial, path)
        _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield a folder beside `path` to fill; on leaving without error it is synced and takes `path`'s place."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        for file in partial.rglob("*"):
            _sync(file)
        _sync(partial)
        if path.exists():
            # A folder cannot be replaced in one call: the old one steps aside first.
            old = path.with_name(f".{path.name}.{os.getpid()}.old")
            os.replace(path, old)
            os.replace(partial, path)
            shutil.rmtree(old)
        else:
            os.replace(partial, path)
        _sync(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_writable(path: str | Path) -> None:
    """Make the folder a file is to be in; raises InputError where the file cannot be written."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=path) from None
    if not path.name or path.is_dir():
        raise InputError("is a folder, not a file", where=path)
    if not os.access(path.parent, os.W_OK):
        raise InputError("the folder cannot be written to", where=path.parent)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; raises InputError that names file and line when it is missing or malformed."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("there is no such file", where=path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"not valid JSON ({error})", where=path, line=getattr(error, "lineno", None)) from None


def read_object(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that must hold an object; raises InputError when it does not."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"must hold a JSON object, not a {type(value).__name__}", where=path)
    return value


@contextlib.contextmanager
def folder_lock(folder: str | Path) -> Iterator[None]:
    """Hold `folder` for one writer; the operating system frees it when the holder dies. Raises InputError if held."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made a folder ({error.strerror})", where=folder) from None
    with open(folder / ".lock", "a", encoding="utf-8") as handle:
        if not _try_lock(handle):
            raise InputError("another run is writing here", where=folder, remedy="wait for it, or choose another --out")
        yield


def remove_partials(folder: str | Path) -> None:
    """Remove what an interrupted `atomic_path` or `atomic_folder` left in `folder` (call it holding the lock)."""
    for path in Path(folder).glob(".*"):
        if re.fullmatch(r"\..+\.\d+\.(partial|old)", path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def sha256_of(path: str | Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def quick_fingerprint(path: str | Path) -> dict[str, Any]:
    """Return what says cheaply whether a file may have changed: absolute path, bytes and time of change."""
    status = os.stat(path)
    return {"path": str(Path(path).resolve()), "bytes": status.st_size, "modified_ns": status.st_mtime_ns}


def _sync(path: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder, and its replace is already ordered
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _try_lock(handle: IO[str]) -> bool:
    try:
        if os.name == "nt":
            import msvcrt  # only there on Windows

            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl  # only there on POSIX

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
