# Parawork. `make run` builds what is missing and starts it; `make test` runs every test. `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO       ?= go
# Everything is compiled with the same flags, what tests build too: otherwise most of it is compiled twice. Nobody debugs SQLite here: without
# tables for debuggers it compiles in half the time.
export GOFLAGS    := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
export CGO_CFLAGS ?= -O2
# The compiler and the linker end soon: collecting less often saves a fifth of their processor time.
COMPILE  := GOGC=400
NODE_MIN := 20.19
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION)
GOOS     := $(shell $(GO) env GOOS)
GOARCH   := $(shell $(GO) env GOARCH)
GUEST    := cmd/parawork/assets/parawork-guest-$(GOOS)-$(GOARCH).gz

GO_SRC    := $(shell find . -name '*.go' -not -path './ui/node_modules/*' -not -name '*_test.go' 2>/dev/null) go.mod go.sum
SQL_SRC   := $(shell find migrations -name '*.sql')
GUEST_SRC := $(shell find cmd/parawork-guest guest internal -name '*.go' -not -name '*_test.go') go.mod go.sum
UI_SRC    := $(shell find ui -type f -not -path 'ui/node_modules/*' -not -path 'ui/tools/node_modules/*' -not -path 'ui/dist/*' -not -name '*.go' 2>/dev/null)
TARGETS   := linux-amd64 linux-arm64 darwin-arm64 darwin-amd64
DOWNLOADS := $(TARGETS:%=bin/downloads/parawork-%)
NODE_OK   := $(shell node -e 'const [a,b]=process.versions.node.split(".").map(Number),[c,d]="$(NODE_MIN)".split(".").map(Number);process.exit(a>c||a==c&&b>=d?0:1)' 2>/dev/null && command -v npm >/dev/null && echo yes)

## run: build what is needed and start Parawork on http://localhost:8080 (data in ./data)
.PHONY: run
run: build
	@(nice -n 19 $(MAKE) --no-print-directory downloads >bin/downloads.log 2>&1 &) # for machines of other systems than this one
	@PARAWORK_DATA_DIR="$${PARAWORK_DATA_DIR:-./data}" exec bin/parawork serve $(ARGS)

## build: bin/parawork (with the UI and the guest inside), bin/parawork-guest, and bin/parawork-runner for members' own machines
.PHONY: build
build: ui bin/parawork bin/parawork-guest bin/parawork-runner bin/parawork.cdx.json

bin/parawork: $(GO_SRC) $(SQL_SRC) $(GUEST) server/api/openapi.yaml ui/dist/.built
	@echo "==> server (the first build compiles SQLite and takes about a minute)"
	@CGO_ENABLED=1 $(COMPILE) $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/parawork

bin/parawork-guest: $(GUEST_SRC)
	@echo "==> guest"
	@CGO_ENABLED=0 $(COMPILE) $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/parawork-guest && touch $@

$(GUEST): bin/parawork-guest
	@mkdir -p $(@D) && gzip -9nc $< > $@

# The program members download: it carries the guest of its own system and, for containers, the one of Linux on the same processor.
bin/parawork-runner: bin/downloads/parawork-$(GOOS)-$(GOARCH)
	@ln -f $< $@ && touch $@

define runner
cmd/parawork-runner/assets/$(1)/parawork-guest-$(1).gz: $$(GUEST_SRC)
	@mkdir -p bin/guests && CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$(1))) GOARCH=$(word 2,$(subst -, ,$(1))) $(COMPILE) $$(GO) build -trimpath -ldflags '$$(LDFLAGS)' -o bin/guests/parawork-guest-$(1) ./cmd/parawork-guest
	@gzip -9nc bin/guests/parawork-guest-$(1) > $$@.tmp && mv $$@.tmp $$@

bin/downloads/parawork-$(1): $$(GO_SRC) cmd/parawork-runner/assets/$(1)/parawork-guest-$(1).gz cmd/parawork-runner/assets/linux-$(word 2,$(subst -, ,$(1)))/parawork-guest-linux-$(word 2,$(subst -, ,$(1))).gz
	@echo "==> program for members' machines, $(1)"
	@mkdir -p $$(@D) && CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$(1))) GOARCH=$(word 2,$(subst -, ,$(1))) $(COMPILE) $$(GO) build -trimpath -ldflags '$$(LDFLAGS)' -o $$(@D)/.$(1).tmp ./cmd/parawork-runner
	@cd $$(@D) && sum=$$$$(sha256sum .$(1).tmp 2>/dev/null || shasum -a 256 .$(1).tmp) && echo "$$$${sum%% *}  parawork-$(1)" > .$(1).sum && touch .$(1).tmp && mv .$(1).tmp parawork-$(1) && mv .$(1).sum parawork-$(1).sha256
