"""AdamW as BERT used it.

Source: Devlin et al. 2019, app. A.2, and the released `optimization.py`: weight decay on everything but biases and
LayerNorm, gradients clipped to a global norm of 1, no bias correction. Without the correction the first steps are up
to three times as long, which at the small presets' learning rates leaves a model on the unigram floor: they use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertlite.errors import InputError

# After this many steps beta ** step is 0 in float32 for every beta in use, so torch's correction divides by 1.
UNCORRECTED_STEP = 1e6


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """AdamW and clipping."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-6
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    """Largest global norm of the gradient."""
    bias_correction: bool | None = None
    """Adam's correction of its averages in the first steps (Kingma and Ba 2015, sec. 3), which BERT left out; the
    preset's when not given."""

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"--optimizer.{name} must be at least 0 and below 1; got {getattr(self, name)}")
        if self.eps <= 0 or self.clip_norm <= 0 or self.weight_decay < 0:
            raise InputError("--optimizer.eps and --optimizer.clip-norm must be positive, --optimizer.weight-decay at least 0")


def make_optimizer(model: nn.Module, settings: OptimizerSettings, *, learning_rate: float,
                   rate_of: Callable[[str], float] = lambda name: 1.0) -> torch.optim.AdamW:
    """Return AdamW over the parameters that train: matrices decay, biases and LayerNorm do not.

    `rate_of` gives a parameter's share of the learning rate by its name; its group keeps it under "share".
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    trained = [p for _, p in named]
    together: dict[tuple[float, bool], list[Tensor]] = {}
    for name, p in named:
        together.setdefault((rate_of(name), p.ndim >= 2), []).append(p)
    # What decays is the rate times the weight: a larger rate is no reason for more of it.
    groups = [{"params": parameters, "weight_decay": settings.weight_decay / max(1.0, share) if decays else 0.0, "share": share}
              for (share, decays), parameters in sorted(together.items(), key=lambda entry: entry[0], reverse=True)]
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(settings.beta1, settings.beta2), eps=settings.eps,
                                  fused=True)
    if not settings.bias_correction:
        for p in trained:
            optimizer.state[p] = {"step": torch.tensor(UNCORRECTED_STEP, device=p.device),
                                  "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    return optimizer


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as tensors named `parameter/entry`."""
    return {f"{name}/{entry}": value.detach().cpu().contiguous() for name, p in model.named_parameters()
            for entry, value in optimizer.state.get(p, {}).items()}


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` returned."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, entry = key.rpartition("/")
        p = parameters[name]
        optimizer.state[p][entry] = value.to(p.device)
