"""Every task's model opens in transformers' matching class and gives the same logits; and transformers' own open here."""

import numpy as np
import pytest
import torch

from bertlite.formats.huggingface import dump_labels, read_config, read_tokenizer, write_model
from bertlite.inputs.batch import BatchItem, make_batch
from bertlite.objectives.sequence_labels import SequenceClassifier, binary_cross_entropy
from bertlite.objectives.spans import SpanExtractor
from bertlite.objectives.token_labels import CrfTagger, Tagger
from bertlite.tasks.predictor import Predictor
from bertlite.tasks.regression import Regressor

transformers = pytest.importorskip("transformers")

LABELS = ["O", "B-A", "I-A"]
MODELS = {
    "AutoModelForSequenceClassification": (lambda c: SequenceClassifier(c, 3, binary_cross_entropy()),
                                           {"problem_type": "multi_label_classification", **dump_labels(LABELS)}),
    "regression": (lambda c: Regressor(c, 2.5), {"problem_type": "regression", **dump_labels(["LABEL_0"])}),
    "AutoModelForTokenClassification": (lambda c: Tagger(c, 3), dump_labels(LABELS)),
    "crf": (lambda c: CrfTagger(c, 3), dump_labels(LABELS)),
    "AutoModelForQuestionAnswering": (SpanExtractor, {}),
}
CLASSES = {"regression": "AutoModelForSequenceClassification", "crf": "AutoModelForTokenClassification"}
TEXTS = ["the fox ran over the hill", "the wolf"]


@pytest.mark.parametrize("name", list(MODELS))
def test_it_opens_in_transformers_with_equal_logits(tiny_model, tmp_path, name):
    make, entries = MODELS[name]
    config, _ = read_config(tiny_model)
    tokenizer, _ = read_tokenizer(tiny_model)
    ours = make(config)
    ours.initialise(1)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)) * 0.1)
    write_model(tmp_path, ours.eval(), config, tokenizer, max_length=64, **entries)
    peer, info = getattr(transformers, CLASSES.get(name, name)).from_pretrained(tmp_path, output_loading_info=True)
    assert not set(info["missing_keys"]) and not info["mismatched_keys"]
    assert {key.split(".")[0] for key in info["unexpected_keys"]} <= {"crf"}
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        inputs = tokens(text, return_tensors="pt")
        theirs = peer.eval()(**inputs)
        length = inputs["input_ids"].shape[1]
        item = BatchItem(inputs["input_ids"][0].numpy(), inputs["token_type_ids"][0].numpy(), np.arange(length), np.full(length, -100))
        with torch.no_grad():
            logits = ours.logits(make_batch([[item]], length=length, pad_id=0))
        expected = torch.stack([theirs.start_logits[0], theirs.end_logits[0]], 1) if name.endswith("Answering") else theirs.logits[0]
        torch.testing.assert_close(logits.reshape(expected.shape), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("cls", "task", "more"), [
    ("BertForTokenClassification", "tagging", {"id2label": dict(enumerate(LABELS))}), ("BertForQuestionAnswering", "span-qa", {}),
    ("BertForSequenceClassification", "multi-label", {"id2label": dict(enumerate(LABELS)), "problem_type": "multi_label_classification"}),
    ("BertForSequenceClassification", "regression", {"num_labels": 1}),
    ("BertForSequenceClassification", "classification", {"id2label": dict(enumerate(LABELS))}),
])
def test_a_model_of_transformers_predicts_here(tiny_model, tmp_path, cls, task, more):
    config = transformers.AutoConfig.from_pretrained(tiny_model, **more)
    getattr(transformers, cls)(config).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    predictor = Predictor.from_pretrained(tmp_path, device="cpu")
    assert predictor.task.name == task
    answers = predictor.predict([("What ran?", "the fox ran")] if task == "span-qa" else TEXTS)
    assert all(answers)


def test_entities_are_those_of_the_pipeline(tiny_model, tmp_path):
    config, _ = read_config(tiny_model)
    tokenizer, _ = read_tokenizer(tiny_model)
    model = Tagger(config, 3)
    model.initialise(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)) * 0.5)
    write_model(tmp_path, model, config, tokenizer, max_length=64, **dump_labels(LABELS))
    pipeline = transformers.pipeline("token-classification", model=str(tmp_path), aggregation_strategy="first")
    for text in ["the fox ran over the hill", "a wolf and the unbelievably old foxes slept"]:
        ours = Predictor.from_pretrained(tmp_path, device="cpu").predict([text])[0]["entities"]
        theirs = pipeline(text)
        # Theirs joins neighbours whatever their letters say where I- follows I-; where a B- begins they agree.
        assert [(e["entity_group"], e["start"], e["end"]) for e in ours] == [(e["entity_group"], e["start"], e["end"]) for e in theirs]
        np.testing.assert_allclose([e["score"] for e in ours], [e["score"] for e in theirs], atol=1e-4)
