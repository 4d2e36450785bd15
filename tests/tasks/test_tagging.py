"""Tagging: files of words and tags, alignment, windows, and predictions that lead back to the text."""

import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertlite.errors import InputError
from bertlite.formats.huggingface import read_config, read_tokenizer
from bertlite.tasks.conll import conll_rows
from bertlite.tasks.head import HeadSettings
from bertlite.tasks.predictor import Predictor, columns_of
from bertlite.tasks.readers import Columns
from bertlite.tasks.schemes import strict_spans
from bertlite.tasks.sentences import Sentence, split_text
from bertlite.tasks.tagging import Tagging, Tags
from bertlite.tasks.task import Examples, read_examples, run_task
from bertlite.tasks.texts import TextEncoder

LABELS = ["O", "B-A", "I-A", "B-B", "I-B"]
CPU = torch.device("cpu")


def tagger(tiny_model, *, length=24, kind="softmax", labels=LABELS, seed=0):
    config, _ = read_config(tiny_model)
    tokenizer, _ = read_tokenizer(tiny_model)
    task = Tagging(TextEncoder(tokenizer, length, limit=config.max_positions), labels, HeadSettings(kind=kind))
    model = task.make_model(config)
    model.initialise(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) * 0.3)
    return task, model.eval()


def sentences(*words, tags=None):
    items = [Sentence(words=tuple(w), tags=tuple(tags[i]) if tags else None, lines=tuple(range(1, len(w) + 1))) for i, w in enumerate(words)]
    return Examples(items, [1] * len(items), "words.conll")


WORDS = ["the", "fox", "Élan", "unbelievably", "狐狸", "😀", "e\u0301", "\u0301", "a-b.c", "x" * 200, "U.S.", "\u200b"]


@pytest.mark.parametrize("kind", ["softmax", "crf"])
def test_every_word_of_long_sentences_gets_one_prediction(tiny_model, kind):
    task, model = tagger(tiny_model, kind=kind)
    draws = random.Random(0)
    examples = sentences(*([draws.choice(WORDS) for _ in range(n)] for n in (1, 7, 2000, 30, 400)))
    outputs = run_task(task, model, examples, device=CPU)
    assert [len(output.labels) for output in outputs] == [len(s.words) for s in examples.items]
    windows = task.windows(examples, labelled=False)
    for number, sentence in enumerate(examples.items):
        labelled = np.concatenate([own for own, owner in zip(windows.places, windows.owners, strict=True) if owner == number])
        np.testing.assert_array_equal(np.sort(labelled), np.arange(len(sentence.words)))


def test_a_label_stands_on_the_first_piece_of_its_word(tiny_model):
    task, _ = tagger(tiny_model)
    examples = sentences(["unbelievably", "fox", "\u0301", "foxes"], tags=[["O", "B-A", "I-A", "B-B"]])
    (item,) = task.windows(examples, labelled=True).items
    pieces = [task.texts.tokenizer.tokens[i] for i in item.input_ids]
    assert [pieces[p].startswith("##") for p in item.labelled_positions] == [False] * 4
    assert item.token_labels.tolist() == [0, 1, 2, 3]
    assert pieces[item.labelled_positions[2]] == "[UNK]" and pieces[0] == "[CLS]" and pieces[-1] == "[SEP]"


