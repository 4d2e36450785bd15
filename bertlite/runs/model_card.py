"""The model card: README.md of a run directory, with the figures that were measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertlite.files import atomic_path, read_json
from bertlite.training.log import MetricsLog


def write_card(run: Path) -> None:
    """Write README.md from run.json, metrics.jsonl and results.json."""
    description = read_json(run / "run.json")
    resolved, hardware = description["resolved"], description["hardware"]
    validation = MetricsLog(run / "metrics.jsonl").read("validation")
    results = read_json(run / "results.json") if (run / "results.json").exists() else {}
    figures: dict[str, Any] = results.get("metrics", dict(validation[-1]) if validation else {})
    rows = [f"| {name} | {value:.4g} |{_over_trials(results, name)}" for name, value in figures.items()
            if isinstance(value, (int, float)) and name not in ("step", "selection")]
    head = ["| figure | this model | mean (sd) of all trainings |", "|---|---|---|"] if "mean" in results else [
        "| figure | value |", "|---|---|"]
    files = [f"- {part}: `{Path(s['path']).name}` ({s.get('bytes', 0):,} bytes, sha256 `{s.get('sha256', '')[:16]}`)"
             for part, sources in description.get("data", {}).items() for s in sources[:20]]
    labels = f" ({len(resolved['labels'])} labels)" if resolved.get("labels") else ""
    kind = f"a BERT fine-tuned for {resolved['task']}{labels}" if "task" in resolved else "a pretrained BERT"
    text = "\n".join([
        "---", "library_name: transformers", "tags:", "- bert", "---", f"# {run.resolve().name}", "",
        f"This is {kind}, made with bertlite {description['versions']['bertlite']}; transformers and sentence-transformers "
        "open it as it is.", "",
        "## Measured on held-out data", "", *head, *rows, "",
        "## Training", "",
        *[f"- {name.replace('_', ' ')}: {value}" for name, value in resolved.items() if name != "labels"],
        f"- hardware: {hardware['device']} ({hardware['name']}), {hardware['precision']}", "",
        "## Data", "", *(files or ["- rows given in Python"]), "",
    ])
    with atomic_path(run / "README.md") as partial:
        partial.write_text(text, encoding="utf-8")


def _over_trials(results: dict[str, Any], name: str) -> str:
    return f" {results['mean'][name]:.4g} ({results['sd'][name]:.2g}) |" if name in results.get("mean", {}) else ""
