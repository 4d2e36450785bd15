"""What is written opens in transformers and sentence-transformers as it is, and is read back equal."""

import json

import numpy as np
import pytest
import torch

from bertlite.corpus.tokenizer import TokenizerSettings, train_wordpiece
from bertlite.errors import InputError
from bertlite.formats.huggingface import (
    dump_labels,
    load_model,
    load_weights,
    read_config,
    read_labels,
    read_tokenizer,
    read_weights,
    write_model,
)
from bertlite.formats.sentence_transformers import read_sentence_model, write_sentence_model
from bertlite.model.config import ModelConfig
from bertlite.objectives.pretraining import BertForPretraining
from bertlite.objectives.sequence_labels import SequenceClassifier, cross_entropy
from bertlite.tasks.embedding import Embedder
from bertlite.tasks.fill_mask import FillMask
from bertlite.tasks.predictor import Predictor

transformers = pytest.importorskip("transformers")

TEXTS = ["The Fox saw the Wolf, and ran.", "Élan of the wolf", "狐狸跑了。", "a", "The wolf [MASK] the fox."]
PAIRS = [("The Fox ran.", "The Wolf saw it."), ("a", "Élan")]


@pytest.fixture(scope="module", params=["cased", "uncased"])
def directory(request, tmp_path_factory):
    accents = "keep" if request.param == "cased" else "strip"
    tokenizer = train_wordpiece(TEXTS * 4, TokenizerSettings(vocab_size=150, case=request.param, accents=accents))
    config = ModelConfig(vocab_size=tokenizer.vocab_size, hidden_size=16, num_layers=2, num_heads=2, intermediate_size=32,
                         max_positions=32)
    model = BertForPretraining(config, mask_id=tokenizer.mask_id)
    model.initialise(3)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(1)) * 0.2)
    folder = tmp_path_factory.mktemp(request.param)
    write_model(folder, model, config, tokenizer, max_length=32)
    write_sentence_model(folder, hidden_size=16, max_length=32)
    return folder, model.eval(), tokenizer


def info_of(cls, folder):
    return cls.from_pretrained(folder, output_loading_info=True)


def missing(info):
    return set(info["missing_keys"])


@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForPreTraining", "BertForNextSentencePrediction", "AutoModel"])
def test_transformers_loads_it_with_no_key_missing(directory, name):
    _, info = info_of(getattr(transformers, name), directory[0])
    assert not missing(info)


def test_a_task_class_misses_its_new_head_alone(directory):
    _, info = info_of(transformers.BertForSequenceClassification, directory[0])
    assert missing(info) == {"classifier.weight", "classifier.bias"}


def test_tokenizers_agree_pairs_included(directory):
    folder, _, tokenizer = directory
    peer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert peer(text)["input_ids"] == tokenizer.backend.encode(text).ids
    for first, second in PAIRS:
        theirs, ours = peer(first, second), tokenizer.backend.encode(first, second)
        assert (theirs["input_ids"], theirs["token_type_ids"]) == (ours.ids, ours.type_ids)
    assert peer.decode(peer("The Fox")["input_ids"], skip_special_tokens=True) == tokenizer.normalize("The Fox").strip()


