"""Exact match and F1 of answers equal the official definition."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlite.tasks.span_metrics import answer_scores, normalized_characters, span_metrics, writes_by_character
from tests.oracles import squad

WORDS = st.sampled_from(["the", "The", "a", "An", "cat", "Cat's", "U.S.", "1,000", "ran", "é", "théa", "the-end", "the·end", "梵語", "_"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join) | st.text(max_size=12)
QUESTIONS = st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=3)), min_size=1, max_size=5)


@settings(max_examples=1000, deadline=None)
@given(QUESTIONS)
def test_figures_are_the_official_ones(questions):
    answers, truths = [answer for answer, _ in questions], [truth for _, truth in questions]
    ours = span_metrics(answers, truths)
    for name, value in squad.evaluate(answers, truths).items():
        assert ours[name] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(("answer", "truth", "exact", "f1"), [
    ("The cat.", ["a cat"], 1, 1), ("black cat", ["cat"], 0, 2 / 3), ("", [], 1, 1), ("cat", [], 0, 0), ("", ["cat"], 0, 0),
    ("cat", ["dog", "the cat"], 1, 1), ("the", ["cat"], 0, 0),
])
def test_worked_examples(answer, truth, exact, f1):
    assert answer_scores(answer, truth) == pytest.approx((exact, f1))


def test_questions_with_and_without_an_answer_are_told_apart():
    figures = span_metrics(["cat", "", "dog"], [["cat"], [], []])
    assert figures["has_answer_f1"] == 100 and figures["no_answer_f1"] == 50 and figures["f1"] == pytest.approx(200 / 3)
    assert list(span_metrics(["cat"], [["cat"]])) == ["exact_match", "f1"]


def test_chinese_is_scored_by_the_character():
    assert normalized_characters("「梵語」 ABC，1786年") == "梵 語 abc 1786 年"
    assert answer_scores("德國學者", ["德國"], by_character=True) == pytest.approx((0, 2 * 2 / 6))
    assert writes_by_character(["德國學者", "1786年"]) and not writes_by_character(["Berlin", "梵語 Sanskrit"])
