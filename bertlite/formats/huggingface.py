"""The Hugging Face BERT directory, read and written: weights, config.json and tokenizer files.

One table of names serves both ways. Only the three projections of attention need more than a name: ours are one
matrix. Sources: transformers' `modeling_bert.py` for names and shapes; the traps of its tokenizer files are said where
they are met.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bertlite.corpus.tokenizer import WordPiece, wordpiece_from_json, wordpiece_from_vocab
from bertlite.errors import InputError
from bertlite.files import atomic_path, read_object, write_json
from bertlite.model.bert import Bert
from bertlite.model.config import ModelConfig

# ours -> theirs; {l} is a layer's number, and a name without .weight or .bias stands for both.
NAMES = {
    "encoder.embeddings.token.weight": "bert.embeddings.word_embeddings.weight",
    "encoder.embeddings.segment.weight": "bert.embeddings.token_type_embeddings.weight",
    "encoder.embeddings.position.weight": "bert.embeddings.position_embeddings.weight",
    "encoder.embeddings.norm": "bert.embeddings.LayerNorm",
    "encoder.layers.{l}.attention.output": "bert.encoder.layer.{l}.attention.output.dense",
    "encoder.layers.{l}.attention_norm": "bert.encoder.layer.{l}.attention.output.LayerNorm",
    "encoder.layers.{l}.expand": "bert.encoder.layer.{l}.intermediate.dense",
    "encoder.layers.{l}.contract": "bert.encoder.layer.{l}.output.dense",
    "encoder.layers.{l}.output_norm": "bert.encoder.layer.{l}.output.LayerNorm",
    "pooler.dense": "bert.pooler.dense",
    "masked_lm.dense": "cls.predictions.transform.dense",
    "masked_lm.norm": "cls.predictions.transform.LayerNorm",
    "masked_lm.bias": "cls.predictions.bias",
    "next_sentence.output": "cls.seq_relationship",
    "classifier.output": "classifier",
    "span.output": "qa_outputs",
    # Theirs have no such part: they pass it over and give the emissions.
    "crf.transitions": "crf.transitions",
    "crf.start": "crf.start",
    "crf.end": "crf.end",
}
OURS_QKV = "encoder.layers.{l}.attention.qkv"
THEIRS_QKV = [f"bert.encoder.layer.{{l}}.attention.self.{part}" for part in ("query", "key", "value")]

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
CONFIG_NAMES = {
    "vocab_size": "vocab_size", "hidden_size": "hidden_size", "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads", "intermediate_size": "intermediate_size",
    "max_positions": "max_position_embeddings", "num_segments": "type_vocab_size",
    "hidden_dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob",
    "init_std": "initializer_range", "layer_norm_eps": "layer_norm_eps", "pad_id": "pad_token_id",
}
# Each architecture that serving tools look for, and the parts of ours that ask for it.
ARCHITECTURES = ((("classifier", "pooler"), "BertForSequenceClassification"), (("classifier",), "BertForTokenClassification"),
                 (("span",), "BertForQuestionAnswering"), (("next_sentence",), "BertForPreTraining"),
                 (("masked_lm",), "BertForMaskedLM"), ((), "BertModel"))


# --- weights -----------------------------------------------------------------------------------------------------


def to_their_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Turn our state dict into theirs; raises KeyError for a name without a counterpart."""
    table = {re.escape(k).replace(r"\{l\}", r"(?P<l>\d+)"): v for k, v in NAMES.items()}
    theirs: dict[str, Tensor] = {}
    for name, tensor in state.items():
        match = re.fullmatch(r"encoder\.layers\.(\d+)\.attention\.qkv\.(weight|bias)", name)
        if match:
            for part, piece in zip(THEIRS_QKV, tensor.chunk(3, dim=0), strict=True):
                theirs[f"{part.format(l=match[1])}.{match[2]}"] = piece.contiguous()
        else:
            theirs[_translate(name, table)] = tensor.contiguous()
    return theirs


