"""The same weights give what transformers gives: states, logits, loss, gradients, and a hundred steps of training."""

import numpy as np
import pytest
import torch

from bertlite.corpus.tokenizer import wordpiece_from_json
from bertlite.formats.huggingface import load_model, to_our_names, to_their_names
from bertlite.inputs.packing import pack
from bertlite.model.encoder import first_states
from bertlite.training.optimizer import OptimizerSettings, make_optimizer
from tests.formats.peers import both_models, our_batch, random_config, random_items, their_inputs

transformers = pytest.importorskip("transformers")
TOLERANCE = dict(rtol=0, atol=1e-5)


def rows_for(kind, items):
    return pack([len(i) for i in items], 48) if kind == "packed" else [[i] for i in range(len(items))]


def length_for(kind, items):
    return 48 if kind == "packed" else max(map(len, items)) + (3 if kind == "padded" else 0)


CASES = [(seed, kind) for seed in range(4) for kind in ("full", "padded", "packed")]


@pytest.mark.parametrize(("seed", "kind"), CASES)
def test_states_logits_loss_and_every_gradient(seed, kind):
    config = random_config(seed)
    ours, theirs = both_models(config, seed)
    longest = min(20, config.max_positions)
    items = random_items(config, 6, seed, full=kind == "full", longest=longest)
    rows = rows_for(kind, items)
    batch = our_batch(items, rows, length_for(kind, items))
    assert batch.is_full == (kind == "full")
    order = [i for row in rows for i in row]

    inputs = their_inputs([items[i] for i in order])
    output = theirs(**inputs, output_hidden_states=True)
    hidden = ours.encoder(batch)
    pooled = ours.pooler(first_states(hidden, batch))
    flat, begins = hidden.flatten(0, 1), batch.first_positions.tolist()
    theirs_pooled = theirs.bert(**{k: inputs[k] for k in ("input_ids", "token_type_ids", "attention_mask")}).pooler_output
    for row, begin in enumerate(begins):
        length = len(items[order[row]])
        torch.testing.assert_close(flat[begin : begin + length], output.hidden_states[-1][row, :length], **TOLERANCE)
    torch.testing.assert_close(pooled, theirs_pooled, **TOLERANCE)
    torch.testing.assert_close(ours.next_sentence(pooled), output.seq_relationship_logits, **TOLERANCE)

    logits = ours.masked_lm(flat[batch.labelled_positions[: batch.num_labelled]], ours.encoder.embeddings.token.weight)
    chosen = inputs["labels"] != -100
    torch.testing.assert_close(logits, output.prediction_logits[chosen], **TOLERANCE)

    sums = ours(batch)
    loss = sums["masked_lm"].loss / sums["masked_lm"].size + sums["next_sentence"].loss / sums["next_sentence"].size
    torch.testing.assert_close(loss, output.loss, **TOLERANCE)
    loss.backward()
    output.loss.backward()
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    peers = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    translated = to_their_names(gradients)
    assert set(translated) == {n for n in peers if not n.startswith("cls.predictions.decoder")}
    for name, gradient in translated.items():
        torch.testing.assert_close(gradient, peers[name], **TOLERANCE, msg=name)


def test_names_translate_there_and_back():
    ours, _ = both_models(random_config(0))
    state = ours.state_dict()
    back = to_our_names(to_their_names(state))
    assert set(back) == set(state)
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_minilm_gives_the_same_states_on_real_text(minilm):
    lines = ["The fox ran over the hill.", "A much longer sentence, with commas, that has more than a few words in it.", "Short.",
             "Überraschung! 12,000 people came."] * 5
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    inputs = tokenizer(lines, padding=True, return_tensors="pt")
    assert wordpiece_from_json(minilm / "tokenizer.json").backend.encode(lines[1]).ids == [
        i for i in inputs["input_ids"][1].tolist() if i]
    with torch.inference_mode():
        theirs = transformers.AutoModel.from_pretrained(minilm)(**inputs).last_hidden_state
        ours = load_model(minilm)(inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"]).sequence_output
    used = inputs["attention_mask"].bool()
    torch.testing.assert_close(ours[used], theirs[used], rtol=0, atol=2e-5)


def test_a_hundred_steps_stay_together():
    config = random_config(1, activation="gelu")
    ours, theirs = both_models(config, 1)
    settings = OptimizerSettings(bias_correction=False)
    optimizer = make_optimizer(ours, settings, learning_rate=1e-3)
    reference = ReferenceAdamW(theirs, learning_rate=1e-3)
    for step in range(100):
        items = random_items(config, 8, step)
        batch = our_batch(items, [[i] for i in range(8)], max(map(len, items)))
        sums = ours(batch)
        loss = sums["masked_lm"].loss / sums["masked_lm"].size + sums["next_sentence"].loss / sums["next_sentence"].size
        peer = theirs(**their_inputs(items)).loss
        assert abs(float(loss.detach()) - float(peer.detach())) < 1e-4, step
        for model, each, update in ((ours, loss, optimizer.step), (theirs, peer, reference.step)):
            model.zero_grad()
            each.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update()


class ReferenceAdamW:
    """The released `AdamWeightDecayOptimizer`, written out: no bias correction, decay outside the moments."""

    def __init__(self, model, learning_rate):
        self.rate, self.parameters = learning_rate, dict(model.named_parameters())
        self.m = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.v = {name: torch.zeros_like(p) for name, p in self.parameters.items()}

    @torch.no_grad()
    def step(self):
        for name, p in self.parameters.items():
            if p.grad is None:
                continue
            self.m[name] = 0.9 * self.m[name] + 0.1 * p.grad
            self.v[name] = 0.999 * self.v[name] + 0.001 * p.grad**2
            update = self.m[name] / (self.v[name].sqrt() + 1e-6)
            if not ("LayerNorm" in name or name.endswith("bias")):
                update = update + 0.01 * p
            p -= self.rate * update


def test_state_dicts_without_prefix_and_with_old_names_are_read():
    ours, _ = both_models(random_config(2))
    old = {}
    for name, tensor in to_their_names(ours.state_dict()).items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        old[name.removeprefix("bert.")] = tensor
    old["cls.predictions.decoder.weight"] = torch.zeros(1)
    old["embeddings.position_ids"] = torch.zeros(1)
    back = to_our_names(old)
    assert set(back) == set(ours.state_dict())
    np.testing.assert_array_equal(back["encoder.layers.0.attention.qkv.weight"], ours.state_dict()["encoder.layers.0.attention.qkv.weight"])
