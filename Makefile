# Two commands do it all: `make demo` and `make test`. CONTRIBUTING.md says what each suite proves.
# Also aarch64-unknown-linux-gnu; from x86-64 with Debian's gcc-aarch64-linux-gnu.
STATIC_TARGET := x86_64-unknown-linux-gnu
ARM64 := $(if $(filter aarch64-%,$(STATIC_TARGET)),-arm64)
# Of Cargo.toml.
PROFILE := image
# What the container image holds: no demo.
STATIC := target/static/selvage$(ARM64)
# What the system suites run: the same build with the demo's simulated nodes.
RIG := target/static/selvage-rig$(ARM64)$(addprefix -,$(PROFILE:image=))
VM_KERNELS ?= 6.1 6.12
# Mutants of one `make mutants`.
SAMPLE ?= 40
# Rows of `make test-faults-all`: `--rest` where `make test` ran the fast ones.
FAULTS ?=
# Of `make soak`.
SECONDS ?= 3600
AGENTS ?= 20
# Integration tests that need root or a Debian package; so do the tests in preflight's `namespaces`.
HOST_TESTS := differential dot1x lldp subnet
UNIT_TESTS := $(filter-out $(HOST_TESTS),$(patsubst tests/%.rs,%,$(wildcard tests/*.rs)) \
    $(patsubst tests/%/main.rs,%,$(wildcard tests/*/main.rs)))

.PHONY: help demo demo-stack build static rig release deps check lint test-unit unit-built test-rules test-manifests test-rendered test-policies \
    test test-slow test-faults test-faults-all test-host test-slurm test-alerts test-inhibition test-paging \
    test-breakages test-dashboards test-page test-packages test-systemd test-stack test-vm test-arm64 \
    test-system test-vm-all test-cluster test-fleet test-mutants pictures golden bench bench-vm bench-cluster mutants fuzz soak

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## a simulated GPU node with faults coming and going
	cargo build --profile demo --locked --bin selvage
	@target/demo/selvage demo

demo-stack: deps build ## twelve simulated nodes, a real Prometheus and Alertmanager, alerts firing; PLAY=leaf, PLAY=firmware
	@SELVAGE_STACK=demo tests/stack/run target/release/selvage

# The commit, for `selvage --version`; nothing where this is no checkout. Not for `cargo test`: it would compile again.
SELVAGE_REVISION ?= $(shell git describe --always --abbrev=12 --exclude='*' --dirty 2>/dev/null)

build:
	SELVAGE_REVISION=$(SELVAGE_REVISION) cargo build --release --locked

# For another architecture than this machine's, Debian's cross compiler links.
CROSS := $(if $(filter $(shell uname -m)-%,$(STATIC_TARGET)),,$(firstword $(subst -, ,$(STATIC_TARGET)))-linux-gnu-gcc)
LINK := -C target-feature=+crt-static $(if $(CROSS),-C linker=$(CROSS))

# rustup's compiler, or Debian's where rustup lacks the target.
STATIC_RUSTC = $(eval STATIC_RUSTC := $(or $(shell tests/lib/rustc-for $(STATIC_TARGET)),$(error no compiler for $(STATIC_TARGET))))$(STATIC_RUSTC)

comma := ,
# A flag, where the linker of the target takes it.
probe = $(shell out=$$(mktemp) && echo 'fn main() {}' | $(STATIC_RUSTC) - --target $(STATIC_TARGET) $(LINK) -o "$$out" $(1) 2>/dev/null \
    && echo "$(1)"; rm -f "$$out")

# glibc before 2.36 cannot start a static binary whose relocations are packed (half a megabyte less).
RELR = $(if $(shell getconf GNU_LIBC_VERSION | awk '{ split($$2, v, "."); if (v[1] > 2 || v[2] >= 36) print "new" }'),$(call probe,-C link-arg=-Wl$(comma)-z$(comma)pack-relative-relocs))

# Identical functions are linked once: lld, rustc's own on x86-64, can.
ICF = $(call probe,-C link-arg=-Wl$(comma)--icf=all)

# Where crates lie on this machine is not to be in the binary: the same commit gives the same bytes.
REMAP := --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src=/crates

STATIC_BUILD = RUSTC=$(STATIC_RUSTC) SELVAGE_REVISION=$(SELVAGE_REVISION) RUSTFLAGS="$(LINK) $(RELR) $(ICF) $(REMAP)" cargo build --profile $(PROFILE) --locked \
    --target $(STATIC_TARGET) --target-dir target/static
