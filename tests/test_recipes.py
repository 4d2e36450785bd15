"""Every recipe says what it is, and runs with --smoke where its data is at hand."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = [path for path in sorted((Path(__file__).resolve().parents[1] / "recipes").glob("*.py")) if path.stem != "peers"]
NEEDS = {"tagging": ["--data", ""], "questions": ["--data", ""], "text_tasks": ["--data", ""], "chinese_tasks": ["--data", "", "--model", "tiny_model"], "wikipedia": ["--data", "raw-en-wikipedia"], "chinese": ["--data", "raw-zh-wikipedia"],
         "finetune_minilm": ["--polarity", "cls-en-sentence-polarity", "--banking", "cls-en-banking77"]}


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_a_recipe_says_its_command(path):
    header = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert f"python recipes/{path.name}" in header and "recipes/README.md" in header


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.stem for path in RECIPES])
def test_a_recipe_runs(name, tmp_path, request):
    arguments = list(NEEDS.get(name, []))
    if arguments:
        shared = request.getfixturevalue("shared")
        arguments = [a if a.startswith("--") else str(request.getfixturevalue(a) if a == "tiny_model" else shared / a) for a in arguments]
    command = [sys.executable, str(RECIPES[0].parent / f"{name}.py"), "--out", str(tmp_path / "out"), "--smoke", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()
