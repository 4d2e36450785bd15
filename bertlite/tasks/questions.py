"""Questions with their passages and true answers: rows in, of SQuAD's files or of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from bertlite.corpus.rows import Row
from bertlite.errors import InputError
from bertlite.tasks.readers import Columns, column_of, from_json, text_of
from bertlite.tasks.task import shown


class Answer(NamedTuple):
    """A true answer and its first character in the passage."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question with its passage and true answers; `answers` is empty where there is none, None where they are not read."""

    question: str
    context: str
    answers: tuple[Answer, ...] | None = None


def take_question(row: Row, columns: Columns, where: str, line: int, *, labelled: bool) -> Question:
    """Return a row's question, passage and answers; raises InputError for an answer beyond the passage's end."""
    question = text_of(row, columns.text_column, "text", where, line)
    context = text_of(row, columns.pair_column or "context", "pair", where, line)
    if not labelled:
        return Question(question, context)
    if row.get("is_impossible") in (True, "True", "true"):  # a csv holds texts
        return Question(question, context, ())
    answers = []
    for text, start in _answers(column_of(row, columns.label_column, "label", where, line), where, line):
        if not 0 <= start <= len(context) - len(text):
            raise InputError(f"the answer {shown(text)!r} at character {start} is not within the passage, which has "
                             f"{len(context)}", where=where, line=line)
        answers.append(Answer(text, start))
    return Question(question, context, tuple(a for a in answers if a.text))


def _answers(value: Any, where: str, line: int) -> list[tuple[str, int]]:
    """Return (text, start) of answers as SQuAD's files have them, or as lists of texts and starts."""
    value = from_json(value)
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, (list, tuple)) or not isinstance(starts, (list, tuple)) or len(texts) != len(starts):
            raise InputError("answers must have as many texts as starts", where=where, line=line)
        value = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if value is None or value == "" or value != value:
        return []
    if not isinstance(value, (list, tuple)):
        raise InputError(f"the answers are a {type(value).__name__}, not a list", where=where, line=line,
                         remedy='JSON such as [{"text": "fox", "answer_start": 4}]')
    found = []
    for answer in value:
        text, start = (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (None, None)
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            raise InputError(f"the answer {answer!r} has no text with a whole number as answer_start", where=where, line=line)
        found.append((text, start))
    return found


def is_in_place(item: Question) -> bool:
    """Return whether a question's first answer is where it is said to be."""
    assert item.answers
    text, start = item.answers[0]
    return item.context[start : start + len(text)] == text


def true_answers(item: Question) -> list[str]:
    """Return the texts of a question's true answers."""
    return [answer.text for answer in item.answers or ()]
