"""One answer a sequence: encoder, pooler and a linear layer, under three losses.

Source: Devlin et al. 2019, sec. 4.1: a linear layer on the pooled [CLS] state. Cross-entropy over classes (label smoothing:
Szegedy et al. 2016, sec. 7), a sigmoid a class where several may hold, squared error where the answer is a number.
Shapes: N sequences, C classes, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertlite.inputs.batch import Batch
from bertlite.model.config import ModelConfig
from bertlite.model.encoder import Encoder, first_states
from bertlite.model.heads import HEAD_STD, ClassificationHead, Pooler
from bertlite.model.init import initialise
from bertlite.objectives.sums import Sums

Objective = Callable[[Tensor, Tensor], Sums]


class SequenceClassifier(nn.Module):
    """Encoder, pooler and a linear layer."""

    losses: tuple[str, ...] = ("classification",)
    reads_tokens = False
    rates: Mapping[str, float] = {}
    """By the beginning of a parameter's name: how many times the learning rate it takes."""

    def __init__(self, config: ModelConfig, num_outputs: int, objective: Objective, *, bias: Sequence[float] | None = None):
        """Take sizes and loss; `bias` (C,) is where the outputs begin, 0 when not given."""
        super().__init__()
        self.config, self.objective, self.bias = config, objective, bias
        self.encoder = Encoder(config)
        self.pooler = Pooler(config)
        self.classifier = ClassificationHead(config, num_outputs)

    def initialise(self, seed: int) -> None:
        """Draw new weights; the encoder's are usually replaced afterwards."""
        initialise(self.encoder, std=self.config.init_std, seed=seed)
        initialise(self.pooler, std=self.config.init_std, seed=seed, part=1)
        initialise(self.classifier, std=HEAD_STD, seed=seed, part=2)
        if self.bias is not None:
            with torch.no_grad():
                self.classifier.output.bias.copy_(torch.tensor(self.bias))

    def logits(self, batch: Batch) -> Tensor:
        """Return (N, C)."""
        return self.classifier(self.pooler(first_states(self.encoder(batch), batch)))

    def counts(self, batch: Batch) -> dict[str, int]:
        """Return the number of sequences."""
        return {self.losses[0]: batch.num_sequences}

    def forward(self, batch: Batch) -> dict[str, Sums]:
        """Return the loss's sums."""
        return {self.losses[0]: self.objective(self.logits(batch), batch.sequence_labels)}


def cross_entropy(weights: Sequence[float] | None = None, *, smoothing: float = 0.0) -> Objective:
    """Return the cross-entropy of logits (N, C) against classes (N,), each class weighed by `weights` (C,)."""

    def objective(logits: Tensor, labels: Tensor) -> Sums:
        weight = None if weights is None else torch.tensor(weights, device=logits.device)
        losses = F.cross_entropy(logits.float(), labels, weight=weight, label_smoothing=smoothing, reduction="none")
        return Sums(losses.sum(), torch.tensor(len(labels)), (logits.argmax(-1) == labels).sum())

    return objective


def binary_cross_entropy(weights: Sequence[float] | None = None, *, smoothing: float = 0.0) -> Objective:
    """Return the mean over classes of the binary cross-entropy of logits (N, C) against 0 and 1 (N, C).

    `weights` (C,) multiply the loss where a class holds; smoothing moves 0 and 1 towards a half.
    """

    def objective(logits: Tensor, labels: Tensor) -> Sums:
        labels = labels.reshape(logits.shape).float()
        soft = labels * (1 - smoothing) + smoothing / 2
        weight = None if weights is None else torch.tensor(weights, device=logits.device)
        losses = F.binary_cross_entropy_with_logits(logits.float(), soft, pos_weight=weight, reduction="none")
        right = ((logits > 0) == (labels > 0.5)).all(-1)
        return Sums(losses.mean(-1).sum(), torch.tensor(len(logits)), right.sum())

    return objective


def squared_error(scale: float = 1.0) -> Objective:
    """Return the squared error, in squared `scale`, of (N, 1) against numbers (N,); nothing counts as exactly right."""

    def objective(logits: Tensor, labels: Tensor) -> Sums:
        errors = ((logits.float().reshape(labels.shape) - labels) / scale) ** 2
        return Sums(errors.sum(), torch.tensor(len(labels)), torch.tensor(0))

    return objective