STATIC_BUILT := target/static/$(STATIC_TARGET)/$(PROFILE)/selvage

static: ## the static binary of the container image
	$(STATIC_BUILD) --no-default-features
	@ln -f $(STATIC_BUILT) $(STATIC)

rig:
	$(STATIC_BUILD)
	@ln -f $(STATIC_BUILT) $(RIG)

# The date of the commit, for everything that is dated.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

# On x86-64, with Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and rpm.
release: ## dist/: binaries, packages, image and chart for amd64 and arm64, with checksums and SBOM
	$(MAKE) static STATIC_TARGET=x86_64-unknown-linux-gnu
	$(MAKE) static STATIC_TARGET=aarch64-unknown-linux-gnu
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) manifests/release/build dist target/static/selvage target/static/selvage-arm64

deps: ## install the Debian packages that the suites need (root, apt)
	tests/deps

# Suites that share the cores: each allows for a busy machine.
SEVERAL := $(MAKE) --no-print-directory --output-sync --keep-going

check: ## what every commit passes: no root, no apt, minutes
	@$(SEVERAL) -j2 lint unit-built
	@$(SEVERAL) -j5 $(UNIT) test-rendered test-rules

lint:
	cargo fmt --check
	cargo clippy --target-dir target/lint --all-targets --locked -- -D warnings
	cargo clippy --target-dir target/lint --no-default-features --locked -- -D warnings # as the image is built
	tests/lib/cargo-deny check bans licenses sources

# Simulated nodes have thousands of files: in memory, where there is room (a container's /dev/shm has 64 MB).
TEST_TMPDIR = $(shell [ -w /dev/shm ] && [ "$$(df --output=avail /dev/shm | tail -1)" -gt 2000000 ] && echo /dev/shm || echo "$${TMPDIR:-/tmp}")

# Random nodes that each law is tried on.
LAW_NODES ?= 150
# Half of them mostly wait for an agent, with bounds: several at a time, the longest first. Those that
# only compute give way.
COMPUTE := laws nccl_memory nccl_properties
LONGEST := laws agent shapes kube_api expect broken_nodes log_files lib
# Only in `make test`: they take minutes and seldom find what the others do not.
SLOW := demo nccl_memory
UNIT := $(addprefix unit/,$(LONGEST) $(filter-out $(LONGEST) $(SLOW),$(UNIT_TESTS)))
test-unit: unit-built ## unit, golden, layering and docs tests
	@$(SEVERAL) -j5 $(UNIT)

unit-built:
	cargo test --locked --lib --bins $(addprefix --test ,$(UNIT_TESTS)) --no-run

unit/%: export TMPDIR = $(TEST_TMPDIR)
unit/laws: export LAW_NODES := $(LAW_NODES)
unit/lib:
	@cargo test --quiet --locked --lib --bins

unit/%:
	@$(if $(filter $(COMPUTE),$*),nice -n 10) cargo test --quiet --locked --test $* -- --skip namespaces:: $(if $(filter agent,$*),--test-threads=6)

test-rules: ## alerting rules by promtool
	tests/alerts/run test_rules

test-manifests: test-rendered test-policies ## overlays, chart and admission policies; no cluster needed

# What is rendered and what schemas say of it; the rest is in `make test` only.
RENDERED := test_manifests test_chart test_platforms test_examples test_workflows test_seeds
test-rendered:
	nice -n 10 tests/manifests/run $(RENDERED)

POLICIES := $(filter-out $(RENDERED) test_mutations,$(basename $(notdir $(wildcard tests/manifests/test_*.py))))
test-policies:
	nice -n 10 tests/manifests/run $(POLICIES)

# The virtual machines compute, most others wait.
# Each compiler often has work for one core only, so that what `check` needs is built along with the rig.
test: deps ## everything but the system suites
	@$(SEVERAL) -j3 lint unit-built rig
	@$(MAKE) --no-print-directory check
	@$(SEVERAL) -j4 -o rig -o unit-built test-vm test-slow test-paging test-packages test-stack test-slurm test-page test-faults test-host test-inhibition test-dashboards

test-slow: unit-built ## what `make check` leaves out: laws on more nodes, hostile logs, the demo, admission policies
	@$(SEVERAL) -j2 LAW_NODES=1500 test-policies unit/laws $(addprefix unit/,$(SLOW))

