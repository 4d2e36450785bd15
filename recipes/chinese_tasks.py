"""The Chinese BERT of recipes/chinese.py at work: entities (UNER), from its weights and from scratch; questions (DRCD), as a check.

Command   python recipes/chinese_tasks.py --data DIR --model runs/chinese --out runs/chinese-tasks   (DIR: ner-zh-uner-gsdsimp, qa-zh-drcd)
Words are split into characters; the official development part is the test, measured once after the last step; three seeds. DRCD:
500 questions are learned, far too few for a model this small; what is shown is that every answer of the other 3,024 is found in its
passage by its offsets and scored by characters. Results: recipes/README.md.
"""

import json
import time
from pathlib import Path

import numpy as np
import tyro
from peers import SEEDS

from bertlite import evaluate, finetune, predict
from bertlite.demo.story import write_untrained


def main(data: Path, model: Path, out: Path, epochs: float = 3.0, smoke: bool = False) -> None:
    for name, start in {"pretrained": model, "from scratch": write_untrained(model, out / "scratch")}.items():
        begin = time.perf_counter()
        folder = finetune(model=start, task="tagging", train=data / "ner-zh-uner-gsdsimp" / "zh_gsdsimp-ud-train.iob2",
                          validation=data / "ner-zh-uner-gsdsimp" / "zh_gsdsimp-ud-dev.iob2", split_words=True, max_length=128,
                          out=out / f"uner-{name.replace(' ', '-')}", seeds=SEEDS[:1] if smoke else SEEDS, eval_steps=10**9, precision="bf16",
                          overwrite=True, **({"max_steps": 3} if smoke else {"epochs": epochs}))
        results = json.loads((folder / "results.json").read_text())
        mean, sd = results.get("mean", results["metrics"]), results.get("sd", {})
        print(f"UNER, {name}: F1 {mean['f1']:.4f} ({sd.get('f1', 0):.4f}), accuracy {mean['accuracy']:.4f}, "
              f"{time.perf_counter() - begin:.0f} s", flush=True)
    questions(data / "qa-zh-drcd" / "DRCD_dev.json", model, out, smoke)


def questions(file: Path, model: Path, out: Path, smoke: bool) -> None:
    whole = json.loads(file.read_text(encoding="utf-8"))
    paragraphs = [paragraph for article in whole["data"] for paragraph in article["paragraphs"]]
    ends = np.cumsum([len(paragraph["qas"]) for paragraph in paragraphs])
    cut = int(np.searchsorted(ends, 500)) + 1
    for name, part in (("train", paragraphs[:cut]), ("test", paragraphs[cut : cut + 5] if smoke else paragraphs[cut:])):
        (out / f"{name}.json").write_text(json.dumps({"data": [{"title": "", "paragraphs": part}]}, ensure_ascii=False), encoding="utf-8")
    folder = finetune(model=model, train=out / "train.json", validation=out / "train.json", out=out / "drcd", max_length=256, overwrite=True,
                      eval_steps=10**9, precision="bf16", **({"max_steps": 3} if smoke else {"epochs": 5.0}))
    predict(model=folder, input=out / "test.json", output=out / "answers.jsonl", overwrite=True)
    rows = [json.loads(line) for line in (out / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    in_place = sum(row["context"][row["start"] : row["end"]] == row["answer"] for row in rows)
    figures = evaluate(model=folder, input=out / "answers.jsonl", predicted=True, quiet=True)
    print(f"DRCD: {in_place} of {len(rows)} answers are at their offsets; EM {figures['exact_match']:.2f}, F1 by characters {figures['f1']:.2f}")


if __name__ == "__main__":
    tyro.cli(main)