endef
$(foreach t,$(TARGETS),$(eval $(call runner,$(t))))

## sbom: bin/parawork.cdx.json, what the programs and the web app in them are made of (CycloneDX)
.PHONY: sbom
sbom: bin/parawork.cdx.json

bin/parawork.cdx.json: bin/parawork bin/parawork-guest bin/parawork-runner ui/package-lock.json
	@$(GO) run ./internal/sbom -version '$(VERSION)' -lock ui/package-lock.json -o $@ bin/parawork bin/parawork-guest bin/parawork-runner

## downloads: the program for members' machines, for Linux and macOS on amd64 and arm64, into bin/downloads
.PHONY: downloads
downloads: $(DOWNLOADS)

## clients: the packages for TypeScript, Python and members' machines, into bin (needs npm, and Python's setuptools)
.PHONY: clients
clients:
	@mkdir -p bin && npm pack --silent --pack-destination bin ./clients/typescript ./clients/runner
	@cd clients/python && python3 -c 'import setuptools.build_meta as b; b.build_sdist("../../bin")' >/dev/null

## ui: the web app, into ui/dist (skipped with one line when Node is missing or older than 20.19)
.PHONY: ui
ui: ui/dist/.built

ifeq ($(NODE_OK),yes)
ui/dist/.built: ui/node_modules/.package-lock.json $(UI_SRC)
	@echo "==> web app"
	@cd ui && npm run --silent build && touch dist/.built

ui/node_modules/.package-lock.json: ui/package-lock.json
	@echo "==> web app's packages (npm ci)"
	@cd ui && npm ci --no-audit --no-fund
else
ui/dist/.built:
	@echo "==> Node $(NODE_MIN) or newer was not found: building without the web app; the API works, and the page at / says what to do."
	@mkdir -p ui/dist && touch ui/dist/.gitkeep
.PHONY: ui/dist/.built
endif

## test: every test: Go with the race detector on SQLite and PostgreSQL, the web app's, a real browser and MCP's own suite against the real binary
.PHONY: test
test:
	@$(MAKE) --no-print-directory -j3 test-setup build test-compile # one waits for the network, the others compute
	@$(MAKE) --no-print-directory -j3 test-go test-vet test-ui NICE='nice -n 10' # Go's tests wait for much; what they leave is enough for the others
	@$(MAKE) --no-print-directory -j2 test-e2e mcp-conformance

## test-setup: install what the tests need (Chromium, PostgreSQL, bubblewrap, Docker, the agents' CLIs)
.PHONY: test-setup
test-setup:
	@testing/scripts/test-setup.sh

# Packages side by side, and tests of a package side by side: most of their time they wait for agents, shells, databases and servers, and
# while one package links another computes. Half as many again as there are processors: with as many, a third of their time is left.
TEST_PACKAGES := $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 2 ? 3 : n + n / 2)))
TEST_PARALLEL := $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))
# Vet looked at everything before. Nobody debugs these binaries: without tables for debuggers each links in half the time.
TEST_FLAGS := -race -vet=off -ldflags='-s -w' -p $(TEST_PACKAGES) -parallel $(TEST_PARALLEL) -timeout 30m

# Everything that go vet and the tests need, so that neither waits for the other.
.PHONY: test-compile
test-compile: $(GUEST) ui/dist/.built
	@echo "==> compiling the tests, on all cores" && $(COMPILE) $(GO) list -race -test -deps -export ./... >/dev/null

.PHONY: test-vet
test-vet: test-compile
	@$(COMPILE) $(NICE) $(GO) vet -race ./... && echo "==> go vet found nothing" # of what was just compiled: without -race everything would be compiled once more

## test-go: Go tests with the race detector, stores on both databases; what fails is run again and named
.PHONY: test-go
test-go: test-compile
	@echo "==> go test -race" && $(GO) run ./testing/testpg -- $(GO) run ./testing/testrun $(TEST_FLAGS) $(GOTESTFLAGS)

## test-gvisor: containers behind gVisor's kernel (builds runsc once, needs root)
.PHONY: test-gvisor
test-gvisor:
	@testing/scripts/test-gvisor.sh

## test-kubernetes: pods on a real Kubernetes node (builds its programs once, needs root)
.PHONY: test-kubernetes
test-kubernetes:
	@testing/scripts/test-kubernetes.sh

