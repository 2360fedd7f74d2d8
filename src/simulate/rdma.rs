//! RDMA devices as `/sys/class/infiniband` shows them (drivers/infiniband/core/sysfs.c).

use super::files::Files;
use super::spec::{Attr, Attrs, NodeSpec, PortSpec, RdmaSpec};
use std::io;

pub(super) fn write(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    if spec.modules.iter().any(|module| module.name == "ib_core") {
        files.dir("sys/class/infiniband")?;
        files.dir("sys/class/infiniband_verbs")?;
        files.put("sys/class/infiniband_verbs/abi_version", "6\n")?;
        files.put("dev/infiniband/rdma_cm", "")?;
    }
    for device in &spec.rdma {
        write_device(files, spec, device)?;
    }
    Ok(())
}

/// Writes one device; its class link comes last, as the device would appear.
pub(super) fn write_device(
    files: &mut Files,
    spec: &NodeSpec,
    device: &RdmaSpec,
) -> io::Result<()> {
    const NODE_TYPES: &[&str] = &[
        "",
        "CA",
        "switch",
        "router",
        "RNIC",
        "usNIC",
        "usNIC UDP",
        "unspecified",
    ];
    let path = spec.rdma_path(device);
    let put = |name: &str, text: &str| files.put(format!("{path}/{name}"), format!("{text}\n"));
    let node_type = NODE_TYPES
        .get(device.node_type as usize)
        .unwrap_or(&"<unknown>");
    put("node_type", &format!("{}: {node_type}", device.node_type))?;
    put("node_guid", &guid(device.guid))?;
    put("sys_image_guid", &guid(device.image_guid))?;
    put("node_desc", &format!("{} {}", spec.hostname, device.name))?;
    put("fw_ver", &device.firmware)?;
    if let Some(hca_type) = &device.hca_type {
        put("hca_type", hca_type)?;
        put("hw_rev", "0")?;
    }
    if let Some(board_id) = &device.board_id {
        put("board_id", board_id)?;
    }
    files.link(format!("{path}/device"), spec.pci_path(device.pci))?;
    files.link(format!("{path}/subsystem"), "sys/class/infiniband")?;
    if let Some(attrs) = &device.device_hw {
        write_attrs(files, &path, device, "hw_counters", attrs)?;
    }
    for port in &device.ports {
        write_port(files, spec, device, port)?;
    }
    write_verbs(files, spec, device)?;
    files.link(format!("sys/class/infiniband/{}", device.name), path)
}

/// Takes a device away: the class links first, as the device would vanish.
pub(super) fn remove_device(
    files: &mut Files,
    spec: &NodeSpec,
    device: &RdmaSpec,
) -> io::Result<()> {
    files.remove(format!("sys/class/infiniband/{}", device.name))?;
    let index = device.uverbs;
    files.remove(format!("sys/class/infiniband_verbs/uverbs{index}"))?;
    files.remove(format!("sys/class/infiniband_mad/umad{index}"))?;
    files.remove(format!("dev/infiniband/uverbs{index}"))?;
    files.remove(format!("dev/infiniband/umad{index}"))?;
    let function = spec.pci_path(device.pci);
    files.remove(format!("{function}/infiniband_verbs"))?;
    files.remove(format!("{function}/infiniband_mad"))?;
    files.remove(format!("{function}/infiniband"))
}

fn write_verbs(files: &mut Files, spec: &NodeSpec, device: &RdmaSpec) -> io::Result<()> {
    let index = device.uverbs;
    let function = spec.pci_path(device.pci);
    let uverbs = format!("{function}/infiniband_verbs/uverbs{index}");
    files.put(format!("{uverbs}/ibdev"), format!("{}\n", device.name))?;
    files.put(format!("{uverbs}/abi_version"), "1\n")?;
    files.link(format!("sys/class/infiniband_verbs/uverbs{index}"), &uverbs)?;
    files.put(format!("dev/infiniband/uverbs{index}"), "")?;
    if let Some(port) = device
        .ports
        .iter()
        .find(|port| port.link_layer == "InfiniBand")
    {
        let umad = format!("{function}/infiniband_mad/umad{index}");
        files.put(format!("{umad}/ibdev"), format!("{}\n", device.name))?;
        files.put(format!("{umad}/port"), format!("{}\n", port.number))?;
        files.link(format!("sys/class/infiniband_mad/umad{index}"), &umad)?;
        files.put(format!("dev/infiniband/umad{index}"), "")?;
    }
    Ok(())
}

