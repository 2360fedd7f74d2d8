//! Lists of other communication libraries: UCX, Open MPI.

use super::Item;
use super::devices::{any_of, ask, list};
use super::interfaces::{is_local_only, unreadable};
use super::scene::{Fabric, Scene, port_name};
use crate::observe::reading::Reading;
use std::net::IpAddr;

/// Transports and groups of them by which UCX reaches RDMA hardware (src/uct/ib,
/// `ucp_tl_aliases` in src/ucp/core/ucp_context.c).
const RDMA_TRANSPORTS: &[&str] = &[
    "all", "ib", "rc", "ud", "dc", "srd", "rc_", "ud_", "dc_", "gga", "mlx5",
];

/// `UCX_NET_DEVICES` (names such as `mlx5_0:1` and `eth0`) and `UCX_TLS`.
pub(super) fn ucx(scene: &Scene<'_>) -> Item {
    const ID: &str = "ucx_devices";
    let environment = &scene.facts.environment;
    let devices = environment.get("UCX_NET_DEVICES");
    let transports = environment.get("UCX_TLS");
    if devices.is_none() && transports.is_none() {
        return Item::skipped(ID, "neither UCX_NET_DEVICES nor UCX_TLS is set");
    }
    if let Some(value) = devices {
        let Reading::Value(interfaces) = &scene.facts.interfaces else {
            return unreadable(ID, &scene.facts.interfaces);
        };
        let mut there: Vec<String> = scene
            .candidates()
            .iter()
            .map(|(d, p)| port_name(d, p))
            .collect();
        if scene.fabric == Fabric::Efa {
            there.extend(scene.ports().map(|(d, p)| port_name(d, p)));
        }
        let running = interfaces.iter().filter(|i| i.running);
        there.extend(running.map(|interface| interface.name.clone()));
        let (excludes, names) = match value.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, value),
        };
        let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
        let known = |name: &str| name == "all" || there.iter().any(|there| glob(name, there));
        let missing: Vec<String> = names
            .iter()
            .filter(|name| !known(name))
            .map(|name| (*name).to_string())
            .collect();
        let hint = missing
            .iter()
            .find(|name| {
                there
                    .iter()
                    .any(|there| there.split(':').next() == Some(name))
            })
            .map_or(String::new(), |name| {
                format!(" (an RDMA device is named with its port: {name}:1)")
            });
        let offered: Vec<String> = (there.iter().filter(|name| !is_local_only(name)))
            .cloned()
            .collect();
        // A device with its port was meant, and this container has none.
        let is_device = |name: &String| name.contains(':') || name.starts_with("mlx");
        let resource = match scene.ports().next() {
            None if missing.iter().any(is_device) => {
                format!("; for an RDMA device: {}", ask(scene))
            }
            _ => String::new(),
        };
        let choice = match offered.is_empty() {
            true => String::new(),
            false => format!(", or {}", any_of(&offered)),
        };
        if !excludes && missing.len() == names.len() {
            return Item::failing(
                ID,
                "NoUcxDevice",
                format!("UCX_NET_DEVICES={value}: nothing usable has these names{hint}; UCX ends"),
            )
            .fix(format!("UCX_NET_DEVICES: unset it{choice}{resource}"))
            .with("there", there);
        }
        if !excludes && !missing.is_empty() {
            return Item::degraded(
                ID,
                "UcxPartly",
                format!(
                    "UCX_NET_DEVICES={value}: nothing usable is called {}{hint}",
                    list(&missing)
                ),
            )
            .fix(format!("UCX_NET_DEVICES: unset it{choice}{resource}"))
            .with("there", there);
        }
    }
    let without_rdma = transports.is_some_and(|value| {
        !value.starts_with('^')
            && !value.split(',').any(is_rdma)
            && !scene.candidates().is_empty()
            && !scene.is_one_node()
    });
    if let (Some(value), Some(by)) = (transports, nccl_over_ucx(scene))
        && without_rdma
    {
        return Item::degraded(
            ID,
            "UcxWithoutRdma",
            format!(
                "UCX_TLS={value} leaves RDMA out, though it is here, and {by} has NCCL use UCX"
            ),
        )
        .fix("UCX_TLS: unset it, or add rc");
    }
    let told: Vec<String> = [("UCX_NET_DEVICES", devices), ("UCX_TLS", transports)]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
        .collect();
    let note = match without_rdma {
        true => "; it leaves RDMA out, which NCCL does not go by: MPI's own messages take TCP",
        false => "",
    };
    Item::ok(ID, format!("{}{note}", told.join(", ")))
}

