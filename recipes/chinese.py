"""A tiny BERT on 24 MB of Chinese Wikipedia: characters as words, sentences split by their own stops.

Command   python recipes/chinese.py --data DIR --out runs/chinese        (DIR: raw-zh-wikipedia)
Results: recipes/README.md.
"""

from pathlib import Path

import tyro

from bertlite import fill_mask, pretrain

TEXTS = ("他出生于北[MASK]。", "中华人民共和[MASK]成立于1949年。", "这部电[MASK]由他导演。", "台北[MASK]是台湾的首都。", "该镇位于浙江[MASK]。")


def main(data: Path, out: Path, max_steps: int = 6_000, preset: str = "tiny", seed: int = 0, smoke: bool = False) -> None:
    pretrain(corpus=(data / ("*-03.txt" if smoke else "*.txt"),), out=out, preset=preset, vocab_size=8000, language="zh",
             max_steps=40 if smoke else max_steps, seed=seed, overwrite=True)
    for text in TEXTS:
        print(text, ", ".join(f"{a['token']} {a['score']:.2f}" for a in fill_mask(model=out, text=text)[0]))


if __name__ == "__main__":
    tyro.cli(main)
