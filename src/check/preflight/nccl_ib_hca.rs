//! The ports that `NCCL_IB_HCA` selects, and common mistakes in it. Ports that do not belong together
//! are one: front-end and storage NICs differ from a compute fabric's rails in link layer or rate.

use super::nccl_list::{ListItem, NcclList};
use super::{
    Checked, Item, ItemStatus, PodFabric, PodPort, PodView, is_alike, list, port_name, port_names,
};
use crate::check::roles::kind::layer_name;
use crate::observe::LinkLayer;
use crate::units::BitsPerSec;

/// What NCCL makes of the setting, or of none.
struct Selection<'a> {
    /// The setting as people write it; `not set` if there is none.
    setting: String,
    /// The value; empty if there is none.
    value: &'a str,
    list: NcclList,
    /// Every port that NCCL could use.
    candidates: Vec<PodPort<'a>>,
    /// Those that the list selects.
    selected: Vec<PodPort<'a>>,
    names: Vec<String>,
}

/// Judges what `NCCL_IB_HCA` selects, or what NCCL uses without it.
pub(super) fn ib_hca(context: &PodView<'_>) -> Checked {
    let skip = match context.fabric {
        PodFabric::Efa => "EFA's plugin chooses its devices itself",
        PodFabric::TcpRails | PodFabric::None => "this container has no RDMA device",
        PodFabric::Unknown => "RDMA devices could not be listed",
        PodFabric::Verbs => "",
    };
    Item::skipped(skip).when(!skip.is_empty())?;
    let (candidates, selected) = (context.candidates(), context.selected());
    let setting = context.nccl("NCCL_IB_HCA");
    let selection = Selection {
        setting: setting.map_or("not set".into(), |setting| setting.to_string()),
        value: setting.map_or("", |setting| setting.value),
        list: context.hca_list(),
        names: port_names(&selected),
        candidates,
        selected,
    };
    if setting.is_none() {
        return selection.unset(context);
    }
    let (Ok(item) | Err(item)) = selection.judge(context);
    Ok(item.with("selected", selection.names))
}

impl std::fmt::Display for Selection<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} selects {}", self.setting, list(&self.names))
    }
}