# Some rows end the agent's tasks by a hook that only builds with debug assertions have.
test-faults: rig unit-built ## the fault matrix: a part of its rows (root)
	tests/faults/run --bin $(RIG) --debug target/debug/selvage --fast

test-faults-all: rig unit-built ## all rows of the fault matrix (root; with --docs, tests/faults/run writes docs/faults.md)
	tests/faults/run --bin $(RIG) --debug target/debug/selvage $(FAULTS)

test-host: ## network namespaces, hostapd and wpa_supplicant, lldpd, opensm over ibsim, node_exporter
	cargo test --locked $(addprefix --test ,$(HOST_TESTS))
	cargo test --locked --test preflight namespaces::

test-slurm: rig ## `selvage slurm health` under a real slurmctld and ten slurmd (root)
	tests/slurm/run $(RIG)

test-alerts: test-inhibition test-paging ## inhibition and paging on a real Alertmanager

test-inhibition:
	tests/alerts/run test_inhibition

test-paging test-stack: export TMPDIR = $(TEST_TMPDIR)
test-paging:
	tests/alerts/run test_paging

test-dashboards: ## generator, layout, queries and Grafana's own types; no Grafana needed
	tests/dashboards/run

# The profile that builds fastest; as a release is built: `make test-arm64 EMULATED=image`.
EMULATED := emulated
EMULATED_RIG := target/static/selvage-rig-arm64$(addprefix -,$(EMULATED:image=))
test-arm64: export UNDER_TEST = $(shell command -v qemu-aarch64-static) $(CURDIR)/$(EMULATED_RIG)
test-arm64: ## golden files, nccl, preflight and the agent by the arm64 binary, in an emulator; the agent on an arm64 kernel (root)
	nice -n 10 $(MAKE) rig STATIC_TARGET=aarch64-unknown-linux-gnu PROFILE=$(EMULATED)
	nice -n 10 cargo test --locked --test golden --test commands --test preflight -- --skip namespaces:: --skip page:: --skip a_copy_runs --skip a_capture_shows
	nice -n 10 cargo test --locked --test agent a_device_that_goes
	tests/vm/arm64 $(EMULATED_RIG)

test-page: ## the agent's page in a real browser: axe, keyboard, narrow; pictures in target/page
	tests/page/run

test-stack: rig ## every query and alert on a real Prometheus that watches the demo's fleet
	tests/stack/run $(RIG)
	SELVAGE_STACK=plays tests/stack/run $(RIG)

# Also the arm64 binary, where `make test-arm64` has built it.
test-packages: rig ## what a release ships, twice; .deb and .rpm installed, used, updated, removed (root)
	tests/packages/run $(RIG) $(wildcard target/static/selvage-rig-arm64)

test-systemd: rig ## the unit under a real systemd, on a Debian in QEMU (root)
	tests/vm/systemd/run $(RIG)

test-vm: rig ## real kernels in QEMU: the newest one
	tests/vm/run --kernel $(lastword $(VM_KERNELS)) --bin $(RIG)

# The cluster takes longest and mostly waits: the others run beside it, two at a time. What they need is built
# before, so that they start in this order.
test-system: deps rig unit-built ## every fault, both kernels, arm64, systemd, a real cluster, 300 agents, tests that must fail
	$(MAKE) -j3 -o rig -o unit-built test-cluster test-faults-all test-vm-all test-arm64 test-fleet test-mutants test-systemd test-breakages

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

test-breakages: ## each test of alerts and manifests fails where what it holds is broken
	tests/alerts/run test_breakages
	tests/manifests/run test_mutations

# By unit tests alone, and far below what they notice as a rule: no luck is needed to pass.
test-mutants:
	nice -n 10 tests/mutants/run --sample $(SAMPLE) --together --unit --bar 50

mutants: ## a random sample of changes to the deciding code; fails where tests notice too few (docs/testing.md)
	tests/mutants/run --sample $(SAMPLE)

fuzz: ## random bytes for parsers of what comes from outside, a minute each
	tests/fuzz/run

# Clocks are stepped where Debian's libfaketime is installed: the build is the image's, but not static.
soak: ## a fleet under churn for an hour (SECONDS=, AGENTS=): memory, descriptors and threads must stay flat
	cargo build --profile image --locked --bin selvage
	tests/soak/run --bin target/image/selvage --seconds $(SECONDS) --agents $(AGENTS)
