//! Settings that refer to something: topology files, interfaces of a plugin's rails.

use super::context::{Context, Fabric};
use super::item::Item;
use super::nccl_list::{MAX_INTERFACES, NcclList};
use super::wording::{any_of, list};
use crate::observe::reading::Reading;

/// Files that NCCL reads by name (`ncclTopoGetXmlFromFile`, `ncclTopoGetXmlGraphFromFile`,
/// src/graph/xml.cc). It ignores a missing topology; a missing graph, or an empty name, ends the job.
const TOPOLOGY: &str = "NCCL_TOPO_FILE";
const GRAPH: &str = "NCCL_GRAPH_FILE";

/// Settings whose files have to be searched.
pub(crate) const FILES: &[&str] = &[TOPOLOGY, GRAPH];

/// Interfaces of Google's plugins: those that carry data, and the control interface.
const RAILS: &[&str] = &[
    "NCCL_FASTRAK_IFNAME",
    "NCCL_FASTRAK_CTRL_DEV",
    "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
    "NCCL_GPUDIRECTTCPX_CTRL_DEV",
];

/// A file that a setting refers to and that does not exist. Another image than the job's proves
/// nothing.
pub(super) fn missing_file(context: &Context<'_>) -> Option<Item> {
    let missing = |name: &'static str| {
        let is_missing = context.facts.referenced_files.get(name) == Some(&Reading::Absent);
        context
            .nccl(name)
            .filter(|_| is_missing && context.facts.has_loader)
    };
    let graph = missing(GRAPH).map(|setting| {
        let message = format!(
            "{setting}: the file does not exist, and NCCL ends (`Could not open XML graph file`)"
        );
        Item::failing("GraphFileMissing", message)
            .fix("NCCL_GRAPH_FILE: unset it, or mount the file there (`volumeMounts`)")
    });
    graph.or_else(|| {
        let setting = missing(TOPOLOGY)?;
        let message = format!("{setting}: the file does not exist, and NCCL uses what it detects: in a virtual machine that is not the real topology of GPUs and NICs");
        Some(Item::degraded("TopoFileMissing", message)
            .fix("NCCL_TOPO_FILE: unset it, or mount the file there (`volumeMounts`: a ConfigMap, or the node's by hostPath)"))
    })
}

/// An interface that a setting of Google's plugins names and that does not exist.
pub(super) fn missing_rail(context: &Context<'_>) -> Option<Item> {
    let there = interface_names(context).filter(|_| context.fabric == Fabric::TcpRails)?;
    RAILS.iter().find_map(|name| {
        let setting = context.nccl(name)?;
        let rails = NcclList::parse(setting.value, MAX_INTERFACES);
        if rails.excludes {
            return None;
        }
        let unmatched = rails.entries.iter().filter(|entry| {
            !there.iter().any(|name| rails.matches(entry, name, None))
        });
        let missing: Vec<String> = unmatched.map(|entry| entry.name.clone()).collect();
        let blanks = match rails.with_blanks() {
            Some(_) => " (blanks count as part of names)",
            None => "",
        };
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

/// Names of this container's interfaces from either source, without the loopback.
fn interface_names(context: &Context<'_>) -> Option<Vec<String>> {
    let mut names: Vec<String> = match (&context.facts.interfaces, &context.facts.links) {
        (Reading::Value(all), _) => all.iter().map(|i| i.name.clone()).collect(),
        (_, Reading::Value(links)) => links.keys().cloned().collect(),
        _ => return None,
    };
    names.retain(|name| name != "lo");
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn files_that_are_not_there() {
        for (name, want) in [
            (TOPOLOGY, "degraded TopoFileMissing"),
            (GRAPH, "failing GraphFileMissing"),
        ] {
            let mut facts = with(&[(name, "/etc/topo.xml")]);
            // Not searched, like names relative to an unknown directory.
            assert_eq!(verdict(&facts, "nccl_settings"), "ok");
            let found = |reading| [(name.to_string(), reading)].into();
            facts.referenced_files = found(Reading::Value(()));
            assert_eq!(verdict(&facts, "nccl_settings"), "ok");
            facts.referenced_files = found(Reading::Absent);
            assert_eq!(verdict(&facts, "nccl_settings"), want);
            assert!(
                item(&facts, "nccl_settings")
                    .message
                    .contains("/etc/topo.xml")
            );
            facts.has_loader = false;
            assert_eq!(verdict(&facts, "nccl_settings"), "ok");
        }
    }

    #[test]
    fn rails_that_are_not_there() {
        for (variables, want) in [
            (&[("NCCL_FASTRAK_IFNAME", "eth0,net1")][..], "ok"),
            (
                &[("NCCL_FASTRAK_IFNAME", "eth0,net1,net2")],
                "degraded NoRailInterface",
            ),
            (
                &[("NCCL_FASTRAK_IFNAME", "eth7,eth8")],
                "failing NoRailInterface",
            ),
            (
                &[("NCCL_FASTRAK_CTRL_DEV", "eth7")],
                "failing NoRailInterface",
            ),
            (
                &[("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth0, net1")],
                "degraded NoRailInterface",
            ),
        ] {
            let mut facts = with(variables);
            facts.rdma = Reading::Value(Vec::new());
            assert_eq!(verdict(&facts, "nccl_settings"), want, "{variables:?}");
        }
        // Settings of another platform's plugin do no harm on verbs.
        let mut facts = with(&[("NCCL_FASTRAK_IFNAME", "eth7")]);
        assert_eq!(verdict(&facts, "nccl_settings"), "ok");
        // Names are known from sysfs, too.
        facts.rdma = Reading::Value(Vec::new());
        facts.interfaces = Reading::NotObservable;
        assert_eq!(verdict(&facts, "nccl_settings"), "ok");
        facts.links = Reading::Value([("eth1".to_string(), None)].into());
        assert_eq!(verdict(&facts, "nccl_settings"), "failing NoRailInterface");
        assert_eq!(
            item(&facts, "nccl_settings").remedy,
            "NCCL_FASTRAK_IFNAME: eth1"
        );
    }
}
