//! What holds of every node, whatever it is made of: laws that the verdict obeys, over every simulated
//! machine and random edits of what was observed on it: 10,000 random nodes a law, the same in each run
//! (50 captures, which are written and read as files). `PROPTEST_CASES=100000` looks for others.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "test code"
)]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use selvage::check::Basis;
use selvage::check::debounce::Hysteresis;
use selvage::check::policy::LosslessExpectation;
use selvage::check::profile::PlatformSettings;
use selvage::check::roles::{Role, RoleOverrides};
use selvage::check::{Policy, Status, Weight};
use selvage::config::Config;
use selvage::evaluator::{Evaluator, SamplingMode};
use selvage::observe::{
    BareNic, Dot1xFacts, Fault, FaultKind, GidKind, LinkFacts, LinkLayer, Memory, PciFacts,
    PhysState, PortState, RdmaDevice, Reading, Snapshot, Stamped,
};
use selvage::readiness::State;
use selvage::report::Report;
use selvage::sampler::sources::SOURCES;
use selvage::simulate::{Node, by_name, preset, presets, shape_names};
use selvage::units::{Bdf, BitsPerSec, Millis, PortKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// A machine as it is when all is well.
struct Machine {
    name: &'static str,
    profile: String,
    snapshot: Snapshot,
    /// What an agent remembers that saw it for an hour: within this boot, and over a restart.
    memories: [Memory; 2],
    well: State,
    rails: Vec<PortKey>,
}

static MACHINES: LazyLock<Vec<Machine>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let known = shape_names()
        .into_iter()
        .map(|name| (name, name.to_string()));
    let others = presets().into_iter().map(|name| (name, "auto".to_string()));
    let machines = known.chain(others).map(|(name, profile)| {
        let dir = in_memory();
        let spec = preset(name).or_else(|| by_name(name)).unwrap();
        Node::write(spec, dir.path()).unwrap();
        let mut config = Config::default();
        config.agent.host_root = dir.path().into();
        config.agent.state_dir = None;
        let report = runtime.block_on(selvage::agent::sample_once(&config));
        let mut snapshot = report.snapshot;
        snapshot.at = Millis::from_secs(3600);
        let mut watcher = evaluator(&profile, Memory::default());
        let first = watcher.evaluate(&snapshot, SamplingMode::Once);
        let mut later = snapshot.clone();
        later.at = Millis::from_secs(7200);
        watcher.evaluate(&later, SamplingMode::Once);
        let boot = watcher.history.memory();
        let restart = Memory {
            remembered: boot.remembered.clone(),
            ..Memory::default()
        };
        Machine {
            name,
            profile,
            snapshot: later,
            memories: [boot, restart],
            well: first.state,
            rails: rails(&first),
        }
    });
    machines.collect()
});

fn rails(report: &Report) -> Vec<PortKey> {
    let roles = report.roles.iter();
    let rails = roles.filter(|(_, role)| role.role == Role::Rail);
    rails.map(|(port, _)| port.clone()).collect()
}

/// For thousands of small files: in memory where it can be, else they take longer than the laws.
fn in_memory() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/dev/shm");
    dir.or_else(|_| tempfile::tempdir()).unwrap()
}

fn evaluator(profile: &str, memory: Memory) -> Evaluator {
    configured(profile, memory, None)
}

fn configured(profile: &str, memory: Memory, rails: Option<u32>) -> Evaluator {
    let policy = expecting(rails, LosslessExpectation::Auto);
    with_overrides(profile, memory, policy, RoleOverrides::default())
}

fn expecting(rails: Option<u32>, lossless: LosslessExpectation) -> Policy {
    let mut policy = Policy::default();
    (policy.expect.rails, policy.expect.lossless) = (rails, lossless);
    policy.device_missing.missed = 1;
    policy.device_missing.gone_after = Default::default();
    policy
}

fn with_overrides(
    profile: &str,
    memory: Memory,
    policy: Policy,
    overrides: RoleOverrides,
) -> Evaluator {
    let platform = PlatformSettings {
        profile: profile.to_string(),
        ..PlatformSettings::default()
    };
    let hysteresis = Hysteresis::default();
    Evaluator::new(
        "node".into(),
        policy,
        overrides,
        memory,
        hysteresis,
        platform,
    )
}

fn judge(machine: &Machine, snapshot: &Snapshot, memory: &Memory) -> Report {
    let mut snapshot = snapshot.clone();
    snapshot.at = snapshot.at.plus(std::time::Duration::from_secs(60));
    evaluator(&machine.profile, memory.clone()).evaluate(&snapshot, SamplingMode::Once)
}

/// One thing that gets worse on a node.
#[derive(Debug, Clone, Copy)]
enum Worse {
    LinkDown,
    LinkInit,
    RateHalved,
    LaneLost,
    NoLid,
    MtuLowered,
    AddressesLost,
    RoceV1Only,
    DeviceGone,
    NicNotDriven,
    NicDead,
    NoUverbs,
    PartitionLimited,
    NoPartition,
    PfcOff,
    NotAuthenticated,
    PcieHalved,
    PciePathHalved,
    GpuGone,
    GpuDead,
    GpuNotDriven,
    ModuleGone,
    GpuDriverGone,
    WrongMode,
    DriverMakesNone,
}

const WORSE: [Worse; 25] = [
    Worse::LinkDown,
    Worse::LinkInit,
    Worse::RateHalved,
    Worse::LaneLost,
    Worse::NoLid,
    Worse::MtuLowered,
    Worse::AddressesLost,
    Worse::RoceV1Only,
    Worse::DeviceGone,
    Worse::NicNotDriven,
    Worse::NicDead,
    Worse::NoUverbs,
    Worse::PartitionLimited,
    Worse::NoPartition,
    Worse::PfcOff,
    Worse::NotAuthenticated,
    Worse::PcieHalved,
    Worse::PciePathHalved,
    Worse::GpuGone,
    Worse::GpuDead,
    Worse::GpuNotDriven,
    Worse::ModuleGone,
    Worse::GpuDriverGone,
    Worse::WrongMode,
    Worse::DriverMakesNone,
];

