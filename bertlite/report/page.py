"""One HTML page a run: curves, confusion, settings, data and environment; opens from disk without network."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bertlite.config import flatten
from bertlite.errors import InputError
from bertlite.files import atomic_path, read_json
from bertlite.report.charts import curve, line_chart, smoothed
from bertlite.report.results import result_sections
from bertlite.report.tables import section, table
from bertlite.training.log import MetricsLog

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1e293b; margin: 2rem auto; max-width: 1120px; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #e2e8f0 }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 1rem }
.charts svg { width: 100%; height: auto } .wide svg { max-width: 100%; height: auto }
table { border-collapse: collapse; font-size: .9rem }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top }
th { color: #64748b; font-weight: 600 } td.n { text-align: right; font-variant-numeric: tabular-nums }
tr + tr td { border-top: 1px solid #f1f5f9 } .quiet { color: #64748b } code { background: #f1f5f9; padding: 0 .25rem }
details { margin: .5rem 0 } summary { cursor: pointer; color: #475569 }
"""


def write_report(run: str | Path, extra: Iterable[str] = ()) -> Path:
    """Write `report.html` into a run directory and return its path; `extra` are further sections of HTML.

    Raises InputError when `run` is not a run directory.
    """
    run = Path(run)
    if not (run / "run.json").exists():
        raise InputError("not a run directory (no run.json)", where=run)
    description = read_json(run / "run.json")
    results = read_json(run / "results.json") if (run / "results.json").exists() else {}
    # Of several trainings, the curves are those of the one whose model this is.
    log = MetricsLog(run / results.get("best", "") / "metrics.jsonl")
    train, validation = log.read("train"), log.read("validation")
    sections = [*_charts(train, validation), *result_sections(results), *extra, *_last_figures(validation)]
    sections += _details(description)
    title = html.escape(run.resolve().name)
    body = f"<h1>{title}</h1><p class=quiet>{_subtitle(description)}</p>" + "".join(sections)
    path = run / "report.html"
    with atomic_path(path) as partial:
        partial.write_text(page(title, body), encoding="utf-8")
    return path


def page(title: str, body: str) -> str:
    """Return a whole page; `title` and `body` are HTML."""
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>{title} - bertlite</title><style>{STYLE}</style><body>{body}</body></html>\n")


def _subtitle(description: dict[str, Any]) -> str:
    resolved, hardware = description.get("resolved", {}), description.get("hardware", {})
    parts = [resolved.get("preset") or resolved.get("task"), f"{resolved.get('parameters', 0) / 1e6:.1f} M parameters",
             f"{resolved.get('num_steps', 0):,} steps", f"{hardware.get('device')} ({hardware.get('name')})",
             hardware.get("precision")]
    return html.escape(" · ".join(str(part) for part in parts if part))


def _charts(train: list[dict[str, Any]], validation: list[dict[str, Any]]) -> list[str]:
    names = sorted({key for entry in train for key in entry if key.endswith("_loss")})
    charts, last = [], validation[-1] if validation else {}
    for name in names:
        # A fine-tuned model's validation calls its one loss "loss", and its accuracy "accuracy".
        short = name if name in last else "loss"
        lines = {"training": smoothed(curve(train, name)), "held out": curve(validation, short)}
        levels = {}
        if name == "masked_lm_on_mask_loss" and validation:
            levels = {"unigram floor": validation[-1]["unigram_floor"]}
        charts.append(line_chart(_words(name), "nats", {k: v for k, v in lines.items() if v[0]}, levels=levels))
        accuracy = name.replace("_loss", "_accuracy")
        held_out = curve(validation, accuracy if name in last else "accuracy")
        lines = {"training": smoothed(curve(train, accuracy)), "held out": held_out}
        if any(lines["training"][1]):  # of numbers, none is exactly right
            charts.append(line_chart(_words(accuracy), "share", {k: v for k, v in lines.items() if v[0]}))
    for name, unit in (("learning_rate", "rate"), ("gradient_norm", "norm"), ("tokens_per_second", "tokens/s")):
        line = smoothed(curve(train, name))
        if line[0]:
            charts.append(line_chart(_words(name), unit, {name: line}))
    return [section("Curves", f"<div class=charts>{''.join(f'<div>{c}</div>' for c in charts)}</div>")] if charts else []


def _last_figures(validation: list[dict[str, Any]]) -> list[str]:
    if not validation:
        return []
    last = {k: v for k, v in validation[-1].items() if k not in ("kind", "selection")}
    return [section("Last validation", table(["figure", "value"], [[_words(k), v] for k, v in last.items()]))]


def _details(description: dict[str, Any]) -> list[str]:
    parts = []
    for name in ("resolved", "settings", "hardware", "versions", "data"):
        values = description.get(name)
        if not values:
            continue
        if name == "data":
            rows: list[Sequence[Any]] = [[part, Path(s["path"]).name, s.get("bytes", ""), s.get("sha256", "")[:16]]
                                         for part, sources in values.items() for s in sources]
            content = table(["part", "file", "bytes", "sha256"], rows)
        else:
            content = table(["name", "value"], [[k, v] for k, v in flatten(values).items() if v not in (None, [])])
        parts.append(f"<details{' open' if name == 'resolved' else ''}><summary>{name}</summary>{content}</details>")
    return [section("Settings, data and environment", "".join(parts))]


def _words(name: str) -> str:
    return name.replace("masked_lm_on_mask", "masked LM on [MASK]").replace("masked_lm", "masked LM").replace("_", " ")
