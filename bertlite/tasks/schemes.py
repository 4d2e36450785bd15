"""Tags of words <-> spans of entities: IOB1, IOB2 and IOBES read, IOB2 kept.

Source: Ramshaw and Marcus 1995 (IOB1), Tjong Kim Sang and Veenstra 1999 (IOB2); how ill-formed tags are read by default
is the convention of conlleval and seqeval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from bertlite.errors import InputError

Scheme = Literal["iob1", "iob2", "iobes", "plain"]
OUTSIDE = "O"
# What other letters mean: BIOES and BILOU differ in letters alone, BMES calls the inside M.
BEGINS, INSIDE, ENDS, SINGLE = "B", "IM", "EL", "SU"


class Span(NamedTuple):
    """Words `start` to `end` (not included) are an entity of type `kind`."""

    kind: str
    start: int
    end: int


def scheme_of(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Return the scheme that tags are written in; `plain` where they mark no spans, as parts of speech.

    Raises InputError for tags of which some mark spans and some do not.
    """
    kinds: dict[str, int] = {}
    continues_nothing = False
    for tags in sequences:
        before = OUTSIDE
        for tag in tags:
            letter = tag[0] if is_span_tag(tag) else tag
            kinds[letter] = kinds.get(letter, 0) + 1
            continues_nothing |= letter == "I" and (before == OUTSIDE or before[1:] != tag[1:])
            before = tag
    letters = {kind for kind in kinds if kind in tuple("BIESULM")}
    others = sorted(kinds.keys() - letters - {OUTSIDE})
    if not letters or (others and OUTSIDE not in kinds):
        return "plain"
    if others:
        raise InputError(f"the tag {others[0]!r} is neither O nor a letter and a type, as B-PER is",
                         remedy="mend it, or --scheme plain takes every tag as it is")
    if letters & set(ENDS + SINGLE + "M"):
        return "iobes"
    return "iob1" if continues_nothing else "iob2"


def is_span_tag(tag: str) -> bool:
    """Return whether a tag is a letter and a type, as B-PER is."""
    return re.fullmatch(r"[BIESULM]-.+", tag) is not None


def to_iob2(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """Return the tags of one sentence in IOB2; those of `plain` stay as they are.

    Raises InputError with the word's number as `line` for a tag that is not one of the scheme.
    """
    if scheme == "plain":
        return list(tags)
    allowed = "BI" if scheme != "iobes" else BEGINS + INSIDE + ENDS + SINGLE
    result: list[str] = []
    before = OUTSIDE
    for number, tag in enumerate(tags):
        if tag == OUTSIDE:
            result.append(tag)
        elif not is_span_tag(tag) or tag[0] not in allowed:
            raise BadTag(number, tag, scheme)
        else:
            letter, kind = tag[0], tag[2:]
            goes_on = before != OUTSIDE and before[2:] == kind and not (scheme == "iobes" and before[0] in ENDS + SINGLE)
            begins = letter in BEGINS + SINGLE or not goes_on
            result.append(f"{'B' if begins else 'I'}-{kind}")
        before = tag
    return result


class BadTag(ValueError):
    """A tag that is not one of its scheme; the reader that knows the line turns it into an InputError."""

    def __init__(self, number: int, tag: str, scheme: Scheme):
        super().__init__(f"{tag!r} is no tag of {scheme.upper()}")
        self.number = number


def spans(tags: Sequence[str]) -> list[Span]:
    """Return the entities of IOB2 tags; an I- that continues nothing begins one, as in seqeval's default mode."""
    found: list[Span] = []
    kind, start = None, 0
    for number, tag in enumerate([*tags, OUTSIDE]):
        goes_on = tag.startswith("I-") and tag[2:] == kind
        if kind is not None and not goes_on:
            found.append(Span(kind, start, number))
        if not goes_on:
            kind, start = (None if tag == OUTSIDE else tag[2:]), number
    return found


def strict_spans(tags: Sequence[str]) -> list[Span]:
    """Return the entities of IOB2 tags that begin with a B-, as in seqeval's strict mode."""
    return [span for span in spans(tags) if tags[span.start].startswith("B-")]


def allowed_transitions(labels: Sequence[str]) -> np.ndarray:
    """Return (C + 1, C) bool: whether a label may follow each label and, in the last row, begin a sentence.

    In IOB2 an I- follows a B- or I- of its own type only; plain tags may follow any.
    """
    allowed = np.ones((len(labels) + 1, len(labels)), dtype=bool)
    if not any(is_span_tag(label) for label in labels):
        return allowed
    for j, label in enumerate(labels):
        if label.startswith("I-"):
            allowed[:, j] = [before in (f"B-{label[2:]}", label) for before in [*labels, OUTSIDE]]
    return allowed
