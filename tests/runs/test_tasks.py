"""finetune, predict, evaluate and embed from end to end."""

import csv
import io
import json

import numpy as np
import pytest

from bertlite import InputError, Predictor, Stopped, embed, evaluate, finetune, predict, pretrain
from tests.runs.test_pretrain import sha, stop_after

ROWS = [{"id": i, "text": text, "label": label} for i, (text, label) in enumerate(
    [(f"the fox number {i} ran over the hill", "fox") for i in range(20)]
    + [(f"a wolf number {i} slept in the wood", "wolf") for i in range(20)])]
SETTINGS = dict(device="cpu", precision="fp32", threads=1, quiet=True, learning_rate=3e-3, batch_size=8)


@pytest.fixture(scope="module")
def model(corpus, tmp_path_factory):
    return pretrain(corpus=corpus, out=tmp_path_factory.mktemp("model") / "run", preset="tiny", vocab_size=300, language="en", max_steps=2,
                    phases=("32x8",), precision="fp32", threads=1, quiet=True)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "kinds.csv"
    with open(path, "w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, ["id", "text", "label"])
        writer.writeheader()
        writer.writerows(ROWS)
    return path


@pytest.fixture(scope="module")
def tuned(model, table, tmp_path_factory):
    return finetune(model=model, train=table, out=tmp_path_factory.mktemp("tuned") / "kinds", epochs=12.0, **SETTINGS)


def test_it_learns_and_names_its_labels(tuned):
    results = json.loads((tuned / "results.json").read_text())
    assert results["metrics"]["accuracy"] == 1.0 and results["labels"] == ["fox", "wolf"]
    assert json.loads((tuned / "config.json").read_text())["id2label"] == {"0": "fox", "1": "wolf"}
    answer = Predictor.from_pretrained(tuned, device="cpu").predict(["the fox number 5 ran", "a wolf number 7 slept in the wood"])
    assert [a["label"] for a in answer] == ["fox", "wolf"]
    assert answer[0]["score"] == pytest.approx(max(answer[0]["scores"].values())) and sum(answer[0]["scores"].values()) == pytest.approx(1)


def test_a_tenth_is_held_out_and_written_down(tuned):
    held = json.loads((tuned / "held_out.json").read_text())
    assert len(held["lines"]) == 4 and held["file"].endswith("kinds.csv")
    assert (tuned / "report.html").exists() and "fox" in (tuned / "report.html").read_text()


def test_several_seeds_give_mean_and_deviation(model, tmp_path):
    out = finetune(model=model, train=ROWS, out=tmp_path / "run", seeds=(1, 2, 3), max_steps=6, **SETTINGS)
    results = json.loads((out / "results.json").read_text())
    figures = [trial["metrics"]["accuracy"] for trial in results["trials"]]
    assert results["mean"]["accuracy"] == pytest.approx(np.mean(figures)) and results["sd"]["accuracy"] == pytest.approx(np.std(figures, ddof=1))
    assert sha(out) == sha(out / results["best"])
    page = (out / "report.html").read_text()
    assert "Curves" in page and "mean (sd)" in page


def test_the_best_checkpoint_is_kept_and_patience_ends_it(model, tmp_path):
    out = finetune(model=model, train=ROWS, out=tmp_path / "run", epochs=40.0, eval_steps=5, **SETTINGS, **{"selection.patience": 3})
    from bertlite.training.log import MetricsLog

    validation = MetricsLog(out / "metrics.jsonl").read("validation")
    assert len(validation) < 40 and json.loads((out / "results.json").read_text())["metrics"]["accuracy"] == max(e["accuracy"] for e in validation)


def test_a_stopped_fine_tuning_goes_on_to_the_same_bits(model, table, tmp_path):
    settings = dict(model=model, train=table, max_steps=10, eval_steps=2, **SETTINGS)
    whole = finetune(out=tmp_path / "whole", **settings)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stopped):
            finetune(out=tmp_path / "stopped", **settings)
    assert sha(finetune(out=tmp_path / "stopped", resume=True)) == sha(whole)


def test_rows_given_in_python_are_given_again(model, tmp_path):
    settings = dict(model=model, max_steps=10, eval_steps=2, **SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stopped):
            finetune(out=tmp_path / "run", train=ROWS, **settings)
    with pytest.raises(InputError, match="give the same rows again"):
        finetune(out=tmp_path / "run", resume=True)
    assert finetune(out=tmp_path / "run", train=ROWS, resume=True) == tmp_path / "run"


