"""Sequences held in memory -> shuffled steps of batches of like length; positions in, steps out, as in loader.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bertlite.draws import Purpose, stream
from bertlite.inputs.batch import BatchItem, make_batch
from bertlite.inputs.loader import Cut, Position, Step
from bertlite.inputs.packing import deal, pack

BATCHES_SORTED_TOGETHER = 16  # long enough that a batch has one length, short enough that an epoch is still shuffled


class ItemLoader:
    """Cuts labelled sequences into steps of `batch_size`, in an order drawn from (seed, epoch)."""

    def __init__(self, items: Sequence[BatchItem], *, batch_size: int, seed: int, pad_id: int):
        self.items, self.batch_size, self.seed, self.pad_id = items, batch_size, seed, pad_id

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps that see each sequence once."""
        return -(-len(self.items) // self.batch_size)

    def order(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch: shuffled, sorted by length within a window, the windows' batches shuffled."""
        draws = stream(self.seed, Purpose.ORDER, epoch)
        shuffled = draws.permutation(len(self.items)).tolist()
        window = BATCHES_SORTED_TOGETHER * self.batch_size
        batches = []
        for begin in range(0, len(shuffled), window):
            nearby = sorted(shuffled[begin : begin + window], key=lambda i: len(self.items[i]))
            batches += [nearby[i : i + self.batch_size] for i in range(0, len(nearby), self.batch_size)]
        return [batches[i] for i in draws.permutation(len(batches))]

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