fn worsen(snapshot: &mut Snapshot, worse: Worse, which: usize) {
    let devices = |snapshot: &Snapshot| -> Vec<RdmaDevice> {
        let known = snapshot.devices.as_ref();
        known.map_or(Vec::new(), |devices| devices.value.to_vec())
    };
    let Some(count) = Some(devices(snapshot).len()).filter(|count| *count > 0) else {
        return;
    };
    let device = devices(snapshot)[which % count].clone();
    let key = device.port_key(device.ports.first().map_or(1, |port| port.number));
    let infiniband = device
        .ports
        .iter()
        .any(|port| port.link_layer == LinkLayer::Infiniband);
    let efa = device.driver.starts_with("efa");
    let link = |snapshot: &mut Snapshot, change: &dyn Fn(&mut LinkFacts)| {
        if let Some(link) = snapshot.links.get_mut(&key).filter(|_| !efa) {
            change(&mut Arc::make_mut(link).value);
        }
    };
    let pci = |snapshot: &mut Snapshot, change: &dyn Fn(&mut PciFacts)| {
        if let Some(pci) = &mut snapshot.pci {
            change(&mut Arc::make_mut(pci).value);
        }
    };
    let carrier = |snapshot: &mut Snapshot, up: bool| {
        for name in device.ports.iter().filter_map(|port| port.netdev.as_ref()) {
            if let Some(netdev) = snapshot.netdevs.get_mut(name) {
                Arc::make_mut(netdev).value.carrier = Reading::Value(up);
            }
        }
    };
    match worse {
        Worse::LinkDown => {
            carrier(snapshot, false);
            link(snapshot, &|link| {
                link.state = Reading::Value(PortState::Down);
                link.phys_state = Reading::Value(PhysState::Polling);
            });
        }
        Worse::LinkInit if infiniband => link(snapshot, &|link| {
            if link.state.value().is_some_and(|state| state.is_up()) {
                link.state = Reading::Value(PortState::Init);
            }
        }),
        Worse::RateHalved => link(snapshot, &|link| {
            if let Reading::Value(rate) = &mut link.rate {
                rate.rate = BitsPerSec(rate.rate.0 / 2);
            }
        }),
        Worse::LaneLost => link(snapshot, &|link| {
            if let Reading::Value(rate) = &mut link.rate
                && let Some(lanes) = rate.lanes.filter(|lanes| *lanes > 1)
            {
                rate.rate = BitsPerSec(rate.rate.0 / u64::from(lanes) * u64::from(lanes / 2));
                rate.lanes = Some(lanes / 2);
            }
        }),
        Worse::NoLid if infiniband => link(snapshot, &|link| link.lid = Some(0)),
        Worse::MtuLowered => {
            for name in device.ports.iter().filter_map(|port| port.netdev.as_ref()) {
                if let Some(netdev) = snapshot.netdevs.get_mut(name) {
                    let facts = &mut Arc::make_mut(netdev).value;
                    facts.mtu = facts.mtu.map(|mtu| mtu.min(1500));
                }
            }
        }
        Worse::AddressesLost => {
            if let Some(table) = snapshot.gids.get_mut(&key) {
                let gids = &mut Arc::make_mut(table).value.gids;
                gids.retain(|gid| gid.gid.starts_with("fe80:"));
            }
        }
        Worse::RoceV1Only => {
            if let Some(table) = snapshot.gids.get_mut(&key) {
                let gids = Arc::make_mut(table).value.gids.iter_mut();
                gids.for_each(|gid| gid.kind = gid.kind.and(Some(GidKind::IbOrRoceV1)));
            }
        }
        Worse::WrongMode if !efa && !device.is_gvnic() => {
            let mut changed = devices(snapshot);
            for port in &mut changed[which % count].ports {
                port.link_layer = match infiniband {
                    true => LinkLayer::Ethernet,
                    false => LinkLayer::Infiniband,
                };
            }
            if let Some(known) = &mut snapshot.devices {
                known.value = Arc::new(changed);
            }
            carrier(snapshot, false);
            link(snapshot, &|link| {
                link.state = Reading::Value(PortState::Down);
                link.phys_state = Reading::Value(PhysState::Polling);
            });
        }
        Worse::DeviceGone | Worse::NicNotDriven | Worse::DriverMakesNone => {
            let mut left = devices(snapshot);
            left.retain(|other| other.key != device.key);
            if let Some(known) = &mut snapshot.devices {
                known.value = Arc::new(left);
            }
            snapshot.links.retain(|of, _| of.device != device.key);
            snapshot.gids.retain(|of, _| of.device != device.key);
            let Some(address) = device.pci.map(|address| address.to_string()) else {
                return;
            };
            pci(snapshot, &|pci| {
                let function = pci.functions.remove(&address);
                let distances = pci.distances.remove(&address).unwrap_or_default();
                if let Some(function) = function.filter(|_| !matches!(worse, Worse::DeviceGone)) {
                    let keeps = matches!(worse, Worse::DriverMakesNone);
                    let bare = BareNic {
                        id: function.id,
                        class: function.class,
                        driver: function.driver.filter(|_| keeps),
                        distances,
                        ..BareNic::default()
                    };
                    if let Reading::Value(capable) = &mut pci.rdma_capable {
                        capable.insert(address.clone(), bare.clone());
                    }
                    pci.bare.insert(address.clone(), bare);
                }
            });
        }
        Worse::NoUverbs => {
            let mut changed = devices(snapshot);
            changed[which % count].uverbs = Reading::Absent;
            if let Some(known) = &mut snapshot.devices {
                known.value = Arc::new(changed);
            }
        }
        Worse::PartitionLimited => link(snapshot, &|link| {
            link.pkey = link.pkey.map(|key| key & 0x7fff);
        }),
        Worse::NoPartition if infiniband => link(snapshot, &|link| link.pkey = Some(0)),
        Worse::PfcOff => {
            for name in device.ports.iter().filter_map(|port| port.netdev.as_ref()) {
                if let Some(dcb) = snapshot.dcb.get_mut(name)
                    && let Reading::Value(dcb) = &mut Arc::make_mut(dcb).value
                {
                    dcb.pfc_enabled = dcb.pfc_enabled.map(|_| 0);
                }
            }
        }
        // No virtual NIC has a supplicant.
        Worse::NotAuthenticated if !device.is_gvnic() => {
            // One only: nothing remembers here that the others were let in, so that most rails must show it.
            let is_out = |of: &Stamped<Reading<Dot1xFacts>>| {
                of.value
                    .value()
                    .is_some_and(|facts| facts.authorized == Some(false))
            };
            if snapshot.dot1x.values().any(|of| is_out(of)) {
                return;
            }
            let at = snapshot.at;
            let supplicant = |authorized| Dot1xFacts {
                authorized: Some(authorized),
                pae_state: Some(if authorized { "AUTHENTICATED" } else { "HELD" }.into()),
                key_mgmt: Some("IEEE 802.1X (no WPA)".into()),
                ..Dot1xFacts::default()
            };
            let names = |device: &RdmaDevice| -> Vec<String> {
                let names = device.ports.iter().filter_map(|port| port.netdev.clone());
                names.collect()
            };
            let told = |authorized| {
                let value = Reading::Value(supplicant(authorized));
                Arc::new(Stamped { at, value })
            };
            for name in devices(snapshot).iter().flat_map(names) {
                snapshot.dot1x.entry(name).or_insert_with(|| told(true));
            }
            for name in names(&device) {
                snapshot.dot1x.insert(name, told(false));
            }
        }
        Worse::NicDead | Worse::GpuDead => pci(snapshot, &|pci| {
            let gpu = pci.gpus.get(which % pci.gpus.len().max(1)).copied();
            let dead = if matches!(worse, Worse::NicDead) {
                device.pci
            } else {
                gpu
            };
            let function = dead.and_then(|at| pci.functions.get_mut(&at.to_string()));
            if let Some(function) = function {
                function.config_dead = Reading::Value(true);
            }
        }),
        Worse::PcieHalved | Worse::PciePathHalved => {
            let address = device.pci.map(|address| address.to_string());
            pci(snapshot, &|pci| {
                let above = |address: &String| pci.functions.get(address)?.parent.clone();
                let address = match worse {
                    Worse::PcieHalved => address.clone(),
                    _ => address.as_ref().and_then(above),
                };
                let function = address.and_then(|address| pci.functions.get_mut(&address));
                if let Some(Reading::Value(link)) = function.map(|function| &mut function.current) {
                    link.width = (link.width / 2).max(1);
                }
            });
        }
        Worse::GpuGone => pci(snapshot, &|pci| {
            if !pci.gpus.is_empty() {
                let gpu = pci.gpus.remove(which % pci.gpus.len());
                let gpu = gpu.to_string();
                pci.functions.remove(&gpu);
                let bare = pci.bare.values_mut().map(|nic| &mut nic.distances);
                for near in pci.distances.values_mut().chain(bare) {
                    near.remove(&gpu);
                }
            }
        }),
        Worse::GpuNotDriven => {
            let gpus = snapshot
                .pci
                .as_ref()
                .map_or(Vec::new(), |pci| pci.value.gpus.clone());
            let Some(gpu) = gpus.get(which % gpus.len().max(1)).map(ToString::to_string) else {
                return;
            };
            pci(snapshot, &|pci| {
                if let Some(function) = pci.functions.get_mut(&gpu) {
                    function.driver = None;
                }
            });
            if let Some(facts) = &mut snapshot.gpudirect {
                Arc::make_mut(facts).value.gpus.retain(|of| of.pci != gpu);
            }
        }
        Worse::ModuleGone => {
            if let Some(facts) = &mut snapshot.gpudirect
                && let Reading::Value(modules) = &mut Arc::make_mut(facts).value.modules
            {
                modules.remove(["nvidia_peermem", "nvidia_fs", "ib_uverbs"][which % 3]);
            }
        }
        Worse::GpuDriverGone => {
            pci(snapshot, &|pci| {
                for gpu in pci.gpus.clone() {
                    if let Some(function) = pci.functions.get_mut(&gpu.to_string()) {
                        function.driver = None;
                    }
                }
            });
            if let Some(facts) = &mut snapshot.gpudirect {
                let facts = &mut Arc::make_mut(facts).value;
                facts.driver = Reading::Absent;
                facts.gpus.clear();
                if let Reading::Value(modules) = &mut facts.modules {
                    modules.remove("nvidia");
                }
            }
        }
        Worse::LinkInit
        | Worse::NoLid
        | Worse::NoPartition
        | Worse::WrongMode
        | Worse::NotAuthenticated => {}
    }
}

