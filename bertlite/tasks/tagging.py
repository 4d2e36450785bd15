"""Tagging: a label for each word, parts of speech or entities; every word is labelled, however long its sentence.

Source: Devlin et al. 2019, sec. 5.3: a word's first piece stands for it. Sentences longer than the model are read in windows,
and each word is learned and labelled in the one that gives it most context.
Shapes: W words of a sentence, C labels.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.special import softmax
from torch import nn

from bertlite.corpus.rows import Row
from bertlite.errors import InputError, nearest
from bertlite.formats.huggingface import dump_labels, read_labels
from bertlite.inputs.batch import IGNORED, BatchItem
from bertlite.model.config import ModelConfig
from bertlite.model.crf import LinearChainCRF
from bertlite.objectives.token_labels import CrfTagger, Tagger
from bertlite.tasks.entity_metrics import entity_metrics, figures, per_type, token_accuracy
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.readers import Columns, from_json
from bertlite.tasks.schemes import OUTSIDE, Scheme, allowed_transitions, is_span_tag, spans, to_iob2
from bertlite.tasks.sentences import Sentence, prepare_sentences, split_text, take_sentence
from bertlite.tasks.task import WORST, Examples, Windows, shown
from bertlite.tasks.texts import TextEncoder
from bertlite.tasks.windows import best_windows, cut_windows


@dataclass(frozen=True)
class Tags:
    """A sentence's words, their labels and the labels' probabilities."""

    words: tuple[str, ...]
    labels: list[str]
    scores: list[float]
    offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Tagging:
    """Sentences with a label a word."""

    texts: TextEncoder
    labels: list[str]
    head: HeadSettings = field(default_factory=HeadSettings)
    split_words: bool = False
    """Whether a text's characters are its words."""

    name: ClassVar[str] = "tagging"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Figures that a model can be chosen by."""
        return ("f1", "accuracy", "macro_f1", "strict_f1") if self.marks_spans else ("accuracy", "macro_f1")

    @property
    def marks_spans(self) -> bool:
        """Whether labels mark entities rather than single words."""
        return marks_spans(self.labels)

    @classmethod
    def learned_from(cls, examples: Examples[Sentence], texts: TextEncoder, head: HeadSettings) -> Self:
        """Return the task with the tags of training sentences, in IOB2; raises InputError unless there are two."""
        head.check(cls.name, "kind")
        found = {tag for sentence in examples.items for tag in sentence.tags or ()}
        if len(found) < 2:
            raise InputError(f"the training words have {len(found)} tag, a tagger needs two", where=examples.where,
                             remedy="--label-column names the tags' column")
        if not marks_spans(found):
            return cls(texts, sorted(found), head)
        kinds = sorted({tag[2:] for tag in found if tag != OUTSIDE})
        # Whatever the training words show, both tags of a type are there.
        return cls(texts, [OUTSIDE, *(f"{letter}-{kind}" for kind in kinds for letter in "BI")], head)

    @classmethod
    def restored(cls, config: Mapping[str, Any], extra: Mapping[str, Any], texts: TextEncoder, num_outputs: int) -> Self:
        """Return the task of a model directory."""
        labels = read_labels(config) or [f"LABEL_{i}" for i in range(num_outputs)]
        split_words = bool(extra.get("columns", {}).get("split_words"))
        return cls(texts, labels, HeadSettings(kind=extra.get("head", "softmax")), split_words)

    @staticmethod
    def take(row: Row, columns: Columns, where: str, line: int, *, labelled: bool) -> Sentence:
        """Return a row's sentence."""
        return take_sentence(row, columns, where, line, labelled=labelled)

    @staticmethod
    def prepare(examples: Examples[Sentence], columns: Columns) -> Examples[Sentence]:
        """Return labelled sentences with tags in IOB2."""
        return prepare_sentences(examples, columns)

    def make_model(self, config: ModelConfig) -> nn.Module:
        """Return the model, with weights not yet drawn."""
        return (CrfTagger if self.head.kind == "crf" else Tagger)(config, len(self.labels))

    def check(self, examples: Examples[Sentence]) -> None:
        """Raise InputError for a tag that the training words do not have."""
        known = set(self.labels)
        if self.marks_spans:  # whatever scheme a model speaks, its types are told in IOB2
            known = {OUTSIDE, *(f"{letter}-{label[2:]}" for label in self.labels if label != OUTSIDE for letter in "BI")}
        for sentence in examples.items:
            for tag, line in zip(sentence.tags or (), sentence.lines, strict=True):
                if tag not in known:
                    raise InputError(f"the tag {tag!r} is not in the training words{nearest(tag, known)}", where=examples.where,
                                     line=line)

    def windows(self, examples: Examples[Sentence], *, labelled: bool) -> Windows:
        """Return the sentences' windows; a place is the words (first, one past the last) and those that the window labels."""
        ids = {label: number for number, label in enumerate(self.labels)}
        items: list[BatchItem] = []
        owners, places = [], []
        for number, (sentence, pieces) in enumerate(zip(examples.items, self._pieces(examples.items), strict=True)):
            sizes = [len(piece) for piece in pieces]
            self.texts.count(sum(sizes) + 2)
            ranges = cut_windows(sizes, self.texts.max_length - 2, self.texts.overlap)
            best = best_windows(ranges, sizes)
            labels = None
            if labelled:
                labels = np.array([ids[tag] for tag in sentence.tags or ()], dtype=np.int64)
            for window, (begin, end) in enumerate(ranges):
                own = np.flatnonzero(best == window)
                if len(own):
                    items.append(self._item(pieces[begin:end], own - begin, None if labels is None else labels[own]))
                    owners.append(number)
                    places.append(own)
        return Windows(items, owners, places)

    def _pieces(self, sentences: Sequence[Sentence]) -> list[list[list[int]]]:
        """Return each word's pieces. A word without any, such as a lone accent, is unknown; one of very many is cut."""
        tokenizer, most = self.texts.tokenizer, (self.texts.max_length - 2) // 2
        given = [list(self.words_of(sentence)[0]) for sentence in sentences]
        found = []
        encodings = tokenizer.backend.encode_batch(given, is_pretokenized=True, add_special_tokens=False)
        for words, encoding in zip(given, encodings, strict=True):
            pieces: list[list[int]] = [[] for _ in words]
            for piece, word in zip(encoding.ids, encoding.word_ids, strict=True):
                pieces[word or 0].append(piece)
            found.append([(piece or [tokenizer.unk_id])[:most] for piece in pieces])
        return found

    def words_of(self, sentence: Sentence) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
        """Return a sentence's words and, of a text, their character offsets."""
        if sentence.text is None:
            return sentence.words, sentence.offsets
        offsets = split_text(self.texts.tokenizer, sentence.text)
        if self.split_words:
            offsets = [(k, k + 1) for begin, end in offsets for k in range(begin, end)]
        return tuple(sentence.text[begin:end] for begin, end in offsets), tuple(offsets)

    def _item(self, pieces: list[list[int]], own: np.ndarray, labels: np.ndarray | None) -> BatchItem:
        tokenizer = self.texts.tokenizer
        ids = np.array([tokenizer.cls_id, *(piece for word in pieces for piece in word), tokenizer.sep_id])
        firsts = 1 + np.cumsum([0, *map(len, pieces)])[own]
        labels = np.full(len(own), IGNORED) if labels is None else labels
        return BatchItem(ids, np.zeros(len(ids), dtype=np.int64), firsts, labels)

    def outputs(self, model: nn.Module, logits: list[np.ndarray], windows: Windows, examples: Examples[Sentence]) -> list[Tags]:
        """Return each sentence's labels; of a CRF the best sequence that is well formed, from all windows' emissions."""
        split = [self.words_of(sentence) for sentence in examples.items]
        emissions = [np.zeros((len(words), len(self.labels)), dtype=np.float32) for words, _ in split]
        for part, owner, own in zip(logits, windows.owners, windows.places, strict=True):
            emissions[owner][own] = part
        # On the CPU: the chain is gone through word by word, which no GPU does faster.
        chain = copy.deepcopy(model.crf).cpu() if isinstance(model, CrfTagger) else None
        return [self._tags(chain, emission, *where) for emission, where in zip(emissions, split, strict=True)]

    def _tags(self, chain: LinearChainCRF | None, emissions: np.ndarray, words: tuple[str, ...],
              offsets: tuple[tuple[int, int], ...]) -> Tags:
        if not words:
            return Tags((), [], [])
        if chain is not None:
            tensor, allowed = torch.from_numpy(emissions), torch.from_numpy(allowed_transitions(self.labels))
            chosen, probabilities = chain.decode(tensor, allowed).numpy(), chain.marginals(tensor).numpy()
        else:
            chosen, probabilities = emissions.argmax(1), softmax(emissions, axis=1)
        scores = probabilities[np.arange(len(words)), chosen].tolist()
        labels = [self.labels[number] for number in chosen]
        # Models from elsewhere may speak IOBES or IOB1; what comes out, and is scored, is IOB2.
        letters = {label[0] for label in self.labels} if self.marks_spans else set("B")
        other: Scheme | None = "iobes" if letters - set("BIO") else None if "B" in letters else "iob1"
        return Tags(words, to_iob2(labels, other) if other else labels, scores, offsets)

    def outputs_of(self, rows: Sequence[Row], prefix: str) -> list[Tags]:
        """Return the labels that rows hold: a row's last column but one, or its list."""
        found = []
        for row in rows:
            labels = [c[-2] for c in row["columns"]] if "columns" in row else list(from_json(row[f"{prefix}tags"]))
            found.append(Tags(("",) * len(labels), labels, [1.0] * len(labels)))
        return found

    def tuned(self, outputs: list[Tags], examples: Examples[Sentence]) -> Self:
        """Return the task as it is."""
        return self

    def answers(self, outputs: list[Tags], examples: Examples[Sentence]) -> list[dict[str, Any]]:
        """Return `tags` and `scores` of the words; for a text also `words` and, where tags mark them, `entities`."""
        return [self._answer(output, sentence) for output, sentence in zip(outputs, examples.items, strict=True)]

    def _answer(self, output: Tags, sentence: Sentence) -> dict[str, Any]:
        answer: dict[str, Any] = {"tags": output.labels, "scores": output.scores}
        if sentence.text is not None:
            answer["words"] = list(output.words)
            answer["offsets"] = [list(pair) for pair in output.offsets]
        if self.marks_spans:
            answer["entities"] = [self._entity(output, sentence, *span) for span in spans(output.labels)]
        return answer

    def _entity(self, output: Tags, sentence: Sentence, kind: str, begin: int, end: int) -> dict[str, Any]:
        """Return an entity with the mean of its words' scores; start and end are characters of a text, else words."""
        if sentence.text is not None:
            start, stop = output.offsets[begin][0], output.offsets[end - 1][1]
            text = sentence.text[start:stop]
        else:
            start, stop, text = begin, end, " ".join(output.words[begin:end])
        score = float(np.mean(output.scores[begin:end]))
        return {"entity_group": kind, "score": score, "word": text, "start": start, "end": stop}

    def _both(self, outputs: list[Tags], examples: Examples[Sentence]) -> tuple[list[list[str]], list[list[str]]]:
        return [output.labels for output in outputs], [list(sentence.tags or ()) for sentence in examples.items]

    def score(self, outputs: list[Tags], examples: Examples[Sentence]) -> dict[str, float]:
        """Return the accuracy of words; where tags mark entities their precision, recall and F1, else the tags' mean F1."""
        predicted, true = self._both(outputs, examples)
        accuracy = {"accuracy": token_accuracy(predicted, true)}
        if self.marks_spans:
            return accuracy | entity_metrics(predicted, true)
        table = _per_tag(predicted, true, sorted({tag for sentence in true for tag in sentence}))
        return accuracy | {"macro_f1": float(np.mean([row["f1"] for row in table.values()])) if table else 0.0}

    def details(self, outputs: list[Tags], examples: Examples[Sentence]) -> dict[str, Any]:
        """Return the figures of each type or tag, and the sentences with most errors."""
        predicted, true = self._both(outputs, examples)
        worst = sorted(range(len(true)), key=lambda i: -sum(a != b for a, b in zip(predicted[i], true[i], strict=True)))[:WORST]
        rows = [{"line": examples.lines[i], "text": shown(" ".join(examples.items[i].words)),
                 "label": shown(_listed(true[i], examples.items[i].words)),
                 "predicted": shown(_listed(predicted[i], examples.items[i].words))} for i in worst if predicted[i] != true[i]]
        table = per_type(predicted, true) if self.marks_spans else _per_tag(predicted, true, self.labels)
        return {"labels": self.labels, "per_class": table, "worst": rows}

    def strata(self, examples: Examples[Sentence]) -> np.ndarray:
        """Return whether a sentence holds an entity: both kinds have their share of what is held out."""
        return np.array([any(tag != "O" for tag in sentence.tags or ()) for sentence in examples.items], dtype=np.int64)

    def groups(self, examples: Examples[Sentence]) -> np.ndarray:
        """Return a group for each sentence."""
        return np.arange(len(examples))

    def config_entries(self) -> dict[str, Any]:
        """Return the labels."""
        return dump_labels(self.labels)

    def extra(self) -> dict[str, Any]:
        """Return the kind of head."""
        return {"head": self.head.kind}

    def says(self, examples: Examples[Sentence]) -> list[str]:
        """Return the number of words, tags and entities."""
        counts = Counter(tag for sentence in examples.items for tag in sentence.tags or ())
        if not counts:
            return ["no words"]
        lines = [f"{counts.total():,} words, {len(self.labels)} tags; the commonest, {counts.most_common(1)[0][0]}, has "
                 f"{counts.most_common(1)[0][1] / counts.total():.1%}"]
        if self.marks_spans:
            kinds = Counter(span.kind for sentence in examples.items for span in spans(sentence.tags or ()))
            lines.append("entities: " + ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common(12)))
        return lines


def _listed(tags: Sequence[str], words: Sequence[str]) -> str:
    """Return the words that carry a tag other than O, each with it."""
    return ", ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True) if tag != "O")


def marks_spans(tags: Iterable[str]) -> bool:
    """Return whether tags mark entities: O, and letters with a type."""
    return all(tag == OUTSIDE or is_span_tag(tag) for tag in tags) and any(tag != OUTSIDE for tag in tags)


def _per_tag(predicted: list[list[str]], true: list[list[str]], labels: list[str]) -> dict[str, dict[str, float]]:
    pairs = Counter(pair for guess, truth in zip(predicted, true, strict=True) for pair in zip(guess, truth, strict=True))
    guessed, wanted = Counter[str](), Counter[str]()
    for (guess, truth), count in pairs.items():
        guessed[guess] += count
        wanted[truth] += count
    return {tag: figures(pairs[tag, tag], guessed[tag], wanted[tag]) | {"support": wanted[tag]} for tag in labels}
