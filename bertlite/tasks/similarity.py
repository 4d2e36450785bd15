"""What vectors are good for: how like two texts are, which of many are nearest, and which belong together.

Sources: cosine similarity; k-means (Lloyd 1982) on vectors of length 1; the words that mark a cluster by log-odds with an
informative Dirichlet prior (Monroe et al. 2008, "Fightin' words", sec. 3.5.1).
Shapes: n texts, q queries, D vector size, K clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError

QUERIES_AT_ONCE = 256  # their scores against all texts are held together
SHORTEST_WORD = 2  # characters; single ones are told only where they are ideographs


class Clusters(NamedTuple):
    """The cluster of each text (n,), its cosine to the cluster's centre (n,), and the first two principal axes (n, 2)."""

    labels: np.ndarray
    scores: np.ndarray
    picture: np.ndarray


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (n, D) scaled to length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each pair of vectors (n, D), (n,)."""
    return (unit(first) * unit(second)).sum(1).clip(-1, 1)


def search(queries: np.ndarray, vectors: np.ndarray, top_k: int, *, leave_out_own: bool = False,
           ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each query (q, D) the numbers and cosines of the `top_k` nearest of `vectors` (n, D), nearest first.

    With `leave_out_own` query i is vector i and is not its own answer.
    """
    texts = unit(vectors)
    for begin in range(0, len(queries), QUERIES_AT_ONCE):
        scores = (unit(queries[begin : begin + QUERIES_AT_ONCE]) @ texts.T).clip(-1, 1)
        if leave_out_own:
            rows = np.arange(len(scores))
            scores[rows, begin + rows] = -np.inf
        for row in scores:
            best = np.argsort(-row, kind="stable")[:top_k]
            best = best[np.isfinite(row[best])]
            yield best, row[best]


def cluster(vectors: np.ndarray, num_clusters: int, seed: int) -> Clusters:
    """Return k-means clusters of vectors (n, D), the largest first; raises InputError for more clusters than texts."""
    from sklearn.cluster import KMeans  # slow to load

    if not 2 <= num_clusters <= len(vectors):
        raise InputError(f"--clusters must be between 2 and the number of texts, {len(vectors)}; got {num_clusters}")
    points = unit(vectors)
    found = KMeans(n_clusters=num_clusters, n_init=10, random_state=seed).fit(points)
    order = np.argsort(-np.bincount(found.labels_, minlength=num_clusters), kind="stable")
    place = np.argsort(order)
    scores = (points * unit(found.cluster_centers_)[found.labels_]).sum(1)
    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return Clusters(place[found.labels_], scores, centred @ axes[:2].T)


def marking_words(texts: Sequence[str], labels: np.ndarray, tokenizer: WordPiece, top_k: int = 8) -> list[list[str]]:
    """Return for each cluster the words that are most its own, likeliest first."""
    counts = [Counter[str]() for _ in range(int(labels.max()) + 1)]
    for text, label in zip(texts, labels.tolist(), strict=True):
        counts[label].update(set(_words(text, tokenizer)))
    total: Counter[str] = Counter()
    for count in counts:
        total += count
    return [_most_own(count, total, top_k) for count in counts]


def _words(text: str, tokenizer: WordPiece) -> Iterator[str]:
    pre_tokenizer = tokenizer.backend.pre_tokenizer
    for word, _ in pre_tokenizer.pre_tokenize_str(tokenizer.normalize(text)):
        if word.isalpha() and (len(word) >= SHORTEST_WORD or not word.isascii()):
            yield word


def _most_own(count: Counter[str], total: Counter[str], top_k: int) -> list[str]:
    """Return the words whose log-odds inside against outside are furthest above chance, in standard deviations."""
    size, all_size = count.total(), total.total()

    def score(word: str) -> float:
        prior = total[word]
        inside, outside = count[word] + prior, total[word] - count[word] + prior
        odds = np.log(inside / (size + all_size - inside)) - np.log(outside / (2 * all_size - size - outside))
        return float(odds / np.sqrt(1 / inside + 1 / outside))

    return sorted(count, key=lambda word: (-score(word), word))[:top_k]
