"""Pieces of a page: tables and titled sections."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return an HTML table; numbers stand right."""
    cells = "".join(f"<th>{html.escape(str(name))}</th>" for name in head)
    lines = ["<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows]
    return f"<table><tr>{cells}</tr>{''.join(lines)}</table>"


def section(title: str, content: str) -> str:
    """Return a titled section."""
    return f"<h2>{html.escape(title)}</h2>{content}"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"<td class=n>{value:.4g}</td>"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"<td class=n>{value:,}</td>"
    return f"<td>{html.escape(str(value))}</td>"
