# Everything a developer does, one target each. `make demo` and `make test` set themselves up.

# The first Python of 3.11 or later; choose another one with `make setup PYTHON=…`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
CXX_FOUND := $(shell command -v $(if $(filter-out default,$(origin CXX)),$(CXX),c++) || command -v g++ || command -v clang++)

BIN := .venv/bin
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -gt 4 ] && echo 4 || echo $$n)
PYTEST_ARGS ?= -n $(JOBS) --dist worksteal
QUICK := -m "not slow"
NATIVE := $(wildcard CMakeLists.txt) $(shell find native src/upbeat/generate/c -type f 2>/dev/null)

# Where there is a compiler, C++ that does not build is an error and not a quiet fallback to the
# interpreter (see pyproject.toml). `make setup UPBEAT_NATIVE=off` does without on purpose.
export UPBEAT_NATIVE ?= $(if $(CXX_FOUND),required,)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1
# Some machines forbid bytecode; compiling everything at every start takes three times as long.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo browser test nightly fuzz check format format-check lint types imports docs docs-serve support-table python-api evidence installs walk engine-pictures engine-tables studio-pictures \
	reproduce bench native-test native-asan native-tsan dist clean distclean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ------------------------------------------------------------------------------------------- set-up

setup: .venv/.built  ## Fill .venv: dependencies, the package (editable), its C++ core

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Upbeat needs Python 3.11 or later: make setup PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.deps: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --no-compile --group build --group test
	@touch $@

# No build isolation, and a build folder that stays: after an edit only what changed is compiled.
.venv/.built: .venv/.deps $(NATIVE) $(wildcard src/upbeat/__init__.py)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[all]'
	@if ls .venv/lib/python3*/site-packages/upbeat/_native* >/dev/null 2>&1; \
	then echo "Upbeat is set up, native engine included."; \
	else echo "Upbeat is set up WITHOUT its native engine: everything but FMUs runs on the interpreter, only slower."; \
	echo "For the native engine install a C++17 compiler, then: touch pyproject.toml && make setup"; fi
	@touch $@

.venv/.checkers: .venv/.built
	$(BIN)/python -m pip install --quiet --group check
	@touch $@

# ---------------------------------------------------------------------------------------------- use

demo: setup  ## Two masses under a ceiling, at fixed steps and looking ahead: a table, results and a picture
	@$(BIN)/python examples/two_mass/compare.py --out build/demo

