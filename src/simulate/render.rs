//! A node's files: `/sys`, `/proc` and `/dev` as a kernel lays them out. One function for each part
//! that changes separately; all of them are pure.

use super::spec::*;
use super::tree::Tree;
use crate::source::replay::{self, DeviceQueuePairs, QUEUE_PAIRS, QueuePairs};
use nix::libc::EINVAL;
use std::collections::BTreeSet;

/// Words of enumerations by number (drivers/infiniband/core/sysfs.c).
const STATES: &str = "NOP,DOWN,INIT,ARMED,ACTIVE,ACTIVE_DEFER";
const PHYS_STATES: &str = "<unknown>,Sleep,Polling,Disabled,PortConfigurationTraining,LinkUp,\
     LinkErrorRecovery,Phy Test";
const NODE_TYPES: &str = ",CA,switch,router,RNIC,usNIC,usNIC UDP,unspecified";
/// Names of `aer_dev_correctable` and of the two uncorrectable files (drivers/pci/pcie/aer.c).
const CORRECTABLE: &str = "RxErr BadTLP BadDLLP Rollover Timeout NonFatalErr CorrIntErr HeaderOF";
const UNCORRECTABLE: &str = "Undefined DLP SDES TLP FCP CmpltTO CmpltAbrt UnxCmplt RxOF MalfTLP ECRC UnsupReq ACSViol \
     UncorrIntErr BlockedTLP AtomicOpBlocked TLPBlockedErr PoisonTLPBlocked";
/// `/proc/driver/nvidia/gpus/BDF/information`.
const GPU_INFORMATION: &str = include_str!("data/gpu_information.txt");
/// `/proc/driver/nvidia/version` of either kernel module, and `params`.
const NVIDIA_OPEN: &str = include_str!("data/nvidia_version_open.txt");
const NVIDIA_PROPRIETARY: &str = include_str!("data/nvidia_version_proprietary.txt");
const NVIDIA_PARAMS: &str = include_str!("data/nvidia_params.txt");
/// `/proc/PID/net/dev`, `netstat` and `snmp` (net/ipv4/proc.c).
const NET_DEV: &str = include_str!("data/net_dev.txt");
const NETSTAT: &str = include_str!("data/netstat.txt");
const SNMP: &str = include_str!("data/snmp.txt");
/// `/proc/driver/nvidia-fs/stats` without the lines of GPUs.
const NVIDIA_FS_STATS: &str = include_str!("data/nvidia_fs_stats.txt");
/// Bytes of a TCP segment as the kernel counts it (after GRO, before TSO).
const SEGMENT: u64 = 32 * 1024;

/// `0xNAME: TEXT` of an enumeration, as sysfs prints it: number and word.
fn numbered(names: &str, number: u32, unknown: &str) -> String {
    let name = names.split(',').nth(number as usize).unwrap_or(unknown);
    format!("{number}: {name}")
}

/// The parts of a node that differ from those before, by a name of each. A part that is gone is empty.
pub(super) fn changed(before: &NodeSpec, now: &NodeSpec) -> Vec<(String, Tree)> {
    let mut parts = vec![("host".to_string(), host(now))];
    for (bdf, pci) in now
        .pci
        .iter()
        .filter(|(bdf, pci)| before.pci.get(*bdf) != Some(pci))
    {
        parts.push((bdf.clone(), function(now, pci)));
    }
    let rdma = |name: &str| format!("rdma/{name}");
    for of in (now.rdma.iter()).filter(|of| before.device(&of.name) != Some(of)) {
        parts.push((rdma(&of.name), device(now, of)));
    }
    for of in (before.rdma.iter()).filter(|of| now.device(&of.name).is_none()) {
        parts.push((rdma(&of.name), Tree::default()));
    }
    for of in (now.netdevs.iter()).filter(|of| before.netdev(&of.name) != Some(of)) {
        parts.push((format!("net/{}", of.name), netdev(now, of)));
    }
    parts
}

