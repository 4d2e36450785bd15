"""Contextual embeddings: texts in, vectors of texts, words or tokens out.

`encode` takes the arguments of sentence-transformers' `SentenceTransformer.encode` and gives the same vectors.
Shapes: n texts, D hidden size (times the layers, where they are concatenated).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from bertlite.corpus.tokenizer import WordPiece
from bertlite.errors import InputError
from bertlite.formats.huggingface import check_vocabulary, load_model, read_tokenizer
from bertlite.formats.sentence_transformers import PoolingMode, read_sentence_model
from bertlite.inputs.batch import Batch, BatchItem, plain_sequence
from bertlite.model.encoder import Encoder, first_states
from bertlite.tasks.readers import Text
from bertlite.tasks.texts import TextEncoder, kept_tokens, length_batches
from bertlite.training.hardware import HardwareSettings, choose_device

Combination = Literal["mean", "concat"]


@dataclass(frozen=True)
class TokenVectors:
    """The tokens (or words) of one text: their strings, character offsets (n, 2) in the text, and vectors (n, D)."""

    tokens: list[str]
    offsets: np.ndarray
    vectors: np.ndarray


def load_encoder(folder: str | Path) -> tuple[Encoder, WordPiece]:
    """Load the encoder and tokenizer of a model directory; raises InputError for one that is not BERT's or not whole."""
    encoder = load_model(folder).encoder
    tokenizer, _ = read_tokenizer(folder)
    check_vocabulary(tokenizer, encoder.config, folder)
    return encoder, tokenizer


