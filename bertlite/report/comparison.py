"""Several runs on one page: their held-out curves over one another, their last figures, and what differs."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from bertlite.config import flatten
from bertlite.errors import InputError
from bertlite.files import atomic_path, read_json
from bertlite.report.charts import curve, line_chart
from bertlite.report.page import page
from bertlite.report.tables import section, table
from bertlite.training.log import MetricsLog

OTHER_FIGURES = ("loss", "accuracy", "f1", "exact_match", "spearman", "mse")  # of fine-tuned models


def write_comparison(runs: Sequence[Path], path: Path) -> Path:
    """Write one page of several runs.  Raises InputError for a folder that is not a run."""
    for run in runs:
        if not (run / "run.json").exists():
            raise InputError("not a run directory (no run.json)", where=run)
    names = _short_names(runs)
    logs = {name: MetricsLog(run / "metrics.jsonl").read("validation") for name, run in zip(names, runs, strict=True)}
    figures = sorted({key for log in logs.values() for entry in log for key in entry
                      if key.endswith(("_loss", "_accuracy", "_f1")) or key in OTHER_FIGURES})
    charts = []
    for figure in figures:
        lines = {name: curve(log, figure) for name, log in logs.items()}
        charts.append(line_chart(figure.replace("_", " "), "held out", {k: v for k, v in lines.items() if v[0]}, dots=True))
    settings = {name: flatten({k: read_json(run / "run.json").get(k, {}) for k in ("settings", "resolved", "hardware")})
                for name, run in zip(names, runs, strict=True)}
    keys = sorted({key for values in settings.values() for key in values})
    different = [key for key in keys if len({str(values.get(key)) for values in settings.values()}) > 1]
    grid = "".join(f"<div>{chart}</div>" for chart in charts)
    body = "<h1>Runs compared</h1>" + section("Held-out figures", f"<div class=charts>{grid}</div>")
    rows = [[figure, *(log[-1].get(figure, "") if log else "" for log in logs.values())] for figure in figures]
    body += section("Last validation", table(["figure", *names], rows))
    rows = [[key, *(settings[name].get(key, "") for name in names)] for key in different]
    body += section("What differs", table(["setting", *names], rows))
    with atomic_path(path) as partial:
        partial.write_text(page(html.escape(", ".join(names)), body), encoding="utf-8")
    return path


def _short_names(runs: Sequence[Path]) -> list[str]:
    last = [run.resolve().name for run in runs]
    return last if len(set(last)) == len(last) else [str(run) for run in runs]
