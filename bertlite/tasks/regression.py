"""A number for each text or pair.

Source: Devlin et al. 2019, sec. 4.1 (STS-B): one output on the pooled [CLS] state, squared error. It learns numbers of a
deviation near 1, from their mean; what is saved is scaled back, so that other tools read the user's own numbers.
Shapes: n texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import stats
from torch import Tensor, nn

from bertlite.corpus.rows import Row
from bertlite.errors import InputError
from bertlite.inputs.batch import Batch
from bertlite.model.config import ModelConfig
from bertlite.objectives.sequence_labels import SequenceClassifier, squared_error
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.readers import take_number
from bertlite.tasks.task import WORST, Examples, shown
from bertlite.tasks.text_task import LabelledText, TextTask
from bertlite.tasks.texts import TextEncoder

NUM_STRATA = 10  # bands of the numbers, each of which has its share of what is held out


class Regressor(SequenceClassifier):
    """A classifier with one output, whose numbers are `scale` times what its last layer gives.

    Its state dict holds a last layer that needs no scale. The scale is a power of two: there and back is the same to the bit.
    """

    losses = ("regression",)

    def __init__(self, config: ModelConfig, mean: float = 0.0, deviation: float = 1.0):
        self.scale = 2.0 ** round(math.log2(deviation))
        super().__init__(config, 1, squared_error(self.scale), bias=[mean / self.scale])
        self.register_state_dict_post_hook(lambda module, state, prefix, metadata: _rescale(state, prefix, self.scale))
        self.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: _rescale(state, prefix, 1 / self.scale))

    def logits(self, batch: Batch) -> Tensor:
        """Return the numbers, (N, 1)."""
        return super().logits(batch) * self.scale


def _rescale(state: dict[str, Tensor], prefix: str, factor: float) -> None:
    for name in ("weight", "bias"):
        key = f"{prefix}classifier.output.{name}"
        if key in state:
            state[key] = state[key] * factor


@dataclass(frozen=True)
class Regression(TextTask):
    """Texts or pairs with a number each; the output of a text is the number, (1,)."""

    mean: float = 0.0
    deviation: float = 1.0

    name: ClassVar[str] = "regression"
    take_label = staticmethod(take_number)
    metrics: tuple[str, ...] = ("spearman", "pearson", "mse")

    @property
    def labels(self) -> list[str]:
        """One name, as transformers has it."""
        return ["LABEL_0"]

    @classmethod
    def learned_from(cls, examples: Examples[LabelledText], texts: TextEncoder, head: HeadSettings) -> Self:
        """Return the task with mean and deviation of the training numbers; raises InputError when they are all the same."""
        head.check(cls.name)
        numbers = [item.label for item in examples.items]
        if len(set(numbers)) < 2:
            raise InputError("all numbers are the same, there is nothing to learn", where=examples.where)
        return cls(texts, float(np.mean(numbers)), float(np.std(numbers)))

    @classmethod
    def restored(cls, config: Mapping[str, Any], extra: Mapping[str, Any], texts: TextEncoder, num_outputs: int) -> Self:
        """Return the task of a model directory."""
        if num_outputs != 1:
            raise InputError(f"a regression has one output, the weights have {num_outputs}", where="config.json")
        return cls(texts)

    def make_model(self, config: ModelConfig) -> nn.Module:
        """Return the model, with weights not yet drawn."""
        return Regressor(config, self.mean, self.deviation)

    def targets(self, examples: Examples[LabelledText]) -> list[float]:
        """Return the numbers."""
        return [item.label for item in examples.items]

    def outputs_of(self, rows: Sequence[Row], prefix: str) -> list[np.ndarray]:
        """Return the numbers that rows hold."""
        return [np.array([float(row[f"{prefix}value"])]) for row in rows]

    def tuned(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> Self:
        """Return the task as it is."""
        return self

    def answers(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> list[dict[str, Any]]:
        """Return the number under `value`."""
        return [{"value": float(output[0])} for output in outputs]

    def score(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> dict[str, float]:
        """Return mean squared error, and Pearson's and Spearman's correlation (0 where there is no variance)."""
        guess, truth = np.array(outputs)[:, 0], np.array(self.targets(examples))
        both_vary = len(truth) > 1 and np.ptp(guess) > 0 and np.ptp(truth) > 0
        return {"mse": float(((guess - truth) ** 2).mean()),
                "pearson": float(stats.pearsonr(guess, truth)[0]) if both_vary else 0.0,
                "spearman": float(stats.spearmanr(guess, truth)[0]) if both_vary else 0.0}

    def details(self, outputs: list[np.ndarray], examples: Examples[LabelledText]) -> dict[str, Any]:
        """Return predicted and true numbers, and the worst errors."""
        guess, truth = np.array(outputs)[:, 0], np.array(self.targets(examples))
        worst = np.argsort(-np.abs(guess - truth), kind="stable")[:WORST]
        return {"scatter": {"predicted": guess.tolist(), "true": truth.tolist()}, "worst": [
            {"line": examples.lines[i], "text": shown(examples.items[i].text), "label": float(truth[i]),
             "predicted": float(guess[i])} for i in worst.tolist()]}

    def strata(self, examples: Examples[LabelledText]) -> np.ndarray:
        """Return the band of each number, by rank."""
        ranks = stats.rankdata(self.targets(examples), method="dense") - 1
        return (ranks * NUM_STRATA // (ranks.max() + 1)).astype(np.int64)

    def config_entries(self) -> dict[str, Any]:
        """Return problem type and the one label."""
        return {"problem_type": "regression", "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}

    def extra(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def says(self, examples: Examples[LabelledText]) -> list[str]:
        """Return the range of the numbers."""
        numbers = self.targets(examples)
        return [f"numbers from {min(numbers):g} to {max(numbers):g}, mean {np.mean(numbers):.4g}"]
