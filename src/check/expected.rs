//! What a rail should be, and where that is known from: one table row an attribute, one comparison.
//!
//! An expectation has a source, the first that says something deciding:
//! 1. *configured*: `expect.*`. It excuses what it names, whatever the other sources say.
//! 2. *shape*: a machine of known shape, where the table of shapes is sure.
//! 3. *remembered*: this rail's own best, kept over reboots.
//! 4. *peers*: the best of the rails alike. That one of them has it proves that it is possible,
//!    whatever most of them show: so a node that gets worse never gets a better verdict.
//!
//! All attributes are numbers of which more is better.

use super::likeness::{self, alike};
use super::{Candidate, Context, PortView, ReasonDoc, Weight};
use crate::check::profile::Sure;
use crate::check::roles::is_set;
use crate::observe::pci::PciFacts;
use crate::observe::rdma::LinkLayer;
use crate::observe::reading::Reading;
use crate::observe::remembered::Seen;
use serde::{Deserialize, Serialize};

/// Where an expectation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// The operator's settings.
    Configured,
    /// The table of known machines.
    Shape,
    /// What this machine was earlier, also before a reboot.
    Remembered,
    /// The rails alike on this node.
    Peers,
}

/// A rail that was up, in the memory.
pub const UP: &str = "up";
/// A rail, or a NIC that could be one, in the memory: up or not.
pub const RAIL: &str = "rail";
/// A rail that programs could open, in the memory.
pub const UVERBS: &str = "uverbs";
/// The link layer's number, in the memory: the first one that stood.
pub const LINK_LAYER: &str = "link_layer";
/// Part and attribute of the memory: how many GPUs were on the bus. Not which ones, as a card that is
/// added may renumber them.
pub const GPUS: &str = "gpus";
/// A GPU that its driver had bound, in the memory.
pub const DRIVEN: &str = "driven";

/// What was expected of the subject of a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Number or name, in the unit of the evidence.
    pub value: serde_json::Value,
    /// Where it is known from.
    pub because: Because,
}

/// Of the values of the rails alike and the rail's own: what it should have, and whether they prove it.
pub type OfPeers = fn(&[u64], u64) -> Option<(u64, bool)>;

