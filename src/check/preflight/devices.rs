//! RDMA devices: their nodes in /dev/infiniband and the state of their ports.

use super::{
    Checked, Item, PodFabric, PodPort, PodView, count, is_alike, known, list, port_name, port_names,
};
use crate::observe::{Fault, FaultKind, PortState, Reading, SeenDevice};

/// How to request an RDMA device. The resource's name is the cluster's own; EFA has only one.
const REQUEST: &str = "resources.limits of the container: the RDMA resource that this cluster's device plugin offers, such as `\"rdma/hca_shared_devices_a\": 1`, `\"nvidia.com/mlnxnics\": 1`, `\"openshift.io/…\": 1` or `\"vpc.amazonaws.com/efa\": 4` (`kubectl describe node` lists them under Allocatable)";
const REQUEST_EFA: &str = "resources.limits of the container: `\"vpc.amazonaws.com/efa\": 4`, as many as the node offers (`kubectl describe node`, under Allocatable; if it lists none, install the EFA device plugin); if the fabric is not EFA, that cluster's RDMA resource";

/// How to request one of the devices that this container should have.
pub(super) fn request(context: &PodView<'_>) -> &'static str {
    let is_efa = context.efa.is_some() || context.fabric == PodFabric::Efa;
    if is_efa { REQUEST_EFA } else { REQUEST }
}

fn names(devices: &[SeenDevice], node: impl Fn(&Reading<()>) -> bool) -> Vec<String> {
    let found = devices.iter().filter(|device| node(&device.node));
    found.map(|device| device.device.name.clone()).collect()
}

/// Judges the nodes in `/dev/infiniband`.
pub(super) fn uverbs(context: &PodView<'_>) -> Checked {
    let unreadable = "/sys/class/infiniband cannot be read";
    let devices = known(&context.facts.rdma, "RdmaUnreadable", unreadable)?;
    if devices.is_empty() {
        let what = "this container has no RDMA device";
        return Ok(missing(context, "NoRdmaDevice", what));
    }
    let open = names(devices, |node| *node == Reading::Value(()));
    let not_given = names(devices, |node| *node == Reading::Absent);
    let not_asked = names(devices, |node| *node == Reading::NotObservable);
    let refused = names(devices, |node| matches!(node, Reading::Failed(_)));
    let item = if !refused.is_empty() {
        judge_refused(context, devices, open.is_empty())
    } else if !not_asked.is_empty() {
        let why = "this container's process limit is reached, and NCCL starts threads too";
        let names = list(&not_asked);
        let message = format!("no thread could be started to open {names}: {why}");
        context.if_rdma_matters(Item::unknown("NoThread", message))
    } else if open.is_empty() {
        let (number, names) = (count(not_given.len(), "RDMA device"), list(&not_given));
        let what = format!(
            "the node has {number} ({names}), and this container has no /dev/infiniband/uverbs* for any"
        );
        missing(context, "NoUverbs", &what)
    } else {
        judge_open(context, &open, not_given.len())
    };
    Ok(item
        .with("open", open)
        .with("not_given", not_given.len())
        .with("refused", refused))
}

/// All devices that were given to this container open: whether they are enough.
fn judge_open(context: &PodView<'_>, open: &[String], not_given: usize) -> Item {
    let devices = context.devices();
    let mut shown = format!("{} open: {}", count(open.len(), "device"), list(open));
    if not_given > 0 {
        shown += &format!("; {not_given} more on the node not given to this container");
    }
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
fn judge_refused(context: &PodView<'_>, devices: &[SeenDevice], none_opens: bool) -> Item {
    let fault = |device: &'_ SeenDevice| match &device.node {
        Reading::Failed(fault) => Some((device.device.name.clone(), fault.clone())),
        _ => None,
    };
    let (refused, faults): (Vec<String>, Vec<Fault>) = devices.iter().filter_map(fault).unzip();
    let is_stalled = |fault: &Fault| fault.kind == FaultKind::Stalled;
    if faults.iter().any(is_stalled) {
        let both = refused.iter().zip(&faults);
        let stalled = both.filter(|(_, fault)| is_stalled(fault));
        let names = list(&stalled.map(|(name, _)| name).collect::<Vec<_>>());
        let message = format!("opening {names} does not return: the job would hang there");
        let item = Item::failing("UverbsStalled", message);
        // NCCL opens the devices on one node too, unless it is configured for TCP.
        return match context.tcp {
            Some(_) => context.if_rdma_matters(item),
            None => item,
        };
    }
    let why = (faults.first()).map_or("no answer", |fault| &fault.detail);
    let message = format!("{} cannot be opened: {why}", list(&refused));
    let is_denied = faults.iter().any(|fault| fault.kind == FaultKind::Denied);
    let item = match (none_opens, is_denied) {
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
fn missing(context: &PodView<'_>, reason: &'static str, what: &str) -> Item {
    let request = request(context);
    match (context.without_rdma(), &context.wanted) {
        _ if context.fabric == PodFabric::TcpRails => Item::skipped(format!(
            "{what}; this platform's rails are network interfaces (GPUDirect-TCPX, TCPXO)"
        ))
        .with("rails", "interfaces"),
        (Some(why), _) => Item::skipped(format!("{what}; {why}")),
        (None, Some(why)) => {
            let message = format!("{what}, and {why}: NCCL will use TCP, or end");
            Item::failing(reason, message).fix(request)
        }
        (None, None) => {
            let unclear = "nothing here shows whether RDMA is wanted. NCCL will use TCP";
            let item = Item::unknown(reason, format!("{what}; {unclear}"));
            item.fix(format!("if RDMA is wanted: {request}"))
        }
    }
}

const NOT_CONFIGURED: &str =
    "the link is up and no subnet manager has configured the port: check the subnet manager";
const NO_LINK: &str = "the link is down: `selvage check` on the node says why (cable, switch port, disabled interface); or use another node";

/// Judges the states of the ports.
pub(super) fn rdma_ports(context: &PodView<'_>) -> Checked {
    let ports = context.ports();
    let is_efa = context.fabric == PodFabric::Efa;
    Item::skipped("EFA always reports ACTIVE, which proves nothing").when(is_efa)?;
    Item::skipped("no device can be opened").when(ports.is_empty())?;
    let (readable, unread): (Vec<PodPort<'_>>, Vec<PodPort<'_>>) =
        (ports.iter()).partition(|(_, port)| port.state.value().is_some());
    let (active, down): (Vec<PodPort<'_>>, Vec<PodPort<'_>>) =
        (readable.into_iter()).partition(|(_, port)| port.is_active());
    let is_init = |(_, port): &PodPort<'_>| port.state == Reading::Value(PortState::Init);
    let remedy = match ports.iter().any(is_init) {
        true => NOT_CONFIGURED,
        false => NO_LINK,
    };
    let (all, down_names) = (ports.len(), port_names(&down));
    let item = if active.is_empty() && unread.is_empty() {
        let message = format!("none of {all} ports is active: {}", list(&down_names));
        Item::failing("NoActivePort", message).fix(remedy)
    } else if let Some(message) = missed(context, all, &active, &down) {
        Item::degraded("PortDown", message).fix(remedy)
    } else if !unread.is_empty() {
        let message = format!("the state of {} cannot be read", list(&port_names(&unread)));
        Item::unknown("PortStateUnreadable", message)
    } else {
        let mut message = format!("{} of {all} active", active.len());
        if !down.is_empty() {
            message += &format!("; NCCL leaves out {}", list(&down_names));
        }
        Item::ok(message)
    };
    Ok(item
        .with("active", port_names(&active))
        .with("not_active", down_names)
        .with("unread", port_names(&unread)))
}

/// Inactive ports that the job would use, as a message: `NCCL_IB_HCA` names them, or they were given
/// to this container and not to others, or too few are left for the GPUs.
fn missed(
    context: &PodView<'_>,
    all: usize,
    active: &[PodPort<'_>],
    down: &[PodPort<'_>],
) -> Option<String> {
    let hcas = context.hca_list();
    let selected = |ports: &[PodPort<'_>]| -> Vec<String> {
        let selected = ports.iter().filter(|port| hcas.selects_port(port));
        selected.map(port_name).collect()
    };
    let missed = selected(down);
    if missed.is_empty() {
        return None;
    }
    if !hcas.excludes && !hcas.entries.is_empty() {
        return Some(format!("NCCL_IB_HCA selects {}, not active", list(&missed)));
    }
    let mut devices = context.devices().iter();
    let is_share = devices.any(|device| device.node == Reading::Absent);
    let too_few = (context.gpus).is_some_and(|gpus| selected(active).len() < gpus as usize);
    let (number, names) = (missed.len(), list(&missed));
    (is_share || too_few).then(|| format!("{number} of {all} ports are not active: {names}"))
}

#[cfg(test)]
mod tests;
