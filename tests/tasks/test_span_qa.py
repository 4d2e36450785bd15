"""Questions: files, windows, answers mapped back to characters, and the threshold of no answer."""

import json

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertlite.errors import InputError
from bertlite.formats.huggingface import read_config, read_tokenizer
from bertlite.objectives.spans import END, START
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.predictor import Predictor, usual_columns
from bertlite.tasks.questions import Answer, Question
from bertlite.tasks.readers import Columns
from bertlite.tasks.span_metrics import answer_scores
from bertlite.tasks.span_qa import Candidate, Found, SpanQA
from bertlite.tasks.task import Examples, read_examples, run_task
from bertlite.tasks.texts import TextEncoder

COLUMNS = usual_columns("span-qa", Columns())
CONTEXT = "The fox ran over the hill. 狐狸跑了 in 1786, and the Élan of the wolf was not seen again by anyone."


def task_of(tiny_model, *, length=24, threshold=0.0, **head):
    config, _ = read_config(tiny_model)
    tokenizer, _ = read_tokenizer(tiny_model)
    task = SpanQA(TextEncoder(tokenizer, length, limit=config.max_positions), HeadSettings(**head), threshold)
    model = task.make_model(config)
    model.initialise(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)) * 0.3)
    return task, model.eval()


def examples_of(*items):
    return Examples(list(items), list(range(1, len(items) + 1)), "questions.json")


def squad(questions, context=CONTEXT):
    return {"version": "v2.0", "data": [{"title": "T", "paragraphs": [{"context": context, "qas": questions}]}]}


def question(number, text, start, **more):
    return {"id": f"q{number}", "question": "What ran?", "answers": [{"text": text, "answer_start": start}], **more}


def test_labels_stand_on_the_answers_tokens_in_the_windows_that_hold_it_whole(tiny_model):
    task, _ = task_of(tiny_model)
    start = CONTEXT.index("Élan of the wolf")
    examples = examples_of(Question("What?", CONTEXT, (Answer("Élan of the wolf", start),)), Question("Who?", CONTEXT, ()))
    windows = task.windows(examples, labelled=True)
    assert windows.owners.count(0) > 1  # the passage is longer than the model
    held = 0
    for item, owner, place in zip(windows.items, windows.owners, windows.places, strict=True):
        begin, end = np.flatnonzero(item.token_labels & START), np.flatnonzero(item.token_labels & END)
        assert len(begin) == len(end) == 1 and len(item) <= 24
        if begin[0] == 0:
            assert end[0] == 0
        else:
            held += 1
            assert owner == 0
            first, last = place.offsets[begin[0] - 1, 0], place.offsets[end[0] - 1, 1]
            assert CONTEXT[first:last] == "Élan of the wolf"
    assert held >= 1


@pytest.mark.parametrize("length", [16, 24, 60])
def test_answers_are_characters_of_the_passage(tiny_model, length):
    task, model = task_of(tiny_model, length=length, threshold=None)
    (answer,) = Predictor(task, model).predict([("What ran?", CONTEXT)])
    assert answer["answer"] == CONTEXT[answer["start"] : answer["end"]] != ""
    for best in answer["n_best"]:
        assert CONTEXT[best["start"] : best["end"]] == best["answer"]
    scores = [best["score"] for best in answer["n_best"]]
    assert scores == sorted(scores, reverse=True) and sum(scores) == pytest.approx(1, abs=1e-5)


CONTEXTS = st.lists(st.sampled_from(["the fox", "😀", "e\u0301", "狐狸", "\t", "x" * 200, " ", "\n", "U.S.", "\u200b"]) | st.text(max_size=5), max_size=9)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30), CONTEXTS.map("".join))
def test_any_passage_has_its_answers_in_it(tiny_model, asked, context):
    if any("\ud800" <= c <= "\udfff" or c == "\0" for c in asked + context):
        return
    if tiny_model not in _CACHE:
        _CACHE[tiny_model] = task_of(tiny_model, threshold=None)
    (answer,) = Predictor(*_CACHE[tiny_model]).predict([(asked, context)])
    if answer["answer"]:
        assert context[answer["start"] : answer["end"]] == answer["answer"]
    else:
        assert answer["start"] is None