fn write_port(
    files: &mut Files,
    spec: &NodeSpec,
    device: &RdmaSpec,
    port: &PortSpec,
) -> io::Result<()> {
    write_link(files, spec, device, port)?;
    let root = spec.rdma_path(device);
    let path = format!("{root}/ports/{}", port.number);
    let put = |name: &str, text: String| files.put(format!("{path}/{name}"), text + "\n");
    put("link_layer", port.link_layer.clone())?;
    put("lid", format!("{:#x}", port.lid))?;
    put("sm_lid", format!("{:#x}", port.sm_lid))?;
    put("lid_mask_count", "0".into())?;
    put("sm_sl", "0".into())?;
    let cap_mask = match port.link_layer.as_str() {
        "InfiniBand" => 0xa759_ec48_u32,
        "Ethernet" => 0x0405_0000,
        _ => 0,
    };
    put("cap_mask", format!("{cap_mask:#010x}"))?;
    for (n, pkey) in port.pkeys.iter().enumerate() {
        put(&format!("pkeys/{n}"), format!("{pkey:#06x}"))?;
    }
    for slot in 0..port.gid_slots {
        let gid = port.gids.iter().find(|gid| gid.index == slot);
        let empty = || ["0000"; 8].join(":");
        put(
            &format!("gids/{slot}"),
            gid.map_or_else(empty, |gid| gid.gid.clone()),
        )?;
    }
    let errno = |files: &mut Files, tail: String, errno: i32| {
        let below = format!("ports/{}/{tail}", port.number);
        files.errno(
            &format!("{root}/{below}"),
            &[format!("sys/class/infiniband/{}/{below}", device.name)],
            errno,
        )
    };
    for slot in 0..port.gid_slots {
        let gid = port.gids.iter().find(|gid| gid.index == slot);
        let kind = format!("gid_attrs/types/{slot}");
        match gid {
            Some(gid) => files.put(format!("{path}/{kind}"), format!("{}\n", gid.kind))?,
            None => errno(files, kind, nix::libc::EINVAL)?,
        }
        let ndev = format!("gid_attrs/ndevs/{slot}");
        match gid.and_then(|gid| gid.netdev.as_deref()) {
            Some(netdev) => files.put(format!("{path}/{ndev}"), format!("{netdev}\n"))?,
            None => errno(files, ndev, nix::libc::EINVAL)?,
        }
    }
    for (dir, attrs) in [("counters", &port.pma), ("hw_counters", &port.hw)] {
        if let Some(attrs) = attrs {
            let below = format!("ports/{}/{dir}", port.number);
            write_attrs(files, &root, device, &below, attrs)?;
        }
    }
    Ok(())
}

/// State, physical state and rate of a port.
pub(super) fn write_link(
    files: &mut Files,
    spec: &NodeSpec,
    device: &RdmaSpec,
    port: &PortSpec,
) -> io::Result<()> {
    const STATES: &[&str] = &["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];
    const PHYS: &[&str] = &[
        "<unknown>",
        "Sleep",
        "Polling",
        "Disabled",
        "PortConfigurationTraining",
        "LinkUp",
        "LinkErrorRecovery",
        "Phy Test",
    ];
    let path = format!("{}/ports/{}", spec.rdma_path(device), port.number);
    let state = STATES.get(port.state as usize).unwrap_or(&"UNKNOWN");
    let phys = PHYS.get(port.phys as usize).unwrap_or(&"<unknown>");
    files.replace(
        format!("{path}/state"),
        format!("{}: {state}\n", port.state),
    )?;
    files.replace(
        format!("{path}/phys_state"),
        format!("{}: {phys}\n", port.phys),
    )?;
    let rate = match &port.down_rate {
        Some(rate) if port.state < 4 => rate,
        _ => &port.rate,
    };
    files.replace(format!("{path}/rate"), format!("{rate}\n"))
}

/// One counter file that holds a number or text.
pub(super) fn write_attr(
    files: &mut Files,
    spec: &NodeSpec,
    device: &RdmaSpec,
    below: &str,
    attr: &Attr,
) -> io::Result<()> {
    let path = format!("{}/{below}", spec.rdma_path(device));
    match attr {
        Attr::Number(value) => files.replace(path, format!("{value}\n")),
        Attr::Text(text) => files.replace(path, format!("{text}\n")),
        Attr::Errno(_) => Ok(()),
    }
}

fn write_attrs(
    files: &mut Files,
    root: &str,
    device: &RdmaSpec,
    dir: &str,
    attrs: &Attrs,
) -> io::Result<()> {
    files.dir(format!("{root}/{dir}"))?;
    for (name, attr) in attrs {
        let path = format!("{root}/{dir}/{name}");
        match attr {
            Attr::Number(value) => files.put(path, format!("{value}\n"))?,
            Attr::Text(text) => files.put(path, format!("{text}\n"))?,
            Attr::Errno(errno) => {
                let class = format!("sys/class/infiniband/{}/{dir}/{name}", device.name);
                files.errno(&path, &[class], *errno)?;
            }
        }
    }
    Ok(())
}

/// A GUID as the kernel prints it.
fn guid(guid: u64) -> String {
    let text = format!("{guid:016x}");
    let part = |n: usize| text.get(n * 4..n * 4 + 4).unwrap_or_default();
    format!("{}:{}:{}:{}", part(0), part(1), part(2), part(3))
}
