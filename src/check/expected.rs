//! What the node, its rails and its GPUs should be, and where that is known from: one table row an
//! attribute, one comparison.
//!
//! An expectation has a source, the first that says something deciding:
//! 1. *configured*: `policy.expect.*`. It excuses what it names, whatever the other sources say.
//! 2. *shape*: a machine of known shape, where the table of shapes is sure.
//! 3. *remembered*: the part's own best, kept over reboots.
//! 4. *peers*: the best of the peer rails. That one of them has it proves that it is possible,
//!    whatever most of them show: so a node that gets worse never gets a better verdict.
//!
//! All of them are numbers of which more is better, but those that rails merely share.

use super::{Basis, Candidate, Context, PortView, Reason, Weight, peers};
use crate::check::profile::{Certainty, Profile};
use crate::observe::remembered::{LINK_LAYER, Observed};
use crate::observe::{LinkLayer, PciFacts};

/// A rail that was up, in the memory.
pub const UP: &str = "up";
/// A rail, or a NIC that could be one, in the memory: up or not.
pub const RAIL: &str = "rail";
/// Part and attribute of the memory: how many GPUs were on the bus. Not which ones, as a card that is
/// added may renumber them.
pub const GPUS: &str = "gpus";
/// A GPU that its driver had bound, in the memory.
pub const DRIVEN: &str = "driven";

/// Sources, each with the reason for falling short of it.
pub type Reasons = &'static [(&'static [Basis], Reason)];

/// The sources of most attributes of rails.
pub const PAST_AND_PEERS: &[Basis] = &[Basis::Remembered, Basis::Peers];
/// Sources for attributes that all rails share.
pub const PEERS: &[Basis] = &[Basis::Peers];
/// Sources for counts of parts; a count has no peers.
pub const BUT_PEERS: &[Basis] = &[Basis::Configured, Basis::Shape, Basis::Remembered];

/// An attribute, and what it is to fall short of each source. A source that is not listed is not asked.
/// docs/checks.md prints the table of these.
pub struct Attribute {
    /// Name for people, and in the memory.
    pub name: &'static str,
    /// The reason for each source.
    pub reasons: Reasons,
}

/// What each source says that a value should be; `None` where it says nothing.
#[derive(Default)]
pub struct Sources {
    /// The operator's number.
    pub configured: Option<u64>,
    /// The number from the table of machine shapes, and how sure it is.
    pub shape: Option<(u64, Certainty)>,
    /// The part's own best.
    pub remembered: Option<u64>,
    /// What the parts alike show, and whether that proves it.
    pub peers: Option<(u64, bool)>,
}

impl Attribute {
    /// One that people and the memory call `name`.
    pub const fn new(name: &'static str, reasons: Reasons) -> Self {
        Attribute { name, reasons }
    }

    /// The reason for falling short of a source, if it is one that is asked.
    pub fn reason(&self, because: Basis) -> Option<Reason> {
        let mut reasons = self.reasons.iter();
        reasons.find_map(|(of, reason)| of.contains(&because).then_some(*reason))
    }

    /// What a value falls short of, by the first source that it falls short of. Less than `enough` of
    /// what is expected is too little.
    pub fn shortfall(&self, observed: u64, enough: f64, sources: &Sources) -> Option<Shortfall> {
        let short = |(expected, because, proof): (u64, Basis, bool)| {
            Some(Shortfall {
                observed,
                expected,
                because,
                proof,
                reason: self.reason(because)?,
            })
            .filter(|_| (observed as f64) < expected as f64 * enough)
        };
        if let Some(configured) = sources.configured {
            return short((configured, Basis::Configured, true));
        }
        let shape = |sure: Certainty| sources.shape.filter(|(_, of)| *of == sure);
        let asked = [
            shape(Certainty::Yes).map(|(value, _)| (value, Basis::Shape, true)),
            (sources.remembered).map(|value| (value, Basis::Remembered, true)),
            (sources.peers).map(|(value, proof)| (value, Basis::Peers, proof)),
            shape(Certainty::AtMost).map(|(value, _)| (value, Basis::Shape, false)),
        ];
        asked.into_iter().flatten().find_map(short)
    }
}

/// Of the values of the peer rails and the rail's own: what it should have, and whether they prove it.
pub type PeerRule = fn(&[u64], u64) -> Option<(u64, bool)>;

/// The rails whose value of an attribute is observed, to judge each of them by all.
pub struct RailValues<'c, 'a> {
    row: &'c RailAttribute,
    /// The moment that is judged.
    pub context: &'c Context<'a>,
    /// Rails with their values.
    pub values: Vec<(&'c PortView<'a>, u64)>,
}

