"""A tiny BERT on 40 MB of English Wikipedia, with its curve against the unigram floor.

Command   python recipes/wikipedia.py --data DIR --out runs/wikipedia        (DIR: raw-en-wikipedia)
Results: recipes/README.md.
"""

from pathlib import Path

import tyro

from bertlite import fill_mask, pretrain

TEXTS = ("The [MASK] is a river in Germany.", "He was born in [MASK], England.", "The album was released in [MASK] 2014.",
         "She was elected to the House of [MASK].", "The film was directed by [MASK] Smith.")


def main(data: Path, out: Path, max_steps: int = 10_000, preset: str = "tiny", seed: int = 0, smoke: bool = False) -> None:
    pretrain(corpus=(data / ("*-00.txt" if smoke else "*.txt"),), out=out, preset=preset, vocab_size=8000, case="uncased",
             accents="strip", language="en", max_steps=40 if smoke else max_steps, seed=seed, overwrite=True)
    for text in TEXTS:
        print(text, ", ".join(f"{a['token']} {a['score']:.2f}" for a in fill_mask(model=out, text=text)[0]))


if __name__ == "__main__":
    tyro.cli(main)
