"""Rates a layer, frozen and redrawn layers: who moves, and by how much."""

import pytest
import torch

from bertlite.errors import InputError
from bertlite.model.config import ModelConfig
from bertlite.objectives.token_labels import Tagger
from bertlite.training.optimizer import OptimizerSettings, make_optimizer
from bertlite.training.transfer import TransferSettings, prepare, rate_of

CONFIG = ModelConfig(vocab_size=20, hidden_size=8, num_layers=3, num_heads=2, intermediate_size=16, max_positions=8)


def model():
    tagger = Tagger(CONFIG, 3)
    tagger.initialise(0)
    return tagger


def test_each_lower_layer_has_a_smaller_rate():
    settings = TransferSettings(layer_decay=0.5, head_learning_rate=4e-4)
    rates = {name: rate_of(name, 3, settings, 1e-4, {}) for name, _ in model().named_parameters()}
    assert rates["encoder.layers.2.expand.weight"] == 1 and rates["encoder.layers.0.expand.weight"] == 0.25
    assert rates["encoder.embeddings.token.weight"] == 0.125 and rates["classifier.output.weight"] == pytest.approx(4)


def test_groups_keep_their_share_and_matrices_alone_decay():
    optimizer = make_optimizer(model(), OptimizerSettings(), learning_rate=1e-4,
                               rate_of=lambda name: rate_of(name, 3, TransferSettings(layer_decay=0.5), 1e-4, {}))
    assert {group["share"] for group in optimizer.param_groups} == {1.0, 0.5, 0.25, 0.125}
    for group in optimizer.param_groups:
        assert {p.ndim >= 2 for p in group["params"]} == {group["weight_decay"] > 0}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model().parameters()))


def test_frozen_layers_stay_and_redrawn_ones_are_new():
    before, after = model(), model()
    prepare(after, CONFIG, TransferSettings(freeze_layers=1, redraw_layers=1), seed=5)
    moves = {name: p.requires_grad for name, p in after.named_parameters()}
    assert not moves["encoder.embeddings.token.weight"] and not moves["encoder.layers.0.expand.weight"]
    assert moves["encoder.layers.1.expand.weight"] and moves["classifier.output.weight"]
    same = {name: torch.equal(p, dict(after.named_parameters())[name]) for name, p in before.named_parameters()}
    assert same["encoder.layers.1.expand.weight"] and not same["encoder.layers.2.expand.weight"]
    assert sum(p.requires_grad for p in model().parameters()) > sum(moves.values())


@pytest.mark.parametrize("change", [{"layer_decay": 0.0}, {"head_learning_rate": -1.0}, {"freeze_layers": -1}])
def test_what_cannot_be_is_refused(change):
    with pytest.raises(InputError, match="--transfer"):
        TransferSettings(**change)
