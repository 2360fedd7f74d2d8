//! Ports that do not belong together: front-end and storage NICs differ from a compute fabric's
//! rails in link layer or rate.

use super::context::{Port, link_layer, port_name, port_names};
use super::nccl_list::{MAX_HCAS, NcclList};
use super::wording::list;
use crate::observe::rdma::LinkLayer;
use crate::units::BitsPerSec;

/// Ports that differ from most others.
pub(super) struct Odd<'a> {
    pub names: Vec<String>,
    /// The ports that remain without them.
    pub rest: Vec<Port<'a>>,
    /// `mlx5_an0:1 (Ethernet, 100 Gb/s) next to InfiniBand, 400 Gb/s`.
    pub text: String,
    /// Whether they differ in link layer, not only in rate.
    pub by_layer: bool,
}

/// The ports of another link layer than the one that carries most, and those of at most half the
/// best rate if they are fewer than the others.
pub(super) fn odd<'a>(ports: &[Port<'a>]) -> Option<Odd<'a>> {
    let rate = |(_, port): &Port<'_>| port.rate;
    let weight = |of: LinkLayer| {
        let those = ports.iter().filter(|(d, p)| link_layer(d, p) == of);
        let rates = those.clone().filter_map(rate).map(|rate| rate.0);
        (rates.fold(0, u64::saturating_add), those.count())
    };
    let main = match weight(LinkLayer::Infiniband) >= weight(LinkLayer::Ethernet) {
        true => LinkLayer::Infiniband,
        false => LinkLayer::Ethernet,
    };
    let is_main = |(d, p): &Port<'_>| link_layer(d, p) == main;
    let own = ports.iter().filter(|port| is_main(port));
    let fastest = own.clone().filter_map(rate).max();
    let is_slow = |port: &Port<'_>| match (rate(port), fastest) {
        (Some(rate), Some(fastest)) => rate.0.saturating_mul(2) <= fastest.0,
        _ => false,
    };
    let slow = own.clone().filter(|port| is_slow(port)).count();
    let few_are_slow = slow * 2 < own.count();
    let fits = |port: &Port<'_>| is_main(port) && !(few_are_slow && is_slow(port));
    let (rest, odd): (Vec<Port<'a>>, Vec<Port<'a>>) = ports.iter().copied().partition(fits);
    let (device, port) = odd.first()?;
    let names = port_names(&odd);
    let kind = describe(link_layer(device, port), port.rate);
    Some(Odd {
        text: format!(
            "{} ({kind}) next to {}",
            list(&names),
            describe(main, fastest)
        ),
        by_layer: odd.iter().any(|port| !is_main(port)),
        names,
        rest,
    })
}

fn describe(layer: LinkLayer, rate: Option<BitsPerSec>) -> String {
    let layer = match layer {
        LinkLayer::Infiniband => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::Unspecified => "unknown link layer",
    };
    rate.map_or(layer.to_string(), |rate| format!("{layer}, {rate}"))
}

/// A value of `NCCL_IB_HCA` that selects `wanted` of `all` and nothing else: names of up to three, a
/// common prefix of more, an exclusion of few; else names.
pub(super) fn list_of(wanted: &[Port<'_>], all: &[Port<'_>]) -> String {
    let is_wanted = |port: &Port<'_>| wanted.iter().any(|one| key(one) == key(port));
    let selects_wanted = |value: &String| {
        let list = NcclList::parse(value, MAX_HCAS);
        all.iter()
            .all(|port| list.selects_port(port) == is_wanted(port))
    };
    let others: Vec<Port<'_>> = all
        .iter()
        .filter(|port| !is_wanted(port))
        .copied()
        .collect();
    let by_name = format!("={}", names(wanted, all));
    let candidates = [
        (wanted.len() <= 3).then(|| by_name.clone()),
        common_prefix(wanted),
        (others.len() < wanted.len()).then(|| format!("^={}", names(&others, all))),
    ];
    let mut candidates = candidates.into_iter().flatten();
    candidates.find(selects_wanted).unwrap_or(by_name)
}

fn key<'a>(port: &Port<'a>) -> (&'a str, u32) {
    (port.0.device.name.as_str(), port.1.number)
}

/// Names of devices, with the port if other ports of the device are not meant.
fn names(ports: &[Port<'_>], all: &[Port<'_>]) -> String {
    let is_whole = |name: &str| {
        let mut of = all.iter().filter(|port| port.0.device.name == name);
        of.all(|port| ports.iter().any(|one| key(one) == key(port)))
    };
    let name = |port: &Port<'_>| match is_whole(&port.0.device.name) {
        true => port.0.device.name.clone(),
        false => port_name(port),
    };
    let mut names: Vec<String> = ports.iter().map(name).collect();
    names.dedup();
    names.join(",")
}

fn common_prefix(ports: &[Port<'_>]) -> Option<String> {
    let first = ports.first()?.0.device.name.as_str();
    let mut prefixes = (1..=first.len()).rev().filter_map(|end| first.get(..end));
    let is_common = |head: &&str| ports.iter().all(|p| p.0.device.name.starts_with(head));
    prefixes.find(is_common).map(Into::into)
}
