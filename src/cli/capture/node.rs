//! What else of the node a capture keeps: interfaces, PCI, modules, drivers, the machine.

use super::copier::Copier;
use crate::observe::gpudirect::MODULES_OF_INTEREST;
use crate::observe::pci::MAX_VFS;
use crate::observe::reading::Reading;
use crate::source::infiniband::pci_function_dir;
use crate::source::modules::module_dir;
use crate::source::{
    dot1x, ethtool, gpudirect, netdev, netlink, ovs, replay, routes, topology, tree, vf,
};
use crate::units::Bdf;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// uverbs devices: which RDMA device each belongs to.
pub fn verbs(copier: &mut Copier<'_>) {
    let class = Path::new("sys/class/infiniband_verbs");
    for name in copier.list(class) {
        copier.link(class.join(&name));
        copier.file(class.join(&name).join("ibdev"));
    }
}

/// A network device, with its statistics and DCB settings.
pub fn interface(copier: &mut Copier<'_>, name: &str) {
    let dir = netdev::class_dir(name);
    copier.link(&dir);
    copier.files(
        &dir,
        &[
            "carrier",
            "carrier_changes",
            "operstate",
            "speed",
            "mtu",
            "flags",
            "ifindex",
            "dev_port",
            "dev_id",
            "phys_port_name",
            "bonding/mode",
        ],
    );
    for link in ["device", "device/driver", "master"] {
        copier.link(dir.join(link));
    }
    for entry in copier.list(&dir) {
        if entry.starts_with("lower_") {
            copier.link(dir.join(entry));
        }
    }
    // As words without addresses, live or not.
    let supplicants = dot1x::read(copier.host, &BTreeSet::from([name.to_string()]));
    if let Some(Reading::Value(facts)) = supplicants.value().and_then(|found| found.get(name)) {
        copier.text(dot1x::path(name), &dot1x::text(facts));
    }
    if !copier.host.is_live() {
        copier.file(replay::ethtool_path(name));
        copier.file(replay::dcb_path(name));
        copier.file(replay::vf_links_path(name));
        return;
    }
    if let Ok((driver, statistics)) = ethtool::dump(name)
        && !statistics.is_empty()
    {
        let mut text = format!("driver: {driver}\n");
        for (statistic, value) in statistics {
            let _ = writeln!(text, "{statistic}: {value}");
        }
        copier.text(replay::ethtool_path(name), &text);
    }
    if let Reading::Value(facts) = netlink::dcb::read(name)
        && let Ok(text) = serde_json::to_string(&facts)
    {
        copier.text(replay::dcb_path(name), &text);
    }
    if let Reading::Value(links) = vf::links(copier.host, name)
        && let Ok(text) = serde_json::to_string(&links)
    {
        copier.text(replay::vf_links_path(name), &text);
    }
}

/// GPUs and RDMA functions, and the bridges above them.
pub fn pci(copier: &mut Copier<'_>, ends: &BTreeSet<Bdf>) {
    copier.directory("sys/bus/pci/devices");
    let mut bridges = BTreeSet::new();
    for bdf in ends {
        let dir = pci_function_dir(*bdf);
        if let Some(path) = tree::canonical(copier.host, &dir) {
            bridges.extend(topology::parse_path(&path).bridges);
        }
        copier.link(&dir);
        function_files(copier, &dir);
        copier.file_up_to(dir.join("config"), 64);
        virtual_functions(copier, &dir);
    }
    for bdf in bridges {
        let dir = pci_function_dir(bdf);
        copier.link(&dir);
        function_files(copier, &dir);
        copier.file_up_to(dir.join("config"), 4096);
    }
}

/// Which virtual functions there are, and what drives each.
fn virtual_functions(copier: &mut Copier<'_>, dir: &Path) {
    for at in 0..MAX_VFS {
        let link = dir.join(format!("virtfn{at}"));
        let Some(name) = tree::link_name(copier.host, &link) else {
            return;
        };
        copier.link(&link);
        if let Ok(vf) = name.parse::<Bdf>() {
            let vf = pci_function_dir(vf);
            copier.link(&vf);
            copier.link(vf.join("driver"));
        }
    }
}

