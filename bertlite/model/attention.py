"""Multi-head self-attention: hidden states in, hidden states out.

Source: Vaswani et al. 2017, sec. 3.2; Devlin et al. 2019, sec. 3.
Shapes: B rows, T tokens, D hidden size, H heads, K = D / H.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertlite.model.config import ModelConfig


class SelfAttention(nn.Module):
    """softmax(Q K^T / sqrt(K)) V for every head, then a projection; one product makes Q, K and V."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.num_heads = config.num_heads
        self.dropout_prob = config.attention_dropout
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return (B, T, D); `mask` is (B, 1, T, T) bool, True where a token may be attended, or None for everywhere."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).unbind(2)  # each (B, T, H, K)
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))  # each (B, H, T, K)
        dropout = self.dropout_prob if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        return self.output(attended.transpose(1, 2).flatten(2))  # (B, T, D)


def attention_mask(sequence_ids: Tensor) -> Tensor:
    """Return (B, 1, T, T) bool: True where query and key have the same sequence id, (B, T)."""
    return torch.eq(sequence_ids[:, None, :, None], sequence_ids[:, None, None, :])
