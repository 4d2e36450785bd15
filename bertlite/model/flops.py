"""How many operations a step takes: the matrix products that are executed, nothing else.

A multiplication and an addition are two operations; the backward pass takes twice the forward pass.
"""

from __future__ import annotations

from bertlite.inputs.batch import Batch
from bertlite.model.config import ModelConfig


def forward_flops(config: ModelConfig, batch: Batch) -> int:
    """Return the operations of one forward pass of encoder, pooler and masked-LM head."""
    rows, length = batch.shape
    width, tokens = config.hidden_size, rows * length
    layer = tokens * 2 * width * (4 * width + 2 * config.intermediate_size) + 4 * rows * length**2 * width
    head = len(batch.labelled_positions) * 2 * width * (width + config.vocab_size)
    return config.num_layers * layer + head + batch.num_sequences * 2 * width * width


def training_flops(config: ModelConfig, batch: Batch) -> int:
    """Return the operations of forward and backward pass."""
    return 3 * forward_flops(config, batch)