/// A PCI function with its class and bus links (drivers/pci/pci-sysfs.c).
fn function(spec: &NodeSpec, pci: &PciSpec) -> Tree {
    let mut tree = Tree::default();
    let (bdf, path) = (pci.bdf, spec.pci_path(pci.bdf));
    tree.lines(
        &path,
        &[
            ("vendor", &format_args!("{:#06x}", pci.vendor)),
            ("device", &format_args!("{:#06x}", pci.device)),
            ("class", &format_args!("{:#08x}", pci.class)),
            ("numa_node", &pci.numa),
            ("enable", &1),
            ("max_link_speed", &pci.max_link.0),
            ("max_link_width", &pci.max_link.1),
            ("current_link_speed", &pci.link.0),
            ("current_link_width", &pci.link.1),
        ],
    );
    if let Some((total, vfs)) = &pci.sriov {
        tree.line(format!("{path}/sriov_totalvfs"), total);
        tree.line(format!("{path}/sriov_numvfs"), vfs.len());
        for (n, vf) in vfs.iter().enumerate() {
            tree.link(format!("{path}/virtfn{n}"), spec.pci_path(*vf));
        }
    }
    tree.maybe(format!("{path}/p2p"), &pci.p2p);
    if let Some(physfn) = pci.physfn {
        tree.link(format!("{path}/physfn"), spec.pci_path(physfn));
    }
    tree.link(format!("{path}/subsystem"), "sys/bus/pci");
    tree.link(format!("sys/bus/pci/devices/{bdf}"), &path);
    if let Some(driver) = &pci.driver {
        let dir = format!("sys/bus/pci/drivers/{driver}");
        tree.link(format!("{dir}/{bdf}"), &path);
        tree.link(format!("{path}/driver"), dir);
    }
    if let Some(kind) = &spec.iommu {
        let own = bdf.to_string();
        let number = spec.pci.keys().position(|key| *key == own);
        let group = format!("sys/kernel/iommu_groups/{}", number.unwrap_or_default());
        tree.line(format!("{group}/type"), kind);
        tree.link(format!("{group}/devices/{bdf}"), &path);
        tree.link(format!("{path}/iommu_group"), group);
    }
    aer(&mut tree, &path, pci);
    tree.file(format!("{path}/config"), config_space(pci));
    tree
}

