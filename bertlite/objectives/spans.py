"""Where an answer begins and ends: encoder and two scores a token, a softmax over the tokens of the passage for each.

Source: Devlin et al. 2019, sec. 4.2; [CLS] stands for "no answer here", sec. 4.3.
Shapes: B rows, T tokens, M labelled positions ([CLS] and the passage), N sequences, W the most a sequence has.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertlite.inputs.batch import Batch, by_sequence
from bertlite.model.config import ModelConfig
from bertlite.model.encoder import Encoder
from bertlite.model.heads import HEAD_STD, SpanHead
from bertlite.model.init import initialise
from bertlite.objectives.sums import Sums

# What `token_labels` hold at a position: the sum of what it is.
NEITHER, START, END = 0, 1, 2


class SpanExtractor(nn.Module):
    """Encoder and span head."""

    losses = ("span",)
    reads_tokens = True
    rates: Mapping[str, float] = {}
    """By the beginning of a parameter's name: how many times the learning rate it takes."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.span = SpanHead(config)

    def initialise(self, seed: int) -> None:
        """Draw new weights; the encoder's are usually replaced afterwards."""
        initialise(self.encoder, std=self.config.init_std, seed=seed)
        initialise(self.span, std=HEAD_STD, seed=seed, part=2)

    def logits(self, batch: Batch) -> Tensor:
        """Return the scores (M, 2) of start and end at the labelled positions."""
        return self.span(self.encoder(batch).flatten(0, 1)[batch.labelled_positions])

    def counts(self, batch: Batch) -> dict[str, int]:
        """Return the number of sequences."""
        return {"span": batch.num_sequences}

    def forward(self, batch: Batch) -> dict[str, Sums]:
        """Return the loss's sums: the mean of the two cross-entropies, over sequences; right where both ends are."""
        scores, mask = by_sequence(self.logits(batch).float(), batch.labelled_positions, batch, fill=float("-inf"))
        labels, _ = by_sequence(batch.token_labels, batch.labelled_positions, batch, fill=NEITHER)
        targets = [(labels & part > 0).int().argmax(1) for part in (START, END)]  # each (N,)
        losses = [F.cross_entropy(scores[..., k], target, reduction="sum") for k, target in enumerate(targets)]
        right = torch.stack([scores[..., k].argmax(1) == target for k, target in enumerate(targets)]).all(0)
        return {"span": Sums((losses[0] + losses[1]) / 2, torch.tensor(len(mask)), right.sum())}
