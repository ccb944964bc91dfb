# `make` lists the targets.

.DEFAULT_GOAL := help
.PHONY: help run build static deb rpm image release test test-quick test-all test-kernels lint fmt fuzz readers-update bench deps test-deps install clean

# rustup adds its directory to the profile, which only the next login reads.
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
BINARY ?= $(TARGET_DIR)/release/noctule
# Runs a binary of another architecture, such as qemu-aarch64.
RUN ?=
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
SHARE = $(DESTDIR)$(PREFIX)/share

help: ## list the targets
	@echo "A clone needs a C compiler and rustup; the rest is installed by the target that needs it."
	@echo "First: make build, then make run. Before a pull request: make test-quick. See CONTRIBUTING.md."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build and start the agent, as root; options: make run ARGS='--interval 5s'
	@scripts/run.sh $(TARGET_DIR)/release/noctule run $(ARGS)

build: deps ## build the binary: target/release/noctule
	cargo build --release --locked --package noctule

static: deps ## build one static binary for any Linux of this architecture, or of TARGET: dist/noctule
	@scripts/static.sh

deb: deps ## make a Debian package of the static binary: dist/noctule_VERSION_ARCH.deb
	@scripts/package.sh deb

rpm: deps ## make an RPM package of the static binary: dist/noctule-VERSION.ARCH.rpm
	@scripts/package.sh rpm

image: deps ## make an OCI image of the static binary: dist/noctule-VERSION-ARCH.oci.tar
	@scripts/package.sh image

release: deps ## make all files of a release, for x86-64 and arm64: dist/release (docs/release.md)
	@scripts/release.sh

test: ## checks and tests, on this kernel and two others (KERNEL=6.1 picks one); installs what they need; asks for root
	@scripts/check.sh test

test-all: ## the same on every kernel of the matrix, with the laboratory and a minute of soak
	@scripts/check.sh all

test-kernels: ## only the tests on other kernels, on every one of the matrix
	@scripts/check.sh kernels

test-quick: deps ## the checks and the tests of the libraries: minutes, and no root
	@scripts/check.sh quick

lint: deps ## the checks that need no root: format, clippy, tidy, generated files
	@scripts/check.sh lint

fmt: ## format Rust and BPF C
	cargo fmt --all
	cargo fmt --all --manifest-path lab/Cargo.toml
	@scripts/bpf-format.sh --fix

fuzz: deps ## run each fuzz target for three minutes (FUZZ_SECONDS=180); needs cargo-fuzz
	@scripts/fuzz.sh

readers-update: build ## try the newest DuckDB, Polars, pyarrow ... on recordings, and take those that pass
	@scripts/readers.sh --newest $(TARGET_DIR)/release/noctule

bench: ## measure what the agent costs; installs the peers that it is compared with
	@scripts/deps.sh bench
	cargo run --quiet --release --locked --manifest-path lab/Cargo.toml --package noctule-energy-bench
	cargo lab-bench

deps: ## install what the build needs, if it is missing
	@scripts/deps.sh build

test-deps: ## install what the tests need, if it is missing
	@scripts/deps.sh test

install: ## install what was built: binary, manual, completions, unit, configuration; PREFIX, SYSCONFDIR, DESTDIR, BINARY
	@test -x $(BINARY) || { echo "no $(BINARY): run 'make build' first" >&2; exit 1; }
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/noctule
	install -d $(SHARE)/man/man1 $(SHARE)/bash-completion/completions \
		$(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(RUN) $(BINARY) man $(SHARE)/man/man1
	$(RUN) $(BINARY) completions bash > $(SHARE)/bash-completion/completions/noctule
	$(RUN) $(BINARY) completions zsh > $(SHARE)/zsh/site-functions/_noctule
	$(RUN) $(BINARY) completions fish > $(SHARE)/fish/vendor_completions.d/noctule.fish
	install -D -m 644 deploy/noctule.toml $(SHARE)/doc/noctule/noctule.toml
	install -D -m 644 -t $(SHARE)/noctule/grafana deploy/grafana/*.json
	install -D -m 644 -t $(SHARE)/noctule/prometheus deploy/prometheus/*.yml
	install -D -m 644 -t $(SHARE)/noctule/fleet deploy/fleet/*.yml
	@# An existing configuration is not overwritten.
	@test -e $(DESTDIR)$(SYSCONFDIR)/noctule/noctule.toml || { set -x; install -D -m 644 \
		deploy/noctule.toml $(DESTDIR)$(SYSCONFDIR)/noctule/noctule.toml; }
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local/bin|$(PREFIX)/bin|; s|/etc/noctule|$(SYSCONFDIR)/noctule|' deploy/noctule.service \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/noctule.service

clean: ## remove what was built
	cargo clean
	rm -rf dist
