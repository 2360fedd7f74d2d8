//! Settings that name something: files of a topology, interfaces of a plugin's rails.

use super::Item;
use super::devices::{any_of, list};
use super::nccl_list::{MAX_INTERFACES, NcclList};
use super::scene::{Fabric, Scene};
use crate::observe::reading::Reading;

/// The files that NCCL reads by name, and what it does without one (`ncclTopoGetXmlFromFile`,
/// `ncclTopoGetXmlGraphFromFile`, src/graph/xml.cc). A topology that is not there is passed over, a
/// graph ends the job, an empty name among them.
const TOPOLOGY: &str = "NCCL_TOPO_FILE";
const GRAPH: &str = "NCCL_GRAPH_FILE";

/// Settings whose files have to be looked for.
pub const FILES: &[&str] = &[TOPOLOGY, GRAPH];

/// Interfaces of Google's plugins: those that carry data, and the one that does not.
const RAILS: &[&str] = &[
    "NCCL_FASTRAK_IFNAME",
    "NCCL_FASTRAK_CTRL_DEV",
    "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
    "NCCL_GPUDIRECTTCPX_CTRL_DEV",
];

/// A file that is named and not there.
pub(super) fn files(id: &'static str, scene: &Scene<'_>) -> Option<Item> {
    // Of another image than the job's nothing is told.
    if !scene.facts.has_loader {
        return None;
    }
    let is_missing = |name: &str| scene.facts.referenced_files.get(name) == Some(&Reading::Absent);
    if let Some(asked) = scene.nccl(GRAPH)
        && is_missing(GRAPH)
    {
        return Some(
            Item::failing(
                id,
                "GraphFileMissing",
                format!(
                    "{}: there is no such file, and NCCL ends (`Could not open XML graph file`)",
                    asked.told()
                ),
            )
            .fix("NCCL_GRAPH_FILE: unset it, or mount the file there (`volumeMounts`)"),
        );
    }
    let asked = scene.nccl(TOPOLOGY).filter(|_| is_missing(TOPOLOGY))?;
    Some(
        Item::degraded(
            id,
            "TopoFileMissing",
            format!(
                "{}: there is no such file, and NCCL goes on with what it finds itself: on a virtual machine that is not how GPUs and NICs lie",
                asked.told()
            ),
        )
        .fix("NCCL_TOPO_FILE: unset it, or mount the file there (`volumeMounts`: a ConfigMap, or the node's by hostPath)"),
    )
}

/// A rail that is named and not there.
pub(super) fn rails(id: &'static str, scene: &Scene<'_>) -> Option<Item> {
    if scene.fabric != Fabric::TcpRails {
        return None;
    }
    let there = names(scene)?;
    RAILS.iter().find_map(|name| {
        let asked = scene.nccl(name)?;
        let list_read = NcclList::parse(asked.setting.value, MAX_INTERFACES);
        if list_read.excludes || list_read.entries.is_empty() {
            return None;
        }
        let missing: Vec<String> = list_read
            .entries
            .iter()
            .filter(|entry| !there.iter().any(|name| list_read.names(entry, name, None)))
            .map(|entry| entry.name.clone())
            .collect();
        if missing.is_empty() {
            return None;
        }
        let message = format!(
            "{}: no interface in here is called {}{}",
            asked.told(),
            list(&missing),
            list_read.with_blanks().map_or("", |_| " (blanks count as part of names)")
        );
        let item = match missing.len() == list_read.entries.len() {
            true => Item::failing(id, "NoRailInterface", message),
            false => Item::degraded(id, "NoRailInterface", message),
        };
        Some(item.fix(match there.is_empty() {
            true => format!("{name}: this pod has no interface but the loopback: its networks (`networking.gke.io/interfaces`, or `hostNetwork`)"),
            false => format!("{name}: {}", any_of(&there)),
        }))
    })
}

/// Names of this container's interfaces, as far as either look tells, without the loopback.
fn names(scene: &Scene<'_>) -> Option<Vec<String>> {
    let mut names: Vec<String> = match (&scene.facts.interfaces, &scene.facts.links) {
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
            // Not looked at, as what is relative to a directory that is not ours.
            assert_eq!(told(&facts, "nccl_settings"), "ok");
            let found = |reading| [(name.to_string(), reading)].into();
            facts.referenced_files = found(Reading::Value(()));
            assert_eq!(told(&facts, "nccl_settings"), "ok");
            facts.referenced_files = found(Reading::Absent);
            assert_eq!(told(&facts, "nccl_settings"), want);
            assert!(
                item(&facts, "nccl_settings")
                    .message
                    .contains("/etc/topo.xml")
            );
            facts.has_loader = false;
            assert_eq!(told(&facts, "nccl_settings"), "ok");
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
            assert_eq!(told(&facts, "nccl_settings"), want, "{variables:?}");
        }
        // Settings of another platform's plugin do no harm on verbs.
        let mut facts = with(&[("NCCL_FASTRAK_IFNAME", "eth7")]);
        assert_eq!(told(&facts, "nccl_settings"), "ok");
        // Names are known from sysfs, too.
        facts.rdma = Reading::Value(Vec::new());
        facts.interfaces = Reading::NotObservable;
        assert_eq!(told(&facts, "nccl_settings"), "ok");
        facts.links = Reading::Value([("eth1".to_string(), None)].into());
        assert_eq!(told(&facts, "nccl_settings"), "failing NoRailInterface");
        assert_eq!(
            item(&facts, "nccl_settings").remedy,
            "NCCL_FASTRAK_IFNAME: eth1"
        );
    }
}
