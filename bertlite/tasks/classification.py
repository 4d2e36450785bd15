"""Classification of texts and pairs: features, head, loss and figures joined.

Source: Devlin et al. 2019, sec. 4.1: a linear layer on the pooled [CLS] state, cross-entropy.
Shapes: B rows, T tokens, N texts, C labels, D hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertlite.inputs.batch import Batch, BatchItem
from bertlite.model.config import ModelConfig
from bertlite.model.encoder import Encoder, first_states
from bertlite.model.heads import ClassificationHead, Pooler
from bertlite.model.init import initialise
from bertlite.objectives.sums import Sums, cross_entropy_sums
from bertlite.tasks.classification_metrics import classification_metrics, confusion, per_class
from bertlite.tasks.texts import length_batches

HEAD_STD = 0.02  # Devlin et al. 2019, released code: of every new classifier, whatever the encoder's deviation


class Classifier(nn.Module):
    """Encoder, pooler and a linear layer."""

    losses = ("classification",)

    def __init__(self, config: ModelConfig, num_labels: int):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.pooler = Pooler(config)
        self.classifier = ClassificationHead(config, num_labels)

    def initialise(self, seed: int) -> None:
        """Draw new weights; the encoder's are usually replaced afterwards."""
        initialise(self.encoder, std=self.config.init_std, seed=seed)
        initialise(self.pooler, std=self.config.init_std, seed=seed, part=1)
        initialise(self.classifier, std=HEAD_STD, seed=seed, part=2)

    def logits(self, batch: Batch) -> Tensor:
        """Return (N, C)."""
        return self.classifier(self.pooler(first_states(self.encoder(batch), batch)))

    def counts(self, batch: Batch) -> dict[str, int]:
        """Return the number of texts."""
        return {"classification": batch.num_sequences}

    def forward(self, batch: Batch) -> dict[str, Sums]:
        """Return the loss's sums."""
        (sums,) = cross_entropy_sums(self.logits(batch), batch.sequence_labels)
        return {"classification": sums}


@torch.inference_mode()
def classify(model: Classifier, items: Sequence[BatchItem], *, device: torch.device, pad_id: int, batch_size: int = 32,
             ) -> np.ndarray:
    """Return the label probabilities of each item, (n, C) float32, in their order."""
    was_training = model.training
    model.eval()
    num_labels = model.classifier.output.out_features
    probabilities = np.empty((len(items), num_labels), dtype=np.float32)
    for numbers, batch in length_batches(items, batch_size=batch_size, pad_id=pad_id):
        logits = model.logits(batch.to(device))
        probabilities[numbers] = logits.float().softmax(-1).cpu().numpy()
    model.train(was_training)
    return probabilities


def score(probabilities: np.ndarray, label_ids: np.ndarray) -> dict[str, float]:
    """Return loss, accuracy, macro and weighted F1 and Matthews' correlation of (n, C) against ids (n,)."""
    chosen = np.maximum(probabilities[np.arange(len(label_ids)), label_ids], 1e-12)
    figures = {"loss": float(-np.log(chosen).mean())}
    return figures | classification_metrics(probabilities.argmax(1), label_ids)


def details(probabilities: np.ndarray, label_ids: np.ndarray, labels: list[str]) -> dict[str, Any]:
    """Return confusion matrix and figures of each label, for reports and results."""
    matrix = confusion(probabilities.argmax(1), label_ids, len(labels))
    return {"labels": labels, "confusion": matrix, "per_class": per_class(matrix, labels)}