reproduce: setup  ## Repeat every published experiment: paper | here
	@failed=0; for script in reproduce/*.py; do echo "== $$script"; $(BIN)/python $$script || failed=1; done; exit $$failed

.venv/.benched: .venv/.built
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

bench: .venv/.benched  ## Measure the overhead against hand-written C, and events against SimPy
	@failed=0; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || failed=1; done; exit $$failed

# ------------------------------------------------------------------------------------------- checks

# For the tests of the studio's page. Those who may not install it do without, and pytest says so.
BROWSERS := chromium-headless-shell chromium chromium-browser google-chrome
browser:  ## A browser for the tests, where it may be installed (Debian, as root or with sudo)
	@command -v $(BROWSERS) >/dev/null && exit 0; mkdir -p build; sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
	get="$$sudo apt-get install -qq -y --no-install-recommends chromium-headless-shell"; \
	if command -v apt-get >/dev/null && $$sudo true 2>/dev/null; then \
		{ $$get || { $$sudo apt-get update -qq && $$get; }; } >build/browser.log 2>&1; fi; \
	command -v $(BROWSERS) >/dev/null || echo "no browser: tests of the studio's page are skipped (apt-get install chromium-headless-shell)"

test: setup browser native-asan native-tsan  ## The tests: the C++ core under sanitizers, then Python
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(QUICK)

nightly: QUICK :=
nightly: export UPBEAT_EXAMPLES := 100
nightly: test  ## All tests, the slow ones and many more drawn examples included

# Laws are tested with drawn examples: the same ones in `make test`, new ones here, as often as you like.
FUZZ := $(shell grep -rl --include='test_*.py' hypothesis tests | sort)

fuzz: setup  ## Broken files of every kind, and the property-based tests with new random examples
	$(BIN)/python tools/fuzz.py --files $(or $(FILES),2000) --seed $$(date +%s)
	UPBEAT_TESTS=fuzz UPBEAT_EXAMPLES=$(or $(EXAMPLES),200) $(BIN)/python -m pytest $(PYTEST_ARGS) $(FUZZ)

check: format-check lint types imports docs  ## Format, lint, strict types, import contracts, docs

format: .venv/.checkers  ## Rewrite the code in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet . || true

format-check: .venv/.checkers
	$(BIN)/ruff format --check .

lint: .venv/.checkers
	$(BIN)/ruff check .

types: .venv/.checkers
	$(BIN)/mypy

imports: .venv/.checkers
	$(BIN)/lint-imports --no-logo --cache-dir build/import-linter

docs: .venv/.checkers  ## Build the documentation into build/site
	$(BIN)/mkdocs build --strict --quiet

support-table: setup  ## Write docs/support.md from the markers of the tests
	$(BIN)/python tools/support_table.py

python-api: setup  ## Write docs/python-api.md from signatures and docstrings
	$(BIN)/python tools/python_api.py

evidence: .venv/.benched  ## Measure every number that was asked for; writes docs/evidence.md (half an hour)
	$(BIN)/python -m tools.evidence

installs: setup  ## Install in every way we promise, each in a new environment (a quarter of an hour)
	$(BIN)/python tools/installs.py

walk:  ## Draw docs/walk.svg, the way of a signal and of an event through the code
	$(BIN)/python tools/walk.py

engine-pictures: setup  ## Draw the pictures of docs/engine.md (some minutes)
	$(BIN)/python tools/engine_pictures.py

studio-pictures: setup  ## Take the pictures of docs/studio.md in a real browser
	$(BIN)/python tools/studio_pictures.py

engine-tables: setup  ## Fill in the tables of docs/engine.md from build/evidence/reproduce-engine.json
	$(BIN)/python tools/engine_tables.py

docs-serve: .venv/.checkers  ## Show the documentation while it is being written
	$(BIN)/mkdocs serve

# $(call native-tests,NAME,CMAKE-OPTIONS): the core's own tests, without Python, in build/native-NAME.
define native-tests
	@mkdir -p build; if [ -z "$(CXX_FOUND)" ]; then echo "no C++ compiler: the core's tests ($(1)) are left out"; else \
	$(BIN)/cmake -S . -B build/native-$(1) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
		-DUPBEAT_TESTS=ON -DUPBEAT_MODULE=OFF -DUPBEAT_FMU=OFF $(2) >build/native-$(1).log \
		|| { cat build/native-$(1).log; exit 1; }; \
	$(BIN)/cmake --build build/native-$(1) -j $(JOBS) >>build/native-$(1).log || { cat build/native-$(1).log; exit 1; }; \
	$(BIN)/ctest --test-dir build/native-$(1) --output-on-failure --no-tests=error; fi
endef

# Compiles quicker than -O2, with more readable stack traces; several files at once (unity) take a third of the time.
SANITIZED := -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DCMAKE_UNITY_BUILD=ON

native-test: setup  ## The C++ core's own tests
	$(call native-tests,release,-DCMAKE_BUILD_TYPE=Release)

native-asan: setup  ## … under the address and undefined-behaviour sanitizers
	$(call native-tests,address,$(SANITIZED) -DUPBEAT_SANITIZE=address)

native-tsan: setup  ## … under the thread sanitizer
	$(call native-tests,thread,$(SANITIZED) -DUPBEAT_SANITIZE=thread)

# ------------------------------------------------------------------------------------------ cleaning

clean:  ## Remove what builds and runs left behind
	rm -rf build dist
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean  ## … and the virtual environment
	rm -rf .venv
