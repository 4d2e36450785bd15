"""The official definition of exact match and F1 on SQuAD 2.0, question by question, in plain Python.

Source: Rajpurkar et al. 2018, sec. 5, and the words of the evaluation script of SQuAD 2.0.
"""

import string


def words(answer: str) -> list[str]:
    return split_articles("".join(character for character in answer.lower() if character not in string.punctuation))


def split_articles(text: str) -> list[str]:
    # An article stands between word boundaries, which are not only spaces: "the·end" loses its article.
    parts, word = [], ""
    for character in text:
        if character.isalnum() or character == "_":
            word += character
        else:
            parts += [word, character]
            word = ""
    parts.append(word)
    return "".join(" " if part in ("a", "an", "the") else part for part in parts).split()


def exact(answer: str, truth: str) -> int:
    return int(words(answer) == words(truth))


def f1(answer: str, truth: str) -> float:
    given, wanted = words(answer), words(truth)
    if not given or not wanted:
        return float(given == wanted)
    rest, common = list(wanted), 0
    for word in given:
        if word in rest:
            rest.remove(word)
            common += 1
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def evaluate(answers: list[str], truths: list[list[str]]) -> dict[str, float]:
    exacts, f1s = [], []
    for answer, truth in zip(answers, truths, strict=True):
        truth = [text for text in truth if words(text)] or [""]
        exacts.append(max(exact(answer, text) for text in truth))
        f1s.append(max(f1(answer, text) for text in truth))
    return {"exact_match": 100 * sum(exacts) / len(exacts), "f1": 100 * sum(f1s) / len(f1s)}
