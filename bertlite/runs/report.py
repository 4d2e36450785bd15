"""`bertlite report`: the page of one run, made anew; or several runs laid over one another, with what differs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertlite.errors import InputError
from bertlite.report.comparison import write_comparison
from bertlite.report.page import write_report
from bertlite.runs.settings import build
from bertlite.runs.tables import check_output


@dataclass(frozen=True, kw_only=True)
class ReportRun:
    """Write the page of a run, or one page of several."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run directories."""
    output: Path | None = None
    """The page of several runs; comparison.html when not given."""
    overwrite: bool = False
    """Replace an output file that is there."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise InputError("no run is named", remedy="bertlite report RUN [RUN ...]")


def make_report(**settings: Any) -> Path:
    """Write report.html of a run, or a page that compares several, and return its path.

    Raises InputError for a folder that is not a run.
    """
    run = build(ReportRun, settings)
    if len(run.runs) == 1 and run.output is None:
        return write_report(run.runs[0])
    output = run.output or Path("comparison.html")
    check_output(output, (".html",), overwrite=run.overwrite)
    return write_comparison(run.runs, output)
