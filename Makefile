# SPDX-License-Identifier: Apache-2.0
# Start with: make help

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Maven uses the cores itself; two targets of this file at once would build the same folders.
.NOTPARALLEL:

KVOY_LOCAL ?= $(CURDIR)/.local
export KVOY_LOCAL

# What stands behind the demo's workers: sim (simulated) or vllm (real vLLM on this machine's CPU).
WORKERS ?= sim
# Passed on to the demo as they are.
ARGS ?=

MVN := tools/mvn.sh
NOT_THERE = @echo "make $@: not there yet, see README" >&2; exit 2

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nVariables: WORKERS=sim|vllm and ARGS="..." for run; KVOY_LOCAL=folder for what tools fetches (default .local)\n'

.PHONY: build
build: ## Build everything without testing; leaves bin/kvoy-server and bin/kvoyctl ready to start
	$(MVN) package -DskipTests

.PHONY: aot
aot: tools build ## Let bin/kvoy-server start faster: train an AOT cache on some traffic (ARGS="--jvm ..." for other flags)
	tools/launch.sh bench io.kvoy.bench.startup.StartUp "" --train $(ARGS)

.PHONY: run
run: tools build ## Show it working: Envoy, Kvoy and workers on this machine (WORKERS=sim or vllm)
ifeq ($(WORKERS),vllm)
	tools/fetch-vllm.sh
	$(KVOY_LOCAL)/vllm-venv/bin/python tools/make-tiny-model.py
endif
	tools/launch.sh e2e io.kvoy.e2e.demo.Demo "" --workers $(WORKERS) $(ARGS)

##@ Test

.PHONY: test
test: tools ## Unit and integration tests, with a real Envoy and real tokenizers
	$(MVN) verify

.PHONY: e2e-vllm
e2e-vllm: tools-vllm ## End-to-end tests on real vLLM workers (Linux, about 6 GB, minutes)
	$(MVN) verify -Pvllm -pl e2e -am -Dspotless.check.skip=true \
	  -Dtest=NoUnitTest -Dsurefire.failIfNoSpecifiedTests=false \
	  -Dit.test='*VllmIT' -Dfailsafe.failIfNoSpecifiedTests=false

.PHONY: e2e-k8s
e2e-k8s: ## End-to-end tests on a real Kubernetes API server
	$(NOT_THERE)

.PHONY: fuzz
fuzz: ## Fuzz every parser that reads strangers' bytes; each target for the time it declares
	tools/fuzz.sh

##@ Measure

.PHONY: lab
lab: build ## Compare routing policies on a simulated fleet in virtual time (ARGS="--seeds 5 burst")
	tools/launch.sh bench io.kvoy.bench.lab.Lab "" $(ARGS)

.PHONY: guidellm
guidellm: tools build ## Drive simulated workers behind Envoy with GuideLLM, by round robin and through Kvoy (ARGS="60 6")
	tools/fetch-guidellm.sh
	tools/guidellm.sh $(ARGS)

.PHONY: bench
bench: build ## Microbenchmarks (JMH; ARGS="PickBenchmark -f 1" chooses)
	tools/launch.sh bench org.openjdk.jmh.Main "" $(ARGS)

.PHONY: overhead
overhead: tools build ## What Kvoy adds to a request behind a real Envoy (ARGS="--help")
	tools/launch.sh bench io.kvoy.bench.overhead.Overhead "-XX:+UseSerialGC -Xmx1g" $(ARGS)

.PHONY: start-up
start-up: tools build ## How long bin/kvoy-server takes to be ready, and in how much memory (ARGS="--help")
	tools/launch.sh bench io.kvoy.bench.startup.StartUp "" $(ARGS)

##@ Work on it

.PHONY: format
format: ## Format all Java sources
	$(MVN) spotless:apply

.PHONY: docs
docs: tools ## Regenerate the checked-in generated files; git diff shows what changed
	$(MVN) test -pl envoy-config,ext-proc-server -am -Dkvoy.regenerate=true \
	  -Dtest='*GoldenTest,*PageTest' -Dsurefire.failIfNoSpecifiedTests=false

.PHONY: tools
tools: ## Fetch what tests and demo need: Envoy, tokenizers, chat templates
	@tools/fetch-envoy.sh
	@tools/fetch-tokenizers.sh
	@tools/fetch-tekken.sh
	@python3 tools/chat-templates/fetch.py $(KVOY_LOCAL)/chat-templates

.PHONY: tools-vllm
tools-vllm: tools ## Fetch vLLM for CPUs too, and make the tiny models
	@tools/fetch-vllm.sh
	@$(KVOY_LOCAL)/vllm-venv/bin/python tools/make-tiny-model.py
	@$(KVOY_LOCAL)/vllm-venv/bin/python tools/make-render-models.py

.PHONY: clean
clean: ## Remove what was built; what tools fetched stays in KVOY_LOCAL
	$(MVN) clean