/// How bad a verdict is. What is unknown says nothing; it replaces a fault only where its evidence
/// is gone, which no edit here does. A node that has a fabric never comes to have none.
fn badness(state: State) -> i8 {
    match state {
        State::NoFabric => -1,
        State::Ready => 0,
        State::Unknown | State::Degraded => 1,
        State::Unready => 2,
    }
}

/// One thing that can no longer be observed.
#[derive(Debug, Clone, Copy)]
enum Blind {
    State,
    Rate,
    Layer,
    Links,
    Netdev,
    Gids,
    GidKinds,
    GidsTorn,
    Model,
    Board,
    Driver,
    Uverbs,
    PcieLink,
    Pci,
    GpuDirect,
    Modules,
    Counters,
    Devices,
    Statistics,
    Partition,
    Dcb,
    DcbOfOne,
}

const BLIND: [Blind; 22] = [
    Blind::State,
    Blind::Rate,
    Blind::Layer,
    Blind::Links,
    Blind::Netdev,
    Blind::Gids,
    Blind::GidKinds,
    Blind::GidsTorn,
    Blind::Model,
    Blind::Board,
    Blind::Driver,
    Blind::Uverbs,
    Blind::PcieLink,
    Blind::Pci,
    Blind::GpuDirect,
    Blind::Modules,
    Blind::Counters,
    Blind::Devices,
    Blind::Statistics,
    Blind::Partition,
    Blind::Dcb,
    Blind::DcbOfOne,
];

/// What may stop being observed while its source answers.
const BLIND_ATTRIBUTES: [Blind; 13] = [
    Blind::State,
    Blind::Layer,
    Blind::Rate,
    Blind::GidKinds,
    Blind::GidsTorn,
    Blind::Model,
    Blind::Board,
    Blind::Driver,
    Blind::Uverbs,
    Blind::PcieLink,
    Blind::Modules,
    Blind::Partition,
    Blind::DcbOfOne,
];

/// Sources that may fail. What they gave last stays, and is soon too old.
fn sources() -> Vec<&'static str> {
    SOURCES.iter().map(|source| source.name).collect()
}

