"""Batch: the one table of fields, shapes and dtypes between text and model.

Shapes: B rows, T tokens a row, N sequences, M slots for labelled tokens, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from bertlite.examples.example import NO_LABEL

IGNORED = NO_LABEL  # the label that weighs nothing, torch's own ignore_index
Label = int | float | np.ndarray


@dataclass(frozen=True)
class Batch:
    """Rows of packed sequences; every tensor is int64, but for sequence labels that are numbers or vectors: float32.

    A token attends where `sequence_ids` are equal; sequence 0 is padding. Positions index the flattened (B * T) rows.
    What is labelled is for the task to say: masked tokens, the first pieces of words, where an answer may begin or end.
    """

    input_ids: Tensor  # (B, T)
    segment_ids: Tensor  # (B, T)
    position_ids: Tensor  # (B, T), from 0 in each sequence
    sequence_ids: Tensor  # (B, T), 1, 2 ... in each row
    first_positions: Tensor  # (N,), each sequence's [CLS]
    labelled_positions: Tensor  # (M,), ascending within a sequence
    token_labels: Tensor  # (M,), -100 in a slot not used
    sequence_labels: Tensor  # (N,) or, several labels a sequence, (N, C); -100 where there is none
    is_full: bool
    """Whether each row is one sequence without padding, so that attention needs no mask."""
    num_tokens: int
    """Tokens that are not padding."""
    num_labelled: int
    """Slots of labelled_positions that are used."""

    @property
    def num_sequences(self) -> int:
        """N."""
        return len(self.first_positions)

    @property
    def shape(self) -> tuple[int, int]:
        """(B, T)."""
        return self.input_ids.shape[0], self.input_ids.shape[1]

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`."""
        moved = {f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)
                 if isinstance(getattr(self, f.name), Tensor)}
        return replace(self, **moved)


@dataclass(frozen=True)
class BatchItem:
    """One sequence on its way into a batch: ids and segments (n,), labelled positions within it and their labels (m,)."""

    input_ids: np.ndarray
    segment_ids: np.ndarray
    labelled_positions: np.ndarray
    token_labels: np.ndarray
    label: Label = IGNORED
    """Of the whole sequence: a class's number, a float, or (C,) float32 for several classes at once."""

    def __len__(self) -> int:
        return len(self.input_ids)


_NOTHING = np.zeros(0, dtype=np.int64)


def plain_sequence(input_ids: np.ndarray, segment_ids: np.ndarray, label: Label = IGNORED) -> BatchItem:
    """Return a sequence without labelled tokens."""
    return BatchItem(input_ids, segment_ids, _NOTHING, _NOTHING, label)


def make_batch(rows: Sequence[Sequence[BatchItem]], *, length: int, pad_id: int, capacity: int = 0) -> Batch:
    """Lay out `rows` of sequences, each row at most `length` tokens, as tensors.

    `capacity` is the number of slots for labelled tokens; it grows if the rows hold more.
    """
    grid = {name: np.zeros((len(rows), length), dtype=np.int64) for name in ("segment", "position", "sequence")}
    input_ids = np.full((len(rows), length), pad_id, dtype=np.int64)
    first, positions, token_labels, labels = [], [_NOTHING], [_NOTHING], []
    for r, row in enumerate(rows):
        begin = 0
        for s, sequence in enumerate(row, start=1):
            end = begin + len(sequence)
            input_ids[r, begin:end] = sequence.input_ids
            grid["segment"][r, begin:end] = sequence.segment_ids
            grid["position"][r, begin:end] = np.arange(len(sequence))
            grid["sequence"][r, begin:end] = s
            first.append(r * length + begin)
            positions.append(r * length + begin + sequence.labelled_positions)
            token_labels.append(sequence.token_labels)
            labels.append(sequence.label)
            begin = end
    num_labelled = sum(map(len, positions))
    unused = max(0, capacity - num_labelled)
    positions.append(np.zeros(unused, dtype=np.int64))
    token_labels.append(np.full(unused, IGNORED))
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        segment_ids=torch.from_numpy(grid["segment"]),
        position_ids=torch.from_numpy(grid["position"]),
        sequence_ids=torch.from_numpy(grid["sequence"]),
        first_positions=torch.tensor(first, dtype=torch.int64),
        labelled_positions=torch.from_numpy(np.concatenate(positions)),
        token_labels=torch.from_numpy(np.concatenate(token_labels)),
        sequence_labels=_label_tensor(labels),
        is_full=bool((grid["sequence"] == 1).all()),
        num_tokens=int((grid["sequence"] > 0).sum()),
        num_labelled=num_labelled,
    )


def _label_tensor(labels: Sequence[Label]) -> Tensor:
    values = np.stack([np.asarray(label) for label in labels]) if labels else _NOTHING
    return torch.from_numpy(values.astype(np.float32 if values.dtype.kind == "f" else np.int64))


def by_sequence(values: Tensor, positions: Tensor, batch: Batch, *, fill: float) -> tuple[Tensor, Tensor]:
    """Lay out values (M, ...) at some labelled positions (M,) as (N, W, ...), W the most a sequence has; and a mask (N, W).

    The sequences keep their order; those without a position have no row. Slots not used hold `fill`.
    """
    row, length = positions // batch.shape[1], batch.shape[1]
    owner = row * (length + 1) + batch.sequence_ids.flatten()[positions]
    _, counts = torch.unique_consecutive(owner, return_counts=True)
    width = int(counts.max()) if len(counts) else 1
    mask = torch.arange(width, device=values.device) < counts[:, None]
    laid_out = values.new_full((*mask.shape, *values.shape[1:]), fill)
    laid_out[mask] = values
    return laid_out, mask