impl Selection<'_> {
    /// NCCL uses every port; its search prefers those that are fast and near a GPU.
    fn unset(&self, context: &PodView<'_>) -> Checked {
        Item::skipped("not set, and no port is usable").when(self.candidates.is_empty())?;
        let shown = format!("not set: NCCL uses {}", list(&self.names));
        let odd = odd(&self.candidates).ok_or_else(|| Item::ok(&shown))?;
        let value = list_of(&odd.rest, &self.candidates);
        Ok(match odd.by_layer && context.without_rdma().is_none() {
            true => odd.item(&shown, &value),
            false => {
                let text = &odd.text;
                Item::ok(format!("{shown}; {text}: `{value}` would leave them out"))
            }
        })
    }

    fn judge(&self, context: &PodView<'_>) -> Checked {
        self.nothing(context).when(self.selected.is_empty())?;
        let there = self.candidates.iter().map(key);
        let unmatched = (self.list).unmatched(there.map(|(name, port)| (name, Some(port))));
        let (setting, missing, used) = (&self.setting, list(&unmatched), list(&self.names));
        let message =
            format!("{setting}: nothing usable is called {missing}; NCCL uses only {used}");
        // A list may well name more than this container was given, if it leaves out nothing.
        Item::degraded("HcaPartly", message)
            .fix("NCCL_IB_HCA: remove these names, or see why their ports are not active (rdma_ports)")
            .when(!unmatched.is_empty() && self.selected.len() < self.candidates.len())?;
        let mixed = || {
            let odd = odd(&self.selected).filter(|_| context.without_rdma().is_none())?;
            Some(odd.item(&self.to_string(), &list_of(&odd.rest, &self.candidates)))
        };
        let wrong = self.repeated_marks().or_else(|| self.unnamed());
        let wrong = wrong.or_else(mixed).or_else(|| self.fewer(context));
        wrong.map_or(Ok(()), Err)?;
        Ok(match unmatched.is_empty() {
            true => Item::ok(self.to_string()),
            false => Item::ok(format!("{self}; not here or not active: {missing}")),
        })
    }

    fn nothing(&self, context: &PodView<'_>) -> Item {
        let status = match context.without_rdma() {
            Some(_) => ItemStatus::Degraded,
            None => ItemStatus::Failing,
        };
        let (setting, why) = (&self.setting, self.why_nothing(context));
        if self.candidates.is_empty() {
            let message = format!("{setting}, and no port is usable in here{why}");
            return Item::new(status, Some("HcaMatchesNothing"), message)
                .fix("first fix the devices (uverbs, rdma_ports); then unset NCCL_IB_HCA, or name what is there");
        }
        let usable = list(&port_names(&self.candidates));
        let odd = odd(&self.candidates);
        let wanted = odd.as_ref().map_or(&self.candidates, |odd| &odd.rest);
        let value = list_of(wanted, &self.candidates);
        let remedy = match &odd {
            Some(odd) if odd.by_layer => format!("`{value}`"),
            None if wanted.len() > 3 => "unset it".into(),
            _ => format!("unset it, or `{value}`"),
        };
        let message = format!("{setting} selects no port: usable are {usable}{why}");
        Item::new(status, Some("HcaMatchesNothing"), message).fix(format!("NCCL_IB_HCA: {remedy}"))
    }

    /// The likely mistake in a list that selects nothing.
    fn why_nothing(&self, context: &PodView<'_>) -> String {
        if let Some(ListItem { name, .. }) = self.list.with_blanks() {
            return format!(" (the blank in {name:?} counts as part of the name)");
        }
        if self.list.excludes && self.list.entries.is_empty() {
            return " (an exclusion without names leaves out everything)".into();
        }
        if self.value.starts_with("==") {
            return " (the second = counts as part of the name)".into();
        }
        if self.value.contains(['*', '?', ';']) {
            return " (NCCL knows no wildcards, and only commas separate names)".into();
        }
        let mut devices = context.devices().iter().filter(|_| !self.list.excludes);
        let named = devices.find(|device| {
            let mut ports = device.ports.iter();
            ports.any(|port| self.list.selects_port(&(*device, port)))
        });
        named.map_or(String::new(), |device| {
            let why = match device.is_open() {
                true => "here, its port is not active",
                false => "on the node and not usable in this container",
            };
            format!(" ({} is {why})", device.device.name)
        })
    }

    /// An exclusion that repeats its marks before a later name, which would match without them.
    fn repeated_marks(&self) -> Option<Item> {
        let bare = |entry: &ListItem| ListItem {
            name: entry.name.trim_start_matches(['^', '=']).into(),
            ..*entry
        };
        let would_match = |entry: &&ListItem| {
            let (bare, mut ports) = (bare(entry), self.candidates.iter().map(key));
            bare != **entry && ports.any(|(name, port)| self.list.matches(&bare, name, Some(port)))
        };
        let entries = self.list.entries.iter().filter(|_| self.list.excludes);
        let name = &entries.clone().find(would_match)?.name;
        let marks = if self.list.exact { "^=" } else { "^" };
        let names: Vec<String> = entries.map(|entry| bare(entry).name).collect();
        let why = format!("^ and = count before the first name only; {name} leaves out nothing");
        let message = format!("{}: {why}", self.setting);
        let value = format!("{marks}{}", names.join(","));
        Some(Item::degraded("HcaPartly", message).fix(format!("NCCL_IB_HCA: `{value}`")))
    }

    /// A whole name that, being a prefix, also selects devices that the list does not name.
    fn unnamed(&self) -> Option<Item> {
        if self.list.exact || self.list.excludes {
            return None;
        }
        let entries = &self.list.entries;
        let devices = self.candidates.iter();
        let devices = devices.map(|(device, _)| &device.device.name);
        let is_named = |name: &String| entries.iter().any(|entry| entry.name == *name);
        let (whole, rest): (Vec<&String>, Vec<&String>) = devices.partition(|name| is_named(name));
        whole.into_iter().find_map(|name| {
            let others = rest.iter().filter(|other| other.starts_with(name));
            let others: Vec<&String> = others.copied().collect();
            let (setting, value, shown) = (&self.setting, self.value, list(&others));
            (!others.is_empty()).then(|| {
                let why = "entries are prefixes, so that";
                let message = format!("{setting}: {why} {name} selects {shown} too");
                Item::degraded("HcaPrefix", message)
                    .fix(format!("NCCL_IB_HCA: `={value}` for whole names"))
            })
        })
    }

    /// Fewer ports than the GPUs could use of the same kind.
    fn fewer(&self, context: &PodView<'_>) -> Option<Item> {
        let mut rails = self.candidates.clone();
        rails
            .retain(|(device, _)| (self.selected.iter()).any(|(other, _)| is_alike(device, other)));
        let could = context.short_of_rails(self.selected.len(), rails.len())?;
        let names = list(&port_names(&rails));
        let message = format!("{self} only: the job's GPUs here could use {could} of {names}");
        let remedy = match rails.len() == self.candidates.len() {
            true => "NCCL_IB_HCA: unset it, or name a rail for each GPU".into(),
            false => format!("NCCL_IB_HCA: `{}`", list_of(&rails, &self.candidates)),
        };
        Some(Item::degraded("HcaFewer", message).fix(remedy))
    }
}

