"""The loader: positions in, steps of micro-batches out; any process can rebuild any step.

A step takes the next `num_sequences` samples of the epoch's order, masks them, packs that set into rows and only then
deals rows to processes and micro-batches: neither the samples nor their masks depend on the cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bertlite.corpus.store import DocumentSet
from bertlite.corpus.tokenizer import WordPiece
from bertlite.draws import Purpose, stream
from bertlite.errors import InputError
from bertlite.examples.example import Examples, Place, Plan, shard_order
from bertlite.examples.full_sentences import FullSentences
from bertlite.examples.sentence_pairs import SentencePairs
from bertlite.inputs.batch import Batch, BatchItem, make_batch
from bertlite.inputs.masking import Masker, MaskingSettings
from bertlite.inputs.packing import deal, pack


@dataclass(frozen=True)
class Position:
    """How far a run has read: whole epochs, shards of this epoch's order, rows of the shard being read."""

    epoch: int = 0
    shards_done: int = 0
    rows_done: int = 0


@dataclass(frozen=True)
class Cut:
    """How a step is divided: which process this is of how many, and the rows of a micro-batch."""

    process: int = 0
    num_processes: int = 1
    rows_at_once: int = 64


@dataclass(frozen=True)
class Step:
    """One process's share of a step, and where the next step begins."""

    micro_batches: list[Batch]
    after: Position


class PretrainingLoader:
    """Cuts the examples of one length into steps."""

    def __init__(self, examples: Examples, masker: Masker, *, pad_id: int):
        self.examples, self.masker, self.pad_id = examples, masker, pad_id
        self._plans: dict[tuple[int, int], Plan] = {}

    def plan(self, epoch: int, shard: int) -> Plan:
        """Return a plan, keeping the last two made."""
        if (epoch, shard) not in self._plans:
            self._plans = dict(list(self._plans.items())[-1:])
            self._plans[epoch, shard] = self.examples.plan(epoch, shard)
        return self._plans[epoch, shard]

    def steps(self, position: Position, *, num_sequences: int, cut: Cut) -> Iterator[Step]:
        """Yield steps of `num_sequences` samples from `position` on, without end."""
        while True:
            places, position = self.take(position, num_sequences)
            micro_batches = self.batches([self.sample(place) for place in places], cut)
            yield Step(micro_batches, position)

    def take(self, position: Position, count: int) -> tuple[list[Place], Position]:
        """Return the places of the next `count` samples and the position after them."""
        places: list[Place] = []
        empty_shards = 0
        num_shards = self.examples.documents.store.num_shards
        while len(places) < count:
            shard = self._shard_at(position)
            rows = len(self.plan(position.epoch, shard))
            end = min(rows, position.rows_done + count - len(places))
            places += [Place(position.epoch, shard, row) for row in range(position.rows_done, end)]
            position = replace(position, rows_done=end)
            empty_shards = empty_shards + 1 if rows == 0 else 0
            if empty_shards > num_shards:
                raise InputError("the documents give no example of this length", where=self.examples.documents.store.folder)
            if end == rows:
                position = self._next_shard(position)
        return places, position

    def sample(self, place: Place) -> BatchItem:
        """Return the masked sample at a place: a pure function of the seed, the length and the place."""
        example = self.plan(place.epoch, place.shard).example(place.row)
        draws = stream(self.examples.seed, Purpose.MASK, self.examples.length, *place)
        return self.masker.mask(example, draws)

    def batches(self, samples: list[BatchItem], cut: Cut) -> list[Batch]:
        """Pack the samples of a step into rows and return this process's micro-batches."""
        length = self.examples.length
        rows = pack([len(sample) for sample in samples], length)
        dealt = deal(rows, num_processes=cut.num_processes, rows_at_once=cut.rows_at_once)[cut.process]
        return [make_batch([[samples[i] for i in row] for row in micro] or [[]], length=length, pad_id=self.pad_id,
                           capacity=max(1, len(micro)) * self.masker.settings.most(length))
                for micro in dealt]

    def epoch_size(self, epoch: int = 0) -> int:
        """Return the number of samples of an epoch; this makes every shard's plan."""
        return sum(len(self.examples.plan(epoch, s)) for s in range(self.examples.documents.store.num_shards))

    def fixed_batches(self, num_sequences: int, rows_at_once: int) -> list[Batch]:
        """Return the first samples of epoch 0, at most one epoch of them, in batches: for validation, always the same."""
        places: list[Place] = []
        position = Position()
        while position.epoch == 0 and len(places) < num_sequences:
            more, position = self.take(position, 1)
            places += more
        return self.batches([self.sample(p) for p in places], Cut(rows_at_once=rows_at_once))

    def _shard_at(self, position: Position) -> int:
        num_shards = self.examples.documents.store.num_shards
        return int(shard_order(self.examples.seed, self.examples.length, position.epoch, num_shards)[position.shards_done])

    def _next_shard(self, position: Position) -> Position:
        if position.shards_done + 1 < self.examples.documents.store.num_shards:
            return Position(position.epoch, position.shards_done + 1, 0)
        return Position(position.epoch + 1, 0, 0)


def make_loader(documents: DocumentSet, tokenizer: WordPiece, *, objective: str, length: int, masking: MaskingSettings,
                seed: int) -> PretrainingLoader:
    """Return the loader of an objective, mlm+nsp or mlm; raises InputError where the documents have no next sentences."""
    kind = SentencePairs if objective == "mlm+nsp" else FullSentences
    examples: Examples = kind(documents, tokenizer, length=length, seed=seed)
    return PretrainingLoader(examples, Masker(tokenizer, masking, length=length), pad_id=tokenizer.pad_id)
