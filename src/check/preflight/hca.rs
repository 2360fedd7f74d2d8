//! What `NCCL_IB_HCA` selects.

use super::devices::list;
use super::mixed::{Odd, Port, list_of, odd};
use super::nccl_list::{Entry, NcclList};
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
    let among_all = odd(&candidates);
    // What is left of all ports without the odd ones, as a value.
    let would_do = match &among_all {
        Some(odd) => list_of(&odd.rest, &candidates),
        None => list_of(&candidates, &candidates),
    };
    let Some(asked) = scene.nccl("NCCL_IB_HCA") else {
        let told = format!("not set: NCCL takes {}", list(&names));
        return match among_all {
            _ if candidates.is_empty() => Item::skipped(ID, "not set, and no port is usable"),
            Some(odd) if odd.by_layer && scene.does_without().is_none() => {
                mixed(ID, &told, &odd, &would_do)
            }
            // Its search prefers what is fast and near a GPU.
            Some(odd) => Item::ok(
                ID,
                format!("{told}; {}: `{would_do}` would leave them out", odd.told),
            ),
            None => Item::ok(ID, told),
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
            false => match &among_all {
                Some(odd) if odd.by_layer => format!("NCCL_IB_HCA: `{would_do}`"),
                _ => format!("NCCL_IB_HCA: unset it, or `{would_do}`"),
            },
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
        } else if let Some(entry) = marked_again(&selection, &candidates) {
            Item::degraded(
                ID,
                "HcaPartly",
                format!(
                    "{told}: ^ and = count before the first name only; {entry} leaves out nothing, and NCCL takes {}",
                    list(&selected)
                ),
            )
            .fix(format!(
                "NCCL_IB_HCA: `{}`",
                once_marked(asked.setting.value)
            ))
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
        } else if let Some(odd) = odd(&scene.selected())
            && scene.does_without().is_none()
        {
            let value = list_of(&odd.rest, &candidates);
            mixed(
                ID,
                &format!("{told} selects {}", list(&selected)),
                &odd,
                &value,
            )
        } else if let Some(could) = scene.short_of_rails(selected.len(), rails(scene).len()) {
            let rails = rails(scene);
            let names: Vec<String> = rails.iter().map(|(d, p)| port_name(d, p)).collect();
            let value = list_of(&rails, &candidates);
            Item::degraded(
                ID,
                "HcaFewer",
                format!(
                    "{told} selects {} only: the job's GPUs here could have {could} of {}",
                    list(&selected),
                    list(&names)
                ),
            )
            .fix(match rails.len() == candidates.len() {
                true => format!("NCCL_IB_HCA: unset it, or `{value}`"),
                false => format!("NCCL_IB_HCA: `{value}`"),
            })
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

/// An entry of an exclusion that bears marks of its own, and would name a port without them.
fn marked_again(selection: &NcclList, candidates: &[Port<'_>]) -> Option<String> {
    let marked = |entry: &&Entry| {
        let bare = Entry {
            name: entry.name.trim_start_matches(['^', '=']).to_string(),
            port: entry.port,
        };
        let is = |(device, port): &Port<'_>| {
            selection.names(&bare, &device.device.name, Some(port.number))
        };
        bare.name != entry.name && !bare.name.is_empty() && candidates.iter().any(is)
    };
    let found = selection.entries.iter().find(marked)?;
    selection.excludes.then(|| found.name.clone())
}

/// The list with its marks before the first name only.
fn once_marked(value: &str) -> String {
    let names = value.trim_start_matches(['^', '=']);
    let marks = value.strip_suffix(names).unwrap_or_default();
    let names: Vec<&str> = names
        .split(',')
        .map(|name| name.trim_start_matches(['^', '=']))
        .collect();
    format!("{marks}{}", names.join(","))
}

/// Usable ports of devices like those that the list selects, themselves included.
fn rails<'a>(scene: &Scene<'a>) -> Vec<Port<'a>> {
    let selected = scene.selected();
    let mut rails = scene.candidates();
    rails.retain(|(device, _)| selected.iter().any(|(other, _)| alike(device, other)));
    rails
}

/// Ports that do not go together are taken.
fn mixed(id: &'static str, told: &str, odd: &Odd<'_>, value: &str) -> Item {
    let why = match odd.by_layer {
        true => {
            "NCCL cannot connect ports of different link layers (`incompatible devices`), and what is no rail of the fabric slows the others down"
        }
        false => "what is no rail of the fabric slows the others down",
    };
    Item::degraded(id, "HcaMixed", format!("{told}; {}: {why}", odd.told))
        .fix(format!("NCCL_IB_HCA: `{value}`"))
        .with("odd", odd.names.clone())
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

#[cfg(test)]
mod tests;