## test-worker: Cloudflare's worker against the platform's types and in its runtime (downloads both)
.PHONY: test-worker
test-worker:
	@mkdir -p .cache/worker && cp -R executors/cloudflare/worker/package.json executors/cloudflare/worker/tsconfig.json executors/cloudflare/worker/src executors/cloudflare/worker/test .cache/worker/
	@cd .cache/worker && npm pkg delete devDependencies.wrangler && npm install --no-audit --no-fund --no-package-lock --silent && npm test

## test-places: every place passes the whole conformance suite, also those that services elsewhere make
.PHONY: test-places
test-places: $(GUEST)
	@PARAWORK_TEST_PLACES=1 $(GO) test -race -timeout 30m ./executors/... -run "Conformance|Faults" -count=1

## test-kills: a long task of Parawork's own agent, with 50 kills of the server at random moments
.PHONY: test-kills
test-kills: $(GUEST) ui/dist/.built
	@PARAWORK_TEST_KILLS=50 $(GO) test -count=1 -timeout 30m ./testing/testkit -run TestOwnAgentTaskGoesOnAfterKills -v

## test-ui: type check, lint and unit tests of the web app
.PHONY: test-ui
test-ui: ui/node_modules/.package-lock.json
	@echo "==> web app: types, lint, unit tests, size budget" && cd ui && $(NICE) npm run --silent check && $(NICE) npm run --silent test
	@$(NICE) node --test clients/runner/test/ >/dev/null || node --test clients/runner/test/

## test-e2e: a real Chromium against the real binary
.PHONY: test-e2e
test-e2e: build testing/e2e/node_modules/.package-lock.json
	@echo "==> browser tests" && cd testing/e2e && npm test --silent

## mcp-conformance: the official conformance suite and inspector of MCP against the real binary
.PHONY: mcp-conformance
mcp-conformance: build testing/mcp/node_modules/.package-lock.json
	@echo "==> MCP conformance" && cd testing/mcp && node run.mjs

testing/mcp/node_modules/.package-lock.json: testing/mcp/package-lock.json
	@cd testing/mcp && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error

## screenshots: the pictures of README.md, taken of the real program, into docs/images
.PHONY: screenshots
screenshots: build testing/e2e/node_modules/.package-lock.json
	@cd testing/e2e && node screenshots.mjs

testing/e2e/node_modules/.package-lock.json: testing/e2e/package-lock.json
	@cd testing/e2e && npm ci --no-audit --no-fund

## bench: the numbers, as ratios to baselines taken in the same run
.PHONY: bench
bench: build
	@$(GO) run ./testing/bench $(ARGS)

## measure-ui: what the first visit of a page costs in requests, bytes and blocked time, and frames while 200 changed files scroll
.PHONY: measure-ui
measure-ui: build testing/e2e/node_modules/.package-lock.json
	@cd testing/e2e && node measure.mjs $(ARGS)

## gen: regenerate the API's Go and TypeScript types from server/api/openapi.yaml
.PHONY: gen
gen:
	@$(GO) generate ./server/api && cd ui && npm run --silent gen

## check: formatting, vet, modules, generated files fresh, the web app's types and lint
.PHONY: check
check: test-ui
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v gen.go)); [ -z "$$out" ] || { echo "not formatted, run: gofmt -w $$out"; exit 1; }
	@$(GO) vet ./...
	@$(GO) mod tidy -diff >/dev/null || { echo "go.mod is not tidy, run: go mod tidy"; exit 1; }
	@$(GO) generate ./server/api && git diff --exit-code --stat server/api || { echo "server/api/api.gen.go was stale: commit what 'make gen' made"; exit 1; }

## shape: the largest packages, types and interfaces, and the folders at the root
.PHONY: shape
shape:
	@$(GO) test ./internal/arch -run 'TestShape|TestRootFolders' -count=1 -v | sed -n 's/^ *shape_test.go:[0-9]*: //p'

## fmt: format Go and TypeScript
.PHONY: fmt
fmt:
	@gofmt -w $$(git ls-files '*.go') && cd ui && npm run --silent format

## clean: remove build output (never ./data)
.PHONY: clean
clean:
	@rm -rf bin ui/dist/assets ui/dist/index.html ui/dist/.built cmd/parawork/assets/parawork-guest-* cmd/parawork-runner/assets/*/parawork-guest-*

## help: this list
.PHONY: help
help:
	@sed -n 's/^## /  make /p' $(MAKEFILE_LIST)
