"""The command line: verbs, flags, messages and exit codes."""

import json
import subprocess
import sys

import pytest

from bertlite.cli import VERBS, parse, run
from bertlite.runs.pretrain import PretrainRun


def call(capsys, *arguments):
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_without_none(capsys, verb):
    code, out, _ = call(capsys, verb, "--help")
    assert code == 0 and f"bertlite {verb}" in out and "None" not in out


def test_plain_groups_have_plain_flags():
    settings = parse("pretrain", PretrainRun, ["--corpus", "a.txt", "b.txt", "--out", "run", "--line", "wrapped", "--max-steps", "5",
                                               "--optimizer.beta2", "0.98", "--phases", "32x8:0.5", "64x4:0.5"])
    assert settings["corpus"] == ["a.txt", "b.txt"] and settings["layout"]["line"] == "wrapped"
    assert settings["limits"]["max_steps"] == 5 and settings["optimizer"]["beta2"] == 0.98
    assert settings["train"]["phases"] == ["32x8:0.5", "64x4:0.5"]


def test_flags_stand_above_a_config(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"settings": {"out": "a", "train": {"seed": 3, "preset": "tiny"}}}))
    settings = parse("pretrain", PretrainRun, ["--config", str(tmp_path / "run.json"), "--out", "b", "--seed", "4"])
    assert (settings["out"], settings["train"]["seed"], settings["train"]["preset"]) == ("b", 4, "tiny")


@pytest.mark.parametrize(("arguments", "words"), [
    (["pretrian"], "did you mean pretrain?"), (["pretrain", "--out", "x", "--corpsu", "a"], "did you mean --corpus?"),
    (["pretrain", "--out", "x", "--corpus"], "--corpus is missing"), (["pretrain", "--out", "x", "--corpus", "no.txt"], "no.txt"),
    (["pretrain", "--out", "x", "--corpus", "a", "--max-steps", "many"], "--max-steps"), (["embed", "--model", "x"], "--input"),
    (["pretrain", "--out", "x", "--corpus", "a", "--line", "verse"], "--line"), (["fill-mask", "--model", "x", "a [MASK]"], "not a model"),
    (["predict", "--model", "x", "--input", "y", "--output", "z.csv"], "not a model"), (["report", "nowhere"], "not a run directory"),
    (["tokenizer", "--corpus", "no", "--out", "x", "--vocab-size", "10"], "--vocab-size must be at least 100"),
    (["pretrain", "--out", "x", "--corpus", "a", "--optimizer.beta3", "1"], "did you mean --optimizer.beta"),
    (["pretrain", "--out", "x", "--corpus", "a", "--config", "nowhere.json"], "nowhere.json"),
])
def test_wrong_input_gets_one_message_and_exit_code_2(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    last = err.strip().splitlines()[-1]
    assert code == 2 and words in last and last.startswith("bertlite: ") and "Traceback" not in err and out == ""
    assert not (tmp_path / "x" / "model.safetensors").exists()


def test_the_module_and_the_version(capsys):
    assert call(capsys, "--version")[1].strip() == "0.1.0"
    done = subprocess.run([sys.executable, "-m", "bertlite", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "pretrain" in done.stdout


def test_data_goes_to_standard_output_alone(capsys, tmp_path, corpus):
    run(["tokenizer", "--corpus", str(corpus), "--out", str(tmp_path / "tok"), "--vocab-size", "300"])
    run(["pretrain", "--corpus", str(corpus), "--out", str(tmp_path / "run"), "--tokenizer", str(tmp_path / "tok"), "--preset", "tiny",
         "--phases", "32x4", "--max-steps", "2", "--precision", "fp32"])
    assert capsys.readouterr().out == ""
    code, out, err = call(capsys, "fill-mask", "--model", str(tmp_path / "run"), "the [MASK] ran", "--top-k", "2")
    assert code == 0 and len(json.loads(out)[0]) == 2
    code, out, _ = call(capsys, "evaluate", "--model", str(tmp_path / "run"), "--input", str(corpus))
    assert code == 0 and json.loads(out)["unigram_floor"] > 0
    code, _, err = call(capsys, "corpus", "--corpus", str(corpus), "--tokenizer", str(tmp_path / "tok"), "--out", str(tmp_path / "store"))
    assert code == 0 and "documents" in err
    assert run(["pretrain", "--corpus", str(tmp_path / "store"), "--out", str(tmp_path / "from-store"), "--preset", "tiny", "--phases", "32x4",
                "--max-steps", "2", "--precision", "fp32"]) == 0
    assert run(["report", str(tmp_path / "run"), str(tmp_path / "from-store"), "--output", str(tmp_path / "both.html")]) == 0
    page = (tmp_path / "both.html").read_text()
    assert "Runs compared" in page and "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace("http://creativecommons.org", "")
