"""Keyed random streams: every draw is a pure function of (seed, purpose, place), one purpose one stream.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox, a counter-based generator).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is drawn for; two purposes never share a number."""

    ORDER = 1
    PAIR = 2
    MASK = 3
    DROPOUT = 4
    HOLD_OUT = 5
    INIT = 6


def stream(seed: int, purpose: Purpose, *place: int) -> np.random.Generator:
    """Return the generator of one place.

    `place` is up to four non-negative numbers below 2**32 (say length, epoch, shard, row). They fill the upper words
    of Philox's 256-bit counter; the lowest word counts the draws, so streams of different places never meet.
    """
    words = list(place) + [0] * (4 - len(place))
    counter = [0, words[0] << 32 | words[1], words[2] << 32 | words[3], len(place)]
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=counter))


def torch_seed(seed: int, purpose: Purpose, *place: int) -> int:
    """Return a 63-bit seed for torch's own generator, drawn from the stream of this place."""
    return int(stream(seed, purpose, *place).integers(2**63 - 1))