def test_a_window_does_not_change_a_sentence_that_fits(tiny_model):
    task, model = tagger(tiny_model, length=60)
    examples = sentences(["the", "fox", "ran", "over", "the", "hill"])
    alone = run_task(task, model, examples, device=CPU)[0]
    together = run_task(task, model, sentences(*[list(e.words) for e in examples.items], ["a", "wolf"], ["foxes"] * 9), device=CPU)[0]
    assert alone.labels == together.labels
    np.testing.assert_allclose(alone.scores, together.scores, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_a_crf_never_gives_an_ill_formed_sequence(tiny_model, seed):
    task, model = tagger(tiny_model, kind="crf", seed=seed)
    with torch.no_grad():
        model.crf.transitions.mul_(10)
        model.crf.start[2] += 50  # would begin with I-A if it were let
    draws = random.Random(seed)
    examples = sentences(*([draws.choice(WORDS) for _ in range(n)] for n in (1, 2, 40, 90)))
    for output in run_task(task, model, examples, device=CPU):
        inside = sum(label.startswith("I-") for label in output.labels)
        covered = sum(end - start for _, start, end in strict_spans(output.labels)) - len(strict_spans(output.labels))
        assert inside == covered
        for before, label in itertools.pairwise(["O", *output.labels]):
            assert not label.startswith("I-") or before[2:] == label[2:]


TEXTS = st.lists(st.sampled_from(["the fox", "😀", "👩\u200d👩", "e\u0301t\u0301", "狐狸", "\t", "x" * 300, " ", "\n", "U.S.", "ﬁ", "\u200b", "한국", "ß"])
                 | st.text(max_size=5), max_size=8).map("".join)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
def test_predictions_lead_back_to_the_characters_of_a_text(tiny_model, text):
    if any("\ud800" <= c <= "\udfff" for c in text) or "\0" in text:
        return
    task, model = _cached(tiny_model)
    (answer,) = Predictor(task, model).predict([text])
    for word, (start, end) in zip(answer["words"], answer["offsets"], strict=True):
        assert text[start:end] == word and start < end
    flat = [place for pair in answer["offsets"] for place in pair]
    assert flat == sorted(flat) and len(answer["tags"]) == len(answer["words"]) == len(answer["scores"])
    for entity in answer["entities"]:
        assert text[entity["start"] : entity["end"]] == entity["word"]
    # Nothing but spaces and what the tokenizer drops is left over.
    left = "".join(c for k, c in enumerate(text) if not any(a <= k < b for a, b in answer["offsets"]))
    assert not task.texts.tokenizer.normalize(left).strip()


_CACHE = {}


def _cached(tiny_model):
    if tiny_model not in _CACHE:
        _CACHE[tiny_model] = tagger(tiny_model)
    return _CACHE[tiny_model]


def test_accents_and_joiners_stay_with_their_word(tokenizer):
    text = "cafe\u0301 au lait"
    assert [text[a:b] for a, b in split_text(tokenizer, text)] == ["cafe\u0301", "au", "lait"]


CONLLU = """# sent_id = 1
# text = I don't I don't I don't I don't I don't
# newpar
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tghost\t_\tX\t_\t_\t_\t_\t_\t_

1\tRun\trun\tVERB\tVB\t_\t0\troot\t_\t_
"""


@pytest.mark.parametrize(("name", "content", "columns", "words", "tags"), [
    ("a.conllu", CONLLU, {}, [["I", "do", "n't"], ["Run"]], [["PRON", "AUX", "PART"], ["VERB"]]),
    ("a.conllu", CONLLU, {"label_column": "xpos"}, [["I", "do", "n't"], ["Run"]], [["PRP", "VBP", "RB"], ["VB"]]),
    ("a.conllu", CONLLU, {"words_column": "lemma", "label_column": "8"}, [["I", "do", "not"], ["run"]], [["nsubj", "root", "advmod"], ["root"]]),
    ("a.conll", "-DOCSTART- -X- O\n\nEU NNP I-ORG\nsaid VBD O\n\n\nPeter NNP I-PER\n", {}, [["EU", "said"], ["Peter"]], [["B-ORG", "O"], ["B-PER"]]),
    ("a.conll", "EU NNP I-ORG\n", {"label_column": "2"}, [["EU"]], [["NNP"]]),
    ("a.tsv", "#\tO\nEU\tB-ORG\n\t\nPeter\tB-PER", {}, [["#", "EU"], ["Peter"]], [["O", "B-ORG"], ["B-PER"]]),
    ("a.iob2", "# text = x\n1\tEU\tB-ORG\t-\t-\n", {}, [["EU"]], [["B-ORG"]]),
    ("a.iob2", "# O\nEU B-ORG\n", {}, [["EU"]], [["B-ORG"]]), ("a.iob2", "EU B-ORG\n# O\n", {}, [["EU", "#"]], [["B-ORG", "O"]]),
    ("a.txt", "EU S-ORG\nof O\nNew B-LOC\nYork E-LOC\n", {}, [["EU", "of", "New", "York"]], [["B-ORG", "O", "B-LOC", "I-LOC"]]),
    ("a.jsonl", '{"words": ["EU"], "tags": ["B-ORG"]}\n', {}, [["EU"]], [["B-ORG"]]),
    ("a.tsv", "EU\tB\nof\tI\n,\tO\n", {}, [["EU", "of", ","]], [["B-entity", "I-entity", "O"]]),
    ("a.conll", "中 B\n国 E\n人 S\n", {}, [["中", "国", "人"]], [["B-entity", "I-entity", "B-entity"]]),
    ("a.conll", "北京 B-LOC\n人 O\n", {"split_words": True}, [["北", "京", "人"]], [["B-LOC", "I-LOC", "O"]]),
])
def test_every_kind_of_file_gives_words_and_tags(tmp_path, name, content, columns, words, tags):
    (tmp_path / name).write_text(content, encoding="utf-8")
    examples = read_examples(Tagging, tmp_path / name, columns_of("tagging", Columns(**columns), tmp_path / name))
    assert [list(s.words) for s in examples.items] == words and [list(s.tags) for s in examples.items] == tags


def test_lines_are_those_of_the_file(tmp_path):
    (tmp_path / "a.conllu").write_text(CONLLU)
    assert [row["lines"] for _, row in conll_rows(tmp_path / "a.conllu")] == [[4, 6, 7], [10]]


def test_tags_of_other_schemes_are_spoken_in_iob2(tiny_model):
    for labels in (["O", "B-A", "I-A", "E-A", "S-A"], ["O", "I-A"], ["O", "B-A", "I-A", "L-A", "U-A"]):
        task, model = tagger(tiny_model, labels=labels)
        outputs = run_task(task, model, sentences(["the", "fox", "ran", "over", "a", "hill"] * 8), device=CPU)
        assert set(outputs[0].labels) <= {"O", "B-A", "I-A"}
        task.check(sentences(["a", "b"], tags=[["B-A", "I-A"]]))


def test_plain_tags_are_taken_as_they_are(tiny_model):
    tokenizer, _ = read_tokenizer(tiny_model)
    texts = TextEncoder(tokenizer, 16, limit=64)
    task = Tagging.learned_from(sentences(["a", "b", "c"], tags=[["B-PER", "X", "O"]]), texts, HeadSettings())
    assert task.labels == ["B-PER", "O", "X"] and task.metrics == ("accuracy", "macro_f1")
    assert set(task.score([Tags((), ["B-PER", "O", "O"], [])], sentences(["a", "b", "c"], tags=[["B-PER", "X", "O"]]))) == {"accuracy", "macro_f1"}


def test_a_chain_learns_at_its_own_rate(tiny_model):
    from bertlite.training.transfer import TransferSettings, rate_of

    _, model = tagger(tiny_model, kind="crf")
    assert rate_of("crf.transitions", 2, TransferSettings(), 1e-4, model.rates) == 100
    assert rate_of("classifier.output.weight", 2, TransferSettings(head_learning_rate=2e-4), 1e-4, model.rates) == 2


def test_both_tags_of_a_type_are_labels_whatever_the_file_shows(tiny_model):
    tokenizer, _ = read_tokenizer(tiny_model)
    task = Tagging.learned_from(sentences(["a", "b"], tags=[["O", "B-X"]]), TextEncoder(tokenizer, 16, limit=64), HeadSettings())
    assert task.labels == ["O", "B-X", "I-X"]
    with pytest.raises(InputError, match="line 2: the tag 'B-Y' is not in the training words"):
        task.check(sentences(["a", "b"], tags=[["O", "B-Y"]]))
