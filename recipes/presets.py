"""What a preset's learning rate, init deviation and lengths rest on: one change at a time from the setting it has.

Command   python recipes/presets.py --out runs/presets --preset mini
Trains on the demo corpus (the file that ships for training; its held-out file is the validation) and prints each
variant's last validation. Results: recipes/README.md, and recipes/LOG.md for those that failed.
"""

from importlib import resources
from pathlib import Path
from typing import Any

import tyro

from bertlite import pretrain
from bertlite.training.log import MetricsLog

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {
        "as it is": {},
        "no bias correction": {"optimizer": {"bias_correction": False}},
        "learning rate 1e-3": {"learning_rate": 1e-3},
        "learning rate 4e-3": {"learning_rate": 4e-3},
        "deviation 0.02": {"init_std": 0.02},
        "length 128 throughout": {"phases": ("128x16",)},
        "the paper's (1e-4, 0.02)": {"learning_rate": 1e-4, "init_std": 0.02},
    },
    "mini": {
        "as it is": {},
        "learning rate 5e-4": {"learning_rate": 5e-4},
        "learning rate 2e-3": {"learning_rate": 2e-3},
        "deviation 0.02": {"init_std": 0.02},
        "deviation 0.08": {"init_std": 0.08},
    },
}


def main(out: Path, preset: str = "tiny", max_steps: int = 1_700, variants: tuple[str, ...] = (), smoke: bool = False) -> None:
    print("| variant | tokens | masked LM | on [MASK] | floor | next sentence | commoner label |\n|---|---|---|---|---|---|---|")
    for number, (name, change) in enumerate(VARIANTS[preset].items()):
        if variants and name not in variants:
            continue
        steps = 10 if smoke else max_steps
        folder = pretrain(corpus=(text("train-00"),), validation=(text("heldout"),), out=out / f"{preset}-{number}", preset=preset,
                          vocab_size=4000, case="uncased", accents="strip", language="en", max_steps=steps, eval_steps=steps,
                          overwrite=True, quiet=True, **change)
        last = MetricsLog(folder / "metrics.jsonl").read("validation")[-1]
        print(f"| {name} | {steps * 2048 / 1e6:.1f} M | {last['masked_lm_loss']:.2f} | {last['masked_lm_on_mask_loss']:.2f} | "
              f"{last['unigram_floor']:.2f} | {last['next_sentence_accuracy']:.2f} | {last['commoner_pair_share']:.2f} |", flush=True)


def text(part: str) -> Path:
    return Path(str(resources.files("bertlite.demo") / f"pd-docs-en-{part}.txt"))


if __name__ == "__main__":
    tyro.cli(main)