/// Files and links of one PCI function.
pub fn function_files(copier: &mut Copier<'_>, dir: &Path) {
    copier.files(
        dir,
        &[
            "vendor",
            "device",
            "class",
            "numa_node",
            "current_link_speed",
            "current_link_width",
            "max_link_speed",
            "max_link_width",
            "aer_dev_correctable",
            "aer_dev_nonfatal",
            "aer_dev_fatal",
            "sriov_totalvfs",
            "sriov_numvfs",
            "p2p",
            "uevent",
            "iommu_group/type",
        ],
    );
    for link in ["driver", "physfn", "iommu_group"] {
        copier.link(dir.join(link));
    }
}

/// Modules of interest.
pub fn modules(copier: &mut Copier<'_>) {
    copier.directory("sys/module");
    copier.file("proc/modules");
    for name in MODULES_OF_INTEREST {
        let dir = module_dir(name);
        copier.directory(&dir);
        copier.files(dir, &["version", "taint", "initstate", "srcversion"]);
    }
}

/// What the GPU's and storage drivers tell of themselves.
pub fn drivers(copier: &mut Copier<'_>) {
    copier.file("proc/driver/nvidia/version");
    for gpu in copier.list("proc/driver/nvidia/gpus") {
        copier.file(format!("proc/driver/nvidia/gpus/{gpu}/information"));
    }
    copier.files(
        "proc/driver/nvidia-fs",
        &["stats", "version", "bridges", "devcount", "modules"],
    );
    for client in copier.list("sys/kernel/mm/memory_peers") {
        copier.directory(format!("sys/kernel/mm/memory_peers/{client}"));
        copier.file(format!("sys/kernel/mm/memory_peers/{client}/version"));
    }
    for unit in copier.list("sys/class/iommu") {
        copier.link(format!("sys/class/iommu/{unit}"));
    }
}

/// Kernel, boot and kind of machine.
pub fn machine(copier: &mut Copier<'_>, interfaces: &BTreeSet<String>) {
    copier.files(
        "proc/sys/kernel",
        &["osrelease", "arch", "hostname", "random/boot_id"],
    );
    copier.files(
        "sys/class/dmi/id",
        &["sys_vendor", "product_name", "chassis_asset_tag"],
    );
    copier.link("sys/class/dmi/id");
    let host = copier.host;
    let read = |path: &str| tree::read_text(host, path).value().cloned();
    if let Some(text) = read("proc/cmdline") {
        let words = gpudirect::iommu_words(&text).join(" ");
        copier.text("proc/cmdline", &format!("{words}\n"));
    }
    if let Reading::Value(bytes) = tree::read_bytes(host, "proc/cpuinfo", 8192) {
        copier.text("proc/cpuinfo", &processor(&String::from_utf8_lossy(&bytes)));
    }
    if let Reading::Value(mut names) = routes::default_route_devices(host) {
        // Hardware addresses stay behind, which tell the NIC below a virtual switch.
        let over = |name: &&String| ovs::route_over(host, &names, name).is_some_and(|r| r.sure);
        let below: Vec<String> = interfaces.iter().filter(over).cloned().collect();
        names.extend(below);
        copier.text("proc/net/route", &default_routes(&names));
    }
}

/// The first processor's lines that tell the kind of machine.
fn processor(cpuinfo: &str) -> String {
    const KEPT: &[&str] = &[
        "vendor_id",
        "model name",
        "flags",
        "Features",
        "CPU implementer",
    ];
    cpuinfo
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| {
            line.split_once(':')
                .is_some_and(|(key, _)| KEPT.contains(&key.trim()))
        })
        .fold(String::new(), |text, line| text + line + "\n")
}

/// A routing table that says no more than which interfaces have a default route.
fn default_routes(names: &BTreeSet<String>) -> String {
    let mut text = String::from("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n");
    for name in names {
        let _ = writeln!(text, "{name}\t00000000\t00000000\t0003\t0\t0\t0\t00000000");
    }
    text
}
