"""BERT with its two pretraining heads: a batch in, the losses' sums out.

Source: Devlin et al. 2019, sec. 3.1; the loss is the sum of the mean masked-LM and the mean next-sentence loss.
"""

from __future__ import annotations

from torch import nn

from bertlite.inputs.batch import Batch
from bertlite.model.config import ModelConfig
from bertlite.model.encoder import Encoder
from bertlite.model.heads import MaskedLMHead, NextSentenceHead, Pooler
from bertlite.model.init import initialise
from bertlite.objectives.masked_lm import masked_lm
from bertlite.objectives.sentence_pair import next_sentence
from bertlite.objectives.sums import Sums


class BertForPretraining(nn.Module):
    """Encoder, pooler and both heads.  `losses` names those that train; the others' sums are figures only."""

    def __init__(self, config: ModelConfig, *, mask_id: int, with_next_sentence: bool = True):
        super().__init__()
        self.config, self.mask_id = config, mask_id
        self.encoder = Encoder(config)
        self.pooler = Pooler(config)
        self.masked_lm = MaskedLMHead(config)
        self.next_sentence = NextSentenceHead(config)
        self.losses = ("masked_lm", "next_sentence") if with_next_sentence else ("masked_lm",)
        for part in (self.pooler, self.next_sentence):
            part.requires_grad_(with_next_sentence)

    def initialise(self, seed: int) -> None:
        """Draw new weights."""
        initialise(self, std=self.config.init_std, seed=seed)
        nn.init.zeros_(self.masked_lm.bias)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Return what each training loss is summed over in `batch`."""
        counts = {"masked_lm": batch.num_labelled, "next_sentence": batch.num_sequences}
        return {name: counts[name] for name in self.losses}

    def forward(self, batch: Batch) -> dict[str, Sums]:
        """Return the sums of each loss."""
        hidden = self.encoder(batch)  # (B, T, D)
        table = self.encoder.embeddings.token.weight
        sums = masked_lm(self.masked_lm, table, hidden, batch, self.mask_id)
        if "next_sentence" in self.losses:
            sums |= next_sentence(self.pooler, self.next_sentence, hidden, batch)
        return sums
