"""A label for each word: encoder and a linear layer on the words' first pieces, under a softmax or a CRF.

Source: Devlin et al. 2019, sec. 5.3: the first piece stands for its word.
Shapes: B rows, T tokens, M labelled positions, N sequences, W words, C labels, D hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from bertlite.inputs.batch import IGNORED, Batch, by_sequence
from bertlite.model.config import ModelConfig
from bertlite.model.crf import LinearChainCRF
from bertlite.model.encoder import Encoder
from bertlite.model.heads import HEAD_STD, ClassificationHead
from bertlite.model.init import initialise
from bertlite.objectives.sums import Sums, cross_entropy_sums

CHAIN_RATE = 100.0


class Tagger(nn.Module):
    """Encoder and a linear layer; a word's label is drawn from a softmax, alone."""

    losses = ("tagging",)
    reads_tokens = True
    rates: Mapping[str, float] = {}
    """By the beginning of a parameter's name: how many times the learning rate it takes."""

    def __init__(self, config: ModelConfig, num_labels: int):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.classifier = ClassificationHead(config, num_labels)

    def initialise(self, seed: int) -> None:
        """Draw new weights; the encoder's are usually replaced afterwards."""
        initialise(self.encoder, std=self.config.init_std, seed=seed)
        initialise(self.classifier, std=HEAD_STD, seed=seed, part=2)

    def logits(self, batch: Batch) -> Tensor:
        """Return the emissions (M, C) at the labelled positions."""
        return self.classifier(self.encoder(batch).flatten(0, 1)[batch.labelled_positions])

    def counts(self, batch: Batch) -> dict[str, int]:
        """Return the number of labelled words."""
        return {"tagging": int((batch.token_labels != IGNORED).sum())}

    def forward(self, batch: Batch) -> dict[str, Sums]:
        """Return the loss's sums, over words."""
        (sums,) = cross_entropy_sums(self.logits(batch), batch.token_labels)
        return {"tagging": sums}


class CrfTagger(Tagger):
    """A tagger whose labels are drawn together, sentence by sentence."""

    # The chain begins at 0 and its scores are of the size of logits: at the encoder's rate it would not move.
    rates: Mapping[str, float] = {"crf.": CHAIN_RATE}

    def __init__(self, config: ModelConfig, num_labels: int):
        super().__init__(config, num_labels)
        self.crf = LinearChainCRF(num_labels)

    def forward(self, batch: Batch) -> dict[str, Sums]:
        """Return the negative log-likelihood of the chain of each sequence; it is divided by words, as the softmax's loss is.

        A sentence that is read in windows is as many chains.
        """
        emissions, used = self.logits(batch), batch.token_labels != IGNORED
        positions = batch.labelled_positions[used]
        laid_out, mask = by_sequence(emissions[used].float(), positions, batch, fill=0.0)
        labels, _ = by_sequence(batch.token_labels[used], positions, batch, fill=0)
        # In float32: the chain sums over many words.
        with torch.autocast(emissions.device.type, enabled=False):
            likelihood = self.crf.log_likelihood(laid_out, labels, mask)
        right = (emissions.argmax(-1) == batch.token_labels).sum()
        return {"tagging": Sums(-likelihood.sum(), used.sum(), right)}
