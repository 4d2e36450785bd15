"""The README's example runs as it stands, and its commands and files are there."""

import re
from pathlib import Path

import pytest

from bertlite.cli import VERBS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path, monkeypatch, corpus, capsys):
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None and 12 <= len([line for line in example[1].splitlines() if line.strip()]) <= 24
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_bytes(corpus.read_bytes())
    code = compile(example[1], "README.md", "exec")
    exec(code, {})
    assert "(2, 128)" in capsys.readouterr().out


def test_every_verb_it_names_exists():
    assert set(re.findall(r"^bertlite ([a-z-]+) ", README, re.MULTILINE)) <= set(VERBS)


def test_every_file_of_the_tree_exists():
    tree = README.split("## The tree")[1].split("```")[1]
    for room, rest in re.findall(r"^  (\w+)/ (.*(?:\n    .*)*)", tree, re.MULTILINE):
        for name in re.findall(r"\b\w+\.py\b", rest):
            assert (ROOT / "bertlite" / room / name).exists(), (room, name)


@pytest.mark.parametrize("name", re.findall(r"\]\(((?!http)[^)]+)\)", README))
def test_every_link_leads_somewhere(name):
    assert (ROOT / name).exists()


def test_the_project_names_no_machine():
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bertlite/**/*.py"), *ROOT.glob("recipes/*")]:
        if path.is_file():
            assert not re.search(r"(?<![\w.])/(work|root|tmp)/", path.read_text(encoding="utf-8")), path