fn blind(snapshot: &mut Snapshot, blind: Blind, which: usize) {
    let count = snapshot
        .devices
        .as_ref()
        .map_or(0, |known| known.value.len());
    if count == 0 {
        return;
    }
    let at = which % count;
    let mut devices: Vec<RdmaDevice> = snapshot.devices.as_ref().unwrap().value.to_vec();
    let device = &mut devices[at];
    let key = device.port_key(device.ports.first().map_or(1, |port| port.number));
    let names: Vec<String> = device
        .ports
        .iter()
        .filter_map(|port| port.netdev.clone())
        .collect();
    let address = device
        .pci
        .map(|address| address.to_string())
        .unwrap_or_default();
    match blind {
        Blind::State | Blind::Rate => {
            if let Some(link) = snapshot.links.get_mut(&key) {
                let link = &mut Arc::make_mut(link).value;
                match blind {
                    Blind::State => link.state = Reading::NotObservable,
                    _ => link.rate = Reading::NotObservable,
                }
            }
        }
        Blind::Layer => {
            let ports = device.ports.iter_mut();
            ports.for_each(|port| port.link_layer = LinkLayer::Unspecified);
        }
        Blind::Links => snapshot.links.clear(),
        Blind::Netdev => snapshot.netdevs.retain(|name, _| !names.contains(name)),
        Blind::Gids => {
            snapshot.gids.remove(&key);
        }
        Blind::GidKinds => {
            if let Some(table) = snapshot.gids.get_mut(&key) {
                let gids = Arc::make_mut(table).value.gids.iter_mut();
                gids.for_each(|gid| gid.kind = None);
            }
        }
        Blind::GidsTorn => {
            if let Some(table) = snapshot.gids.get_mut(&key) {
                let table = &mut Arc::make_mut(table).value;
                (table.gids, table.complete) = (Vec::new(), false);
            }
        }
        Blind::Model => (device.pci_id, device.hca_type) = (None, None),
        Blind::Board => device.board_id = None,
        Blind::Driver => device.driver = "unknown".into(),
        Blind::Uverbs => device.uverbs = Reading::NotObservable,
        Blind::PcieLink => {
            if let Some(pci) = &mut snapshot.pci
                && let Some(function) = Arc::make_mut(pci).value.functions.get_mut(&address)
            {
                function.current = Reading::NotObservable;
                function.max = Reading::NotObservable;
            }
        }
        Blind::Pci => snapshot.pci = None,
        Blind::GpuDirect => snapshot.gpudirect = None,
        Blind::Modules => {
            if let Some(facts) = &mut snapshot.gpudirect {
                let facts = &mut Arc::make_mut(facts).value;
                facts.modules = Reading::NotObservable;
                facts.driver = Reading::NotObservable;
            }
        }
        Blind::Counters => snapshot.counters.clear(),
        Blind::Devices => {
            snapshot.devices = None;
            return;
        }
        Blind::Statistics => snapshot.ethtool.clear(),
        Blind::Partition => {
            if let Some(link) = snapshot.links.get_mut(&key) {
                Arc::make_mut(link).value.pkey = None;
            }
        }
        Blind::Dcb => snapshot.dcb.clear(),
        Blind::DcbOfOne => snapshot.dcb.retain(|name, _| !names.contains(name)),
    }
    snapshot.devices.as_mut().unwrap().value = Arc::new(devices);
}

/// Steps, each of one kind of edit.
fn edits(most: usize) -> impl Strategy<Value = Vec<Vec<(Worse, usize)>>> {
    let edit = (prop::sample::select(&WORSE[..]), 0..64usize);
    // Often the same on several parts: that is what a majority is made of.
    let run = (edit, 1..9usize).prop_map(|((worse, which), count)| {
        (0..count).map(|i| (worse, which + i)).collect::<Vec<_>>()
    });
    prop::collection::vec(run, 1..=most)
}

/// Enough for 10,000 random nodes, of which each case judges this many; `make check` tries fewer of the same.
fn cases(nodes: u32) -> ProptestConfig {
    let wanted = std::env::var("LAW_NODES").ok();
    let wanted: u32 = wanted.map_or(10_000, |number| number.parse().expect("a number of nodes"));
    let usual = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 200,
        max_global_rejects: 1_000_000,
        ..ProptestConfig::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        // With `PROPTEST_RNG_SEED`, if that is set.
        Some(_) => usual,
        None => ProptestConfig {
            cases: wanted / nodes,
            rng_seed: RngSeed::Fixed(14),
            ..usual
        },
    }
}

proptest! {
    #![proptest_config(cases(2))]

    /// A node that gets worse never gets a better verdict, held against itself as it was: step by step.
    #[test]
    fn worse_is_never_better(machine in 0..1000usize, memory in 0..2usize, edits in edits(4)) {
        let machine = &MACHINES[machine % MACHINES.len()];
        let memory = &machine.memories[memory];
        let mut snapshot = machine.snapshot.clone();
        let mut before = (machine.well, Vec::new());
        for step in edits {
            for (worse, which) in &step {
                worsen(&mut snapshot, *worse, *which);
            }
            let report = judge(machine, &snapshot, memory);
            let after = (report.state, report.reasons);
            prop_assert!(badness(after.0) >= badness(before.0), "{}: {before:?}, then after {step:?} {after:?}", machine.name);
            prop_assert!(
                after.0 != State::NoFabric || machine.well == State::NoFabric,
                "{}: what was lost is a fabric that there never was after {step:?}", machine.name
            );
            before = after;
        }
    }
}

/// docs/checks.md, "What ready rests on". The kernel log is no part of a directory tree.
#[test]
fn without_what_ready_rests_on_the_verdict_is_unknown() {
    for machine in MACHINES.iter().filter(|of| of.well == State::Ready) {
        for memory in machine.memories.iter().chain([&Memory::default()]) {
            let mut taken: Vec<(String, Snapshot)> = vec![
                ("devices".into(), without(machine, |s| s.devices = None)),
                ("links".into(), without(machine, |s| s.links.clear())),
            ];
            taken.extend(machine.rails.iter().map(|rail| {
                let blind = without(machine, |s| {
                    if let Some(link) = s.links.get_mut(rail) {
                        Arc::make_mut(link).value.state = Reading::NotObservable;
                    }
                });
                (rail.to_string(), blind)
            }));
            taken.push(("bus".into(), without(machine, |s| s.pci = None)));
            for (what, snapshot) in taken {
                let after = judge(machine, &snapshot, memory);
                let name = machine.name;
                assert_eq!(
                    after.state,
                    State::Unknown,
                    "{name} without {what}: {:?}",
                    after.reasons
                );
            }
        }
    }
}

