"""Held-out figures of a pretraining model, on samples and masks that are always the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from accelerate import Accelerator
from torch import nn

from bertlite.corpus.store import DocumentSet
from bertlite.corpus.tokenizer import WordPiece
from bertlite.inputs.batch import Batch
from bertlite.inputs.loader import make_loader
from bertlite.inputs.masking import MaskingSettings
from bertlite.objectives.evaluation import baselines, figures, plain_words
from bertlite.training.loop import sum_over

NUM_SEQUENCES = 512
TOKENS_AT_ONCE = 8_192


class Validation:
    """The first samples of some documents at each length asked for, made once and kept."""

    def __init__(self, documents: DocumentSet, unigram_counts: np.ndarray, tokenizer: WordPiece, *,
                 masking: MaskingSettings, objective: str, num_sequences: int = NUM_SEQUENCES):
        self.documents, self.unigram_counts, self.tokenizer = documents, unigram_counts, tokenizer
        self.masking, self.objective, self.num_sequences = masking, objective, num_sequences
        self._batches: dict[int, list[Batch]] = {}

    def batches(self, length: int) -> list[Batch]:
        """Return the batches of a length; neither they nor their masks depend on a run's seed."""
        if length not in self._batches:
            loader = make_loader(self.documents, self.tokenizer, objective=self.objective, length=length,
                                 masking=self.masking, seed=0)
            self._batches[length] = loader.fixed_batches(self.num_sequences, max(1, TOKENS_AT_ONCE // length))
        return self._batches[length]

    def __call__(self, model: nn.Module, accelerator: Accelerator, length: int) -> tuple[dict[str, Any], str]:
        """Return the figures of `model`, and a line that says them."""
        batches = self.batches(length)
        sums = sum_over(batches, model, accelerator)
        result = figures(sums, baselines(batches, self.unigram_counts, self.tokenizer.mask_id))
        return result, plain_words(result)
