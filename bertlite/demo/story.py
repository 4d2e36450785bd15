"""`bertlite demo`: the whole path on the corpus that ships.

Tokenizer, pretraining, fine-tuning on a few labelled sentences beside two baselines, embeddings, fill-mask, and one
page to look at. The same documents are held out from pretraining and from fine-tuning.
"""

from __future__ import annotations

import html
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertlite.demo.corpus import demo_documents, labelled_sentences, split_by_kind, write_text
from bertlite.files import read_json, write_json
from bertlite.formats.huggingface import read_config, read_tokenizer, write_model
from bertlite.objectives.pretraining import BertForPretraining
from bertlite.report.page import write_report
from bertlite.report.tables import section, table
from bertlite.runs.console import Console
from bertlite.runs.finetune import finetune
from bertlite.runs.pretrain import pretrain
from bertlite.runs.settings import build
from bertlite.tasks.embedding import Embedder
from bertlite.tasks.fill_mask import FillMask
from bertlite.training.log import MetricsLog

LEAST_WORDS = 8
PER_KIND = 20
FILL_MASK = ("Sherlock [MASK] sat down by the fire.", "Once upon a time there was a poor [MASK] who had three sons.",
             "The people of the United [MASK] have chosen.", "The Fox said to the [MASK], and ran away.",
             "\"My dear [MASK],\" said he, \"it is quite simple.\"", "The king's daughter went into the [MASK].")
QUERIES = ("A Wolf met a Lamb by the river and wished to eat him.", "We examined the room for traces of the murderer.",
           "The powers of the national government are limited by the constitution.")


@dataclass(frozen=True, kw_only=True)
class DemoRun:
    """Run the whole path on the text that ships with bertlite."""

    out: Path = Path("demo-run")
    """Folder for everything the demo writes."""
    smoke: bool = False
    """A run of seconds that shows the path and nothing of the quality."""
    seed: int = 0
    """Seed of the pretraining."""
    split_seed: int = 0
    """Seed of the choice of held-out documents."""
    overwrite: bool = False
    """Replace a demo that is there."""
    quiet: bool = False
    """Say nothing but errors."""


@dataclass(frozen=True)
class _Scale:
    """How much the demo does."""

    max_steps: int
    seeds: tuple[int, ...]
    epochs: float
    test_per_kind: int


FULL = _Scale(max_steps=6_000, seeds=(1, 2, 3), epochs=30.0, test_per_kind=200)
SMOKE = _Scale(max_steps=60, seeds=(1, 2), epochs=2.0, test_per_kind=10)


def run_demo(**settings: Any) -> dict[str, Any]:
    """Run the demo, print its table and return its figures; keywords are the fields of DemoRun."""
    run = build(DemoRun, settings)
    scale, console = SMOKE if run.smoke else FULL, Console(run.quiet)
    training, held_out = split_by_kind(demo_documents(), run.split_seed)
    write_text(training, run.out / "text" / "training.txt")
    write_text(held_out, run.out / "text" / "held-out.txt")
    console.say("1. Pretraining on fables, tales, essays, stories and speeches")
    model = pretrain(corpus=(run.out / "text" / "training.txt",), validation=(run.out / "text" / "held-out.txt",),
                     out=run.out / "pretrained", preset="tiny", vocab_size=4000, case="uncased", accents="strip",
                     language="en", max_steps=scale.max_steps, seed=run.seed, overwrite=run.overwrite, quiet=run.quiet)
    console.say(f"2. Which kind of text is a sentence from? {PER_KIND} labelled sentences a kind")
    untrained = write_untrained(model, run.out / "untrained")
    test = labelled_sentences(held_out, least_words=LEAST_WORDS, per_kind=scale.test_per_kind, seed=0)
    kinds: dict[str, list[dict[str, float]]] = {"majority": [], "tf-idf": [], "scratch": [], "pretrained": []}
    for seed in scale.seeds:
        rows = labelled_sentences(training, least_words=LEAST_WORDS, per_kind=PER_KIND, seed=seed)
        kinds["majority"].append(_majority(test))
        kinds["tf-idf"].append(_tf_idf(rows, test))
        for name, start in (("scratch", untrained), ("pretrained", model)):
            out = run.out / "kinds" / f"{name}-{seed}"
            # Evaluated once, after the last step: the test sentences choose nothing.
            finetune(model=start, train=rows, validation=test, out=out, seeds=(seed,), epochs=scale.epochs, eval_steps=10**9,
                     learning_rate=3e-4, batch_size=16, overwrite=run.overwrite, quiet=True)
            kinds[name].append(read_json(out / "results.json")["metrics"])
            console.say(f"   {name}, seed {seed}: accuracy {kinds[name][-1]['accuracy']:.3f}")
    console.say("3. Embeddings and fill-mask")
    results: dict[str, Any] = {"pretraining": MetricsLog(model / "metrics.jsonl").read("validation")[-1], "kinds": summary(kinds),
               "neighbours": _neighbours(model, test), "fill_mask": _fill_mask(model)}
    write_json(run.out / "results.json", results)
    page = write_report(model, [_kinds_section(results["kinds"]), _neighbours_section(results), _fill_mask_section(results)])
    print(text_table(results, page))
    return results


def write_untrained(model: Path, out: Path) -> Path:
    """Write a model of the same sizes and tokenizer with new weights: what pretraining is measured against."""
    config, _ = read_config(model)
    tokenizer, _ = read_tokenizer(model)
    fresh = BertForPretraining(config, mask_id=tokenizer.mask_id)
    fresh.initialise(seed=1)
    write_model(out, fresh, config, tokenizer, max_length=config.max_positions)
    return out


