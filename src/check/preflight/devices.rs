//! RDMA devices: nodes, ports, and which of them `NCCL_IB_HCA` selects.

use super::nccl_list::NcclList;
use super::scene::{Fabric, Scene, layer, port_name};
use super::{Item, ItemStatus};
use crate::observe::container::SeenDevice;
use crate::observe::rdma::{LinkLayer, PortState};
use crate::observe::reading::{FaultKind, Reading};

/// How the resource is asked for. The name is the cluster's own.
const ASK: &str = "resources.limits of the container: the RDMA resource that this cluster's device plugin offers, such as `\"rdma/hca_shared_devices_a\": 1`, `\"nvidia.com/mlnxnics\": 1`, `\"openshift.io/…\": 1` or `\"vpc.amazonaws.com/efa\": 4` (`kubectl describe node` lists them under Allocatable)";

/// Names listed in a message.
const NAMES: usize = 12;

/// Nodes in `/dev/infiniband`.
pub(super) fn uverbs(scene: &Scene<'_>) -> Item {
    const ID: &str = "uverbs";
    let devices = match &scene.facts.rdma {
        Reading::Value(devices) => devices,
        Reading::Failed(fault) => {
            return Item::unknown(ID, "RdmaUnreadable", fault.detail.clone());
        }
        _ => return Item::unknown(ID, "RdmaUnreadable", "/sys/class/infiniband cannot be read"),
    };
    if devices.is_empty() {
        return missing(
            scene,
            ID,
            "NoRdmaDevice",
            "there is no RDMA device in this container",
        );
    }
    let names = |wanted: &dyn Fn(&SeenDevice) -> bool| -> Vec<String> {
        let found = devices.iter().filter(|device| wanted(device));
        found.map(|device| device.device.name.clone()).collect()
    };
    let fault = |device: &SeenDevice, kind: FaultKind| matches!(&device.node, Reading::Failed(fault) if fault.kind == kind);
    let open = names(&|device| device.node == Reading::Value(()));
    let absent = names(&|device| device.node == Reading::Absent);
    let denied = names(&|device| fault(device, FaultKind::Denied));
    let stalled = names(&|device| fault(device, FaultKind::Stalled));
    let bad: Vec<String> =
        names(&|device| !matches!(device.node, Reading::Value(()) | Reading::Absent));
    let item = if !open.is_empty() && bad.is_empty() {
        let others = match absent.len() {
            0 => String::new(),
            more => format!("; {more} more are the node's and not given to this container"),
        };
        Item::ok(
            ID,
            format!(
                "{} open: {}{others}",
                count(open.len(), "device"),
                list(&open)
            ),
        )
    } else if !stalled.is_empty() {
        Item::failing(
            ID,
            "UverbsStalled",
            format!("opening {} does not return: the job would hang there", list(&stalled)),
        )
        .fix("the device or its driver is stuck: `selvage check` and the kernel log on the node; drain it")
    } else if open.is_empty() && bad.is_empty() {
        missing(
            scene,
            ID,
            "NoUverbs",
            &format!(
                "the node has {} ({}), and this container has no /dev/infiniband/uverbs* for any",
                count(absent.len(), "RDMA device"),
                list(&absent)
            ),
        )
    } else {
        let (status, reason) = if open.is_empty() {
            (ItemStatus::Failing, "UverbsDenied")
        } else {
            (ItemStatus::Degraded, "UverbsPartly")
        };
        let why = devices.iter().find_map(|device| match &device.node {
            Reading::Failed(fault) => Some(fault.detail.clone()),
            _ => None,
        });
        let why = why.unwrap_or_else(|| "no answer".into());
        let remedy = if denied.is_empty() {
            "look at the device on the node: `selvage check`, kernel log".to_string()
        } else {
            format!(
                "a node mounted from the host is refused by the device cgroup: ask for the resource instead. {ASK}"
            )
        };
        Item::new(
            ID,
            status,
            Some(reason),
            format!("{} cannot be opened: {why}", list(&bad)),
        )
        .fix(remedy)
    };
    item.with("open", open)
        .with("not_given", absent.len())
        .with("refused", bad)
}

/// There is nothing to open: whether that is wrong depends on what the job wants.
fn missing(scene: &Scene<'_>, id: &'static str, reason: &'static str, what: &str) -> Item {
    if scene.fabric == Fabric::TcpRails {
        return Item::skipped(
            id,
            format!("{what}; this platform's rails are network interfaces (GPUDirect-TCPX, TCPXO)"),
        );
    }
    if let Some(why) = scene.does_without() {
        return Item::skipped(id, format!("{what}; {why}"));
    }
    match &scene.wanted {
        Some(why) => Item::failing(
            id,
            reason,
            format!("{what}, and {why}: NCCL will use TCP, or end"),
        )
        .fix(ASK),
        None => Item::unknown(
            id,
            reason,
            format!("{what}; nothing here tells whether RDMA is wanted. NCCL will use TCP"),
        )
        .fix(format!("where RDMA is wanted: {ASK}")),
    }
}

