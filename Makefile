# make serve   set everything up and serve the demo models on PORT
# make test    set everything up and run every test
# make docs    build the documentation as a site in build/site
# make accuracy DATA=folder    score every demo model for which the folder holds its benchmark's data
# make image-check  take the steps of the CPU image in a clean Debian root and ask the service there; needs root, debootstrap
# make bench   measure every promise of speed and the peers, and soak, an hour and a half on a quiet machine; plots in build/bench
# make fuzz    REQUESTS=20000 generated requests, most of them wrong, to a server over the demo models
# make chaos   kill, fill, starve and leave servers, and jump their clock
# make soak    a server over the demo models under a mixed load for MINUTES=30, or until REQUESTS are made
# make audit   look for known vulnerabilities of every pinned package (asks pypi.org)
# make sbom    what a server consists of, as CycloneDX, and whether we may use it: build/sbom.json
PYTHON ?= python3
VENV ?= .venv
PORT ?= 3000
HOST ?= 127.0.0.1
JOBS ?= 2
MINUTES ?= 30
BIN := $(VENV)/bin
AUDIT := build/audit
export BENTOML_DO_NOT_TRACK := True

# The demo bundles by name; `make serve MODELS=klue-ner:latest` or NLU_MODELS=... serves others.
empty :=
comma := ,
DEMO := $(shell sed -n 's/^  - //p' demo/demo.yaml)
MODELS ?= $(subst $(empty) $(empty),$(comma),$(addsuffix :latest,$(DEMO)))

.PHONY: serve test docs accuracy bench fuzz chaos soak check bundles install format lock clean image-check audit sbom system

serve: bundles
	NLU_MODELS=$${NLU_MODELS:-$(MODELS)} $(BIN)/bentoml serve service.app:NLU --host $(HOST) --port $(PORT)

test: check bundles system
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

accuracy: bundles
	$(BIN)/python -m benchmarks accuracy --all --data-dir $(DATA)

bench: bundles
	mkdir -p build/bench
	$(BIN)/python -m demo klue-ner --out build/bench
	rm -rf build/bench/int8
	$(BIN)/python -m exporters build/bench/klue-ner --suite klue/ner --name klue-ner --out build/bench/int8 --precision int8 --accept-loss "measured for its speed"
	-$(BIN)/python -m benchmarks peers --model small --seconds 4 --work build/bench/peers --save build/bench/peers-small.json
	-$(BIN)/python -m benchmarks peers --model trunk --seconds 4 --work build/bench/peers --save build/bench/peers-trunk.json
	-$(BIN)/python -m benchmarks proof --int8 build/bench/int8/klue-ner --save build/bench/proof.json
	-$(BIN)/python -m benchmarks soak --minutes $(MINUTES) --save build/bench/soak.json
	$(BIN)/python -m benchmarks report build/bench/*.json --out build/bench/report.html

fuzz: bundles
	FUZZ_REQUESTS=$(or $(REQUESTS),20000) $(BIN)/python -m pytest -n0 -s tests/e2e/hurt/test_e2e_fuzz.py

chaos: bundles system
	$(BIN)/python -m pytest -n0 -s tests/e2e/hurt/test_e2e_c*.py tests/e2e/test_e2e_lifecycle*.py tests/e2e/test_e2e_overload.py tests/e2e/test_e2e_startup.py tests/exporters/test_export_full_disk.py tests/exporters/test_export_leftovers.py tests/service/test_data_only.py tests/service/test_clocks.py

soak: bundles
	$(BIN)/python -m benchmarks soak $(if $(REQUESTS),--requests $(REQUESTS),--minutes $(MINUTES)) --save build/soak.json

image-check: bundles
	$(BIN)/python -m deploy.docker.rehearse deploy/docker/Dockerfile.cpu --models $${BENTOML_HOME:-$$HOME/bentoml}/models --bundles klue-ner,klue-nli

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bundles: install
	$(BIN)/python -m exporters.demo $(DEMO)

# A browser for the tests of the page, Prometheus for those of its rules. Without root or apt-get, whoever may must install them.
system:
	@{ command -v chromium && command -v promtool && command -v faketime; } >/dev/null || { \
	  packages="$$(grep -v '^#' requirements/debian.txt | tr '\n' ' ')"; \
	  if [ "$$(id -u)" = 0 ]; then sudo=; else sudo="sudo -n"; fi; \
	  echo "installing $$packages"; \
	  $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends $$packages >/dev/null || { \
	    echo "some tests need them: sudo apt-get install $$packages" >&2; exit 1; }; }

install: $(VENV)/.installed

# torch first and by its plain version, so that pip does not look for a CUDA build.
$(VENV)/.installed: pyproject.toml requirements/constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): two minutes from a warm pip cache"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==$$(sed -n 's/^torch==//p' requirements/constraints.txt)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e ".[cpu,export,bench,docs,dev]"
	touch $@

# --strict: what could not be looked up is a failure, not a package without problems.
audit: $(AUDIT)/.installed
	$(AUDIT)/bin/pip-audit --strict --disable-pip --no-deps -r requirements/constraints.txt -r requirements/serve-gpu.txt

sbom: install $(AUDIT)/.installed
	$(AUDIT)/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-reproducible -o build/environment.json
	$(BIN)/python requirements/sbom.py build/environment.json build/sbom.json

$(AUDIT)/.installed: requirements/audit.txt
	test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/audit.txt
	touch $@

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: install
	$(BIN)/python requirements/lock.py
	$(BIN)/uv pip compile --quiet --extra gpu --extra trace --constraint requirements/constraints.txt --no-header --no-annotate --python-version 3.11 --python-platform x86_64-manylinux_2_36 pyproject.toml --output-file requirements/serve-gpu.txt

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache
