"""Wrong files for each task: one sentence that names file and line, exit code 2, no traceback, nothing written."""

import json

import pytest

from bertlite.cli import run

ROWS = '{"text": "the fox", "label": "a"}\n{"text": "the wolf", "label": "b"}\n'
CSV = "text,label\nthe fox,a\nthe wolf,b\n"
TEXTS = [  # of classification: (file, content, flags, words)
    ("a.csv", "", [], "a.csv: there are no rows"), ("a.csv", "text,label\n", [], "a.csv: there are no rows"),
    ("a.csv", "texts,label\nx,a\n", [], "a.csv, line 2: there is no column 'text', did you mean texts"),
    ("a.csv", CSV, ["--label-column", "kind"], "a.csv, line 2: there is no column 'kind'"),
    ("a.csv", CSV, ["--pair-column", "other"], "a.csv, line 2: there is no column 'other'"),
    ("a.csv", "text,label\nx,a\ny\n", [], "a.csv, line 3"), ("a.csv", "text,label\nx,a,b\n", [], "a.csv, line 2"),
    ("a.csv", "text,label\nx,\n", [], "a.csv, line 2: the column 'label' is empty"), ("a.csv", "text,label\nx,a\ny,a\n", [], "a.csv: the training rows have 1 label"),
    ("a.csv", b"text,label\n\xff\xfe,a\n", [], "a.csv, line 2: the text is not utf-8"), ("a.csv", "text,label\nx\0,a\n", [], "a.csv, line 2: the line holds a NUL"),
    ("a.csv", "text,text\nx,a\n", [], "a.csv, line 1"), ("a.csv", "text,label\nx,a\ny,b\n", [], "there are too few rows to hold some out"),
    ("a.jsonl", ROWS + "{\n", [], "a.jsonl, line 3"), ("a.jsonl", ROWS + "[1]\n", [], "a.jsonl, line 3"), ("a.jsonl", ROWS + '{"text": 3, "label": [1]}\n', [], "a.jsonl, line 3: the label [1] is a list"),
    ("a.jsonl", ROWS + '{"text": ["x"], "label": "a"}\n', [], "a.jsonl, line 3: the column 'text' holds list"), ("a.jsonl", ROWS + '{"text": "x", "label": 1.5}\n', [], "a.jsonl, line 3: the label 1.5"),
    ("a.jsonl", ROWS + '{"text": "\\ud800", "label": "a"}\n', [], "a.jsonl, line 3: the text holds half of a character"), ("a.parquet", "no parquet", [], "a.parquet"),
    ("a.xlsx", "x", [], "a.xlsx: files of kind '.xlsx' are not read"),
]
SEVERAL = '{"text": "x", "labels": ["a", "b"]}\n{"text": "y", "labels": ["b"]}\n{"text": "z", "labels": []}\n'
MULTI = [
    ("a.jsonl", "", [], "a.jsonl: there are no rows"), ("a.jsonl", SEVERAL.replace("labels", "label"), [], "a.jsonl, line 1: there is no column 'labels', did you mean label"),
    ("a.jsonl", SEVERAL + '{"text": "x", "labels": "a b"}\n', [], "a.jsonl, line 4: the labels 'a b' are no JSON list"), ("a.jsonl", SEVERAL + '{"text": "x", "labels": {"a": 1}}\n', [], "a.jsonl, line 4"),
    ("a.jsonl", SEVERAL + '{"text": "x", "labels": [["a"]]}\n', [], "a.jsonl, line 4"), ("a.jsonl", SEVERAL + '{"text": "x", "labels": [""]}\n', [], "a.jsonl, line 4"),
    ("a.jsonl", SEVERAL + '{"text": "x", "labels": 3}\n', [], "a.jsonl, line 4: the labels 3 are no list of names"), ("a.jsonl", SEVERAL + '{"text": "x"}\n', [], "a.jsonl, line 4"),
    ("a.jsonl", SEVERAL + '{"labels": ["a"]}\n', [], "a.jsonl, line 4"), ("a.jsonl", SEVERAL + "{]\n", [], "a.jsonl, line 4"), ("a.jsonl", '{"text": "x", "labels": []}\n', [], "a.jsonl: the training rows have 0 label"),
    ("a.jsonl", '{"text": "x", "labels": ["a"]}\n' * 2, [], "a.jsonl: the training rows have 1 label"), ("a.csv", "text,labels\nx,a\n", [], "a.csv, line 2: the labels 'a' are no JSON list"),
    ("a.csv", 'text,labels\nx,"[""a"""\n', [], "a.csv, line 2"), ("a.csv", "text,labels\nx,a;b;c\n", [], "a.csv"), ("a.csv", "text\nx\n", [], "a.csv, line 2: there is no column 'labels'"),
    ("a.csv", "", [], "a.csv: there are no rows"), ("a.csv", b"text,labels\n\xff,a\n", ["--label-separator", ";"], "a.csv, line 2: the text is not utf-8"),
    ("a.csv", "text,labels\nx,a;b\ny,a,b\n", ["--label-separator", ";", "--delimiter", ","], "a.csv, line 3"), ("a.csv", "text,labels\nx,;\n", ["--label-separator", ";", "--delimiter", ","], "a.csv: the training rows have 0 label"),
]
NUMBERS = "text,label\nx,1\ny,2.5\n"
REGRESSION = [
    ("a.csv", "", [], "a.csv: there are no rows"), ("a.csv", NUMBERS + "z,high\n", [], "a.csv, line 4: the column 'label' holds 'high', not a number"), ("a.csv", NUMBERS + "z,\n", [], "a.csv, line 4"),
    ("a.csv", NUMBERS + "z,nan\n", [], "a.csv, line 4"), ("a.csv", NUMBERS + "z,inf\n", [], "a.csv, line 4"), ("a.csv", NUMBERS + 'z,"3,5"\n', [], "a.csv, line 4: the column 'label' holds '3,5'"),
    ("a.csv", NUMBERS + "z,1,2\n", [], "a.csv, line 4"), ("a.csv", "text,label\nx,1\ny,1\n", [], "a.csv: all numbers are the same"), ("a.csv", "text,score\nx,1\n", [], "a.csv, line 2: there is no column 'label'"),
    ("a.csv", "label\n1\n", [], "a.csv, line 2: there is no column 'text'"), ("a.csv", NUMBERS, ["--pair-column", "other"], "a.csv, line 2: there is no column 'other'"), ("a.csv", NUMBERS, ["--label-column", "2"], "a.csv, line 2"),
    ("a.csv", b"text,label\nx,1\n\x80,2\n", [], "a.csv, line 3: the text is not utf-8"), ("a.csv", "text,label\nx,1\ny\0,2\n", [], "a.csv, line 3"), ("a.jsonl", '{"text": "x", "label": true}\n', [], "a.jsonl, line 1"),
    ("a.jsonl", '{"text": "x", "label": null}\n', [], "a.jsonl, line 1"), ("a.jsonl", '{"text": "x", "label": [1]}\n', [], "a.jsonl, line 1"), ("a.jsonl", '{"text": {}, "label": 1}\n', [], "a.jsonl, line 1"),
    ("a.jsonl", '{"text": "x", "label": 1\n', [], "a.jsonl, line 1"), ("a.tsv", "x\t1\ny\n", ["--no-header", "--text-column", "1", "--label-column", "2"], "a.tsv, line 2"),
]
WORDS = "EU\tB-ORG\nsaid\tO\n\nPeter\tB-PER\n"
TAGGING = [
    ("a.conll", "", [], "a.conll: there are no rows"), ("a.conll", "\n\n\n", [], "a.conll: there are no rows"), ("a.conll", WORDS + "Ada\n", [], "a.conll, line 5: the line has 1 columns, not 2"),
    ("a.conll", WORDS + "Ada\tB-PER\tx\n", [], "a.conll, line 5: the line has 3 columns, not 2"), ("a.conll", WORDS + "Ada\tPER\n", [], "a.conll, line 5: the tag 'PER' is neither O nor a letter and a type"),
    ("a.conll", WORDS + "Ada\tX-PER\n", [], "a.conll, line 5: the tag 'X-PER'"), ("a.conll", WORDS + "Ada\tE-PER\n", ["--scheme", "iob2"], "a.conll, line 5: 'E-PER' is no tag of IOB2"),
    ("a.conll", WORDS + "Ada\tB-\n", [], "a.conll, line 5: the tag 'B-'"), ("a.conll", WORDS + "\tB-PER\n", [], "a.conll, line 5: word 2 is empty"), ("a.conll", WORDS + "Ada\t\n", [], "a.conll, line 5: the tag is empty"),
    ("a.conll", WORDS, ["--label-column", "3"], "a.conll, line 1: there is no column '3'; --label-column takes a number from 1 to 2"), ("a.conll", WORDS, ["--words-column", "word"], "a.conll, line 1: there is no column 'word'"),
    ("a.conll", WORDS, ["--words-column", "2"], "a.conll, line 1: words and tags are in the same column"), ("a.conll", "EU\nsaid\n", [], "a.conll, line 1: words and tags are in the same column"), ("a.conll", "EU\tO\nsaid\tO\n", [], "a.conll: the training words have 1 tag"),
    ("a.conll", b"\xff\tO\n", [], "a.conll, line 1: the text is not utf-8"), ("a.conll", "EU\0\tO\n", [], "a.conll, line 1"), ("a.conllu", "1\tEU\tNOUN\n", [], "a.conllu, line 1: the line has 3 columns, not 10"),
    ("a.jsonl", '{"words": ["EU", "x"], "tags": ["O"]}\n', [], "a.jsonl, line 1: there are 2 words and 1 tags"), ("a.jsonl", '{"words": "EU", "tags": ["O"]}\n', [], "a.jsonl, line 1: the column 'words' is no list of texts"),
    ("a.jsonl", '{"words": ["EU"], "tags": [1]}\n', [], "a.jsonl, line 1: the column 'tags' is no list"), ("a.jsonl", '{"tokens": ["EU"]}\n', [], "a.jsonl, line 1: there is no column 'words'"),
]


