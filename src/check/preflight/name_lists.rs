//! Lists of interfaces and devices that Gloo, UCX and Open MPI read: whether their names exist.

use super::context::{Context, Fabric, port_names};
use super::devices::request;
use super::interfaces::{interfaces, is_local};
use super::item::{Item, Judged, any_of, list};
use super::nccl_list::Network;

const GLOO: &str = "GLOO_SOCKET_IFNAME";

const UCX: &str = "UCX_NET_DEVICES";

/// Open MPI's lists of interface names or networks (`10.0.0.0/16`).
const OPEN_MPI: &[&str] = &[
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_oob_tcp_if_include",
    "PRTE_MCA_oob_tcp_if_include",
];

/// A list as its variable sets it.
struct NameList<'a> {
    variable: &'static str,
    value: &'a str,
    /// Names that it might use.
    present: Vec<String>,
    /// Entries that do not exist.
    missing: Vec<&'a str>,
    /// No entry exists.
    is_lost: bool,
}

impl<'a> NameList<'a> {
    fn new(
        (variable, value): (&'static str, &'a str),
        present: Vec<String>,
        is_known: impl Fn(&str) -> bool,
    ) -> Self {
        let entries = value.split(',').filter(|entry| !entry.is_empty());
        let (found, missing): (Vec<&str>, Vec<&str>) = entries.partition(|entry| is_known(entry));
        NameList {
            variable,
            value,
            present,
            missing,
            is_lost: found.is_empty(),
        }
    }

    /// The item for names that do not exist; without the reason `partly` each of them is fatal.
    fn judge(&self, none: &'static str, partly: Option<&'static str>) -> Result<(), Item> {
        let missing = list(&self.missing);
        let message = format!("{self}: nothing usable in here is called {missing}");
        let item = match partly.filter(|_| !self.is_lost) {
            _ if !self.is_lost && self.missing.is_empty() => return Ok(()),
            Some(partly) => Item::degraded(partly, message),
            None => Item::failing(none, message),
        };
        Err(item.fix(self.offer()))
    }

    /// A remedy that offers those of the names that other nodes may reach.
    fn offer(&self) -> String {
        let mut names = self.present.clone();
        names.retain(|name| !is_local(name));
        let variable = self.variable;
        match names.is_empty() {
            true => format!(
                "{variable}: unset it; no interface in here but the loopback has an address (the pod's network: CNI, `hostNetwork`)"
            ),
            false => format!("{variable}: unset it, or {}", any_of(&names)),
        }
    }
}

impl std::fmt::Display for NameList<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.variable, self.value)
    }
}

/// Variables that are set, or the item that says that none is.
fn set<'a>(
    context: &Context<'a>,
    names: &[&'static str],
    unset: &str,
) -> Result<Vec<(&'static str, &'a str)>, Item> {
    let environment = &context.facts.environment;
    let set = names.iter();
    let set: Vec<_> = set
        .filter_map(|name| Some((*name, environment.get(name)?)))
        .collect();
    match set.is_empty() {
        true => Err(Item::skipped(unset)),
        false => Ok(set),
    }
}

fn shown(set: &[(&str, &str)]) -> Item {
    let shown = set.iter().map(|(name, value)| format!("{name}={value}"));
    Item::ok(shown.collect::<Vec<_>>().join(", "))
}

/// Judges `GLOO_SOCKET_IFNAME`: whole names, separated by commas. Gloo ends at the first that has no
/// address (PyTorch, ProcessGroupGloo).
pub(super) fn gloo_ifname(context: &Context<'_>) -> Judged {
    let unset = "not set: Gloo uses the address of the host name";
    let set = set(context, &[GLOO], unset)?;
    let all = interfaces(context)?.iter();
    let usable = all.filter(|interface| !interface.addresses.is_empty());
    let usable: Vec<String> = usable.map(|interface| interface.name.clone()).collect();
    let is_known = |entry: &str| usable.iter().any(|name| name == entry);
    for setting in &set {
        let names = NameList::new(*setting, usable.clone(), is_known);
        names.judge("NoInterface", None)?;
        if context.is_many_nodes() && names.value.split(',').all(is_local) {
            let message = format!("{names}, which no other node reaches");
            return Ok(Item::failing("LocalInterface", message).fix(names.offer()));
        }
    }
    Ok(shown(&set))
}

/// Judges `UCX_NET_DEVICES`: whole names such as `mlx5_0:1` and `eth0`. Newer versions of UCX also know
/// devices without their port and ranges (`mlx5_[0-7]:1`), of which nothing more is checked.
pub(super) fn ucx_devices(context: &Context<'_>) -> Judged {
    let set = set(context, &[UCX], "UCX_NET_DEVICES is not set")?;
    let mut present = port_names(&match context.fabric {
        Fabric::Efa => context.ports(),
        _ => context.candidates(),
    });
    let running = interfaces(context)?.iter().filter(|one| one.running);
    present.extend(running.map(|interface| interface.name.clone()));
    let is_known = |entry: &str| {
        let has = |name: &String| name.split(':').next() == Some(entry) || name == entry;
        entry == "all" || entry.contains('[') || present.iter().any(has)
    };
    for setting in set.iter().filter(|(_, value)| !value.starts_with('^')) {
        let names = NameList::new(*setting, present.clone(), is_known);
        names
            .judge("NoUcxDevice", Some("UcxPartly"))
            .map_err(|mut item| {
                if context.ports().is_empty() {
                    item.remedy += &format!("; for an RDMA device: {}", request(context));
                }
                item.with("there", present.clone())
            })?;
    }
    Ok(shown(&set))
}

/// Judges Open MPI's lists of interfaces and networks.
pub(super) fn mpi_ifname(context: &Context<'_>) -> Judged {
    let set = set(context, OPEN_MPI, "no interface list of Open MPI is set")?;
    let all = interfaces(context)?;
    let usable = all
        .iter()
        .filter(|one| one.running && !one.addresses.is_empty());
    let usable: Vec<String> = usable.map(|interface| interface.name.clone()).collect();
    let is_known = |entry: &str| match Network::parse(entry) {
        Some(network) => {
            let mut addresses = all.iter().flat_map(|interface| &interface.addresses);
            addresses.any(|address| network.contains(*address))
        }
        None => usable.iter().any(|name| name == entry),
    };
    for setting in &set {
        let names = NameList::new(*setting, usable.clone(), is_known);
        names.judge("NoInterface", Some("MpiPartly"))?;
    }
    Ok(shown(&set))
}

#[cfg(test)]
mod tests;
