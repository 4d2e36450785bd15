"""`bertlite similar`: how like pairs of texts are, which texts are nearest to queries, and which belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from bertlite.corpus.rows import Row
from bertlite.errors import InputError
from bertlite.files import atomic_path
from bertlite.report.charts import scatter_chart
from bertlite.report.page import page
from bertlite.report.tables import section, table
from bertlite.runs.console import Console
from bertlite.runs.settings import PLAIN, Rows, UseSettings, build
from bertlite.runs.tables import check_output, open_writer
from bertlite.tasks.embedding import Embedder
from bertlite.tasks.readers import Columns, column_of, open_table, take_number, text_of
from bertlite.tasks.similarity import Clusters, cluster, cosines, marking_words, search

EMBEDDING = "embedding"  # the column that `bertlite embed` writes


@dataclass(frozen=True, kw_only=True)
class SimilarRun:
    """Compare texts by their embeddings: pairs, queries against a file, clusters; without these each text's nearest others."""

    model: Path
    """Folder of a model."""
    input: Rows
    """A csv, tsv, jsonl, parquet or txt file (a text a line), or one that bertlite embed wrote."""
    output: Path = Path("-")
    """A csv, tsv, jsonl or parquet file; standard output when not given."""
    pairs: bool = False
    """Score the two texts of each row, --text-column and --pair-column."""
    queries: Rows = None
    """A file of texts; for each the nearest texts of --input are found."""
    clusters: int | None = None
    """Part the texts into so many clusters, with a page to look at beside the output."""
    top_k: int = 5
    """Nearest texts a query."""
    seed: int = 0
    overwrite: bool = False
    """Replace an output file that is there."""
    columns: Annotated[Columns, PLAIN] = field(default_factory=Columns)
    use: Annotated[UseSettings, PLAIN] = field(default_factory=UseSettings)

    def __post_init__(self) -> None:
        if (self.pairs, self.queries is not None, self.clusters is not None).count(True) > 1:
            raise InputError("give one of --pairs, --queries and --clusters")
        if self.top_k < 1:
            raise InputError(f"--top-k must be at least 1; got {self.top_k}")


def similar(**settings: Any) -> int:
    """Compare texts and return the number of rows written; keywords are the fields of SimilarRun and Columns.

    Every input column is kept, first and unchanged; then comes `score` (pairs), `matches` (queries: the nearest texts with
    `row`, `score`, `text` and `id`) or `cluster` and `score`. Raises InputError for rows or settings that cannot be used.
    """
    run = build(SimilarRun, settings)
    if run.clusters is not None and str(run.output) != "-":
        check_output(run.output.with_suffix(".html"), (".html",), overwrite=run.overwrite)
    work = _Similar(run)
    ways = [(run.pairs, work.pairs), (run.queries is not None, work.queries), (run.clusters is not None, work.clusters)]
    rows = next((way for is_asked, way in ways if is_asked), work.neighbours)()
    total = 0
    inputs = [run.input, run.queries]
    with open_writer(run.output, work.kind, overwrite=run.overwrite, inputs=inputs) as writer:
        for row, new in rows:
            taken = sorted(new.keys() & row.keys())
            if taken:
                raise InputError(f"the input has a column {taken[0]!r} already", where=work.where, remedy="rename it")
            writer.write({name: value for name, value in row.items() if name != EMBEDDING} | new)
            total += 1
    for line in work.last_words():
        work.console.say(line)
    return total


