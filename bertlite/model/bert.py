"""An encoder with its pooler, for use with plain tensors: what `bertlite.load_model` returns.

Shapes: B rows, T tokens, D hidden size.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from bertlite.inputs.batch import Batch
from bertlite.model.config import ModelConfig
from bertlite.model.encoder import Encoder, first_states
from bertlite.model.heads import Pooler


class BertOutput(NamedTuple):
    """Hidden states of every token, (B, T, D), and the pooled [CLS], (B, D), or None where the weights have no pooler."""

    sequence_output: Tensor
    pooled_output: Tensor | None


class Bert(nn.Module):
    """Encoder and pooler."""

    def __init__(self, config: ModelConfig, *, has_pooler: bool = True):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.pooler = Pooler(config) if has_pooler else None

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, segment_ids: Tensor | None = None) -> BertOutput:
        """Encode ids (B, T).

        `attention_mask`, (B, T), is 1 or True where a token may be attended; without it everywhere. `segment_ids`,
        (B, T), are 0 when not given.
        """
        batch = batch_of_tensors(input_ids, attention_mask, segment_ids)
        hidden = self.encoder(batch)
        return BertOutput(hidden, None if self.pooler is None else self.pooler(first_states(hidden, batch)))


def batch_of_tensors(input_ids: Tensor, attention_mask: Tensor | None, segment_ids: Tensor | None) -> Batch:
    """Return the Batch of one sequence a row, beginning at its first token."""
    rows, length = input_ids.shape
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
    empty = input_ids.new_zeros(0)
    return Batch(
        input_ids=input_ids,
        segment_ids=torch.zeros_like(input_ids) if segment_ids is None else segment_ids,
        position_ids=torch.arange(length, device=input_ids.device).expand(rows, length),
        sequence_ids=mask,
        first_positions=torch.arange(rows, device=input_ids.device) * length,
        labelled_positions=empty,
        token_labels=empty,
        sequence_labels=input_ids.new_full((rows,), -100),
        is_full=attention_mask is None or bool((mask == 1).all()),
        num_tokens=int(mask.sum()),
        num_labelled=0,
    )
