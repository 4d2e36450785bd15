"""MiniLM fine-tuned to answer questions on passages, some of which have no answer (half of SQuAD 2.0's development set).

Command   python recipes/questions.py --data DIR --out runs/questions   (DIR: qa-en-squad2-part; needs the dev extra for MiniLM)
Three articles are held out for test, passages of a tenth of the others for the threshold of no answer; one seed. Results:
recipes/README.md.
"""

import json
import time
from pathlib import Path

import tyro
from peers import SEEDS, minilm

from bertlite import evaluate, finetune

TEST_ARTICLES = ("Warsaw", "French_and_Indian_War", "Force")


def main(data: Path, out: Path, epochs: float = 2.0, learning_rate: float = 2e-4, smoke: bool = False) -> None:
    whole = json.loads((data / "qa-en-squad2-part" / "dev-v2.0.json").read_text(encoding="utf-8"))
    out.mkdir(parents=True, exist_ok=True)
    parts = {"train": [a for a in whole["data"] if a["title"] not in TEST_ARTICLES], "test": [a for a in whole["data"] if a["title"] in TEST_ARTICLES]}
    if smoke:
        parts = {name: [article | {"paragraphs": article["paragraphs"][:3]} for article in articles[:3]] for name, articles in parts.items()}
    for name, articles in parts.items():
        (out / f"{name}.json").write_text(json.dumps({"version": "v2.0", "data": articles}), encoding="utf-8")
    begin = time.perf_counter()
    folder = finetune(model=minilm(), train=out / "train.json", out=out / "run", seeds=SEEDS[:1], epochs=0.5 if smoke else epochs,
                      learning_rate=learning_rate, precision="bf16", max_length=256, overwrite=True)
    print(f"trained in {time.perf_counter() - begin:.0f} s; threshold {json.loads((folder / 'bertlite.json').read_text())['threshold']:.3f}", flush=True)
    figures = evaluate(model=folder, input=out / "test.json")
    silent = figures["always_no_answer"]
    print("test: " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items() if name in silent))
    print("always no answer: " + ", ".join(f"{name} {value:.2f}" for name, value in silent.items()))


if __name__ == "__main__":
    tyro.cli(main)