def test_outputs_agree(directory):
    folder, model, _ = directory
    peer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = peer([p[0] for p in PAIRS], [p[1] for p in PAIRS], padding=True, return_tensors="pt")
    theirs = transformers.BertForPreTraining.from_pretrained(folder).eval()(**inputs)
    bert = load_model(folder)
    output = bert(inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"])
    torch.testing.assert_close(model.next_sentence(output.pooled_output), theirs.seq_relationship_logits, rtol=0, atol=1e-5)
    logits = model.masked_lm(output.sequence_output, model.encoder.embeddings.token.weight)
    used = inputs["attention_mask"].bool()
    torch.testing.assert_close(logits[used], theirs.prediction_logits[used], rtol=0, atol=1e-5)


def test_fill_mask_is_the_pipelines(directory):
    folder = directory[0]
    theirs = transformers.pipeline("fill-mask", model=str(folder), top_k=5)(TEXTS[-1])
    ours = FillMask.from_pretrained(folder)(TEXTS[-1], top_k=5)[0]
    assert [a["token_id"] for a in ours] == [a["token"] for a in theirs]
    np.testing.assert_allclose([a["score"] for a in ours], [a["score"] for a in theirs], atol=1e-5)
    assert [a["sequence"] for a in ours] == [a["sequence"] for a in theirs]


def test_sentence_transformers_encodes_it_equally(directory):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = directory[0]
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(Embedder.from_pretrained(folder, device="cpu").encode(TEXTS), theirs, atol=1e-5)


def test_a_classifier_loads_and_agrees(directory, tmp_path):
    folder, _, tokenizer = directory
    config, _ = read_config(folder)
    model = SequenceClassifier(config, 3, cross_entropy())
    model.initialise(0)
    load_weights(model, read_weights(folder), where=folder)
    write_model(tmp_path, model, config, tokenizer, max_length=32, problem_type="single_label_classification",
                **dump_labels(["a", "b", "c"]))
    peer, info = info_of(transformers.AutoModelForSequenceClassification, tmp_path)
    assert not missing(info) and peer.config.id2label == {0: "a", 1: "b", 2: "c"}
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path)
    inputs = tokens([p[0] for p in PAIRS], [p[1] for p in PAIRS], padding=True, return_tensors="pt")
    expected = peer.eval()(**inputs).logits.softmax(-1).detach().numpy()
    answers = Predictor.from_pretrained(tmp_path, device="cpu").predict(PAIRS)
    np.testing.assert_allclose([list(answer["scores"].values()) for answer in answers], expected, atol=1e-5)


def test_config_and_weights_survive(directory):
    folder, model, tokenizer = directory
    config, raw = read_config(folder)
    assert config == model.config and raw["architectures"] == ["BertForPreTraining"]
    again = BertForPretraining(config, mask_id=tokenizer.mask_id)
    assert load_weights(again, read_weights(folder), where=folder) == []
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    assert read_labels({"id2label": {"1": "b", "0": "a", "10": "k", "2": "c"}}) == ["a", "b", "c", "k"]


def test_a_conflict_of_casing_is_announced(directory, tmp_path):
    folder, _, tokenizer = directory
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"do_lower_case": not tokenizer.is_uncased}))
    loaded, notes = read_tokenizer(tmp_path)
    assert loaded.is_uncased == tokenizer.is_uncased and "tokenizer.json is followed" in notes[0]


@pytest.mark.parametrize(("change", "words"), [
    ({"model_type": "roberta"}, "'roberta' is not supported"), ({"hidden_act": "swish"}, "'swish' is not supported"),
    ({"hidden_size": None}, "hidden_size is missing"), ({"hidden_size": "many"}, "not a number"),
    ({"num_attention_heads": 3}, "multiple of num_heads"), ({"position_embedding_type": "relative_key"}, "absolute"),
])
def test_a_config_that_is_not_ours_is_refused(directory, tmp_path, change, words):
    raw = json.loads((directory[0] / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in raw.items() if v is not None}))
    with pytest.raises(InputError, match=words):
        read_config(tmp_path)


def test_weights_of_another_shape_or_torn_are_refused(directory, tmp_path):
    folder = directory[0]
    raw = json.loads((folder / "config.json").read_text()) | {"intermediate_size": 48}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    data = (folder / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(InputError, match="has the shape"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="not a whole safetensors"):
        load_model(tmp_path)


def test_a_bin_is_read_and_a_pickle_that_runs_code_is_not(directory, tmp_path):
    folder = directory[0]
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), tmp_path / "pytorch_model.bin")
    expected = load_model(folder).state_dict()
    assert all(torch.equal(expected[name], tensor) for name, tensor in load_model(tmp_path).state_dict().items())
    torch.save({"x": Malicious(tmp_path / "ran")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="not a plain state dict"):
        load_model(tmp_path)
    assert not (tmp_path / "ran").exists()


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize(("modules", "words"), [
    ([{"type": "sentence_transformers.models.Dense", "path": "1"}], "Dense is not supported"),
])
def test_a_module_we_do_not_have_is_named(tmp_path, modules, words):
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match=words):
        read_sentence_model(tmp_path)


def test_sentence_model_files_survive(tmp_path):
    write_sentence_model(tmp_path, hidden_size=8, max_length=77)
    asked = read_sentence_model(tmp_path)
    assert (asked.pooling, asked.normalize, asked.max_length) == ("mean", False, 77)
