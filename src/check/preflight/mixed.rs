//! Ports that do not go together: of another link layer, or clearly slower, as front-end and
//! storage NICs are beside a compute fabric.

use super::devices::list;
use super::nccl_list::{MAX_HCAS, NcclList};
use super::scene::{layer, port_name};
use crate::observe::container::{SeenDevice, SeenPort};
use crate::observe::rdma::LinkLayer;
use crate::units::BitsPerSec;

pub(super) type Port<'a> = (&'a SeenDevice, &'a SeenPort);

/// Ports among others that they do not fit.
pub(super) struct Odd<'a> {
    /// Their names: `mlx5_an0:1`.
    pub names: Vec<String>,
    /// The ports that are left without them.
    pub rest: Vec<Port<'a>>,
    /// `mlx5_an0:1 (Ethernet, 100 Gb/s) beside InfiniBand, 400 Gb/s`.
    pub told: String,
    /// Another link layer; else they are only slower.
    pub by_layer: bool,
}

/// The odd ones: those that are not of the link layer that carries most, and those of its own with
/// half its rate or less, where they are fewer than the others.
pub(super) fn odd<'a>(ports: &[Port<'a>]) -> Option<Odd<'a>> {
    let rate = |(_, port): &Port<'_>| port.rate;
    let weight = |of: LinkLayer| {
        let those = ports.iter().filter(|(d, p)| layer(d, p) == of);
        let rates = those.clone().filter_map(rate).map(|rate| rate.0);
        (rates.fold(0, u64::saturating_add), those.count())
    };
    let main = match weight(LinkLayer::Infiniband) >= weight(LinkLayer::Ethernet) {
        true => LinkLayer::Infiniband,
        false => LinkLayer::Ethernet,
    };
    let is_main = |(d, p): &Port<'_>| layer(d, p) == main;
    let own = ports.iter().filter(|port| is_main(port));
    let fastest = own.clone().filter_map(rate).max();
    let is_slow = |port: &Port<'_>| match (rate(port), fastest) {
        (Some(rate), Some(fastest)) => rate.0.saturating_mul(2) <= fastest.0,
        _ => false,
    };
    let slow = own.clone().filter(|port| is_slow(port)).count();
    let slow_ones_are_few = slow * 2 < own.count();
    let fits = |port: &Port<'_>| is_main(port) && !(slow_ones_are_few && is_slow(port));
    let (rest, odd): (Vec<Port<'a>>, Vec<Port<'a>>) = ports.iter().copied().partition(fits);
    let first = odd.first()?;
    let names: Vec<String> = odd.iter().map(|(d, p)| port_name(d, p)).collect();
    let told = format!(
        "{} ({}) beside {}",
        list(&names),
        kind(layer(first.0, first.1), rate(first)),
        kind(main, fastest)
    );
    Some(Odd {
        by_layer: odd.iter().any(|port| !is_main(port)),
        names,
        rest,
        told,
    })
}

fn kind(layer: LinkLayer, rate: Option<BitsPerSec>) -> String {
    let layer = match layer {
        LinkLayer::Infiniband => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::Unspecified => "of no link layer",
    };
    match rate {
        Some(rate) => format!("{layer}, {rate}"),
        None => layer.to_string(),
    }
}

/// A value of `NCCL_IB_HCA` that takes `wanted` of `all` and nothing else: names of a few, what the
/// names of many begin with, all but a few; else names.
pub(super) fn list_of(wanted: &[Port<'_>], all: &[Port<'_>]) -> String {
    let takes = |value: &str| {
        let list = NcclList::parse(value, MAX_HCAS);
        all.iter().all(|port| {
            let is_wanted = wanted.iter().any(|w| key(w) == key(port));
            list.selects(&port.0.device.name, Some(port.1.number)) == is_wanted
        })
    };
    let others: Vec<Port<'_>> = all
        .iter()
        .filter(|port| !wanted.iter().any(|w| key(w) == key(port)))
        .copied()
        .collect();
    let by_name = format!("={}", names(wanted, all));
    let tries = [
        (wanted.len() <= 3).then(|| by_name.clone()),
        shared_beginning(wanted),
        (others.len() < wanted.len()).then(|| format!("^={}", names(&others, all))),
    ];
    let mut tries = tries.into_iter().flatten();
    tries.find(|value| takes(value)).unwrap_or(by_name)
}

fn key<'a>(port: &Port<'a>) -> (&'a str, u32) {
    (port.0.device.name.as_str(), port.1.number)
}

/// Names of devices, with the port where others of its ports are not meant.
fn names(ports: &[Port<'_>], all: &[Port<'_>]) -> String {
    let whole = |name: &str| {
        let mut of = all.iter().filter(|port| port.0.device.name == name);
        of.all(|port| ports.iter().any(|p| key(p) == key(port)))
    };
    let mut names: Vec<String> = ports
        .iter()
        .map(|(device, port)| match whole(&device.device.name) {
            true => device.device.name.clone(),
            false => port_name(device, port),
        })
        .collect();
    names.dedup();
    names.join(",")
}

/// What all the names begin with.
fn shared_beginning(ports: &[Port<'_>]) -> Option<String> {
    let first = ports.first()?.0.device.name.as_str();
    let ends = first.char_indices().map(|(at, c)| at + c.len_utf8());
    ends.rev()
        .filter_map(|end| first.get(..end))
        .find(|head| ports.iter().all(|p| p.0.device.name.starts_with(head)))
        .map(Into::into)
}