/// An attribute of a rail that is up.
pub struct RailAttribute {
    /// Its name and reasons.
    pub of: Attribute,
    /// The value of a rail that is up; `None` where it is not observed or says nothing.
    pub observed: fn(&Context<'_>, &PortView<'_>) -> Option<u64>,
    /// Its sources other than memory and peers. The memory's value here is the best of this boot,
    /// where the history keeps one.
    pub sources: fn(&Context<'_>, &PortView<'_>) -> Sources,
    /// What the peer rails show that one of them should have: [`best`] or [`most`].
    pub peers: PeerRule,
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
    /// Whether a rail without peers has one in the other ports of its card.
    pub compares_card_ports: bool,
}

/// What a value falls short of.
#[derive(Debug, Clone, Copy)]
pub struct Shortfall {
    /// The part's value.
    pub observed: u64,
    /// The value that it should have.
    pub expected: u64,
    /// Where that is known from.
    pub because: Basis,
    /// Whether it proves something wrong. Else it is worth a notice.
    pub proof: bool,
    /// The reason for that.
    pub reason: Reason,
}

impl Shortfall {
    /// The finding, with the expected value as evidence and JSON have it.
    pub fn found(&self, found: Candidate, expected: serde_json::Value) -> Candidate {
        let weight = found.weight.min(Weight::counting_if(self.proof));
        found.weighing(weight).expecting(expected, self.because)
    }
}

/// A row of which only the memory and the peers speak, with a number that stands for itself.
pub const fn row(
    name: &'static str,
    observed: fn(&Context<'_>, &PortView<'_>) -> Option<u64>,
    reasons: Reasons,
) -> RailAttribute {
    RailAttribute {
        of: Attribute { name, reasons },
        observed,
        sources: |_, _| Sources::default(),
        peers: best,
        enough: |_| 1.0,
        text: |value| value.to_string(),
        value: |value| value.into(),
        verb: "has",
        evidence: name,
        compares_card_ports: false,
    }
}

impl RailAttribute {
    /// The rails whose value is observed.
    pub fn of_rails<'c, 'a>(&'c self, context: &'c Context<'a>) -> RailValues<'c, 'a> {
        let value = |rail| Some((rail, (self.observed)(context, rail)?));
        RailValues {
            row: self,
            context,
            values: context.rails().filter_map(value).collect(),
        }
    }
}

impl RailValues<'_, '_> {
    /// The values of the rails that are like one, that one with them.
    pub fn of_peers(&self, port: &PortView<'_>) -> Vec<u64> {
        let alike = match self.row.compares_card_ports && self.is_alone(port) {
            true => peers::alike_on_one_card,
            false => peers::alike,
        };
        let alike = self.values.iter().filter(|(other, _)| alike(port, other));
        alike.map(|(_, value)| *value).collect()
    }

    /// Whether no other rail is like one. The other port of its card may be meant for something else.
    fn is_alone(&self, port: &PortView<'_>) -> bool {
        let is_peer = |other: &PortView<'_>| other.key != port.key && peers::alike(port, other);
        !self.values.iter().any(|(other, _)| is_peer(other))
    }

    /// What a port falls short of, if its value is observed and expected to be higher.
    pub fn shortfall(&self, port: &PortView<'_>) -> Option<Shortfall> {
        let (row, context) = (self.row, self.context);
        let observed = (row.observed)(context, port)?;
        // Without the PCI bus, or with a NIC of unknown make, which ports are rails is a guess.
        let sure_of_role = || {
            let mut ports = context.ports().iter();
            context.snapshot.pci.is_some() && ports.all(peers::is_of_known_make)
        };
        // Most often all show the same, and no rail is compared with another.
        let differs = self.values.iter().any(|(_, value)| *value != observed);
        let peers = (differs).then(|| (row.peers)(&self.of_peers(port), observed));
        let own = (row.sources)(context, port);
        let of_rail =
            |(_, sure): &(u64, Certainty)| port.rail && (*sure != Certainty::Yes || sure_of_role());
        let sources = Sources {
            configured: own.configured.filter(|_| port.rail),
            shape: own.shape.filter(of_rail),
            remembered: remembered(context, port, row.of.name).max(own.remembered),
            peers: (peers.flatten())
                .map(|(value, proof)| (value, proof && sure_of_role() && !self.is_alone(port))),
        };
        (row.of).shortfall(observed, (row.enough)(context), &sources)
    }

    /// The finding, if a port falls short.
    pub fn judge(&self, port: &PortView<'_>) -> Option<Candidate> {
        Some(self.candidate(port, self.shortfall(port)?))
    }

    /// The findings of the rails that fall short.
    pub fn judge_all(&self) -> Vec<Candidate> {
        let rails = self.values.iter();
        rails.filter_map(|(rail, _)| self.judge(rail)).collect()
    }

