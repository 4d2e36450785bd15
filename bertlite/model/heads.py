"""What stands on the encoder: pooler, masked-LM head, next-sentence head, classifier, span head.

Source: Devlin et al. 2019, sec. 3.1 and 4, and the released code.
Shapes: N sequences, M masked tokens, D hidden size, V vocabulary, C classes (of texts or words).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertlite.model.config import ModelConfig
from bertlite.model.encoder import Activate

# Of every new head, whatever the encoder's deviation. Devlin et al. 2019, released code, has .02, before truncation at two
# deviations, which leaves .0176; with .02 after it short trainings on many classes get further.
HEAD_STD = 0.02 / 0.8796


class Pooler(nn.Module):
    """tanh(W x + b) of the [CLS] state."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, first: Tensor) -> Tensor:
        """Return (N, D) for the [CLS] states (N, D)."""
        return torch.tanh(self.dense(first))


class MaskedLMHead(nn.Module):
    """Scores of the vocabulary, with the token embeddings as the projection; run on chosen positions only."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activate = Activate(config.activation)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, states: Tensor, token_embeddings: Tensor) -> Tensor:
        """Return logits (M, V) for hidden states (M, D) and the embedding table (V, D)."""
        return F.linear(self.norm(self.activate(self.dense(states))), token_embeddings, self.bias)


class NextSentenceHead(nn.Module):
    """Two scores of a pair: 0 is next, 1 is random."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.output = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        """Return logits (N, 2) for pooled states (N, D)."""
        return self.output(pooled)


class ClassificationHead(nn.Module):
    """Dropout and a linear layer, on the pooled state of a sequence or on the state of a word's first piece."""

    def __init__(self, config: ModelConfig, num_classes: int):
        super().__init__()
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.output = nn.Linear(config.hidden_size, num_classes)

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (N, C) for states (N, D)."""
        return self.output(self.dropout(states))


class SpanHead(nn.Module):
    """Two scores a token: an answer begins here, an answer ends here."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.output = nn.Linear(config.hidden_size, 2)

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (M, 2) for states (M, D)."""
        return self.output(states)
