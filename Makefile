# Everything a newcomer or a CI machine needs: Python 3.11 or newer and make. The environment builds itself in .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
KAFKA_VERSION ?= 4.3.0
OLDEST_KAFKA := 3.9.1
PROMETHEUS_VERSION ?= 0.313.5
FOCUS_VALIDATOR_VERSION := 2.2.1
# The first Python 3.12 or newer that runs; pyenv's shims exist even where they do not.
PYTHON312 ?= $(firstword $(foreach python,python3.12 python3.13 $(wildcard $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python),$(shell $(python) -c pass 2>/dev/null && echo $(python))))
# One process more than there are processors, at most four: tests of Kafka wait a lot. Each has a broker of its own. A file stays in
# one process; tests/conftest.py has the order.
PROCESSES ?= $(shell processors=$$(getconf _NPROCESSORS_ONLN); echo $$((processors < 4 ? processors + 1 : 4)))
PYTEST := $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
LAHAR := $(BIN)/lahar --log sqlite:run/simulated.db

.PHONY: help run kafka broker promtool focus-validator kafka-if-possible test test-slow chaos mutants lint bench docs check-generated wheel-check lock clean

help: ## Show what there is to make.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-16s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lahar needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install --quiet --require-hashes --no-deps -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	$(PIP) check
	touch $(STAMP)

.venv: $(STAMP) ## Create or update the environment.

run: $(STAMP) ## Simulate real jobs on a cluster that is too small for them; show decisions, notices, waits and bills.
	@rm -rf run && mkdir -p run
	@echo '300 jobs of Alibaba'"'"'s openb trace, submitted 40 times faster, on 6 of its nodes (examples/overload):'
	@$(LAHAR) simulate --format openb --jobs 300 --speed-up 40 --tenants 5 --nodes examples/overload/nodes.csv \
	  --queues examples/overload/queues.yaml --scheduler examples/overload/scheduler.yaml --incidents examples/overload/incidents.csv --acknowledge 120 \
	  --privileged openb-pod-5265 --privileged openb-pod-5322 --privileged openb-pod-5353 --privileged openb-pod-5392 \
	  --out run/simulation
	@echo
	@echo 'Jobs that were given notice to make room for privileged ones (docs/preemption.md):'
	@$(LAHAR) preemptions list --all
	@echo
	@echo 'A job that waited, and why, as it was known at 01:57:'
	@$(LAHAR) why default/openb-pod-5346 --at 2023-05-20T01:57:00Z
	@echo
	@echo 'What each tenant owes (tenant = CRC-32 of the job modulo 5), with what preemption wasted and kept idle:'
	@$(LAHAR) billing invoice
	@$(LAHAR) billing verify
	@$(LAHAR) billing report > run/bill.html
	@echo 'One line of them, the place kept for a privileged job, and the events behind it:'
	@$(LAHAR) billing explain 7322f51a878e
	@echo
	@echo 'Plots are in run/simulation/report.html, the bill as a page in run/bill.html, the whole history in run/simulated.db. Try next:'
	@echo '  $(LAHAR) preemptions show openb_pods_3000/368    a notice that was taken back'
	@echo '  $(LAHAR) timeline default/openb-pod-5196         a job that was given notice, stopped, and went on'
	@echo '  $(LAHAR) why default/openb-pod-5353 --at 2023-05-20T01:57:00Z'
	@echo 'docs/tutorial.md asks a real history; docs/simulation.md simulates another cluster.'

kafka: .kafka/$(KAFKA_VERSION)/.complete ## Fetch Apache Kafka's jars for the tests (needs Maven; running them needs Java 17).

.kafka/%/.complete: tests/kafka/pom.xml
	rm -rf .kafka/$*
	mvn --batch-mode --quiet --file tests/kafka/pom.xml dependency:copy-dependencies \
	    -Dkafka.version=$* -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/.kafka/$*
	touch $@

broker: $(STAMP) kafka ## Run a Kafka broker on localhost:9092 until Ctrl-C; its data go with it.
	$(BIN)/python tests/kafka/broker.py

promtool: .promtool/.$(PROMETHEUS_VERSION) ## Build promtool and Prometheus for the tests of alerts and dashboard (needs Go; five minutes).

