# Two commands do it all: `make demo` and `make test`. CONTRIBUTING.md says what each suite proves.
STATIC_TARGET := x86_64-unknown-linux-gnu
# What the container image holds: no demo.
STATIC := target/static/selvage
# What the system suites run: the same build with the demo's simulated nodes.
RIG := target/static/selvage-rig
VM_KERNELS ?= 6.1 6.12
# Mutants of one `make mutants`.
SAMPLE ?= 40
# Integration tests that need root or a Debian package; so do the tests in preflight's `namespaces`.
HOST_TESTS := differential dot1x subnet
UNIT_TESTS := $(filter-out $(HOST_TESTS),$(patsubst tests/%.rs,%,$(wildcard tests/*.rs)) \
    $(patsubst tests/%/main.rs,%,$(wildcard tests/*/main.rs)))

.PHONY: help demo demo-stack build static rig deps check lint test-unit test-rules test-manifests \
    test test-faults test-faults-all test-host test-alerts test-dashboards test-page test-stack test-vm \
    test-system test-node test-vm-all test-cluster test-fleet pictures golden bench bench-vm bench-cluster mutants fuzz

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## a simulated GPU node with faults coming and going
	cargo build --profile demo --locked --bin selvage
	@target/demo/selvage demo

demo-stack: deps build ## twelve simulated nodes, a real Prometheus and Alertmanager, alerts firing
	@SELVAGE_STACK=demo tests/stack/run target/release/selvage

# The commit, for `selvage --version`; nothing where this is no checkout. Not for `cargo test`: it would compile again.
SELVAGE_REVISION ?= $(shell git describe --always --abbrev=12 --exclude='*' --dirty 2>/dev/null)

build:
	SELVAGE_REVISION=$(SELVAGE_REVISION) cargo build --release --locked

# glibc before 2.36 cannot start a static binary whose relocations are packed (half a megabyte less).
RELR := $(shell getconf GNU_LIBC_VERSION | awk '{ split($$2, v, "."); if (v[1] > 2 || v[2] >= 36) print "-C link-arg=-Wl,-z,pack-relative-relocs" }')

# Identical functions are linked once, where the linker can (lld, rustc's own on x86-64).
ICF = $(shell out=$$(mktemp) && echo 'fn main() {}' | rustc - -o "$$out" -C link-arg=-Wl,--icf=all 2>/dev/null \
    && echo "-C link-arg=-Wl,--icf=all"; rm -f "$$out")

STATIC_BUILD = SELVAGE_REVISION=$(SELVAGE_REVISION) RUSTFLAGS="-C target-feature=+crt-static $(RELR) $(ICF)" cargo build --profile image --locked \
    --target $(STATIC_TARGET) --target-dir target/static
STATIC_BUILT := target/static/$(STATIC_TARGET)/image/selvage

static: ## the static binary of the container image
	$(STATIC_BUILD) --no-default-features
	@ln -f $(STATIC_BUILT) $(STATIC)

rig:
	$(STATIC_BUILD)
	@ln -f $(STATIC_BUILT) $(RIG)

deps: ## install the Debian packages that the suites need (root, apt)
	tests/deps

check: lint test-unit test-rules test-manifests ## what every commit passes: no root, no apt, minutes

lint:
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	cargo clippy --no-default-features --locked -- -D warnings # as the image is built
	tests/lib/cargo-deny check bans licenses sources

test-unit: ## unit, golden, layering and docs tests
	cargo test --locked --lib --bins $(addprefix --test ,$(UNIT_TESTS)) -- --skip namespaces::

test-rules: ## alerting rules by promtool
	tests/alerts/run test_rules

test-manifests: ## overlays, chart and admission policy; no cluster needed
	tests/manifests/run

test: deps check test-faults test-host test-alerts test-dashboards test-page test-stack test-vm ## everything but the system suites

# Some rows end the agent's tasks by a hook that only builds with debug assertions have.
test-faults: ## the fault matrix: a part of its rows (root)
	cargo build --locked --bin selvage
	tests/faults/run --bin target/debug/selvage --fast

test-faults-all: ## all rows of the fault matrix (root; with --docs, tests/faults/run writes docs/faults.md)
	cargo build --locked --bin selvage
	tests/faults/run --bin target/debug/selvage

test-host: ## network namespaces, hostapd and wpa_supplicant, opensm over ibsim, node_exporter
	cargo test --locked $(addprefix --test ,$(HOST_TESTS))
	cargo test --locked --test preflight namespaces::

test-alerts: test-rules ## the rules, inhibition and paging on a real Alertmanager, and that each test can fail
	tests/alerts/run test_inhibition test_breakages
	tests/alerts/run test_paging # alone: its time runs 20 times faster

test-dashboards: ## generator, layout, queries and Grafana's own types; no Grafana needed
	tests/dashboards/run

test-page: ## the agent's page in a real browser: axe, keyboard, narrow; pictures in target/page
	tests/page/run

test-stack: rig ## every query and alert on a real Prometheus that watches the demo's fleet
	tests/stack/run $(RIG)

test-vm: rig ## real kernels in QEMU: the newest one
	tests/vm/run --kernel $(lastword $(VM_KERNELS)) --bin $(RIG)

# The cluster mostly waits, so it runs next to the other two.
test-system: deps rig ## every fault, both kernels, a real cluster, 300 agents
	$(MAKE) -j2 test-node test-cluster
	$(MAKE) test-fleet

test-node:
	$(MAKE) test-faults-all
	$(MAKE) test-vm-all

test-vm-all: rig
	$(foreach kernel,$(VM_KERNELS),tests/vm/run --kernel $(kernel) --bin $(RIG) &&) true

test-cluster: rig ## the agent on a real Kubernetes cluster (root; builds Kubernetes once)
	tests/cluster/run --bin $(RIG)

test-fleet: ## 300 agents against a real API server; the budget's bound in its history
	tests/cluster/fleet

golden: ## rewrite the golden files; review the diff
	UPDATE_GOLDEN=1 cargo test --locked --no-fail-fast --lib --test golden --test docs --test shapes --test bench

pictures: deps build ## docs/images, from a real browser and a real Prometheus
	tests/stack/pictures target/release/selvage docs/images

bench: deps static rig bench-vm bench-cluster ## ratios against node_exporter, ripgrep and mtail; fails on a missed bar
	benches/run $(STATIC) $(RIG) --check
	python3 benches/nccl.py --selvage $(STATIC) --gz --check

bench-vm: static
	tests/vm/run --kernel all --bin $(STATIC) --bench

bench-cluster: ## from a fault to the API server's acceptance of the patch, one node
	FLEET_PROFILE=release tests/cluster/fleet latency

mutants: ## a random sample of changes to the deciding code; fails where tests notice too few (docs/testing.md)
	tests/mutants/run --sample $(SAMPLE)

fuzz: ## random bytes for each parser of what comes from outside, a minute each
	tests/fuzz/run
