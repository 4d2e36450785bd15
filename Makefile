# make demo   set up and run the whole path on the corpus that ships (minutes on two CPU cores)
# make test   set up and run the tests (minutes, no network once installed)
# make test-slow, make lint, make bench: for those who change the code

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint bench clean

# The runtime alone; the marker files say that an install was finished and with which versions.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/bertlite demo --out demo-run --overwrite

test: .venv/installed-dev
	$(BIN)/python -m pytest --numprocesses 2

test-slow: .venv/installed-dev
	$(BIN)/python -m pytest -m slow

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/installed-dev
	$(BIN)/python bench/corpus.py

clean:
	rm -rf .venv demo-run