/// States of the ports.
pub(super) fn ports(scene: &Scene<'_>) -> Item {
    const ID: &str = "rdma_ports";
    if scene.fabric == Fabric::Efa {
        return Item::skipped(ID, "EFA always says ACTIVE, which tells nothing");
    }
    let ports: Vec<_> = scene.ports().collect();
    if ports.is_empty() {
        return Item::skipped(ID, "no device can be opened");
    }
    let named = |state: PortState| -> Vec<String> {
        ports
            .iter()
            .filter(|(_, port)| port.state == Reading::Value(state))
            .map(|(device, port)| port_name(device, port))
            .collect()
    };
    let active = named(PortState::Active);
    let init = named(PortState::Init);
    let unread: Vec<String> = ports
        .iter()
        .filter(|(_, port)| port.state.value().is_none())
        .map(|(device, port)| port_name(device, port))
        .collect();
    let down: Vec<String> = ports
        .iter()
        .filter(|(_, port)| port.state.value().is_some_and(|s| *s != PortState::Active))
        .map(|(device, port)| port_name(device, port))
        .collect();
    let total = ports.len();
    let hint = if init.is_empty() {
        "the link is down: `selvage check` on the node says why (cable, switch port, interface that is down); or take another node"
    } else {
        "the link is up and no subnet manager has configured the port: look at the subnet manager"
    };
    let item = if active.is_empty() && down.is_empty() {
        Item::unknown(
            ID,
            "PortStateUnreadable",
            format!("the state of {} cannot be read", list(&unread)),
        )
    } else if active.is_empty() {
        if let Some(why) = scene.does_without() {
            Item::skipped(ID, format!("no port is active; {why}"))
        } else {
            Item::failing(
                ID,
                "NoActivePort",
                format!("none of {total} ports is active: {}", list(&down)),
            )
            .fix(hint)
        }
    } else {
        let selection = scene.hca_list();
        let asked_for = |name: &String| {
            let (device, port) = name.rsplit_once(':').unwrap_or((name, ""));
            !selection.excludes
                && !selection.entries.is_empty()
                && selection.selects(device, port.parse().ok())
        };
        let missed: Vec<String> = down
            .iter()
            .filter(|name| asked_for(name))
            .cloned()
            .collect();
        // Given to this container and no other: each is meant to be used.
        let given = (scene.devices().iter()).any(|device| device.node == Reading::Absent);
        let fewer = scene
            .gpus
            .is_some_and(|gpus| u32::try_from(active.len()).is_ok_and(|active| active < gpus));
        if !missed.is_empty() {
            Item::degraded(
                ID,
                "PortDown",
                format!("NCCL_IB_HCA selects {}, not active", list(&missed)),
            )
            .fix(hint)
        } else if !down.is_empty() && (given || fewer) && selection.entries.is_empty() {
            Item::degraded(
                ID,
                "PortDown",
                format!(
                    "{} of {total} ports are not active: {}",
                    down.len(),
                    list(&down)
                ),
            )
            .fix(hint)
        } else {
            let rest = match down.len() {
                0 => String::new(),
                _ => format!("; NCCL leaves out {}", list(&down)),
            };
            Item::ok(ID, format!("{} of {total} active{rest}", active.len()))
        }
    };
    item.with("active", active)
        .with("not_active", down)
        .with("unread", unread)
}

