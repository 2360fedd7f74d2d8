//! A node to judge in tests: eight active 400 Gb/s InfiniBand rails and eight GPUs, all well, to be
//! bent as a test needs.

use super::profile::Profile;
use super::{Candidate, Check, Context, Policy};
use crate::check::roles::{Role, RoleFacts};
use crate::observe::{
    DcbFacts, EthtoolFacts, Fault, FaultKind, GpuDirectFacts, History, LinkFacts, LinkLayer,
    LinkRate, NetdevFacts, NodeResources, NvidiaDriver, NvidiaGpu, PciFacts, PciFunction, PcieLink,
    PhysState, PortCounters, PortState, RdmaDevice, RdmaPort, Reading, Snapshot, SourceHealth,
    Stamped,
};
use crate::units::{BitsPerSec, DeviceKey, Millis, PortKey};
use std::{collections::BTreeMap, sync::Arc};

/// A node with its past.
#[derive(Debug, Clone)]
pub struct Node {
    pub snapshot: Snapshot,
    pub history: History,
    pub roles: BTreeMap<PortKey, RoleFacts>,
    pub policy: Policy,
    pub devices: Vec<RdmaDevice>,
    pub now: Millis,
    pub profile: Profile,
    pub offer: Option<NodeResources>,
}

/// PCI address of rail `i`.
pub fn nic(i: usize) -> String {
    format!("0000:{:02x}:00.0", 0x18 + i)
}

/// PCI address of GPU `i`.
pub fn gpu(i: usize) -> String {
    format!("0000:{:02x}:00.0", 0x80 + i)
}

/// Key of port 1 of device `i`.
pub fn key(i: usize) -> PortKey {
    PortKey {
        device: DeviceKey(nic(i)),
        port: 1,
    }
}

/// An mlx5 device with one port.
pub fn device(i: usize, link_layer: LinkLayer) -> RdmaDevice {
    RdmaDevice {
        name: format!("mlx5_{i}"),
        index: Some(i as u32),
        driver: "mlx5_core".into(),
        pci_id: Some("15b3:1021".into()),
        node_type: Some(1),
        firmware: Some("28.41.1000".into()),
        board_id: Some("MT_0000000838".into()),
        hca_type: Some("MT4129".into()),
        numa_node: Some(0),
        uverbs: Reading::Value(format!("uverbs{i}")),
        ports: vec![RdmaPort {
            number: 1,
            link_layer,
            netdev: Some(format!("eth{i}")),
        }],
        ..RdmaDevice::at(&nic(i))
    }
}

/// A GPU as NVIDIA's driver lists it.
pub fn listed(pci: impl Into<String>) -> NvidiaGpu {
    NvidiaGpu {
        pci: pci.into(),
        model: None,
        uuid: None,
    }
}

/// An active link.
pub fn link(gbps: u64, lanes: u32) -> LinkFacts {
    LinkFacts {
        state: Reading::Value(PortState::Active),
        phys_state: Reading::Value(PhysState::LinkUp),
        rate: Reading::Value(LinkRate {
            rate: BitsPerSec::from_gbps(gbps),
            lanes: Some(lanes),
        }),
        lid: Some(1),
        sm_lid: Some(2),
        pkey: Some(0xffff),
    }
}

impl Node {
    /// The InfiniBand node, sampled once at second 100.
    pub fn infiniband() -> Node {
        Node::of(LinkLayer::Infiniband, 8, 8)
    }

    /// The RoCE node.
    pub fn roce() -> Node {
        Node::of(LinkLayer::Ethernet, 8, 8)
    }

    /// A node with no RDMA and no GPU at all.
    pub fn empty() -> Node {
        Node::of(LinkLayer::Infiniband, 0, 0)
    }

