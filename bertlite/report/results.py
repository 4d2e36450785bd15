"""What a fine-tuned model gets right and wrong, as sections of its page: classes, confusion, errors, calibration, lengths."""

from __future__ import annotations

from typing import Any

from bertlite.report.charts import bar_chart, confusion_chart, reliability_chart, scatter_chart
from bertlite.report.tables import section, table


def result_sections(results: dict[str, Any]) -> list[str]:
    """Return the sections of a results.json; those it has nothing for are left out."""
    makers = (_trials, _figures, _classes, _confusion, _scatter, _calibration, _lengths, _worst)
    return [part for maker in makers if (part := maker(results))]


def _trials(results: dict[str, Any]) -> str:
    if "trials" not in results:
        return ""
    names = list(results["mean"])
    rows: list[list[Any]] = [[trial["name"], *(trial["metrics"][name] for name in names)] for trial in results["trials"]]
    rows.append(["mean (sd)", *(f"{results['mean'][name]:.4f} ({results['sd'][name]:.4f})" for name in names)])
    return section("Trainings", table(["", *names], rows))


def _figures(results: dict[str, Any]) -> str:
    rows = [[name.replace("_", " "), value] for name, value in results.get("metrics", {}).items()]
    silent = results.get("always_no_answer", {})
    rows += [[f"always no answer: {name.replace('_', ' ')}", value] for name, value in silent.items()]
    return section("Validation, with the model that was kept", table(["figure", "value"], rows)) if rows else ""


def _classes(results: dict[str, Any]) -> str:
    rows = results.get("per_class")
    if not rows:
        return ""
    names = list(next(iter(rows.values())))
    return section("Each class", table(["class", *names], [[name, *row.values()] for name, row in rows.items()]))


def _confusion(results: dict[str, Any]) -> str:
    if "confusion" not in results:
        return ""
    chart = confusion_chart(results["labels"], results["confusion"])
    return section("Confusion (rows: true, columns: predicted)", f"<div class=wide>{chart}</div>")


def _scatter(results: dict[str, Any]) -> str:
    if "scatter" not in results:
        return ""
    chart = scatter_chart(results["scatter"]["true"], results["scatter"]["predicted"])
    return section("Predicted and true numbers", f"<div class=wide>{chart}</div>")


def _calibration(results: dict[str, Any]) -> str:
    if "reliability" not in results:
        return ""
    chart = reliability_chart(results["reliability"])
    words = (f"<p class=quiet>Calibration error {results['metrics']['calibration_error']:.3f}, and "
             f"{results['calibration_error_before']:.3f} before the temperature, {results['temperature']:.3f}, which was fitted "
             "to these same rows.</p>")
    return section("Calibration", f"{words}<div class=wide>{chart}</div>")


def _lengths(results: dict[str, Any]) -> str:
    lengths = results.get("lengths")
    if not lengths or not lengths["lengths"]:
        return ""
    longest = lengths["max_length"]
    beyond = sum(n for length, n in zip(lengths["lengths"], lengths["texts"], strict=True) if length > longest)
    words = f"<p class=quiet>{beyond:,} of {sum(lengths['texts']):,} texts are longer than {longest} tokens.</p>"
    chart = bar_chart("tokens a text", lengths["lengths"], lengths["texts"], mark=longest)
    return section("Lengths", f"{words}<div class=wide>{chart}</div>")


def _worst(results: dict[str, Any]) -> str:
    rows = results.get("worst")
    if not rows:
        return ""
    names = list(rows[0])
    return section("Worst errors", table(names, [[row.get(name, "") for name in names] for row in rows]))