/// AER totals. Each total is shown under the first name of its list.
fn aer(tree: &mut Tree, path: &str, pci: &PciSpec) {
    let Some([correctable, nonfatal, fatal]) = pci.aer else {
        return;
    };
    for (kind, names, total, count) in [
        ("correctable", CORRECTABLE, "COR", correctable),
        ("nonfatal", UNCORRECTABLE, "NONFATAL", nonfatal),
        ("fatal", UNCORRECTABLE, "FATAL", fatal),
    ] {
        let counts = std::iter::once(count).chain(std::iter::repeat(0));
        let names = names.split_whitespace().zip(counts);
        let mut text: String = names.map(|(name, n)| format!("{name} {n}\n")).collect();
        text += &format!("TOTAL_ERR_{total} {count}");
        tree.line(format!("{path}/aer_dev_{kind}"), text);
    }
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

/// An RDMA device (drivers/infiniband/core/sysfs.c).
fn device(spec: &NodeSpec, device: &RdmaSpec) -> Tree {
    let mut tree = Tree::default();
    let (name, path) = (&device.name, spec.rdma_path(device));
    let node_type = numbered(NODE_TYPES, device.node_type, "<unknown>");
    tree.lines(
        &path,
        &[
            ("node_type", &node_type),
            ("node_guid", &groups(device.guid)),
            ("sys_image_guid", &groups(device.image_guid)),
            ("node_desc", &format_args!("{} {name}", spec.hostname)),
            ("fw_ver", &device.firmware),
        ],
    );
    if let Some(hca_type) = &device.hca_type {
        tree.lines(&path, &[("hca_type", hca_type), ("hw_rev", &0)]);
    }
    tree.maybe(format!("{path}/board_id"), &device.board_id);
    tree.link(format!("{path}/device"), spec.pci_path(device.pci));
    tree.link(format!("{path}/subsystem"), "sys/class/infiniband");
    if let Some(attrs) = &device.device_hw {
        counters(&mut tree, spec, device, "hw_counters", attrs);
    }
    for port in &device.ports {
        rdma_port(&mut tree, spec, device, port);
    }
    let function = spec.pci_path(device.pci);
    let infiniband = |port: &&PortSpec| port.link_layer == "InfiniBand";
    character_device(&mut tree, &function, device, "verbs", "abi_version", 1);
    if let Some(port) = device.ports.iter().find(infiniband) {
        character_device(&mut tree, &function, device, "mad", "port", port.number);
    }
    tree.link(format!("sys/class/infiniband/{name}"), path);
    tree
}

/// `uverbsN` or `umadN` with one more attribute.
fn character_device(
    tree: &mut Tree,
    function: &str,
    device: &RdmaSpec,
    class: &str,
    attr: &str,
    value: u32,
) {
    let short = if class == "mad" { "umad" } else { "uverbs" };
    let name = format!("{short}{}", device.uverbs);
    let dir = format!("{function}/infiniband_{class}/{name}");
    tree.lines(&dir, &[("ibdev", &device.name), (attr, &value)]);
    tree.link(format!("sys/class/infiniband_{class}/{name}"), dir);
    tree.file(format!("dev/infiniband/{name}"), "");
}

fn rdma_port(tree: &mut Tree, spec: &NodeSpec, device: &RdmaSpec, port: &PortSpec) {
    let below = format!("ports/{}", port.number);
    let path = format!("{}/{below}", spec.rdma_path(device));
    let rate = match &port.down_rate {
        Some(rate) if port.state < 4 => rate,
        _ => &port.rate,
    };
    let cap_mask = match port.link_layer.as_str() {
        "InfiniBand" => 0xa759_ec48_u32,
        "Ethernet" => 0x0405_0000,
        _ => 0,
    };
    tree.lines(
        &path,
        &[
            ("state", &numbered(STATES, port.state, "UNKNOWN")),
            ("phys_state", &numbered(PHYS_STATES, port.phys, "<unknown>")),
            ("rate", rate),
            ("link_layer", &port.link_layer),
            ("lid", &format_args!("{:#x}", port.lid)),
            ("sm_lid", &format_args!("{:#x}", port.sm_lid)),
            ("lid_mask_count", &0),
            ("sm_sl", &0),
            ("cap_mask", &format_args!("{cap_mask:#010x}")),
        ],
    );
    for (n, pkey) in port.pkeys.iter().enumerate() {
        tree.line(format!("{path}/pkeys/{n}"), format_args!("{pkey:#06x}"));
    }
    for slot in 0..port.gid_slots {
        let gid = port.gids.iter().find(|gid| gid.index == slot);
        let text = gid.map_or_else(|| ["0000"; 8].join(":"), |gid| gid.gid.clone());
        tree.line(format!("{path}/gids/{slot}"), text);
        let attrs = [
            ("types", gid.map(|gid| &gid.kind)),
            ("ndevs", gid.and_then(|gid| gid.netdev.as_ref())),
        ];
        for (attr, text) in attrs {
            let file = format!("gid_attrs/{attr}/{slot}");
            match text {
                Some(text) => tree.line(format!("{path}/{file}"), text),
                None => {
                    let alias = format!("sys/class/infiniband/{}/{below}/{file}", device.name);
                    tree.errno(format!("{path}/{file}"), alias, EINVAL);
                }
            }
        }
    }
    for (dir, attrs) in [("counters", &port.pma), ("hw_counters", &port.hw)] {
        if let Some(attrs) = attrs {
            counters(tree, spec, device, &format!("{below}/{dir}"), attrs);
        }
    }
}

fn counters(tree: &mut Tree, spec: &NodeSpec, device: &RdmaSpec, dir: &str, attrs: &Attrs) {
    let path = format!("{}/{dir}", spec.rdma_path(device));
    tree.dir(&path);
    for (name, attr) in attrs {
        let at = format!("{path}/{name}");
        match attr {
            Attr::Number(value) => tree.line(at, value),
            Attr::Text(text) => tree.line(at, text),
            Attr::Errno(errno) => {
                let alias = format!("sys/class/infiniband/{}/{dir}/{name}", device.name);
                tree.errno(at, alias, *errno);
            }
        }
    }
}

/// 64 bits in four groups, as the kernel prints GUIDs and halves of GIDs.
pub(super) fn groups(value: u64) -> String {
    let group = |shift: u32| format!("{:04x}", value >> shift & 0xffff);
    [48, 32, 16, 0].map(group).join(":")
}

/// A network device (net/core/net-sysfs.c), with the ethtool, DCB and VF answers that a directory
/// tree holds as files.
fn netdev(spec: &NodeSpec, netdev: &NetdevSpec) -> Tree {
    let mut tree = Tree::default();
    let (name, path) = (&netdev.name, spec.netdev_path(netdev));
    let up = netdev.admin_up && netdev.carrier;
    let (changes, flags) = (netdev.carrier_changes, 0x1002 | u32::from(netdev.admin_up));
    tree.lines(
        &path,
        &[
            ("ifindex", &netdev.ifindex),
            ("type", &netdev.kind),
            ("mtu", &netdev.mtu),
            ("dev_id", &"0x0"),
            ("dev_port", &netdev.dev_port),
            ("duplex", &"full"),
            ("address", &hardware_address(netdev)),
            ("flags", &format_args!("{flags:#x}")),
            ("operstate", &if up { "up" } else { "down" }),
            ("carrier_changes", &changes),
            ("carrier_up_count", &changes.div_ceil(2)),
            ("carrier_down_count", &(changes / 2)),
        ],
    );
    // While the interface is administratively down, carrier and speed answer EINVAL.
    let speed = if up { netdev.speed as i64 } else { -1 };
    for (file, value) in [("carrier", i64::from(netdev.carrier)), ("speed", speed)] {
        match netdev.admin_up {
            true => tree.line(format!("{path}/{file}"), value),
            false => {
                let alias = format!("sys/class/net/{name}/{file}");
                tree.errno(format!("{path}/{file}"), alias, EINVAL);
            }
        }
    }
    if let Some(bdf) = netdev.pci {
        tree.link(format!("{path}/device"), spec.pci_path(bdf));
    }
    if let Some(master) = netdev.master.as_deref().and_then(|name| spec.netdev(name)) {
        let above = spec.netdev_path(master);
        tree.link(format!("{path}/master"), &above);
        tree.link(format!("{path}/upper_{}", master.name), &above);
        tree.link(format!("{above}/lower_{name}"), &path);
        // Azure's pairing of a VF with its synthetic interface is not a bond.
        if master.pci.is_none() && master.name.starts_with("bond") {
            tree.line(format!("{above}/bonding/mode"), "802.3ad 4");
        }
    }
    tree.link(format!("{path}/subsystem"), "sys/class/net");
    recorded_answers(&mut tree, netdev);
    tree.link(format!("sys/class/net/{name}"), path);
    tree
}

fn recorded_answers(tree: &mut Tree, netdev: &NetdevSpec) {
    let name = &netdev.name;
    if let Some((driver, statistics)) = &netdev.ethtool {
        let mut text = format!("driver: {driver}");
        for (name, value) in statistics {
            text += &format!("\n{name}: {value}");
        }
        tree.line(replay::ethtool_path(name), text);
    }
    if let Some(dcb) = &netdev.dcb {
        let json = serde_json::to_vec(dcb).unwrap_or_default();
        tree.file(replay::json_path("dcb", name), json);
    }
    if let Some(links) = &netdev.vf_links {
        let json = serde_json::to_vec(links).unwrap_or_default();
        tree.file(replay::json_path("vf_links", name), json);
    }
}

fn hardware_address(netdev: &NetdevSpec) -> String {
    let index = netdev.ifindex;
    if netdev.kind == 32 {
        let tail: Vec<String> = (0..12)
            .map(|n| format!("{:02x}", (index * 7 + n) & 0xff))
            .collect();
        return format!("00:00:10:29:fe:80:00:00:{}", tail.join(":"));
    }
    format!("b8:3f:d2:00:{:02x}:{:02x}", index >> 8, index & 0xff)
}

/// What belongs to the node as a whole: `/proc`, DMI, modules, buses, the NVIDIA driver.
fn host(spec: &NodeSpec) -> Tree {
    let mut tree = Tree::default();
    let cpu = match (spec.arch.as_str(), spec.hypervisor) {
        ("aarch64", _) => "CPU implementer\t: 0x41",
        (_, true) => "vendor_id\t: GenuineIntel\nflags\t\t: fpu sse2 hypervisor",
        (_, false) => "vendor_id\t: GenuineIntel\nflags\t\t: fpu sse2",
    };
    tree.lines(
        "proc",
        &[
            ("cmdline", &spec.cmdline),
            ("sys/kernel/osrelease", &spec.kernel),
            ("sys/kernel/arch", &spec.arch),
            ("sys/kernel/hostname", &spec.hostname),
            ("sys/kernel/random/boot_id", &spec.boot_id),
            ("cpuinfo", &format_args!("processor\t: 0\n{cpu}\n")),
            ("uptime", &"86400.00 8000000.00"),
        ],
    );
    tree.line("sys/class/dmi/id/sys_vendor", &spec.dmi.0);
    tree.line("sys/class/dmi/id/product_name", &spec.dmi.1);
    tree.maybe("sys/class/dmi/id/chassis_asset_tag", &spec.asset_tag);
    tree.link("proc/self", "proc/1");
    tree.link("proc/net", "proc/self/net");
    routes(&mut tree, spec);
    modules(&mut tree, spec);
    buses(&mut tree, spec);
    nvidia(&mut tree, spec);
    nvidia_fs(&mut tree, spec);
    tree
}

/// `/proc/net/route` (net/ipv4/fib_trie.c: lines padded to 127 columns).
fn routes(tree: &mut Tree, spec: &NodeSpec) {
    let head =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
    let mut lines = vec![format!("{head:<127}")];
    if let Some(name) = &spec.default_route {
        for (to, gateway, flags, mask) in [
            ("00000000", "0100000A", "0003", "00000000"),
            ("0000000A", "00000000", "0001", "0000FFFF"),
        ] {
            let line = format!("{name}\t{to}\t{gateway}\t{flags}\t0\t0\t100\t{mask}\t0\t0\t0");
            lines.push(format!("{line:<127}"));
        }
    }
    tree.line("proc/1/net/route", lines.join("\n"));
}

/// `/sys/module`, and `/proc/modules`, which lists the newest first.
fn modules(tree: &mut Tree, spec: &NodeSpec) {
    let mut list = String::new();
    for module in spec.modules.iter().rev() {
        let (name, taint) = (&module.name, &module.taint);
        let shown = match taint.as_str() {
            "" => String::new(),
            taint => format!(" ({taint})"),
        };
        list += &format!("{name} 16384 0 - Live 0x0000000000000000{shown}\n");
        let dir = format!("sys/module/{name}");
        tree.lines(
            &dir,
            &[
                ("taint", taint),
                ("refcnt", &0),
                ("srcversion", &"533BB7E5866E52F63B9ACCB"),
                ("initstate", &"live"),
            ],
        );
        tree.maybe(format!("{dir}/version"), &module.version);
    }
    tree.file("proc/modules", list);
    if let Some(peers) = &spec.memory_peers {
        tree.dir("sys/kernel/mm/memory_peers");
        for peer in peers {
            tree.line(format!("sys/kernel/mm/memory_peers/{peer}/version"), "1.5");
        }
    }
}

fn buses(tree: &mut Tree, spec: &NodeSpec) {
    tree.dir("sys/bus/pci/devices");
    let drivers = spec.pci.values().filter_map(|pci| pci.driver.as_deref());
    for driver in drivers.collect::<BTreeSet<&str>>() {
        let at = format!("sys/bus/pci/drivers/{driver}/module");
        tree.link(at, format!("sys/module/{driver}"));
    }
    tree.dir("sys/class/iommu");
    tree.dir("sys/kernel/iommu_groups");
    if spec.iommu.is_some() {
        let name = match spec.arch.as_str() {
            "aarch64" => "smmu3.0x0000000005000000",
            _ => "dmar0",
        };
        let path = format!("sys/devices/virtual/iommu/{name}");
        tree.dir(&path);
        tree.link(format!("sys/class/iommu/{name}"), path);
    }
    if spec.modules.iter().any(|module| module.name == "ib_core") {
        tree.dir("sys/class/infiniband");
        tree.dir("sys/class/infiniband_verbs");
        tree.line("sys/class/infiniband_verbs/abi_version", 6);
        tree.file("dev/infiniband/rdma_cm", "");
    }
}

/// `/proc/driver/nvidia` with one directory a GPU.
fn nvidia(tree: &mut Tree, spec: &NodeSpec) {
    let Some(nvidia) = &spec.nvidia else {
        return;
    };
    let dir = "proc/driver/nvidia";
    let version = match nvidia.open {
        true => NVIDIA_OPEN,
        false => NVIDIA_PROPRIETARY,
    };
    let version = version.replace("{arch}", &spec.arch);
    let version = version.replace("{version}", &nvidia.version);
    tree.file(format!("{dir}/version"), version);
    // What GPUDirect with NICs of other IOMMU groups needs there.
    let allowed = match spec.arch.as_str() {
        "aarch64" => "GrdmaPciTopoCheckOverride: 1\n",
        _ => "",
    };
    tree.file(format!("{dir}/params"), NVIDIA_PARAMS.to_string() + allowed);
    tree.dir(format!("{dir}/gpus"));
    for (minor, gpu) in spec.gpus.iter().enumerate() {
        let bdf = gpu.bdf.to_string();
        let text = GPU_INFORMATION
            .replace("{model}", &gpu.model)
            .replace("{uuid}", &gpu.uuid)
            .replace("{irq}", &(200 + minor).to_string())
            .replace("{bdf}", &bdf)
            .replace("{minor}", &minor.to_string())
            .replace("{version}", &nvidia.version);
        tree.file(format!("{dir}/gpus/{bdf}/information"), text);
    }
}

/// `/proc/driver/nvidia-fs` (nvfs-proc.c, nvfs-stat.c).
fn nvidia_fs(tree: &mut Tree, spec: &NodeSpec) {
    let Some(errors) = spec.nvidia_fs else {
        return;
    };
    let mut text = NVIDIA_FS_STATS.replace("{errors}", &errors.to_string());
    for gpu in &spec.gpus {
        let uuid = gpu.uuid.trim_start_matches("GPU-");
        text += &format!(
            "GPU {}  uuid:{uuid} : Registered_MiB=0 Cache_MiB=0 max_pinned_MiB=1 \n",
            gpu.bdf
        );
    }
    let dir = "proc/driver/nvidia-fs";
    tree.file(format!("{dir}/stats"), text);
    tree.file(format!("{dir}/bridges"), "");
    tree.lines(
        dir,
        &[
            ("devcount", &1),
            ("version", &"version: 2.25"),
            ("modules", &"nvme: 2.25.7"),
        ],
    );
}

/// Processes of pods: cgroup, the counters of their network namespaces, and which queue pairs they own.
pub(super) fn processes(spec: &NodeSpec, processes: &[ProcessSpec]) -> Tree {
    let mut tree = Tree::default();
    if processes.is_empty() {
        return tree;
    }
    tree.line("proc/1/status", "Name:\tsystemd\nNSpid:\t1");
    for process in processes {
        let pid = process.pid;
        let (bytes, segments) = (process.tcp.to_string(), process.tcp / SEGMENT);
        let counted = |text: &str| {
            let text = text.replace("{segments}", &segments.to_string());
            text.replace("{bytes}", &bytes)
        };
        // cgroup v2 under systemd (pkg/kubelet/cm/cgroup_manager_linux.go).
        let slice = process.pod.replace('-', "_");
        let cgroup =
            format!("0::/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-{pid:064x}.scope");
        tree.line(format!("proc/{pid}/cgroup"), cgroup);
        // `net/dev` never changes: its inode identifies the namespace.
        tree.file(format!("proc/{pid}/net/dev"), NET_DEV);
        tree.file(format!("proc/{pid}/net/netstat"), counted(NETSTAT));
        tree.file(format!("proc/{pid}/net/snmp"), counted(SNMP));
    }
    let owners = processes.iter().filter(|process| process.queue_pairs);
    let owners: Vec<u32> = owners.map(|process| process.pid).collect();
    let devices = spec.rdma.iter().map(|device| DeviceQueuePairs {
        name: device.name.clone(),
        ports: u32::try_from(device.ports.len()).unwrap_or(1),
        connected: owners.clone(),
    });
    let recorded = QueuePairs {
        exclusive: Some(false),
        devices: devices.collect(),
    };
    let json = serde_json::to_vec(&recorded).unwrap_or_default();
    tree.file(QUEUE_PAIRS, json);
    tree
}
