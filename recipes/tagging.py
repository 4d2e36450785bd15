"""MiniLM fine-tuned to tag: parts of speech (UD English EWT), entities (WNUT17, NCBI-disease), softmax and CRF, beside transformers.

Command   python recipes/tagging.py --data DIR --out runs/tagging
          (DIR: tag-en-ud-ewt, ner-en-wnut17, ner-en-ncbi-disease; needs the dev extra for MiniLM and the Trainer)
3,000 training sentences of EWT, all of the others; three seeds, the same learning rate, batch and epochs for transformers' Trainer,
which runs once, with the first seed. Measured once, after the last step: nothing was chosen on the test sentences. Results:
recipes/README.md.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from peers import RATE, SEEDS, make_trainer, minilm

from bertlite import finetune
from bertlite.tasks.conll import CONLLU, conll_rows
from bertlite.tasks.entity_metrics import entity_metrics, token_accuracy

Rows = list[dict[str, list[str]]]
SETS: dict[str, tuple[str, str, int, float]] = {  # training and test file, training sentences, epochs
    "ewt": ("tag-en-ud-ewt/en_ewt-ud-train.conllu", "tag-en-ud-ewt/en_ewt-ud-test.conllu", 3_000, 2.0),
    "wnut17": ("ner-en-wnut17/wnut17train.conll", "ner-en-wnut17/emerging.dev.conll", 10**9, 3.0),
    "ncbi": ("ner-en-ncbi-disease/train.tsv", "ner-en-ncbi-disease/test.tsv", 10**9, 1.0),
}


def main(data: Path, out: Path, sets: tuple[str, ...] = ("wnut17", "ewt", "ncbi"), crf: tuple[str, ...] = ("wnut17",),
         peers: tuple[str, ...] = ("wnut17", "ewt", "ncbi"), smoke: bool = False) -> None:
    for name in sets:
        train_file, test_file, most, epochs = SETS[name]
        train, test = read(data / train_file), read(data / test_file)
        train = [train[i] for i in np.random.default_rng(0).permutation(len(train))[:most]]
        if smoke:
            train, test, epochs = train[:60], test[:20], 0.5
        for head in ("softmax", "crf") if name in crf else ("softmax",):
            begin = time.perf_counter()
            folder = finetune(model=minilm(), task="tagging", train=train, validation=test, out=out / f"{name}-{head}",
                              seeds=SEEDS[:1] if smoke else SEEDS, epochs=epochs, learning_rate=RATE, eval_steps=10**9, precision="bf16",
                              max_length=128, overwrite=True, **{"head.kind": head})
            seconds = (time.perf_counter() - begin) / (1 if smoke else len(SEEDS))
            results = json.loads((folder / "results.json").read_text())
            mean, sd = results.get("mean", results["metrics"]), results.get("sd", {})
            print(f"{name}, {head}: " + ", ".join(f"{key} {mean[key]:.4f} ({sd.get(key, 0):.4f})" for key in ("f1", "strict_f1", "accuracy") if key in mean)
                  + f", {seconds:.0f} s a seed", flush=True)
        if name in peers and not smoke:
            figures, seconds = trainer(train, test, epochs, out / f"{name}-trainer")
            print(f"{name}, Trainer: " + ", ".join(f"{key} {value:.4f}" for key, value in figures.items()) + f", {seconds:.0f} s", flush=True)


def read(path: Path) -> Rows:
    word, tag = (CONLLU.index("form"), CONLLU.index("upos")) if path.suffix == ".conllu" else (0, 1)
    return [{"words": [c[word] for c in row["columns"]], "tags": [c[tag] for c in row["columns"]]} for _, row in conll_rows(path)]


def trainer(train: Rows, test: Rows, epochs: float, out: Path) -> tuple[dict[str, float], float]:
    """Fine-tune with transformers' Trainer as its token-classification example does: same rate, batch, epochs, warm-up, precision."""
    import datasets
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm())
    names = sorted({tag for row in train for tag in row["tags"]})
    transformers.set_seed(SEEDS[0])
    model = transformers.AutoModelForTokenClassification.from_pretrained(minilm(), num_labels=len(names))

    def encode(rows: dict[str, Any]) -> Any:
        encoded = tokenizer(rows["words"], is_split_into_words=True, truncation=True, max_length=128)
        encoded["labels"] = []
        for i, tags in enumerate(rows["tags"]):
            words = encoded.word_ids(i)
            first = [word is not None and word != before for word, before in zip(words, [None, *words], strict=False)]
            encoded["labels"].append([names.index(tags[w]) if f and tags[w] in names else -100 for w, f in zip(words, first, strict=True)])
        return encoded

    def prepare(rows: Rows) -> Any:
        return datasets.Dataset.from_list(rows).map(encode, batched=True, remove_columns=["words", "tags"])

    peer, seconds = make_trainer(model, prepare(train), transformers.DataCollatorForTokenClassification(tokenizer), epochs, out)
    result = peer.predict(prepare(test))
    ids, labels = result.predictions.argmax(-1), result.label_ids
    # Words beyond the 128th token have no prediction; here they count as O, as a user would have to take them.
    guess = []
    for row, row_ids, row_labels in zip(test, ids, labels, strict=True):
        tags = [names[i] for i, label in zip(row_ids, row_labels, strict=True) if label != -100]
        guess.append(tags + ["O"] * (len(row["tags"]) - len(tags)))
    truth = [row["tags"] for row in test]
    if "O" not in names:
        return {"accuracy": token_accuracy(guess, truth)}, seconds
    figures = entity_metrics(guess, truth)
    return {key: figures[key] for key in ("f1", "strict_f1")} | {"accuracy": token_accuracy(guess, truth)}, seconds


if __name__ == "__main__":
    tyro.cli(main)