class Embedder:
    """An encoder, its tokenizer and how texts become vectors."""

    def __init__(self, encoder: Encoder, tokenizer: WordPiece, *, max_length: int, pooling: PoolingMode = "mean",
                 normalize: bool = False, prompt: str = "", device: torch.device | None = None):
        self.device = device or torch.device("cpu")
        self.encoder, self.tokenizer = encoder.eval().to(self.device), tokenizer
        self.max_length, self.pooling, self.normalize, self.prompt = max_length, pooling, normalize, prompt
        self.texts = TextEncoder(tokenizer, max_length, limit=encoder.config.max_positions)

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, device: str = "auto", max_length: int | None = None,
                        pooling: PoolingMode | None = None, threads: int | None = None) -> Embedder:
        """Open a model directory; modules.json, where there is one, says how it pools and normalises.

        Raises InputError for a directory that cannot be used.
        """
        encoder, tokenizer = load_encoder(folder)
        asked = read_sentence_model(folder)
        limit = encoder.config.max_positions
        if max_length is not None and not 3 <= max_length <= limit:
            raise InputError(f"--max-length must be between 3 and the model's {limit}; got {max_length}")
        return cls(encoder, tokenizer, max_length=max_length or min(asked.max_length or limit, limit),
                   pooling=pooling or asked.pooling, normalize=asked.normalize, prompt=asked.prompt,
                   device=choose_device(HardwareSettings(device=device, threads=threads)))

    def encode(self, sentences: Text | Sequence[Text], batch_size: int = 32, show_progress_bar: bool | None = None, *,
               convert_to_numpy: bool = True, normalize_embeddings: bool = False, truncate_dim: int | None = None,
               layers: Sequence[int] | None = None, combine: Combination = "mean") -> Any:
        """Return the vectors of texts, float32 (n, D); of one text given alone, (D,).

        `layers` are hidden states, -1 the last and 0 the embeddings; several are averaged or concatenated (`combine`).
        With `convert_to_numpy=False` a tensor is returned. Raises InputError for a layer the model does not have.
        """
        is_single = isinstance(sentences, (str, tuple))
        texts: list[Text] = [sentences] if is_single else list(sentences)  # type: ignore[list-item, arg-type]
        items = self.texts([self._prompted(text) for text in texts])
        vectors: np.ndarray | None = None
        bar = tqdm(total=len(items), disable=not show_progress_bar, unit="text")
        for numbers, batch in length_batches(items, batch_size=batch_size, pad_id=self.tokenizer.pad_id):
            pooled = self._pooled(batch, layers, combine)
            # In this order, as in sentence-transformers: what the model normalises is whole, what the caller asks for is cut.
            if self.normalize:
                pooled = torch.nn.functional.normalize(pooled, dim=-1)
            pooled = pooled[:, :truncate_dim]
            if normalize_embeddings:
                pooled = torch.nn.functional.normalize(pooled, dim=-1)
            if vectors is None:
                vectors = np.empty((len(items), pooled.shape[1]), dtype=np.float32)
            vectors[numbers] = pooled.cpu().numpy()
            bar.update(len(numbers))
        bar.close()
        result = np.zeros((0, self.dimension(layers, combine)), dtype=np.float32) if vectors is None else vectors
        result = result[0] if is_single else result
        return result if convert_to_numpy else torch.from_numpy(result)

    def encode_tokens(self, texts: Sequence[str], batch_size: int = 32, *, layers: Sequence[int] | None = None,
                      combine: Combination = "mean", level: Literal["token", "word"] = "token") -> list[TokenVectors]:
        """Return per-token vectors of each text with character offsets, special tokens left out.

        At `level="word"` the pieces of a word are averaged; words are those the tokenizer splits at spaces and
        punctuation. Tokens beyond the longest length are left out.
        """
        encodings = self.tokenizer.backend.encode_batch(list(texts))
        self.texts.lengths_before.update(len(encoding) for encoding in encodings)
        items = [self._item(encoding) for encoding in encodings]
        found: list[TokenVectors | None] = [None] * len(items)
        for numbers, batch in length_batches(items, batch_size=batch_size, pad_id=self.tokenizer.pad_id):
            states = self._states(batch, layers, combine).flatten(0, 1)
            begins = batch.first_positions.tolist()
            for number, begin in zip(numbers, begins, strict=True):
                rows = states[begin : begin + len(items[number])].cpu().numpy()
                found[number] = self._token_vectors(texts[number], encodings[number], rows, level)
        return [vectors for vectors in found if vectors is not None]

    def dimension(self, layers: Sequence[int] | None = None, combine: Combination = "mean") -> int:
        """Return D for these layers."""
        return self.encoder.config.hidden_size * (len(layers) if layers and combine == "concat" else 1)

    def _prompted(self, text: Text) -> Text:
        return (self.prompt + text[0], text[1]) if isinstance(text, tuple) else self.prompt + text

    def _item(self, encoding: Any) -> BatchItem:
        keep = kept_tokens(np.array(encoding.type_ids), self.max_length)
        return plain_sequence(np.array(encoding.ids)[keep], np.array(encoding.type_ids)[keep])

    @torch.inference_mode()
    def _states(self, batch: Batch, layers: Sequence[int] | None, combine: Combination) -> Tensor:
        """Return the chosen layers' states, (B, T, D)."""
        batch = batch.to(self.device)
        if layers is None or list(layers) == [-1]:
            return self.encoder(batch)
        states = self.encoder.all_layers(batch)
        try:
            chosen = [states[layer] for layer in layers]
        except IndexError:
            raise InputError(f"--layers {list(layers)}: the model has layers 0 (embeddings) to {len(states) - 1}, or "
                             f"-1 to {-len(states)} from the top") from None
        return torch.cat(chosen, dim=-1) if combine == "concat" else torch.stack(chosen).mean(0)

    @torch.inference_mode()
    def _pooled(self, batch: Batch, layers: Sequence[int] | None, combine: Combination) -> Tensor:
        states = self._states(batch, layers, combine)
        batch = batch.to(self.device)
        return first_states(states, batch) if self.pooling == "cls" else pool(states, batch, self.pooling)

    def _token_vectors(self, text: str, encoding: Any, rows: np.ndarray, level: str) -> TokenVectors:
        keep = kept_tokens(np.array(encoding.type_ids), self.max_length)
        inner = [(row, i) for row, i in enumerate(keep.tolist()) if not encoding.special_tokens_mask[i]]
        offsets = np.array([encoding.offsets[i] for _, i in inner], dtype=np.int64).reshape(-1, 2)
        vectors = rows[[row for row, _ in inner]]
        if level == "token":
            return TokenVectors([encoding.tokens[i] for _, i in inner], offsets, vectors)
        words = np.array([encoding.word_ids[i] for _, i in inner], dtype=np.int64)
        begins = np.flatnonzero(np.diff(words, prepend=-1)) if len(words) else np.zeros(0, dtype=np.int64)
        sizes = np.diff(begins, append=len(words))
        spans = np.stack([offsets[begins, 0], offsets[begins + sizes - 1, 1]], 1) if len(begins) else offsets
        means = np.add.reduceat(vectors, begins) / sizes[:, None] if len(begins) else vectors
        return TokenVectors([text[a:b] for a, b in spans.tolist()], spans, means.astype(np.float32))


def pool(states: Tensor, batch: Batch, mode: Literal["mean", "max"]) -> Tensor:
    """Return the mean or the maximum of each sequence's states, (N, D), in the order of `batch.first_positions`.

    The special tokens count, as in sentence-transformers.
    """
    per_row = batch.sequence_ids.amax(1)  # (B,)
    before = per_row.cumsum(0) - per_row
    owner = (batch.sequence_ids - 1 + before[:, None]).flatten()  # (B * T,)
    is_token = batch.sequence_ids.flatten() > 0
    owner, flat = owner[is_token], states.flatten(0, 1)[is_token]
    if mode == "mean":
        sums = flat.new_zeros(batch.num_sequences, flat.shape[1]).index_add_(0, owner, flat)
        return sums / torch.bincount(owner, minlength=batch.num_sequences)[:, None]
    lowest = flat.new_full((batch.num_sequences, flat.shape[1]), float("-inf"))
    return lowest.index_reduce_(0, owner, flat, "amax")

