"""Calibration: worked examples, and a temperature that undoes what was done to the logits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from bertlite.tasks.calibration import best_threshold, best_thresholds, calibration_error, fit_temperature, reliability


def test_the_error_is_the_gap_of_confidence_and_accuracy():
    probabilities = np.array([[0.9, 0.1]] * 4 + [[0.4, 0.6]] * 4)
    labels = np.array([0, 0, 0, 1, 1, 1, 0, 0])
    bins = reliability(probabilities, labels)
    assert [(b["size"], round(b["confidence"], 6), b["accuracy"]) for b in bins] == [(4, 0.6, 0.5), (4, 0.9, 0.75)]
    assert calibration_error(probabilities, labels) == pytest.approx(0.5 * 0.1 + 0.5 * 0.15)


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_a_temperature_undoes_a_factor_on_the_logits(factor):
    draws = np.random.default_rng(0)
    logits = draws.normal(size=(20_000, 4)) * 1.5
    labels = (log_softmax(logits, axis=1) + draws.gumbel(size=logits.shape)).argmax(1)  # drawn with these very probabilities
    assert fit_temperature(logits * factor, labels) == pytest.approx(factor, rel=0.05)


def test_few_texts_of_many_classes_are_calibrated_too():
    draws = np.random.default_rng(0)
    logits = draws.normal(size=(400, 77)) * 3
    labels = (log_softmax(logits, axis=1) + draws.gumbel(size=logits.shape)).argmax(1)
    assert fit_temperature(logits, labels) == pytest.approx(1, rel=0.15)


def test_a_few_texts_that_are_all_right_do_not_make_it_certain():
    temperature = fit_temperature(np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]]), np.array([0, 1, 0]))
    assert 0.5 < temperature < 3


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=30))
def test_a_threshold_gives_the_largest_f1(rows):
    scores, truth = np.array([score / 8 for score, _ in rows]), np.array([is_true for _, is_true in rows])

    def f1(threshold):
        chosen = scores > threshold
        return 2 * (chosen & truth).sum() / max(1, chosen.sum() + truth.sum())

    every = [-1.0, *np.unique(scores)]
    assert f1(best_threshold(scores, truth)) == pytest.approx(max(map(f1, every)))


def test_a_rare_label_takes_the_common_threshold():
    draws = np.random.default_rng(0)
    scores = draws.random((100, 2))
    truth = np.stack([scores[:, 0] > 0.7, np.arange(100) == 3], 1)
    frequent, rare = best_thresholds(scores, truth)
    assert frequent == pytest.approx(0.7, abs=0.03) and rare == best_threshold(scores.ravel(), truth.ravel())
