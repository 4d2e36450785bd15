"""`bertlite fill-mask`: a text with [MASK] in, the likeliest tokens out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertlite.runs.settings import build
from bertlite.tasks.fill_mask import FillMask


@dataclass(frozen=True, kw_only=True)
class FillMaskRun:
    """Fill in the [MASK] of a text."""

    text: Annotated[str, tyro.conf.Positional]
    """A text with one [MASK] or more."""
    model: Path
    """Folder of a pretrained model."""
    top_k: int = 5
    """How many tokens for each [MASK]."""


def fill_mask(**settings: Any) -> list[list[dict[str, Any]]]:
    """Return for each [MASK] its likeliest tokens; keywords are the fields of FillMaskRun.

    Raises InputError for a text without [MASK] or a model without a masked-LM head.
    """
    run = build(FillMaskRun, settings)
    return FillMask.from_pretrained(run.model)(run.text, run.top_k)
