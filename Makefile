# `make setup`, `make demo` and `make test`. Everything is set up in .venv on the first call of any of them.
PYTHON ?= python3
TORCH ?= torch==2.13.0
DATA ?= ../shared/data
VENV := .venv
HEADRACE := $(VENV)/bin/headrace
# Python stores what it compiles: pytest needs seconds to compile all tests, in each of its processes.
PYTEST := PYTHONDONTWRITEBYTECODE= HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest
PROCESSES ?= 3
SPREAD := -n $(PROCESSES) --dist loadscope --no-loadscope-reorder

.PHONY: setup demo demo-web test test-slow test-courses test-slurm check format site release clean

setup: $(VENV)/compiled

demo: $(VENV)/ready
	$(VENV)/bin/python -m headrace.documentation
	$(HEADRACE) experiment=demo

# The same line on real web pages: DATA is a folder with make_warc.py and web/.
demo-web: $(VENV)/ready runs/crawl
	$(HEADRACE) experiment=demo source=warc source.paths='[runs/crawl/*.warc.gz]'

runs/crawl:
	mkdir -p runs && $(PYTHON) $(DATA)/make_warc.py runs/crawl.part && mv runs/crawl.part runs/crawl

test: $(VENV)/ready
	$(PYTEST) $(SPREAD)

# Only the files that have slow tests: each process imports what it collects.
test-slow: $(VENV)/ready
	$(PYTEST) -m slow $(SPREAD) $$(grep -rl --include='*.py' 'mark\.slow' tests)

# The annexe: what lectures need (courses/README.md).
test-courses: $(VENV)/ready
	$(PYTEST) $(SPREAD) courses/tests
	$(PYTEST) -m slow $(SPREAD) courses/tests

test-slurm: $(VENV)/ready
	command -v slurmctld >/dev/null && command -v munged >/dev/null || (apt-get update -qq && apt-get install -y -qq slurm-wlm munge)
	$(PYTEST) -m slurm tests/cluster

check: $(VENV)/ready
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy

format: $(VENV)/ready
	$(VENV)/bin/ruff check --fix . ; $(VENV)/bin/ruff format .

# The pages as a site in the folder site/. A link that leads nowhere ends it.
site: $(VENV)/docs
	rm -rf site
	$(VENV)/bin/sphinx-build -q -W --keep-going -c docs . site
	cp site/README.html site/index.html

# Commits, tags and builds a version into dist/. Nothing is pushed. The tests are those of .ci/run, before.
release: check
	$(VENV)/bin/python .ci/release.py $(VERSION)

# torch first: what depends on it must find it, not choose another build. DeepSpeed is built from source, without kernels.
# Not compiled: pip would compile 300 MB of Python, of which 50 MB are ever imported. The first import compiles those; that
# of torch, 5 s, is made while pip installs the rest.
$(VENV)/ready: pyproject.toml courses/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q --no-compile --upgrade pip "setuptools>=77" wheel
	$(VENV)/bin/pip install -q --no-compile "$(TORCH)"
	$(VENV)/bin/python -W ignore -c "import torch._inductor" & \
	DS_BUILD_OPS=0 $(VENV)/bin/pip install -q --no-compile --no-build-isolation -e ".[dev]"; status=$$?; wait; exit $$status
	$(VENV)/bin/pip install -q --no-compile --no-build-isolation --no-deps -e courses
	touch $@

# Two small runs make numba compile the functions of data_prep, two minutes of CPU time that the first runs would take. They are cached beside their sources.
$(VENV)/compiled: $(VENV)/ready
	folder=$$(mktemp -d) && trap "rm -rf $$folder" EXIT && cd $$folder && \
	$(abspath $(VENV))/bin/python $(CURDIR)/examples/practice.py pages && \
	{ $(abspath $(HEADRACE)) source=jsonl source.paths=pages source.text_field=content source.url_field=meta.url tracking=file until=unique >log 2>&1 && \
	  $(abspath $(HEADRACE)) source=html source.paths=site tracking=file until=texts >log 2>&1 || { cat log; false; }; }
	touch $@

$(VENV)/docs: $(VENV)/ready
	$(VENV)/bin/pip install -q --no-build-isolation -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) runs site
