//! RDMA devices: their nodes in /dev/infiniband and the state of their ports.

use super::context::{Context, Fabric, Port, is_alike, port_name, port_names};
use super::item::Item;
use super::wording::{count, list};
use crate::observe::container::SeenDevice;
use crate::observe::rdma::PortState;
use crate::observe::reading::{FaultKind, Reading};

/// How to request an RDMA device. The resource's name is the cluster's own; EFA has only one.
pub(super) fn request(context: &Context<'_>) -> &'static str {
    match context.efa.is_some() || context.fabric == Fabric::Efa {
        true => {
            "resources.limits of the container: `\"vpc.amazonaws.com/efa\": 4`, as many as the node offers (`kubectl describe node`, under Allocatable; if it lists none, install the EFA device plugin); if the fabric is not EFA, that cluster's RDMA resource"
        }
        false => {
            "resources.limits of the container: the RDMA resource that this cluster's device plugin offers, such as `\"rdma/hca_shared_devices_a\": 1`, `\"nvidia.com/mlnxnics\": 1`, `\"openshift.io/…\": 1` or `\"vpc.amazonaws.com/efa\": 4` (`kubectl describe node` lists them under Allocatable)"
        }
    }
}

fn names(devices: &[SeenDevice], node: impl Fn(&Reading<()>) -> bool) -> Vec<String> {
    let found = devices.iter().filter(|device| node(&device.node));
    found.map(|device| device.device.name.clone()).collect()
}

/// Judges the nodes in `/dev/infiniband`.
pub(super) fn uverbs(context: &Context<'_>) -> Item {
    let devices = match &context.facts.rdma {
        Reading::Value(devices) => devices,
        Reading::Failed(fault) => return Item::unknown("RdmaUnreadable", &fault.detail),
        _ => return Item::unknown("RdmaUnreadable", "/sys/class/infiniband cannot be read"),
    };
    if devices.is_empty() {
        return missing(context, "NoRdmaDevice", "this container has no RDMA device");
    }
    let open = names(devices, |node| *node == Reading::Value(()));
    let not_given = names(devices, |node| *node == Reading::Absent);
    let not_asked = names(devices, |node| *node == Reading::NotObservable);
    let refused = names(devices, |node| matches!(node, Reading::Failed(_)));
    let item = if !refused.is_empty() {
        judge_refused(context, devices, &open, &refused)
    } else if !not_asked.is_empty() {
        let item = Item::unknown("NoThread", format!("no thread could be started to open {}: this container's process limit is reached, and NCCL starts threads too", list(&not_asked)))
            .fix("the process limit: `ulimit -u`, the pids cgroup (kubelet's podPidsLimit)");
        context.if_rdma_matters(item)
    } else if open.is_empty() {
        let what = format!(
            "the node has {} ({}), and this container has no /dev/infiniband/uverbs* for any",
            count(not_given.len(), "RDMA device"),
            list(&not_given)
        );
        missing(context, "NoUverbs", &what)
    } else {
        judge_open(context, devices, &open, not_given.len())
    };
    item.with("open", open)
        .with("not_given", not_given.len())
        .with("refused", refused)
}

/// All devices that were given to this container open: whether they are enough.
fn judge_open(
    context: &Context<'_>,
    devices: &[SeenDevice],
    open: &[String],
    not_given: usize,
) -> Item {
    let others = match not_given {
        0 => String::new(),
        1 => "; 1 more belongs to the node and is not given to this container".into(),
        more => format!("; {more} more belong to the node and are not given to this container"),
    };
    let shown = format!(
        "{} open: {}{others}",
        count(open.len(), "device"),
        list(open)
    );
    // Active devices of the same kind that were not given to this container.
    let is_kin = |device: &&SeenDevice| {
        device.node == Reading::Absent
            && device.ports.iter().any(|port| port.is_active())
            && (devices.iter()).any(|other| other.is_open() && is_alike(device, other))
    };
    let kin = devices.iter().filter(is_kin).count();
    match context.short_of_rails(open.len(), open.len() + kin) {
        Some(could) => {
            let message = format!("{shown}: the job's GPUs here could use {could}");
            Item::degraded("UverbsFewer", message).fix(request(context))
        }
        None => Item::ok(shown),
    }
}

/// Some devices exist and do not open.
fn judge_refused(
    context: &Context<'_>,
    devices: &[SeenDevice],
    open: &[String],
    refused: &[String],
) -> Item {
    let of = |kind| {
        names(
            devices,
            |node| matches!(node, Reading::Failed(fault) if fault.kind == kind),
        )
    };
    let stalled = of(FaultKind::Stalled);
    if !stalled.is_empty() {
        let message = format!(
            "opening {} does not return: the job would hang there",
            list(&stalled)
        );
        let item = Item::failing("UverbsStalled", message)
            .fix("the device or its driver is stuck: `selvage check` and the kernel log on the node; drain it");
        // NCCL opens the devices on one node too, unless it is configured for TCP.
        return match context.tcp {
            Some(_) => context.if_rdma_matters(item),
            None => item,
        };
    }
    let mut faults = devices.iter().filter_map(|device| match &device.node {
        Reading::Failed(fault) => Some(fault.detail.as_str()),
        _ => None,
    });
    let why = faults.next().unwrap_or("no answer");
    let message = format!("{} cannot be opened: {why}", list(refused));
    let is_denied = !of(FaultKind::Denied).is_empty();
    let item = match (open.is_empty(), is_denied) {
        (false, _) => Item::degraded("UverbsPartly", message),
        (true, true) => Item::failing("UverbsDenied", message),
        (true, false) => Item::failing("UverbsBroken", message),
    };
    context.if_rdma_matters(item.fix(match is_denied {
        true => format!("the device cgroup refuses a node that is mounted from the host: request the resource instead. {}", request(context)),
        false => "inspect the device on the node: `selvage check`, kernel log".into(),
    }))
}

/// There is nothing to open: whether that is wrong depends on what the job needs.
fn missing(context: &Context<'_>, reason: &'static str, what: &str) -> Item {
    if context.fabric == Fabric::TcpRails {
        return Item::skipped(format!(
            "{what}; this platform's rails are network interfaces (GPUDirect-TCPX, TCPXO)"
        ))
        .with("rails", "interfaces");
    }
    if let Some(why) = context.without_rdma() {
        return Item::skipped(format!("{what}; {why}"));
    }
    let request = request(context);
    match &context.wanted {
        Some(why) => Item::failing(
            reason,
            format!("{what}, and {why}: NCCL will use TCP, or end"),
        )
        .fix(request),
        None => Item::unknown(
            reason,
            format!("{what}; nothing here shows whether RDMA is wanted. NCCL will use TCP"),
        )
        .fix(format!("if RDMA is wanted: {request}")),
    }
}

/// Why the ports are not judged.
pub(super) fn rdma_ports_skip(context: &Context<'_>) -> Option<&'static str> {
    match context.fabric {
        Fabric::Efa => Some("EFA always reports ACTIVE, which proves nothing"),
        _ if context.ports().is_empty() => Some("no device can be opened"),
        _ => None,
    }
}

/// Judges the states of the ports.
pub(super) fn rdma_ports(context: &Context<'_>) -> Item {
    let ports = context.ports();
    let (readable, unread): (Vec<Port<'_>>, Vec<Port<'_>>) =
        (ports.iter()).partition(|(_, port)| port.state.value().is_some());
    let (active, down): (Vec<Port<'_>>, Vec<Port<'_>>) =
        (readable.into_iter()).partition(|(_, port)| port.is_active());
    let is_init = |(_, port): &Port<'_>| port.state == Reading::Value(PortState::Init);
    let remedy = match ports.iter().any(is_init) {
        true => {
            "the link is up and no subnet manager has configured the port: check the subnet manager"
        }
        false => {
            "the link is down: `selvage check` on the node says why (cable, switch port, disabled interface); or use another node"
        }
    };
    let (active_names, down_names) = (port_names(&active), port_names(&down));
    let item = if active.is_empty() && down.is_empty() {
        let names = list(&port_names(&unread));
        Item::unknown(
            "PortStateUnreadable",
            format!("the state of {names} cannot be read"),
        )
    } else if active.is_empty() {
        let message = format!(
            "none of {} ports is active: {}",
            ports.len(),
            list(&down_names)
        );
        Item::failing("NoActivePort", message).fix(remedy)
    } else if let Some(message) = missed(context, ports.len(), &active, &down) {
        Item::degraded("PortDown", message).fix(remedy)
    } else {
        let rest = match down.is_empty() {
            true => String::new(),
            false => format!("; NCCL leaves out {}", list(&down_names)),
        };
        Item::ok(format!("{} of {} active{rest}", active.len(), ports.len()))
    };
    item.with("active", active_names)
        .with("not_active", down_names)
        .with("unread", port_names(&unread))
}

/// Inactive ports that the job would use, as a message: `NCCL_IB_HCA` names them, or they were given
/// to this container and not to others, or too few are left for the GPUs.
fn missed(
    context: &Context<'_>,
    all: usize,
    active: &[Port<'_>],
    down: &[Port<'_>],
) -> Option<String> {
    let list_read = context.hca_list();
    let selected = |ports: &[Port<'_>]| -> Vec<String> {
        let selected = ports.iter().filter(|port| list_read.selects_port(port));
        selected.map(port_name).collect()
    };
    let missed = selected(down);
    if missed.is_empty() {
        return None;
    }
    if !list_read.excludes && !list_read.entries.is_empty() {
        return Some(format!("NCCL_IB_HCA selects {}, not active", list(&missed)));
    }
    let is_share = context
        .devices()
        .iter()
        .any(|device| device.node == Reading::Absent);
    let left = u32::try_from(selected(active).len()).unwrap_or(u32::MAX);
    let too_few = context.gpus.is_some_and(|gpus| left < gpus);
    (is_share || too_few).then(|| {
        format!(
            "{} of {all} ports are not active: {}",
            missed.len(),
            list(&missed)
        )
    })
}

#[cfg(test)]
mod tests;
