"""The page of a run opens without network and shows its figures."""

import json
import re
from html.parser import HTMLParser

import pytest

from bertlite.errors import InputError
from bertlite.report.page import write_report
from bertlite.training.log import MetricsLog


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"settings": {"a": 1}, "resolved": {"preset": "tiny", "num_steps": 9, "parameters": 10},
                                                   "hardware": {"device": "cpu", "name": "x<y", "precision": "fp32"}, "versions": {}}))
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in range(1, 10):
        log.write("train", step, {"masked_lm_on_mask_loss": 9.0 - step, "masked_lm_on_mask_accuracy": step / 10, "learning_rate": 0.1})
    log.write("validation", 9, {"masked_lm_on_mask_loss": 1.0, "unigram_floor": 6.5, "selection": 0.0})
    (tmp_path / "results.json").write_text(json.dumps({"labels": ["a<b", "c"], "confusion": [[3, 1], [0, 4]], "per_class": {
        "a<b": {"precision": 1.0, "recall": 0.75, "f1": 0.86, "support": 4}}, "metrics": {}}))
    return tmp_path


def test_the_page_is_whole_and_asks_for_nothing(run):
    page = write_report(run).read_text(encoding="utf-8")
    HTMLParser().feed(page)
    assert page.count("<svg") == 4 and "unigram floor" in page and "Confusion" in page
    assert "a&lt;b" in page and "x&lt;y" in page and "x<y" not in page
    assert not re.search(r"(src|href)=.?https?://", page) and "<script" not in page


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="not a run directory"):
        write_report(tmp_path)
