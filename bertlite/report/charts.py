"""Pictures of a run: logged figures in, SVG text out."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626", "#475569")


def line_chart(title: str, unit: str, lines: dict[str, tuple[Sequence[float], Sequence[float]]], *,
               levels: dict[str, float] | None = None, dots: bool = False) -> str:
    """Draw named (x, y) lines over steps; `levels` are dashed horizontal lines, such as a floor."""
    figure, axes = _axes(6.2, 3.1)
    for colour, (name, (x, y)) in zip(itertools.cycle(COLOURS), lines.items(), strict=False):
        marker = "o" if len(x) < (60 if dots else 3) else None
        axes.plot(x, y, label=name, color=colour, linewidth=1.4, marker=marker, markersize=3)
    for level, (name, value) in enumerate((levels or {}).items()):
        axes.axhline(value, label=name, linestyle="--", linewidth=1, color=COLOURS[-1 - level])
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("step", fontsize=8)
    axes.set_ylabel(unit, fontsize=8)
    if len(lines) + len(levels or {}) > 1:
        axes.legend(fontsize=7, frameon=False)
    return _svg(figure)


def confusion_chart(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Draw a confusion matrix, rows the true label, shaded by the share of the row."""
    plt = _pyplot()
    size = min(12.0, 2.4 + 0.42 * len(labels))
    figure, axes = plt.subplots(figsize=(size + 1.2, size))
    shares = [[n / max(1, sum(row)) for n in row] for row in counts]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right", fontsize=7)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_xlabel("predicted", fontsize=8)
    axes.set_ylabel("true", fontsize=8)
    if len(labels) <= 20:
        for i, row in enumerate(counts):
            for j, n in enumerate(row):
                colour = "white" if shares[i][j] > 0.6 else "#222"
                axes.text(j, i, str(n) if n else "", ha="center", va="center", fontsize=7, color=colour)
    return _svg(figure)


def reliability_chart(bins: Sequence[Mapping[str, float]]) -> str:
    """Draw the share that was right over the confidence, a dot a bin, as large as its texts are many."""
    figure, axes = _axes(4.2, 4.0)
    most = max(b["size"] for b in bins)
    axes.plot([0, 1], [0, 1], linestyle="--", linewidth=1, color=COLOURS[-1])
    axes.scatter([b["confidence"] for b in bins], [b["accuracy"] for b in bins], s=[10 + 90 * b["size"] / most for b in bins],
                 color=COLOURS[0], alpha=0.8)
    axes.set_xlabel("confidence", fontsize=8)
    axes.set_ylabel("share right", fontsize=8)
    return _svg(figure)


def scatter_chart(x: Sequence[float], y: Sequence[float], *, labels: Sequence[int] | None = None,
                  names: tuple[str, str] = ("true", "predicted")) -> str:
    """Draw a point for each pair of numbers; `labels` colour them by group."""
    figure, axes = _axes(5.6, 5.0)
    colours = COLOURS[0] if labels is None else [_pyplot().get_cmap("tab20")(label % 20) for label in labels]
    axes.scatter(x, y, s=7, alpha=0.6, c=colours if labels is not None else None, color=None if labels is not None else colours)
    axes.set_xlabel(names[0], fontsize=8)
    axes.set_ylabel(names[1], fontsize=8)
    return _svg(figure)


def bar_chart(unit: str, x: Sequence[float], heights: Sequence[float], *, mark: float | None = None, bins: int = 60) -> str:
    """Draw a histogram of values x, each there `heights` times; `mark` is a dashed vertical line."""
    figure, axes = _axes(6.2, 2.6)
    axes.hist(x, weights=heights, bins=min(bins, max(1, len(x))), color=COLOURS[0])
    if mark is not None:
        axes.axvline(mark, linestyle="--", linewidth=1, color=COLOURS[4])
    axes.set_xlabel(unit, fontsize=8)
    axes.set_ylabel("texts", fontsize=8)
    return _svg(figure)


def _axes(width: float, height: float) -> tuple[Any, Any]:
    figure, axes = _pyplot().subplots(figsize=(width, height))
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def curve(entries: list[dict[str, Any]], name: str) -> tuple[list[float], list[float]]:
    """Return (steps, values) of one logged figure, leaving out where it is missing or not finite."""
    points = [(e["step"], e[name]) for e in entries if isinstance(e.get(name), (int, float)) and math.isfinite(e[name])]
    return [p[0] for p in points], [p[1] for p in points]


def smoothed(line: tuple[list[float], list[float]], points: int = 150) -> tuple[list[float], list[float]]:
    """Average neighbouring points so that about `points` are left."""
    x, y = line
    width = max(1, len(x) // points)
    groups = range(0, len(x), width)
    return ([sum(x[i : i + width]) / len(x[i : i + width]) for i in groups],
            [sum(y[i : i + width]) / len(y[i : i + width]) for i in groups])


def _pyplot() -> Any:
    import matplotlib  # slow to load, and only a report needs it

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "bertlite"
    import matplotlib.pyplot as plt

    return plt


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    _pyplot().close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
