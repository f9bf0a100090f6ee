# make help says what there is. Everything works as root (tests then run as a test user) and as an ordinary user.

VERSION := $(shell cat VERSION)
COMMIT  := $(shell git -c safe.directory='*' rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
PREFIX  ?= $(HOME)/.local
DESTDIR ?=
GO      ?= go
TAGS    := containers_image_openpgp,nomsgpack,exclude_graphdriver_btrfs,exclude_graphdriver_zfs,no_vpnkit,no_lxcusernic,urfave_cli_no_docs
# The time of the commit, by an archive's files where there is no git: two builds of it are the same, byte for byte.
BUILT   := $(shell TZ=UTC git -c safe.directory='*' log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r VERSION +%Y-%m-%dT%H:%M:%SZ)
NAMES   := -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.buildTime=$(BUILT)
LDFLAGS := -s -w $(NAMES)
PROGRAMS := $(notdir $(patsubst %/,%,$(dir $(wildcard cmd/moss*/main.go))))

export PATH := $(CURDIR)/.cache/bin:$(PATH):/usr/local/go/bin:$(shell $(GO) env GOPATH 2>/dev/null)/bin
# -trimpath: what is compiled does not depend on the checkout's folder, so every clone finds it in Go's cache.
export GOFLAGS := -tags=$(TAGS) -buildvcs=false -trimpath
export CGO_ENABLED ?= 0

# Units of systemd's user manager: its search path for a private prefix differs from that of a system's.
UNITDIR ?= $(if $(filter $(HOME)/%,$(PREFIX)/),$(PREFIX)/share/systemd/user,$(PREFIX)/lib/systemd/user)
# What passed, for compat. A run of some files only says nothing of the others.
RAN := .cache/ran
export KEEP_TAP = $(if $(FILES),,$(CURDIR)/$(RAN))
SCRIPTS = $(shell git -c safe.directory='*' ls-files --cached --others --exclude-standard '*.sh' '*.bash' '*.bats' .ci/run)

.DEFAULT_GOAL := help
.PHONY: help build build-race demo test unit bats bats-nosub bats-cgroups bats-chance test-swarm chance flake quick whole fresh powercut bench race fuzz apifuzz lint fmt openapi layers compat clients guest install uninstall clean ci deps
.DELETE_ON_ERROR:

help: ## this list
	@echo "moss $(VERSION): rootless containers. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## bin/mossd, bin/moss, bin/moss-shim, bin/moss-log, bin/moss-swarm: static, for this machine
	@mkdir -p bin
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(PROGRAMS))

build-race:
	@mkdir -p bin/race
	CGO_ENABLED=1 $(GO) build -race -ldflags '$(NAMES)' -o bin/race/ $(addprefix ./cmd/,$(PROGRAMS))

deps: ## installs what building, running and testing need
	hack/install-deps.sh --for build --for run --for test

demo: ## from nothing to running containers, shown step by step
	hack/install-deps.sh --for demo
	$(MAKE) --no-print-directory build
	hack/demo.sh

# What make test runs, side by side (hack/ci/stages.go). ALSO= adds stages.
STAGES := build unit bats bats-no-subids bats-cgroups bats-chance swarm powercut

test: deps ## unit tests and the engine's tests, all as an unprivileged user
	CGO_ENABLED=0 $(GO) build -o .cache/bin/ci ./hack/ci
	.cache/bin/ci $(STAGES) $(ALSO)

# Tools that are modules of their own: what they need is nothing to moss.
MODULES := hack/openapi/check hack/programs

# Packages whose tests take long come first, so that none of them runs alone at the end; three at a time, since they wait as
# often as they compute.
SLOW := $(addprefix moss/,storage engine/shim/client engine/archive imagesvc engine/build/copying engine/build engine/build/remote engine/dockerfile)
# These have many goroutines, and the race detector, which takes three times as long; make race has it for all.
RACED := $(addprefix moss/,api/conn api/server cmd/mossd engine/event engine/exec engine/lifecycle engine/logs engine/shim/monitor slirp/dns slirp/forward)
OTHERS = $(filter-out $(SLOW) $(RACED),$(shell $(GO) list ./...))
# keep_passed NAME: option of gotest for a run of all.
keep_passed = $(if $(UNITFLAGS)$(PACKAGES),,-passed $(RAN)/$(1).txt)
GOTESTFLAGS = -vet=off -p 3 -timeout 20m -exec '$(CURDIR)/hack/test-exec.sh' $(UNITFLAGS)