    /// The finding for a shortfall.
    pub fn candidate(&self, port: &PortView<'_>, short: Shortfall) -> Candidate {
        let (row, context) = (self.row, self.context);
        let (observed, expected) = ((row.text)(short.observed), (row.text)(short.expected));
        let name = (context.profile).map_or("this machine", Profile::name);
        let because = match short.because {
            Basis::Configured => "as configured".to_string(),
            Basis::Shape if short.proof => format!("as every {name} has"),
            Basis::Shape => format!("which a {name} can have"),
            Basis::Remembered => "as it had earlier".to_string(),
            Basis::Peers => "as on its peer rails".to_string(),
        };
        let (subject, verb) = (&port.subject, row.verb);
        let message = format!("{subject} {verb} {observed}, expected {expected}, {because}");
        let found = context.of_port(short.reason, port, message);
        let found = found.with(row.evidence, (row.value)(short.observed));
        short.found(found, (row.value)(short.expected))
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

/// An attribute that peer rails share: none of its values is better than another, but one that
/// differs from those of a clear majority is odd.
pub struct PeerAttribute {
    /// What it is called in messages, "trust state", and the reason for an odd rail.
    pub of: Attribute,
    /// Name in the evidence.
    pub evidence: &'static str,
    /// The value of a rail that is up, for people; `None` where it is not observed or says nothing.
    pub observed: fn(&Context<'_>, &PortView<'_>) -> Option<String>,
    /// Which rails share it.
    pub alike: fn(&PortView<'_>, &PortView<'_>) -> bool,
}

impl PeerAttribute {
    /// Adds the findings of the odd ones among the rails that are `asked`, where nothing is said of them yet.
    pub fn judge_others(
        &self,
        context: &Context<'_>,
        asked: impl Fn(&PortView<'_>) -> bool,
        found: &mut Vec<Candidate>,
    ) {
        let mut odd = self.judge(context, asked);
        odd.retain(|odd| !found.iter().any(|worse| worse.key == odd.key));
        found.extend(odd);
    }

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
            let reason = self.of.reason(Basis::Peers).filter(|_| asked(port))?;
            let (subject, name) = (&port.subject, self.of.name);
            let message =
                format!("{subject}: {name} is {own}, but {usual} on most of its peer rails");
            let found = context.of_port(reason, port, message);
            let found = found.with(self.evidence, own.as_str());
            Some(found.expecting(usual, Basis::Peers))
        };
        rails.iter().filter_map(odd).collect()
    }
}

/// The best that the memory holds of a port's attribute.
pub fn remembered(context: &Context<'_>, port: &PortView<'_>, attribute: &str) -> Option<u64> {
    let memory = &context.history.remembered;
    memory.best(&port.key.to_string(), port.device.identity(), attribute)
}

/// What there is to remember of the rails and GPUs now.
pub fn seen(context: &Context<'_>, rows: &[&RailAttribute]) -> Vec<Observed> {
    let layer = |rail: &PortView<'_>| {
        let (layer, first) = (rail.port.link_layer, remembered(context, rail, LINK_LAYER));
        let is_first = first.is_none_or(|first| first == layer as u64);
        (is_first && layer != LinkLayer::Unspecified).then_some((LINK_LAYER, layer as u64))
    };
    let rails = context.rails().map(|rail| {
        let mut values = vec![(RAIL, 1)];
        if rail.is_active() {
            let observed =
                |row: &&RailAttribute| Some((row.of.name, (row.observed)(context, rail)?));
            values.extend(rows.iter().filter_map(observed));
            values.push((UP, 1));
            values.extend(layer(rail));
        }
        Observed {
            part: rail.key.to_string(),
            identity: rail.device.identity().into(),
            name: rail.subject.clone(),
            values,
        }
    });
    let without_identity = |name: &str, value: Option<(&'static str, u64)>| Observed {
        part: name.into(),
        identity: String::new(),
        name: name.into(),
        values: Vec::from_iter(value),
    };
    let pci = context.pci();
    let driven = |gpu: &str| {
        pci.is_some_and(|pci| is_driven(pci, gpu))
            .then_some((DRIVEN, 1))
    };
    let gpus = (context.gpus().into_iter()).map(|gpu| without_identity(&gpu, driven(&gpu)));
    let count = pci.map(|pci| without_identity(GPUS, Some((GPUS, pci.gpus.len() as u64))));
    rails.chain(gpus).chain(count).collect()
}

/// Whether the driver of GPUs has bound one.
pub fn is_driven(pci: &PciFacts, gpu: &str) -> bool {
    let driver = (pci.functions.get(gpu)).and_then(|function| function.driver.as_deref());
    matches!(driver, Some("nvidia" | "amdgpu"))
}

/// Vendor and product of the machine, where DMI tells both: one that cannot be read makes no other
/// machine of it.
pub fn machine(context: &Context<'_>) -> Option<String> {
    let machine = &context.pci()?.machine;
    let (vendor, product) = (machine.vendor.as_ref()?, machine.product.as_ref()?);
    Some(format!("{vendor} {product}"))
}