def questions(**change):
    question = {"id": "q1", "question": "Who?", "answers": [{"text": "fox", "answer_start": 4}]} | change
    return json.dumps({"data": [{"title": "T", "paragraphs": [{"context": "the fox", "qas": [{k: v for k, v in question.items() if v is not None}]}]}]}, indent=1)


GOOD = {"question": "Who?", "context": "the fox", "answers": [{"text": "fox", "answer_start": 4}]}
MISPLACED = json.dumps({"data": [{"paragraphs": [{"context": c, "qas": [{"id": c, "question": "?", "answers": [{"text": "fox", "answer_start": 3}]}]}]}
                                 for c in ("the fox", "a fox ran")]})
QA = [
    ("a.json", "", [], "a.json, line 1: not valid JSON"), ("a.json", '{"data": [\n{]}', [], "a.json, line 2: not valid JSON"), ("a.json", "[]", [], "a.json, line 1: there is no list of articles"), ("a.json", '{"data": {}}', [], "a.json, line 1: there is no list of articles"),
    ("a.json", '{"data": []}', [], "a.json: there are no rows"), ("a.json", '{"data": [{"title": "x"}]}', [], "a.json: data[0].paragraphs is missing"), ("a.json", '{"data": [{"paragraphs": [{"qas": []}]}]}', [], "a.json: data[0].paragraphs[0].context is missing"),
    ("a.json", '{"data": [{"paragraphs": [{"context": "x", "qas": [1]}]}]}', [], "a.json: data[0].paragraphs[0].qas[0] is not an object"), ("a.json", questions(id=None), [], "a.json, line 1: data[0].paragraphs[0].qas[0].id is missing"),
    ("a.json", questions(id=5), [], "qas[0].id is missing or not a text"), ("a.json", questions(question=None), [], "qas[0].question is missing"), ("a.json", questions(answers="fox"), [], "qas[0].answers is missing or not a list"),
    ("a.json", questions(answers=[{"text": "fox", "answer_start": "4"}]), [], "has no text with a whole number as answer_start"), ("a.json", questions(answers=[{"answer_start": 4}]), [], "has no text"), ("a.json", questions(answers=[{"text": "fox", "answer_start": -1}]), [], "a.json, line 10: the answer 'fox' at character -1 is not within"),
    ("a.json", questions(answers=[{"text": "fox", "answer_start": 99}]), [], "a.json, line 10: the answer 'fox' at character 99 is not within"), ("a.json", questions(is_impossible="no"), [], "qas[0].is_impossible is missing or not true or false"), ("a.json", questions(answers=[]), [], "a.json: no question has an answer"),
    ("a.json", questions(answers=None), [], "a.json, line 10: there is no column 'answers'"), ("a.jsonl", json.dumps(GOOD | {"context": 3.5, "question": ["x"]}) + "\n", ["--task", "span-qa"], "a.jsonl, line 1: the column 'question' holds list"),
    ("a.jsonl", json.dumps(GOOD | {"answers": {"text": ["a"], "answer_start": []}}) + "\n", ["--task", "span-qa"], "a.jsonl, line 1: answers must have as many texts as starts"), ("a.jsonl", json.dumps({k: v for k, v in GOOD.items() if k != "context"}) + "\n", ["--task", "span-qa"], "a.jsonl, line 1: there is no column 'context'"),
    ("a.json", MISPLACED, [], "a.json: no row can be learned from"),
]
CASES = [(task, *case) for task, cases in (("classification", TEXTS), ("multi-label", MULTI), ("regression", REGRESSION), ("tagging", TAGGING), ("span-qa", QA))
         for case in cases]


