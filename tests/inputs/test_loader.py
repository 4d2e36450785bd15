"""The loader: a sample is the same in any process, order and cut."""

import numpy as np
import pytest
import torch

from bertlite.corpus.store import DocumentSet
from bertlite.examples.example import Place
from bertlite.inputs.batch import plain_sequence
from bertlite.inputs.item_loader import ItemLoader
from bertlite.inputs.loader import Cut, Position, make_loader
from bertlite.inputs.masking import MaskingSettings


def new_loader(store, tokenizer, objective="mlm+nsp", length=64):
    return make_loader(DocumentSet(store), tokenizer, objective=objective, length=length, masking=MaskingSettings(), seed=7)


def sequences(batches):
    """Every sequence of some batches as (ids, masked labels), sorted."""
    found = []
    for batch in batches:
        used = dict(zip(batch.labelled_positions[: batch.num_labelled].tolist(), batch.token_labels.tolist(), strict=False))
        for row in range(batch.shape[0]):
            for number in range(1, int(batch.sequence_ids[row].max()) + 1):
                where = torch.nonzero(batch.sequence_ids[row] == number).flatten()
                labels = tuple(used.get(row * batch.shape[1] + int(p), -100) for p in where)
                found.append((tuple(batch.input_ids[row, where].tolist()), labels))
    return sorted(found)


@pytest.mark.parametrize("objective", ["mlm+nsp", "mlm"])
def test_the_samples_of_a_step_do_not_depend_on_the_cut(sharded_store, tokenizer, objective):
    def step(cut):
        return next(new_loader(sharded_store, tokenizer, objective).steps(Position(), num_sequences=24, cut=cut)).micro_batches

    whole = sequences(step(Cut(rows_at_once=100)))
    assert len(whole) == 24
    assert sequences(step(Cut(rows_at_once=3))) == whole
    assert sequences([b for p in range(4) for b in step(Cut(p, 4, 2))]) == whole


def test_a_sample_is_the_same_whenever_it_is_asked_for(sharded_store, tokenizer):
    first, second = (new_loader(sharded_store, tokenizer) for _ in range(2))
    places = [Place(0, 1, 3), Place(2, 0, 1), Place(0, 1, 0)]
    forward = [first.sample(place) for place in places]
    backward = [second.sample(place) for place in reversed(places)][::-1]
    for a, b in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(a.input_ids, b.input_ids)
        np.testing.assert_array_equal(a.labelled_positions, b.labelled_positions)


def test_masks_and_pairs_are_new_each_epoch(sharded_store, tokenizer):
    loader = new_loader(sharded_store, tokenizer, "mlm")
    rows = [loader.plan(epoch, 0).rows.tolist() for epoch in range(2)]
    same = rows[0][0]
    a, b = (loader.sample(Place(epoch, 0, rows[epoch].index(same))) for epoch in range(2))
    np.testing.assert_array_equal(np.where(a.input_ids == tokenizer.mask_id)[0].size > 0, True)
    assert a.labelled_positions.tolist() != b.labelled_positions.tolist()


def test_an_epoch_sees_every_sample_once_and_goes_on(sharded_store, tokenizer):
    loader = new_loader(sharded_store, tokenizer)
    size = loader.epoch_size()
    places, position = loader.take(Position(), size)
    assert len(set(places)) == size and {place.epoch for place in places} == {0}
    assert position == Position(1, 0, 0)
    assert loader.take(position, 1)[0][0].epoch == 1


def test_steps_go_on_from_any_position(sharded_store, tokenizer):
    steps = new_loader(sharded_store, tokenizer).steps(Position(), num_sequences=8, cut=Cut())
    taken = [next(steps) for _ in range(12)]
    again = new_loader(sharded_store, tokenizer).steps(taken[4].after, num_sequences=8, cut=Cut())
    for step in taken[5:]:
        assert torch.equal(step.micro_batches[0].input_ids, next(again).micro_batches[0].input_ids)


def test_capacity_is_fixed_and_unused_slots_weigh_nothing(sharded_store, tokenizer):
    steps = new_loader(sharded_store, tokenizer).steps(Position(), num_sequences=16, cut=Cut(rows_at_once=4))
    for batch in (b for _ in range(5) for b in next(steps).micro_batches):
        assert len(batch.labelled_positions) == max(batch.shape[0] * 10, batch.num_labelled)
        assert (batch.token_labels[batch.num_labelled :] == -100).all()
        assert (batch.token_labels[: batch.num_labelled] >= 0).all()


def test_validation_is_always_the_same(sharded_store, tokenizer):
    a, b = (new_loader(sharded_store, tokenizer).fixed_batches(20, 8) for _ in range(2))
    assert all(torch.equal(x.input_ids, y.input_ids) for x, y in zip(a, b, strict=True))


def test_item_steps_see_each_item_once_an_epoch_and_go_on_from_any_position():
    items = [plain_sequence(np.arange(1, 3 + i % 9), np.zeros(2 + i % 9, dtype=np.int64), label=i) for i in range(50)]
    steps = ItemLoader(items, batch_size=8, seed=1, pad_id=0).steps(Position(), Cut())
    taken = [next(steps) for _ in range(14)]
    labels = [[int(x) for b in step.micro_batches for x in b.sequence_labels] for step in taken]
    assert sorted(sum(labels[:7], [])) == list(range(50)) == sorted(sum(labels[7:], []))
    assert labels[:7] != labels[7:]
    again = ItemLoader(items, batch_size=8, seed=1, pad_id=0).steps(taken[8].after, Cut())
    assert [int(x) for b in next(again).micro_batches for x in b.sequence_labels] == labels[9]
