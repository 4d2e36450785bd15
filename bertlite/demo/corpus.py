"""The corpus that ships: documents of six kinds, and a split that holds out a tenth of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from bertlite.corpus.documents import Layout, read_documents
from bertlite.corpus.sentences import split_sentences
from bertlite.draws import Purpose, stream

PARTS = ("pd-docs-en-train-00", "pd-docs-en-heldout")
# How a document's id begins -> what kind of text it is.
KINDS = {"Aesop": "fable", "The Brothers Grimm": "Grimm tale", "Hans Christian Andersen": "Andersen tale",
         "Arthur Conan Doyle": "detective story", "Federalist": "political essay", "inaugural": "inaugural address"}
HELD_OUT = 0.1


@dataclass(frozen=True)
class KindDocument:
    """One document: its kind and its paragraphs."""

    kind: str
    paragraphs: list[str]

    def sentences(self) -> list[str]:
        """Return its sentences."""
        return [sentence for paragraph in self.paragraphs for sentence in split_sentences(paragraph, "en")]


def demo_documents() -> list[KindDocument]:
    """Return every document that ships, both files joined."""
    documents = []
    folder = resources.files("bertlite.demo")
    for part in PARTS:
        with resources.as_file(folder / f"{part}.txt") as path:
            texts = [document.lines for document in read_documents(path, Layout())]
        index = (folder / f"{part}.index.tsv").read_text(encoding="utf-8").splitlines()[1:]
        for line, paragraphs in zip(index, texts, strict=True):
            kind = next(kind for begin, kind in KINDS.items() if line.startswith(begin))
            documents.append(KindDocument(kind, paragraphs))
    return documents


def split_by_kind(documents: list[KindDocument], split_seed: int) -> tuple[list[KindDocument], list[KindDocument]]:
    """Return (training, held out): a tenth of the documents of each kind, drawn from `split_seed`, is held out."""
    held = set()
    for number, kind in enumerate(KINDS.values()):
        members = [i for i, document in enumerate(documents) if document.kind == kind]
        order = stream(split_seed, Purpose.HOLD_OUT, number).permutation(members)
        held |= {int(i) for i in order[: round(HELD_OUT * len(members))]}
    return [d for i, d in enumerate(documents) if i not in held], [documents[i] for i in sorted(held)]


def write_text(documents: list[KindDocument], path: Path) -> None:
    """Write documents as pretraining reads them: a paragraph a line, a blank line between documents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join("\n".join(d.paragraphs) for d in documents) + "\n", encoding="utf-8")


def labelled_sentences(documents: list[KindDocument], *, least_words: int, per_kind: int, seed: int) -> list[dict[str, str]]:
    """Draw `per_kind` sentences of each kind, of `least_words` words or more, as rows {"text", "label"}."""
    rows = []
    for number, kind in enumerate(KINDS.values()):
        sentences = [s for d in documents if d.kind == kind for s in d.sentences() if len(s.split()) >= least_words]
        chosen = stream(seed, Purpose.ORDER, number).permutation(len(sentences))[:per_kind]
        rows += [{"text": sentences[i], "label": kind} for i in sorted(chosen.tolist())]
    return rows
