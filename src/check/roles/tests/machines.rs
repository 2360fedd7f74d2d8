//! Machines that people have, to be judged.

use super::*;
use crate::observe::PortState;

pub(super) struct Dev {
    pub(super) device: RdmaDevice,
    pub(super) gbps: u64,
    pub(super) up: bool,
    pub(super) near: Vec<(usize, Distance)>,
}

/// A device with one port, as `name driver pci_id board layer netdev` (`-` for none).
pub(super) fn dev(text: &str, slot: usize, gbps: u64) -> Dev {
    let words: Vec<&str> = text.split_whitespace().collect();
    let word = |n: usize| Some(words[n].to_string()).filter(|word| word != "-");
    let pci = format!("0000:{slot:02x}:00.0");
    Dev {
        device: RdmaDevice {
            name: words[0].into(),
            driver: words[1].into(),
            pci_id: word(2),
            board_id: word(3),
            ports: vec![RdmaPort {
                number: 1,
                link_layer: match words[4] {
                    "ib" => LinkLayer::Infiniband,
                    "eth" => LinkLayer::Ethernet,
                    _ => LinkLayer::Unspecified,
                },
                netdev: word(5),
            }],
            ..RdmaDevice::at(&pci)
        },
        gbps,
        up: true,
        near: vec![],
    }
}

impl Dev {
    pub(super) fn function(mut self, function: Function) -> Self {
        self.device.function = function;
        self
    }

    pub(super) fn near(mut self, gpu: usize, distance: Distance) -> Self {
        self.near.push((gpu, distance));
        self
    }
}

