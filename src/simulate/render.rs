//! A node's files: `/sys`, `/proc` and `/dev` as a kernel lays them out. One template for each part
//! that changes separately, in the form that `Tree::parse` reads; all of this is pure.

use super::{spec::*, tree::Tree};
use crate::source::replay::{self, DeviceQueuePairs, QueuePairs};
use askama::Template;

/// Words of enumerations by number (drivers/infiniband/core/sysfs.c).
const STATES: &str = "NOP,DOWN,INIT,ARMED,ACTIVE,ACTIVE_DEFER";
const PHYS_STATES: &str = "<unknown>,Sleep,Polling,Disabled,PortConfigurationTraining,LinkUp,\
     LinkErrorRecovery,Phy Test";
const NODE_TYPES: &str = ",CA,switch,router,RNIC,usNIC,usNIC UDP,unspecified";
/// Names of the two uncorrectable AER files after the first one (drivers/pci/pcie/aer.c).
const UNCORRECTABLE: &str = "DLP SDES TLP FCP CmpltTO CmpltAbrt UnxCmplt RxOF MalfTLP ECRC UnsupReq ACSViol UncorrIntErr \
     BlockedTLP AtomicOpBlocked TLPBlockedErr PoisonTLPBlocked";

/// The files that a template describes, of variables by name. One that cannot be rendered would be a mistake
/// in it, and the tests render all of them.
macro_rules! files {
    ($path:literal $($name:ident: $type:ty),*) => {{
        #[derive(Template)]
        #[template(path = $path, whitespace = "preserve")]
        struct Files<'a> {
            $($name: $type,)*
        }
        let files = Files { $($name,)* };
        Tree::parse(&files.render().unwrap_or_default())
    }};
}

/// `0xNAME: TEXT` of an enumeration, as sysfs prints it: number and word.
fn numbered(names: &str, number: &u32) -> String {
    let name = names.split(',').nth(*number as usize);
    format!("{number}: {}", name.unwrap_or("<unknown>"))
}

/// The parts of a node that differ from those before, by a name of each. A part that is gone is empty.
pub(super) fn changed(before: &NodeFiles, spec: &NodeFiles) -> Vec<(String, Tree)> {
    let host = files!("host.txt" spec: &'a NodeFiles);
    let mut parts = vec![("host".to_string(), host)];
    for (number, (bdf, pci)) in spec.pci.iter().enumerate() {
        if before.pci.get(bdf) != Some(pci) {
            parts.push((bdf.clone(), function(spec, pci, number)));
        }
    }
    let rdma = |name: &str| format!("rdma/{name}");
    for device in (spec.rdma.iter()).filter(|of| before.device(&of.name) != Some(of)) {
        let files = files!("rdma.txt" spec: &'a NodeFiles, device: &'a RdmaSpec);
        parts.push((rdma(&device.name), files));
    }
    for of in (before.rdma.iter()).filter(|of| spec.device(&of.name).is_none()) {
        parts.push((rdma(&of.name), Tree::default()));
    }
    for netdev in (spec.netdevs.iter()).filter(|of| before.netdev(&of.name) != Some(of)) {
        let files = files!("netdev.txt" spec: &'a NodeFiles, netdev: &'a NetdevSpec);
        parts.push((format!("net/{}", netdev.name), files));
    }
    parts
}

/// `number` is that of its IOMMU group.
fn function(spec: &NodeFiles, pci: &PciSpec, number: usize) -> Tree {
    let mut tree = files!("pci.txt" spec: &'a NodeFiles, pci: &'a PciSpec, number: usize);
    let path = spec.pci_path(pci.bdf);
    tree.file(format!("{path}/config"), config_space(pci));
    tree
}

/// 256 bytes of an endpoint, 4096 of a bridge, which has an ACS capability at 0x100.
fn config_space(pci: &PciSpec) -> Vec<u8> {
    let bridge = pci.class >> 8 == 0x0604;
    let mut config = vec![0u8; if bridge { 4096 } else { 256 }];
    let mut set = |at: usize, bytes: &[u8]| {
        if let Some(place) = config.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    set(0, &pci.vendor.to_le_bytes());
    set(2, &pci.device.to_le_bytes());
    set(9, pci.class.to_le_bytes().get(..3).unwrap_or_default());
    if bridge {
        set(14, &[1]);
        // Capability 0x000d, version 1, the last one; what it can: SV, RR, CR, UF; nothing is on.
        set(0x100, &0x0001_000d_u32.to_le_bytes());
        set(0x104, &0x001f_u16.to_le_bytes());
    }
    if pci.dead {
        config.fill(0xff);
    }
    config
}

/// 64 bits in four groups, as the kernel prints GUIDs and halves of GIDs.
pub(super) fn groups(value: u64) -> String {
    let group = |shift: u32| format!("{:04x}", value >> shift & 0xffff);
    [48, 32, 16, 0].map(group).join(":")
}

/// Processes of pods: cgroup, the counters of their network namespaces, and which queue pairs they own.
pub(super) fn processes(spec: &NodeFiles, processes: &[ProcessSpec]) -> Tree {
    let owners = processes.iter().filter(|process| process.queue_pairs);
    let connected: Vec<u32> = owners.map(|process| process.pid).collect();
    let devices = spec.rdma.iter().map(|device| DeviceQueuePairs {
        name: device.name.clone(),
        ports: u32::try_from(device.ports.len()).unwrap_or(1),
        connected: connected.clone(),
    });
    let queue_pairs = QueuePairs {
        exclusive: Some(false),
        devices: devices.collect(),
    };
    files!("processes.txt" processes: &'a [ProcessSpec], queue_pairs: QueuePairs)
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
