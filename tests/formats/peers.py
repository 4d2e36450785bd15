"""Models with the same weights on both sides, and the same batch said both ways."""

import numpy as np
import torch
import transformers

from bertlite.formats.huggingface import config_json, to_their_names
from bertlite.inputs.batch import BatchItem, make_batch
from bertlite.model.config import ModelConfig
from bertlite.objectives.pretraining import BertForPretraining


def random_config(seed: int, **changes) -> ModelConfig:
    draws = np.random.default_rng(seed)
    heads = int(draws.choice([1, 2, 4]))
    sizes = dict(vocab_size=int(draws.integers(60, 120)), hidden_size=heads * int(draws.choice([8, 16])), num_layers=int(draws.integers(1, 4)),
                 num_heads=heads, intermediate_size=int(draws.choice([16, 40, 64])), max_positions=int(draws.integers(24, 64)),
                 num_segments=int(draws.choice([1, 2, 3])), activation=str(draws.choice(["gelu", "gelu_tanh", "relu"])),
                 hidden_dropout=0.0, attention_dropout=0.0)
    return ModelConfig(**{**sizes, **changes})


def both_models(config: ModelConfig, seed: int = 0):
    ours = BertForPretraining(config, mask_id=4)
    ours.initialise(seed)
    with torch.no_grad():  # biases and LayerNorm weights that a mistake would show in
        generator = torch.Generator().manual_seed(seed)
        for parameter in ours.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    settings = config_json(config, "BertForPreTraining")
    settings.pop("dtype"), settings.pop("torch_dtype")
    theirs = transformers.BertForPreTraining(transformers.BertConfig(**settings))
    missing = theirs.load_state_dict(to_their_names(ours.state_dict()), strict=False)
    assert {key for key in missing.missing_keys if "position_ids" not in key and "token_type_ids" not in key} <= {
        "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert not missing.unexpected_keys
    theirs.tie_weights()
    theirs.cls.predictions.decoder.bias = theirs.cls.predictions.bias
    return ours, theirs


def random_items(config: ModelConfig, num: int, seed: int, *, full: bool = False, longest: int = 20) -> list[BatchItem]:
    draws = np.random.default_rng(seed)
    items = []
    for _ in range(num):
        length = longest if full else int(draws.integers(4, longest + 1))
        ids = draws.integers(5, config.vocab_size, length)
        middle = int(draws.integers(1, length))
        segments = (np.arange(length) >= middle).astype(np.int64) % config.num_segments
        chosen = np.sort(draws.choice(length, max(1, length // 6), replace=False))
        labels = ids[chosen].copy()
        ids[chosen[: len(chosen) // 2 + 1]] = 4
        items.append(BatchItem(ids, segments, chosen, labels, int(draws.integers(2))))
    return items


def their_inputs(items: list[BatchItem]) -> dict[str, torch.Tensor]:
    """One sequence a row, padded: how transformers takes it."""
    longest = max(map(len, items))
    shape = (len(items), longest)
    inputs = {name: torch.zeros(shape, dtype=torch.int64) for name in ("input_ids", "token_type_ids", "attention_mask")}
    labels = torch.full(shape, -100)
    for row, item in enumerate(items):
        inputs["input_ids"][row, : len(item)] = torch.from_numpy(item.input_ids)
        inputs["token_type_ids"][row, : len(item)] = torch.from_numpy(item.segment_ids)
        inputs["attention_mask"][row, : len(item)] = 1
        labels[row, torch.from_numpy(item.labelled_positions)] = torch.from_numpy(item.token_labels)
    return inputs | {"labels": labels, "next_sentence_label": torch.tensor([item.label for item in items])}


def our_batch(items: list[BatchItem], rows: list[list[int]], length: int):
    return make_batch([[items[i] for i in row] for row in rows], length=length, pad_id=0, capacity=4 * len(rows))