_CACHE = {}


def test_the_longest_answer_is_kept_to(tiny_model):
    task, model = task_of(tiny_model, length=60, threshold=None, max_answer_length=2)
    (found,) = run_task(task, model, examples_of(Question("What?", CONTEXT, ())), device=torch.device("cpu"))
    encoding = task.texts.tokenizer.backend.encode(CONTEXT, add_special_tokens=False)
    for span in found.spans:
        assert sum(begin >= span.start and end <= span.end for begin, end in encoding.offsets) <= 2


@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans(), st.booleans()), min_size=1, max_size=25))
def test_the_threshold_gives_the_largest_f1(rows):
    """Each row: by how much no answer is ahead, whether there is one, and whether the span found is right."""
    items = [Question("q", "yes no", (Answer("yes", 0),) if has else ()) for _, has, _ in rows]
    outputs = [Found("yes" if right else "no", [Candidate(0.0, 0, 3)], float(gap)) for gap, _, right in rows]
    task = SpanQA(texts=None, threshold=0.0)
    tuned = task.tuned(outputs, examples_of(*items))

    def f1(threshold):
        given = ["" if found.no_answer - found.spans[0].score > threshold else found.text for found in outputs]
        return sum(answer_scores(text, [a.text for a in item.answers])[1] for text, item in zip(given, items, strict=True))

    if all(has for _, has, _ in rows):
        assert tuned is task
    else:
        assert f1(tuned.threshold) == max(f1(t) for t in [-9.0, *{float(gap) for gap, _, _ in rows}])


def test_answers_that_are_not_where_they_should_be_are_counted_and_left_out(tiny_model, tmp_path):
    rows = [question(1, "fox", 4), question(2, "fox", 5), {"id": "q3", "question": "Who?", "answers": [], "is_impossible": True}]
    (tmp_path / "a.json").write_text(json.dumps(squad(rows), indent=1, ensure_ascii=False))
    examples = read_examples(SpanQA, tmp_path / "a.json", COLUMNS)
    task, _ = task_of(tiny_model)
    assert set(task.windows(examples, labelled=True).owners) == {0, 2} and set(task.windows(examples, labelled=False).owners) == {0, 1, 2}
    text = (tmp_path / "a.json").read_text().splitlines()
    line = next(n for n, said in enumerate(text, start=1) if '"q2"' in said)
    assert task.says(examples)[1].endswith(f"a.json, line {line})") and "1 answers are not at the place" in task.says(examples)[1]


def test_lists_of_texts_and_starts_are_read_too(tmp_path):
    row = {"id": "1", "question": "What?", "context": CONTEXT, "answers": {"text": ["fox"], "answer_start": [4]}}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    assert read_examples(SpanQA, tmp_path / "a.jsonl", COLUMNS).items == [Question("What?", CONTEXT, (Answer("fox", 4),))]


@pytest.mark.parametrize("start", [-1, 1000])
def test_an_answer_beyond_the_passage_is_refused(tmp_path, start):
    (tmp_path / "a.json").write_text(json.dumps(squad([question(1, "fox", start)]), indent=1))
    with pytest.raises(InputError, match=rf"a.json, line \d+: the answer 'fox' at character {start} is not within the passage"):
        read_examples(SpanQA, tmp_path / "a.json", COLUMNS)


def test_every_question_of_a_large_file_is_in_place(shared):
    examples = read_examples(SpanQA, shared / "qa-zh-drcd" / "DRCD_dev.json", COLUMNS)
    assert len(examples) == 3524 and all(item.answers for item in examples.items)
    assert all(item.context[start : start + len(text)] == text for item in examples.items for text, start in item.answers)
