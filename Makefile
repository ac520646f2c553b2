# The two commands of the README. Each makes .venv itself and reuses it while pyproject.toml and constraints.txt stand.

# Any of the Pythons that are supported; the first that starts.
PYTHON ?= $(firstword $(foreach python,python3.13 python3.12 python3.11 python3,$(shell $(python) -c 'print("$(python)")' 2>/dev/null)))
BIN := .venv/bin
EXTRAS ?= dev

# pip would compile 18,000 files, of which few are ever imported: each is compiled when it is, and that is kept.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test suite attack oldest wheel lint types docs pictures results map dist setup clean

demo: setup
	$(BIN)/hodgeformer demo

# All three beside each other; what fails is named at the end.
test: setup
	$(MAKE) --jobs lint types suite

suite: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist worksteal

attack: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -m attack -n 2 --dist worksteal --durations 25 tests/attack tests

# Every version is the oldest that pyproject.toml allows; the newest ones are in constraints.txt and in every other run.
oldest:
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/pip $(INSTALL) --constraint constraints-oldest.txt --editable \
		".[cluster,export,hub,serve]" beartype httpx httpx2 hypothesis libigl meshio networkx potpourri3d psutil pytest trimesh
	# Old packages use what newer ones of others deprecate.
	OMP_NUM_THREADS=1 build/oldest/bin/python -m pytest -W ignore::DeprecationWarning

wheel: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -m attack tests/attack/test_installed.py

lint: setup
	$(BIN)/ruff check src tests examples docs/*.py
	$(BIN)/ruff format --check src tests examples docs/*.py

types: setup
	$(BIN)/mypy

docs: setup
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

pictures: setup
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/drawings.py

results: setup
	$(BIN)/python -m hodgeformer.lab.result_tables

map: setup
	$(BIN)/python docs/code_map.py

dist: setup
	$(BIN)/pip $(INSTALL) --constraint constraints.txt build
	$(BIN)/python -m build

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip $(INSTALL) --constraint constraints.txt --editable ".[$(EXTRAS)]"
	$(BIN)/python -c "import hodgeformer as hf; hf.Predictor; hf.train"
	touch $@

clean:
	rm -rf .venv build dist
