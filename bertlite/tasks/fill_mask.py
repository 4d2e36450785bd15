"""Fill-mask: a text with [MASK] in, the likeliest tokens with their probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError
from bertlite.formats.huggingface import check_vocabulary, load_weights, read_config, read_tokenizer, read_weights
from bertlite.inputs.batch import BatchItem, make_batch
from bertlite.objectives.pretraining import BertForPretraining


def load_pretraining_model(folder: str | Path) -> tuple[BertForPretraining, WordPiece, list[str]]:
    """Load a model with its masked-LM head; also returns the names of the parameters that were not there.

    Raises InputError when the masked-LM head is missing.
    """
    config, _ = read_config(folder)
    tokenizer, _ = read_tokenizer(folder)
    check_vocabulary(tokenizer, config, folder)
    model = BertForPretraining(config, mask_id=tokenizer.mask_id)
    model.initialise(seed=0)
    missing = load_weights(model, read_weights(folder), where=folder)
    if any(name.startswith("masked_lm.") for name in missing):
        raise InputError("the model has no masked-LM head", where=folder, remedy="give a pretrained BERT, not a fine-tuned one")
    return model.eval(), tokenizer, missing


class FillMask:
    """A masked LM that fills in [MASK]."""

    def __init__(self, model: BertForPretraining, tokenizer: WordPiece):
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> FillMask:
        """Open a model directory; raises InputError when it has no masked-LM head."""
        model, tokenizer, _ = load_pretraining_model(folder)
        return cls(model, tokenizer)

    @torch.inference_mode()
    def __call__(self, text: str, top_k: int = 5) -> list[list[dict[str, Any]]]:
        """Return for each [MASK] of `text` its `top_k` tokens: `token, token_id, score, sequence`, best first.

        Raises InputError when there is no [MASK] or the text is too long.
        """
        encoding = self.tokenizer.backend.encode(text)
        ids, longest = np.array(encoding.ids), self.model.config.max_positions
        masks = np.flatnonzero(ids == self.tokenizer.mask_id)
        if not len(masks):
            raise InputError("there is no [MASK] in the text", where=repr(text[:60]), remedy='write for example "the [MASK] sat"')
        if len(ids) > longest:
            raise InputError(f"the text has {len(ids)} tokens, the model takes {longest}", where=repr(text[:60]))
        if not 1 <= top_k <= self.model.config.vocab_size:
            raise InputError(f"--top-k must be between 1 and the vocabulary's {self.model.config.vocab_size}; got {top_k}")
        item = BatchItem(ids, np.array(encoding.type_ids), masks, np.zeros(len(masks), dtype=np.int64))
        batch = make_batch([[item]], length=len(ids), pad_id=self.tokenizer.pad_id)
        hidden = self.model.encoder(batch).flatten(0, 1)[batch.labelled_positions]  # (M, D)
        probs = self.model.masked_lm(hidden, self.model.encoder.embeddings.token.weight).softmax(-1)
        return [self._answers(ids, int(mask), probs[row], top_k) for row, mask in enumerate(masks)]

    def _answers(self, ids: np.ndarray, position: int, probs: torch.Tensor, top_k: int) -> list[dict[str, Any]]:
        scores, tokens = probs.topk(top_k)
        answers = []
        for token_score, token in zip(scores.tolist(), tokens.tolist(), strict=True):
            filled = ids.copy()
            filled[position] = token
            answers.append({"token": self.tokenizer.tokens[token], "token_id": token, "score": token_score,
                            "sequence": self.tokenizer.backend.decode(filled.tolist())})
        return answers
