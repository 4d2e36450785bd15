"""metrics.jsonl: one JSON object a line, each step once, also after a resume."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertlite.files import atomic_path


class MetricsLog:
    """Appends lines `{"step": ..., "kind": "train" | "validation", ...}` to a run's metrics.jsonl."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def begin(self, step: int) -> None:
        """Drop what was logged after `step`, and a last line that was not finished."""
        kept = [line for line, entry in self._lines() if entry["step"] <= step]
        with atomic_path(self.path) as partial:
            partial.write_text("".join(line + "\n" for line in kept), encoding="utf-8")

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Append one line."""
        entry = {"step": step, "kind": kind} | {k: _short(v) for k, v in values.items()}
        with open(self.path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def read(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the entries, of one kind or all."""
        return [entry for _, entry in self._lines() if kind in (None, entry["kind"])]

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut off by a kill
            if isinstance(entry, dict) and isinstance(entry.get("step"), int) and "kind" in entry:
                yield line, entry


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
