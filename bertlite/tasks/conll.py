"""Columns of words and tags: CoNLL, CoNLL-U and IOB2 files in, a row a sentence out; and the same lines written back.

A word a line, its columns parted by tabs (or, in a file without any, by spaces); an empty line ends a sentence. CoNLL-U names
its ten columns, counts words in the first, and its lines of several words (`3-4`) and empty nodes (`8.1`) are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bertlite.corpus.rows import Row, kind_of, text_lines
from bertlite.errors import InputError

SUFFIXES = (".conll", ".conllu", ".iob2", ".iob", ".bio")
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


def conll_rows(source: Path, encoding: str = "utf-8") -> Iterator[tuple[int, Row]]:
    """Yield (number of its first line, row) of each sentence.

    A row holds `columns`, a list of columns for each word, `lines`, its words' line numbers, and `kind`, the file's suffix.
    Raises InputError naming the line where the number of columns differs from the first word's.
    """
    kind = kind_of(source)
    words: list[list[str]] = []
    numbers: list[int] = []
    width = None
    uses_tabs = None
    for number, line in text_lines(source, encoding):
        if not line.strip() or line.startswith("-DOCSTART-"):
            if words:
                yield numbers[0], {"columns": words, "lines": numbers, "kind": kind}
            words, numbers = [], []
            continue
        if _is_comment(line, kind, None if uses_tabs else width):
            continue
        uses_tabs = "\t" in line if uses_tabs is None else uses_tabs
        columns = line.split("\t") if uses_tabs else line.split()
        if kind == ".conllu" and re.fullmatch(r"\d+[-.]\d+", columns[0]):
            continue
        # Predictions are two columns more.
        width = width or (len(CONLLU) if kind == ".conllu" and len(columns) != len(CONLLU) + 2 else len(columns))
        if len(columns) != width:
            raise InputError(f"the line has {len(columns)} columns, not {width}", where=source, line=number,
                             remedy="a word a line with tabs between its columns, and an empty line after a sentence")
        words.append(columns)
        numbers.append(number)
    if words:
        yield numbers[0], {"columns": words, "lines": numbers, "kind": kind}


def _is_comment(line: str, kind: str, width: int | None) -> bool:
    """Return whether a line is a comment; a word may be a # too, and then has tabs, or as many columns as others (`width`)."""
    if not line.startswith("#") or "\t" in line:
        return False
    if re.match(r"# ?\w+( \w+)* = ", line):
        return True
    return kind in (".conllu", ".iob2") and len(line.split()) != width


def column_number(name: str | None, default: str, row: Row, what: str, where: str, line: int) -> int:
    """Return the place, from 0, of the column that `name` means, a number from 1 or, in CoNLL-U, a name.

    None, or the `default` of rows with names, means that none was given: words are the first column and tags the last; in
    CoNLL-U `form` and `upos`; in .iob2 the second and third, after the word's number.
    """
    width, kind = len(row["columns"][0]), row["kind"]
    is_words = what == "words"
    if name is None or name == default:
        if kind == ".conllu":
            return CONLLU.index("form" if is_words else "upos")
        if kind == ".iob2" and width >= 3 and row["columns"][0][0].isdigit():
            return 1 if is_words else 2
        return 0 if is_words else width - 1
    if kind == ".conllu" and name in CONLLU:
        return CONLLU.index(name)
    if name.isdigit() and 1 <= int(name) <= width:
        return int(name) - 1
    names = f", or one of {', '.join(CONLLU)}" if kind == ".conllu" else ""
    raise InputError(f"there is no column {name!r}", where=where, line=line,
                     remedy=f"--{what}-column takes a number from 1 to {width}{names}")