# --- baselines ---------------------------------------------------------------------------------------------------


def _scores(predicted: list[str], rows: list[dict[str, str]]) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, f1_score  # slow to load

    true = [row["label"] for row in rows]
    return {"accuracy": float(accuracy_score(true, predicted)), "macro_f1": float(f1_score(true, predicted, average="macro"))}


def _majority(test: list[dict[str, str]]) -> dict[str, float]:
    labels = [row["label"] for row in test]
    return _scores([statistics.mode(labels)] * len(test), test)


def _tf_idf(rows: list[dict[str, str]], test: list[dict[str, str]]) -> dict[str, float]:
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to load
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    classifier = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10.0, max_iter=1000))
    classifier.fit([row["text"] for row in rows], [row["label"] for row in rows])
    return _scores(classifier.predict([row["text"] for row in test]).tolist(), test)


def summary(kinds: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return mean and sample deviation of accuracy and macro F1 of each way."""
    result = {}
    for name, trials in kinds.items():
        result[name] = {f"{figure}{part}": measure([trial[figure] for trial in trials]) for figure in ("accuracy", "macro_f1")
                        for part, measure in (("", statistics.fmean), ("_sd", _deviation))}
    return result


def _deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


# --- what the encoder knows --------------------------------------------------------------------------------------


def _neighbours(model: Path, rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Find for each query the nearest held-out sentences by the cosine of their embeddings."""
    embedder = Embedder.from_pretrained(model, device="cpu")
    texts = [row["text"] for row in rows]
    vectors = embedder.encode([*QUERIES, *texts], normalize_embeddings=True)
    # Mean-pooled BERT vectors share one large common part: what is left without it tells sentences apart.
    vectors = vectors - vectors.mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similar = vectors[: len(QUERIES)] @ vectors[len(QUERIES) :].T
    found = []
    for query, scores in zip(QUERIES, similar, strict=True):
        best = np.argsort(-scores)[:3]
        found.append({"query": query, "nearest": [{"text": texts[i], "kind": rows[i]["label"], "cosine": float(scores[i])}
                                                  for i in best]})
    return found


def _fill_mask(model: Path) -> list[dict[str, Any]]:
    fill = FillMask.from_pretrained(model)
    return [{"text": text, "answers": fill(text, top_k=3)[0]} for text in FILL_MASK]


# --- what is shown -----------------------------------------------------------------------------------------------


def text_table(results: dict[str, Any], page: Path) -> str:
    """Return the demo's figures as plain text."""
    p, rows = results["pretraining"], []
    rows.append(f"held-out masked LM loss          {p['masked_lm_loss']:6.2f}   unigram floor {p['unigram_floor']:.2f}: "
                f"{p['unigram_floor'] - p['masked_lm_loss']:.2f} nats under it")
    rows.append(f"  on [MASK] positions only       {p['masked_lm_on_mask_loss']:6.2f}   "
                f"{p['unigram_floor'] - p['masked_lm_on_mask_loss']:.2f} nats under it")
    rows.append(f"masked accuracy                  {p['masked_lm_accuracy']:6.2f}   on [MASK] "
                f"{p['masked_lm_on_mask_accuracy']:.2f}, commonest token {p['commonest_token_share']:.2f}")
    rows.append(f"next-sentence accuracy           {p['next_sentence_accuracy']:6.2f}   commoner label "
                f"{p['commoner_pair_share']:.2f} (six very different kinds of text: topic alone tells much)")
    rows += ["", "kind of text of a sentence          accuracy (sd)      macro F1 (sd)"]
    for name, k in results["kinds"].items():
        rows.append(f"  {name:<30}  {k['accuracy']:6.3f} ({k['accuracy_sd']:.3f})   "
                    f"{k['macro_f1']:6.3f} ({k['macro_f1_sd']:.3f})")
    rows += ["", "nearest held-out sentences"]
    for item in results["neighbours"]:
        best = item["nearest"][0]
        rows.append(f"  {item['query']}\n    -> {best['text'][:100]} [{best['kind']}, {best['cosine']:.2f}]")
    rows += ["", "fill-mask"]
    for item in results["fill_mask"]:
        answers = ", ".join(f"{a['token']} {a['score']:.2f}" for a in item["answers"])
        rows.append(f"  {item['text']:<62} {answers}")
    return "\n".join([*rows, "", f"a page to look at: {page}"])


def _kinds_section(kinds: dict[str, dict[str, float]]) -> str:
    rows = [[name, f"{k['accuracy']:.3f} ({k['accuracy_sd']:.3f})", f"{k['macro_f1']:.3f} ({k['macro_f1_sd']:.3f})"]
            for name, k in kinds.items()]
    words = f"<p class=quiet>{PER_KIND} labelled sentences a kind; documents held out; mean (sd) over seeds.</p>"
    return section("Which kind of text is a sentence from?", words + table(["way", "accuracy", "macro F1"], rows))


def _neighbours_section(results: dict[str, Any]) -> str:
    parts = []
    for item in results["neighbours"]:
        rows = [[f"{near['cosine']:.2f}", near["kind"], near["text"]] for near in item["nearest"]]
        parts.append(f"<h3>{html.escape(item['query'])}</h3>" + table(["cosine", "kind", "held-out sentence"], rows))
    return section("Nearest sentences by embedding", "".join(parts))


def _fill_mask_section(results: dict[str, Any]) -> str:
    rows = [[item["text"], ", ".join(f"{a['token']} ({a['score']:.2f})" for a in item["answers"])]
            for item in results["fill_mask"]]
    return section("Fill-mask", table(["text", "answers"], rows))


