"""How much of a pretrained model moves in fine-tuning: rates a layer, frozen and redrawn layers.

Sources: Howard and Ruder 2018, sec. 3.2 (a smaller rate for each lower layer); Zhang et al. 2021, "Revisiting few-sample BERT
fine-tuning", sec. 5 (top layers drawn anew); Lee et al. 2019, "What would Elsa do?" (lower layers frozen).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from bertlite.errors import InputError
from bertlite.model.config import ModelConfig
from bertlite.model.init import initialise


@dataclass(frozen=True, kw_only=True)
class TransferSettings:
    """How much of the pretrained model moves."""

    layer_decay: float = 1.0
    """Each layer's learning rate is this times that of the layer above it."""
    head_learning_rate: float | None = None
    """Of all that stands on the encoder; --learning-rate when not given."""
    freeze_embeddings: bool = False
    freeze_layers: int = 0
    """So many layers from the bottom stay as they are, and the embeddings with them."""
    redraw_layers: int = 0
    """So many layers from the top begin anew."""

    def __post_init__(self) -> None:
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"--transfer.layer-decay must be above 0 and at most 1; got {self.layer_decay}")
        if self.head_learning_rate is not None and not 0 < self.head_learning_rate < float("inf"):
            raise InputError(f"--transfer.head-learning-rate must be positive; got {self.head_learning_rate}")
        if min(self.freeze_layers, self.redraw_layers) < 0:
            raise InputError("--transfer.freeze-layers and --transfer.redraw-layers must be at least 0")

    def check(self, config: ModelConfig) -> None:
        """Raise InputError where there are fewer layers than are to be frozen and redrawn."""
        if self.freeze_layers + self.redraw_layers > config.num_layers:
            raise InputError(f"--transfer.freeze-layers {self.freeze_layers} and --transfer.redraw-layers {self.redraw_layers} "
                             f"are more than the model's {config.num_layers} layers")


def height(name: str, num_layers: int) -> int:
    """Return how high a parameter stands: embeddings 0, layers 1 to `num_layers`, all above `num_layers` + 1."""
    if name.startswith("encoder.embeddings."):
        return 0
    match = re.match(r"encoder\.layers\.(\d+)\.", name)
    return int(match[1]) + 1 if match else num_layers + 1


def rate_of(name: str, num_layers: int, settings: TransferSettings, learning_rate: float, rates: Mapping[str, float]) -> float:
    """Return a parameter's share of the learning rate; `rates` are the model's own, by the beginning of a name."""
    at = height(name, num_layers)
    if at <= num_layers:
        return settings.layer_decay ** (num_layers - at)
    own = next((rate for beginning, rate in rates.items() if name.startswith(beginning)), 1.0)
    return own * (settings.head_learning_rate or learning_rate) / learning_rate


def prepare(model: nn.Module, config: ModelConfig, settings: TransferSettings, *, seed: int) -> None:
    """Redraw the top layers and freeze the lower ones."""
    layers = model.encoder.layers  # type: ignore[union-attr]
    for number in range(config.num_layers - settings.redraw_layers, config.num_layers):
        initialise(layers[number], std=config.init_std, seed=seed, part=3 + number)  # type: ignore[index, arg-type]
    for name, parameter in model.named_parameters():
        at = height(name, config.num_layers)
        is_frozen = at <= settings.freeze_layers and settings.freeze_layers > 0
        parameter.requires_grad_(not (is_frozen or (at == 0 and settings.freeze_embeddings)))