.promtool/.$(PROMETHEUS_VERSION):
	rm -rf .promtool && mkdir .promtool
	cd .promtool && go mod init promtool
	cd .promtool && go get $(foreach program,promtool prometheus,github.com/prometheus/prometheus/cmd/$(program)@v$(PROMETHEUS_VERSION))
	cd .promtool && go build -trimpath -ldflags '-s -w' -o . $(foreach program,promtool prometheus,github.com/prometheus/prometheus/cmd/$(program))
	touch $@

focus-validator: .focus-validator/.$(FOCUS_VALIDATOR_VERSION) ## Install the validator of FOCUS files for the tests of exports (needs Python 3.12).

.focus-validator/.$(FOCUS_VALIDATOR_VERSION):
	@test -n "$(PYTHON312)" || { echo 'no Python 3.12: make focus-validator PYTHON312=/path/to/python3.12'; exit 1; }
	rm -rf .focus-validator
	$(PYTHON312) -m venv .focus-validator
	.focus-validator/bin/python -m pip install --disable-pip-version-check --quiet focus-validator==$(FOCUS_VALIDATOR_VERSION) 'pyarrow<22'
	touch $@

kafka-if-possible:
	@if java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' && command -v mvn >/dev/null; then \
	    $(MAKE) --no-print-directory kafka; \
	else \
	    echo 'no Java 17 or no Maven: the tests on a real Kafka broker will be skipped'; \
	fi

test: $(STAMP) kafka-if-possible ## Run the default test suite.
	@$(BIN)/python -m compileall -q engine statemachines streams # hundreds of commands that tests start need not compile it
	$(PYTEST)

test-slow: $(STAMP) kafka-if-possible ## Run the deep and long checks too, some of them on an older Kafka.
	@test ! -e .kafka/$(KAFKA_VERSION)/.complete || $(MAKE) --no-print-directory kafka KAFKA_VERSION=$(OLDEST_KAFKA)
	$(PYTEST) -m 'not chaos'

chaos: $(STAMP) kafka ## Break workers, brokers and clocks under load; print and check what was lost and doubled.
	$(BIN)/python -m pytest -m chaos -s tests/chaos

mutants: $(STAMP) ## Change the code in small ways and see whether tests fail (MUTANTS=area, SHARE=0.3; docs/mutants.md).
	nice $(BIN)/python tests/mutants/mutants.py $(MUTANTS) --share $(or $(SHARE),1)

lint: $(STAMP) ## Check style, types, import contracts.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini tests benchmarks docs/writers
	$(BIN)/lint-imports --no-cache

bench: $(STAMP) kafka-if-possible ## Measure the budgets of this release on this machine: the engine, then all of it on Kafka.
	@$(BIN)/lahar bench; engine=$$?; echo; $(BIN)/python benchmarks/starving.py; echo; $(BIN)/python benchmarks/kafka.py && exit $$engine

docs: $(STAMP) ## Write anew what is generated in docs: schemas, AsyncAPI, catalogue of events, diagrams, the command.
	$(BIN)/python docs/writers/documents.py
	$(BIN)/lahar diagram --out docs/machines.md
	$(BIN)/python tests/documentation_pages.py
	$(BIN)/python tests/billing/exports/exports_page.py

check-generated: docs ## Fail if the committed documents are not what `make docs` writes.
	@test -z "$$(git status --porcelain -- docs)" || \
	    { git status --short -- docs; git --no-pager diff -- docs; echo 'generated documents differ: run `make docs` and commit'; exit 1; }

wheel-check: $(STAMP) ## Build the wheel and try it in a clean environment.
	$(BIN)/python .ci/check_wheel.py

lock: ## Resolve the dependencies anew and write requirements.lock.
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet pip-tools==7.6.2
	.venv-lock/bin/pip-compile --quiet --upgrade --all-extras --generate-hashes --strip-extras --allow-unsafe --no-header \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options --output-file requirements.lock pyproject.toml
	rm -rf .venv-lock

clean: ## Remove everything that was made.
	rm -rf .venv .venv-lock .kafka .promtool .focus-validator run build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
