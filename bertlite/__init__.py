"""bertlite: pretrain BERT on your own text, fine-tune it on your task, take embeddings from it.

The rooms, in reading order:

    corpus      raw text -> token ids
    examples    token store -> pretraining examples
    inputs      examples -> batches of tensors: masking, packing, order
    model       tensors -> tensors
    formats     other tools' files
    objectives  model and batch -> losses
    training    losses -> weights: the loop, checkpoints, hardware
    tasks       an encoder at work: classification, tagging, question answering, embedding, fill-mask, similarity
    report      pages to look at
    runs        one file a verb: what a user calls
    demo        the whole path on the text that ships

The names below are loaded when they are first used, so that `import bertlite` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_PLACES = {
    "train_tokenizer": "bertlite.runs.tokenizer",
    "build_corpus": "bertlite.runs.corpus",
    "pretrain": "bertlite.runs.pretrain",
    "finetune": "bertlite.runs.finetune",
    "evaluate": "bertlite.runs.evaluate",
    "predict": "bertlite.runs.predict",
    "embed": "bertlite.runs.embed",
    "fill_mask": "bertlite.runs.fill_mask",
    "similar": "bertlite.runs.similar",
    "make_report": "bertlite.runs.report",
    "run_demo": "bertlite.demo.story",
    "load_model": "bertlite.formats.huggingface",
    "Predictor": "bertlite.tasks.predictor",
    "Embedder": "bertlite.tasks.embedding",
    "FillMask": "bertlite.tasks.fill_mask",
    "InputError": "bertlite.errors",
    "Stopped": "bertlite.errors",
}
__all__ = [*_PLACES, "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'bertlite' has no attribute {name!r}")
