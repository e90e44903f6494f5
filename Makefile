# Workpulling. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Tools and the local cluster's binaries live outside the clone, keyed by what
# they are built from, so that a second clone starts warm.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/workpulling
KEY_OF = $(shell cat $(addprefix hack/tools/,$(1)) 2>/dev/null | sha256sum | cut -c1-16)
TOOLS := $(CACHE)/tools/$(call KEY_OF,go.mod go.sum)
TOOLS_BUF := $(CACHE)/tools/$(call KEY_OF,buf/go.mod buf/go.sum)
TOOLS_LINT := $(CACHE)/tools/$(call KEY_OF,lint/go.mod lint/go.sum lint/main.go)

CONTROLLER_GEN := $(TOOLS)/controller-gen
PROTOC_GEN_GO := $(TOOLS)/protoc-gen-go
PROTOC_GEN_GO_GRPC := $(TOOLS)/protoc-gen-go-grpc
GOVULNCHECK := $(TOOLS)/govulncheck
HELM := $(TOOLS)/helm
BUF := $(TOOLS_BUF)/buf
GOLANGCI_LINT := $(TOOLS_LINT)/golangci-lint
CLUSTER := bin/cluster

PROGRESS := hack/progress.sh

# hack/setup.sh puts a Go there where the machine's own is too old to fetch the one that go.mod names.
export PATH := $(CACHE)/go/bin:$(PATH)

# One way of compiling for tests, tools and images, so that they share one build cache. Only race tests need cgo.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath

# Parameters.
FOCUS ?=
SEEDS ?= 1000
SEED ?=
TIME ?= 30s
DURATION ?= 1m
MINUTES ?= 2
ARGS ?=
NODES ?= 1
TIMEOUT ?= 45m

##@ Use

.PHONY: workpulling
workpulling: ## Build bin/workpulling, which runs flows and their workers on this machine without a cluster
	@hack/setup.sh go
	@$(PROGRESS) "compiling workpulling" go build -ldflags "-X main.version=$$(git describe --tags --always 2>/dev/null)" -o bin/workpulling ./cmd/workpulling

.PHONY: demo
demo: $(HELM) ## Run the main job on a real local Kubernetes and prove that nothing was lost
	@hack/setup.sh cluster
	@HELM=$(HELM) hack/demo/demo.sh

.PHONY: cluster-up
cluster-up: cluster-bin ## Start the local Kubernetes (NODES=n, CLUSTER_NAME=name) and print its kubeconfig
	@hack/setup.sh cluster
	@$(CLUSTER) up --nodes $(NODES)

.PHONY: cluster-down
cluster-down: cluster-bin ## Stop the local Kubernetes (CLUSTER_NAME=name) and leave nothing behind
	@$(CLUSTER) down

.PHONY: images
images: ## Build the container image with docker or buildah
	@hack/images.sh

##@ Test

.PHONY: test
test: ## Run the unit tests and a short run of the simulator (needs Go only)
	@hack/setup.sh go
	@hack/build-progress.sh ./...
	@$(PROGRESS) "unit tests" go test ./...
	@$(PROGRESS) "chart tests" go test -C test/helm -count=1 ./...
	@$(PROGRESS) "tests of the alerts" go test -C hack/tools/alerts ./...
	@$(PROGRESS) "tests of the cluster command" go test -C hack/cluster ./internal/...
	@$(PROGRESS) "vet of the benchmark" go vet -C test/bench ./...
	@$(PROGRESS) "tests of the benchmark" go test -C test/bench ./...
	@$(MAKE) bench-smoke
	@$(MAKE) sim SEEDS=500

.PHONY: test-race
test-race: ## Run the tests of the concurrent parts under the race detector (needs a C compiler)
	@hack/setup.sh race
	@$(PROGRESS) "race tests" env CGO_ENABLED=1 go test -race ./runtime/... ./sidecar/... ./internal/...

# The suites that a FOCUS chooses from; one that it leaves empty passes, so both are asked before.
INTEGRATION_SPECS := ./test/integration/api ./test/integration/operator

.PHONY: test-integration
test-integration: cluster-bin ## Run the integration tests against a real control plane (FOCUS=regexp of specs)
	@hack/setup.sh go
	$(if $(FOCUS),@chosen=$$(go test -v -tags integration -count=1 $(INTEGRATION_SPECS) -ginkgo.dry-run -ginkgo.no-color -ginkgo.focus='$(FOCUS)'); \
		grep -qE 'Ran [1-9][0-9]* of ' <<<"$$chosen" || { echo "no spec of test/integration matches FOCUS=$(FOCUS)" >&2; exit 2; })
	@WORKPULLING_CLUSTER_BIN=$(abspath $(CLUSTER)) $(PROGRESS) "integration tests" \
		go test -tags integration -count=1 -timeout $(TIMEOUT) $(if $(FOCUS),$(INTEGRATION_SPECS) -ginkgo.focus='$(FOCUS)',./test/integration/...)

