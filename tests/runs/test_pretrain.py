"""Pretraining from end to end: what it leaves, how it goes on, what it refuses."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertlite import InputError, Stopped, evaluate, fill_mask, pretrain
from bertlite.training.checkpoint import checkpoints
from bertlite.training.log import MetricsLog
from bertlite.training.presets import PRESETS

ROOT = Path(__file__).resolve().parents[2]
SMALL = dict(device="cpu", preset="tiny", vocab_size=300, case="uncased", language="en", phases=("32x8:0.5", "64x4:0.5"), precision="fp32",
             threads=1, quiet=True, dropout=0.1, log_steps=3)


def sha(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A run that was never stopped."""
    return pretrain(corpus=corpus, out=tmp_path_factory.mktemp("whole") / "run", max_steps=20, save_steps=5, eval_steps=10,
                    keep=0, **SMALL)


def test_a_run_directory_is_a_model_directory(whole):
    names = {p.name for p in whole.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "modules.json", "run.json",
            "metrics.jsonl", "checkpoints", "report.html", "README.md"} <= names
    assert not list(whole.glob(".*.partial"))
    assert len(fill_mask(model=whole, text="the [MASK] ran")[0]) == 5


def test_the_log_has_each_step_once_and_the_floor(whole):
    log = MetricsLog(whole / "metrics.jsonl")
    assert [e["step"] for e in log.read("train")] == [3, 6, 9, 12, 15, 18, 20]
    validation = log.read("validation")
    assert [(e["step"], e["length"]) for e in validation] == [(10, 32), (20, 64)]
    assert all(e["unigram_floor"] > 3 and 0 <= e["commonest_token_share"] < 1 for e in validation), validation


@pytest.mark.parametrize("step", [5, 10, 15])
def test_a_run_resumed_at_any_checkpoint_ends_in_the_same_bits(whole, corpus, tmp_path, step):
    out = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, step)
        with pytest.raises(Stopped):
            pretrain(corpus=corpus, out=out, max_steps=20, save_steps=5, eval_steps=10, keep=0, **SMALL)
    pretrain(out=out, resume=True)
    assert sha(out) == sha(whole)
    mine, theirs = (MetricsLog(f / "metrics.jsonl").read() for f in (out, whole))
    for a, b in zip(mine, theirs, strict=True):
        for name in a.keys() - {"tokens_per_second", "share_of_peak"}:
            assert a[name] == b[name], name


def stop_after(patch, step):
    """Have the loop see a Ctrl-C at the end of `step`."""
    from bertlite.training import loop

    update = loop._update

    def stopping(*arguments):
        return update(*arguments) or (130 if arguments[5] + 1 == step else 0)

    patch.setattr(loop, "_update", stopping)


def test_ctrl_c_saves_and_says_how_to_go_on(corpus, tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "bertlite", "pretrain", "--corpus", str(corpus), "--out", str(out), "--preset", "tiny",
               "--vocab-size", "300", "--phases", "32x8", "--max-steps", "100000", "--threads", "1", "--precision", "fp32"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (out / "metrics.jsonl").exists() or not MetricsLog(out / "metrics.jsonl").read():
        time.sleep(0.2)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    step = int(checkpoints(out / "checkpoints")[-1].name.split("-")[1])
    assert f"saved step {step:,} in" in said and f"bertlite pretrain --out {out} --resume" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("change", "words"), [
    ({"learning_rate": 1e-4}, "--learning-rate was None when the run began and is 0.0001 now"),
    ({"seed": 3}, "--seed was 0"), ({"vocab_size": 500}, "--vocab-size was 300"),
])
def test_a_setting_that_differs_is_refused_by_name(whole, change, words):
    with pytest.raises(InputError, match=words):
        pretrain(out=whole, resume=True, **change)


