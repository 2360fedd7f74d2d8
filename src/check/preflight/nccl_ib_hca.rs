//! The ports that `NCCL_IB_HCA` selects, and common mistakes in it.

use super::context::{Context, Fabric, Port, is_alike, port_names};
use super::heterogeneous::{Odd, list_of, odd};
use super::item::{Item, ItemStatus};
use super::nccl_list::{Entry, NcclList};
use super::wording::list;
use crate::observe::container::Setting;

/// The setting and what NCCL makes of it.
struct Selection<'a> {
    setting: Setting<'a>,
    list: NcclList,
    /// Every port that NCCL could use.
    candidates: Vec<Port<'a>>,
    /// Those that the list selects.
    selected: Vec<Port<'a>>,
    /// Names of the selected ports.
    names: Vec<String>,
}

/// Why the item does not apply.
pub(super) fn ib_hca_skip(context: &Context<'_>) -> Option<&'static str> {
    match context.fabric {
        Fabric::Efa => Some("EFA's plugin chooses its devices itself"),
        Fabric::TcpRails | Fabric::None => Some("this container has no RDMA device"),
        Fabric::Unknown => Some("RDMA devices could not be listed"),
        Fabric::Verbs => None,
    }
}

/// Judges what `NCCL_IB_HCA` selects, or what NCCL uses without it.
pub(super) fn ib_hca(context: &Context<'_>) -> Item {
    let candidates = context.candidates();
    let Some(setting) = context.nccl("NCCL_IB_HCA") else {
        return unset(context, &candidates);
    };
    let selected = context.selected();
    let selection = Selection {
        setting,
        list: context.hca_list(),
        candidates,
        names: port_names(&selected),
        selected,
    };
    let unmatched = selection.unmatched();
    let item = match selection.selected.is_empty() {
        true => selection.nothing(context),
        false => (selection.partly(&unmatched))
            .or_else(|| selection.repeated_marks())
            .or_else(|| selection.unnamed())
            .or_else(|| selection.mixed(context))
            .or_else(|| selection.fewer(context))
            .unwrap_or_else(|| {
                let missing = match unmatched.is_empty() {
                    true => String::new(),
                    false => format!("; not here or not active: {}", list(&unmatched)),
                };
                Item::ok(format!("{selection}{missing}"))
            }),
    };
    item.with("selected", selection.names)
}

/// NCCL uses every port; its search prefers those that are fast and near a GPU.
fn unset(context: &Context<'_>, candidates: &[Port<'_>]) -> Item {
    if candidates.is_empty() {
        return Item::skipped("not set, and no port is usable");
    }
    let shown = format!("not set: NCCL uses {}", list(&port_names(candidates)));
    match odd(candidates) {
        None => Item::ok(shown),
        Some(odd) => {
            let value = list_of(&odd.rest, candidates);
            match odd.by_layer && context.without_rdma().is_none() {
                true => heterogeneous(&shown, &odd, &value),
                false => Item::ok(format!(
                    "{shown}; {}: `{value}` would leave them out",
                    odd.text
                )),
            }
        }
    }
}

/// Ports that do not belong together are selected.
fn heterogeneous(shown: &str, odd: &Odd<'_>, value: &str) -> Item {
    let why = match odd.by_layer {
        true => {
            "NCCL cannot connect ports of different link layers (`incompatible devices`), and a port that is not a rail of the fabric slows the others down"
        }
        false => "a port that is not a rail of the fabric slows the others down",
    };
    Item::degraded("HcaMixed", format!("{shown}; {}: {why}", odd.text))
        .fix(format!("NCCL_IB_HCA: `{value}`"))
        .with("odd", odd.names.clone())
}

impl std::fmt::Display for Selection<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} selects {}", self.setting, list(&self.names))
    }
}

