"""Classification of texts and pairs: one label each.

Source: Devlin et al. 2019, sec. 4.1: a linear layer on the pooled [CLS] state, cross-entropy.
Shapes: n texts, C labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_softmax, softmax
from torch import nn

from bertlite.corpus.rows import Row
from bertlite.formats.huggingface import dump_labels, read_labels
from bertlite.model.config import ModelConfig
from bertlite.objectives.sequence_labels import SequenceClassifier, cross_entropy
from bertlite.tasks.calibration import calibration_error, fit_temperature, reliability
from bertlite.tasks.classification_metrics import classification_metrics, confusion, per_class
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.labels import Labels, is_number
from bertlite.tasks.readers import take_label
from bertlite.tasks.task import WORST, Examples, shown
from bertlite.tasks.text_task import LabelledText, TextTask
from bertlite.tasks.texts import TextEncoder


@dataclass(frozen=True)
class Classification(TextTask):
    """Texts or pairs, one label each; the output of a text is its logits (C,)."""

    label_set: Labels
    weights: tuple[float, ...] | None = None
    head: HeadSettings = field(default_factory=HeadSettings)
    temperature: float = 1.0

    name: ClassVar[str] = "classification"
    take_label = staticmethod(take_label)
    metrics: tuple[str, ...] = ("accuracy", "macro_f1", "weighted_f1", "matthews", "loss")

    @property
    def labels(self) -> list[str]:
        """The labels' names in the order of their ids."""
        return self.label_set.names

    @classmethod
    def learned_from(cls, examples: Examples[LabelledText], texts: TextEncoder, head: HeadSettings) -> Self:
        """Return the task with the labels of training examples; raises InputError unless there are two."""
        head.check(cls.name, "class_weights", "label_smoothing")
        labels = Labels.found_in((item.label for item in examples.items), examples.where)
        counts = Counter(item.label for item in examples.items)
        return cls(texts, labels, head.weights_for(labels.names, [counts[name] for name in labels.names]), head)

    @classmethod
    def restored(cls, config: Mapping[str, Any], extra: Mapping[str, Any], texts: TextEncoder, num_outputs: int) -> Self:
        """Return the task of a model directory."""
        names = read_labels(config) or [f"LABEL_{i}" for i in range(num_outputs)]
        return cls(texts, Labels(names), temperature=float(extra.get("temperature", 1.0)))

    def make_model(self, config: ModelConfig) -> nn.Module:
        """Return the model, with weights not yet drawn."""
        objective = cross_entropy(self.weights, smoothing=self.head.label_smoothing)
        return SequenceClassifier(config, len(self.labels), objective)

    def targets(self, examples: Examples[LabelledText]) -> list[int]:
        """Return the labels' ids."""
        return self.ids(examples).tolist()

    def ids(self, examples: Examples[LabelledText]) -> np.ndarray:
        """Return the labels' ids, (n,); raises InputError for one that is not known."""
        return np.array([self.label_set.id_of(item.label, examples.where, line)
                         for item, line in zip(examples.items, examples.lines, strict=True)])

    def outputs_of(self, rows: Sequence[Row], prefix: str) -> list[np.ndarray]:
        """Return the logits, but for a constant, that a row's probabilities tell of."""
        scores = np.array([[float(row[f"{prefix}score_{name}"]) for name in self.labels] for row in rows])
        return list(np.log(np.maximum(scores, 1e-30)) * self.temperature)

    def probabilities(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Return the labels' probabilities, (n, C)."""
        return softmax(np.array(outputs).reshape(-1, len(self.labels)) / self.temperature, axis=1)

    def tuned(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> Self:
        """Return the task with a temperature fitted to the examples."""
        return replace(self, temperature=fit_temperature(np.array(outputs), self.ids(examples)))

    def answers(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> list[dict[str, Any]]:
        """Return `label`, its probability `score`, and the `scores` of all labels."""
        return [{"label": self.labels[int(row.argmax())], "score": float(row.max()),
                 "scores": dict(zip(self.labels, row.tolist(), strict=True))} for row in self.probabilities(outputs)]

    def score(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> dict[str, float]:
        """Return loss, accuracy, macro and weighted F1, Matthews' correlation and calibration error."""
        ids, rows = self.ids(examples), np.array(outputs, dtype=np.float64)
        losses = -log_softmax(rows / self.temperature, axis=1)[np.arange(len(ids)), ids]
        probabilities = self.probabilities(outputs)
        return {"loss": float(losses.mean())} | classification_metrics(probabilities.argmax(1), ids) | {
            "calibration_error": calibration_error(probabilities, ids)}

    def details(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> dict[str, Any]:
        """Return confusion matrix, figures of each label, calibration curve and the worst errors."""
        ids, probabilities = self.ids(examples), self.probabilities(outputs)
        matrix = confusion(probabilities.argmax(1), ids, len(self.labels))
        uncalibrated = replace(self, temperature=1.0).probabilities(outputs)
        return {"labels": self.labels, "confusion": matrix, "per_class": per_class(matrix, self.labels),
                "reliability": reliability(probabilities, ids), "temperature": self.temperature,
                "calibration_error_before": calibration_error(uncalibrated, ids),
                "worst": self._worst(probabilities, ids, examples)}

    def _worst(self, probabilities: np.ndarray, ids: np.ndarray, examples: Examples[LabelledText]) -> list[dict[str, Any]]:
        """Return the errors that the model was surest of."""
        best = probabilities.argmax(1)
        wrong = np.flatnonzero(best != ids)
        chosen = wrong[np.argsort(probabilities[wrong, ids[wrong]], kind="stable")][:WORST]
        return [{"line": examples.lines[i], "text": shown(examples.items[i].text), "label": self.labels[ids[i]],
                 "predicted": self.labels[best[i]], "score": float(probabilities[i, best[i]])} for i in chosen.tolist()]

    def strata(self, examples: Examples[LabelledText]) -> np.ndarray:
        """Return the labels' ids: every label has its share of what is held out."""
        return self.ids(examples)

    def config_entries(self) -> dict[str, Any]:
        """Return labels and problem type."""
        return {"problem_type": "single_label_classification", **dump_labels(self.labels)}

    def extra(self) -> dict[str, Any]:
        """Return the temperature."""
        return {"temperature": self.temperature}

    def says(self, examples: Examples[LabelledText]) -> list[str]:
        """Return the number of labels, and that numbers are taken as names."""
        commonest = np.bincount(self.ids(examples)).max() / len(examples)
        lines = [f"{len(self.labels)} labels; the commonest has {commonest:.1%}"]
        if all(is_number(name) for name in self.labels):
            lines.append("the labels are numbers, taken as names of classes; --task regression predicts numbers as such")
        return lines