KILLED = """
import os, sys
from bertlite.runs import pretraining
from tests.runs.test_pretrain import SMALL
pretraining.open_corpus = lambda *_, **__: os._exit(9)
pretraining_settings = dict(max_steps=20, save_steps=5, eval_steps=10, keep=0)
from bertlite import pretrain
pretrain(corpus=sys.argv[1], out=sys.argv[2], **pretraining_settings, **SMALL)
"""


def test_a_run_killed_before_its_first_checkpoint_is_gone_on_with(whole, corpus, tmp_path):
    out = tmp_path / "run"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(corpus), str(out)], cwd=ROOT)
    assert killed.returncode == 9 and (out / "run.json").exists()
    pretrain(out=out, resume=True)
    assert sha(out) == sha(whole)


def test_what_may_change_on_resume_may(whole, tmp_path):
    import shutil

    out = tmp_path / "run"
    shutil.copytree(whole, out)
    pretrain(out=out, resume=True, max_steps=22, save_steps=1, quiet=True)
    assert checkpoints(out / "checkpoints")[-1].name == "step-00000022"


def test_a_run_that_is_there_is_not_replaced_unasked(whole, corpus):
    before = sha(whole)
    with pytest.raises(InputError, match="--overwrite to replace it"):
        pretrain(corpus=corpus, out=whole, max_steps=1, **SMALL)
    assert sha(whole) == before


@pytest.mark.parametrize("change", [{"corpus": "nowhere.txt"}, {"preset": "huge"}, {"model": "nowhere"}, {"device": "cuda:7"}])
def test_a_run_that_cannot_begin_leaves_the_old_one_as_it_was(whole, corpus, tmp_path, change):
    import shutil

    out = tmp_path / "run"
    shutil.copytree(whole, out)
    before = sorted(str(p.relative_to(out)) for p in out.rglob("*"))
    settings = {k: v for k, v in SMALL.items() if not (k in ("preset", "vocab_size", "case") and "model" in change)}
    with pytest.raises(InputError):
        pretrain(**({"corpus": corpus, "out": out, "max_steps": 1, "overwrite": True} | settings | change))
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*")) == before and sha(out) == sha(whole)


def test_a_start_that_failed_does_not_stand_in_the_way(corpus, tmp_path):
    with pytest.raises(InputError):
        pretrain(corpus="corpsu.txt", out=tmp_path / "run", max_steps=1, **SMALL)
    assert [p.name for p in (tmp_path / "run").iterdir()] == [".lock"]
    pretrain(corpus=corpus, out=tmp_path / "run", max_steps=1, **SMALL)


def test_inputs_in_the_folder_of_the_run_are_refused(whole, corpus):
    with pytest.raises(InputError, match="in the folder of the run"):
        pretrain(corpus=corpus, out=whole, model=whole, overwrite=True, objective="mlm", max_steps=1, quiet=True)
    assert (whole / "model.safetensors").exists()


def test_a_corpus_that_changed_is_refused_on_resume(documents, tmp_path):
    from bertlite.demo.corpus import write_text

    write_text(documents[:30], tmp_path / "a.txt")
    out = pretrain(corpus=tmp_path / "a.txt", out=tmp_path / "run", max_steps=2, **SMALL)
    write_text(documents[:31], tmp_path / "a.txt")
    with pytest.raises(InputError, match="the corpus files changed since the run began"):
        pretrain(out=out, resume=True, max_steps=4)


def test_other_files_are_never_touched(corpus, tmp_path):
    (tmp_path / "thesis.doc").write_text("years")
    (tmp_path / ".vim.old").mkdir()
    with pytest.raises(InputError, match="holds other files"):
        pretrain(corpus=corpus, out=tmp_path, max_steps=1, overwrite=True, **SMALL)
    assert {p.name for p in tmp_path.iterdir()} == {"thesis.doc", ".vim.old"}


def test_run_json_is_a_config(whole, corpus, tmp_path):
    out = pretrain(config=whole / "run.json", out=tmp_path / "again")
    assert sha(out) == sha(whole)


