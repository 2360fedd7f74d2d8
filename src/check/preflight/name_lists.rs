//! Lists of interfaces and devices that Gloo, UCX and Open MPI read: whether their names exist.

use super::interfaces::{interfaces, is_local};
use super::job::Set;
use super::{Checked, Item, PodFabric, PodView, any_of, devices::request, list, port_names};
use crate::observe::Interface;
use ipnet::IpNet;

/// Open MPI's lists of interface names or networks (`10.0.0.0/16`).
const OPEN_MPI: &str =
    "OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include PRTE_MCA_oob_tcp_if_include";

/// Those of the variables that are set, or the item that says that none is.
fn set<'a>(context: &PodView<'a>, names: &'static str, unset: &str) -> Result<Vec<Set<'a>>, Item> {
    let environment = &context.facts.environment;
    let set = (names.split_whitespace()).filter_map(|name| Some((name, environment.get(name)?)));
    let set: Vec<_> = set.collect();
    Item::skipped(unset).when(set.is_empty())?;
    Ok(set)
}

fn shown(set: &[Set<'_>]) -> Item {
    let shown = set.iter().map(|(name, value)| format!("{name}={value}"));
    Item::ok(shown.collect::<Vec<_>>().join(", "))
}

/// Names of the interfaces that have an address and `fits`.
fn addressed(all: &[Interface], fits: impl Fn(&Interface) -> bool) -> Vec<String> {
    let usable = all.iter().filter(|one| !one.addresses.is_empty());
    let usable = usable.filter(|one| fits(one));
    usable.map(|one| one.name.clone()).collect()
}

/// Judges whether the entries exist, of which `present` are offered; without the reason `partly` each
/// that does not is fatal.
fn judge(
    (variable, value): Set<'_>,
    present: &[String],
    is_known: impl Fn(&str) -> bool,
    (none, partly): (&'static str, Option<&'static str>),
) -> Result<(), Item> {
    let entries = value.split(',').filter(|entry| !entry.is_empty());
    let (found, missing): (Vec<&str>, Vec<&str>) = entries.partition(|entry| is_known(entry));
    let missing_names = list(&missing);
    let message = format!("{variable}={value}: nothing usable in here is called {missing_names}");
    let item = match partly.filter(|_| !found.is_empty()) {
        Some(partly) => Item::degraded(partly, message),
        None => Item::failing(none, message),
    };
    item.fix(offer(variable, present))
        .when(found.is_empty() || !missing.is_empty())
}

/// A remedy that offers those of the names that other nodes may reach.
fn offer(variable: &str, present: &[String]) -> String {
    let mut names = present.to_vec();
    names.retain(|name| !is_local(name));
    match names.is_empty() {
        true => format!(
            "{variable}: unset it; no interface in here but the loopback has an address (the pod's network: CNI, `hostNetwork`)"
        ),
        false => format!("{variable}: unset it, or {}", any_of(&names)),
    }
}

/// Judges `GLOO_SOCKET_IFNAME`: whole names, separated by commas. Gloo ends at the first that has no
/// address (PyTorch, ProcessGroupGloo).
pub(super) fn gloo_ifname(context: &PodView<'_>) -> Checked {
    let unset = "not set: Gloo uses the address of the host name";
    let set = set(context, "GLOO_SOCKET_IFNAME", unset)?;
    let usable = addressed(interfaces(context)?, |_| true);
    let is_known = |entry: &str| usable.iter().any(|name| name == entry);
    for (name, value) in set.iter().copied() {
        judge((name, value), &usable, is_known, ("NoInterface", None))?;
        let message = format!("{name}={value}, which no other node reaches");
        Item::failing("LocalInterface", message)
            .fix(offer(name, &usable))
            .when(context.is_many_nodes() && value.split(',').all(is_local))?;
    }
    Ok(shown(&set))
}

/// Judges `UCX_NET_DEVICES`: whole names such as `mlx5_0:1` and `eth0`. Newer versions of UCX also know
/// devices without their port and ranges (`mlx5_[0-7]:1`), of which nothing more is checked.
pub(super) fn ucx_devices(context: &PodView<'_>) -> Checked {
    let set = set(context, "UCX_NET_DEVICES", "UCX_NET_DEVICES is not set")?;
    let mut present = port_names(&match context.fabric {
        PodFabric::Efa => context.ports(),
        _ => context.candidates(),
    });
    let running = interfaces(context)?.iter().filter(|one| one.running);
    present.extend(running.map(|interface| interface.name.clone()));
    let is_known = |entry: &str| {
        let has = |name: &String| name.split(':').next() == Some(entry) || name == entry;
        entry == "all" || entry.contains('[') || present.iter().any(has)
    };
    for setting in set.iter().filter(|(_, value)| !value.starts_with('^')) {
        let reasons = ("NoUcxDevice", Some("UcxPartly"));
        judge(*setting, &present, is_known, reasons).map_err(|mut item| {
            if context.ports().is_empty() {
                item.remedy += &format!("; for an RDMA device: {}", request(context));
            }
            item.with("there", present.clone())
        })?;
    }
    Ok(shown(&set))
}

/// Judges Open MPI's lists of interfaces and networks.
pub(super) fn mpi_ifname(context: &PodView<'_>) -> Checked {
    let set = set(context, OPEN_MPI, "no interface list of Open MPI is set")?;
    let all = interfaces(context)?;
    let usable = addressed(all, |one| one.running);
    let is_known = |entry: &str| match entry.parse::<IpNet>() {
        Ok(network) => {
            let mut addresses = all.iter().flat_map(|interface| &interface.addresses);
            addresses.any(|address| network.contains(address))
        }
        Err(_) => usable.iter().any(|name| name == entry),
    };
    for setting in &set {
        let reasons = ("NoInterface", Some("MpiPartly"));
        judge(*setting, &usable, is_known, reasons)?;
    }
    Ok(shown(&set))
}

#[cfg(test)]
mod tests;
