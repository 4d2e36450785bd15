"""The demo: its corpus, its split, and the whole story in seconds."""

import collections
import json

from bertlite import run_demo
from bertlite.demo.corpus import KINDS, demo_documents, labelled_sentences, split_by_kind


def test_the_corpus_has_six_kinds_and_a_tenth_of_each_is_held_out():
    documents = demo_documents()
    assert len(documents) == 558
    training, held = split_by_kind(documents, 0)
    counts, held_counts = (collections.Counter(d.kind for d in part) for part in (documents, held))
    assert set(counts) == set(KINDS.values())
    assert all(held_counts[kind] == round(0.1 * counts[kind]) for kind in counts)
    assert len(training) + len(held) == 558
    assert [d.paragraphs for d in held] != [d.paragraphs for d in split_by_kind(documents, 1)[1]]


def test_labelled_sentences_are_so_many_a_kind():
    rows = labelled_sentences(demo_documents(), least_words=8, per_kind=5, seed=0)
    assert collections.Counter(row["label"] for row in rows) == dict.fromkeys(KINDS.values(), 5)
    assert all(len(row["text"].split()) >= 8 for row in rows)


def test_the_whole_path_in_seconds(tmp_path, capsys):
    results = run_demo(out=tmp_path / "demo", smoke=True, quiet=True)
    table = capsys.readouterr().out
    for words in ("unigram floor", "next-sentence accuracy", "tf-idf", "scratch", "pretrained", "Sherlock [MASK]", "report.html"):
        assert words in table
    assert json.loads((tmp_path / "demo" / "results.json").read_text())["kinds"] == results["kinds"]
    page = (tmp_path / "demo" / "pretrained" / "report.html").read_text()
    assert "Which kind of text" in page and "Fill-mask" in page
