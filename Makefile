# Short names for what is done in tools/ and CMake.  Every target makes itself ready first; see tools/setup.sh.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
PYTHON := .venv/bin/python3
BUILD := build/release

.PHONY: help build test test-all demo bench install lint clean

help:
	@echo 'make build                every flavour whose MPI is there, in $(BUILD); bin/penstock runs it'
	@echo 'make test                 unit, property, fault, MPI and command line tests'
	@echo 'make test-all             that, more random cases, several nodes, sanitizers, without MPI, other projects'"'"' suites under the preload'
	@echo 'make demo                 a climate kernel natively and under Penstock, with a picture'
	@echo 'make bench NAME=...       a benchmark, native and Penstock side by side (default independent; QUICK=1)'
	@echo 'make install PREFIX=DIR   bin include lib share in DIR (now $(PREFIX))'
	@echo 'make lint                 ruff, mypy, codespell, clang-format, include map'
	@echo 'make clean                removes build/'

build:
	@tools/setup.sh build
	cmake --preset release
	cmake --build $(BUILD) -j $(JOBS)

test:
	@tools/setup.sh test
	@$(PYTHON) tools/test.py --jobs $(JOBS) release pytest

test-all:
	@tools/setup.sh all
	@$(PYTHON) tools/test.py --jobs $(JOBS) release pytest thorough testbed asan tsan no-mpi conformance

demo:
	@tools/setup.sh demo
	cmake --preset release
	cmake --build $(BUILD) -j $(JOBS)
	$(PYTHON) tools/demo.py

NAME ?= independent
bench: build
	bin/penstock bench $(NAME) $(if $(QUICK),--quick)

install: build
	cmake --install $(BUILD) --prefix '$(abspath $(PREFIX))'
	tools/install_python.sh '$(abspath $(PREFIX))'

lint:
	@tools/setup.sh build
	tools/lint.sh

clean:
	rm -rf build