def test_masked_lm_alone_and_from_given_weights(whole, tmp_path):
    (tmp_path / "one.txt").write_text("The fox ran. The wolf saw it. " * 200)
    with pytest.raises(InputError, match="--objective mlm"):
        pretrain(corpus=tmp_path / "one.txt", out=tmp_path / "nsp", max_steps=2, **SMALL)
    out = pretrain(corpus=tmp_path / "one.txt", out=tmp_path / "mlm", model=whole, objective="mlm", max_steps=3, max_length=32,
                   batch_size=4, quiet=True, precision="fp32")
    assert (out / "tokenizer.json").read_bytes() == (whole / "tokenizer.json").read_bytes()
    assert sha(out) != sha(whole)


def test_evaluate_measures_raw_text(whole, corpus):
    figures = evaluate(model=whole, input=corpus, quiet=True, num_sequences=50)
    assert figures == evaluate(model=whole, input=corpus, quiet=True, num_sequences=50)
    assert {"masked_lm_loss", "masked_lm_on_mask_loss", "unigram_floor", "next_sentence_accuracy", "bits_per_character"} <= figures.keys()
    assert figures["unigram_counts_from"] == "the training text"


@pytest.mark.parametrize(("change", "words"), [
    ({"preset": "tinny"}, "did you mean tiny"), ({"phases": ("32x8",), "max_length": 64}, "--phases names"),
    ({"phases": ("1024x2",)}, "512 positions"), ({"masking.whole_word": True, "corpus": None}, "--corpus is missing"),
    ({"max_steps": 5, "epochs": 1.0}, "give one of"), ({"device": "cuda:7"}, "--device"), ({"processes": 2}, "--processes 2, but 1 run"),
    ({"language": "klingon"}, "not a language code"), ({"tokenizer": "nowhere", "vocab_size": 30_000, "case": "cased"}, "there is no tokenizer"),
])
def test_what_cannot_be_is_refused_at_the_door(corpus, tmp_path, change, words):
    settings = {"corpus": corpus, "out": tmp_path / "run", "max_steps": 2, **SMALL} | change
    if change.get("max_length"):
        settings = {k: v for k, v in settings.items()}
    if "epochs" not in change and "max_steps" not in change:
        settings["max_steps"] = 2
    with pytest.raises(InputError, match=words):
        pretrain(**{k: v for k, v in settings.items() if v is not None})


def test_every_preset_can_be_built():
    for preset in PRESETS.values():
        assert preset.hidden_size % preset.num_heads == 0 and preset.measured


LAUNCH = """
import os, sys
from bertlite import pretrain
pretrain(corpus=sys.argv[1], out=sys.argv[2], preset="tiny", vocab_size=300, phases=("32x16:0.5", "64x8:0.5"), max_steps=8, log_steps=1,
         eval_steps=4, save_steps=4, precision="fp32", dropout=0.0, device="cpu", threads=1, quiet=True, micro_batch_size=3, language="en",
         processes=int(os.environ.get("WORLD_SIZE", "1")))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_two_processes_give_the_losses_of_one(corpus, tmp_path):
    script = tmp_path / "launch.py"
    script.write_text(LAUNCH)
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(free_port())]
    subprocess.run([*launcher, str(script), str(corpus), str(tmp_path / "two")], check=True, env=environment, timeout=300)
    subprocess.run([sys.executable, str(script), str(corpus), str(tmp_path / "one")], check=True, env=environment, timeout=300)
    assert json.loads((tmp_path / "two" / "run.json").read_text())["hardware"]["processes"] == 2
    one, two = (MetricsLog(tmp_path / name / "metrics.jsonl").read() for name in ("one", "two"))
    assert len(one) == len(two) == 10
    for a, b in zip(one, two, strict=True):
        for name in a:
            if name.endswith(("_loss", "_accuracy")):
                assert a[name] == pytest.approx(b[name], rel=1e-5, abs=1e-6), (a["step"], name)
