//! PCI functions under `/sys/devices`, their class and bus links (drivers/pci/pci-sysfs.c).

use super::files::Files;
use super::spec::{NodeSpec, PciSpec};
use std::io;

pub(super) fn write(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    files.dir("sys/bus/pci/devices")?;
    for (number, pci) in spec.pci.values().enumerate() {
        write_function(files, spec, pci)?;
        if let Some(kind) = &spec.iommu {
            let group = format!("sys/kernel/iommu_groups/{number}");
            files.put(format!("{group}/type"), format!("{kind}\n"))?;
            let path = spec.pci_path(pci.bdf);
            files.link(format!("{group}/devices/{}", pci.bdf), &path)?;
            files.link(format!("{path}/iommu_group"), group)?;
        }
    }
    files.dir("sys/class/iommu")?;
    files.dir("sys/kernel/iommu_groups")?;
    if spec.iommu.is_some() {
        let name = if spec.arch == "aarch64" {
            "smmu3.0x0000000005000000"
        } else {
            "dmar0"
        };
        let path = format!("sys/devices/virtual/iommu/{name}");
        files.dir(&path)?;
        files.link(format!("sys/class/iommu/{name}"), path)?;
    }
    Ok(())
}

fn write_function(files: &mut Files, spec: &NodeSpec, pci: &PciSpec) -> io::Result<()> {
    let path = spec.pci_path(pci.bdf);
    let put = |name: &str, text: String| files.put(format!("{path}/{name}"), text + "\n");
    put("vendor", format!("{:#06x}", pci.vendor))?;
    put("device", format!("{:#06x}", pci.device))?;
    put("class", format!("{:#08x}", pci.class))?;
    put("numa_node", pci.numa.to_string())?;
    put("enable", "1".into())?;
    put("max_link_speed", pci.max_link.0.clone())?;
    put("max_link_width", pci.max_link.1.to_string())?;
    if let Some((total, vfs)) = &pci.sriov {
        put("sriov_totalvfs", total.to_string())?;
        put("sriov_numvfs", vfs.len().to_string())?;
        for (n, vf) in vfs.iter().enumerate() {
            files.link(format!("{path}/virtfn{n}"), spec.pci_path(*vf))?;
        }
    }
    if let Some(provider) = &pci.p2p {
        put("p2p", provider.clone())?;
    }
    if let Some(physfn) = pci.physfn {
        files.link(format!("{path}/physfn"), spec.pci_path(physfn))?;
    }
    files.link(format!("{path}/subsystem"), "sys/bus/pci")?;
    files.link(format!("sys/bus/pci/devices/{}", pci.bdf), &path)?;
    if let Some(driver) = &pci.driver {
        let dir = format!("sys/bus/pci/drivers/{driver}");
        files.link(format!("{dir}/{}", pci.bdf), &path)?;
        files.link(format!("{dir}/module"), format!("sys/module/{driver}"))?;
        files.link(format!("{path}/driver"), dir)?;
    }
    write_link(files, spec, pci)?;
    write_aer(files, spec, pci)?;
    write_config(files, spec, pci)
}

/// Current speed and width.
pub(super) fn write_link(files: &mut Files, spec: &NodeSpec, pci: &PciSpec) -> io::Result<()> {
    let path = spec.pci_path(pci.bdf);
    files.replace(
        format!("{path}/current_link_speed"),
        format!("{}\n", pci.link.0),
    )?;
    files.replace(
        format!("{path}/current_link_width"),
        format!("{}\n", pci.link.1),
    )
}

/// AER totals. Everything is told under the last name of each list (drivers/pci/pcie/aer.c).
pub(super) fn write_aer(files: &mut Files, spec: &NodeSpec, pci: &PciSpec) -> io::Result<()> {
    const CORRECTABLE: &[&str] = &[
        "RxErr",
        "BadTLP",
        "BadDLLP",
        "Rollover",
        "Timeout",
        "NonFatalErr",
        "CorrIntErr",
        "HeaderOF",
    ];
    const UNCORRECTABLE: &[&str] = &[
        "Undefined",
        "DLP",
        "SDES",
        "TLP",
        "FCP",
        "CmpltTO",
        "CmpltAbrt",
        "UnxCmplt",
        "RxOF",
        "MalfTLP",
        "ECRC",
        "UnsupReq",
        "ACSViol",
        "UncorrIntErr",
        "BlockedTLP",
        "AtomicOpBlocked",
        "TLPBlockedErr",
        "PoisonTLPBlocked",
    ];
    let Some([correctable, nonfatal, fatal]) = pci.aer else {
        return Ok(());
    };
    let path = spec.pci_path(pci.bdf);
    for (file, names, total, count) in [
        (
            "aer_dev_correctable",
            CORRECTABLE,
            "TOTAL_ERR_COR",
            correctable,
        ),
        (
            "aer_dev_nonfatal",
            UNCORRECTABLE,
            "TOTAL_ERR_NONFATAL",
            nonfatal,
        ),
        ("aer_dev_fatal", UNCORRECTABLE, "TOTAL_ERR_FATAL", fatal),
    ] {
        let mut text = String::new();
        for (n, name) in names.iter().enumerate() {
            text += &format!("{name} {}\n", if n == 0 { count } else { 0 });
        }
        text += &format!("{total} {count}\n");
        files.replace(format!("{path}/{file}"), text)?;
    }
    Ok(())
}

/// Config space: 256 bytes of an endpoint, 4096 of a bridge (with an ACS capability at 0x100).
pub(super) fn write_config(files: &mut Files, spec: &NodeSpec, pci: &PciSpec) -> io::Result<()> {
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
        // Capability 0x000d, version 1, no next; control at +6: SV, RR, CR, UF.
        set(0x100, &0x0001_000d_u32.to_le_bytes());
        set(0x104, &0x001f_u16.to_le_bytes());
        set(0x106, &(if pci.acs { 0x001d_u16 } else { 0 }).to_le_bytes());
    }
    if pci.dead {
        config.fill(0xff);
    }
    files.replace(format!("{}/config", spec.pci_path(pci.bdf)), config)
}
