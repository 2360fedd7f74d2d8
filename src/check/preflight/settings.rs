//! Settings that choose NCCL's network, and settings that NCCL reads differently than intended.

use super::nccl_list::{MAX_INTERFACES, NcclList, parse_number};
use super::{Checked, Item, PodFabric, PodView, any_of, count, list};
use crate::observe::{Reading, Variable};

/// Settings that NCCL reads as whole numbers, among those that people set by hand.
const NUMBERS: &str = include_str!("numbers.txt");

/// Files that NCCL reads by name (`ncclTopoGetXmlFromFile`, `ncclTopoGetXmlGraphFromFile`,
/// src/graph/xml.cc). It ignores a missing topology; a missing graph, or an empty name, ends the job.
const TOPOLOGY: &str = "NCCL_TOPO_FILE";
const GRAPH: &str = "NCCL_GRAPH_FILE";

/// Settings whose files have to be searched.
pub(crate) const FILES: &[&str] = &[TOPOLOGY, GRAPH];

/// Interfaces of Google's plugins: those that carry data, and the control interface.
const RAILS: &str = "NCCL_FASTRAK_IFNAME NCCL_FASTRAK_CTRL_DEV NCCL_GPUDIRECTTCPX_SOCKET_IFNAME \
    NCCL_GPUDIRECTTCPX_CTRL_DEV";

/// Judges which network NCCL will use.
pub(super) fn network(context: &PodView<'_>) -> Checked {
    let usable = context.selected().len();
    if let Some(setting) = context.nccl("NCCL_NET") {
        let (value, shown) = (setting.value, setting.to_string());
        let message = format!(
            "{shown:?}: no network has this name, blanks included, and NCCL ends instead of choosing another"
        );
        Item::failing("NetNotAvailable", message)
            .fix("NCCL_NET: unset it, or IB")
            .when(value.trim().is_empty() || value.trim() != value)?;
        ib(context, setting, usable).when(value.eq_ignore_ascii_case("ib"))?;
        Item::ok(format!("{shown}: a plugin's network (net_plugin)"))
            .when(!value.eq_ignore_ascii_case("socket"))?;
    }
    if let Some(setting) = context.tcp {
        return Ok(tcp(context, setting).with("network", "Socket"));
    }
    Ok(match (context.fabric, context.plugin()) {
        (_, Some(path)) => Item::ok(format!("NCCL tries the plugin {path} first")),
        (PodFabric::Verbs, None) if usable > 0 => {
            let ports = count(usable, "port");
            Item::ok(format!("NCCL's own transport over {ports}"))
        }
        _ => Item::skipped("no setting chooses a network"),
    })
}

/// `NCCL_NET=IB`: NCCL ends without a usable port.
fn ib(context: &PodView<'_>, setting: Variable<'_>, usable: usize) -> Item {
    if context.nccl_flag("NCCL_IB_DISABLE") {
        let message = format!("{setting}, and NCCL_IB_DISABLE forbids it: NCCL ends");
        return Item::failing("NetNotAvailable", message).fix("NCCL_IB_DISABLE: unset it");
    }
    match (context.fabric, usable) {
        (PodFabric::Unknown, _) => {
            let message = format!("{setting}; RDMA devices could not be listed");
            Item::unknown("RdmaUnreadable", message)
        }
        (_, 0) => Item::failing("NetNotAvailable", format!("{setting}, and no port is usable: NCCL ends (`network IB not found`) instead of using TCP"))
            .fix("fix uverbs, rdma_ports and ib_hca; or unset NCCL_NET"),
        (_, many) => Item::ok(format!("{setting}: NCCL's own transport over {}", count(many, "port"))),
    }
}

/// A setting asks for TCP: wrong if the job could have used RDMA. Devices that this container was not
/// given count as well.
fn tcp(context: &PodView<'_>, setting: Variable<'_>) -> Item {
    let has_rdma = !context.devices().is_empty() || context.fabric == PodFabric::TcpRails;
    let has_gpus = context.gpus.is_some_and(|gpus| gpus > 0);
    let fine = |why| Item::ok(format!("{setting} asks for TCP, and {why}"));
    let why = match (has_rdma, context.is_many_nodes() && has_gpus) {
        _ if context.is_one_node() => return fine("the job runs on one node"),
        (true, _) => "though RDMA is here",
        (false, true) => "and the job's GPUs are on several nodes",
        (false, false) => return fine("the node has no RDMA device"),
    };
    let from = (setting.file).map_or(String::new(), |file| format!(" from {file}"));
    Item::degraded("TcpConfigured", format!("{setting} asks for TCP, {why}"))
        .fix(format!("{}: remove it{from}", setting.name))
}

