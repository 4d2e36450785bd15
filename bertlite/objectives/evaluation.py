"""Figures of a pretraining model on fixed held-out batches, beside what no context at all would give.

The unigram floor is the loss of always predicting how often each token occurs in the training text (add-0.1), on the
same labels. A masked LM that has learned nothing of context sits on it. Only positions that show [MASK] are compared:
the kept tenth can be copied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertlite.inputs.batch import Batch

PLATEAU = 0.05  # nats: a [MASK] loss this near the floor means that only frequencies have been learned
SMOOTHING = 0.1


@dataclass(frozen=True)
class Baselines:
    """What is reached without looking: on the [MASK] positions and the pairs of some batches."""

    unigram_floor: float
    """Nats a token."""
    commonest_token_share: float
    commoner_pair_share: float


def baselines(batches: list[Batch], unigram_counts: np.ndarray, mask_id: int) -> Baselines:
    """Compute the baselines of `batches` from the training text's token counts, (V,)."""
    labels, pairs = [], []
    for batch in batches:
        shown = batch.input_ids.flatten()[batch.labelled_positions[: batch.num_labelled]]
        labels.append(batch.token_labels[: batch.num_labelled][shown == mask_id].numpy())
        pairs.append(batch.sequence_labels[batch.sequence_labels >= 0].numpy())
    label, pair = np.concatenate(labels), np.concatenate(pairs)
    log_probs = np.log((unigram_counts + SMOOTHING) / (unigram_counts.sum() + SMOOTHING * len(unigram_counts)))
    return Baselines(
        unigram_floor=float(-log_probs[label].mean()) if len(label) else math.nan,
        commonest_token_share=float((label == unigram_counts.argmax()).mean()) if len(label) else math.nan,
        commoner_pair_share=float(max(pair.mean(), 1 - pair.mean())) if len(pair) else math.nan,
    )


def figures(sums: dict[str, dict[str, float]], base: Baselines) -> dict[str, Any]:
    """Turn summed losses into means and accuracies, beside the baselines."""
    result: dict[str, Any] = {}
    for name, s in sums.items():
        result[f"{name}_loss"] = s["loss"] / s["size"] if s["size"] else math.nan
        result[f"{name}_accuracy"] = s["correct"] / s["size"] if s["size"] else math.nan
    result["unigram_floor"] = base.unigram_floor
    result["commonest_token_share"] = base.commonest_token_share
    if not math.isnan(base.commoner_pair_share):
        result["commoner_pair_share"] = base.commoner_pair_share
    return result


def plain_words(result: dict[str, Any]) -> str:
    """Say validation figures in one line, and whether the model has learned more than frequencies."""
    line = (f"held out: masked LM {result['masked_lm_loss']:.2f} (accuracy {result['masked_lm_accuracy']:.2f}), on [MASK] "
            f"{result['masked_lm_on_mask_loss']:.2f} (accuracy {result['masked_lm_on_mask_accuracy']:.2f}), "
            f"unigram floor {result['unigram_floor']:.2f}")
    if "next_sentence_accuracy" in result:
        line += (f"; next sentence accuracy {result['next_sentence_accuracy']:.2f}, commoner label "
                 f"{result['commoner_pair_share']:.2f}")
    if result["masked_lm_on_mask_loss"] > result["unigram_floor"] - PLATEAU:
        line += "; still on the floor: it knows how often tokens occur, nothing of their neighbours"
    return line
