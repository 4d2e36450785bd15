"""Predictions of a fine-tuned model: texts or pairs in, labels with probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError
from bertlite.files import read_object
from bertlite.formats.huggingface import (
    check_vocabulary,
    load_weights,
    read_config,
    read_labels,
    read_tokenizer,
    read_weights,
)
from bertlite.tasks.classification import Classifier, classify
from bertlite.tasks.labels import Labels
from bertlite.tasks.readers import Text
from bertlite.tasks.texts import TextEncoder
from bertlite.training.hardware import HardwareSettings, choose_device


class Predictor:
    """A classifier with its tokenizer and labels."""

    def __init__(self, model: Classifier, tokenizer: WordPiece, labels: Labels, *, max_length: int,
                 columns: dict[str, Any] | None = None, device: torch.device | None = None):
        self.device = device or torch.device("cpu")
        self.model, self.tokenizer, self.labels = model.eval().to(self.device), tokenizer, labels
        self.columns = columns or {}
        self.texts = TextEncoder(tokenizer, max_length, limit=model.config.max_positions)

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, device: str = "auto", max_length: int | None = None,
                        threads: int | None = None) -> Predictor:
        """Open a fine-tuned model directory; raises InputError for one without a classifier."""
        config, raw = read_config(folder)
        tokenizer, _ = read_tokenizer(folder)
        check_vocabulary(tokenizer, config, folder)
        state = read_weights(folder)
        if "classifier.output.weight" not in state:
            raise InputError("the model has no classifier", where=folder, remedy="fine-tune it first: bertlite finetune")
        if raw.get("problem_type") not in (None, "single_label_classification"):
            raise InputError(f"the problem type {raw['problem_type']!r} is not supported", where=folder)
        labels = read_labels(raw) or [f"LABEL_{i}" for i in range(len(state["classifier.output.weight"]))]
        model = Classifier(config, len(labels))
        model.initialise(seed=0)
        missing = load_weights(model, state, where=folder)
        if missing:
            raise InputError(f"the weights lack {missing[0]}", where=folder)
        if max_length is not None and not 3 <= max_length <= config.max_positions:
            raise InputError(f"--max-length must be between 3 and the model's {config.max_positions}; got {max_length}")
        extra = read_object(Path(folder) / "bertlite.json") if (Path(folder) / "bertlite.json").exists() else {}
        return cls(model, tokenizer, Labels(labels), columns=extra.get("columns"),
                   max_length=min(max_length or extra.get("max_length") or config.max_positions, config.max_positions),
                   device=choose_device(HardwareSettings(device=device, threads=threads)))

    def probabilities(self, texts: Sequence[Text], batch_size: int = 32) -> np.ndarray:
        """Return the label probabilities of texts or pairs, (n, C) float32."""
        return classify(self.model, self.texts(texts), device=self.device, pad_id=self.tokenizer.pad_id, batch_size=batch_size)

    def predict(self, texts: Sequence[Text], batch_size: int = 32) -> list[dict[str, Any]]:
        """Return for each text its `label`, the label's probability `score`, and `scores` of all labels."""
        return [self._answer(row) for row in self.probabilities(texts, batch_size)]

    def _answer(self, row: np.ndarray) -> dict[str, Any]:
        best = int(row.argmax())
        scores = dict(zip(self.labels.names, row.tolist(), strict=True))
        return {"label": self.labels.names[best], "score": float(row[best]), "scores": scores}