def refused(arguments, capsys):
    code = run(arguments)
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if line.startswith("bertlite: ")]
    assert code == 2 and len(lines) == 1 and "Traceback" not in said.err and not said.out
    return lines[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}: {case[4][:60]}")
def test_a_wrong_training_file_is_refused(tiny_model, tmp_path, capsys, case):
    task, name, content, flags, words = case
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    labels = ["--label-column", "labels"] if task == "multi-label" else []
    message = refused(["finetune", "--model", str(tiny_model), "--train", str(file), "--out", str(tmp_path / "out"), "--task", task,
                       "--device", "cpu", "--max-steps", "1", "--quiet", *labels, *flags], capsys)
    assert words in message
    assert not (tmp_path / "out" / "model.safetensors").exists() and not list(tmp_path.glob("out/.*partial*"))


def test_there_are_twenty_for_each_task():
    assert all(len(cases) >= 20 for cases in (TEXTS, MULTI, REGRESSION, TAGGING, QA))


@pytest.mark.parametrize(("task", "name", "train", "validation", "words"), [
    ("classification", "v.csv", CSV * 1 + "x,a\ny,b\n", "text,label\nx,a\ny,c\n", "v.csv, line 3: the label 'c' is not in the training rows"),
    ("multi-label", "v.jsonl", SEVERAL, '{"text": "x", "labels": ["a", "c"]}\n', "v.jsonl, line 1: the label 'c' is not in the training rows"),
    ("tagging", "v.conll", WORDS, "Ada\tB-PER\nof\tO\nUr\tB-LOC\n", "v.conll, line 3: the tag 'B-LOC' is not in the training words"),
])
def test_an_unknown_label_in_validation_is_refused(tiny_model, tmp_path, capsys, task, name, train, validation, words):
    (tmp_path / f"train.{name.split('.')[1]}").write_text(train)
    (tmp_path / name).write_text(validation)
    labels = ["--label-column", "labels"] if task == "multi-label" else []
    assert words in refused(["finetune", "--model", str(tiny_model), "--train", str(tmp_path / f"train.{name.split('.')[1]}"), "--validation", str(tmp_path / name),
                             "--out", str(tmp_path / "out"), "--task", task, "--device", "cpu", "--quiet", *labels], capsys)