impl Selection<'_> {
    /// Names in the list that no usable port has.
    fn unmatched(&self) -> Vec<String> {
        let is_matched = |entry: &Entry| {
            let mut ports = self.candidates.iter();
            ports.any(|port| self.list.matches_port(entry, port))
        };
        let entries = self.list.entries.iter().filter(|entry| !is_matched(entry));
        match self.list.excludes {
            true => Vec::new(),
            false => entries.map(|entry| entry.name.clone()).collect(),
        }
    }

    fn nothing(&self, context: &Context<'_>) -> Item {
        let status = match context.without_rdma() {
            Some(_) => ItemStatus::Degraded,
            None => ItemStatus::Failing,
        };
        let (message, remedy) = if self.candidates.is_empty() {
            let remedy = "first fix the devices (uverbs, rdma_ports); then unset NCCL_IB_HCA, or name what is there";
            (
                format!("{}, and no port is usable in here", self.setting),
                remedy.to_string(),
            )
        } else {
            let usable = list(&port_names(&self.candidates));
            let message = format!("{} selects no port: usable are {usable}", self.setting);
            let odd = odd(&self.candidates);
            let wanted = odd.as_ref().map_or(&self.candidates, |odd| &odd.rest);
            let value = list_of(wanted, &self.candidates);
            let remedy = match odd.is_some_and(|odd| odd.by_layer) {
                true => format!("NCCL_IB_HCA: `{value}`"),
                false => format!("NCCL_IB_HCA: unset it, or `{value}`"),
            };
            (message, remedy)
        };
        let message = format!("{message}{}", self.why_nothing(context));
        Item::new(status, Some("HcaMatchesNothing"), message).fix(remedy)
    }

    /// The likely mistake in a list that selects nothing.
    fn why_nothing(&self, context: &Context<'_>) -> String {
        if let Some(Entry { name, .. }) = self.list.with_blanks() {
            return format!(" (the blank in {name:?} counts as part of the name)");
        }
        if self.list.excludes && self.list.entries.is_empty() {
            return " (an exclusion without names leaves out everything)".into();
        }
        if self.setting.value.starts_with("==") {
            return " (the second = counts as part of the name)".into();
        }
        if self.setting.value.contains(['*', '?', ';']) {
            return " (NCCL knows no wildcards, and only commas separate names)".into();
        }
        let mut devices = context.devices().iter().filter(|_| !self.list.excludes);
        let device = devices.find(|device| {
            device
                .ports
                .iter()
                .any(|port| self.list.selects_port(&(*device, port)))
        });
        match device {
            Some(device) if !device.is_open() => {
                let name = &device.device.name;
                format!(" ({name} is on the node and not usable in this container)")
            }
            Some(device) => format!(" ({} is here, its port is not active)", device.device.name),
            None => String::new(),
        }
    }

    /// Some names match nothing, and a usable port is left out. A list may well name more than this
    /// container was given.
    fn partly(&self, unmatched: &[String]) -> Option<Item> {
        let leaves_none = self.selected.len() == self.candidates.len();
        (!unmatched.is_empty() && !leaves_none).then(|| {
            let message = format!("{}: nothing usable is called {}; NCCL uses only {}", self.setting, list(unmatched), list(&self.names));
            Item::degraded("HcaPartly", message)
                .fix("NCCL_IB_HCA: remove these names, or see why their ports are not active (rdma_ports)")
        })
    }

    /// An exclusion that repeats its marks before a later name, which would match without them.
    fn repeated_marks(&self) -> Option<Item> {
        let bare = |name: &str| name.trim_start_matches(['^', '=']).to_string();
        let is_repeated = |entry: &&Entry| {
            let name = bare(&entry.name);
            let would_match = Entry { name, ..**entry };
            would_match.name != entry.name
                && !would_match.name.is_empty()
                && (self.candidates.iter()).any(|port| self.list.matches_port(&would_match, port))
        };
        let entry = self.list.entries.iter().find(is_repeated)?;
        self.list.excludes.then(|| {
            let value = self.setting.value;
            let names = value.trim_start_matches(['^', '=']);
            let marks = value.strip_suffix(names).unwrap_or_default();
            let names: Vec<String> = names.split(',').map(bare).collect();
            let message = format!("{}: ^ and = count before the first name only; {} leaves out nothing, and NCCL uses {}", self.setting, entry.name, list(&self.names));
            Item::degraded("HcaPartly", message)
                .fix(format!("NCCL_IB_HCA: `{marks}{}`", names.join(",")))
        })
    }

    /// A whole name that, being a prefix, also selects devices that the list does not name.
    fn unnamed(&self) -> Option<Item> {
        if self.list.exact || self.list.excludes {
            return None;
        }
        let devices = || {
            self.candidates
                .iter()
                .map(|(device, _)| &device.device.name)
        };
        let is_named = |name: &str| self.list.entries.iter().any(|entry| entry.name == name);
        let whole = self
            .list
            .entries
            .iter()
            .filter(|entry| devices().any(|d| *d == entry.name));
        whole.into_iter().find_map(|Entry { name, .. }| {
            let others = devices().filter(|other| other.starts_with(name) && !is_named(other));
            let others: Vec<String> = others.cloned().collect();
            let value = self.setting.value.trim_start_matches(['^', '=']);
            (!others.is_empty()).then(|| {
                let message = format!(
                    "{}: entries are prefixes, so that {name} selects {} too",
                    self.setting,
                    list(&others)
                );
                Item::degraded("HcaPrefix", message)
                    .fix(format!("NCCL_IB_HCA: `={value}` for whole names"))
            })
        })
    }

    fn mixed(&self, context: &Context<'_>) -> Option<Item> {
        let odd = odd(&self.selected).filter(|_| context.without_rdma().is_none())?;
        let value = list_of(&odd.rest, &self.candidates);
        Some(heterogeneous(&self.to_string(), &odd, &value))
    }

    /// Fewer ports than the GPUs could use of the same kind.
    fn fewer(&self, context: &Context<'_>) -> Option<Item> {
        let mut rails = self.candidates.clone();
        rails.retain(|(device, _)| {
            self.selected
                .iter()
                .any(|(other, _)| is_alike(device, other))
        });
        let could = context.short_of_rails(self.selected.len(), rails.len())?;
        let names = list(&port_names(&rails));
        let message = format!("{self} only: the job's GPUs here could use {could} of {names}");
        let value = list_of(&rails, &self.candidates);
        Some(
            Item::degraded("HcaFewer", message).fix(match rails.len() == self.candidates.len() {
                true => format!("NCCL_IB_HCA: unset it, or `{value}`"),
                false => format!("NCCL_IB_HCA: `{value}`"),
            }),
        )
    }
}

#[cfg(test)]
mod tests;
