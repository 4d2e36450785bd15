"""Question answering: the answer is a span of a passage, or there is none.

Source: Devlin et al. 2019, sec. 4.2 and 4.3, and the released `run_squad.py`: the score of a span is start plus end, that of
no answer the scores of [CLS]; an answer is given where its score is above no answer's by a threshold chosen on validation.
Passages longer than the model are read in windows of whole words; an answer is taken from the window that gives its first
token most context.
Shapes: M labelled positions of a window, [CLS] and the passage's tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import softmax
from torch import nn

from bertlite.corpus.rows import Row
from bertlite.errors import InputError
from bertlite.inputs.batch import BatchItem
from bertlite.model.config import ModelConfig
from bertlite.objectives.spans import END, NEITHER, START, SpanExtractor
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.questions import Answer, Question, is_in_place, take_question, true_answers
from bertlite.tasks.readers import Columns
from bertlite.tasks.span_metrics import answer_scores, span_metrics, writes_by_character
from bertlite.tasks.task import WORST, Examples, Windows, shown
from bertlite.tasks.texts import TextEncoder, word_sizes
from bertlite.tasks.windows import best_windows, cut_windows

QUESTION_SHARE = 1 / 3  # of the length, at most: a longer question loses its end
NUM_BEST = 20  # spans kept of a window and of a question, as in the released code


class Candidate(NamedTuple):
    """A span of the passage, characters from `start` to `end` (not included), and its score."""

    score: float
    start: int
    end: int


@dataclass(frozen=True)
class Found:
    """What was found: the best spans, best first, and the score of there being none."""

    text: str
    """The best span's text."""
    spans: list[Candidate]
    no_answer: float


class Place(NamedTuple):
    """A window's tokens: their first and last characters' places (n, 2), and which of them have most context here."""

    offsets: np.ndarray
    is_best: np.ndarray


