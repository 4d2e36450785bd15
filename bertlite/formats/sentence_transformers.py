"""The files that make a model directory a sentence-transformers model: read and written.

The old class paths and keys are written: every version and the serving tools read them, the new ones they do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertlite.errors import InputError
from bertlite.files import read_json, read_object, write_json

PoolingMode = Literal["mean", "cls", "max"]
_KEYS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}


@dataclass(frozen=True)
class SentenceModel:
    """How a directory wants texts to become vectors."""

    pooling: PoolingMode = "mean"
    normalize: bool = False
    max_length: int | None = None
    """Tokens, special ones included; None where the directory does not say."""
    prompt: str = ""
    """Put before each text, the default prompt."""


def read_sentence_model(folder: str | Path) -> SentenceModel:
    """Follow modules.json where there is one; raises InputError for a module we do not have."""
    folder = Path(folder)
    if not (folder / "modules.json").exists():
        return SentenceModel()
    pooling: PoolingMode = "mean"
    normalize, max_length = False, None
    for module in read_json(folder / "modules.json"):
        kind = str(module["type"]).rpartition(".")[2]
        if kind == "Transformer":
            settings = _read_if_there(folder / module["path"] / "sentence_bert_config.json")
            max_length = settings.get("max_seq_length")
        elif kind == "Pooling":
            pooling = _read_pooling(folder / module["path"] / "config.json")
        elif kind == "Normalize":
            normalize = True
        else:
            raise InputError(f"the module {kind} is not supported", where=folder / "modules.json",
                             remedy="Transformer, Pooling and Normalize are")
    prompts = _read_if_there(folder / "config_sentence_transformers.json")
    prompt = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name") or "", "")
    return SentenceModel(pooling, normalize, max_length, prompt)


def _read_if_there(path: Path) -> dict[str, Any]:
    return read_object(path) if path.exists() else {}


def _read_pooling(path: Path) -> PoolingMode:
    settings = read_object(path)
    new_name = settings.get("pooling_mode")
    modes: list[PoolingMode] = [mode for mode, key in _KEYS.items() if settings.get(key) or new_name == mode]  # type: ignore[misc]
    if len(modes) != 1:
        raise InputError("the pooling is not one of mean, cls and max", where=path)
    return modes[0]


def write_sentence_model(folder: str | Path, *, hidden_size: int, max_length: int) -> None:
    """Write modules.json and its settings: mean pooling, not normalised."""
    folder = Path(folder)
    write_json(folder / "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ])
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False})
    write_json(folder / "1_Pooling" / "config.json", {
        "word_embedding_dimension": hidden_size,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    })