/// Judges the other settings.
pub(super) fn others(context: &PodView<'_>) -> Checked {
    let environment = &context.facts.environment;
    let mut numbers = NUMBERS.split_whitespace();
    let wrong = missing_file(context)
        .or_else(|| missing_rail(context))
        .or_else(|| numbers.find_map(|name| not_a_number(context.nccl(name)?)))
        .or_else(|| p2p_disabled(context))
        .or_else(|| wrong_family(context.nccl("NCCL_SOCKET_FAMILY")?));
    wrong.map_or(Ok(()), Err)?;
    let files = environment.unread.join("; ");
    let message = format!("{files}: its settings are unknown");
    Item::unknown("SettingsUnreadable", message).when(!files.is_empty())?;
    let names = (environment.variables.keys()).chain(environment.nccl_files.keys());
    let number = names.filter(|name| name.starts_with("NCCL_")).count();
    Ok(Item::ok(match number {
        0 => "none is set".into(),
        number => format!("{number} set, each read as written"),
    }))
}

/// A file that a setting refers to and that does not exist. Another image than the job's proves
/// nothing.
fn missing_file(context: &PodView<'_>) -> Option<Item> {
    let missing = |name: &'static str| {
        let found = context.facts.referenced_files.get(name);
        let is_missing = found == Some(&Reading::Absent) && context.facts.has_loader;
        context.nccl(name).filter(|_| is_missing)
    };
    if let Some(setting) = missing(GRAPH) {
        let message = format!(
            "{setting}: the file does not exist, and NCCL ends (`Could not open XML graph file`)"
        );
        return Some(Item::failing("GraphFileMissing", message));
    }
    let setting = missing(TOPOLOGY)?;
    let message = format!(
        "{setting}: the file does not exist, and NCCL uses what it detects: in a virtual machine that is not the real topology of GPUs and NICs"
    );
    Some(Item::degraded("TopoFileMissing", message))
}

/// An interface that a setting of Google's plugins names and that does not exist.
fn missing_rail(context: &PodView<'_>) -> Option<Item> {
    let facts = context.facts;
    let names: Vec<&String> = match (&facts.interfaces, &facts.links) {
        _ if context.fabric != PodFabric::TcpRails => return None,
        (Reading::Value(all), _) => all.iter().map(|interface| &interface.name).collect(),
        (_, Reading::Value(links)) => links.keys().collect(),
        _ => return None,
    };
    let there = names.into_iter().filter(|name| *name != "lo").cloned();
    let there: Vec<String> = there.collect();
    RAILS.split_whitespace().find_map(|name| {
        let setting = context.nccl(name)?;
        let rails = NcclList::parse(setting.value, MAX_INTERFACES);
        let missing = rails.unmatched(there.iter().map(|name| (name.as_str(), None)));
        let blanks = (rails.with_blanks()).map_or("", |_| " (blanks count as part of names)");
        let message = format!("{setting}: no interface in here is called {}{blanks}", list(&missing));
        let item = match missing.len() {
            0 => return None,
            many if many == rails.entries.len() => Item::failing("NoRailInterface", message),
            _ => Item::degraded("NoRailInterface", message),
        };
        Some(item.fix(match there.is_empty() {
            true => format!("{name}: this pod has only the loopback interface: its networks (`networking.gke.io/interfaces`, or `hostNetwork`)"),
            false => format!("{name}: {}", any_of(&there)),
        }))
    })
}

fn not_a_number(setting: Variable<'_>) -> Option<Item> {
    let digits = setting.value.trim_start().trim_start_matches(['+', '-']);
    let why = match parse_number(setting.value) {
        _ if setting.value.is_empty() => return None,
        None => "the number is too large, NCCL keeps its default",
        Some(_) if digits.starts_with(|c: char| c.is_ascii_digit()) => return None,
        Some(_) => "NCCL reads a number here, and takes this for 0",
    };
    let item = Item::degraded("NotANumber", format!("{setting}: {why}"));
    Some(item.fix(format!("{}: a number", setting.name)))
}

fn p2p_disabled(context: &PodView<'_>) -> Option<Item> {
    let matters = context.gpus.is_some_and(|gpus| gpus > 1);
    (matters && context.nccl_flag("NCCL_P2P_DISABLE")).then(|| {
        let message = "NCCL_P2P_DISABLE=1: GPUs of this node communicate through host memory instead of NVLink or PCIe";
        Item::degraded("P2pDisabled", message)
    })
}

fn wrong_family(setting: Variable<'_>) -> Option<Item> {
    (!["AF_INET", "AF_INET6"].contains(&setting.value)).then(|| {
        let message = format!("{setting}: NCCL knows AF_INET and AF_INET6 and ignores this");
        Item::degraded("NotAnAddressFamily", message)
    })
}

#[cfg(test)]
mod tests;
