"""Masking: how many, which, and what becomes of them."""

import numpy as np
import pytest

from bertlite.corpus.store import Counts
from bertlite.draws import Purpose, stream
from bertlite.errors import InputError
from bertlite.examples.example import Example
from bertlite.inputs.masking import Masker, MaskingSettings, check_whole_words
from tests.oracles.masking import corrupt


def example_of(tokenizer, num_ordinary, seed=0):
    ordinary = np.flatnonzero(~tokenizer.is_special)
    inner = np.random.default_rng(seed).choice(ordinary, num_ordinary)
    ids = np.concatenate([[tokenizer.cls_id], inner, [tokenizer.sep_id]])
    return Example(ids, np.zeros_like(ids), 0)


def masker(tokenizer, length=128, **settings):
    return Masker(tokenizer, MaskingSettings(**settings), length=length)


@pytest.mark.parametrize(("length", "most"), [(32, 5), (64, 10), (128, 20), (512, 77)])
def test_the_paper_chooses_at_most_this_many(length, most):
    assert MaskingSettings().most(length) == most


@pytest.mark.parametrize("num", [1, 3, 10, 29, 60, 126])
def test_the_count_is_exact(tokenizer, num):
    item = masker(tokenizer).mask(example_of(tokenizer, num), stream(0, Purpose.MASK, num))
    assert len(item.labelled_positions) == min(20, max(1, int(0.15 * num + 0.5)))
    assert len(set(item.labelled_positions.tolist())) == len(item.labelled_positions)


def test_labels_are_the_originals_and_other_positions_are_untouched(tokenizer):
    example = example_of(tokenizer, 100)
    item = masker(tokenizer).mask(example, stream(0, Purpose.MASK))
    np.testing.assert_array_equal(item.token_labels, example.input_ids[item.labelled_positions])
    others = np.setdiff1d(np.arange(102), item.labelled_positions)
    np.testing.assert_array_equal(item.input_ids[others], example.input_ids[others])


def test_special_tokens_are_never_chosen_and_random_ids_never_special(tokenizer):
    m = masker(tokenizer, mask_token_prob=0.0, random_token_prob=1.0)
    for seed in range(200):
        item = m.mask(example_of(tokenizer, 100, seed), stream(seed, Purpose.MASK))
        assert not tokenizer.is_special[item.token_labels].any()
        assert not tokenizer.is_special[item.input_ids[1:-1]].any()


def test_eighty_ten_ten(tokenizer):
    m, counts, total = masker(tokenizer), np.zeros(3), 0
    for seed in range(400):
        item = m.mask(example_of(tokenizer, 126, seed), stream(seed, Purpose.MASK))
        shown, label = item.input_ids[item.labelled_positions], item.token_labels
        counts += [(shown == tokenizer.mask_id).sum(), ((shown != label) & (shown != tokenizer.mask_id)).sum(), (shown == label).sum()]
        total += len(label)
    same = 1 / (~tokenizer.is_special).sum()  # a random token is sometimes the original
    for count, p in zip(counts, (0.8, 0.1 * (1 - same), 0.1 + 0.1 * same), strict=True):
        assert abs(count - p * total) < 4 * (total * p * (1 - p)) ** 0.5


def test_corruption_is_the_oracles(tokenizer):
    m, example = masker(tokenizer), example_of(tokenizer, 100)
    chosen = np.arange(1, 100, 7)
    draws = stream(3, Purpose.MASK)
    fate = draws.random(len(chosen))
    random_ids = m.ordinary_ids[draws.integers(len(m.ordinary_ids), size=len(chosen))]
    ours = m._corrupt(example.input_ids, chosen, stream(3, Purpose.MASK))
    assert ours.tolist() == corrupt(example.input_ids.tolist(), chosen.tolist(), fate.tolist(), random_ids.tolist(), tokenizer.mask_id)


def test_whole_words_are_chosen_together(tokenizer):
    m = masker(tokenizer, whole_word=True)
    for seed in range(100):
        example = example_of(tokenizer, 100, seed)
        chosen = set(m.mask(example, stream(seed, Purpose.MASK)).labelled_positions.tolist())
        assert 0 < len(chosen) <= 20
        for position in range(2, 101):
            if tokenizer.continues_word[example.input_ids[position]]:
                assert (position in chosen) == (position - 1 in chosen) or len(chosen) == 15


def test_a_word_too_long_for_the_count_is_masked_in_part(tokenizer):
    continuing = np.flatnonzero(tokenizer.continues_word)[0]
    ids = np.array([tokenizer.cls_id, *[continuing] * 8, tokenizer.sep_id])
    item = masker(tokenizer, whole_word=True).mask(Example(ids, np.zeros_like(ids), 0), stream(0, Purpose.MASK))
    assert len(item.labelled_positions) == 1


def test_whole_words_are_refused_where_no_word_is_split():
    with pytest.raises(InputError, match=r"only 0.50% of the words have two pieces"):
        check_whole_words(Counts(words=1000, split_words=5))
    check_whole_words(Counts(words=1000, split_words=50))


@pytest.mark.parametrize("settings", [{"masked_share": 0.0}, {"masked_share": 1.0}, {"mask_token_prob": 0.95, "random_token_prob": 0.1}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InputError, match="--masking"):
        MaskingSettings(**settings)