    fn of(link_layer: LinkLayer, rails: usize, gpus: usize) -> Node {
        let pcie = Reading::Value(PcieLink {
            megatransfers: 32_000,
            width: 16,
        });
        let mut pci = PciFacts::default();
        let function = PciFunction {
            current: pcie.clone(),
            max: pcie,
            config_dead: Reading::Value(false),
            ..PciFunction::default()
        };
        for i in 0..rails {
            pci.functions.insert(nic(i), function.clone());
        }
        for i in 0..gpus {
            pci.functions.insert(gpu(i), function.clone());
            pci.gpus.push(gpu(i).parse().unwrap());
        }
        let mut gpudirect = GpuDirectFacts {
            modules: Reading::Value(BTreeMap::new()),
            kernel_release: Some("6.8.0-45-generic".into()),
            arch: Some("x86_64".into()),
            ..GpuDirectFacts::default()
        };
        if gpus > 0 {
            gpudirect.driver = Reading::Value(NvidiaDriver {
                version: "550.54.15".into(),
                open: Some(true),
            });
        }
        let mut node = Node {
            snapshot: Snapshot {
                boot_id: Some("boot-1".into()),
                live: true,
                ..Snapshot::default()
            },
            history: History::default(),
            roles: BTreeMap::new(),
            policy: Policy::default(),
            devices: (0..rails).map(|i| device(i, link_layer)).collect(),
            now: Millis::from_secs(100),
            profile: Profile::default(),
            offer: None,
        };
        for i in 0..rails {
            node.set_role(i, Role::Rail);
            node.set_link(i, link(400, 4));
            node.set_netdev(
                i,
                NetdevFacts {
                    carrier: Reading::Value(true),
                    operstate: Some("up".into()),
                    admin_up: Some(true),
                    speed_mbps: Reading::Value(400_000),
                    carrier_changes: Reading::Value(1),
                    ..NetdevFacts::default()
                },
            );
        }
        node.set_pci(pci);
        node.set_gpudirect(gpudirect);
        node.tick(0);
        node
    }

    pub fn set_role(&mut self, i: usize, role: Role) {
        let why = "test".to_string();
        self.roles.insert(key(i), RoleFacts { role, why });
    }

    pub fn set_link(&mut self, i: usize, value: LinkFacts) {
        let at = self.now;
        self.snapshot
            .links
            .insert(key(i), Arc::new(Stamped { at, value }));
    }

    /// Puts the port into a state, without a rate.
    pub fn set_state(&mut self, i: usize, state: PortState, phys: PhysState) {
        let mut value = link(400, 4);
        value.state = Reading::Value(state);
        value.phys_state = Reading::Value(phys);
        self.set_link(i, value);
    }

    /// Lets the memory see the node as it is now.
    pub fn learn(&mut self) {
        let seen = super::expected::seen(&self.context(), super::REMEMBERED);
        self.history.remembered.learn(None, seen, self.now);
    }

    pub fn set_dcb(&mut self, i: usize, dcb: DcbFacts) {
        let (at, value) = (self.now, Reading::Value(dcb));
        let stamped = Arc::new(Stamped { at, value });
        self.snapshot.dcb.insert(format!("eth{i}"), stamped);
    }

    pub fn set_netdev(&mut self, i: usize, value: NetdevFacts) {
        self.set_netdev_named(&format!("eth{i}"), value);
    }

    pub fn set_netdev_named(&mut self, name: &str, value: NetdevFacts) {
        let at = self.now;
        self.snapshot
            .netdevs
            .insert(name.into(), Arc::new(Stamped { at, value }));
    }

    pub fn set_pci(&mut self, value: PciFacts) {
        self.snapshot.pci = Some(Arc::new(Stamped {
            at: self.now,
            value,
        }));
    }

    /// Changes one PCI function.
    pub fn bend_pci(&mut self, address: &str, bend: impl FnOnce(&mut PciFunction)) {
        let mut pci = self.snapshot.pci.as_ref().unwrap().value.clone();
        bend(pci.functions.entry(address.to_string()).or_default());
        self.set_pci(pci);
    }

    pub fn set_gpudirect(&mut self, value: GpuDirectFacts) {
        self.snapshot.gpudirect = Some(Arc::new(Stamped {
            at: self.now,
            value,
        }));
    }

    pub fn bend_gpudirect(&mut self, bend: impl FnOnce(&mut GpuDirectFacts)) {
        let mut facts = self.snapshot.gpudirect.as_ref().unwrap().value.clone();
        bend(&mut facts);
        self.set_gpudirect(facts);
    }