def test_pairs_have_two_segments(model, tmp_path):
    rows = [{"a": "the fox", "b": f"ran {i}", "same": str(i % 2)} for i in range(20)]
    out = finetune(model=model, train=rows, text_column="a", pair_column="b", label_column="same", out=tmp_path / "run", max_steps=2, **SETTINGS)
    predictor = Predictor.from_pretrained(out, device="cpu")
    assert predictor.columns.pair_column == "b"
    assert set(predictor.texts([("the fox", "ran")])[0].segment_ids.tolist()) == {0, 1}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_predict_keeps_every_row_and_column(tuned, table, tmp_path, suffix):
    output = tmp_path / f"out.{suffix}"
    assert predict(model=tuned, input=table, output=output, quiet=True) == 40
    rows = read(output)
    assert [str(row["id"]) for row in rows] == [str(i) for i in range(40)]
    assert list(rows[0]) == ["id", "text", "label", "predicted_label", "predicted_score", "predicted_score_fox", "predicted_score_wolf"]
    assert all(row["predicted_label"] == row["label"] for row in rows)


def read(path):
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with open(path, newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t" if path.suffix == ".tsv" else ","))


def test_predict_from_standard_input_to_standard_output(tuned, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the fox number 1 ran\n\na wolf number 7 slept in the wood\n")))
    predict(model=tuned, input="-", output="-", quiet=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == ["the fox number 1 ran", "", "a wolf number 7 slept in the wood"]
    assert (rows[0]["label"], rows[2]["label"]) == ("fox", "wolf")


def test_evaluate_scores_labelled_rows(tuned, table):
    figures = evaluate(model=tuned, input=table, quiet=True)
    assert figures["rows"] == 40 and figures["accuracy"] == 1.0 and figures["confusion"] == [[20, 0], [0, 20]]


@pytest.mark.parametrize("suffix", ["npy", "parquet", "jsonl"])
def test_embed_gives_as_many_rows_as_came_in(tuned, table, tmp_path, suffix, monkeypatch):
    from bertlite.runs import embed as module

    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    output = tmp_path / f"out.{suffix}"
    assert embed(model=tuned, input=table, output=output, id_column="id", quiet=True) == 40
    if suffix == "npy":
        vectors = np.load(output)
    else:
        rows = read(output)
        assert [int(row["id"]) for row in rows] == list(range(40))
        vectors = np.array([row["embedding"] for row in rows])
    from bertlite import Embedder

    np.testing.assert_allclose(vectors, Embedder.from_pretrained(tuned, device="cpu").encode([row["text"] for row in ROWS]), atol=1e-5)
    if suffix == "parquet":
        import pyarrow.parquet

        assert str(pyarrow.parquet.read_schema(output).field("embedding").type) == "fixed_size_list<element: float>[128]"


def test_embed_words_has_a_row_a_word(tuned, table, tmp_path):
    embed(model=tuned, input=table, output=tmp_path / "out.jsonl", level="word", quiet=True)
    first = [row for row in read(tmp_path / "out.jsonl") if row["row"] == 0]
    assert [row["word"] for row in first] == ROWS[0]["text"].split()
    assert all(ROWS[0]["text"][row["start"] : row["end"]] == row["word"] for row in first)


@pytest.mark.parametrize(("change", "words"), [
    ({"train": "nowhere.csv"}, "there is no such file"), ({"model": "nowhere"}, "not a model directory"),
    ({"label_column": "kind"}, "--label-column names one of id, text, label"), ({"batch_size": 0}, "--batch-size must be positive"),
    ({"max_length": 1000}, "between 3 and the model's 512"), ({"selection.metric": "f2"}, "is not a figure of classification; one of accuracy"),
    ({"validation": [{"text": "x", "label": "bear"}]}, "the label 'bear' is not in the training rows"), ({"train": []}, "there are no rows"),
])
def test_what_cannot_be_is_refused(model, table, tmp_path, change, words):
    with pytest.raises(InputError, match=words):
        finetune(**({"model": model, "train": table, "out": tmp_path / "run", "max_steps": 1} | SETTINGS | change))


def test_an_output_that_is_there_is_not_replaced_unasked(tuned, table, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    with pytest.raises(InputError, match="--overwrite replaces it"):
        predict(model=tuned, input=table, output=tmp_path / "out.csv", quiet=True)
    assert (tmp_path / "out.csv").read_text() == "mine"


def test_an_error_half_way_leaves_no_output(tuned, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"text": "x"}\n{"tex": "y"}\n')
    with pytest.raises(InputError, match=r"bad\.jsonl, line 2"):
        predict(model=tuned, input=tmp_path / "bad.jsonl", output=tmp_path / "out.csv", quiet=True)
    assert {p.name for p in tmp_path.iterdir()} == {"bad.jsonl"}


def test_a_pretrained_model_is_no_classifier(model, table):
    with pytest.raises(InputError, match="the model was not fine-tuned for a task"):
        predict(model=model, input=table, output="-", quiet=True)
