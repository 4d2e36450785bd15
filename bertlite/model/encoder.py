"""The encoder: a batch of ids in, a vector for each token out.

Source: Devlin et al. 2019, sec. 3; layer normalisation after each residual sum, as in Vaswani et al. 2017.
Shapes: B rows, T tokens, D hidden size, F feed-forward.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from bertlite.inputs.batch import Batch
from bertlite.model.attention import SelfAttention, attention_mask
from bertlite.model.config import Activation, ModelConfig
from bertlite.model.embeddings import Embeddings


class Activate(nn.Module):
    """GELU by the error function, GELU by tanh (Hendrycks and Gimpel 2016, sec. 2), or ReLU."""

    def __init__(self, activation: Activation):
        super().__init__()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of x, any shape."""
        if self.activation == "relu":
            return F.relu(x)
        return F.gelu(x, approximate="tanh" if self.activation == "gelu_tanh" else "none")


class Layer(nn.Module):
    """Self-attention, then a feed-forward network, each with a residual sum and a LayerNorm after it."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.expand = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activate = Activate(config.activation)
        self.contract = nn.Linear(config.intermediate_size, config.hidden_size)
        self.output_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return (B, T, D); `mask` as in SelfAttention."""
        x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
        inner = self.activate(self.expand(x))  # (B, T, F)
        return self.output_norm(x + self.dropout(self.contract(inner)))


class Encoder(nn.Module):
    """Embeddings and layers."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))

    def forward(self, batch: Batch) -> Tensor:
        """Return the last layer's hidden states, (B, T, D)."""
        x, mask = self._begin(batch)
        for layer in self.layers:
            x = layer(x, mask)
        return x

    def all_layers(self, batch: Batch) -> list[Tensor]:
        """Return the embeddings' and then each layer's hidden states, (B, T, D) each."""
        x, mask = self._begin(batch)
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1], mask))
        return states

    def _begin(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        # Without a mask every device takes its fast kernel.
        mask = None if batch.is_full else attention_mask(batch.sequence_ids)
        return self.embeddings(batch.input_ids, batch.segment_ids, batch.position_ids), mask


def first_states(hidden: Tensor, batch: Batch) -> Tensor:
    """Return the hidden states (N, D) of each sequence's [CLS] from (B, T, D)."""
    return hidden.flatten(0, 1)[batch.first_positions]
