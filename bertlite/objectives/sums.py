"""What a model says of a batch: for each loss its sum, how many it sums over, and how many were right."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bertlite.inputs.batch import IGNORED


class Sums(NamedTuple):
    """Sums over a batch; divided by the global count they are the mean loss and the accuracy."""

    loss: Tensor  # () float32
    count: Tensor  # () int64
    correct: Tensor  # () int64


def cross_entropy_sums(logits: Tensor, labels: Tensor, *, weighed: Tensor | None = None) -> Sums:
    """Return the summed cross-entropy of logits (n, classes) against labels (n,), -100 left out.

    `weighed`, (n,) bool, leaves out further ones.
    """
    if weighed is not None:
        labels = labels.masked_fill(~weighed, IGNORED)
    loss = F.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")
    with torch.no_grad():
        used = labels != IGNORED
        return Sums(loss, used.sum(), ((logits.argmax(-1) == labels) & used).sum())
