# Every target sets up what it needs; `make test` on a fresh machine needs only python3 and make.
SHELL := /bin/bash
PYTHON ?= $(shell scripts/choose-python)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# A worker that is done takes tests from the others: some tests take a thousand times as long as most.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist worksteal

.PHONY: help setup serve proto check lint format test test-all mutants release same-trace count-walk clean \
	bench-agent bench-attack bench-control bench-governor bench-health bench-ingest bench-journal bench-kernel-line \
	bench-llama bench-metrics bench-packing bench-pools bench-providers bench-real-time bench-replicas bench-scheduler bench-ssh bench-sim bench-storms bench-xid

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 18

setup: $(STAMP) ## make .venv with everything developers need

$(STAMP): pyproject.toml constraints.txt scripts/make-venv
	@scripts/make-venv $(PYTHON) $(VENV)
	@touch $(STAMP)

serve: setup ## a control plane with a simulated cloud, on http://localhost:50051
	@$(BIN)/navarch serve --config examples/config/simulated.yaml --data-dir .navarch $(ARGS)

proto: setup ## generate the code of the wire messages
	$(BIN)/python proto/generate.py

check: lint ## lint, and known vulnerabilities of the packages of a release, which the index lists
	$(BIN)/python scripts/audit-packages

lint: setup ## format, lint, types, layer contracts, house rules, and the SBOM of a release
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check-house
	$(BIN)/python scripts/sbom --check

format: setup ## format the files for `make check`
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: lint ## the whole gate; without the audit of `check`, whose result can change at any time
	$(PYTEST) -m "not long" $(ARGS)

test-all: check ## the gate, and what is too long for it; installs Debian packages that tests start
	@scripts/install-components
	$(PYTEST) $(ARGS)

mutants: setup ## break safety lines one at a time: some test must fail for each; ARGS="--only governor"
	$(BIN)/python scripts/mutants --jobs $(JOBS) $(ARGS)

release: setup ## the files of a release in dist/: wheel, lists of packages, SBOM, install script
	@scripts/build-release dist

PYTHONS ?= python3.12 python3.13
same-trace: setup ## one seed gives one trace on every Python; PYTHONS="python3.12 python3.13"
	@set -e; others=; for python in $(PYTHONS); do venv=.venv-$$(basename $$python); \
	  scripts/make-venv $$python $$venv; others=$$others:$$venv/bin/python; done; \
	NAVARCH_OTHER_PYTHONS=$$others $(BIN)/pytest -q tests/sim/test_determinism.py $(ARGS)

bench-attack: setup ## the worst stall of a real server under each attack, and its restart after them, as JSON
	$(BIN)/python -m bench.attack $(ARGS)

bench-control: setup ## how long a reconcile round and a restart take, as JSON
	$(BIN)/python -m bench.control $(ARGS)

bench-governor: setup ## a bad driver on 10,000 nodes: actions and suspected changes, as JSON
	$(BIN)/python -m bench.governor $(ARGS)

bench-llama: setup ## 54 days of published failures on 2,048 simulated nodes, as JSON
	$(BIN)/python -m bench.llama3 $(ARGS)

bench-metrics: setup ## CPU time of a scrape of 10,000 nodes with 8 GPUs, and its longest slice, as JSON
	$(BIN)/python -m bench.metrics $(ARGS)

bench-pools: setup ## capacity, leaks, storms and planning rounds of pools, as JSON; ARGS="market" for one
	@$(BIN)/python -m bench.pools $(ARGS)

bench-scheduler: setup ## placements, cycles, searches for victims, against the scalar reference, as JSON
	$(BIN)/python -m bench.scheduler $(ARGS)

bench-sim: setup ## CPU and memory of large simulations, seeds per hour, as JSON; ARGS="--scale 10" for less
	$(BIN)/python -m bench.sim $(ARGS)

bench-real-time: setup ## 5,000 simulated agents against a real server: heartbeats lost, CPU, as JSON
	$(BIN)/python -m bench.real_time $(ARGS)

bench-replicas: setup ## 200 random schedules of faults on three replicas, as JSON; ARGS="--schedules 20 --seed 7"
	@$(BIN)/python -m bench.replicas $(ARGS)

bench-storms: setup ## storms in which sound machines could be destroyed, as JSON; ARGS="--only check-213"
	@$(BIN)/python -m bench.storms $(ARGS)

bench-packing: setup ## how well policies pack next to FGD, and how long a run takes, as JSON
	$(BIN)/python -m bench.packing $(ARGS)

bench-providers: setup ## CPU time to list 1,000 machines of each provider, time after a refusal, as JSON
	$(BIN)/python -m bench.providers $(ARGS)

bench-ingest: setup ## heartbeats per CPU-second, over HTTP and over gRPC, as JSON
	$(BIN)/python -m bench.ingest $(ARGS)

bench-journal: setup ## commits, reads and pruning with a journal of a million events, as JSON
	$(BIN)/python -m bench.journal $(ARGS)

bench-xid: setup ## lines of a kernel log searched for XIDs in a second, as JSON
	$(BIN)/python -m bench.xid $(ARGS)

bench-kernel-line: setup ## from a line in the kernel's log to the journal, as JSON
	$(BIN)/python -m bench.kernel_line $(ARGS)

bench-health: setup ## a thousand faulty nodes at once, and one line of a kernel log, as JSON
	$(BIN)/python -m bench.health $(ARGS)

bench-agent: setup ## CPU and memory of an agent, and its delays while the driver fails, as JSON
	$(BIN)/python -m bench.agent $(ARGS)

bench-ssh: setup ## machines set up over SSH: 200 at once, and by the real sshd in a second, as JSON
	$(BIN)/python -m bench.ssh $(ARGS)

count-walk: setup ## functions that run from an XID to the replaced node
	@$(BIN)/python scripts/count-walk --packages $(ARGS)

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
