# Everything runs in .venv; the stamps say what is installed in it.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo install test bench lint clean

demo: .stamps/demo
	$(BIN)/joulesim predict qwen2.5-7b-q4_0-laptop-b8
	@echo
	$(BIN)/joulesim explain qwen2.5-7b-q4_0-laptop-b8
	@echo
	$(BIN)/joulesim compare qwen2.5-1.5b-q4_0-laptop-b1 qwen2.5-7b-q4_0-laptop-b1 qwen2.5-7b-q4_0-laptop-b8

install: .stamps/test

test: .stamps/test
	$(BIN)/python -m pytest -n auto

bench: .stamps/test
	$(BIN)/python tests/bench/speed.py
	$(BIN)/python tests/bench/sweep.py

lint: .stamps/test
	$(BIN)/python -m pip install --quiet ruff
	$(BIN)/ruff check .

.stamps/venv:
	$(PYTHON) -m venv .venv
	mkdir -p .stamps && touch $@

.stamps/demo: .stamps/venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m compileall -q joulesim
	touch $@

.stamps/test: .stamps/venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	$(BIN)/python -m compileall -q joulesim
	touch $@ .stamps/demo

clean:
	rm -rf .venv .stamps build dist
