"""Initial weights.

Source: the released code: truncated normal within two deviations for matrices and embeddings, 0 for biases, LayerNorm
at 1 and 0. The deviation is not the paper's 0.02 in every preset: see presets.py.
"""

from __future__ import annotations

import torch
from torch import nn

from bertlite.draws import Purpose, torch_seed


def initialise(module: nn.Module, *, std: float, seed: int, part: int = 0) -> None:
    """Fill `module`'s parameters in place; deviation `std` is that of the normal before truncation.

    Modules that are drawn apart from one another under the same seed take different numbers as `part`.
    """
    generator = torch.Generator().manual_seed(torch_seed(seed, Purpose.INIT, part))
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, (nn.Linear, nn.Embedding)):
                nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
                if isinstance(layer, nn.Linear) and layer.bias is not None:
                    layer.bias.zero_()
            elif isinstance(layer, nn.LayerNorm):
                layer.weight.fill_(1.0)
                layer.bias.zero_()