.PHONY: test-cluster
test-cluster: cluster-bin ## Run the local cluster's own tests: two nodes, partition, and starts that are killed half way
	@hack/setup.sh cluster
	@cd hack/cluster && $(abspath $(PROGRESS)) "cluster tests" go test -tags cluster -count=1 -timeout 20m ./e2e

.PHONY: test-e2e
test-e2e: cluster-bin $(HELM) ## Run the end-to-end tests on a real local Kubernetes (FOCUS=smoke, or any label filter)
	@hack/setup.sh cluster postgres
	@WORKPULLING_CLUSTER_BIN=$(abspath $(CLUSTER)) HELM=$(HELM) $(PROGRESS) "end-to-end tests" \
		go test -v -tags e2e -count=1 -timeout $(TIMEOUT) ./test/e2e -ginkgo.fail-on-empty $(if $(FOCUS),-ginkgo.label-filter='$(FOCUS)')

.PHONY: crash
crash: cluster-bin ## Kill the real sidecars under load and prove that nothing was lost (DURATION=10m for each of four, SEED=k to replay, FOCUS=regexp, RESULTS=file)
	@hack/setup.sh go postgres
	$(if $(FOCUS),@chosen=$$(go test -tags crash ./test/crash -list '$(firstword $(subst /, ,$(FOCUS)))'); \
		grep -q '^Test' <<<"$$chosen" || { echo "no test of test/crash matches FOCUS=$(FOCUS)" >&2; exit 2; })
	@WORKPULLING_CLUSTER_BIN=$(abspath $(CLUSTER)) WORKPULLING_REQUIRE_POSTGRES=1 $(PROGRESS) "crash tests" \
		go test -v -tags crash -count=1 -timeout 0 ./test/crash -run '$(or $(FOCUS),.)' -args -length=$(DURATION) \
		$(if $(SEED),-seed=$(SEED)) $(if $(RESULTS),-results=$(abspath $(RESULTS)))

.PHONY: chaos
chaos: cluster-bin $(HELM) ## Break a real local Kubernetes for MINUTES=n under load and report what became of the jobs (SEED=k to replay, NODES=n, ARGS=-h)
	@hack/setup.sh cluster postgres
	@$(PROGRESS) "building the chaos runner" go build -o bin/chaos ./test/chaos/cmd/chaos
	@$(PROGRESS) "building its app" go build -o bin/chaos-app ./test/chaos/cmd/app
	@WORKPULLING_CLUSTER_BIN=$(abspath $(CLUSTER)) HELM=$(HELM) NODES=$(if $(filter command line environment,$(origin NODES)),$(NODES),3) \
		bin/chaos -minutes $(MINUTES) $(if $(SEED),-seed $(SEED)) $(ARGS)

.PHONY: sim
sim: ## Run the simulator (SEEDS=n, or SEED=k to replay one)
	@go run ./runtime/simulation/cmd/sim -seeds $(SEEDS) $(if $(SEED),-seed $(SEED))

.PHONY: contract
contract: ## Check docs/contract.md: every id is there, every test that is named exists, runs and passes
	@hack/setup.sh go postgres
	@WORKPULLING_REQUIRE_POSTGRES=1 $(PROGRESS) "the contract's tests" go run ./hack/contract

.PHONY: sweep
sweep: ## Run SEEDS more seeds of the simulator and record them in docs/results/seeds.md
	@go run ./runtime/simulation/cmd/sim -seeds $(SEEDS) -record docs/results/seeds.md -commit $$(git rev-parse --short=12 HEAD)

.PHONY: mutants
mutants: ## Plant deliberate bugs in copies of the machines and see that each is found (N=n for some of them, ONLY=nnn,nnn, RECORD=1)
	@go run ./runtime/simulation/cmd/mutants $(if $(N),-n $(N)) $(if $(ONLY),-only $(ONLY)) \
		$(if $(RECORD),-record docs/results/mutants.md -commit $$(git rev-parse --short=12 HEAD))

.PHONY: fuzz
fuzz: ## Run every fuzzer in turn (TIME=30s for each, FOCUS=regexp)
	@TIME=$(TIME) FOCUS='$(FOCUS)' hack/fuzz.sh

