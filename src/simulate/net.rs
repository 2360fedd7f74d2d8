//! Network devices: `/sys/class/net`, the route table, and the ethtool and DCB answers that a
//! directory tree holds as files.

use super::files::Files;
use super::spec::{NetdevSpec, NodeSpec};
use std::io;

pub(super) fn write(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    for netdev in &spec.netdevs {
        write_netdev(files, spec, netdev)?;
    }
    write_routes(files, spec)
}

fn write_netdev(files: &mut Files, spec: &NodeSpec, netdev: &NetdevSpec) -> io::Result<()> {
    let path = spec.netdev_path(netdev);
    let put = |name: &str, text: String| files.put(format!("{path}/{name}"), text + "\n");
    put("ifindex", netdev.ifindex.to_string())?;
    put("type", netdev.kind.to_string())?;
    put("mtu", netdev.mtu.to_string())?;
    put("dev_id", "0x0".into())?;
    put("dev_port", netdev.dev_port.to_string())?;
    put("duplex", "full".into())?;
    put("address", address(netdev))?;
    if let Some(bdf) = netdev.pci {
        files.link(format!("{path}/device"), spec.pci_path(bdf))?;
    }
    if let Some(master) = netdev.master.as_deref().and_then(|name| spec.netdev(name)) {
        let above = spec.netdev_path(master);
        files.link(format!("{path}/master"), &above)?;
        files.link(format!("{path}/upper_{}", master.name), &above)?;
        files.link(format!("{above}/lower_{}", netdev.name), &path)?;
        // Azure's pairing of a VF with its synthetic interface is no bond.
        if master.pci.is_none() && master.name.starts_with("bond") {
            files.put(format!("{above}/bonding/mode"), "802.3ad 4\n")?;
        }
    }
    files.link(format!("{path}/subsystem"), "sys/class/net")?;
    write_link(files, spec, netdev)?;
    write_ethtool(files, netdev)?;
    write_dcb(files, netdev)?;
    if let Some(links) = &netdev.vf_links {
        let text = serde_json::to_vec(links).map_err(io::Error::other)?;
        files.replace(format!("selvage/vf_links/{}.json", netdev.name), text)?;
    }
    files.link(format!("sys/class/net/{}", netdev.name), path)
}

/// Flags, carrier, operstate, speed and carrier edges (net/core/net-sysfs.c). While the interface
/// is administratively down, carrier and speed answer EINVAL.
pub(super) fn write_link(
    files: &mut Files,
    spec: &NodeSpec,
    netdev: &NetdevSpec,
) -> io::Result<()> {
    let path = spec.netdev_path(netdev);
    let up = netdev.admin_up && netdev.carrier;
    let flags: u32 = 0x1002 | u32::from(netdev.admin_up);
    let mut replace = |name: &str, text: String| files.replace(format!("{path}/{name}"), text);
    replace("flags", format!("{flags:#x}\n"))?;
    replace("operstate", if up { "up\n" } else { "down\n" }.into())?;
    let changes = netdev.carrier_changes;
    replace("carrier_changes", format!("{changes}\n"))?;
    replace("carrier_up_count", format!("{}\n", changes.div_ceil(2)))?;
    replace("carrier_down_count", format!("{}\n", changes / 2))?;
    if netdev.admin_up {
        replace("carrier", format!("{}\n", u8::from(netdev.carrier)))?;
        let speed = if up {
            netdev.speed.to_string()
        } else {
            "-1".into()
        };
        return replace("speed", format!("{speed}\n"));
    }
    for name in ["carrier", "speed"] {
        let at = format!("{path}/{name}");
        files.remove(&at)?;
        files.errno(
            &at,
            &[format!("sys/class/net/{}/{name}", netdev.name)],
            nix::libc::EINVAL,
        )?;
    }
    Ok(())
}

/// What `ethtool -S` would print.
pub(super) fn write_ethtool(files: &mut Files, netdev: &NetdevSpec) -> io::Result<()> {
    let Some((driver, statistics)) = &netdev.ethtool else {
        return Ok(());
    };
    let mut text = format!("driver: {driver}\n");
    for (name, value) in statistics {
        text += &format!("{name}: {value}\n");
    }
    files.replace(format!("selvage/ethtool/{}", netdev.name), text)
}

/// What DCB_CMD_IEEE_GET would answer.
pub(super) fn write_dcb(files: &mut Files, netdev: &NetdevSpec) -> io::Result<()> {
    let Some(dcb) = &netdev.dcb else {
        return Ok(());
    };
    let text = serde_json::to_vec(dcb).map_err(io::Error::other)?;
    files.replace(format!("selvage/dcb/{}.json", netdev.name), text)
}

/// `/proc/net/route` (net/ipv4/fib_trie.c: lines padded to 127 columns).
fn write_routes(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    let mut text = format!(
        "{:<127}\n",
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
    );
    if let Some(name) = &spec.default_route {
        for (destination, gateway, flags, mask) in [
            ("00000000", "0100000A", "0003", "00000000"),
            ("0000000A", "00000000", "0001", "0000FFFF"),
        ] {
            let line =
                format!("{name}\t{destination}\t{gateway}\t{flags}\t0\t0\t100\t{mask}\t0\t0\t0");
            text += &format!("{line:<127}\n");
        }
    }
    files.put("proc/1/net/route", text)
}

fn address(netdev: &NetdevSpec) -> String {
    let index = netdev.ifindex;
    if netdev.kind == 32 {
        let tail: Vec<String> = (0..12u32)
            .map(|n| format!("{:02x}", (index * 7 + n) & 0xff))
            .collect();
        return format!("00:00:10:29:fe:80:00:00:{}", tail.join(":"));
    }
    format!("b8:3f:d2:00:{:02x}:{:02x}", index >> 8, index & 0xff)
}
