"""Classification where several labels, or none, hold of a text: a sigmoid a label, with a threshold a label.

The outputs begin at the labels' log-odds in the training rows (Lin et al. 2017, "Focal loss", sec. 3.3, begin so too).
Thresholds are chosen on validation examples to give the largest F1 (Lewis et al. 1996, "Training algorithms for linear text
classifiers", choose them so too); before that every threshold is 0.5.
Shapes: n texts, C labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, logit
from torch import nn

from bertlite.corpus.rows import Row
from bertlite.errors import InputError
from bertlite.formats.huggingface import dump_labels, read_labels
from bertlite.model.config import ModelConfig
from bertlite.objectives.sequence_labels import SequenceClassifier, binary_cross_entropy
from bertlite.tasks.calibration import best_thresholds
from bertlite.tasks.entity_metrics import figures
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.labels import Labels
from bertlite.tasks.readers import take_label_list
from bertlite.tasks.task import WORST, Examples, shown
from bertlite.tasks.text_task import LabelledText, TextTask
from bertlite.tasks.texts import TextEncoder

ALWAYS_MORE = 1e-6  # how near probabilities read from a file come to 0 and 1


@dataclass(frozen=True)
class MultiLabel(TextTask):
    """Texts or pairs with any number of labels; the output of a text is its logits (C,)."""

    label_set: Labels
    weights: tuple[float, ...] | None = None
    prior: tuple[float, ...] = ()
    """The log-odds of each label in the training rows."""
    head: HeadSettings = field(default_factory=HeadSettings)
    thresholds: tuple[float, ...] = ()

    name: ClassVar[str] = "multi-label"
    take_label = staticmethod(take_label_list)
    metrics: tuple[str, ...] = ("micro_f1", "macro_f1", "exact_match", "loss")

    @property
    def labels(self) -> list[str]:
        """The labels' names in the order of their ids."""
        return self.label_set.names

    @classmethod
    def learned_from(cls, examples: Examples[LabelledText], texts: TextEncoder, head: HeadSettings) -> Self:
        """Return the task with the labels of training examples; raises InputError unless there are two."""
        head.check(cls.name, "class_weights", "label_smoothing")
        every = [name for item in examples.items for name in item.label]
        labels = Labels.found_in(every, examples.where)
        without = [len(examples) - every.count(name) for name in labels.names]
        balanced = tuple(max(1, n) / max(1, len(examples) - n) for n in without)
        is_balanced = head.class_weights == ("balanced",)
        weights = balanced if is_balanced else head.weights_for(labels.names, [0] * len(labels))
        prior = tuple(math.log((len(examples) - n + 1) / (n + 1)) for n in without)
        return cls(texts, labels, weights, prior, head, (0.5,) * len(labels))

    @classmethod
    def restored(cls, config: Mapping[str, Any], extra: Mapping[str, Any], texts: TextEncoder, num_outputs: int) -> Self:
        """Return the task of a model directory."""
        names = read_labels(config) or [f"LABEL_{i}" for i in range(num_outputs)]
        thresholds = tuple(extra.get("thresholds") or (0.5,) * len(names))
        if len(thresholds) != len(names):
            raise InputError(f"there are {len(thresholds)} thresholds for {len(names)} labels", where="bertlite.json")
        return cls(texts, Labels(names), thresholds=thresholds)

    def make_model(self, config: ModelConfig) -> nn.Module:
        """Return the model, with weights not yet drawn."""
        objective = binary_cross_entropy(self.weights, smoothing=self.head.label_smoothing)
        # From 0, with many labels that are rare, hundreds of steps would go into learning how rare they are.
        return SequenceClassifier(config, len(self.labels), objective, bias=self.prior or None)

    def targets(self, examples: Examples[LabelledText]) -> list[np.ndarray]:
        """Return 0 or 1 for each label, float32 (C,)."""
        return list(self.truth(examples).astype(np.float32))

    def truth(self, examples: Examples[LabelledText]) -> np.ndarray:
        """Return which labels hold, (n, C) bool; raises InputError for a label that is not known."""
        truth = np.zeros((len(examples), len(self.labels)), dtype=bool)
        for row, (item, line) in enumerate(zip(examples.items, examples.lines, strict=True)):
            for name in item.label:
                truth[row, self.label_set.id_of(name, examples.where, line)] = True
        return truth

    def outputs_of(self, rows: Sequence[Row], prefix: str) -> list[np.ndarray]:
        """Return the logits that a row's probabilities tell of."""
        scores = np.array([[float(row[f"{prefix}score_{name}"]) for name in self.labels] for row in rows])
        return list(logit(np.clip(scores, ALWAYS_MORE, 1 - ALWAYS_MORE)))

    def tuned(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> Self:
        """Return the task with thresholds chosen on the examples."""
        return replace(self, thresholds=tuple(best_thresholds(expit(np.array(outputs)), self.truth(examples))))

    def decisions(self, outputs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return probabilities and decisions, (n, C) each."""
        probabilities = expit(np.array(outputs, dtype=np.float64).reshape(-1, len(self.labels)))
        return probabilities, probabilities > np.array(self.thresholds)

    def answers(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> list[dict[str, Any]]:
        """Return the `labels` that hold, likeliest first, and the `scores` of all."""
        return [{"labels": [self.labels[c] for c in np.argsort(-scores, kind="stable") if chosen[c]],
                 "scores": dict(zip(self.labels, scores.tolist(), strict=True))}
                for scores, chosen in zip(*self.decisions(outputs), strict=True)]

    def score(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> dict[str, float]:
        """Return loss, micro precision, recall and F1, macro F1 and exact match, and micro F1 with every threshold at 0.5."""
        truth, (probabilities, chosen) = self.truth(examples), self.decisions(outputs)
        likelihood = np.where(truth, probabilities, 1 - probabilities)
        micro = figures(int((truth & chosen).sum()), int(chosen.sum()), int(truth.sum()))
        at_half = probabilities > 0.5
        half = figures(int((truth & at_half).sum()), int(at_half.sum()), int(truth.sum()))
        return {"loss": float(-np.log(np.maximum(likelihood, 1e-12)).mean()),
                **{f"micro_{name}": value for name, value in micro.items()},
                "macro_f1": float(np.mean([row["f1"] for row in self._per_label(chosen, truth).values()])),
                "exact_match": float((chosen == truth).all(1).mean()), "micro_f1_at_half": half["f1"]}

    def _per_label(self, chosen: np.ndarray, truth: np.ndarray) -> dict[str, dict[str, float]]:
        counts = zip(self.labels, (truth & chosen).sum(0).tolist(), chosen.sum(0).tolist(), truth.sum(0).tolist(), strict=True)
        return {name: figures(right, predicted, true) | {"support": true} for name, right, predicted, true in counts}

    def details(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> dict[str, Any]:
        """Return figures and threshold of each label, and the worst errors."""
        truth, (probabilities, chosen) = self.truth(examples), self.decisions(outputs)
        per_class = self._per_label(chosen, truth)
        for name, threshold in zip(self.labels, self.thresholds, strict=True):
            per_class[name]["threshold"] = threshold
        surprise = np.where(truth, 1 - probabilities, probabilities).max(1)
        wrong = np.flatnonzero((chosen != truth).any(1))
        worst = wrong[np.argsort(-surprise[wrong], kind="stable")][:WORST]
        return {"labels": self.labels, "per_class": per_class, "worst": [
            {"line": examples.lines[i], "text": shown(examples.items[i].text), "label": ", ".join(examples.items[i].label),
             "predicted": ", ".join(name for name, holds in zip(self.labels, chosen[i], strict=True) if holds)}
            for i in worst.tolist()]}

    def strata(self, examples: Examples[LabelledText]) -> np.ndarray:
        """Return for each text its rarest label, so that rare labels are shared out."""
        truth = self.truth(examples)
        support = truth.sum(0)
        return np.array([min(np.flatnonzero(row), key=lambda c: support[c], default=-1) + 1 for row in truth])

    def config_entries(self) -> dict[str, Any]:
        """Return labels and problem type."""
        return {"problem_type": "multi_label_classification", **dump_labels(self.labels)}

    def extra(self) -> dict[str, Any]:
        """Return the thresholds."""
        return {"thresholds": list(self.thresholds)}

    def says(self, examples: Examples[LabelledText]) -> list[str]:
        """Return how many labels there are, and a text has."""
        mean = np.mean([len(item.label) for item in examples.items])
        return [f"{len(self.labels)} labels, {mean:.2f} a text on average"]
