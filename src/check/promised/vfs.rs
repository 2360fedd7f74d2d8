//! Virtual functions that cannot be what a resource stands for.

use super::{Candidate, Context, VFS_WITHOUT_VERBS, is_for_rdma, say};
use crate::check::Weight;
use crate::observe::offer::NodeOffer;
use crate::observe::pci::gives_away;
use std::collections::BTreeSet;

/// Virtual functions of the rails' NICs that no verbs can come of.
pub(super) fn without_verbs(context: &Context<'_>, offer: &NodeOffer) -> Option<Candidate> {
    let (name, _) = offer.resources.iter().find(|(name, of)| {
        is_for_rdma(name) && *name != "vpc.amazonaws.com/efa" && of.allocatable.unwrap_or(0) > 0
    })?;
    let pci = context.pci()?;
    let rails: BTreeSet<String> = (context.rails())
        .filter_map(|rail| Some(rail.device.pci?.to_string()))
        .collect();
    let functions = (pci.sriov.iter())
        .filter(|(address, _)| rails.contains(*address))
        .flat_map(|(_, facts)| &facts.functions);
    let (mut all, mut without) = (0u64, 0u64);
    for (_, driver) in functions {
        all += 1;
        without += u64::from(driver.as_deref().is_some_and(gives_away));
    }
    if without == 0 {
        return None;
    }
    let message = format!(
        "{without} of {all} virtual functions of the rails are bound to vfio-pci and have no verbs, while {name} is offered"
    );
    // With others left, nobody knows which of them the resource is.
    let weight = if without == all && offer_of(offer, name) <= all {
        Weight::Verdict
    } else {
        Weight::Notice
    };
    let found = say(context, &VFS_WITHOUT_VERBS, name, message)
        .weighing(weight)
        .with("without_verbs", without)
        .with("functions", all);
    Some(found)
}

fn offer_of(offer: &NodeOffer, name: &str) -> u64 {
    let offered = offer.resources.get(name);
    offered.and_then(|of| of.allocatable).unwrap_or(0)
}
