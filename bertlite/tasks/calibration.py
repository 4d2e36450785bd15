"""How far probabilities can be believed: calibration error, a temperature that mends it, thresholds a label.

Source: Guo et al. 2017, "On calibration of modern neural networks": expected calibration error (sec. 2) and temperature
scaling (sec. 4.2).
Shapes: n texts, C classes.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

NUM_BINS = 15  # Guo et al. 2017, sec. 3
LEAST_POSITIVES = 10  # a label with fewer true texts takes the threshold that serves all labels


class Bin(TypedDict):
    """Texts of one band of confidence: how many, their mean confidence, and the share that was right."""

    size: int
    confidence: float
    accuracy: float


def reliability(probabilities: np.ndarray, label_ids: np.ndarray) -> list[Bin]:
    """Return the bins, those with texts, of predicted probabilities (n, C) against labels (n,)."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == label_ids
    numbers = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    return [Bin(size=int(inside.sum()), confidence=float(confidence[inside].mean()), accuracy=float(right[inside].mean()))
            for inside in (numbers == number for number in range(NUM_BINS)) if inside.any()]


def calibration_error(probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """Return the expected calibration error: the mean gap of confidence and accuracy over equally wide bins."""
    bins = reliability(probabilities, label_ids)
    return sum(b["size"] * abs(b["confidence"] - b["accuracy"]) for b in bins) / max(1, len(label_ids))


def fit_temperature(logits: np.ndarray, label_ids: np.ndarray) -> float:
    """Return the temperature, within 0.05 to 20, under which logits (n, C) give the labels (n,) the greatest likelihood.

    A label counts for (n + 1) / (n + 2) and the others share the rest, so that a few texts, all of them right, do not make the
    model sure of everything (Platt 1999, "Probabilistic outputs for support vector machines", sec. 2.2).
    """
    total, num_labels = logits.shape
    rest = 1 / (total + 2)

    def loss(log_temperature: float) -> float:
        scores = log_softmax(logits.astype(np.float64) / np.exp(log_temperature), axis=1)
        own = scores[np.arange(total), label_ids]
        return float(-((1 - rest) * own + rest / (num_labels - 1) * (scores.sum(1) - own)).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(0.05), np.log(20.0)), method="bounded").x))


def best_threshold(scores: np.ndarray, truth: np.ndarray) -> float:
    """Return the threshold above which calling scores (n,) positive gives the largest F1 against truth (n,) bool.

    It lies halfway between two neighbouring scores, or just below the lowest; 0.5 where nothing is true.
    """
    if not truth.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order], np.cumsum(truth[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + truth.sum())
    f1[:-1][ordered[:-1] == ordered[1:]] = -1.0  # a threshold cannot part equal scores
    last = int(f1.argmax())
    if last + 1 == len(ordered):
        return float(np.nextafter(ordered[last], -1.0))
    return float((ordered[last] + ordered[last + 1]) / 2)


def best_thresholds(scores: np.ndarray, truth: np.ndarray) -> list[float]:
    """Return a threshold for each class of scores (n, C) against truth (n, C) bool.

    A class with few true texts takes the one that gives the largest F1 over all decisions.
    """
    common = best_threshold(scores.ravel(), truth.ravel())
    return [best_threshold(scores[:, c], truth[:, c]) if truth[:, c].sum() >= LEAST_POSITIVES else common
            for c in range(scores.shape[1])]
