"""Each task from end to end: fine-tuned, evaluated, predicted from standard input and from files, and its predictions scored."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from bertlite import InputError, Predictor, Stopped, evaluate, finetune, predict
from bertlite.runs.run_directory import read_run
from bertlite.training.log import MetricsLog
from tests.runs.test_pretrain import free_port, stop_after

SETTINGS = dict(device="cpu", precision="fp32", threads=1, quiet=True, learning_rate=3e-3, batch_size=8, max_steps=12)
KINDS = [{"text": f"the {animal} number {i} ran over the hill", "label": animal} for i in range(12) for animal in ("fox", "wolf")]
SEVERAL = [{"text": f"the {a} saw the {b} {i}", "labels": [a, b] if a != b else [a]} for i in range(8) for a in ("fox", "wolf") for b in ("fox", "hen")]
NUMBERS = [{"text": f"a {animal} ran {i}", "label": size + i / 10} for i in range(10) for animal, size in (("fox", 1.0), ("wolf", 4.0))]
TAGS = "".join(f"the\tO\nold\tO\nfox\tB-ANIMAL\nof\tO\nEast\tB-PLACE\nHill\tI-PLACE\n{i}\tO\n\n" for i in range(24))
PASSAGE = "The fox number {} lives in East Hill and the wolf in West Wood."


def squad():
    paragraphs = []
    for i in range(12):
        context = PASSAGE.format(i)
        qas = [{"id": f"{i}-{k}", "question": asked, "answers": [{"text": text, "answer_start": context.index(text)}] if text else [],
                "is_impossible": not text} for k, (asked, text) in enumerate([("Where is the fox?", "East Hill"), ("Where is the hen?", "")])]
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "v2.0", "data": [{"title": "animals", "paragraphs": paragraphs}]}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write(path, text):
    path.write_text(text)
    return path


FILES = {
    "classification": lambda folder: write_rows(folder / "kinds.jsonl", KINDS),
    "multi-label": lambda folder: write_rows(folder / "several.jsonl", SEVERAL),
    "regression": lambda folder: write_rows(folder / "numbers.jsonl", NUMBERS),
    "tagging": lambda folder: write(folder / "words.conll", TAGS),
    "span-qa": lambda folder: write(folder / "questions.json", json.dumps(squad())),
}
MORE = {"multi-label": {"label_column": "labels"}}
FIGURES = {"classification": "accuracy", "multi-label": "micro_f1", "regression": "mse", "tagging": "f1", "span-qa": "f1"}
ASKED = {  # what a user pipes in
    "classification": "the fox ran\na wolf 😀 slept\n", "multi-label": "the fox saw\nthe hen\n", "regression": "a fox\na wolf\n",
    "tagging": "the old fox of East Hill 😀\n\n狐狸\n", "span-qa": json.dumps({"question": "Where is the fox?", "context": PASSAGE.format("é")}) + "\n",
}


@pytest.fixture(scope="module", params=list(FILES))
def tuned(request, tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    file = FILES[request.param](folder)
    out = finetune(model=tiny_model, train=file, task=request.param, out=folder / "run", **SETTINGS, **MORE.get(request.param, {}))
    return request.param, file, out


def same(ours, theirs):
    """Return the figures that both hold, for comparison."""
    names = [name for name, value in ours.items() if isinstance(value, float) and name in theirs]
    assert names
    return [ours[name] for name in names], [theirs[name] for name in names]


def test_evaluate_gives_the_figures_of_training_again(tuned, tmp_path):
    task, file, out = tuned
    held = json.loads((out / "held_out.json").read_text())["lines"]
    figures = evaluate(model=out, input=file, quiet=True)
    assert figures["task"] == task and FIGURES[task] in figures and len(held) < figures["rows"]
    if file.suffix == ".jsonl":
        lines = file.read_text().splitlines()
        part = write(tmp_path / file.name, "\n".join(lines[n - 1] for n in held) + "\n")
        np.testing.assert_allclose(*same(evaluate(model=out, input=part, quiet=True), json.loads((out / "results.json").read_text())["metrics"]),
                                   rtol=1e-5)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", "same"])
def test_predictions_are_scored_again(tuned, tmp_path, suffix):
    task, file, out = tuned
    output = tmp_path / f"predicted{'.conll' if suffix == 'same' and task == 'tagging' else '.tsv' if suffix == 'same' else suffix}"
    expected = evaluate(model=out, input=file, quiet=True)
    assert predict(model=out, input=file, output=output, quiet=True) == expected["rows"]
    again = evaluate(model=out, input=output, predicted=True, quiet=True)
    np.testing.assert_allclose(*same(expected, again), rtol=1e-4, atol=1e-6)


def test_from_standard_input_to_standard_output(tuned, monkeypatch, capsys):
    task, _, out = tuned
    said = ASKED[task]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said.encode())))
    predict(model=out, input="-", output="-", quiet=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    lines = said.splitlines()
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        given = json.loads(line) if line.startswith("{") else {"text": line}
        assert {name: row[name] for name in given} == given
        for entity in row.get("entities", []):
            assert row["text"][entity["start"] : entity["end"]] == entity["word"]
        if row.get("answer"):
            assert row["context"][row["start"] : row["end"]] == row["answer"]
    keys = {"classification": {"label", "score", "score_fox"}, "multi-label": {"labels", "score_hen"}, "regression": {"value"},
            "tagging": {"tags", "scores", "words", "offsets", "entities"}, "span-qa": {"answer", "score", "start", "end", "no_answer_score"}}
    assert keys[task] <= rows[0].keys()


def test_many_rows_make_one_parquet_whatever_they_hold(tuned, tmp_path, monkeypatch):
    from bertlite.runs import tables

    _task, file, out = tuned
    monkeypatch.setattr(tables, "PARQUET_ROWS", 5)
    expected = evaluate(model=out, input=file, quiet=True)["rows"]
    assert predict(model=out, input=file, output=tmp_path / "a.parquet", quiet=True) == expected
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(tmp_path / "a.parquet").num_rows == expected


def test_predictions_without_truth_are_not_scored(tuned, tmp_path):
    task, _, out = tuned
    rows = [json.loads(line) if line.startswith("{") else {"text": line} for line in ASKED[task].splitlines()]
    predict(model=out, input=rows, output=tmp_path / "a.jsonl", quiet=True)
    with pytest.raises(InputError):
        evaluate(model=out, input=tmp_path / "a.jsonl", predicted=True, quiet=True)


def test_predictions_of_predictions_have_names_of_their_own(tuned, tmp_path):
    task, file, out = tuned
    predict(model=out, input=file, output=tmp_path / "a.jsonl", quiet=True)
    predict(model=out, input=tmp_path / "a.jsonl", output=tmp_path / "b.jsonl", quiet=True)
    predict(model=out, input=tmp_path / "b.jsonl", output=tmp_path / "c.jsonl", quiet=True)
    assert any(name.startswith("predicted_2_") or task not in ("classification", "tagging") for name in json.loads((tmp_path / "c.jsonl").read_text().splitlines()[0]))
    np.testing.assert_allclose(*same(evaluate(model=out, input=file, quiet=True), evaluate(model=out, input=tmp_path / "c.jsonl", predicted=True, quiet=True)),
                               rtol=1e-4, atol=1e-6)


def test_the_input_is_not_written_over(tuned):
    _, file, out = tuned
    before = file.read_bytes()
    with pytest.raises(InputError, match="is the input, and would be written over"):
        predict(model=out, input=file, output=file, overwrite=True, quiet=True)
    assert file.read_bytes() == before


def test_other_rows_are_refused_on_a_resume(tiny_model, tmp_path):
    file = write_rows(tmp_path / "kinds.jsonl", KINDS)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stopped):
            finetune(model=tiny_model, train=file, out=tmp_path / "run", folds=2, **SETTINGS)
    write_rows(file, KINDS[::-1])
    with pytest.raises(InputError, match="is not the file the run began with, as --train"):
        finetune(out=tmp_path / "run", resume=True)
    write_rows(file, KINDS)
    finetune(out=tmp_path / "run", resume=True)


def test_regression_takes_the_same_course_at_any_scale(tiny_model, tmp_path):
    mses, spearmans = [], []
    for scale in (2.0**-12, 1.0, 2.0**20):
        rows = [row | {"label": row["label"] * scale} for row in NUMBERS]
        out = finetune(model=tiny_model, train=rows, validation=rows, task="regression", out=tmp_path / f"run-{scale}", **SETTINGS)
        metrics = json.loads((out / "results.json").read_text())["metrics"]
        mses.append(metrics["mse"] / scale**2)
        spearmans.append(metrics["spearman"])
        assert evaluate(model=out, input=rows, quiet=True)["mse"] == pytest.approx(metrics["mse"])  # without knowing the scale
    assert mses == pytest.approx([mses[0]] * 3, rel=1e-5) and spearmans == pytest.approx([spearmans[0]] * 3, abs=1e-9)


def test_the_page_and_the_card_tell_of_it(tuned):
    task, _, out = tuned
    page, card = (out / "report.html").read_text(), (out / "README.md").read_text()
    assert "Validation, with the model that was kept" in page and "Lengths" in page and FIGURES[task] in card
    assert ("Calibration" in page) == (task == "classification") and ("Each class" in page) == (task in ("classification", "multi-label", "tagging"))


def test_columns_of_words_come_back_with_a_tag_and_a_probability(tiny_model, tmp_path):
    file = write(tmp_path / "words.conll", TAGS)
    out = finetune(model=tiny_model, train=file, out=tmp_path / "run", **(SETTINGS | {"max_steps": 40}))
    predict(model=out, input=file, output=tmp_path / "out.conll", quiet=True)
    rows = [line.split("\t") for line in (tmp_path / "out.conll").read_text().splitlines() if line]
    assert [row[:2] for row in rows] == [line.split("\t") for line in TAGS.splitlines() if line]
    assert {row[2] for row in rows} <= {"O", "B-ANIMAL", "I-ANIMAL", "B-PLACE", "I-PLACE"} and all(0 <= float(row[3]) <= 1 for row in rows)
    assert np.mean([row[1] == row[2] for row in rows]) > 0.9
    long = write(tmp_path / "long.conll", "".join(f"{'fox' if i % 7 else 'x' * 120}\n" for i in range(2000)) + "\n" + "a\n" * 2500)
    predict(model=out, input=long, output=tmp_path / "long-out.conll", quiet=True)
    words = [line.split("\t")[0] for line in (tmp_path / "long-out.conll").read_text().splitlines() if line]
    assert words == [line for line in long.read_text().splitlines() if line]
    (answer,) = Predictor.from_pretrained(out, device="cpu").predict([["the", "old", "fox"]])
    assert len(answer["tags"]) == 3 and "words" not in answer


def test_questions_come_back_as_the_official_file(tiny_model, tmp_path):
    file = FILES["span-qa"](tmp_path)
    out = finetune(model=tiny_model, train=file, out=tmp_path / "run", **SETTINGS)
    predict(model=out, input=file, output=tmp_path / "answers.json", quiet=True)
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert len(answers) == 24 and set(map(type, answers.values())) == {str}
    predict(model=out, input=file, output=tmp_path / "rows.jsonl", n_best=3, quiet=True)
    assert all(len(json.loads(line)["n_best"]) <= 3 for line in (tmp_path / "rows.jsonl").read_text().splitlines())
    held = json.loads((out / "held_out.json").read_text())["lines"]
    assert len(held) % 2 == 0  # both questions of a passage


def test_folds_give_mean_and_deviation_and_hold_each_row_out_once(tiny_model, tmp_path):
    out = finetune(model=tiny_model, train=KINDS, out=tmp_path / "run", folds=3, **SETTINGS)
    results, held = json.loads((out / "results.json").read_text()), json.loads((out / "held_out.json").read_text())["folds"]
    assert sorted(line for fold in held for line in fold) == list(range(1, 25)) and [len(fold) for fold in held] == [8, 8, 8]
    figures = [trial["metrics"]["accuracy"] for trial in results["trials"]]
    assert results["mean"]["accuracy"] == pytest.approx(np.mean(figures)) and results["best"] in ("fold-1", "fold-2", "fold-3")
    assert (out / results["best"] / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    assert (out / results["best"] / "bertlite.json").read_bytes() == (out / "bertlite.json").read_bytes()


def test_long_texts_are_read_whole_or_from_both_ends(tiny_model, tmp_path):
    rows = [{"text": "the hill " * 40 + animal, "label": animal} for animal in ("fox", "wolf")] * 10
    accuracy = {}
    for way in ("cut", "head-tail", "windows"):
        out = finetune(model=tiny_model, train=rows, validation=rows[:4], out=tmp_path / way, long_texts=way, max_length=24,
                       **(SETTINGS | {"max_steps": 60}))
        accuracy[way] = json.loads((out / "results.json").read_text())["metrics"]["accuracy"]
        assert evaluate(model=out, input=rows[:4], quiet=True)["accuracy"] == accuracy[way]
    assert accuracy["cut"] == 0.5 and accuracy["head-tail"] == 1.0


def test_settings_of_another_task_are_refused(tiny_model, tmp_path):
    for change, words in (({"head.kind": "crf"}, "--head.kind is not for --task classification"), ({"overlap": 4}, "--overlap is for windows"),
                          ({"folds": 1}, "--folds must be at least 2"), ({"folds": 50}, "--folds 50 is more than there are rows"),
                          ({"transfer.freeze_layers": 3}, "more than the model's 2 layers"),
                          ({"head.class_weights": ("bear=2",)}, "'bear=2' is not balanced, nor a label")):
        with pytest.raises(InputError, match=words):
            finetune(model=tiny_model, train=KINDS, out=tmp_path / "run", **SETTINGS, **change)


def test_numbers_as_classes_are_announced(tiny_model, tmp_path, capsys):
    rows = [{"text": f"x {i}", "label": i % 2} for i in range(10)]
    finetune(model=tiny_model, train=rows, out=tmp_path / "run", **(SETTINGS | {"quiet": False, "max_steps": 1}))
    assert "the labels are numbers, taken as names of classes; --task regression" in capsys.readouterr().err


def test_the_task_is_found_out_from_the_file(tiny_model, tmp_path):
    out = finetune(model=tiny_model, train=write(tmp_path / "w.iob2", TAGS), out=tmp_path / "run", **SETTINGS)
    assert read_run(out)["resolved"]["task"] == "tagging"


@pytest.mark.parametrize("change", [{"head.class_weights": ("balanced",)}, {"head.class_weights": ("fox=3",)}, {"head.label_smoothing": 0.1},
                                    {"transfer.layer_decay": 0.8, "transfer.head_learning_rate": 1e-3}, {"transfer.redraw_layers": 1}])
def test_other_ways_to_learn_learn_too(tiny_model, tmp_path, change):
    out = finetune(model=tiny_model, train=KINDS, validation=KINDS, out=tmp_path / "run", **(SETTINGS | {"max_steps": 80}), **change)
    assert json.loads((out / "results.json").read_text())["metrics"]["accuracy"] > 0.9


LAUNCH = """
import json, sys
from bertlite import finetune
model, file, out, task = sys.argv[1:]
finetune(model=model, train=file, validation=file, task=task, out=out, device="cpu", precision="fp32", threads=1, batch_size=7, max_steps=6,
         eval_steps=3, log_steps=2, dropout=0.0, quiet=True, **{"head.kind": "crf" if task == "tagging" else "softmax"})
"""


@pytest.mark.parametrize("task", ["tagging", "regression"])
def test_two_processes_learn_as_one(tiny_model, tmp_path, task):
    file = FILES[task](tmp_path)
    (tmp_path / "launch.py").write_text(LAUNCH)
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(free_port())]
    for name, start in (("two", launcher), ("one", [sys.executable])):
        subprocess.run([*start, str(tmp_path / "launch.py"), str(tiny_model), str(file), str(tmp_path / name), task], check=True, env=environment,
                       timeout=300)
    one, two = (MetricsLog(tmp_path / name / "metrics.jsonl").read() for name in ("one", "two"))
    assert len(one) == len(two) == 5
    for a, b in zip(one, two, strict=True):
        assert {k: v for k, v in a.items() if k.endswith("_loss") or k in FIGURES.values()} == pytest.approx(
            {k: v for k, v in b.items() if k.endswith("_loss") or k in FIGURES.values()}, rel=1e-4)
