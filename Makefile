# Each target creates what it needs, from nothing: a virtual environment in .venv, and in it the
# project with the extras the target asks for.  A second run finds it there.
#
#   make demo                       pictures, those of the README among them, and short reports
#   make test                       what every change needs: minutes
#   make check                      everything that must hold
#   make test PYTHON=python3.13     with another Python (after `make clean`)
#   make test ARGS="-k golden"      some of the tests
#   make package PYTHONS="python3.11 python3.12 python3.13"
#   make test-lowest PYTHONS=python3.12 ARGS="tests/snn"
#   make learn SEEDS=0              from one seed, in a third of the time

PYTHON ?= python3
PYTHONS ?= $(PYTHON)
ARGS ?=
OUTPUT ?= out
EXAMPLES ?= 4
WORKERS ?= auto
SEEDS ?= 0 1 2

# Images for containers set it; then each process would compile all modules anew that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
RUN := $(VENV)/bin/python
# The tests of a file share fixtures, which one process makes once.
PYTEST := $(RUN) -m pytest --numprocesses $(WORKERS) --dist loadfile
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check thorough test-lowest package lint benchmark learn docs links clean

help:
	@echo "make demo       sparse-code a photograph with spikes, and learn atoms from photographs; pictures go to $(OUTPUT)/"
	@echo "make test       run the tests that every change needs, side by side on all cores (or on WORKERS=n)"
	@echo "make check      run everything: make test, make lint, and the tests of documents, examples, benchmarks, releases"
	@echo "make test-lowest  run the tests with the lowest versions of all dependencies"
	@echo "make package    build and check wheel and source distribution in dist/; try the wheel with each of PYTHONS ($(PYTHONS))"
	@echo "make lint       run the checks of style, imports and types only"
	@echo "make benchmark  time the simulator and the solvers beside their peers: some twenty minutes; figures go to out/benchmarks.json"
	@echo "make learn      learn the three dictionaries of the paper at full size, from $(words $(SEEDS)) seeds, beside the baselines: some hours; started again, it goes on where it was"
	@echo "make docs       build the site in docs/_build/html; warnings are errors"
	@echo "make links      ask the network whether links to other sites still lead somewhere"
	@echo "make clean      remove the virtual environment, caches and $(OUTPUT)/"

# Most of a first run is compilation, so two processes share the work; the report of the second comes last.
demo: $(VENV)/.installed
	@mkdir -p $(OUTPUT)
	@{ $(RUN) -m examples.three_neurons --output $(OUTPUT) && $(RUN) -m examples.learn photographs \
		--samples 20000 --held-out 1000 --learners --output $(OUTPUT); } > $(OUTPUT)/report.txt 2> $(OUTPUT)/report.err & \
	second=$$!; $(RUN) -m examples.photograph --output $(OUTPUT); done=$$?; \
	wait $$second || { cat $(OUTPUT)/report.err; exit 1; }; cat $(OUTPUT)/report.txt; rm $(OUTPUT)/report.*; exit $$done

# Kernels that the tests share are compiled first: processes that run side by side would each compile them.
test: $(VENV)/.installed-test
	@cat $<
	@$(RUN) -c 'import dictlearn; dictlearn.warm_up()'
	@$(PYTEST) -m "not thorough" $(ARGS)

thorough: $(VENV)/.installed-test
	@SPARSESPIKE_EXAMPLES=$(EXAMPLES) $(PYTEST) -m "thorough or property" $(ARGS)

check:
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory thorough

test-lowest: $(VENV)/.installed-test
	@$(RUN) -m tests.release.lowest --folder $(VENV)-lowest --pythons $(PYTHONS) --tests $(ARGS)

package: $(VENV)/.installed-test
	@$(INSTALL) --editable '.[release]'
	@$(RUN) -m tests.release.distribution --output dist --pythons $(PYTHONS)

lint: $(VENV)/.installed-test
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/lint-imports
	@$(VENV)/bin/mypy

benchmark: $(VENV)/.installed-test
	@$(INSTALL) --editable '.[peers]' || echo "some peers could not be installed: they are left out"
	@$(RUN) -m tests.benchmarks $(ARGS)

learn: $(VENV)/.installed-test
	@$(RUN) -m examples.learn photographs --seeds $(SEEDS) --output $(OUTPUT)
	@$(RUN) -m examples.learn digits --seeds $(SEEDS) --output $(OUTPUT)
	@$(RUN) -m examples.learn scenes --seeds $(SEEDS) --online-batch 256 --output $(OUTPUT)

docs: $(VENV)/.installed-test
	@$(INSTALL) --editable '.[docs]'
	@rm -rf docs/gallery docs/reference # what was made of a script or a name that is no more
	@$(RUN) -m sphinx --fresh-env --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

links: $(VENV)/.installed-test
	@$(INSTALL) --editable '.[docs]'
	@$(RUN) -m sphinx --builder linkcheck -D plot_gallery=0 --quiet docs docs/_build/links

clean:
	rm -rf $(VENV) $(VENV)-lowest $(OUTPUT) docs/_build docs/reference docs/gallery build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ----------------------------------------------------------------------------------------------
# Stamps remember installations; a change of pyproject.toml makes them old.

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else \
		"Python 3.11 or later is needed; $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12" % v[:2])'
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) -m venv failed: on Debian and Ubuntu, install python3-venv"; exit 1; }

# Modules are compiled when they are first imported, which most are not: half of the time that pip takes.
$(VENV)/.installed: pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "installing sparsespike"
	@$(INSTALL) --no-compile --editable '.[examples]'
	@touch $@

# Brian2 judges the simulator, and SPAMS the learner, in a few tests.  Where they cannot be had, those tests
# are skipped.
$(VENV)/.installed-test: pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "installing sparsespike with what its tests need"
	@$(INSTALL) --editable '.[peers]' 2>/dev/null || $(INSTALL) 'spams-bin>=2.6' 2>/dev/null || true
	@if $(INSTALL) --editable '.[test,examples,digits,brian2]' && $(RUN) -W ignore -c 'import brian2'; then \
		: > $@; \
	else \
		$(RUN) -m pip uninstall --quiet --yes brian2 2>/dev/null; \
		$(INSTALL) --editable '.[test,examples,digits]' && \
		echo "Brian2 could not be installed (see above, or run: $(RUN) -m pip install brian2): its tests are skipped" > $@; \
	fi
	@touch $(VENV)/.installed
