"""Figures of a classifier, as `evaluate.Metric` classes that need no network."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np


@cache
def _metric_classes() -> tuple[Any, ...]:
    # Both take seconds to load, and only evaluation needs them.
    import datasets
    import evaluate
    from sklearn import metrics as sklearn_metrics

    class IdMetric(evaluate.Metric):
        """A figure of predicted ids against true ids."""

        def _info(self) -> Any:
            features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
            return evaluate.MetricInfo(description=type(self).__name__, citation="", features=features)

    class Accuracy(IdMetric):
        def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
            return {"accuracy": float(sklearn_metrics.accuracy_score(references, predictions))}

    class F1(IdMetric):
        def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
            return {f"{average}_f1": float(sklearn_metrics.f1_score(references, predictions, average=average, zero_division=0))
                    for average in ("macro", "weighted")}

    class Matthews(IdMetric):
        def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
            return {"matthews": float(sklearn_metrics.matthews_corrcoef(references, predictions))}

    return Accuracy, F1, Matthews


def classification_metrics(predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
    """Return accuracy, macro and weighted F1 and Matthews' correlation of ids (n,) against true ids (n,)."""
    import evaluate  # takes seconds to load

    metrics = [cls(keep_in_memory=True) for cls in _metric_classes()]
    computed = evaluate.combine(metrics).compute(predictions=predictions.tolist(), references=references.tolist())
    return {name: float(value) for name, value in computed.items()}


def confusion(predictions: np.ndarray, references: np.ndarray, num_labels: int) -> list[list[int]]:
    """Return counts, a row for each true label and a column for each predicted one."""
    cells = references * num_labels + predictions
    return np.bincount(cells, minlength=num_labels**2).reshape(num_labels, num_labels).tolist()


def per_class(matrix: list[list[int]], labels: list[str]) -> dict[str, dict[str, float]]:
    """Return precision, recall, F1 and number of texts of each label."""
    counts = np.array(matrix)
    right, predicted, true = counts.diagonal(), counts.sum(0), counts.sum(1)
    precision, recall = right / np.maximum(1, predicted), right / np.maximum(1, true)
    f1 = 2 * right / np.maximum(1, predicted + true)
    return {name: {"precision": float(precision[i]), "recall": float(recall[i]), "f1": float(f1[i]), "support": int(true[i])}
            for i, name in enumerate(labels)}
