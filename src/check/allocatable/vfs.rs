//! Virtual functions that cannot be what a resource stands for.

use super::{Candidate, Context, NodeResources, is_for_rdma, say};
use crate::check::{PortView, Weight};
use crate::observe::{VfLink, VfLinks, gives_away, is_shared_by_name};
use std::collections::{BTreeMap, BTreeSet};

/// The first resource that is offered for RDMA other than EFA's, among those that `is` takes.
fn resource(offer: &NodeResources, is: fn(&str) -> bool) -> Option<(&String, u64)> {
    let offered = offer.resources.iter();
    let mut offered = offered.map(|(name, of)| (name, of.allocatable.unwrap_or(0)));
    let verbs = |name: &str| is_for_rdma(name) && name != "vpc.amazonaws.com/efa";
    offered.find(|(name, count)| verbs(name) && is(name) && *count > 0)
}

/// Virtual functions of the rails' NICs that no verbs can come of.
pub(super) fn without_verbs(context: &Context<'_>, offer: &NodeResources) -> Option<Candidate> {
    // One function each, or a slot of a shared one.
    let (name, offered) = resource(offer, |_| true)?;
    let pci = context.pci()?;
    let rails: BTreeSet<String> = (context.rails()).filter_map(PortView::address).collect();
    let functions = (pci.sriov.iter())
        .filter(|(address, _)| rails.contains(*address))
        .flat_map(|(_, facts)| &facts.functions);
    let given: Vec<bool> = functions
        .map(|(_, driver)| gives_away(driver.as_deref()))
        .collect();
    let without = given.iter().filter(|given| **given).count() as u64;
    let all = given.len() as u64;
    if without == 0 {
        return None;
    }
    let message = format!(
        "{without} of {all} virtual functions of the rails are bound to vfio-pci and have no verbs, while {name} is offered"
    );
    // With others left, it is unknown which of them the resource is.
    let found = say(context, "VfsWithoutVerbs", name, message)
        .weighing(Weight::counting_if(without == all && offered <= all))
        .with("without_verbs", without);
    Some(found.with("functions", all))
}

/// Most physical functions that a message names.
const NAMED: usize = 4;

/// Virtual functions of the rails that are switched off.
pub(super) fn link_disabled(context: &Context<'_>, offer: &NodeResources) -> Option<Candidate> {
    let (name, offered) = resource(offer, |name| !is_shared_by_name(name))?;
    // One interface can be several ports' (an RDMA device above a bond).
    let rails: BTreeMap<&str, &VfLinks> = (context.rails())
        .filter(|rail| rail.is_roce())
        .flat_map(|rail| links(context, rail))
        .collect();
    let (mut all, mut disabled, mut wholly) = (0u64, 0u64, false);
    let mut told = Vec::new();
    for (interface, links) in rails {
        let off = links.in_state(VfLink::Disable).count();
        all += links.states.len() as u64;
        disabled += off as u64;
        wholly |= off > 0 && off == links.states.len();
        if let Some(numbers) = links.disabled_text() {
            told.push(format!("{interface} vf {numbers}"));
        }
    }
    if disabled == 0 {
        return None;
    }
    let more = match told.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and of {more} more"),
    };
    told.truncate(NAMED);
    let message = format!(
        "{disabled} of {all} virtual functions of the rails are set to `disable` ({}{more}): pods that get one through {name} have no link",
        told.join("; ")
    );
    // More than there are functions is something else's number.
    let functions = context.pci().map_or(0, |pci| {
        pci.sriov.values().map(|pf| u64::from(pf.enabled)).sum()
    });
    let found = say(context, "VfLinkDisabled", name, message)
        .weighing(Weight::counting_if(wholly && offered <= all.max(functions)))
        .with("disabled", disabled);
    Some(found.with("functions", all))
}

/// Link states of a rail's functions: of its interface, and of the legs below a bond.
fn links<'a>(
    context: &Context<'a>,
    rail: &PortView<'a>,
) -> impl Iterator<Item = (&'a str, &'a VfLinks)> {
    let (snapshot, context) = (context.snapshot, context.clone());
    let own = rail.port.netdev.as_deref();
    snapshot.vf_links.iter().filter_map(move |(name, stamp)| {
        let master = || snapshot.netdevs.get(name)?.value.master.as_deref();
        if own.is_none() || (own != Some(name) && master() != own) {
            return None;
        }
        let links = context.fresh(stamp, "vf_links", name)?.value()?;
        Some((name.as_str(), links))
    })
}

#[cfg(test)]
mod tests;
