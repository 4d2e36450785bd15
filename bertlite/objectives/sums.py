"""What a model says of a batch: for each loss its sum, how many it sums over, and how many were right."""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from bertlite.inputs.batch import IGNORED


class Sums(NamedTuple):
    """Sums over a batch; divided by the global count they are the mean loss and the accuracy."""

    loss: Tensor  # () float32
    size: Tensor  # () int64, what the loss sums over
    correct: Tensor  # () int64


def cross_entropy_sums(logits: Tensor, labels: Tensor, **subsets: Tensor) -> list[Sums]:
    """Return the sums of the cross-entropy of logits (n, classes) against labels (n,), -100 left out.

    The first covers all labels; one more follows for each of `subsets`, (n,) bool.
    """
    losses = F.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="none")
    used = labels != IGNORED
    right = (logits.argmax(-1) == labels) & used
    results = [Sums(losses.sum(), used.sum(), right.sum())]
    for subset in subsets.values():
        results.append(Sums((losses.detach() * subset).sum(), (used & subset).sum(), (right & subset).sum()))
    return results