/// An attribute of a rail.
pub struct Row {
    /// Name in the memory.
    pub attribute: &'static str,
    /// The value of a rail that is up; `None` where it is not observed or says nothing.
    pub observed: fn(&Context<'_>, &PortView<'_>) -> Option<u64>,
    /// The operator's number.
    pub configured: fn(&Context<'_>) -> Option<u64>,
    /// The number of the machine's shape.
    pub shape: fn(&Context<'_>) -> Option<(u64, Sure)>,
    /// The best that the history of this boot holds, where it keeps one.
    pub this_boot: fn(&PortView<'_>) -> Option<u64>,
    /// What the rails alike show that one of them should have: [`best`] or [`most`].
    pub peers: OfPeers,
    /// Share of what is expected that is enough.
    pub enough: fn(&Context<'_>) -> f64,
    /// The value for people: `200 Gb/s`.
    pub text: fn(u64) -> String,
    /// The value in evidence and JSON.
    pub value: fn(u64) -> serde_json::Value,
    /// "runs at": what the message says between the subject and the value.
    pub verb: &'static str,
    /// Name of the observed value in the evidence.
    pub evidence: &'static str,
    /// Reason by the source of the expectation.
    pub reason: fn(Because) -> &'static ReasonDoc,
}

/// What a value falls short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    /// The rail's value.
    pub observed: u64,
    /// The value that it should have.
    pub expected: u64,
    /// Where that is known from.
    pub because: Because,
    /// Whether it proves something wrong. Else it is worth a notice.
    pub proof: bool,
}

/// A row whose attribute is not configured, of no shape and not in the history, with a number that
/// stands for itself.
pub const fn row(
    attribute: &'static str,
    observed: fn(&Context<'_>, &PortView<'_>) -> Option<u64>,
    reason: fn(Because) -> &'static ReasonDoc,
) -> Row {
    Row {
        attribute,
        observed,
        configured: |_| None,
        shape: |_| None,
        this_boot: |_| None,
        peers: best,
        enough: |_| 1.0,
        text: |value| value.to_string(),
        value: |value| value.into(),
        verb: "has",
        evidence: attribute,
        reason,
    }
}

impl Row {
    /// What the rail falls short of, if its value is observed and expected to be higher.
    pub fn shortfall(&self, context: &Context<'_>, port: &PortView<'_>) -> Option<Shortfall> {
        let observed = (self.observed)(context, port)?;
        let enough = (self.enough)(context);
        let short = |expected: u64, because: Because, proof: bool| {
            ((observed as f64) < expected as f64 * enough).then_some(Shortfall {
                observed,
                expected,
                because,
                proof,
            })
        };
        if port.rail
            && let Some(configured) = (self.configured)(context)
        {
            return short(configured, Because::Configured, true);
        }
        // Without the PCI bus, or with a NIC of unknown make, which ports are rails is a guess.
        let makes_known = context.ports().iter().all(likeness::is_of_known_make);
        let sure_of_role = context.snapshot.pci.is_some() && makes_known;
        let shape = (self.shape)(context).filter(|_| port.rail);
        let sure = shape
            .filter(|(_, sure)| *sure == Sure::Yes && sure_of_role)
            .and_then(|(value, _)| short(value, Because::Shape, true));
        let had = || remembered(context, port, self.attribute).max((self.this_boot)(port));
        sure.or_else(|| short(had()?, Because::Remembered, true))
            .or_else(|| {
                let (value, proof) = (self.peers)(&self.of_peers(context, port), observed)?;
                short(value, Because::Peers, proof && sure_of_role)
            })
            .or_else(|| {
                let (most, _) = shape.filter(|(_, sure)| *sure == Sure::AtMost)?;
                short(most, Because::Shape, false)
            })
    }

    /// The values of the rails alike.
    pub fn of_peers(&self, context: &Context<'_>, port: &PortView<'_>) -> Vec<u64> {
        let peers = context.rails().filter(|other| alike(port, other));
        peers
            .filter_map(|other| (self.observed)(context, other))
            .collect()
    }

    /// The finding, if the rail falls short.
    pub fn judge(&self, context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
        let short = self.shortfall(context, port)?;
        Some(self.candidate(context, port, short, (self.reason)(short.because)))
    }

    /// The finding for a shortfall, under a reason of the row or a more precise one.
    pub fn candidate(
        &self,
        context: &Context<'_>,
        port: &PortView<'_>,
        short: Shortfall,
        doc: &ReasonDoc,
    ) -> Candidate {
        let (observed, expected) = ((self.text)(short.observed), (self.text)(short.expected));
        let because = match short.because {
            Because::Configured => "as configured".to_string(),
            Because::Shape => {
                let name = context
                    .profile
                    .map_or("this machine", |profile| profile.name());
                match short.proof {
                    true => format!("as every {name} has"),
                    false => format!("which a {name} can have"),
                }
            }
            Because::Remembered => "as it had earlier".to_string(),
            Because::Peers => "as rails alike have".to_string(),
        };
        let message = format!(
            "{} {} {observed}, expected {expected}, {because}",
            port.subject, self.verb
        );
        let mut found = context.of_port(doc, port, message);
        if !short.proof {
            found.weight = Weight::Notice;
        }
        found
            .with(self.evidence, (self.value)(short.observed))
            .expecting((self.value)(short.expected), short.because)
    }
}

/// The best value is possible for each: proof among three, or where one has less than half.
pub fn best(values: &[u64], observed: u64) -> Option<(u64, bool)> {
    let best = *values.iter().max()?;
    let proof = values.len() >= 3 || observed.saturating_mul(2) < best;
    Some((best, proof))
}

/// Where one may have more than the others for a reason, a clear majority says what is usual.
pub fn most(values: &[u64], _: u64) -> Option<(u64, bool)> {
    Some((majority(values)?, true))
}

/// The value of a clear majority: more than half of them, and three at least.
pub fn majority<T: Ord + Clone>(values: &[T]) -> Option<T> {
    let count = |value: &T| values.iter().filter(|other| *other == value).count();
    let clear = |value: &&T| count(value) >= 3 && count(value) * 2 > values.len();
    values.iter().find(clear).cloned()
}

/// An attribute that rails alike share: none of its values is better than another, but one that
/// differs from those of a clear majority is odd.
pub struct Shared {
    /// What it is called in messages: "trust state".
    pub name: &'static str,
    /// Name in the evidence.
    pub evidence: &'static str,
    /// The value of a rail that is up, for people; `None` where it is not observed or says nothing.
    pub observed: fn(&Context<'_>, &PortView<'_>) -> Option<String>,
    /// Which rails share it.
    pub alike: fn(&PortView<'_>, &PortView<'_>) -> bool,
    /// What an odd rail is.
    pub reason: &'static ReasonDoc,
}

impl Shared {
    /// The findings of the odd ones among the rails that are `asked`. Each value is built once: most
    /// often all are the same, and no rail is compared with another.
    pub fn judge(
        &self,
        context: &Context<'_>,
        asked: impl Fn(&PortView<'_>) -> bool,
    ) -> Vec<Candidate> {
        let rails: Vec<(&PortView<'_>, String)> = (context.rails())
            .filter_map(|rail| Some((rail, (self.observed)(context, rail)?)))
            .collect();
        let first = rails.first().map(|(_, value)| value.as_str());
        if rails.iter().all(|(_, value)| Some(value.as_str()) == first) {
            return Vec::new();
        }
        let odd = |(port, own): &(&PortView<'_>, String)| {
            let peers = rails.iter().filter(|(other, _)| (self.alike)(port, other));
            let values: Vec<&str> = peers.map(|(_, value)| value.as_str()).collect();
            let usual = majority(&values).filter(|usual| usual != own)?;
            asked(port).then(|| self.candidate(context, port, own, usual))
        };
        rails.iter().filter_map(odd).collect()
    }

    fn candidate(
        &self,
        context: &Context<'_>,
        port: &PortView<'_>,
        own: &str,
        usual: &str,
    ) -> Candidate {
        let (subject, name) = (&port.subject, self.name);
        let message = format!("{subject}: {name} is {own}, {usual} on most rails alike");
        context
            .of_port(self.reason, port, message)
            .with(self.evidence, own)
            .expecting(usual, Because::Peers)
    }
}

/// The best that the memory holds of a port's attribute.
pub fn remembered(context: &Context<'_>, port: &PortView<'_>, attribute: &str) -> Option<u64> {
    let memory = &context.history.remembered;
    memory.best(&port.key.to_string(), &identity(port), attribute)
}

/// The hardware's own identity, empty where it is not known.
pub fn identity(port: &PortView<'_>) -> String {
    let guid = port.device.node_guid.clone();
    guid.filter(|guid| is_set(guid)).unwrap_or_default()
}

/// What there is to remember of the rails and GPUs now.
pub fn seen(context: &Context<'_>, rows: &[&Row]) -> Vec<Seen> {
    let layer = |rail: &PortView<'_>| {
        let (layer, first) = (rail.port.link_layer, remembered(context, rail, LINK_LAYER));
        let is_first = first.is_none_or(|first| first == layer as u64);
        (is_first && layer != LinkLayer::Unspecified).then_some((LINK_LAYER, layer as u64))
    };
    let of_active = |rail: &PortView<'_>| -> Vec<(&'static str, u64)> {
        (rows.iter())
            .filter_map(|row| Some((row.attribute, (row.observed)(context, rail)?)))
            .chain([(UP, 1)])
            .chain(matches!(rail.device.uverbs, Reading::Value(_)).then_some((UVERBS, 1)))
            .chain(layer(rail))
            .collect()
    };
    let rails = context.rails().map(|rail| {
        let mut values = vec![(RAIL, 1)];
        if rail.is_active() {
            values.extend(of_active(rail));
        }
        Seen {
            part: rail.key.to_string(),
            identity: identity(rail),
            name: rail.subject.clone(),
            values,
        }
    });
    let pci = context.pci();
    let driven = |gpu: &String| pci.is_some_and(|pci| is_driven(pci, gpu));
    let gpus = context.gpus().into_iter().map(|gpu| Seen {
        values: Vec::from_iter(driven(&gpu).then_some((DRIVEN, 1))),
        identity: String::new(),
        name: gpu.clone(),
        part: gpu,
    });
    let count = pci.map(|pci| Seen {
        part: GPUS.into(),
        identity: String::new(),
        name: GPUS.into(),
        values: vec![(GPUS, pci.gpus.len() as u64)],
    });
    rails.chain(gpus).chain(count).collect()
}

/// Whether the driver of GPUs has bound one.
pub fn is_driven(pci: &PciFacts, gpu: &str) -> bool {
    let driver = (pci.functions.get(gpu)).and_then(|function| function.driver.as_deref());
    matches!(driver, Some("nvidia" | "amdgpu"))
}

/// Vendor and product of the machine, where DMI tells them.
pub fn machine(context: &Context<'_>) -> Option<String> {
    let machine = &context.pci()?.machine;
    let name = [&machine.vendor, &machine.product].map(|part| part.as_deref().unwrap_or_default());
    Some(name.join(" ")).filter(|name| !name.trim().is_empty())
}
