"""Sequences held in memory -> shuffled steps; positions in, steps out, as in loader.py.

Batches are drawn at random and packed, which leaves little padding. Batches of like length would save a little more, and
learn worse: what is alike in length is alike in kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bertlite.draws import Purpose, stream
from bertlite.inputs.batch import BatchItem, make_batch
from bertlite.inputs.loader import Cut, Position, Step
from bertlite.inputs.packing import deal, pack


class ItemLoader:
    """Cuts labelled sequences into steps of `batch_size`, in an order drawn from (seed, epoch)."""

    def __init__(self, items: Sequence[BatchItem], *, batch_size: int, seed: int, pad_id: int):
        self.items, self.batch_size, self.seed, self.pad_id = items, batch_size, seed, pad_id

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps that see each sequence once."""
        return -(-len(self.items) // self.batch_size)

    def order(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch, as numbers of items."""
        shuffled = stream(self.seed, Purpose.ORDER, epoch).permutation(len(self.items)).tolist()
        return [shuffled[begin : begin + self.batch_size] for begin in range(0, len(shuffled), self.batch_size)]

    def steps(self, position: Position, cut: Cut) -> Iterator[Step]:
        """Yield steps from `position` on, without end; `rows_done` counts batches."""
        epoch, done = position.epoch, position.rows_done
        while True:
            batches = self.order(epoch)
            for number in range(done, len(batches)):
                is_last = number + 1 == len(batches)
                after = Position(epoch + 1, 0, 0) if is_last else Position(epoch, 0, number + 1)
                yield self._step(batches[number], after, cut)
            epoch, done = epoch + 1, 0

    def _step(self, numbers: list[int], after: Position, cut: Cut) -> Step:
        items = [self.items[i] for i in numbers]
        length = max(map(len, items))
        rows = pack([len(item) for item in items], length)
        dealt = deal(rows, num_processes=cut.num_processes, rows_at_once=cut.rows_at_once)[cut.process]
        batches = [make_batch([[items[i] for i in row] for row in micro] or [[]], length=length, pad_id=self.pad_id)
                   for micro in dealt]
        return Step(batches, after)