/// What the laws found at other seeds.
#[test]
fn found_at_random() {
    let named = |name: &str| MACHINES.iter().find(|of| of.name == name).unwrap();
    let machine = named("rail_down");
    let gone = without(machine, |snapshot| worsen(snapshot, Worse::DeviceGone, 42));
    let after = judge(machine, &gone, &machine.memories[1]);
    assert_eq!(after.state, State::Unready, "{:?}", after.reasons);

    let machine = named("gb200");
    let mut slower = machine.snapshot.clone();
    (3..=4).for_each(|rail| worsen(&mut slower, Worse::NoLid, rail));
    for _ in 0..2 {
        (7..14).for_each(|rail| worsen(&mut slower, Worse::RateHalved, rail));
    }
    let after = judge(machine, &slower, &machine.memories[1]);
    assert_eq!(after.state, State::Unready, "{:?}", after.reasons);

    let machine = named("BM.GPU.H200.8");
    let hidden = without(machine, |snapshot| {
        for (what, which) in [(Blind::Pci, 0), (Blind::State, 14), (Blind::Model, 40)] {
            blind(snapshot, what, which);
        }
    });
    let after = judge(machine, &hidden, &machine.memories[1]);
    assert_eq!(after.state, State::Unknown, "{:?}", after.reasons);

    let machine = named("a3-highgpu-8g");
    let hidden = without(machine, |snapshot| {
        for (what, which) in [(Blind::Model, 1), (Blind::Driver, 16)] {
            blind(snapshot, what, which);
        }
    });
    let after = judge(machine, &hidden, &machine.memories[0]);
    assert_ne!(after.state, State::Unready, "{:?}", after.reasons);

    let machine = named("BM.GPU.GB200-v3.4");
    let mut snapshot = machine.snapshot.clone();
    worsen(&mut snapshot, Worse::NotAuthenticated, 33);
    let memory = machine.memories[0].clone();
    let policy = expecting(None, LosslessExpectation::Auto);
    let mut watcher = with_overrides(&machine.profile, memory, policy, RoleOverrides::default());
    let mut state = |snapshot: &mut Snapshot| {
        let look = SamplingMode::Watching { full_window: true };
        let looks = (0..5).map(|_| {
            pass(snapshot, 120);
            watcher.evaluate(snapshot, look).state
        });
        looks.last()
    };
    assert_eq!(state(&mut snapshot), Some(State::Unready));
    blind(&mut snapshot, Blind::Model, 36);
    assert_eq!(state(&mut snapshot), Some(State::Unready));
}

/// NICs and GPUs change their PCI addresses among themselves, each kind by whole slots.
fn move_slots(snapshot: &mut Snapshot, turn: usize) {
    let Some(pci) = &mut snapshot.pci else {
        return;
    };
    let pci = &mut Arc::make_mut(pci).value;
    let devices = snapshot.devices.iter().flat_map(|known| known.value.iter());
    let of_devices = devices.filter_map(|device| Some(device.pci?.to_string()));
    let bare = pci.bare.keys().chain(
        pci.rdma_capable
            .value()
            .into_iter()
            .flatten()
            .map(|(at, _)| at),
    );
    let sriov = pci.sriov.iter();
    let sriov = sriov.flat_map(|(at, of)| of.functions.keys().chain([at]));
    let others = bare.chain(sriov).chain(pci.distances.keys()).cloned();
    let gpus: BTreeSet<String> = pci.gpus.iter().map(Bdf::slot).collect();
    let slot = |at: String| at.rsplit_once('.').map(|(slot, _)| slot.to_string());
    let nics: BTreeSet<String> = (of_devices.chain(others).filter_map(slot))
        .filter(|slot| !gpus.contains(slot))
        .collect();
    let mut to: BTreeMap<String, String> = BTreeMap::new();
    for kind in [gpus, nics] {
        let turned = kind.iter().cycle().skip(turn).cloned();
        to.extend(kind.iter().cloned().zip(turned));
    }
    let moved = |at: &String| -> String {
        let parts = at.rsplit_once('.');
        let new = parts.and_then(|(slot, function)| Some(format!("{}.{function}", to.get(slot)?)));
        new.unwrap_or_else(|| at.clone())
    };
    let moved_bdf = |at: Bdf| moved(&at.to_string()).parse::<Bdf>().unwrap();
    fn keys<T>(of: &mut BTreeMap<String, T>, moved: impl Fn(&String) -> String) {
        *of = std::mem::take(of)
            .into_iter()
            .map(|(at, value)| (moved(&at), value))
            .collect();
    }
    let nearness = |nic: &mut BareNic| keys(&mut nic.distances, moved);
    keys(&mut pci.functions, moved);
    for function in pci.functions.values_mut() {
        function.parent = function.parent.as_ref().map(moved);
    }
    pci.gpus = pci.gpus.iter().copied().map(moved_bdf).collect();
    pci.gpus.sort();
    keys(&mut pci.distances, moved);
    pci.distances
        .values_mut()
        .for_each(|near| keys(near, moved));
    keys(&mut pci.bare, moved);
    pci.bare.values_mut().for_each(nearness);
    if let Reading::Value(capable) = &mut pci.rdma_capable {
        keys(capable, moved);
        capable.values_mut().for_each(nearness);
    }
    keys(&mut pci.sriov, moved);
    pci.sriov
        .values_mut()
        .for_each(|of| keys(&mut of.functions, moved));
    if let Some(known) = &mut snapshot.devices {
        let mut devices = known.value.to_vec();
        for device in &mut devices {
            device.pci = device.pci.map(moved_bdf);
            device.key.0 = moved(&device.key.0);
        }
        known.value = Arc::new(devices);
    }
    fn ports<T>(of: &mut BTreeMap<PortKey, T>, moved: impl Fn(&String) -> String) {
        let all = std::mem::take(of).into_iter();
        *of = all
            .map(|(mut key, value)| {
                key.device.0 = moved(&key.device.0);
                (key, value)
            })
            .collect();
    }
    ports(&mut snapshot.links, moved);
    ports(&mut snapshot.counters, moved);
    ports(&mut snapshot.gids, moved);
    for netdev in snapshot.netdevs.values_mut() {
        let facts = &mut Arc::make_mut(netdev).value;
        facts.pci = facts.pci.map(moved_bdf);
    }
    if let Some(facts) = &mut snapshot.gpudirect {
        let facts = &mut Arc::make_mut(facts).value;
        facts
            .gpus
            .iter_mut()
            .for_each(|gpu| gpu.pci = moved(&gpu.pci));
        keys(&mut facts.efa_p2p, moved);
    }
}