.PHONY: bench
bench: ## Measure this beside its peers in one run and write docs/performance.md (ARGS='-only regexp …' for some rows, printed only; ARGS=-h)
	@hack/setup.sh go
	@$(PROGRESS) "building the benchmark" go build -C test/bench -o $(abspath bin/bench) .
	@bin/bench $(or $(ARGS),-explain -write docs/performance.md)

.PHONY: bench-smoke
bench-smoke: ## See that the benchmark works, with the rows that need no server (2 s of load)
	@$(PROGRESS) "smoke run of the benchmark" go run -C test/bench . -only '^(inprocess|direct)-memory/flood/256B/4w$$' \
		-runs 1 -warm 0.2 -seconds 0.8

.PHONY: microbench
microbench: ## Run the benchmarks of single packages
	@go test -run '^$$' -bench . -benchmem ./runtime/... ./sidecar/...

.PHONY: nightly
nightly: ## Run the long work and write docs/results (goes on where it was broken off)
	@hack/nightly.sh

##@ Develop

.PHONY: build
build: ## Build the binaries into bin/
	@hack/build-progress.sh ./cmd/...
	@CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the code
	@$(GOLANGCI_LINT) fmt

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate deepcopy functions
	@$(CONTROLLER_GEN) object paths=./api/...

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate CRDs and roles
	@CONTROLLER_GEN=$(CONTROLLER_GEN) hack/manifests.sh

.PHONY: proto
proto: $(BUF) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) ## Generate the wire schema's code
	@PATH="$(TOOLS):$$PATH" $(BUF) generate
	@$(BUF) build --path runtime/protocol/app --as-file-descriptor-set --exclude-source-info -o examples/python-grpc/app.binpb

.PHONY: docs
docs: ## Generate the reference docs
	@go run ./hack/refdoc
	@go run ./runtime/simulation/cmd/sim -classes docs/design/evidence.md

##@ Check

.PHONY: verify
verify: ## Regenerate everything, run every check, and demand a clean tree
	@hack/verify.sh

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Lint the code
	@$(PROGRESS) "golangci-lint" $(GOLANGCI_LINT) run

.PHONY: lint-api
lint-api: $(GOLANGCI_LINT) ## Lint the API types by the Kubernetes API conventions
	@$(PROGRESS) "API lint" $(GOLANGCI_LINT) run --config .golangci-api.yml ./api/...

.PHONY: proto-lint
proto-lint: $(BUF) ## Lint the wire schema
	@$(BUF) lint

.PHONY: chart-lint
chart-lint: $(HELM) ## Lint and render the charts
	@HELM=$(HELM) hack/chart-lint.sh

.PHONY: vuln
vuln: $(GOVULNCHECK) ## Look for known vulnerabilities in what the binaries call
	@$(GOVULNCHECK) ./cmd/...

##@ Tools

.PHONY: install-tools
install-tools: $(CONTROLLER_GEN) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) $(HELM) $(BUF) $(GOLANGCI_LINT) ## Build the pinned tools into the cache

.PHONY: helm
helm: $(HELM) ## Build the pinned helm and print its path
	@echo $(HELM)

$(TOOLS)/controller-gen: PKG = sigs.k8s.io/controller-tools/cmd/controller-gen
$(TOOLS)/protoc-gen-go: PKG = google.golang.org/protobuf/cmd/protoc-gen-go
$(TOOLS)/protoc-gen-go-grpc: PKG = google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(TOOLS)/govulncheck: PKG = golang.org/x/vuln/cmd/govulncheck
$(TOOLS)/helm: PKG = helm.sh/helm/v3/cmd/helm
$(TOOLS)/%:
	@hack/setup.sh go
	@$(PROGRESS) "building $*" go build -C hack/tools -trimpath -o $@ $(PKG)

$(BUF):
	@hack/setup.sh go
	@$(PROGRESS) "building buf" go build -C hack/tools/buf -trimpath -o $@ github.com/bufbuild/buf/cmd/buf

$(GOLANGCI_LINT):
	@hack/setup.sh go
	@$(PROGRESS) "building golangci-lint (a few minutes the first time)" go build -C hack/tools/lint -trimpath -o $@ .

.PHONY: cluster-bin
cluster-bin:
	@hack/setup.sh go
	@$(PROGRESS) "building the cluster command" go build -C hack/cluster -trimpath -o $(abspath $(CLUSTER)) ./cmd/cluster

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-zA-Z0-9_-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