#[derive(Default)]
pub(super) struct Node {
    pub(super) devices: Vec<Dev>,
    pub(super) gpus: usize,
    pub(super) guest: bool,
    /// Interface, its master, lowers, whether the default route goes out there.
    pub(super) netdevs: Vec<(&'static str, Option<&'static str>, Vec<&'static str>, bool)>,
    /// Ports of a virtual switch whose default route, on `br-ex`, may leave there; whether surely.
    pub(super) switch: Vec<(&'static str, bool)>,
    pub(super) overrides: RoleOverrides,
    pub(super) history: History,
    pub(super) now: u64,
}

impl Node {
    pub(super) fn new(devices: Vec<Dev>, gpus: usize) -> Self {
        Node {
            devices,
            gpus,
            ..Node::default()
        }
    }

    pub(super) fn guest(mut self) -> Self {
        self.guest = true;
        self
    }

    pub(super) fn route(mut self, netdev: &'static str) -> Self {
        self.netdevs.push((netdev, None, vec![], true));
        self
    }

    pub(super) fn over_switch(mut self, netdev: &'static str, sure: bool) -> Self {
        if !self.netdevs.iter().any(|known| known.0 == netdev) {
            self.netdevs.push((netdev, None, vec![], false));
        }
        self.switch.push((netdev, sure));
        self
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let at = Millis::from_secs(self.now);
        let gpu = |n: usize| format!("0000:{:02x}:00.0", 0xa0 + n);
        let mut snapshot = Snapshot {
            at,
            boot_id: Some("this boot".into()),
            devices: Some(Stamped {
                at,
                value: Arc::new(self.devices.iter().map(|d| d.device.clone()).collect()),
            }),
            ..Snapshot::default()
        };
        let mut pci = PciFacts {
            gpus: (0..self.gpus).map(|n| gpu(n).parse().unwrap()).collect(),
            virtual_machine: self.guest,
            ..PciFacts::default()
        };
        for dev in &self.devices {
            for port in &dev.device.ports {
                let state = if dev.up {
                    PortState::Active
                } else {
                    PortState::Down
                };
                snapshot.links.insert(
                    dev.device.port_key(port.number),
                    Arc::new(Stamped {
                        at,
                        value: LinkFacts {
                            state: Reading::Value(state),
                            phys_state: Reading::Value(PhysState::LinkUp),
                            // A port that is down tells any rate.
                            rate: Reading::Value(LinkRate {
                                rate: BitsPerSec::from_gbps(if dev.up { dev.gbps } else { 40 }),
                                lanes: None,
                            }),
                            lid: None,
                            sm_lid: None,
                            pkey: None,
                        },
                    }),
                );
            }
            if let Some(address) = dev.device.pci {
                let distances = (0..self.gpus).map(|n| {
                    let near = dev.near.iter().find(|(gpu, _)| *gpu == n);
                    (
                        gpu(n),
                        near.map_or(Distance::Sys, |(_, distance)| *distance),
                    )
                });
                pci.distances
                    .insert(address.to_string(), distances.collect());
            }
        }
        snapshot.pci = Some(Arc::new(Stamped { at, value: pci }));
        for (name, master, lowers, default_route) in &self.netdevs {
            let over = self.switch.iter().find(|(port, _)| port == name);
            let facts = NetdevFacts {
                ovs_route: over.map(|(_, sure)| OvsRoute {
                    port: "br-ex".into(),
                    sure: *sure,
                }),
                carrier: Reading::Value(true),
                master: master.map(String::from),
                lowers: lowers.iter().map(|lower| lower.to_string()).collect(),
                default_route: *default_route,
                ..NetdevFacts::default()
            };
            snapshot
                .netdevs
                .insert(name.to_string(), Arc::new(Stamped { at, value: facts }));
        }
        snapshot
    }

    /// Moves on by a minute, and gives the rails by the devices' names, `NAME` or `NAME/PORT` if not 1.
    pub(super) fn rails(&mut self) -> Vec<String> {
        self.now += 60;
        let snapshot = self.snapshot();
        self.history.push(&snapshot);
        let roles = roles(&snapshot, &self.history, &self.overrides);
        let mut rails: Vec<String> = roles
            .iter()
            .filter(|(_, facts)| facts.role == Role::Rail)
            .map(|(key, _)| self.history.fabric[&key.device].device.name.clone())
            .collect();
        rails.sort();
        rails
    }

    pub(super) fn proof(&self) -> Proof {
        let snapshot = self.snapshot();
        let roles = roles(&snapshot, &self.history, &self.overrides);
        crate::check::port::proof(&snapshot, &self.history, &roles)
    }
}

pub(super) fn names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text.split_whitespace().map(String::from).collect();
    names.sort();
    names
}

pub(super) fn numbered(prefix: &str, numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    let mut names: Vec<String> = numbers
        .into_iter()
        .map(|n| format!("{prefix}{n}"))
        .collect();
    names.sort();
    names
}

pub(super) const H100_RAILS: [usize; 8] = [0, 3, 4, 5, 6, 9, 10, 11];

/// DGX H100: eight single-port ConnectX-7 next to the GPUs, two dual-port ones for storage.
pub(super) fn dgx_h100() -> Node {
    let mut gpu = 0;
    let devices = (0..12)
        .map(|n| {
            if H100_RAILS.contains(&n) {
                let text = format!("mlx5_{n} mlx5_core 15b3:1021 MT_0838 ib ibs{n}");
                gpu += 1;
                dev(&text, 0x10 + n, 400).near(gpu - 1, Distance::Pix)
            } else {
                let text = format!("mlx5_{n} mlx5_core 15b3:1021 MT_0800 ib ibs{n}");
                dev(&text, 0x10 + n, 400).near(0, Distance::Phb)
            }
        })
        .collect();
    Node::new(devices, 8)
}

/// HGX with a BlueField-3 whose two ports are bonded, below the same switch as GPU 0.
pub(super) fn hgx_with_bond() -> Node {
    let mut devices: Vec<Dev> = (0..8)
        .map(|n| {
            let text = format!("mlx5_{n} mlx5_core 15b3:1021 MT_0838 eth ens{n}");
            dev(&text, 0x10 + n, 400).near(n, Distance::Pix)
        })
        .collect();
    devices.push(
        dev(
            "mlx5_bond_0 mlx5_core 15b3:a2dc MT_0884 eth bond0",
            0x30,
            200,
        )
        .near(0, Distance::Pix),
    );
    let mut node = Node::new(devices, 8);
    node.netdevs = vec![
        ("bond0", None, vec!["ens20f0", "ens20f1"], false),
        ("bond0.100", None, vec!["bond0"], true),
    ];
    node
}

/// Azure ND H200 v5: eight InfiniBand VFs, and accelerated networking under eth0.
pub(super) fn azure_h200() -> Node {
    let mut devices: Vec<Dev> = (0..8)
        .map(|n| {
            let text = format!("mlx5_ib{n} mlx5_core 15b3:101e MT_0010 ib ib{n}");
            dev(&text, 0x10 + n, 400).function(Function::VirtualInGuest)
        })
        .collect();
    devices.push(
        dev("mlx5_an0 mlx5_core 15b3:1018 MT_0010 eth enP1", 0x30, 100)
            .function(Function::VirtualInGuest),
    );
    let mut node = Node::new(devices, 8).guest();
    node.netdevs = vec![
        ("eth0", None, vec![], true),
        ("enP1", Some("eth0"), vec![], false),
    ];
    node
}

pub(super) fn many(prefix: &str, rest: &str, count: usize, gbps: u64) -> Vec<Dev> {
    (0..count)
        .map(|n| dev(&format!("{prefix}{n} {rest}"), 0x10 + n, gbps))
        .collect()
}

/// OCI BM.GPU.H100.8: two RoCE ports a GPU, and a NIC foreverything else.
pub(super) fn oci_16() -> Node {
    let mut devices: Vec<Dev> = many("mlx5_", "mlx5_core 15b3:101d ORC_0 eth -", 16, 200)
        .into_iter()
        .enumerate()
        .map(|(n, dev)| dev.near(n / 2, Distance::Pix))
        .collect();
    devices
        .push(dev("mlx5_16 mlx5_core 15b3:101d ORC_1 eth eth0", 0x40, 100).near(3, Distance::Pxb));
    Node::new(devices, 8).route("eth0")
}

/// RoCE PFs with VFs made for pods: the PFs are the rails.
pub(super) fn pfs_with_vfs() -> Node {
    let mut devices = many("mlx5_", "mlx5_core 15b3:1021 MT_0838 eth -", 4, 400);
    for dev in &mut devices {
        dev.device.sriov = Some(Sriov {
            total: 8,
            enabled: 2,
        });
    }
    for n in 4..12 {
        let text = format!("mlx5_{n} mlx5_core 15b3:101e MT_0838 eth -");
        devices.push(dev(&text, 0x10 + n, 400).function(Function::VirtualOfHost));
    }
    Node::new(devices, 0)
}

/// GB200 tray: the NICs hang off the CPUs, no GPU is near by PCI.
pub(super) fn gb200() -> Node {
    let devices = (0..8)
        .map(|n| {
            if [0, 1, 4, 5].contains(&n) {
                dev(
                    &format!("mlx5_{n} mlx5_core 15b3:1021 NVD_1 ib -"),
                    0x10 + n,
                    400,
                )
            } else {
                dev(
                    &format!("mlx5_{n} mlx5_core 15b3:a2dc MT_0884 eth -"),
                    0x10 + n,
                    200,
                )
            }
        })
        .collect();
    Node::new(devices, 4)
}

pub(super) fn two_rxe() -> Node {
    let mut devices = many("rxe", "rdma_rxe - - eth -", 2, 2);
    for (n, dev) in devices.iter_mut().enumerate() {
        dev.device.function = Function::Software;
        dev.device.pci = None;
        dev.device.key = DeviceKey(format!("guid:{n}"));
        dev.device.ports[0].netdev = Some("eth0".into());
    }
    Node::new(devices, 0).route("eth0")
}

pub(super) fn efa_32() -> Node {
    Node::new(many("rdmap", "efa 1d0f:efa1 - other -", 32, 100), 8).guest()
}

/// So many gVNICs, the first of them the node's own.
pub(super) fn gvnics(count: usize) -> Vec<Dev> {
    (0..count)
        .map(|n| {
            dev(
                &format!("gvep{n} gve 1ae0:0042 - eth eth{n}"),
                0x40 + n,
                200,
            )
        })
        .collect()
}

/// GCP A3 Ultra: eight RoCE functions and two gVNICs.
pub(super) fn a3_ultra() -> Node {
    let mut devices = many("mlx5_", "mlx5_core 15b3:101e - eth -", 8, 400);
    devices.extend(gvnics(2));
    Node::new(devices, 8).guest().route("eth0")
}

pub(super) fn machines() -> Vec<(&'static str, Node, Vec<String>)> {
    let ib_before_ethernet = Node::new(
        vec![
            dev("eth_a irdma 8086:1 - eth -", 1, 100),
            dev("ib_a mlx5_core 15b3:1 - ib -", 2, 100),
        ],
        0,
    );
    let mut smi = dgx_h100();
    smi.devices[1].device.smi_parent = Some("mlx5_0".into());
    smi.devices[1].near = vec![(0, Distance::Pix)];
    let mut rxe_and_hardware = pfs_with_vfs();
    rxe_and_hardware.devices.extend(two_rxe().devices);
    let mut all_routed = Node::new(
        (0..4)
            .map(|n| dev(&format!("mlx5_{n} mlx5_core 15b3:1 - eth e{n}"), n, 400))
            .collect(),
        0,
    );
    for name in ["e0", "e1", "e2", "e3"] {
        all_routed = all_routed.route(name);
    }
    let mut vfs_only = pfs_with_vfs();
    vfs_only
        .devices
        .retain(|d| d.device.function != Function::Physical);
    let mut all = vec![
        ("DGX H100", dgx_h100(), numbered("mlx5_", H100_RAILS)),
        ("HGX with bond", hgx_with_bond(), numbered("mlx5_", 0..8)),
        ("Azure ND H200", azure_h200(), numbered("mlx5_ib", 0..8)),
        ("EFA", efa_32(), numbered("rdmap", 0..32)),
        ("OCI", oci_16(), numbered("mlx5_", 0..16)),
        ("PFs with VFs", pfs_with_vfs(), numbered("mlx5_", 0..4)),
        (
            "VFs whose PFs are elsewhere",
            vfs_only,
            numbered("mlx5_", 4..12),
        ),
        ("two rxe", two_rxe(), names("rxe0 rxe1")),
        (
            "rxe next to hardware",
            rxe_and_hardware,
            numbered("mlx5_", 0..4),
        ),
        ("GB200", gb200(), names("mlx5_0 mlx5_1 mlx5_4 mlx5_5")),
        ("SMI sub-device", smi, numbered("mlx5_", H100_RAILS)),
        ("IB before Ethernet", ib_before_ethernet, names("ib_a")),
        (
            "DHCP routes on all rails",
            all_routed,
            numbered("mlx5_", 0..4),
        ),
        (
            "GCP A3 Mega",
            Node::new(gvnics(9), 8).guest().route("eth0"),
            numbered("gvep", 1..9),
        ),
        (
            "GCP A3 High",
            Node::new(gvnics(5), 8).guest().route("eth0"),
            numbered("gvep", 1..5),
        ),
        ("GCP A3 Ultra", a3_ultra(), numbered("mlx5_", 0..8)),
        (
            "GCP with fewer gVNICs than a fabric has",
            Node::new(gvnics(4), 8).guest().route("eth0"),
            vec![],
        ),
        (
            "GCP without GPUs",
            Node::new(gvnics(9), 0).guest().route("eth0"),
            vec![],
        ),
        ("nothing", Node::new(vec![], 8), vec![]),
    ];
    all.extend(front_end::machines());
    all
}