fn without(machine: &Machine, take: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = machine.snapshot.clone();
    take(&mut snapshot);
    snapshot
}

proptest! {
    #![proptest_config(cases(1))]

    /// What cannot be observed is no fault, whatever is remembered.
    #[test]
    fn blind_is_not_sick(
        machine in 0..1000usize,
        memory in 0..3usize,
        blinds in prop::collection::vec((prop::sample::select(&BLIND[..]), 0..64usize), 1..6),
    ) {
        let machine = &MACHINES[machine % MACHINES.len()];
        let nothing = Memory::default();
        let memory = machine.memories.get(memory).unwrap_or(&nothing);
        let mut snapshot = machine.snapshot.clone();
        for (what, which) in &blinds {
            blind(&mut snapshot, *what, *which);
        }
        let after = judge(machine, &snapshot, memory);
        prop_assert!(
            badness(after.state) <= badness(machine.well) || after.state == State::Unknown,
            "{}: {:?}, then {:?} {:?}", machine.name, machine.well, after.state, after.reasons
        );
        prop_assert!(
            after.state != State::NoFabric || machine.well == State::NoFabric,
            "{}: what cannot be seen is not absent", machine.name
        );
    }

}

proptest! {
    #![proptest_config(cases(12))]

    /// A fault that was seen is not cleared by its evidence becoming unreadable.
    #[test]
    fn a_seen_fault_outlives_its_evidence(
        machine in 0..1000usize,
        edits in edits(3),
        blinds in prop::collection::vec((prop::sample::select(&BLIND_ATTRIBUTES[..]), 0..64usize), 0..6),
        failing in prop::collection::vec(prop::sample::select(sources()), 0..3),
        lossless in prop::sample::select(&[LosslessExpectation::Auto, LosslessExpectation::Lossless][..]),
    ) {
        let machine = &MACHINES[machine % MACHINES.len()];
        let mut snapshot = machine.snapshot.clone();
        for (worse, which) in edits.concat() {
            worsen(&mut snapshot, worse, which);
        }
        let policy = expecting(None, lossless);
        let overrides = RoleOverrides::default();
        let memory = machine.memories[0].clone();
        let mut watcher = with_overrides(&machine.profile, memory, policy, overrides);
        let mut watch = |snapshot: &mut Snapshot| {
            let mut report = None;
            for _ in 0..5 {
                snapshot.at = snapshot.at.plus(std::time::Duration::from_secs(120));
                report = Some(watcher.evaluate(snapshot, SamplingMode::Watching { full_window: true }));
            }
            report.unwrap()
        };
        let before = watch(&mut snapshot);
        for (what, which) in &blinds {
            blind(&mut snapshot, *what, *which);
        }
        for health in snapshot.sources.values_mut().filter(|health| failing.contains(&&*health.source)) {
            health.fault = Some(Fault { kind: FaultKind::Other, detail: "refused".into() });
        }
        // Some readers give their fault in place of what they gave before.
        if failing.contains(&"dot1x") {
            snapshot.dot1x.clear();
        }
        if failing.contains(&"dcb") {
            for dcb in snapshot.dcb.values_mut() {
                Arc::make_mut(dcb).value = Reading::failed(FaultKind::Other, "refused");
            }
        }
        let after = watch(&mut snapshot);
        prop_assert!(
            badness(after.state) >= badness(before.state),
            "{}: {:?} {:?}, then {:?} {:?}", machine.name, before.state, before.reasons, after.state, after.reasons
        );
    }
}

/// The same read again, so much later.
fn pass(snapshot: &mut Snapshot, seconds: u64) {
    let now = snapshot.at.plus(std::time::Duration::from_secs(seconds));
    snapshot.at = now;
    snapshot.devices.iter_mut().for_each(|all| all.at = now);
    let links = snapshot.links.values_mut();
    links.for_each(|link| Arc::make_mut(link).at = now);
    let pci = snapshot.pci.iter_mut();
    pci.for_each(|pci| Arc::make_mut(pci).at = now);
}

/// What a part may do on top of its faults.
const LEAVES: [Worse; 5] = [
    Worse::LinkDown,
    Worse::LinkInit,
    Worse::DeviceGone,
    Worse::NicNotDriven,
    Worse::GpuGone,
];

proptest! {
    #![proptest_config(cases(40))]

    /// A fault that was seen outlives the part's link and the part, at every moment, and stands when both are
    /// back with it.
    #[test]
    fn a_faulty_part_that_leaves_or_blinks_has_not_recovered(
        machine in 0..1000usize,
        edits in edits(2),
        leaves in prop::sample::select(&LEAVES[..]),
    ) {
        let machine = &MACHINES[machine % MACHINES.len()];
        let mut snapshot = machine.snapshot.clone();
        let faults = edits.concat();
        for (worse, which) in &faults {
            worsen(&mut snapshot, *worse, *which);
        }
        let memory = machine.memories[0].clone();
        let mut watcher = with_overrides(&machine.profile, memory, Policy::default(), RoleOverrides::default());
        let mut watch = |snapshot: &mut Snapshot, seconds: u64| {
            pass(snapshot, seconds);
            watcher.evaluate(snapshot, SamplingMode::Watching { full_window: true })
        };
        // Longer than anything is waited for.
        let before = (0..16).map(|_| watch(&mut snapshot, 120)).last().unwrap();
        let faulty = snapshot.clone();
        // Another part that leaves may take the evidence along, where peer rails were all that there is.
        worsen(&mut snapshot, leaves, faults[0].1);
        for moment in 0..24 {
            if moment == 12 {
                snapshot = Snapshot { at: snapshot.at, ..faulty.clone() };
            }
            let after = watch(&mut snapshot, 2);
            // A part that was lost and is back begins again: its driver and link have their time.
            let begins = moment >= 12 && !matches!(leaves, Worse::LinkDown | Worse::LinkInit);
            let least = badness(before.state).min(if begins { 1 } else { 2 });
            prop_assert!(
                badness(after.state) >= least,
                "{}: {:?} {:?}, then after {leaves:?} at {moment} {:?} {:?}",
                machine.name, before.state, before.reasons, after.state, after.reasons
            );
        }
    }
}