class _Similar:
    """One comparison: its rows, and their vectors."""

    def __init__(self, run: SimilarRun):
        self.run, self.console = run, Console(run.use.quiet)
        self.embedder = Embedder.from_pretrained(run.model, **run.use.opening())
        run.columns.check("similar", "pair_column")
        opened = open_table(run.input, run.columns)
        self.where, self.kind = opened.where, opened.kind
        self.column = "text" if opened.kind == ".txt" else run.columns.text_column or "text"
        self.label = run.columns.label_column or "label"
        self.lines: list[int] = []
        self.rows: list[Row] = []
        for line, row in opened.rows:
            self.lines.append(line)
            self.rows.append(row)
        if not self.rows:
            raise InputError("there are no rows", where=self.where)
        self.said: list[str] = []

    def last_words(self) -> list[str]:
        """Return what is to be said at the end."""
        cut = self.embedder.texts.report()
        return self.said + ([cut] if cut else [])

    def _texts(self, column: str, flag: str) -> list[str]:
        return [text_of(row, column, flag, self.where, line) for line, row in zip(self.lines, self.rows, strict=True)]

    def _vectors(self) -> np.ndarray:
        """Return the rows' vectors, those that they hold or new ones; raises InputError for vectors of another size."""
        if EMBEDDING not in self.rows[0]:
            texts = self._texts(self.column, "text")
            return self.embedder.encode(texts, self.run.use.batch_size)
        held = [column_of(row, EMBEDDING, "text", self.where, line) for line, row in zip(self.lines, self.rows, strict=True)]
        wanted = self.embedder.dimension()
        for line, vector in zip(self.lines, held, strict=True):
            if not isinstance(vector, (list, np.ndarray)) or len(vector) != wanted:
                raise InputError(f"the embedding is not one of this model's, {wanted} numbers", where=self.where, line=line)
        return np.array(held, dtype=np.float32)

    def pairs(self) -> Iterator[tuple[Row, dict[str, Any]]]:
        """Return each row with the cosine of its two texts."""
        columns = self.run.columns
        first = self.embedder.encode(self._texts(self.column, "text"), self.run.use.batch_size)
        second = self.embedder.encode(self._texts(columns.pair_column or "pair", "pair"), self.run.use.batch_size)
        scores = cosines(first, second)
        if self.label in self.rows[0]:
            self._say_correlation(scores)
        return ((row, {"score": score}) for row, score in zip(self.rows, scores.tolist(), strict=True))

    def _say_correlation(self, scores: np.ndarray) -> None:
        from scipy import stats  # slow to load

        columns = self.run.columns
        try:
            truth = [take_number(row, columns, self.where, line) for line, row in zip(self.lines, self.rows, strict=True)]
        except InputError:
            return  # the column is kept, but is no measure
        if len(set(truth)) > 1 and len(set(scores.tolist())) > 1:
            self.said.append(f"Spearman {stats.spearmanr(scores, truth)[0]:.4f}, Pearson {stats.pearsonr(scores, truth)[0]:.4f} "
                             f"with {self.label}")

    def queries(self) -> Iterator[tuple[Row, dict[str, Any]]]:
        """Return each query with the nearest texts."""
        opened = open_table(self.run.queries, self.run.columns)
        column = "text" if opened.kind == ".txt" else self.run.columns.text_column or "text"
        asked = list(opened.rows)
        texts = [text_of(row, column, "text", opened.where, line) for line, row in asked]
        found = search(self.embedder.encode(texts, self.run.use.batch_size), self._vectors(), self.run.top_k)
        return ((row, {"matches": self._matches(*best)}) for (_, row), best in zip(asked, found, strict=True))

    def neighbours(self) -> Iterator[tuple[Row, dict[str, Any]]]:
        """Return each text with the nearest others."""
        vectors = self._vectors()
        found = search(vectors, vectors, self.run.top_k, leave_out_own=True)
        return ((row, {"matches": self._matches(*best)}) for row, best in zip(self.rows, found, strict=True))

    def _matches(self, numbers: np.ndarray, scores: np.ndarray) -> list[dict[str, Any]]:
        kept = [name for name in (self.run.columns.id_column, self.column) if name and name in self.rows[0]]
        return [{"row": number, "score": score} | {name: self.rows[number][name] for name in kept}
                for number, score in zip(numbers.tolist(), scores.tolist(), strict=True)]

    def clusters(self) -> Iterator[tuple[Row, dict[str, Any]]]:
        """Return each text with its cluster; write the page."""
        assert self.run.clusters is not None
        found = cluster(self._vectors(), self.run.clusters, self.run.seed)
        texts = self._texts(self.column, "text") if self.column in self.rows[0] else None
        words = marking_words(texts, found.labels, self.embedder.tokenizer) if texts else [[]] * self.run.clusters
        sizes = np.bincount(found.labels, minlength=self.run.clusters).tolist()
        self.said += [f"cluster {k}: {size:,} texts; {', '.join(words[k])}" for k, size in enumerate(sizes)]
        if str(self.run.output) != "-":
            path = self.run.output.with_suffix(".html")
            _write_page(path, found, words, sizes, texts)
            self.said.append(f"a page to look at: {path}")
        return ((row, {"cluster": int(label), "score": float(score)})
                for row, label, score in zip(self.rows, found.labels, found.scores, strict=True))


def _write_page(path: Path, found: Clusters, words: list[list[str]], sizes: list[int], texts: list[str] | None) -> None:
    chart = scatter_chart(found.picture[:, 0].tolist(), found.picture[:, 1].tolist(), labels=found.labels.tolist(),
                          names=("first principal axis", "second principal axis"))
    rows = []
    for k, size in enumerate(sizes):
        nearest = np.flatnonzero(found.labels == k)
        nearest = nearest[np.argsort(-found.scores[nearest], kind="stable")][:3]
        examples = " · ".join(texts[i][:160] for i in nearest) if texts else ", ".join(f"row {i}" for i in nearest)
        rows.append([k, size, ", ".join(words[k]), examples])
    head = ["cluster", "texts", "words", "nearest to its centre"]
    body = section("Clusters", f"<div class=wide>{chart}</div>{table(head, rows)}")
    with atomic_path(path) as partial:
        partial.write_text(page(path.stem, f"<h1>{len(sizes)} clusters of {sum(sizes):,} texts</h1>{body}"), encoding="utf-8")
