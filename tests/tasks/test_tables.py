"""Tables as they are found, labels, and texts cut to a length."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertlite.errors import InputError
from bertlite.inputs.batch import plain_sequence
from bertlite.tasks.classification_metrics import classification_metrics, confusion, per_class
from bertlite.tasks.labels import Labels
from bertlite.tasks.readers import Columns, open_table, take_label, take_text
from bertlite.tasks.splits import hold_out
from bertlite.tasks.texts import TextEncoder, kept_tokens, length_batches


def rows_of(source, **columns):
    return [row for _, row in open_table(source, Columns(**columns)).rows]


@pytest.mark.parametrize(("name", "content", "columns"), [
    ("a.csv", "text,label\nx,1\n\"y, z\",2\n", {}), ("a.csv", "\ufefftext;label\nx;1\ny, z;2\n", {}),
    ("a.tsv", "text\tlabel\nx\t1\ny, z\t2\n", {}), ("a.csv", "text|label\nx|1\ny, z|2\n", {"delimiter": "|"}),
    ("a.jsonl", '{"text": "x", "label": "1"}\n{"text": "y, z", "label": "2"}\n', {}),
])
def test_every_kind_of_table_gives_the_same_rows(tmp_path, name, content, columns):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert rows_of(tmp_path / name, **columns) == [{"text": "x", "label": "1"}, {"text": "y, z", "label": "2"}]


def test_python_rows(tmp_path):
    import datasets
    import pandas

    rows = [{"text": "x", "label": "a"}, {"text": "y", "label": "b"}]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "a.parquet")
    for source in (rows, pandas.DataFrame(rows), datasets.Dataset.from_list(rows), tmp_path / "saved", tmp_path / "a.parquet"):
        assert rows_of(source) == rows
    assert rows_of(["x", "y"]) == [{"text": "x"}, {"text": "y"}]


def test_without_a_header_columns_are_numbers(tmp_path):
    (tmp_path / "a.tsv").write_text("good\tx\nbad\ty\n")
    assert rows_of(tmp_path / "a.tsv", no_header=True) == [{"1": "good", "2": "x"}, {"1": "bad", "2": "y"}]


def test_quotes_between_tabs_stand_for_themselves(tmp_path):
    (tmp_path / "a.tsv").write_text('text\n"Why?" said he.\n"a ""quoted"" word"\n12" long\n')
    assert [row["text"] for row in rows_of(tmp_path / "a.tsv")] == ['"Why?" said he.', 'a "quoted" word', '12" long']


@pytest.mark.parametrize(("said", "expected"), [("a\nb\n", [{"text": "a"}, {"text": "b"}]), ('{"text": "a"}\n', [{"text": "a"}]), ("", [])])
def test_standard_input_is_lines_or_json(monkeypatch, said, expected):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said.encode())))
    assert rows_of("-") == expected


@pytest.mark.parametrize(("said", "words"), [(b"caf\xe9\n", "standard input, line 1: the text is not utf-8"), (b"a\nb\0\n", r"line 2: .*NUL")])
def test_standard_input_is_checked_as_files_are(monkeypatch, said, words):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said)))
    with pytest.raises(InputError, match=words):
        rows_of("-")


def test_half_a_character_is_named():
    with pytest.raises(InputError, match=r"line 3: .*lone surrogate"):
        take_text({"text": "\ud83d"}, Columns(), "a.jsonl", 3)


@pytest.mark.parametrize(("given", "meant"), [("\\t", "\t"), ("tab", "\t"), (";", ";")])
def test_a_delimiter_is_one_character(given, meant):
    assert Columns(delimiter=given).delimiter == meant
    with pytest.raises(InputError, match="one character"):
        Columns(delimiter=";;")


@pytest.mark.parametrize(("row", "columns", "words"), [
    ({"texts": "x"}, {}, "no column 'text', did you mean texts.*--text-column names one of texts"),
    ({"text": ["x"]}, {}, "holds list, not text"), ({"text": "x"}, {"pair_column": "b"}, "--pair-column"),
])
def test_a_text_that_is_not_there_is_named(row, columns, words):
    with pytest.raises(InputError, match="a.csv, line 7: .*" + words):
        take_text(row, Columns(**columns), "a.csv", 7)


@pytest.mark.parametrize(("value", "words"), [("", "is empty"), (None, "is empty"), (1.5, "not a name"), (["a"], "not a name")])
def test_a_label_that_is_none_is_named(value, words):
    with pytest.raises(InputError, match=words):
        take_label({"label": value}, Columns(), "a.csv", 2)


def test_labels_are_in_order_and_unknown_ones_named():
    assert Labels.found_in(["b", "a", "b"], "x").names == ["a", "b"]
    assert Labels.found_in(["10", "9", "1"], "x").names == ["1", "9", "10"]
    with pytest.raises(InputError, match="needs two"):
        Labels.found_in(["a", "a"], "x")
    with pytest.raises(InputError, match=r"dev\.csv, line 3: the label 'fabel' is not in the training rows, did you mean fable"):
        Labels(["fable", "tale"]).id_of("fabel", "dev.csv", 3)


def test_a_tenth_of_each_label_is_held_out():
    ids = np.array([0] * 100 + [1] * 10 + [2] * 2 + [3])
    held = hold_out(ids, np.arange(113), 0.1, seed=0)
    assert np.bincount(ids[held], minlength=4).tolist() == [10, 1, 1, 0]
    np.testing.assert_array_equal(held, hold_out(ids, np.arange(113), 0.1, seed=0))


def test_texts_are_cut_as_transformers_cuts_them(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    peer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"),
                                                model_input_names=["input_ids", "token_type_ids", "attention_mask"])
    words = "the fox and the wolf ran over a hill to see the lion who was there".split()
    draws = np.random.default_rng(0)

    def text():
        return " ".join(draws.choice(words, int(draws.integers(1, 30))))

    for _ in range(150):
        length, single, pair = int(draws.integers(5, 40)), text(), (text(), text())
        for value in (single, pair):
            item = TextEncoder(tokenizer, length, limit=512)([value])[0]
            both = value if isinstance(value, tuple) else (value,)
            expected = peer(*both, truncation="longest_first", max_length=length)
            assert item.input_ids.tolist() == expected["input_ids"], (value, length)
            assert item.segment_ids.tolist() == expected["token_type_ids"]


def test_what_is_cut_is_reported(tokenizer):
    encoder = TextEncoder(tokenizer, 8, limit=512)
    encoder(["the fox", "the fox and the wolf ran over the hill", "the " * 30])
    assert encoder.report() == "2 of 3 texts (66.7%) cut at 8 tokens; --max-length 16 would cut 33.3%"
    assert TextEncoder(tokenizer, 8, limit=512).report() is None
    at_limit = TextEncoder(tokenizer, 8, limit=8)
    at_limit(["the " * 30])
    assert at_limit.report() == "1 of 1 texts (100.0%) cut at 8 tokens, the model's limit"


@given(st.lists(st.integers(2, 40), min_size=1, max_size=40), st.integers(1, 9))
def test_batches_by_length_hold_every_text_once(lengths, batch_size):
    items = [plain_sequence(np.full(n, i), np.zeros(n, dtype=np.int64)) for i, n in enumerate(lengths)]
    seen = []
    for numbers, batch in length_batches(items, batch_size=batch_size, pad_id=0):
        assert len(numbers) <= batch_size
        assert batch.input_ids.flatten()[batch.first_positions].tolist() == numbers
        seen += numbers
    assert sorted(seen) == list(range(len(lengths)))


def test_kept_tokens_of_a_short_text_are_all():
    assert kept_tokens(np.array([0, 0, 0]), 5).tolist() == [0, 1, 2]


def test_figures_are_scikit_learns():
    from sklearn import metrics

    draws = np.random.default_rng(0)
    true, predicted = draws.integers(4, size=200), draws.integers(4, size=200)
    figures = classification_metrics(predicted, true)
    assert figures == pytest.approx({
        "accuracy": metrics.accuracy_score(true, predicted), "macro_f1": metrics.f1_score(true, predicted, average="macro"),
        "weighted_f1": metrics.f1_score(true, predicted, average="weighted"), "matthews": metrics.matthews_corrcoef(true, predicted)})
    matrix = confusion(predicted, true, 4)
    np.testing.assert_array_equal(matrix, metrics.confusion_matrix(true, predicted))
    expected = metrics.precision_recall_fscore_support(true, predicted)
    for i, name in enumerate("abcd"):
        assert list(per_class(matrix, list("abcd"))[name].values()) == pytest.approx([part[i] for part in expected])
    assert json.dumps(matrix)