unit: ## unit tests as an unprivileged user, in part with the race detector (PACKAGES= for some of them, all with it)
	CGO_ENABLED=0 $(GO) build -o .cache/bin/gotest ./hack/gotest
	$(if $(PACKAGES),,CGO_ENABLED=0 gotest $(call keep_passed,unit) -- $(GOTESTFLAGS) $(SLOW) $(OTHERS))
	CGO_ENABLED=1 gotest $(call keep_passed,race) -- -race $(GOTESTFLAGS) $(or $(PACKAGES),$(RACED))
	for module in $(MODULES); do CGO_ENABLED=0 $(GO) test -C $$module ./... || exit 1; done

bats: build ## tests/*.bats against a real engine (FILES= for some of them, RUN= for more options of tests/run.sh)
	tests/run.sh $(RUN) $(FILES)

bats-nosub: build ## the tests that sub-ids matter for, as a user without any (WHOLE=1: all that do not need them)
	tests/run.sh --no-subids $(if $(WHOLE),--whole) $(RUN) $(FILES)

bats-cgroups: build ## the tests that need delegated cgroups (root delegates them)
	tests/run.sh --cgroups $(RUN) $(FILES)

bats-chance: build ## fuzzer, kill loops and storms with the seeds that CI has (MOSS_SEEDS= for others)
	tests/run.sh --chance $(RUN) $(FILES)

test-swarm: build ## tests/swarm/*.bats: engines of several users in network namespaces (root; RUN='--test NAME' for one)
	tests/swarm.sh $(RUN) $(FILES)

whole: build ## what takes too long for every change: tests with the tag whole, all without sub-ids, more seeds, races, a bare Debian
	$(MAKE) --no-print-directory unit PACKAGES=./...
	tests/run.sh --whole
	tests/run.sh --no-subids --whole
	tests/run.sh --chance --whole
	$(MAKE) --no-print-directory fresh

COUNT ?= 10
flake: build ## FILES= of tests/ COUNT= times (10) under load
	hack/flake.sh $(COUNT) $(FILES)

quick: ## what touches your change, in about three minutes (QUICKFLAGS=-n only prints what that is)
	$(GO) run ./hack/quick $(QUICKFLAGS)

bench: ## measures moss beside podman and bare crun
	hack/install-deps.sh --for bench
	$(MAKE) --no-print-directory build
	CGO_ENABLED=0 $(GO) run ./hack/bench $(BENCHFLAGS)

race: build-race ## unit tests several times and tests/*.bats, all with the race detector
	$(MAKE) --no-print-directory unit PACKAGES=./... UNITFLAGS='-count=3 -cpu=1,4'
	MOSS_BIN=$(CURDIR)/bin/race tests/run.sh --whole $(FILES)

FUZZTIME ?= 10s
fuzz: ## every Fuzz function for FUZZTIME (10s)
	hack/fuzz.sh $(FUZZTIME)

FUZZSECONDS ?= 1800
apifuzz: build ## random calls of the API with a model beside them for FUZZSECONDS (1800; make test has 30 for each seed)
	KEEP_TAP= MOSS_FUZZ_SECONDS=$(FUZZSECONDS) MOSS_SEEDS='$(call new_seeds,1)' tests/run.sh --chance tests/92-fuzz.bats

# new_seeds N: so many that were not there before.
new_seeds = $(shell shuf -i 1-2147483647 -n $(1))
SEEDS ?= 5
chance: build ## fuzzer, kill loops and storms with SEEDS= new seeds (5), printed; MOSS_CHANCE_ROUNDS= kills in each
	KEEP_TAP= MOSS_SEEDS='$(call new_seeds,$(SEEDS))' tests/run.sh --chance --whole $(RUN) $(FILES)

