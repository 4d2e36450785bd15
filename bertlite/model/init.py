"""Initial weights.

Source: the released code: truncated normal within two deviations for matrices and embeddings, 0 for biases, LayerNorm
at 1 and 0. The deviation is not the paper's 0.02 in every preset: see presets.py.
"""

from __future__ import annotations

import torch
from torch import nn

from bertlite.draws import Purpose, torch_seed


def initialise(module: nn.Module, *, std: float, seed: int) -> None:
    """Fill `module`'s parameters in place from the seed; deviation `std` is that of the normal before truncation."""
    generator = torch.Generator().manual_seed(torch_seed(seed, Purpose.INIT))
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
                if isinstance(part, nn.Linear) and part.bias is not None:
                    part.bias.zero_()
            elif isinstance(part, nn.LayerNorm):
                part.weight.fill_(1.0)
                part.bias.zero_()
