"""MiniLM on multi-label emotions, similarity scores, entailment and banking intents: thresholds, folds and pairs at work.

Command   python recipes/text_tasks.py --data DIR --out runs/text-tasks
          (DIR: cls-en-goemotions, sim-en-sts-ccbysa, pair-en-snli, cls-en-banking77; needs the dev extra for MiniLM)
Results: recipes/README.md.
"""

import csv
import json
import time
from pathlib import Path

import numpy as np
import tyro
from peers import SEEDS, minilm

from bertlite import Embedder, evaluate, finetune
from bertlite.tasks.regression import Regression
from bertlite.tasks.similarity import cosines
from bertlite.tasks.task import Examples
from bertlite.tasks.text_task import LabelledText


def main(data: Path, out: Path, tasks: tuple[str, ...] = ("similarity", "banking", "emotions", "entailment"), smoke: bool = False) -> None:
    for name in tasks:
        begin = time.perf_counter()
        print(f"{name}: {WAYS[name](data, out / name, smoke)}, {time.perf_counter() - begin:.0f} s", flush=True)


def similarity(data: Path, out: Path, smoke: bool) -> str:
    """STS 2014 images: the cosine as it is, and a regression in five folds."""
    rows = read(data / "sim-en-sts-ccbysa" / "2014-images.test.tsv", ("score", "a", "b"))[: 60 if smoke else None]
    embedder = Embedder.from_pretrained(minilm())
    scores = cosines(embedder.encode([row["a"] for row in rows]), embedder.encode([row["b"] for row in rows]))
    truth = Examples([LabelledText("", float(row["score"])) for row in rows], [0] * len(rows), "")
    cosine = Regression(texts=embedder.texts).score([np.array([score]) for score in scores], truth)
    folder = finetune(model=minilm(), task="regression", train=rows, text_column="a", pair_column="b", label_column="score", out=out,
                      folds=2 if smoke else 5, epochs=0.5 if smoke else 3.0, eval_steps=10**9, precision="bf16", overwrite=True)
    return f"cosine Spearman {cosine['spearman']:.4f}, Pearson {cosine['pearson']:.4f}; regression, folds: {several(folder, 'spearman', 'pearson', 'mse')}"


def banking(data: Path, out: Path, smoke: bool) -> str:
    """77 intents from 2,000 rows in five stratified folds."""
    rows = read(data / "cls-en-banking77" / "train.csv", None)
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))[: 300 if smoke else 2000]]
    folder = finetune(model=minilm(), train=rows, label_column="category", out=out, folds=2 if smoke else 5, epochs=0.5 if smoke else 4.0,
                      learning_rate=4e-4, eval_steps=10**9, precision="bf16", max_length=128, overwrite=True)
    return several(folder, "accuracy", "macro_f1", "calibration_error")


def emotions(data: Path, out: Path, smoke: bool) -> str:
    """28 emotions, several a text: 8,000 rows, thresholds chosen on the development part, measured on the test part."""
    folder = data / "cls-en-goemotions"
    parts = {name: read(folder / f"{name}.tsv", ("text", "labels", "id"))[: 80 if smoke else None] for name in ("train", "dev", "test")}
    train = [parts["train"][i] for i in np.random.default_rng(0).permutation(len(parts["train"]))[:8000]]
    columns = dict(label_column="labels", label_separator=",")
    known = {label for row in train for label in row["labels"].split(",")}
    dev, test = ([row for row in parts[name] if known.issuperset(row["labels"].split(","))] for name in ("dev", "test"))
    found = []
    for seed in SEEDS[:1]:
        run = finetune(model=minilm(), task="multi-label", train=train, validation=dev, out=out / str(seed), seeds=(seed,),
                       epochs=0.5 if smoke else 1.0, learning_rate=3e-4, eval_steps=10**9, precision="bf16", max_length=64, overwrite=True, **columns)
        found.append(evaluate(model=run, input=test, **columns))
    names = ("micro_f1", "micro_f1_at_half", "macro_f1", "exact_match")
    return "test: " + ", ".join(f"{name} {np.mean([f[name] for f in found]):.4f} ({np.std([f[name] for f in found], ddof=len(found) > 1):.4f})" for name in names)


def entailment(data: Path, out: Path, smoke: bool) -> str:
    """SNLI's development part, four fifths of its premises for training, the others for test."""
    rows = read(data / "pair-en-snli" / "dev.tsv", None)[: 300 if smoke else None]
    premises = sorted({row["premise"] for row in rows})
    held = set(np.random.default_rng(0).permutation(premises)[: len(premises) // 5].tolist())
    train, test = [row for row in rows if row["premise"] not in held], [row for row in rows if row["premise"] in held]
    folder = finetune(model=minilm(), train=train, validation=test, text_column="premise", pair_column="hypothesis", out=out, seeds=SEEDS[:1],
                      epochs=0.5 if smoke else 1.0, eval_steps=10**9, precision="bf16", max_length=128, overwrite=True)
    figures = json.loads((folder / "results.json").read_text())["metrics"]
    return f"{len(train)} pairs, test on {len(test)}: accuracy {figures['accuracy']:.4f}, macro F1 {figures['macro_f1']:.4f}"


def several(folder: Path, *names: str) -> str:
    results = json.loads((folder / "results.json").read_text())
    return ", ".join(f"{name} {results['mean'][name]:.4f} ({results['sd'][name]:.4f})" for name in names)


def read(path: Path, names: tuple[str, ...] | None) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as handle:
        is_tsv = path.suffix == ".tsv"
        return list(csv.DictReader(handle, names, delimiter="\t" if is_tsv else ",", quoting=csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL))


WAYS = {"similarity": similarity, "banking": banking, "emotions": emotions, "entailment": entailment}

if __name__ == "__main__":
    tyro.cli(main)
