"""Figures of extracted answers: exact match and F1, with and without an answer apart.

Source: Rajpurkar et al. 2016, sec. 6.1, and 2018, sec. 5, and their evaluation scripts: case, punctuation and articles do not
count; the best of several true answers does. In Chinese and its like each character is a token.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
FULL_WIDTH_PUNCTUATION = "，。、；：？！「」『』（）《》〈〉“”‘’…—～·【】"
_PUNCTUATION = set(string.punctuation)


def normalized(answer: str) -> str:
    """Return an answer in lower case, without punctuation, articles and extra spaces."""
    bare = "".join(c for c in answer.lower() if c not in _PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def normalized_characters(answer: str) -> str:
    """Return an answer in lower case, without punctuation of either width, and with spaces around each ideograph."""
    bare = "".join(" " if c in FULL_WIDTH_PUNCTUATION else c for c in answer.lower() if c not in _PUNCTUATION)
    return " ".join(re.sub(f"([{IDEOGRAPHS}])", r" \1 ", bare).split())


def writes_by_character(texts: Sequence[str]) -> bool:
    """Return whether most letters of the texts are ideographs or kana."""
    sample = "".join(texts)
    return len(re.findall(f"[{IDEOGRAPHS}]", sample)) * 2 > sum(c.isalpha() for c in sample)


def answer_scores(answer: str, true: Sequence[str], *, by_character: bool = False) -> tuple[float, float]:
    """Return (exact match, F1) of an answer against its true ones, none of which means that there is no answer."""
    normalize = normalized_characters if by_character else normalized
    wanted = [text for text in true if normalize(text)] or [""]
    given = normalize(answer)
    return (max(float(given == normalize(text)) for text in wanted),
            max(_f1(given.split(), normalize(text).split()) for text in wanted))


def _f1(given: list[str], wanted: list[str]) -> float:
    if not given or not wanted:
        return float(given == wanted)
    common = (Counter(given) & Counter(wanted)).total()
    return 2 * common / (len(given) + len(wanted))


def span_metrics(answers: Sequence[str], true: Sequence[Sequence[str]], *, by_character: bool = False) -> dict[str, float]:
    """Return EM and F1 in percent, over all questions and, where some have no answer, over both kinds apart."""
    scores = [answer_scores(answer, texts, by_character=by_character) for answer, texts in zip(answers, true, strict=True)]
    kinds = {"": list(range(len(scores)))}
    if not all(true):
        kinds |= {"has_answer_": [i for i, texts in enumerate(true) if texts],
                  "no_answer_": [i for i, texts in enumerate(true) if not texts]}
    kinds = {prefix: numbers for prefix, numbers in kinds.items() if numbers}
    result = {}
    for prefix, numbers in kinds.items():
        for place, name in enumerate(("exact_match", "f1")):
            result[prefix + name] = 100 * sum(scores[i][place] for i in numbers) / max(1, len(numbers))
    return result
