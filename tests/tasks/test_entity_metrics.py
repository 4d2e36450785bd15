"""Schemes of tags, and entity figures equal to seqeval's."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlite.errors import InputError
from bertlite.tasks.entity_metrics import entity_metrics, per_type, token_accuracy
from bertlite.tasks.schemes import BadTag, Span, allowed_transitions, scheme_of, spans, strict_spans, to_iob2

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-a-b", "I-a-b"]
SENTENCES = st.lists(st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=12), min_size=1, max_size=6)


def both(pairs):
    return [[guess for guess, _ in sentence] for sentence in pairs], [[truth for _, truth in sentence] for sentence in pairs]


@settings(max_examples=1000, deadline=None)
@given(SENTENCES)
def test_figures_are_seqevals(pairs):
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval.scheme import IOB2

    predicted, true = both(pairs)
    ours = entity_metrics(predicted, true)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, theirs in (("precision", seqeval.precision_score), ("recall", seqeval.recall_score), ("f1", seqeval.f1_score)):
            assert ours[name] == pytest.approx(theirs(true, predicted), abs=1e-12)
        if any(tag != "O" for sentence in (*true, *predicted) for tag in sentence):
            assert ours["macro_f1"] == pytest.approx(seqeval.f1_score(true, predicted, average="macro"), abs=1e-12)
            assert ours["strict_f1"] == pytest.approx(seqeval.f1_score(true, predicted, mode="strict", scheme=IOB2), abs=1e-12)
            report = seqeval.classification_report(true, predicted, output_dict=True)
            for kind, row in per_type(predicted, true).items():
                assert row == pytest.approx({"precision": report[kind]["precision"], "recall": report[kind]["recall"],
                                             "f1": report[kind]["f1-score"], "support": report[kind]["support"]})


@given(SENTENCES)
def test_token_accuracy_is_the_share_of_equal_tags(pairs):
    flat = [pair for sentence in pairs for pair in sentence]
    assert token_accuracy(*both(pairs)) == pytest.approx(sum(a == b for a, b in flat) / len(flat))


@pytest.mark.parametrize(("tags", "scheme"), [
    (["O", "B-PER", "I-PER"], "iob2"), (["O", "I-PER", "I-PER", "B-PER"], "iob1"), (["S-PER", "O", "B-LOC", "E-LOC"], "iobes"),
    (["U-PER", "B-LOC", "I-LOC", "L-LOC", "O"], "iobes"), (["NOUN", "VERB"], "plain"), (["O", "O"], "plain"),
])
def test_a_scheme_is_recognised(tags, scheme):
    assert scheme_of([tags]) == scheme


@pytest.mark.parametrize(("tags", "scheme", "expected"), [
    # Tjong Kim Sang and Veenstra 1999, sec. 2: in IOB1 a B- only parts two neighbours of one type.
    ("I-A I-A B-A O I-B", "iob1", "B-A I-A B-A O B-B"), ("B-A I-A O I-B", "iob2", "B-A I-A O B-B"),
    ("S-A B-A I-A E-A S-A O", "iobes", "B-A B-A I-A I-A B-A O"), ("U-A B-B L-B", "iobes", "B-A B-B I-B"),
    ("B-A M-A E-A", "iobes", "B-A I-A I-A"), ("NOUN O", "plain", "NOUN O"),
])
def test_every_scheme_becomes_iob2(tags, scheme, expected):
    assert to_iob2(tags.split(), scheme) == expected.split()


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_entities_survive_every_scheme(tags):
    tags = to_iob2(tags, "iob2")
    found = spans(tags)
    iobes = list(tags)
    for _, start, end in found:
        iobes[end - 1] = ("S" if end - start == 1 else "E") + tags[end - 1][1:]
    assert spans(to_iob2(iobes, "iobes")) == found == strict_spans(tags)


def test_spans_are_read_leniently_and_strictly():
    tags = ["I-A", "I-A", "O", "B-A", "I-B"]
    assert spans(tags) == [Span("A", 0, 2), Span("A", 3, 4), Span("B", 4, 5)]
    assert strict_spans(tags) == [Span("A", 3, 4)]


def test_odd_tags_are_refused():
    with pytest.raises(InputError, match="'PER' is neither O nor a letter and a type"):
        scheme_of([["O", "B-PER", "PER"]])
    with pytest.raises(BadTag, match="'E-A' is no tag of IOB2"):
        to_iob2(["O", "E-A"], "iob2")


def test_an_inside_tag_follows_its_own_type():
    labels = ["O", "B-A", "I-A", "B-B", "I-B"]
    allowed = allowed_transitions(labels)
    assert [labels[i] for i in range(5) if allowed[i, 2]] == ["B-A", "I-A"] and not allowed[5, 2] and allowed[:, [0, 1, 3]].all()
    assert allowed_transitions(["NOUN", "VERB"]).all()
