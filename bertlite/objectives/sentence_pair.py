"""The next-sentence loss: hidden states and a batch in, sums out.

Source: Devlin et al. 2019, sec. 3.1, task 2.
"""

from __future__ import annotations

from torch import Tensor

from bertlite.inputs.batch import Batch
from bertlite.model.encoder import first_states
from bertlite.model.heads import NextSentenceHead, Pooler
from bertlite.objectives.sums import Sums, cross_entropy_sums


def next_sentence(pooler: Pooler, head: NextSentenceHead, hidden: Tensor, batch: Batch) -> dict[str, Sums]:
    """Return the sums over the sequences of hidden states (B, T, D)."""
    logits = head(pooler(first_states(hidden, batch)))  # (N, 2)
    (sums,) = cross_entropy_sums(logits, batch.sequence_labels)
    return {"next_sentence": sums}
