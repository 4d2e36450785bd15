"""AdamW as BERT used it, and the schedule."""

import pytest
import torch
from torch import nn

from bertlite.errors import InputError
from bertlite.training.optimizer import OptimizerSettings, make_optimizer, optimizer_tensors, restore_optimizer
from bertlite.training.presets import Phase, parse_phases, phase_ends
from bertlite.training.schedule import LinearSchedule


def trained(correct, steps=5):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
    optimizer = make_optimizer(model, OptimizerSettings(bias_correction=correct), learning_rate=1e-2)
    history = []
    for step in range(steps):
        model(torch.full((2, 4), float(step + 1))).pow(2).sum().backward()
        history.append({name: p.grad.clone() for name, p in model.named_parameters()})
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer, history


@pytest.mark.parametrize("correct", [False, True])
def test_updates_are_the_written_out_ones(correct):
    model, _, history = trained(correct)
    torch.manual_seed(0)
    expected = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in expected.named_parameters()}
    with torch.no_grad():
        for t, gradients in enumerate(history, start=1):
            for name, p in expected.named_parameters():
                m, v = moments[name]
                m.mul_(0.9).add_(0.1 * gradients[name])
                v.mul_(0.999).add_(0.001 * gradients[name] ** 2)
                m_hat, v_hat = (m / (1 - 0.9**t), v / (1 - 0.999**t)) if correct else (m, v)
                decay = 0.01 if p.ndim >= 2 else 0.0
                p -= 1e-2 * (m_hat / (v_hat.sqrt() + 1e-6) + decay * p)
    for ours, wanted in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)


def test_the_state_survives():
    model, optimizer, _ = trained(True)
    again = make_optimizer(model, OptimizerSettings(bias_correction=True), learning_rate=1e-2)
    tensors = optimizer_tensors(model, optimizer)
    restore_optimizer(model, again, tensors)
    assert all(torch.equal(value, optimizer_tensors(model, again)[name]) for name, value in tensors.items())


def test_the_rate_rises_in_a_line_and_falls_in_a_line_to_nothing():
    schedule = LinearSchedule(100, 0.1)
    factors = [schedule.factor(step) for step in range(101)]
    assert factors[0] == pytest.approx(0.1) and factors[9] == factors[10] == 1.0
    assert factors[55] == pytest.approx(0.5) and factors[99] == pytest.approx(1 / 90) and factors[100] == 0.0
    assert LinearSchedule(5, 0.0).factor(0) == 1.0


def test_phases_are_read_and_share_the_steps():
    phases = parse_phases(("128x256:0.9", "512x64:0.1"))
    assert phases == [Phase(128, 256, 0.9), Phase(512, 64, 0.1)]
    assert phase_ends(phases, 1000) == [900, 1000]
    assert [p.share for p in parse_phases(("32x8", "64x8:3"))] == [0.25, 0.75]


@pytest.mark.parametrize("texts", [(), ("128",), ("128x",), ("axb:1",), ("128x8:0",), ("4x8:1",), ("128x8:1", "128x4:1"), ("128x8:1.2.3",)])
def test_a_phase_of_another_form_is_refused(texts):
    with pytest.raises(InputError, match="--phases"):
        parse_phases(texts)
