"""Twenty runs killed at random moments and gone on with end in the bits of a run that was left alone."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from bertlite.training.log import MetricsLog
from tests.runs.test_pretrain import sha

SAVE_STEPS = 6
FLAGS = ["--preset", "tiny", "--vocab-size", "300", "--case", "uncased", "--phases", "32x8:0.5", "64x4:0.5", "--max-steps", "60",
         "--save-steps", str(SAVE_STEPS), "--eval-steps", "12", "--log-steps", "1", "--precision", "fp32", "--threads", "1", "--language", "en",
         "--dropout", "0.1"]


def start(corpus, out):
    command = [sys.executable, "-m", "bertlite", "pretrain", "--corpus", str(corpus), "--out", str(out), *FLAGS, "--resume"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def logged(out):
    path = out / "metrics.jsonl"
    entries = MetricsLog(path).read("train") if path.exists() else []
    return entries[-1]["step"] if entries else 0


def moment(number, out, draws):
    """Wait for the moment to kill: any time, after the first checkpoint, or while one is being written."""
    if number % 4 == 0:
        return time.sleep(draws.uniform(0.5, 8.0))
    while not list(out.glob("checkpoints/step-*")):
        time.sleep(0.01)
    time.sleep(draws.uniform(0.0, 1.5))
    if number % 4 == 3:
        end = time.monotonic() + 5
        while not list(out.glob("checkpoints/.step-*.partial")) and time.monotonic() < end:
            time.sleep(0.0005)


@pytest.mark.slow
def test_twenty_killed_runs_end_in_the_same_bits(corpus, tmp_path):
    whole = start(corpus, tmp_path / "whole")
    assert whole.wait(timeout=300) == 0
    expected, draws, while_writing, kills = sha(tmp_path / "whole"), random.Random(0), 0, 0
    for number in range(20):
        out = tmp_path / f"run-{number}"
        process = start(corpus, out)
        moment(number, out, draws)
        while_writing += bool(list(out.glob("checkpoints/.step-*.partial")))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        before = logged(out)
        again = start(corpus, out)
        said = again.communicate(timeout=300)[1]
        assert again.returncode == 0, said
        if (out / "run.json").exists() and "going on from step" in said:
            step = int(said.split("going on from step ")[1].split(" ")[0].replace(",", ""))
            assert before - SAVE_STEPS <= step <= max(before, step), (number, before, step)
        assert sha(out) == expected, number
        steps = [e["step"] for e in MetricsLog(out / "metrics.jsonl").read("train")]
        assert steps == list(range(1, 61)), number
        assert json.loads((out / "run.json").read_text())["resolved"]["num_steps"] == 60
        assert not list(out.rglob(".*.partial"))
    print(f"{kills} killed, {while_writing} of them while a checkpoint was being written")
    assert kills >= 15 and while_writing >= 1