def to_our_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Turn their state dict into ours: prefix or none, gamma and beta, tied copies and buffers dropped."""
    table = {re.escape(v).replace(r"\{l\}", r"(?P<l>\d+)"): k for k, v in NAMES.items()}
    state = {_modern_name(name, state): tensor for name, tensor in state.items()}
    ours: dict[str, Tensor] = {}
    for name, tensor in state.items():
        match = re.fullmatch(r"bert\.encoder\.layer\.(\d+)\.attention\.self\.query\.(weight|bias)", name)
        if match:
            parts = [state.get(f"{part.format(l=match[1])}.{match[2]}") for part in THEIRS_QKV]
            if all(part is not None and part.shape == tensor.shape for part in parts):
                ours[f"{OURS_QKV.format(l=match[1])}.{match[2]}"] = torch.cat(parts, dim=0)  # type: ignore[arg-type]
        elif ".attention.self." not in name:
            try:
                ours[_translate(name, table)] = tensor
            except KeyError:
                continue  # a head or buffer we do not have
    return ours


def _modern_name(name: str, state: Mapping[str, Tensor]) -> str:
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    if name.startswith(("embeddings.", "encoder.layer.", "pooler.")) and not name.startswith("bert."):
        return "bert." + name
    return name


def _translate(name: str, table: Mapping[str, str]) -> str:
    for pattern, replacement in table.items():
        if re.fullmatch(pattern, name):
            return replacement
        match = re.fullmatch(rf"{pattern}\.(?P<kind>weight|bias)", name)
        if match:
            return f"{replacement.format(**match.groupdict())}.{match['kind']}"
    raise KeyError(name)


def read_weights(folder: str | Path) -> dict[str, Tensor]:
    """Read a directory's weights under our names: safetensors, sharded safetensors, or a .bin with `weights_only`.

    Raises InputError for a missing, damaged or unsafe file.
    """
    folder = Path(folder)
    if (folder / "model.safetensors").exists():
        files = [folder / "model.safetensors"]
    elif (folder / "model.safetensors.index.json").exists():
        names = set(read_object(folder / "model.safetensors.index.json").get("weight_map", {}).values())
        files = [_inside(folder, name) for name in sorted(names)]
    elif (folder / "pytorch_model.bin").exists():
        return to_our_names(_read_bin(folder / "pytorch_model.bin"))
    else:
        raise InputError("there are no weights (model.safetensors)", where=folder, remedy="give a model directory")
    state: dict[str, Tensor] = {}
    for file in files:
        try:
            state |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise InputError(f"not a whole safetensors file ({error})", where=file) from None
    return to_our_names(state)


def _inside(folder: Path, name: str) -> Path:
    if Path(name).name != name:
        raise InputError(f"the index names {name!r}, which is not a file of this folder", where=folder)
    return folder / name


def _read_bin(path: Path) -> dict[str, Tensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises pickle's own errors, RuntimeError and others
        raise InputError(f"not a plain state dict ({type(error).__name__})", where=path,
                         remedy="save it as safetensors") from None
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise InputError("not a plain state dict", where=path)
    return state


def load_weights(module: nn.Module, state: Mapping[str, Tensor], *, where: str | Path) -> list[str]:
    """Copy `state` into `module`; return the names of module's parameters that are not there (they keep their values).

    Raises InputError when a shape differs or the encoder is incomplete.
    """
    own = module.state_dict()
    missing = [name for name in own if name not in state]
    lacking = [name for name in missing if name.startswith("encoder.")]
    if lacking:
        raise InputError(f"the weights lack {len(lacking)} parameters of the encoder, such as {lacking[0]}", where=where)
    for name in own.keys() & state.keys():
        if own[name].shape != state[name].shape:
            raise InputError(f"{name} has the shape {tuple(state[name].shape)}, config.json says {tuple(own[name].shape)}",
                             where=where)
    module.load_state_dict({name: tensor.float() for name, tensor in state.items() if name in own}, strict=False)
    return missing


def write_weights(path: str | Path, state: Mapping[str, Tensor]) -> None:
    """Write our state dict as float32 safetensors under their names, atomically."""
    theirs = {name: tensor.detach().float().cpu() for name, tensor in to_their_names(state).items()}
    with atomic_path(path) as partial:
        save_file(theirs, partial, metadata={"format": "pt"})
        partial.chmod(0o644)  # safetensors makes it readable for its owner alone


# --- config.json -------------------------------------------------------------------------------------------------


def read_config(folder: str | Path) -> tuple[ModelConfig, dict[str, Any]]:
    """Read config.json: our ModelConfig, and the whole as a dictionary (labels, problem type).

    Raises InputError for another model type, an activation or a size that is not supported.
    """
    path = Path(folder) / "config.json"
    if not Path(folder).is_dir() or not path.exists():
        raise InputError("not a model directory (no config.json)", where=folder)
    raw = read_object(path)
    if raw.get("model_type") != "bert":
        raise InputError(f"the model type {raw.get('model_type')!r} is not supported", where=path, remedy="bert is")
    if raw.get("position_embedding_type", "absolute") != "absolute" or raw.get("is_decoder"):
        raise InputError("only BERT encoders with absolute positions are supported", where=path)
    activation = raw.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise InputError(f"hidden_act {activation!r} is not supported", where=path,
                         remedy=f"one of {', '.join(ACTIVATIONS)}")
    missing = [theirs for theirs in CONFIG_NAMES.values() if theirs in _REQUIRED and theirs not in raw]
    if missing:
        raise InputError(f"{missing[0]} is missing", where=path)
    known = {ours: raw[theirs] for ours, theirs in CONFIG_NAMES.items() if raw.get(theirs) is not None}
    try:
        return ModelConfig(**known, activation=ACTIVATIONS[activation]), raw  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"a size is not a number ({error})", where=path) from None


_REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


def config_json(config: ModelConfig, architecture: str, **more: Any) -> dict[str, Any]:
    """Return the content of config.json; `more` holds labels and problem type of a fine-tuned model."""
    theirs = {theirs: getattr(config, ours) for ours, theirs in CONFIG_NAMES.items()}
    activation = "gelu_pytorch_tanh" if config.activation == "gelu_tanh" else config.activation
    return {
        "architectures": [architecture],
        "model_type": "bert",
        **theirs,
        "hidden_act": activation,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        # Version 4 reads torch_dtype, version 5 dtype; without it 5 loads in the stored one.
        "torch_dtype": "float32",
        "dtype": "float32",
        **more,
    }


def architecture_of(model: nn.Module) -> str:
    """Return the name of their class that takes all of `model`'s parts."""
    return next(name for parts, name in ARCHITECTURES if all(hasattr(model, part) for part in parts))


