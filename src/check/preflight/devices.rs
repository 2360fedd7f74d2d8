//! RDMA devices: their nodes and ports.

use super::scene::{Fabric, Scene, alike, port_name};
use super::{Item, ItemStatus};
use crate::observe::container::SeenDevice;
use crate::observe::rdma::PortState;
use crate::observe::reading::{FaultKind, Reading};

/// How the resource is asked for. The name is the cluster's own; on EFA there is but one.
pub(super) fn ask(scene: &Scene<'_>) -> &'static str {
    match scene.efa.is_some() || scene.fabric == Fabric::Efa {
        true => {
            "resources.limits of the container: `\"vpc.amazonaws.com/efa\": 4`, as many as the node offers (`kubectl describe node`, under Allocatable; none there: the EFA device plugin); where the fabric is no EFA, that cluster's RDMA resource"
        }
        false => {
            "resources.limits of the container: the RDMA resource that this cluster's device plugin offers, such as `\"rdma/hca_shared_devices_a\": 1`, `\"nvidia.com/mlnxnics\": 1`, `\"openshift.io/…\": 1` or `\"vpc.amazonaws.com/efa\": 4` (`kubectl describe node` lists them under Allocatable)"
        }
    }
}

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
    let unasked = names(&|device| device.node == Reading::NotObservable);
    let bad: Vec<String> = names(&|device| {
        !matches!(
            device.node,
            Reading::Value(()) | Reading::Absent | Reading::NotObservable
        )
    });
    let item = if !unasked.is_empty() && bad.is_empty() {
        let item = Item::unknown(
            ID,
            "NoThread",
            format!(
                "no thread could be started to open {}: this container's limit of processes is reached, and NCCL starts threads too",
                list(&unasked)
            ),
        )
        .fix("the limit of processes: `ulimit -u`, the pids cgroup (kubelet's podPidsLimit)");
        scene.if_it_matters(item)
    } else if !open.is_empty() && bad.is_empty() {
        let others = match absent.len() {
            0 => String::new(),
            1 => "; 1 more is the node's and not given to this container".into(),
            more => format!("; {more} more are the node's and not given to this container"),
        };
        let told = format!(
            "{} open: {}{others}",
            count(open.len(), "device"),
            list(&open)
        );
        match scene.short_of_rails(open.len(), open.len() + kin(devices)) {
            Some(could) => Item::degraded(
                ID,
                "UverbsFewer",
                format!("{told}: the job's GPUs here could have {could}"),
            )
            .fix(ask(scene)),
            None => Item::ok(ID, told),
        }
    } else if !stalled.is_empty() {
        let item = Item::failing(
            ID,
            "UverbsStalled",
            format!("opening {} does not return: the job would hang there", list(&stalled)),
        )
        .fix("the device or its driver is stuck: `selvage check` and the kernel log on the node; drain it");
        // NCCL opens the devices on one node too, unless it is told to take TCP.
        match scene.tcp {
            Some(_) => scene.if_it_matters(item),
            None => item,
        }
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
            match denied.is_empty() {
                true => (ItemStatus::Failing, "UverbsBroken"),
                false => (ItemStatus::Failing, "UverbsDenied"),
            }
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
                "a node mounted from the host is refused by the device cgroup: ask for the resource instead. {}",
                ask(scene)
            )
        };
        let item = Item::new(
            ID,
            status,
            Some(reason),
            format!("{} cannot be opened: {why}", list(&bad)),
        )
        .fix(remedy);
        scene.if_it_matters(item)
    };
    item.with("open", open)
        .with("not_given", absent.len())
        .with("refused", bad)
}

/// How many devices like those that open are the node's, active, and not given to this container.
fn kin(devices: &[SeenDevice]) -> usize {
    let opens = |device: &SeenDevice| device.node == Reading::Value(());
    let active = |device: &SeenDevice| {
        let mut ports = device.ports.iter();
        ports.any(|port| port.state == Reading::Value(PortState::Active))
    };
    devices
        .iter()
        .filter(|device| device.node == Reading::Absent && active(device))
        .filter(|device| {
            devices
                .iter()
                .any(|other| opens(other) && alike(device, other))
        })
        .count()
}

/// There is nothing to open: whether that is wrong depends on what the job wants.
fn missing(scene: &Scene<'_>, id: &'static str, reason: &'static str, what: &str) -> Item {
    if scene.fabric == Fabric::TcpRails {
        return Item::skipped(
            id,
            format!("{what}; this platform's rails are network interfaces (GPUDirect-TCPX, TCPXO)"),
        )
        .with("rails", "interfaces");
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
        .fix(ask(scene)),
        None => Item::unknown(
            id,
            reason,
            format!("{what}; nothing here tells whether RDMA is wanted. NCCL will use TCP"),
        )
        .fix(format!("where RDMA is wanted: {}", ask(scene))),
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
        Item::failing(
            ID,
            "NoActivePort",
            format!("none of {total} ports is active: {}", list(&down)),
        )
        .fix(hint)
    } else {
        let selection = scene.hca_list();
        let asked_for = |name: &String| {
            let (device, port) = name.rsplit_once(':').unwrap_or((name, ""));
            selection.selects(device, port.parse().ok())
        };
        let of = |all: &[String]| -> Vec<String> {
            all.iter().filter(|name| asked_for(name)).cloned().collect()
        };
        // Of those that the list leaves; unset, it leaves all.
        let missed = of(&down);
        let named = !selection.excludes && !selection.entries.is_empty();
        // Given to this container and no other: each is meant to be used.
        let given = (scene.devices().iter()).any(|device| device.node == Reading::Absent);
        let fewer = scene
            .gpus
            .is_some_and(|gpus| u32::try_from(of(&active).len()).is_ok_and(|left| left < gpus));
        if named && !missed.is_empty() {
            Item::degraded(
                ID,
                "PortDown",
                format!("NCCL_IB_HCA selects {}, not active", list(&missed)),
            )
            .fix(hint)
        } else if !missed.is_empty() && (given || fewer) {
            Item::degraded(
                ID,
                "PortDown",
                format!(
                    "{} of {total} ports are not active: {}",
                    missed.len(),
                    list(&missed)
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
    let item = scene.if_it_matters(item);
    item.with("active", active)
        .with("not_active", down)
        .with("unread", unread)
}

/// `3 devices`.
pub(super) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// Names to choose from; there is at least one.
pub(super) fn any_of(names: &[String]) -> String {
    match names {
        [only] => only.clone(),
        _ => format!("one or more of {}", list(names)),
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
