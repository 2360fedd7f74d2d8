//! What `NCCL_IB_HCA` selects.

use super::devices::list;
use super::nccl_list::NcclList;
use super::scene::{Fabric, Scene, alike, port_name};
use super::{Item, ItemStatus};
use crate::observe::container::{SeenDevice, SeenPort};
use crate::observe::reading::Reading;

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
        let partly = !selection.excludes && !unmatched.is_empty();
        // One list for all nodes may well name more than this container was given.
        let leaves_none = selected.len() == candidates.len();
        if partly && !leaves_none {
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
        } else if let Some(could) = scene.short_of_rails(selected.len(), rails(scene)) {
            Item::degraded(
                ID,
                "HcaFewer",
                format!(
                    "{told} selects {} only: the job's GPUs here could have {could} of {}",
                    list(&selected),
                    list(&names)
                ),
            )
            .fix(format!(
                "NCCL_IB_HCA: unset it, or `{}`",
                suggestion(&candidates)
            ))
        } else {
            let missing = match partly {
                true => format!("; not here or not active: {}", list(&unmatched)),
                false => String::new(),
            };
            Item::ok(ID, format!("{told} selects {}{missing}", list(&selected)))
        }
    };
    item.with("selected", selected)
}

/// Usable ports of devices like those that the list selects, itself included.
fn rails(scene: &Scene<'_>) -> usize {
    let selected = scene.selected();
    let alike_any = |device| selected.iter().any(|(other, _)| alike(device, other));
    let candidates = scene.candidates();
    candidates.iter().filter(|(d, _)| alike_any(d)).count()
}

/// An entry that is a whole name, and by being a prefix takes ports that nobody named.
fn takes_more(
    selection: &NcclList,
    candidates: &[(&SeenDevice, &SeenPort)],
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

/// A list that would do: whole names of a few devices, of many what their names begin with.
fn suggestion(candidates: &[(&SeenDevice, &SeenPort)]) -> String {
    let mut names: Vec<&str> = candidates
        .iter()
        .map(|(device, _)| device.device.name.as_str())
        .collect();
    names.dedup();
    let first = names.first().copied().unwrap_or_default();
    let shared = first
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .rev()
        .find_map(|end| {
            let head = first.get(..end)?;
            names
                .iter()
                .all(|name| name.starts_with(head))
                .then_some(head)
        });
    match shared {
        Some(shared) if names.len() > 3 => shared.to_string(),
        _ => format!("={}", names.join(",")),
    }
}

#[cfg(test)]
mod tests;
