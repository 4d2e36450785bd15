"""Question files as SQuAD 1.1 and 2.0 have them (also DRCD, CMRC and KorQuAD): a row a question.

Source: Rajpurkar et al. 2016 and 2018; data -> paragraphs (context) -> qas (id, question, answers, is_impossible).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertlite.corpus.rows import Row, text_lines
from bertlite.errors import InputError


def squad_rows(source: Path, encoding: str = "utf-8") -> Iterator[tuple[int, Row]]:
    """Yield (line, row) of each question: id, title, question, context, answers, and is_impossible where the file says it.

    Raises InputError naming file, line and place for what is not such a file.
    """
    text = "\n".join(line for _, line in text_lines(source, encoding))
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON ({error.msg})", where=source, line=error.lineno) from None
    line, place = 1, 0
    for path, title, context, question in _questions(raw, source):
        row = {name: _part(question, name, str, f"{path}.{name}", source, line) for name in ("id", "question")}
        # Questions come in the order of the file, so each one's line is found by going on from the last one's.
        found = text.find(json.dumps(row["id"], ensure_ascii=False), place)
        if found >= 0:
            line, place = line + text.count("\n", place, found), found
        row |= {"title": title, "context": context}
        answers = question.get("answers", [])
        if answers or "answers" in question:
            row["answers"] = _part(question, "answers", list, f"{path}.answers", source, line)
        if "is_impossible" in question:
            row["is_impossible"] = _part(question, "is_impossible", bool, f"{path}.is_impossible", source, line)
        yield line, row


def _questions(raw: Any, source: Path) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    if not isinstance(raw, dict) or not isinstance(raw.get("data"), list):
        raise InputError("there is no list of articles under 'data'", where=source, line=1,
                         remedy="give a file as SQuAD has them, or .jsonl with question, context and answers")
    for a, article in enumerate(raw["data"]):
        path = f"data[{a}]"
        for p, paragraph in enumerate(_part(article, "paragraphs", list, f"{path}.paragraphs", source)):
            here = f"{path}.paragraphs[{p}]"
            context = _part(paragraph, "context", str, f"{here}.context", source)
            for q, question in enumerate(_part(paragraph, "qas", list, f"{here}.qas", source)):
                if not isinstance(question, dict):
                    raise InputError(f"{here}.qas[{q}] is not an object", where=source)
                yield f"{here}.qas[{q}]", str(article.get("title", "")), context, question


def _part(owner: Any, name: str, kind: type, path: str, source: Path, line: int | None = None) -> Any:
    value = owner.get(name) if isinstance(owner, dict) else None
    if not isinstance(value, kind):
        words = {str: "a text", list: "a list", bool: "true or false"}[kind]
        raise InputError(f"{path} is missing or not {words}", where=source, line=line)
    return value