# --- tokenizer files ---------------------------------------------------------------------------------------------


def read_tokenizer(folder: str | Path) -> tuple[WordPiece, list[str]]:
    """Read the tokenizer of a directory, a `tokenizer.json` or a `vocab.txt`; also returns what is odd, to be said.

    tokenizer.json decides; a `do_lower_case` that contradicts it is announced.
    """
    path = Path(folder)
    if path.is_file():
        return (wordpiece_from_json(path) if path.suffix == ".json" else wordpiece_from_vocab(path)), []
    settings = read_object(path / "tokenizer_config.json") if (path / "tokenizer_config.json").exists() else {}
    if (path / "tokenizer.json").exists():
        tokenizer = wordpiece_from_json(path / "tokenizer.json")
        says = settings.get("do_lower_case")
        if says is not None and says != tokenizer.is_uncased:
            return tokenizer, [f"{path}: tokenizer_config.json says do_lower_case={says}, tokenizer.json does otherwise: "
                               "tokenizer.json is followed"]
        return tokenizer, []
    if (path / "vocab.txt").exists():
        tokenizer = wordpiece_from_vocab(path / "vocab.txt", lowercase=settings.get("do_lower_case"),
                                         strip_accents=settings.get("strip_accents"),
                                         split_chinese=settings.get("tokenize_chinese_chars", True))
        case = "uncased" if tokenizer.is_uncased else "cased"
        return tokenizer, [] if "do_lower_case" in settings else [f"{path}: casing is not recorded; taken as {case}"]
    raise InputError("there is no tokenizer (tokenizer.json or vocab.txt)", where=path)


