"""Figures of tagged sentences: precision, recall and F1 of whole entities, accuracy of single tags.

An entity is right when its type, first and last word are. Source: Tjong Kim Sang and De Meulder 2003 (conlleval); equal to
seqeval's, whose strict mode asks in addition that a predicted entity begins with B-.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from bertlite.tasks.schemes import Span, spans, strict_spans

Sentences = Sequence[Sequence[str]]


def entity_counts(predicted: Sentences, true: Sentences, find: Callable[[Sequence[str]], list[Span]] = spans,
                  ) -> dict[str, tuple[int, int, int]]:
    """Return for each type (number right, number predicted, number true)."""
    right: Counter[str] = Counter()
    num_predicted: Counter[str] = Counter()
    num_true: Counter[str] = Counter()
    for guess, truth in zip(predicted, true, strict=True):
        found, wanted = set(find(guess)), set(find(truth))
        right.update(span.kind for span in found & wanted)
        num_predicted.update(span.kind for span in found)
        num_true.update(span.kind for span in wanted)
    kinds = sorted(num_predicted.keys() | num_true.keys())
    return {kind: (right[kind], num_predicted[kind], num_true[kind]) for kind in kinds}


def figures(right: int, predicted: int, true: int) -> dict[str, float]:
    """Return precision, recall and F1; 0 where there is nothing to divide by."""
    return {"precision": right / max(1, predicted), "recall": right / max(1, true), "f1": 2 * right / max(1, predicted + true)}


def entity_metrics(predicted: Sentences, true: Sentences) -> dict[str, float]:
    """Return micro precision, recall and F1 of entities, macro F1 over types, and F1 in the strict mode."""
    counts = entity_counts(predicted, true)
    totals = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0, 0]
    strict = [sum(column) for column in zip(*entity_counts(predicted, true, strict_spans).values(), strict=True)] or [0, 0, 0]
    macro = sum(figures(*three)["f1"] for three in counts.values()) / max(1, len(counts))
    return figures(*totals) | {"macro_f1": macro, "strict_f1": figures(*strict)["f1"]}


def per_type(predicted: Sentences, true: Sentences) -> dict[str, dict[str, float]]:
    """Return precision, recall, F1 and number of true entities of each type."""
    return {kind: figures(*three) | {"support": three[2]} for kind, three in entity_counts(predicted, true).items()}


def token_accuracy(predicted: Sentences, true: Sentences) -> float:
    """Return the share of words with the right tag."""
    pairs = [pair for guess, truth in zip(predicted, true, strict=True) for pair in zip(guess, truth, strict=True)]
    return sum(guess == truth for guess, truth in pairs) / max(1, len(pairs))