ROUNDS ?= 10
powercut: build ## cuts the power of XFS, ext4 and btrfs below an engine, ROUNDS= times each (10), with new seeds, printed (root)
	hack/powercut.sh --rounds $(ROUNDS) $(if $(FS),--fs $(FS)) $(if $(SEED),--seed $(SEED))

lint: ## golangci-lint, the house rules (hack/house), gofumpt, shellcheck, shfmt
	hack/install-deps.sh --for lint
	golangci-lint config verify
	golangci-lint run ./...
	$(GO) run ./hack/house
	for module in $(MODULES); do (cd $$module && golangci-lint run -c $(CURDIR)/.golangci.yml ./...) || exit 1; done
	files=$$(gofumpt -l .) && test -z "$$files" || { echo "not gofumpt's form: $$files"; exit 1; }
	shellcheck -x -P . $(SCRIPTS)
	shfmt -d -i 2 -ci $(SCRIPTS)

fmt: ## rewrites what gofumpt and shfmt would
	gofumpt -w .
	shfmt -w -i 2 -ci $(SCRIPTS)

compat: ## checks docs/fields.tsv and the pages that name tests against the code, and the tests that passed last
	$(GO) run ./hack/compat -ran $(RAN)

clients: build ## the clients that CI does not build, unmodified, on moss: docker-compose 2 and 5, docker-py 7 of DOCKER_PY
	hack/install-deps.sh --for test --for clients
	tests/run.sh $(RUN) $(or $(FILES),$(wildcard tests/clients/*.bats))

openapi: ## writes docs/openapi.yaml and docs/api.md from the code, docs/fields.md from docs/fields.tsv (tests compare them)
	$(GO) run ./hack/openapi
	$(GO) run ./hack/compat -write

layers: ## checks who imports whom against hack/layers.txt
	$(GO) run ./hack/layers

fresh: ## installs all dependencies in a bare Debian, and looks for each program that is executed (root)
	hack/install-deps.sh --for test
	hack/fresh.sh

guest: ## tests/guest/*.bats in a virtual machine with systemd and cgroup v2 (root makes it once)
	hack/install-deps.sh --for build --for guest
	$(MAKE) --no-print-directory build
	tests/guest.sh $(FILES)

install: build ## programs, units and completions into PREFIX (~/.local)
	@for p in $(PROGRAMS); do install -D -m 0755 "bin/$$p" "$(DESTDIR)$(PREFIX)/bin/$$p" || exit 1; done
	@for u in moss.service moss.socket; do \
	  mkdir -p "$(DESTDIR)$(UNITDIR)" && sed 's|@BINDIR@|$(PREFIX)/bin|' "hack/units/$$u" >"$(DESTDIR)$(UNITDIR)/$$u" || exit 1; done
	@mkdir -p "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions" "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	@bin/moss completion bash >"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/moss"
	@bin/moss completion zsh >"$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_moss"
	@bin/moss completion fish >"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/moss.fish"
	@echo "installed in $(DESTDIR)$(PREFIX). With systemd: systemctl --user daemon-reload && systemctl --user enable --now moss.socket"

# Units are taken out of the way first: systemd would keep links to those that are gone.
uninstall: ## removes what install wrote, and no data of users
	@if [ -z "$(DESTDIR)" ] && [ -n "$(filter $(HOME)/%,$(PREFIX)/)" ] && [ -e "$(UNITDIR)/moss.service" ]; then \
	  systemctl --user disable --now moss.socket moss.service 2>/dev/null || true; fi
	rm -f $(foreach p,$(PROGRAMS),"$(DESTDIR)$(PREFIX)/bin/$(p)") "$(DESTDIR)$(UNITDIR)/moss.service" "$(DESTDIR)$(UNITDIR)/moss.socket" \
	  "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/moss" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_moss" "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/moss.fish"
	@echo "containers, images and volumes stay in each user's ~/.local/share/moss; 'moss system reset' removes them, before this"

clean: ## removes what was built here
	rm -rf bin .cache coverage

ci: ## exactly what CI runs
	bash .ci/run
