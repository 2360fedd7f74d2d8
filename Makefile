# Two commands do it all: `make demo` and `make test`.
STATIC_TARGET := x86_64-unknown-linux-gnu
STATIC := target/static/$(STATIC_TARGET)/image/selvage

.PHONY: demo test bench fuzz bench-vm build static lint deps test-rust test-vm test-manifests test-cluster test-fleet test-alerts test-dashboards test-page test-stack demo-stack pictures bench-cluster golden

demo: build ## a simulated GPU node with faults coming and going
	@target/release/selvage demo

demo-stack: deps build ## twelve simulated nodes, a real Prometheus and Alertmanager, alerts firing
	@SELVAGE_STACK=demo tests/stack/run target/release/selvage

build:
	cargo build --release --locked

# glibc before 2.36 cannot start a static binary whose relocations are packed (half a megabyte less).
RELR := $(shell getconf GNU_LIBC_VERSION | awk '{ split($$2, v, "."); if (v[1] > 2 || v[2] >= 36) print "-C link-arg=-Wl,-z,pack-relative-relocs" }')

# Functions that compile to the same are linked once, where the linker can (lld, rustc's own on x86-64).
ICF = $(shell out=$$(mktemp) && echo 'fn main() {}' | rustc - -o "$$out" -C link-arg=-Wl,--icf=all 2>/dev/null \
    && echo "-C link-arg=-Wl,--icf=all"; rm -f "$$out")

# A static binary: what the container image and the VM hold.
static:
	RUSTFLAGS="-C target-feature=+crt-static $(RELR) $(ICF)" cargo build --profile image --locked \
	    --target $(STATIC_TARGET) --target-dir target/static

deps: ## packages that the suites need (root, apt); installed ones are left alone
	tests/deps

lint:
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings

test: deps lint test-rust test-manifests test-alerts test-dashboards test-page test-stack test-vm test-cluster test-fleet

test-rust:
	cargo test --locked

test-vm: static
	tests/vm/run --kernel all --bin $(STATIC)

test-manifests: ## overlays, chart and admission policy; no cluster needed
	tests/manifests/run

test-alerts: ## rules by promtool, inhibition on a real Alertmanager, and that each test can fail
	tests/alerts/run

test-stack: static ## every query and alert on a real Prometheus that watches the demo's fleet
	tests/stack/run $(STATIC)

pictures: deps build ## docs/images, out of a real browser and a real Prometheus
	tests/stack/pictures target/release/selvage docs/images

test-dashboards: ## generator, layout, queries and Grafana's own types; no Grafana needed
	tests/dashboards/run

test-page: ## the agent's page in a real browser: axe, keyboard, narrow, pictures in target/page
	tests/page/run

golden: ## write the golden files anew; review the diff
	UPDATE_GOLDEN=1 cargo test --locked

bench: deps static bench-vm bench-cluster ## ratios against node_exporter, ripgrep and mtail; latencies
	benches/run $(STATIC)
	python3 benches/nccl.py --selvage $(STATIC) --gz

fuzz: ## five minutes of any bytes as an NCCL log
	tests/fuzz/run

bench-vm: static
	tests/vm/run --kernel all --bin $(STATIC) --bench

test-cluster: static ## the agent on a real Kubernetes cluster (root; builds Kubernetes once)
	tests/cluster/run --bin $(STATIC)

test-fleet: ## 300 agents against a real API server; the budget's bound in its history
	tests/cluster/fleet

bench-cluster: ## from a fault seen to the API server's taking the patch, one node
	FLEET_PROFILE=release tests/cluster/fleet latency
