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

/// How UCX takes an entry of `UCX_NET_DEVICES`. Names are compared whole
/// (`ucp_str_array_search`): there are no shell patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// Something that is there.
    There,
    /// A device without its port, from 1.21 on, or a range such as `mlx5_[0-7]:1`, from 1.22 on (UCX's
    /// NEWS). Older ones know nothing of that name.
    Newer,
    Nothing,
}

fn named(name: &str, there: &[String]) -> Named {
    if name == "all" || there.iter().any(|there| there == name) {
        return Named::There;
    }
    let is = |name: &str| {
        let device = |there: &String| there.split_once(':').is_some_and(|(d, _)| d == name);
        there.iter().any(|there| there == name || device(there))
    };
    let ranged = || expanded(name).is_some_and(|mut names| names.any(|name| is(&name)));
    match is(name) || ranged() {
        true => Named::Newer,
        false => Named::Nothing,
    }
}

/// The names of `mlx5_[0-7]:1`.
fn expanded(name: &str) -> Option<impl Iterator<Item = String>> {
    let (before, rest) = name.split_once('[')?;
    let (range, after) = rest.split_once(']')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    Some((first..=last).map(move |at| format!("{before}{at}{after}")))
}

/// `UCX_NET_DEVICES` (names such as `mlx5_0:1` and `eth0`) and `UCX_TLS`.
pub(super) fn ucx(scene: &Scene<'_>) -> Item {
    const ID: &str = "ucx_devices";
    let environment = &scene.facts.environment;
    let devices = environment.get("UCX_NET_DEVICES");
    let transports = environment.get("UCX_TLS");
    if devices.is_none() && transports.is_none() {
        return Item::skipped(ID, "neither UCX_NET_DEVICES nor UCX_TLS is set");
    }
    let mut rdma: Vec<String> = scene
        .candidates()
        .iter()
        .map(|(d, p)| port_name(d, p))
        .collect();
    if scene.fabric == Fabric::Efa {
        rdma.extend(scene.ports().map(|(d, p)| port_name(d, p)));
    }
    if let Some(value) = devices {
        let Reading::Value(interfaces) = &scene.facts.interfaces else {
            return unreadable(ID, &scene.facts.interfaces);
        };
        let running = interfaces.iter().filter(|i| i.running);
        let running = running.map(|interface| interface.name.clone());
        let there: Vec<String> = rdma.iter().cloned().chain(running).collect();
        if let Some(item) = ucx_names(ID, scene, value, there) {
            return item;
        }
    }
    // What has NCCL or MPI do without RDMA that is here.
    let mut culprits: Vec<String> = Vec::new();
    if !scene.candidates().is_empty() && !scene.is_one_node() {
        let by_name = devices.filter(|value| names_leave_out(value, &rdma));
        let by_kind = transports.filter(|value| transports_leave_out(value, scene.fabric));
        culprits.extend(by_name.map(|value| format!("UCX_NET_DEVICES={value}")));
        culprits.extend(by_kind.map(|value| format!("UCX_TLS={value}")));
    }
    if let (false, Some(by)) = (culprits.is_empty(), nccl_over_ucx(scene)) {
        let leave = if culprits.len() == 1 {
            "leaves"
        } else {
            "leave"
        };
        let remedy = match culprits
            .iter()
            .any(|one| one.starts_with("UCX_NET_DEVICES"))
        {
            true => format!("UCX_NET_DEVICES: unset it, or {}", any_of(&rdma)),
            false => "UCX_TLS: unset it, or add rc".into(),
        };
        return Item::degraded(
            ID,
            "UcxWithoutRdma",
            format!(
                "{} {leave} RDMA out, though it is here, and {by} has NCCL use UCX",
                culprits.join(" and ")
            ),
        )
        .fix(remedy);
    }
    let told: Vec<String> = [("UCX_NET_DEVICES", devices), ("UCX_TLS", transports)]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
        .collect();
    let note = match culprits.is_empty() {
        false => "; it leaves RDMA out, which NCCL does not go by: MPI's own messages take TCP",
        true => "",
    };
    Item::ok(ID, format!("{}{note}", told.join(", ")))
}

/// What is wrong with the names; none: nothing. `there`: RDMA ports and interfaces.
fn ucx_names(id: &'static str, scene: &Scene<'_>, value: &str, there: Vec<String>) -> Option<Item> {
    if value.starts_with('^') {
        return None;
    }
    let names: Vec<&str> = value.split(',').filter(|name| !name.is_empty()).collect();
    let of = |kind: Named| -> Vec<String> {
        let found = names.iter().filter(|name| named(name, &there) == kind);
        found.map(|name| (*name).to_string()).collect()
    };
    let (missing, newer) = (of(Named::Nothing), of(Named::Newer));
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
    let item = if missing.len() == names.len() {
        let what = format!("UCX_NET_DEVICES={value}: nothing usable has these names; UCX ends");
        Item::failing(id, "NoUcxDevice", what)
    } else if !missing.is_empty() {
        let missing = list(&missing);
        let what = format!("UCX_NET_DEVICES={value}: nothing usable is called {missing}");
        Item::degraded(id, "UcxPartly", what)
    } else if !newer.is_empty() {
        let what = format!(
            "UCX_NET_DEVICES={value}: UCX before 1.21 knows no device without its port, before 1.22 no range, and nothing is called {} then",
            list(&newer)
        );
        Item::degraded(id, "UcxNewForm", what)
    } else {
        return None;
    };
    let fixed = item.fix(format!("UCX_NET_DEVICES: unset it{choice}{resource}"));
    Some(fixed.with("there", there))
}

/// Whether the names leave no RDMA port.
fn names_leave_out(value: &str, rdma: &[String]) -> bool {
    match value.strip_prefix('^') {
        Some(names) => {
            let out = |port: &String| names.split(',').any(|name| name == port || name == "all");
            rdma.iter().all(out)
        }
        None => !value
            .split(',')
            .any(|name| named(name, rdma) != Named::Nothing),
    }
}

/// Whether the transports leave none of RDMA.
fn transports_leave_out(value: &str, fabric: Fabric) -> bool {
    let Some(names) = value.strip_prefix('^') else {
        return !value.split(',').any(is_rdma);
    };
    let out = |name: &str| names.split(',').any(|each| each == name);
    let kinds: &[&str] = match fabric {
        Fabric::Efa => &["srd", "ud"],
        _ => &["rc", "dc", "ud"],
    };
    out("all") || out("ib") || kinds.iter().all(|kind| out(kind))
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