def write_tokenizer(folder: str | Path, tokenizer: WordPiece, *, max_length: int) -> None:
    """Write tokenizer.json, vocab.txt and tokenizer_config.json."""
    folder = Path(folder)
    with atomic_path(folder / "tokenizer.json") as partial:
        tokenizer.backend.save(str(partial))
    with atomic_path(folder / "vocab.txt") as partial:
        partial.write_text("".join(token + "\n" for token in tokenizer.tokens), encoding="utf-8", newline="\n")
    write_json(folder / "tokenizer_config.json", {
        # BertTokenizer would rebuild the normaliser and lower-case a cased vocabulary; this class takes the file as it is.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
        "model_max_length": max_length,
        # Without this, version 5 drops the segment ids.
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "do_lower_case": tokenizer.is_uncased,
        "strip_accents": tokenizer.strips_accents,
        "tokenize_chinese_chars": tokenizer.splits_chinese,
    })


# --- directories -------------------------------------------------------------------------------------------------


def write_model(folder: str | Path, model: nn.Module, config: ModelConfig, tokenizer: WordPiece, *,
                max_length: int, **more: Any) -> None:
    """Write weights, config.json and tokenizer files of `model` into `folder`, each file atomically.

    `max_length` is the longest text in tokens; `more` joins config.json (labels, problem type).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config_json(config, architecture_of(model), **more))
    write_tokenizer(folder, tokenizer, max_length=max_length)
    write_weights(folder / "model.safetensors", model.state_dict())


def load_model(folder: str | Path) -> Bert:
    """Load the encoder and, where the weights have one, the pooler of a model directory, ready for evaluation.

    Raises InputError for a directory that is not BERT's or not whole.
    """
    config, _ = read_config(folder)
    state = read_weights(folder)
    model = Bert(config, has_pooler="pooler.dense.weight" in state)
    missing = load_weights(model, state, where=folder)
    if missing:
        raise InputError(f"the weights lack {missing[0]}", where=folder)
    return model.eval()


def check_vocabulary(tokenizer: WordPiece, config: ModelConfig, where: str | Path) -> None:
    """Raise InputError when the tokenizer has ids that the model has no embedding for."""
    if tokenizer.vocab_size > config.vocab_size:
        raise InputError(f"the tokenizer has {tokenizer.vocab_size:,} pieces, the model {config.vocab_size:,}", where=where)


def read_labels(raw: Mapping[str, Any]) -> list[str]:
    """Return the label names of a config.json in the order of their ids."""
    id2label = raw.get("id2label") or {}
    try:
        return [str(id2label[key]) for key in sorted(id2label, key=int)]
    except (TypeError, ValueError):
        raise InputError("id2label must name a label for each number", where="config.json") from None


def task_of(raw: Mapping[str, Any]) -> str | None:
    """Return the task that a config.json was written for, as --task says it; None for an encoder or a masked LM."""
    architecture = (raw.get("architectures") or [""])[0]
    if architecture.endswith("ForSequenceClassification"):
        kinds = {"single_label_classification": "classification", "multi_label_classification": "multi-label",
                 "regression": "regression"}
        # Without a problem type one output is a number, as in transformers.
        default = "regression" if len(raw.get("id2label") or "ab") == 1 else "classification"
        return kinds.get(raw.get("problem_type") or "", default)
    return {"BertForTokenClassification": "tagging", "BertForQuestionAnswering": "span-qa"}.get(architecture)


def dump_labels(labels: list[str]) -> dict[str, Any]:
    """Return the entries of config.json that name labels."""
    return {"id2label": {str(i): label for i, label in enumerate(labels)},
            "label2id": {label: i for i, label in enumerate(labels)}}
