"""Losses of the tasks: worked by hand, the same packed or alone, and nothing where there is nothing."""

import math

import numpy as np
import pytest
import torch

from bertlite.inputs.batch import BatchItem, by_sequence, make_batch
from bertlite.model.config import ModelConfig
from bertlite.objectives.sequence_labels import SequenceClassifier, binary_cross_entropy, cross_entropy, squared_error
from bertlite.objectives.spans import END, NEITHER, START, SpanExtractor
from bertlite.objectives.token_labels import CrfTagger, Tagger

CONFIG = ModelConfig(vocab_size=30, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=16, max_positions=16, init_std=0.3)
MAKERS = {
    "cross-entropy": (lambda: SequenceClassifier(CONFIG, 3, cross_entropy((1.0, 2.0, 0.5), smoothing=0.1)), 1),
    "binary": (lambda: SequenceClassifier(CONFIG, 3, binary_cross_entropy((1.0, 2.0, 0.5))), np.array([0.0, 1.0, 1.0], dtype=np.float32)),
    "number": (lambda: SequenceClassifier(CONFIG, 1, squared_error()), 2.5), "softmax": (lambda: Tagger(CONFIG, 3), -100),
    "crf": (lambda: CrfTagger(CONFIG, 3), -100), "span": (lambda: SpanExtractor(CONFIG), -100),
}


def item(length, label, seed):
    draws = np.random.default_rng(seed)
    positions = np.sort(draws.permutation(length)[: length // 2 + 1])
    labels = draws.integers(0, 3, len(positions))
    labels[0], labels[-1] = START, END  # for spans; 1 and 2 are labels of words as well
    labels[1:-1] = NEITHER
    return BatchItem(draws.integers(5, 30, length), np.zeros(length, dtype=np.int64), positions, labels, label)


@pytest.fixture(params=list(MAKERS))
def case(request):
    make, label = MAKERS[request.param]
    model = make()
    model.initialise(0)
    return model.eval(), [item(length, label, seed) for seed, length in enumerate((9, 4, 6, 5))]


def loss_of(model, rows, length=10):
    (sums,) = model(make_batch(rows, length=length, pad_id=0)).values()
    return sums


def test_packed_is_alone(case):
    model, items = case
    alone = [loss_of(model, [[i]], len(i)) for i in items]
    packed = loss_of(model, [[items[0]], [items[1], items[2]], [items[3]]])
    for part, total in zip(zip(*alone, strict=True), packed, strict=True):
        torch.testing.assert_close(sum(part).float(), total.float(), rtol=0, atol=1e-5)


def test_nothing_weighs_nothing(case):
    model, _ = case
    sums = loss_of(model, [[]])
    assert [float(part.detach()) for part in sums] == [0, 0, 0]
    sums.loss.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())
    assert sum(model.counts(make_batch([[]], length=4, pad_id=0)).values()) == 0


def test_counts_are_what_the_loss_is_summed_over(case):
    model, items = case
    batch = make_batch([[i] for i in items], length=9, pad_id=0)
    (sums,) = model(batch).values()
    assert list(model.counts(batch).values()) == [int(sums.size)]


def test_losses_worked_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)]])
    assert cross_entropy()(logits, torch.tensor([1])).loss == pytest.approx(math.log(4 / 3))
    assert cross_entropy((1.0, 5.0))(logits, torch.tensor([1])).loss == pytest.approx(5 * math.log(4 / 3))
    assert cross_entropy(smoothing=0.2)(logits, torch.tensor([1])).loss == pytest.approx(0.9 * math.log(4 / 3) + 0.1 * math.log(4))
    both = binary_cross_entropy()(logits, torch.tensor([[0.0, 1.0]]))
    assert both.loss == pytest.approx((math.log(2) + math.log(4 / 3)) / 2) and both.correct == 1
    assert squared_error()(torch.tensor([[1.0], [4.0]]), torch.tensor([2.0, 2.0])).loss == 5


def test_values_are_laid_out_by_sequence():
    rows = [[BatchItem(np.arange(3), np.zeros(3, dtype=np.int64), np.array([0, 2]), np.array([1, 2])),
             BatchItem(np.arange(2), np.zeros(2, dtype=np.int64), np.array([1]), np.array([7]))],
            [BatchItem(np.arange(4), np.zeros(4, dtype=np.int64), np.array([0, 1, 3]), np.array([4, 5, 6]))]]
    batch = make_batch(rows, length=5, pad_id=0)
    laid_out, mask = by_sequence(batch.token_labels, batch.labelled_positions, batch, fill=-1)
    assert laid_out.tolist() == [[1, 2, -1], [7, -1, -1], [4, 5, 6]] and mask.sum(1).tolist() == [2, 1, 3]