proptest! {
    #![proptest_config(cases(2))]

    /// Other names, PCI addresses and another order change names alone.
    #[test]
    fn names_do_not_matter(machine in 0..1000usize, edits in edits(3), turn in 0..64usize) {
        let machine = &MACHINES[machine % MACHINES.len()];
        let mut snapshot = machine.snapshot.clone();
        for (worse, which) in edits.concat() {
            worsen(&mut snapshot, worse, which);
        }
        let before = judge(machine, &snapshot, &Memory::default());
        if let Some(known) = &mut snapshot.devices {
            let mut devices = known.value.to_vec();
            let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
            let count = devices.len().max(1);
            for (i, device) in devices.iter_mut().enumerate() {
                device.name = format!("rail_{}", names[(i + turn) % count]);
            }
            devices.rotate_left(turn % count);
            known.value = Arc::new(devices);
        }
        // Where no route tells, the first gVNIC by its address is the machine's own interface.
        let gvnics = snapshot.devices.as_ref().is_some_and(|all| all.value.iter().any(|one| one.is_gvnic()));
        if !gvnics {
            move_slots(&mut snapshot, turn);
        }
        let after = judge(machine, &snapshot, &Memory::default());
        prop_assert_eq!((after.state, &after.reasons), (before.state, &before.reasons), "{}", machine.name);
    }

}

proptest! {
    #![proptest_config(cases(3))]

    /// Excluding a port changes nothing about the others of a machine that is known, but that they have one
    /// less to compare with. The last one of its make makes place for another, and where most NICs or
    /// GPUs are gone, each that is left tells which the fabric is.
    #[test]
    fn an_excluded_port_is_alone(machine in 0..1000usize, memory in 0..2usize, edits in edits(3), which in 0..64usize) {
        let machine = &MACHINES[machine % MACHINES.len()];
        let memory = &machine.memories[memory];
        let mut snapshot = machine.snapshot.clone();
        for (worse, which) in edits.concat() {
            worsen(&mut snapshot, worse, which);
        }
        snapshot.at = snapshot.at.plus(std::time::Duration::from_secs(60));
        let devices = snapshot.devices.as_ref().map(|known| known.value.to_vec()).unwrap_or_default();
        prop_assume!(!devices.is_empty());
        let device = &devices[which % devices.len()];
        let make = |device: &RdmaDevice| (device.driver.clone(), device.pci_id.clone(), device.board_id.clone());
        let alike = devices.iter().filter(|other| make(other) == make(device)).count();
        let parts = |of: &Snapshot| {
            let gpus = of.pci.as_ref().map_or(0, |pci| pci.value.gpus.len());
            (of.devices.as_ref().map_or(0, |known| known.value.len()), gpus)
        };
        let (known, left) = (parts(&machine.snapshot), parts(&snapshot));
        prop_assume!(alike > 1 && left.0 * 2 > known.0 && left.1 * 2 >= known.1);
        let overrides = RoleOverrides { exclude: vec![device.name.as_str().into()], ..RoleOverrides::default() };
        let judged = |overrides| with_overrides(&machine.profile, memory.clone(), expecting(None, LosslessExpectation::Auto), overrides).evaluate(&snapshot, SamplingMode::Once);
        let (before, after) = (judged(RoleOverrides::default()), judged(overrides));
        let is_own = |key: &PortKey| key.device == device.key;
        let roles = |report: &Report| -> Vec<(PortKey, Role)> {
            let others = report.roles.iter().filter(|(key, _)| !is_own(key));
            others.map(|(key, role)| (key.clone(), role.role)).collect()
        };
        prop_assert_eq!(roles(&before), roles(&after), "{} without {}", machine.name, device.name);
        let by_peers: BTreeSet<&String> = [&before, &after].into_iter().flat_map(|report| &report.findings)
            .filter(|of| ["LinkUnproven", "PortNotAuthenticated"].contains(&of.reason) || of.expected.as_ref().is_some_and(|expected| expected.because == Basis::Peers))
            .map(|of| &of.subject).collect();
        let about = |report: &Report| -> BTreeSet<(String, String, Status, Weight)> {
            let ports = devices.iter().filter(|other| other.key != device.key);
            let subjects: Vec<String> = ports.flat_map(|other| other.ports.iter().map(|port| format!("{}/{}", other.name, port.number))).collect();
            let others = report.findings.iter().filter(|of| subjects.contains(&of.subject) && !by_peers.contains(&of.subject));
            others.map(|of| (of.subject.clone(), of.reason.to_string(), of.status, of.weight)).collect()
        };
        prop_assert_eq!(about(&before), about(&after), "{} without {}", machine.name, device.name);
    }
}

proptest! {
    #![proptest_config(cases(4))]

    /// `expect.rails` makes the others spares, and excuses nothing else.
    #[test]
    fn configured_rails_make_the_others_spares(machine in 0..1000usize, downs in 1..16usize, from in 0..16usize) {
        let well: Vec<&Machine> = MACHINES.iter().filter(|machine| machine.well == State::Ready).collect();
        let machine = well[machine % well.len()];
        let mut snapshot = machine.snapshot.clone();
        for i in 0..downs % machine.rails.len().max(1) {
            worsen(&mut snapshot, Worse::LinkDown, from + i);
        }
        let is_up = |port: &PortKey| {
            let link = snapshot.links.get(port);
            link.is_some_and(|link| link.value.state.value().is_some_and(|state| state.is_up()))
        };
        let up = machine.rails.iter().filter(|port| is_up(port)).count() as u32;
        prop_assume!(up > 0);
        for memory in &machine.memories {
            let mut later = snapshot.clone();
            later.at = later.at.plus(std::time::Duration::from_secs(60));
            let mut spare = configured(&machine.profile, memory.clone(), Some(up));
            let report = spare.evaluate(&later, SamplingMode::Once);
            prop_assert_eq!(report.state, State::Ready, "{} {:?}", machine.name, report.reasons);
            let mut short = configured(&machine.profile, memory.clone(), Some(up + 1));
            let report = short.evaluate(&later, SamplingMode::Once);
            prop_assert_eq!(report.state, State::Unready, "{} {:?}", machine.name, report.reasons);
        }
    }
}