/// The setting that has NCCL use UCX: its network (`UCX`), its plugin, or what HPC-X's plugin goes
/// over.
fn nccl_over_ucx(scene: &Scene<'_>) -> Option<String> {
    let ucx = |value: &str| value.to_ascii_lowercase().contains("ucx");
    ["NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_PLUGIN_P2P"]
        .into_iter()
        .filter_map(|name| scene.nccl(name))
        .find(|asked| ucx(asked.setting.value))
        .map(|asked| asked.told())
}

/// Newer UCX takes shell patterns.
fn glob(pattern: &str, name: &str) -> bool {
    crate::glob::matches(pattern, name)
}

fn is_rdma(transport: &str) -> bool {
    // `rc:aux` narrows one; a backslash asks for the very name.
    let name = transport.split(':').next().unwrap_or_default();
    let name = name.trim_start_matches('\\');
    RDMA_TRANSPORTS
        .iter()
        .any(|known| match known.strip_suffix('_') {
            Some(_) => name.starts_with(known),
            None => name == *known,
        })
}

/// Open MPI's lists: names or networks (`10.0.0.0/16`), divided by commas.
const MPI: &[&str] = &[
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_oob_tcp_if_include",
    "PRTE_MCA_oob_tcp_if_include",
];

/// Interface lists of Open MPI.
pub(super) fn mpi(scene: &Scene<'_>) -> Item {
    const ID: &str = "mpi_ifname";
    let set: Vec<(&str, &str)> = MPI
        .iter()
        .filter_map(|name| Some((*name, scene.facts.environment.get(name)?)))
        .collect();
    if set.is_empty() {
        return Item::skipped(ID, "no interface list of Open MPI is set");
    }
    let Reading::Value(interfaces) = &scene.facts.interfaces else {
        return unreadable(ID, &scene.facts.interfaces);
    };
    let there: Vec<String> = interfaces
        .iter()
        .filter(|interface| interface.running && !interface.addresses.is_empty())
        .map(|interface| interface.name.clone())
        .collect();
    let is_there = |entry: &str| match entry.split_once('/') {
        Some(_) => interfaces
            .iter()
            .flat_map(|interface| &interface.addresses)
            .any(|address| in_network(*address, entry)),
        None => there.iter().any(|name| name == entry),
    };
    for (name, value) in &set {
        let entries: Vec<&str> = value.split(',').filter(|entry| !entry.is_empty()).collect();
        let missing: Vec<String> = entries
            .iter()
            .filter(|entry| !is_there(entry))
            .map(|entry| (*entry).to_string())
            .collect();
        if missing.is_empty() {
            continue;
        }
        let message = format!("{name}={value}: no interface in here is {}", list(&missing));
        let offered: Vec<String> = (there.iter().filter(|name| !is_local_only(name)))
            .cloned()
            .collect();
        let remedy = match offered.is_empty() {
            true => {
                format!("{name}: unset it; no interface in here but the loopback has an address")
            }
            false => format!("{name}: {}", any_of(&offered)),
        };
        return match missing.len() == entries.len() {
            true => Item::failing(ID, "NoInterface", message).fix(remedy),
            false => Item::degraded(ID, "MpiPartly", message).fix(remedy),
        };
    }
    let told: Vec<String> = set
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Item::ok(ID, told.join(", "))
}

/// Whether an address is in a network written as `10.0.0.0/16`.
fn in_network(address: IpAddr, network: &str) -> bool {
    let Some((base, bits)) = network.split_once('/') else {
        return false;
    };
    let (Ok(base), Ok(bits)) = (base.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (address, base) {
        (IpAddr::V4(address), IpAddr::V4(base)) if bits <= 32 => {
            let differ = u32::from(address) ^ u32::from(base);
            bits == 0 || differ >> (32 - bits) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(base)) if bits <= 128 => {
            let differ = u128::from(address) ^ u128::from(base);
            bits == 0 || differ >> (128 - bits) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