/// What `NCCL_IB_HCA` comes to.
pub(super) fn ib_hca(scene: &Scene<'_>) -> Item {
    const ID: &str = "ib_hca";
    match scene.fabric {
        Fabric::Efa => return Item::skipped(ID, "EFA's plugin takes its devices itself"),
        Fabric::TcpRails | Fabric::None => return Item::skipped(ID, "there is no RDMA device"),
        Fabric::Unknown => return Item::skipped(ID, "RDMA devices could not be listed"),
        Fabric::Verbs => {}
    }
    let candidates = scene.candidates();
    let names: Vec<String> = candidates.iter().map(|(d, p)| port_name(d, p)).collect();
    let Some(asked) = scene.nccl("NCCL_IB_HCA") else {
        return match candidates.is_empty() {
            true => Item::skipped(ID, "not set, and no port is usable"),
            false => Item::ok(ID, format!("not set: NCCL takes {}", list(&names))),
        };
    };
    let told = asked.told();
    let selection = scene.hca_list();
    let selected: Vec<String> = scene
        .selected()
        .iter()
        .map(|(d, p)| port_name(d, p))
        .collect();
    let item = if selected.is_empty() {
        let status = match scene.does_without() {
            Some(_) => ItemStatus::Degraded,
            None => ItemStatus::Failing,
        };
        let what = match candidates.is_empty() {
            true => format!("{told}, and no port is usable in here"),
            false => format!("{told} selects no port: usable are {}", list(&names)),
        };
        Item::new(
            ID,
            status,
            Some("HcaMatchesNothing"),
            format!("{what}{}", why_nothing(scene, &selection, asked.setting.value)),
        )
        .fix(match candidates.is_empty() {
            true => "first see to the devices (uverbs, rdma_ports); then unset NCCL_IB_HCA, or name what is there".to_string(),
            false => format!("NCCL_IB_HCA: unset it, or `{}`", suggestion(&candidates)),
        })
    } else {
        let unmatched: Vec<String> = selection
            .entries
            .iter()
            .filter(|entry| {
                !(candidates.iter()).any(|(device, port)| {
                    selection.names(entry, &device.device.name, Some(port.number))
                })
            })
            .map(|entry| entry.name.clone())
            .collect();
        let more = takes_more(&selection, &candidates);
        if !selection.excludes && !unmatched.is_empty() {
            Item::degraded(
                ID,
                "HcaPartly",
                format!(
                    "{told}: nothing usable is called {}; NCCL takes only {}",
                    list(&unmatched),
                    list(&selected)
                ),
            )
            .fix("NCCL_IB_HCA: take these names out, or see why their ports are not active (rdma_ports)")
        } else if let Some((entry, others)) = more {
            Item::degraded(
                ID,
                "HcaPrefix",
                format!(
                    "{told}: entries are prefixes, so that {entry} takes {} too",
                    list(&others)
                ),
            )
            .fix(format!(
                "NCCL_IB_HCA: `={}` for whole names",
                asked.setting.value.trim_start_matches(['^', '='])
            ))
        } else {
            Item::ok(ID, format!("{told} selects {}", list(&selected)))
        }
    };
    item.with("selected", selected)
}

/// An entry that is a whole name, and by being a prefix takes ports that nobody named.
fn takes_more(
    selection: &NcclList,
    candidates: &[(&SeenDevice, &crate::observe::container::SeenPort)],
) -> Option<(String, Vec<String>)> {
    if selection.exact || selection.excludes {
        return None;
    }
    let is_named = |name: &str| selection.entries.iter().any(|entry| entry.name == name);
    selection.entries.iter().find_map(|entry| {
        let whole = candidates.iter().any(|(d, _)| d.device.name == entry.name);
        let others: Vec<String> = candidates
            .iter()
            .map(|(device, _)| device.device.name.clone())
            .filter(|name| name.starts_with(&entry.name) && *name != entry.name && !is_named(name))
            .collect();
        (whole && !others.is_empty()).then(|| (entry.name.clone(), others))
    })
}

/// A guess at what went wrong with a list.
fn why_nothing(scene: &Scene<'_>, selection: &NcclList, value: &str) -> String {
    if let Some(entry) = selection.with_blanks() {
        return format!(
            " (the blank in {:?} counts as part of the name)",
            entry.name
        );
    }
    if selection.excludes && selection.entries.is_empty() {
        return " (an exclusion without names leaves out everything)".into();
    }
    if value.starts_with("==") {
        return " (the second = is taken for part of the name)".into();
    }
    if value.contains(['*', '?', ';']) {
        return " (NCCL knows no wildcards, and commas alone divide)".into();
    }
    let there = scene.devices().iter().find(|device| {
        device.ports.iter().any(|port| {
            !selection.excludes && selection.selects(&device.device.name, Some(port.number))
        })
    });
    match there {
        Some(device) if device.node != Reading::Value(()) => format!(
            " ({} is on the node and not usable in this container)",
            device.device.name
        ),
        Some(device) => format!(" ({} is here, its port is not active)", device.device.name),
        None => String::new(),
    }
}

/// A list that would do: whole names of the compute ports' devices.
fn suggestion(candidates: &[(&SeenDevice, &crate::observe::container::SeenPort)]) -> String {
    let mut names: Vec<&str> = candidates
        .iter()
        .filter(|(device, port)| layer(device, port) != LinkLayer::Unspecified)
        .map(|(device, _)| device.device.name.as_str())
        .collect();
    names.dedup();
    format!("={}", names.join(","))
}

/// `3 devices`.
pub(super) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// Names, of which the first few are told.
pub(super) fn list(names: &[String]) -> String {
    let shown = names.iter().take(NAMES).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(NAMES) {
        0 if names.is_empty() => "none".into(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