@dataclass(frozen=True)
class SpanQA:
    """Questions with a passage each."""

    texts: TextEncoder
    head: HeadSettings = field(default_factory=HeadSettings)
    threshold: float | None = None
    """No answer is given where its score exceeds the best span's by more; None: there always is an answer."""
    by_character: bool = False
    """Whether F1 counts characters rather than words."""

    name: ClassVar[str] = "span-qa"
    metrics: tuple[str, ...] = ("f1", "exact_match")

    @property
    def labels(self) -> list[str]:
        """None: start and end are scores, not labels."""
        return []

    @classmethod
    def learned_from(cls, examples: Examples[Question], texts: TextEncoder, head: HeadSettings) -> Self:
        """Return the task; there may be no answer where the training questions have such."""
        head.check(cls.name, "max_answer_length")
        if not any(item.answers for item in examples.items):
            raise InputError("no question has an answer", where=examples.where)
        answerless = any(not item.answers for item in examples.items)
        by_character = writes_by_character([a.text for item in examples.items for a in item.answers or ()][:1000])
        return cls(texts, head, 0.0 if answerless else None, by_character)

    @classmethod
    def restored(cls, config: Mapping[str, Any], extra: Mapping[str, Any], texts: TextEncoder, num_outputs: int) -> Self:
        """Return the task of a model directory; one that bertlite did not write may give no answer."""
        length = int(extra.get("max_answer_length", HeadSettings().max_answer_length))
        return cls(texts, HeadSettings(max_answer_length=length), extra.get("threshold", 0.0), bool(extra.get("by_character")))

    @staticmethod
    def take(row: Row, columns: Columns, where: str, line: int, *, labelled: bool) -> Question:
        """Return a row's question."""
        return take_question(row, columns, where, line, labelled=labelled)

    @staticmethod
    def prepare(examples: Examples[Question], columns: Columns) -> Examples[Question]:
        """Return the questions as they are."""
        return examples

    def make_model(self, config: ModelConfig) -> nn.Module:
        """Return the model, with weights not yet drawn."""
        return SpanExtractor(config)

    def check(self, examples: Examples[Question]) -> None:
        """Any answer will do."""

    def windows(self, examples: Examples[Question], *, labelled: bool) -> Windows:
        """Return the questions' windows; for training, those whose answer is not where the file says it is are left out."""
        items: list[BatchItem] = []
        owners: list[int] = []
        places: list[Place] = []
        encode = self.texts.tokenizer.backend.encode_batch
        contexts = list(dict.fromkeys(item.context for item in examples.items))
        passages = dict(zip(contexts, encode(contexts, add_special_tokens=False), strict=True))
        questions = encode([item.question for item in examples.items], add_special_tokens=False)
        for number, (item, asked) in enumerate(zip(examples.items, questions, strict=True)):
            if labelled and item.answers and not is_in_place(item):
                continue
            for window, place in self._cut(np.array(asked.ids, dtype=np.int64), passages[item.context],
                                           item.answers[0] if labelled and item.answers else None):
                items.append(window)
                owners.append(number)
                places.append(place)
        return Windows(items, owners, places)

    def _cut(self, asked: np.ndarray, passage: Any, answer: Answer | None) -> list[tuple[BatchItem, Place]]:
        """Return the windows of one question, labelled with `answer` where they hold all of it."""
        tokenizer = self.texts.tokenizer
        most = int(QUESTION_SHARE * self.texts.max_length)
        self.texts.num_questions_cut += len(asked) > most
        asked = asked[:most]
        budget = self.texts.max_length - len(asked) - 3
        ids, offsets = np.array(passage.ids, dtype=np.int64), np.array(passage.offsets, dtype=np.int64).reshape(-1, 2)
        sizes = word_sizes(np.array(passage.word_ids, dtype=np.int64), budget)
        self.texts.count(len(asked) + len(ids) + 3)
        ranges = cut_windows(sizes, budget, min(self.texts.overlap, budget // 2))
        owner = np.repeat(best_windows(ranges, sizes), sizes)
        target = None if answer is None else answer_tokens(offsets, answer)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        begin = np.r_[tokenizer.cls_id, asked, tokenizer.sep_id]
        result = []
        for number, (first, last) in enumerate(ranges):
            part = slice(ends[first], ends[last])
            input_ids = np.r_[begin, ids[part], tokenizer.sep_id]
            segments = np.r_[np.zeros(len(begin), dtype=np.int64), np.ones(len(ids[part]) + 1, dtype=np.int64)]
            positions = np.r_[0, len(begin) + np.arange(len(ids[part]))]
            labels = token_labels(int(ends[first]), int(ends[last]), target)
            result.append((BatchItem(input_ids, segments, positions, labels), Place(offsets[part], owner[part] == number)))
        return result

    def outputs(self, model: nn.Module, logits: list[np.ndarray], windows: Windows, examples: Examples[Question]) -> list[Found]:
        """Return the best spans of each question, from all its windows."""
        spans: list[list[Candidate]] = [[] for _ in examples.items]
        no_answer = [float("inf")] * len(examples)
        for scores, owner, place in zip(logits, windows.owners, windows.places, strict=True):
            spans[owner] += best_spans(scores[1:], place, self.head.max_answer_length)
            no_answer[owner] = min(no_answer[owner], float(scores[0].sum()))
        found = []
        for item, candidates, none in zip(examples.items, spans, no_answer, strict=True):
            best = _without_repeats(candidates)[:NUM_BEST]
            found.append(Found(item.context[best[0].start : best[0].end] if best else "", best, none))
        return found

    def outputs_of(self, rows: Sequence[Row], prefix: str) -> list[Found]:
        """Return the answers that rows hold, as sure ones."""
        found = []
        for row in rows:
            text = str(row[f"{prefix}answer"] or "")
            # Infinitely sure: no threshold takes back an answer that was given.
            found.append(Found(text, [Candidate(float("inf"), 0, len(text))] if text else [], 0.0))
        return found

    def text_of(self, found: Found) -> str:
        """Return the answer that is given, empty where none is."""
        if not found.spans:
            return ""
        return "" if self.threshold is not None and found.no_answer - found.spans[0].score > self.threshold else found.text

    def tuned(self, outputs: list[Found], examples: Examples[Question]) -> Self:
        """Return the task with the threshold that gives the largest F1; as it is where every question has an answer."""
        if self.threshold is None or all(item.answers for item in examples.items):
            return self
        gaps = np.array([found.no_answer - found.spans[0].score if found.spans else np.inf for found in outputs])
        given = [answer_scores(found.text, true_answers(item), by_character=self.by_character)[1]
                 for found, item in zip(outputs, examples.items, strict=True)]
        silent = [float(not item.answers) for item in examples.items]
        if not np.isfinite(gaps).any():
            return self
        order = np.argsort(gaps, kind="stable")
        # With the k surest questions answered and the others not:
        totals = np.cumsum(np.r_[sum(silent), (np.array(given) - np.array(silent))[order]])
        steps = np.r_[gaps[order][0] - 1.0, gaps[order]]
        is_last = np.r_[steps[1:] > steps[:-1], True] & np.isfinite(steps)
        best = int(np.where(is_last, totals, -np.inf).argmax())
        return replace(self, threshold=float(steps[best]))

    def answers(self, outputs: list[Found], examples: Examples[Question]) -> list[dict[str, Any]]:
        """Return `answer` with its probability `score`, `start` and `end` (characters of the passage), and `n_best`."""
        return [self._answer(found, item) for found, item in zip(outputs, examples.items, strict=True)]

    def _answer(self, found: Found, item: Question) -> dict[str, Any]:
        scores = np.array([span.score for span in found.spans] + ([found.no_answer] if self.threshold is not None else []))
        probabilities = softmax(scores).tolist() if len(scores) else []
        text = self.text_of(found)
        none = probabilities[-1] if self.threshold is not None else 0.0
        start, end = (found.spans[0].start, found.spans[0].end) if text else (None, None)
        return {"answer": text, "score": probabilities[0] if text else none, "start": start, "end": end, "no_answer_score": none,
                "n_best": [{"answer": item.context[span.start : span.end], "score": score, "start": span.start, "end": span.end}
                           for span, score in zip(found.spans, probabilities, strict=False)]}

    def score(self, outputs: list[Found], examples: Examples[Question]) -> dict[str, float]:
        """Return EM and F1 in percent; with and without an answer apart, where there are both."""
        given = [self.text_of(found) for found in outputs]
        return span_metrics(given, [true_answers(item) for item in examples.items], by_character=self.by_character)

    def details(self, outputs: list[Found], examples: Examples[Question]) -> dict[str, Any]:
        """Return the threshold, the figures of always saying that there is no answer, and the worst errors."""
        true = [true_answers(item) for item in examples.items]
        scores = [answer_scores(self.text_of(found), texts, by_character=self.by_character)[1]
                  for found, texts in zip(outputs, true, strict=True)]
        wrong = [i for i in range(len(true)) if scores[i] == 0][:WORST]
        silent = span_metrics([""] * len(true), true, by_character=self.by_character)
        return {"threshold": self.threshold, "always_no_answer": silent, "worst": [
            {"line": examples.lines[i], "text": shown((examples.items[i].question, examples.items[i].context)),
             "label": " / ".join(dict.fromkeys(true[i])) or "(no answer)",
             "predicted": self.text_of(outputs[i]) or "(no answer)"} for i in wrong]}

    def strata(self, examples: Examples[Question]) -> np.ndarray:
        """Return one stratum: passages are held out whole, whatever their questions."""
        return np.zeros(len(examples), dtype=np.int64)

    def groups(self, examples: Examples[Question]) -> np.ndarray:
        """Return the number of each question's passage: one that was learned from is no test."""
        numbers = {context: n for n, context in enumerate(dict.fromkeys(item.context for item in examples.items))}
        return np.array([numbers[item.context] for item in examples.items])

    def config_entries(self) -> dict[str, Any]:
        """Return nothing: start and end are no labels."""
        return {}

    def extra(self) -> dict[str, Any]:
        """Return the threshold, the longest answer and what F1 counts."""
        return {"threshold": self.threshold, "max_answer_length": self.head.max_answer_length, "by_character": self.by_character}

    def says(self, examples: Examples[Question]) -> list[str]:
        """Return how many questions have an answer, and how many answers are not where the file says."""
        without = sum(not item.answers for item in examples.items)
        passages = len({item.context for item in examples.items})
        lines = [f"{len(examples):,} questions on {passages:,} passages, {without:,} of them without an answer"]
        misplaced = [line for item, line in zip(examples.items, examples.lines, strict=True)
                     if item.answers and not is_in_place(item)]
        if misplaced:
            lines.append(f"{len(misplaced):,} answers are not at the place the file names and were left out (the first: "
                         f"{examples.where}, line {misplaced[0]:,})")
        return lines


def answer_tokens(offsets: np.ndarray, answer: Answer) -> tuple[int, int] | None:
    """Return the first and last of the tokens with offsets (n, 2) that an answer touches; None where it touches none."""
    inside = np.flatnonzero((offsets[:, 1] > answer.start) & (offsets[:, 0] < answer.start + len(answer.text)))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def token_labels(begin: int, end: int, target: tuple[int, int] | None) -> np.ndarray:
    """Return the labels of [CLS] and of a window's tokens, the passage's `begin` to `end` (not included).

    [CLS] is both start and end where there is no answer, or the window holds only a part of it.
    """
    labels = np.full(1 + end - begin, NEITHER, dtype=np.int64)
    if target is None or target[0] < begin or target[1] >= end:
        labels[0] = START | END
    else:
        labels[1 + target[0] - begin] |= START
        labels[1 + target[1] - begin] |= END
    return labels


def best_spans(scores: np.ndarray, place: Place, longest: int) -> list[Candidate]:
    """Return the best spans of a window's tokens, best first: at most `longest` tokens, beginning where context is most."""
    starts = np.argsort(-np.where(place.is_best, scores[:, 0], -np.inf), kind="stable")[:NUM_BEST]
    starts = starts[place.is_best[starts]]
    ends = np.argsort(-scores[:, 1], kind="stable")[:NUM_BEST]
    first, last = np.repeat(starts, len(ends)), np.tile(ends, len(starts))
    fits = (last >= first) & (last - first < longest) & (place.offsets[last, 1] > place.offsets[first, 0])
    first, last = first[fits], last[fits]
    totals = scores[first, 0] + scores[last, 1]
    order = np.argsort(-totals, kind="stable")[:NUM_BEST]
    return [Candidate(float(totals[i]), int(place.offsets[first[i], 0]), int(place.offsets[last[i], 1])) for i in order]


def _without_repeats(candidates: list[Candidate]) -> list[Candidate]:
    """Return candidates best first, each span once."""
    kept: dict[tuple[int, int], Candidate] = {}
    for candidate in sorted(candidates, key=lambda c: -c.score):
        kept.setdefault((candidate.start, candidate.end), candidate)
    return list(kept.values())


