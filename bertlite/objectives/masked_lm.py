"""The masked-LM loss: hidden states and a batch in, sums out.

Source: Devlin et al. 2019, sec. 3.1, task 1.
Shapes: B rows, T tokens, M masked tokens, D hidden size, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor

from bertlite.inputs.batch import Batch
from bertlite.model.heads import MaskedLMHead
from bertlite.objectives.sums import Sums, cross_entropy_sums


def masked_lm(head: MaskedLMHead, token_embeddings: Tensor, hidden: Tensor, batch: Batch, mask_id: int) -> dict[str, Sums]:
    """Return the sums over all chosen tokens and, under `masked_lm_on_mask`, over those that show [MASK] only.

    The kept tenth can be copied; what the encoder knows from context alone shows where it sees [MASK].
    """
    states = hidden.flatten(0, 1)[batch.labelled_positions]  # (M, D)
    logits = head(states, token_embeddings)  # (M, V)
    shows_mask = batch.input_ids.flatten()[batch.labelled_positions] == mask_id
    everywhere, on_mask = cross_entropy_sums(logits, batch.token_labels, on_mask=shows_mask)
    return {"masked_lm": everywhere, "masked_lm_on_mask": on_mask}