#[test]
fn machines_that_are_well_are_remembered_as_they_are() {
    for machine in MACHINES.iter() {
        for memory in &machine.memories {
            let report = judge(machine, &machine.snapshot, memory);
            assert_eq!(
                report.state, machine.well,
                "{}: {:?}",
                machine.name, report.reasons
            );
        }
    }
}

/// A rail is one without its GPU, also at the first look.
#[test]
fn a_rail_whose_gpu_is_gone_stays_one() {
    for machine in MACHINES.iter() {
        let gpus = machine.snapshot.pci.as_ref();
        for gpu in 0..gpus.map_or(0, |pci| pci.value.gpus.len()) {
            let mut snapshot = machine.snapshot.clone();
            worsen(&mut snapshot, Worse::GpuGone, gpu);
            let report = judge(machine, &snapshot, &Memory::default());
            assert_eq!(
                rails(&report),
                machine.rails,
                "{} without GPU {gpu}",
                machine.name
            );
        }
    }
}

/// What the kernel log may have said of a NIC or a GPU.
const SAID: [&str; 10] = [
    "NVRM: Xid (PCI:GPU): 79, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:GPU): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    "NVRM: Xid (PCI:GPU): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)",
    "NVRM: GPU GPU.0: RmInitAdapter failed! (0x24:0x72:1568)",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
    "mlx5_core NIC: poll_health:795:(pid 0): Fatal error 1 detected",
    "mlx5_core NIC: mlx5_health_try_recover:335:(pid 17): health recovery succeeded",
    "mlx5_core NIC: mlx5_pci_err_detected Device state = 1 pci_status: 0. Exit, result = 3, need reset",
    "mlx5_core NIC: Port module event: module 0, Cable unplugged",
    "mlx5_core NIC: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer",
];

/// How long a simulated machine was up, in seconds.
const UP: u64 = 86_400;

/// A simulated machine with these lines in its kernel log, and the moments of the records.
fn with_log(
    name: &str,
    dir: &std::path::Path,
    said: &[(&str, usize, u64)],
) -> Vec<(Millis, String)> {
    let spec = preset(name).or_else(|| by_name(name)).unwrap();
    Node::write(spec, dir).unwrap();
    let machine = MACHINES
        .iter()
        .find(|machine| machine.name == name)
        .unwrap();
    let devices = machine
        .snapshot
        .devices
        .as_ref()
        .map(|known| known.value.to_vec());
    let nics: Vec<String> = (devices.iter().flatten())
        .filter_map(|device| Some(device.pci?.to_string()))
        .collect();
    let pci = machine.snapshot.pci.as_ref();
    let gpus: Vec<String> = pci.map_or(Vec::new(), |pci| {
        let gpus = pci.value.gpus.iter();
        gpus.map(|gpu| gpu.to_string().trim_end_matches(".0").to_string())
            .collect()
    });
    let pick = |of: &[String], which: usize| -> String {
        of.get(which % of.len().max(1)).cloned().unwrap_or_default()
    };
    let mut records: Vec<(Millis, String)> = (said.iter())
        .map(|(text, which, age)| {
            let text = text.replace("NIC", &pick(&nics, *which));
            let text = text.replace("PCI:GPU", &format!("PCI:{}", pick(&gpus, *which)));
            let text = text.replace("GPU GPU.0", &format!("GPU {}.0", pick(&gpus, *which)));
            (Millis::from_secs(UP - age), text)
        })
        .collect();
    records.sort();
    let log = dir.join("dev/kmsg");
    let mut text = std::fs::read_to_string(&log).unwrap();
    for (seq, (at, said)) in records.iter().enumerate() {
        text += &format!("3,{},{},-;{said}\n", 1000 + seq, at.0 * 1000);
    }
    std::fs::write(log, text).unwrap();
    records
}

fn sampled(root: &std::path::Path) -> Report {
    let mut config = Config::default();
    config.agent.host_root = root.into();
    config.agent.state_dir = None;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .unwrap()
        .block_on(selvage::agent::sample_once(&config))
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..cases(200) })]

    /// A capture gives the verdict that the node had when it was taken, wherever and whenever it is
    /// judged: what its kernel log said is as old as it was there.
    #[test]
    fn a_capture_gives_the_verdict_that_the_node_had(
        machine in 0..1000usize,
        said in prop::collection::vec((prop::sample::select(&SAID[..]), 0..3usize, 0..UP / 2), 0..6),
        near in prop::collection::vec((prop::sample::select(&SAID[..]), 0..3usize, 5..900u64), 0..4),
    ) {
        let machine = &MACHINES[machine % MACHINES.len()];
        let (node, copy) = (in_memory(), in_memory());
        let records = with_log(machine.name, node.path(), &[said, near].concat());
        let report = sampled(node.path());

        // As an agent saw it that was there.
        let mut there = evaluator("auto", Memory::default());
        for (at, text) in &records {
            let decoded = selvage::source::kernel_log::decode(text, None)
                .or_else(|| selvage::source::kernel_log::silent(text, None));
            let old = UP - at.0 / 1000 > 600;
            decoded.iter().for_each(|event| there.history.push_event(*at, old, event));
        }
        let live = there.evaluate(&report.snapshot, SamplingMode::Once);
        prop_assert_eq!((live.state, &live.reasons), (report.state, &report.reasons), "{} {:?}", machine.name, records);

        let host = selvage::host::Host::new(node.path());
        let capture = selvage::cli::capture::capture(
            &host,
            copy.path(),
            Config::default(),
            Vec::new(),
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(capture).unwrap();
        let captured = sampled(copy.path());
        prop_assert_eq!(
            (captured.state, &captured.reasons), (report.state, &report.reasons),
            "{} {:?}", machine.name, records
        );
    }
}