/// Ports that differ from most others.
struct Odd<'a> {
    names: Vec<String>,
    /// The ports that remain without them.
    rest: Vec<PodPort<'a>>,
    /// `mlx5_an0:1 (Ethernet, 100 Gb/s) next to InfiniBand, 400 Gb/s`.
    text: String,
    /// Whether they differ in link layer, not only in rate.
    by_layer: bool,
}

impl Odd<'_> {
    /// They are selected together with the others; `value` leaves them out.
    fn item(&self, shown: &str, value: &str) -> Item {
        const LAYERS: &str =
            "NCCL cannot connect ports of different link layers (`incompatible devices`), and ";
        const SLOW: &str = "a port that is not a rail of the fabric slows the others down";
        let layers = if self.by_layer { LAYERS } else { "" };
        let message = format!("{shown}; {}: {layers}{SLOW}", self.text);
        Item::degraded("HcaMixed", message)
            .fix(format!("NCCL_IB_HCA: `{value}`"))
            .with("odd", self.names.clone())
    }
}

/// The ports of another link layer than the one that carries most, and those of at most half the
/// best rate if they are fewer than the others.
fn odd<'a>(ports: &[PodPort<'a>]) -> Option<Odd<'a>> {
    let rate = |(_, port): &PodPort<'_>| port.rate.map_or(0, |rate| rate.0);
    let weight = |layer| {
        let those = ports.iter().filter(|(_, port)| port.link_layer == layer);
        let rates = those.clone().map(rate).fold(0, u64::saturating_add);
        (rates, those.count())
    };
    let main = match weight(LinkLayer::Infiniband) >= weight(LinkLayer::Ethernet) {
        true => LinkLayer::Infiniband,
        false => LinkLayer::Ethernet,
    };
    let is_main = |port: &PodPort<'_>| port.1.link_layer == main;
    let own = ports.iter().filter(|port| is_main(port));
    let fastest = own.clone().map(rate).max().unwrap_or(0);
    let is_slow = |port: &PodPort<'_>| (1..=fastest / 2).contains(&rate(port));
    let slow = own.clone().filter(|port| is_slow(port)).count();
    let few_are_slow = slow * 2 < own.count();
    let fits = |port: &PodPort<'_>| is_main(port) && !(few_are_slow && is_slow(port));
    let (rest, odd): (Vec<PodPort<'a>>, Vec<PodPort<'a>>) = ports.iter().copied().partition(fits);
    let first = odd.first()?;
    let names = port_names(&odd);
    let kind = describe(first.1.link_layer, rate(first));
    let (shown, rails) = (list(&names), describe(main, fastest));
    let text = format!("{shown} ({kind}) next to {rails}");
    Some(Odd {
        text,
        by_layer: odd.iter().any(|port| !is_main(port)),
        names,
        rest,
    })
}

fn describe(layer: LinkLayer, rate: u64) -> String {
    let layer = layer_name(layer).unwrap_or("unknown link layer");
    match rate {
        0 => layer.into(),
        rate => format!("{layer}, {}", BitsPerSec(rate)),
    }
}

/// A value of `NCCL_IB_HCA` that selects `wanted` of `all` and nothing else: the shorter of naming them
/// and of excluding the others.
fn list_of(wanted: &[PodPort<'_>], all: &[PodPort<'_>]) -> String {
    let is_in =
        |ports: &[PodPort<'_>], port: &PodPort<'_>| ports.iter().any(|one| key(one) == key(port));
    let mut others = all.to_vec();
    others.retain(|port| !is_in(wanted, port));
    // The port is named if other ports of the device are not meant.
    let names = |ports: &[PodPort<'_>]| {
        let is_whole = |name: &str| {
            let mut own = all.iter().filter(|port| key(port).0 == name);
            own.all(|port| is_in(ports, port))
        };
        let name = |port: &PodPort<'_>| match is_whole(key(port).0) {
            true => port.0.device.name.clone(),
            false => port_name(port),
        };
        let mut names: Vec<String> = ports.iter().map(name).collect();
        names.dedup();
        names.join(",")
    };
    match (1..wanted.len()).contains(&others.len()) {
        true => format!("^={}", names(&others)),
        false => format!("={}", names(wanted)),
    }
}

fn key<'a>(port: &PodPort<'a>) -> (&'a str, u32) {
    (port.0.device.name.as_str(), port.1.number)
}

#[cfg(test)]
mod tests;
