"""Dynamic masking for the masked LM: token ids in, corrupted ids, positions and labels out.

Source: Devlin et al. 2019, sec. 3.1 and app. A.1; redrawn each time a sample is seen, as in Liu et al. 2019, sec. 4.1.
Whole words: the option the authors released in May 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bertlite.corpus.store import Counts
from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError
from bertlite.examples.example import Example
from bertlite.inputs.batch import BatchItem

LEAST_SPLIT_WORDS = 0.01  # below this share of words of several pieces, whole-word masking is plain masking


@dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """How tokens are chosen and corrupted."""

    masked_share: float = 0.15
    """Share of a sequence's ordinary tokens that are chosen."""
    mask_token_prob: float = 0.8
    """A chosen token becomes [MASK] with this probability."""
    random_token_prob: float = 0.1
    """A chosen token becomes a random one with this probability; otherwise it stays."""
    whole_word: bool = False
    """Choose all pieces of a word together."""

    def __post_init__(self) -> None:
        if not 0 < self.masked_share < 1:
            raise InputError(f"--masking.masked-share must be between 0 and 1; got {self.masked_share}")
        if min(self.mask_token_prob, self.random_token_prob) < 0 or self.mask_token_prob + self.random_token_prob > 1:
            raise InputError("--masking.mask-token-prob and --masking.random-token-prob must be at least 0 and their sum "
                             f"at most 1; got {self.mask_token_prob} and {self.random_token_prob}")

    def most(self, length: int) -> int:
        """Most tokens chosen in a sequence of `length`: 20 of 128, 77 of 512."""
        return max(1, math.ceil(self.masked_share * length - 1e-9))

    def count(self, num_ordinary: int, length: int) -> int:
        """How many of `num_ordinary` tokens are chosen in a sequence of at most `length`."""
        wanted = math.floor(self.masked_share * num_ordinary + 0.5)
        return min(max(1, wanted), self.most(length), num_ordinary)


class Masker:
    """Masks examples of at most `length` tokens."""

    def __init__(self, tokenizer: WordPiece, settings: MaskingSettings, *, length: int):
        self.settings, self.length = settings, length
        self.mask_id = tokenizer.mask_id
        self.is_special = tokenizer.is_special
        self.continues_word = tokenizer.continues_word
        # A random token is never [CLS], [PAD] ...: those would tell the encoder where it is.
        self.ordinary_ids = np.flatnonzero(~tokenizer.is_special)

    def mask(self, example: Example, draws: np.random.Generator) -> BatchItem:
        """Return the example corrupted, with the chosen positions in ascending order and their original ids."""
        ordinary = np.flatnonzero(~self.is_special[example.input_ids])
        count = self.settings.count(len(ordinary), self.length)
        if self.settings.whole_word:
            chosen = _choose_words(ordinary, self.continues_word[example.input_ids], count, draws)
        else:
            chosen = draws.permutation(ordinary)[:count]
        chosen.sort()
        labels = example.input_ids[chosen]
        return BatchItem(self._corrupt(example.input_ids, chosen, draws), example.segment_ids, chosen, labels,
                         example.label)

    def _corrupt(self, input_ids: np.ndarray, chosen: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        corrupted = input_ids.copy()
        fate = draws.random(len(chosen))
        random_ids = self.ordinary_ids[draws.integers(len(self.ordinary_ids), size=len(chosen))]
        # The last tenth stays as it is, so the encoder cannot trust any visible token.
        to_mask = fate < self.settings.mask_token_prob
        to_random = ~to_mask & (fate < self.settings.mask_token_prob + self.settings.random_token_prob)
        corrupted[chosen[to_mask]] = self.mask_id
        corrupted[chosen[to_random]] = random_ids[to_random]
        return corrupted


def _choose_words(ordinary: np.ndarray, continues: np.ndarray, count: int, draws: np.random.Generator) -> np.ndarray:
    """Choose whole words in random order, passing over one that no longer fits `count`; at least a part of one."""
    begins = ~continues[ordinary]
    begins[:1] = True  # a row may begin inside a word
    begins[1:] |= np.diff(ordinary) > 1
    words = np.split(ordinary, np.flatnonzero(begins)[1:])
    chosen: list[np.ndarray] = []
    left = count
    for index in draws.permutation(len(words)):
        if len(words[index]) <= left:
            chosen.append(words[index])
            left -= len(words[index])
    return np.concatenate(chosen) if chosen else min(words, key=len)[:count]


def check_whole_words(counts: Counts) -> None:
    """Raise InputError where whole-word masking would be the same as plain masking."""
    share = counts.split_words / max(1, counts.words)
    if share < LEAST_SPLIT_WORDS:
        raise InputError(f"only {share:.2%} of the words have two pieces, so masking whole words would change nothing",
                         where="--masking.whole-word",
                         remedy="leave it out; Chinese needs a tokenizer that keeps words together")
