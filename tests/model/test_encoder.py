"""The encoder: its laws and its sizes."""

import numpy as np
import pytest
import torch

from bertlite.errors import InputError
from bertlite.inputs.batch import make_batch, plain_sequence
from bertlite.model.config import ModelConfig
from bertlite.model.encoder import Encoder
from bertlite.model.init import initialise
from bertlite.objectives.pretraining import BertForPretraining
from bertlite.training.presets import PRESETS

SMALL = ModelConfig(vocab_size=50, hidden_size=16, num_layers=2, num_heads=2, intermediate_size=32, max_positions=32)


def tiny_encoder(**changes):
    encoder = Encoder(ModelConfig(**{**vars_of(SMALL), **changes}))
    initialise(encoder, std=0.3, seed=0)
    return encoder.eval()


def vars_of(config):
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def sequence(length, seed=0):
    draws = np.random.default_rng(seed)
    return plain_sequence(draws.integers(5, 50, length), (np.arange(length) > length // 2).astype(np.int64))


def test_a_sequence_is_the_same_packed_or_alone():
    encoder, first, second = tiny_encoder(), sequence(5, 1), sequence(3, 2)
    packed = encoder(make_batch([[first, second]], length=10, pad_id=0))
    alone = encoder(make_batch([[second]], length=3, pad_id=0))
    torch.testing.assert_close(packed[0, 5:8], alone[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(packed[0, :5], encoder(make_batch([[first]], length=5, pad_id=0))[0], rtol=0, atol=1e-6)


def test_padding_changes_nothing():
    encoder, first = tiny_encoder(), sequence(5)
    padded = encoder(make_batch([[first], [sequence(9, 3)]], length=12, pad_id=0))
    torch.testing.assert_close(padded[0, :5], encoder(make_batch([[first]], length=5, pad_id=0))[0], rtol=0, atol=1e-6)


def test_a_row_of_padding_alone_is_finite():
    assert tiny_encoder()(make_batch([[]], length=4, pad_id=0)).isfinite().all()


def test_all_layers_end_in_the_last():
    encoder, batch = tiny_encoder(), make_batch([[sequence(6)]], length=6, pad_id=0)
    states = encoder.all_layers(batch)
    assert len(states) == 3
    torch.testing.assert_close(states[-1], encoder(batch), rtol=0, atol=0)


@pytest.mark.parametrize(("preset", "parameters"), [("base", 110_106_428), ("large", 336_226_108)])
def test_parameters_are_the_papers(preset, parameters):
    p = PRESETS[preset]
    with torch.device("meta"):
        model = BertForPretraining(ModelConfig(hidden_size=p.hidden_size, num_layers=p.num_layers, num_heads=p.num_heads,
                                               intermediate_size=4 * p.hidden_size), mask_id=103)
    assert sum(weight.numel() for weight in model.parameters()) == parameters


def test_initial_weights_are_a_truncated_normal_and_a_function_of_the_seed():
    config = ModelConfig(vocab_size=2000, hidden_size=64, num_layers=1, num_heads=2, intermediate_size=128)
    models = [BertForPretraining(config, mask_id=4) for _ in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        model.initialise(seed)
    weight = models[0].encoder.embeddings.token.weight
    assert weight.abs().max() <= 2 * 0.02
    assert 0.016 < weight.std() < 0.019  # a normal of deviation 0.02 cut at two deviations has 0.88 of it
    assert torch.equal(weight, models[1].encoder.embeddings.token.weight)
    assert not torch.equal(weight, models[2].encoder.embeddings.token.weight)
    assert (models[0].encoder.layers[0].output_norm.weight == 1).all()


@pytest.mark.parametrize("changes", [{"num_heads": 3}, {"num_layers": 0}, {"hidden_dropout": 1.0}, {"vocab_size": -1}])
def test_impossible_sizes_are_refused(changes):
    with pytest.raises(InputError):
        ModelConfig(**{**vars_of(SMALL), **changes})
