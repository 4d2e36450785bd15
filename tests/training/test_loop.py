"""The loop's laws: how a step is cut does not matter, what is not finite stops it."""

import pytest
import torch
from accelerate import Accelerator

from bertlite.corpus.store import DocumentSet
from bertlite.errors import InputError
from bertlite.inputs.loader import Cut, Position, make_loader
from bertlite.inputs.masking import MaskingSettings
from bertlite.model.config import ModelConfig
from bertlite.objectives.pretraining import BertForPretraining
from bertlite.training.checkpoint import TrainingState, checkpoints, load_checkpoint, rotate, save_checkpoint
from bertlite.training.log import MetricsLog
from bertlite.training.loop import Hooks, LoopSettings, train
from bertlite.training.optimizer import OptimizerSettings, make_optimizer


def run(store, tokenizer, *, rows_at_once, dropout=0.0, steps=4, num_sequences=64, log=None, rate=1e-3, before=lambda: None):
    config = ModelConfig(vocab_size=tokenizer.vocab_size, hidden_size=16, num_layers=2, num_heads=2, intermediate_size=32,
                         max_positions=64, hidden_dropout=dropout, attention_dropout=dropout)
    model = BertForPretraining(config, mask_id=tokenizer.mask_id)
    model.initialise(0)
    loader = make_loader(DocumentSet(store), tokenizer, objective="mlm+nsp", length=64, masking=MaskingSettings(), seed=0)
    accelerator = Accelerator(cpu=True)
    optimizer = make_optimizer(model, OptimizerSettings(), learning_rate=rate)
    prepared, prepared_optimizer = accelerator.prepare(model, optimizer)
    hooks = Hooks(steps_from=lambda state: loader.steps(state.position, num_sequences=num_sequences, cut=Cut(rows_at_once=rows_at_once)),
                  log=log)
    settings = LoopSettings(num_steps=steps, learning_rate=rate, clip_norm=1.0, warmup_share=0.0, seed=0, log_steps=1)
    before()
    train(prepared, prepared_optimizer, accelerator, settings, hooks, TrainingState(), quiet=True)
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_64_at_once_and_8_by_8_give_the_same_update(store, tokenizer):
    whole, accumulated = (run(store, tokenizer, rows_at_once=rows) for rows in (64, 8))
    for name, tensor in whole.items():
        torch.testing.assert_close(accumulated[name], tensor, rtol=0, atol=1e-5, msg=name)


def test_a_run_repeats_bit_for_bit_with_dropout(store, tokenizer):
    first, second = (run(store, tokenizer, rows_at_once=16, dropout=0.1) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_dropout_leaves_the_global_generator_alone(store, tokenizer):
    torch.manual_seed(5)
    expected = torch.rand(3)
    run(store, tokenizer, rows_at_once=16, dropout=0.1, steps=1, before=lambda: torch.manual_seed(5))
    assert torch.equal(torch.rand(3), expected)


def test_every_figure_is_logged(store, tokenizer, tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    run(store, tokenizer, rows_at_once=16, log=log)
    entries = log.read("train")
    assert [e["step"] for e in entries] == [1, 2, 3, 4]
    assert {"masked_lm_loss", "masked_lm_accuracy", "masked_lm_on_mask_loss", "next_sentence_loss", "next_sentence_accuracy",
            "learning_rate", "gradient_norm", "tokens_per_second"} <= entries[0].keys()


def test_a_loss_that_is_not_finite_stops_the_run(store, tokenizer):
    with pytest.raises(InputError, match="the gradient is"):
        run(store, tokenizer, rows_at_once=64, rate=1e30, steps=10)


def test_the_log_drops_what_came_after_the_step_and_a_torn_line(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        log.write("train", step, {"loss": 1.0})
    with open(log.path, "a") as handle:
        handle.write('{"step": 4, "ki')
    log.begin(2)
    assert [e["step"] for e in log.read()] == [1, 2]


def test_checkpoints_are_kept_by_age_and_by_worth(tmp_path):
    for step in (10, 20, 30, 40):
        state = TrainingState(step=step, position=Position(1, 2, step), pending={"a": 0.1}, best_step=10)
        save_checkpoint(tmp_path, state, {"p/exp_avg": torch.ones(2)}, lambda folder: None)
        rotate(tmp_path, keep=2, best_step=10)
    assert [p.name for p in checkpoints(tmp_path)] == ["step-00000010", "step-00000030", "step-00000040"]
    restored, tensors = load_checkpoint(checkpoints(tmp_path)[-1])
    assert restored == TrainingState(step=40, position=Position(1, 2, 40), pending={"a": 0.1}, best_step=10)
    assert torch.equal(tensors["p/exp_avg"], torch.ones(2))


def test_a_half_written_checkpoint_is_not_one(tmp_path):
    (tmp_path / ".step-00000010.1.partial").mkdir()
    (tmp_path / "step-00000020").mkdir()
    assert checkpoints(tmp_path) == []
