"""Token, segment and learned position embeddings, summed and normalised.

Source: Devlin et al. 2019, sec. 3 and fig. 2.
Shapes: B rows, T tokens, D hidden size.
"""

from __future__ import annotations

from torch import Tensor, nn

from bertlite.model.config import ModelConfig


class Embeddings(nn.Module):
    """LayerNorm(token + segment + position), then dropout."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.segment = nn.Embedding(config.num_segments, config.hidden_size)
        self.position = nn.Embedding(config.max_positions, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, input_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Return (B, T, D) for ids of (B, T) each."""
        x = self.token(input_ids) + self.position(position_ids) + self.segment(segment_ids)
        return self.dropout(self.norm(x))
