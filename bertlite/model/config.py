"""The model's sizes, and the presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertlite.errors import InputError

Activation = Literal["gelu", "gelu_tanh", "relu"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes of a BERT encoder; the defaults are BERT-base (Devlin et al. 2019, sec. 3)."""

    vocab_size: int = 30_522
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int = 3072
    max_positions: int = 512
    num_segments: int = 2
    activation: Activation = "gelu"  # by the error function; the released code used the tanh approximation
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1  # Devlin et al. 2019, app. A.2; 0 opens the kernels that cannot drop
    init_std: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_id: int = 0

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size", "max_positions", "num_segments")
        for name in sizes:
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.hidden_size % self.num_heads:
            raise InputError(f"hidden_size must be a multiple of num_heads; got hidden_size={self.hidden_size}, "
                             f"num_heads={self.num_heads}")
        for name in ("hidden_dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 0 and below 1; got {getattr(self, name)}")
