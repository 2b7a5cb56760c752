# Everything from a machine that has only Python and make.
#
#   make demo     a Bayes factor, with a table and a plot
#   make test     linters, types and all tests
#
# Another interpreter gets another environment: make test VENV=.venv-pymc6 PYTHON=python3.13

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
# For pytest: make test TEST_OPTIONS=--touching-pymc leaves out what no version of PyMC changes.
TEST_OPTIONS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
BENCH ?= bias

.PHONY: help demo test lint docs dist bench clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile
	@echo "make lint     ruff and mypy"
	@echo "make docs     the documentation, in docs/_build"
	@echo "make dist     a wheel and an sdist in dist/, installed into an empty environment and tried"
	@echo "make bench    a measurement: make bench BENCH=bias"
	@echo "make clean    removes environments, caches and what was built"

demo: $(STAMP)
	$(BIN)/python -m pymc_arm demo

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TEST_OPTIONS)

lint: $(STAMP)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "The documentation is in docs/_build/index.html"

# The wheel alone, and the wheel that the sdist builds, must be enough to estimate a log Z. What they
# need is installed once: both ask for the same, and it is a gigabyte.
dist: $(DOCS_STAMP)
	rm -rf dist build/try
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m venv build/try
	build/try/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build && try/bin/python -c "$$SMOKE_TEST"
	build/try/bin/python -m pip uninstall --quiet --yes pymc_arm
	build/try/bin/python -m pip install --quiet --disable-pip-version-check dist/*.tar.gz
	cd build && try/bin/python -c "$$SMOKE_TEST"
	rm -rf build/try

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(BENCH)

clean:
	rm -rf .venv .venv-pymc6 build dist demo docs/_build docs/jupyter_execute docs/_static/generated .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define SMOKE_TEST
import pymc as pm, pymc_arm
with pm.Model() as model:
    p = pm.Beta("p", 1, 1)
    pm.Binomial("y", n=10, p=p, observed=7)
idata = pymc_arm.sample(model, draws=200, random_seed=1, progressbar=False)
assert abs(idata.attrs["log_marginal_likelihood"] + 2.3979) < 0.02
assert {"gpc", "rbm"} <= set(pymc_arm.known_families()), pymc_arm.known_families()
print(pymc_arm.__file__, idata.attrs["log_marginal_likelihood"])
endef
export SMOKE_TEST

# The stamp is younger than pyproject.toml when what it asks for is installed.
$(STAMP): pyproject.toml
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
		echo "There is no $(PYTHON). Install Python 3.11 or later, or give one: make PYTHON=..." >&2; \
		exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "pymc_arm needs Python 3.11 or later, and $(PYTHON) is" \
			"$$("$(PYTHON)" -c 'import sys; print(sys.version.split()[0])' 2>/dev/null)." \
			"Give another one: make PYTHON=python3.12" >&2; \
		exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "Installing pymc_arm and what it needs into $(VENV): about 1 GB, some minutes, once."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@