    /// Sets counters of port `i`: PMA by plain name, others by `hw.` and `dev.`.
    pub fn set_counters(&mut self, i: usize, values: &[(&str, u64)]) {
        let mut value = self
            .snapshot
            .counters
            .get(&key(i))
            .map_or_else(PortCounters::default, |old| old.value.clone());
        for (name, count) in values {
            let reading = Reading::Value(*count);
            match name.split_once('.') {
                Some(("hw", name)) => value.hw.insert(name.to_string(), reading),
                Some(("dev", name)) => value.device_hw.insert(name.to_string(), reading),
                _ => value.pma.insert(name.to_string(), reading),
            };
        }
        let at = self.now;
        self.snapshot
            .counters
            .insert(key(i), Arc::new(Stamped { at, value }));
    }

    /// Sets ethtool statistics of port `i`: priority 3, and others by name.
    pub fn set_ethtool(&mut self, i: usize, counts: &[(&str, u64)]) {
        let facts = EthtoolFacts {
            driver: "mlx5_core".into(),
            counts: counts
                .iter()
                .map(|(name, value)| ((*name).to_string(), *value))
                .collect(),
        };
        let at = self.now;
        self.snapshot.ethtool.insert(
            format!("eth{i}"),
            Arc::new(Stamped {
                at,
                value: Reading::Value(facts),
            }),
        );
    }

    pub fn set_stalled(&mut self, source: &str, subject: &str, since: Millis) {
        self.set_health(source, subject, |health| health.stalled_since = Some(since));
    }

    pub fn set_fault(&mut self, source: &str, subject: &str, kind: FaultKind) {
        self.set_health(source, subject, |health| {
            health.fault = Some(Fault {
                kind,
                detail: "refused".into(),
            });
        });
    }

    pub fn set_health(
        &mut self,
        source: &str,
        subject: &str,
        bend: impl FnOnce(&mut SourceHealth),
    ) {
        let mut health = SourceHealth {
            source: source.into(),
            subject: subject.into(),
            last_ok: Some(self.now),
            micros: 100,
            stalled_since: None,
            fault: None,
            absent: false,
            via: None,
        };
        bend(&mut health);
        let name = match subject {
            "" => source.into(),
            _ => format!("{source}/{subject}").into(),
        };
        self.snapshot.sources.insert(name, health);
    }

    /// Moves time on, stamps devices and PCI again, and takes the snapshot into the history.
    pub fn tick(&mut self, secs: u64) {
        self.now = self.now.plus(std::time::Duration::from_secs(secs));
        self.snapshot.at = self.now;
        self.snapshot.devices = Some(Stamped {
            at: self.now,
            value: Arc::new(self.devices.clone()),
        });
        if let Some(pci) = &self.snapshot.pci {
            let value = pci.value.clone();
            self.set_pci(value);
        }
        self.history.push(&self.snapshot);
    }

    pub fn context(&self) -> Context<'_> {
        let mut context = Context::new(
            &self.snapshot,
            &self.history,
            &self.roles,
            &self.policy,
            self.now,
        );
        context.profile = Some(&self.profile);
        context.offer = self.offer.as_ref();
        context
    }

    /// Runs one check; every reason that it gives must be in its list.
    pub fn run(&self, check: &Check) -> Vec<Candidate> {
        let mut found = (check.run)(&self.context().of_check(check));
        found.retain(|candidate| !candidate.unseen);
        for candidate in &found {
            assert_eq!(candidate.check, check.id);
            assert!(
                check
                    .reasons()
                    .iter()
                    .any(|doc| doc.reason == candidate.reason),
                "{} is not among the reasons of {}",
                candidate.reason,
                check.id
            );
            let shows = !candidate.evidence.is_empty();
            assert!(shows || !check.id.starts_with("link_"), "{candidate:?}");
            assert!(candidate.evidence.len() <= 6, "{candidate:?}");
            assert!(!candidate.message.is_empty() && !candidate.remedy.is_empty());
        }
        found
    }

    /// `subject reason status weight` of each candidate: what tests compare.
    pub fn told(&self, check: &Check) -> Vec<String> {
        self.run(check).iter().map(tell).collect()
    }
}

/// `subject reason status weight`, in short.
pub fn tell(candidate: &Candidate) -> String {
    format!(
        "{} {} {:?} {:?}",
        candidate.subject, candidate.reason, candidate.status, candidate.weight
    )
}
