"""Similarity: pairs, queries, neighbours and clusters, against the vectors themselves."""

import json

import numpy as np
import pytest

from bertlite import Embedder, InputError, embed, similar
from bertlite.tasks.similarity import cluster, cosines, marking_words, search

ANIMALS = [f"the {animal} number {i} ran over the hill" for i in range(8) for animal in ("fox", "wolf")]
ROWS = [{"id": f"r{i}", "text": text, "pair": ANIMALS[i // 2], "label": i} for i, text in enumerate(ANIMALS)]


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_pairs_get_their_cosine(tiny_model, tmp_path, capsys):
    assert similar(model=tiny_model, input=ROWS, output=tmp_path / "out.jsonl", pairs=True, device="cpu") == 16
    rows, embedder = read(tmp_path / "out.jsonl"), Embedder.from_pretrained(tiny_model, device="cpu")
    expected = cosines(embedder.encode([r["text"] for r in ROWS]), embedder.encode([r["pair"] for r in ROWS]))
    np.testing.assert_allclose([row["score"] for row in rows], expected, atol=1e-5)
    assert [{k: row[k] for k in ROWS[0]} for row in rows] == ROWS and "Spearman" in capsys.readouterr().err


def test_similarity_of_real_sentences_is_the_published_one(minilm, shared, tmp_path, capsys):
    similar(model=minilm, input=shared / "sim-en-sts-ccbysa" / "2014-images.test.tsv", output=tmp_path / "out.tsv", pairs=True, no_header=True,
            text_column="2", pair_column="3", label_column="1", device="cpu")
    assert "Spearman 0.8625" in capsys.readouterr().err  # SOURCE.md of the data: 86.25 with these weights


@pytest.mark.parametrize("is_embedded", [False, True])
def test_queries_find_the_nearest(tiny_model, tmp_path, is_embedded):
    source = ROWS
    if is_embedded:
        source = tmp_path / "vectors.parquet"
        embed(model=tiny_model, input=ROWS, output=source, id_column="id", quiet=True, device="cpu")
    similar(model=tiny_model, input=source, queries=ANIMALS[:3], output=tmp_path / "out.jsonl", top_k=4, id_column="id", quiet=True, device="cpu")
    embedder = Embedder.from_pretrained(tiny_model, device="cpu")
    vectors = embedder.encode(ANIMALS, normalize_embeddings=True)
    for row, text in zip(read(tmp_path / "out.jsonl"), ANIMALS, strict=False):
        scores = vectors @ embedder.encode(text, normalize_embeddings=True)
        assert row["text"] == text and row["matches"][0]["id"] == f"r{row['matches'][0]['row']}" and len(row["matches"]) == 4
        np.testing.assert_allclose([m["score"] for m in row["matches"]], np.sort(scores)[::-1][:4], atol=1e-5)


def test_a_text_is_not_its_own_neighbour(tiny_model, tmp_path):
    similar(model=tiny_model, input=ROWS, output=tmp_path / "out.jsonl", quiet=True, device="cpu")
    assert all(match["row"] != i for i, row in enumerate(read(tmp_path / "out.jsonl")) for match in row["matches"])


def test_clusters_are_found_named_and_drawn(tiny_model, tmp_path, capsys):
    rows = ["the fox ran over the hill"] * 6 + ["a wolf in the deep wood slept and slept"] * 4
    similar(model=tiny_model, input=rows, output=tmp_path / "out.csv", clusters=2, device="cpu")
    said = capsys.readouterr().err
    assert "cluster 0: 6 texts; " in said and "fox" in said.split("cluster 0")[1].split("\n")[0] and "wolf" in said.split("cluster 1")[1].split("\n")[0]
    page = (tmp_path / "out.html").read_text()
    assert "<svg" in page and "nearest to its centre" in page
    assert [line.split(",")[1] for line in (tmp_path / "out.csv").read_text().splitlines()] == ["cluster", *"0000001111"]


def test_search_is_that_of_sorting_and_in_pieces():
    draws = np.random.default_rng(0)
    vectors, queries = draws.normal(size=(50, 6)), draws.normal(size=(600, 6))
    for query, (numbers, scores) in zip(queries, search(queries, vectors, 3), strict=True):
        expected = cosines(np.repeat(query[None], 50, 0), vectors)
        np.testing.assert_allclose(scores, np.sort(expected)[::-1][:3])
        np.testing.assert_allclose(expected[numbers], scores)


def test_clusters_of_apart_points_are_those_points(tokenizer):
    points = np.concatenate([np.tile([1.0, 0, 0], (5, 1)), np.tile([0, 1.0, 0], (3, 1))])
    found = cluster(points, 2, seed=0)
    assert found.labels.tolist() == [0] * 5 + [1] * 3 and found.picture.shape == (8, 2)
    words = marking_words(["fox hill"] * 5 + ["wolf hill"] * 3, found.labels, tokenizer)
    assert words[0][0] == "fox" and words[1][0] == "wolf" and words[0][-1] == "hill"


@pytest.mark.parametrize(("change", "words"), [
    ({"pairs": True, "clusters": 2}, "give one of --pairs, --queries and --clusters"), ({"clusters": 99}, "between 2 and the number of texts, 16"),
    ({"top_k": 0}, "--top-k must be at least 1"), ({"input": []}, "there are no rows"), ({"text_column": "txt"}, "there is no column 'txt', did you mean text"),
    ({"input": [{"text": "x", "embedding": [1.0]}]}, "the embedding is not one of this model's, 32 numbers"),
    ({"input": [{"text": "x", "matches": 1}]}, "has a column 'matches' already"),
])
def test_what_cannot_be_is_refused(tiny_model, tmp_path, change, words):
    with pytest.raises(InputError, match=words):
        similar(**({"model": tiny_model, "input": ROWS, "output": tmp_path / "out.jsonl", "device": "cpu", "quiet": True} | change))
    assert not (tmp_path / "out.jsonl").exists() and not (tmp_path / "out.html").exists()
