//! What this machine has been at its best: kept over reboots, so that a node that gets worse is held
//! against itself.

use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// How long a value must stand before it is remembered: a link that trains, a driver that loads and a
/// switch that is being set up show values that they do not keep.
const STANDS_FOR: Duration = Duration::from_secs(600);
/// Most parts remembered; a machine has a few dozen rails and GPUs.
const MAX_PARTS: usize = 256;

/// The rate of a rail in bit/s, as an attribute.
pub const RATE: &str = "rate";

/// The link layer's number of a rail, as an attribute: the first one that stood.
pub const LINK_LAYER: &str = "link_layer";

/// The best values of a machine's parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Vendor and product by DMI. Another machine starts afresh.
    machine: Option<String>,
    /// The last moment that an operator's annotation named to accept the machine as it is: each
    /// counts once, and none that is not later.
    #[serde(default)]
    accepted: Option<jiff::Timestamp>,
    /// By what a part is known by: a port key of a rail, a PCI address of a GPU.
    parts: BTreeMap<String, Part>,
}

/// A rail or a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Serial identity of the hardware: another card in the same slot starts afresh. Empty if unknown.
    pub identity: String,
    /// Name when it was last seen.
    pub name: String,
    /// Highest value that stood, by attribute.
    best: BTreeMap<String, u64>,
    /// Values that do not stand long enough yet, with the moment since which they are seen.
    #[serde(skip)]
    standing: BTreeMap<&'static str, (u64, Millis)>,
}

/// What is seen of a part now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Port key or PCI address.
    pub part: String,
    /// Serial identity, empty if unknown.
    pub identity: String,
    /// For people.
    pub name: String,
    /// Attributes that are observed, by name.
    pub values: Vec<(&'static str, u64)>,
}

impl Remembered {
    /// The best value of an attribute, if the part is still the same hardware.
    pub fn best(&self, part: &str, identity: &str, attribute: &str) -> Option<u64> {
        let part = self.parts.get(part)?;
        (part.is(identity)).then(|| part.best.get(attribute).copied())?
    }

    /// Parts that have had an attribute.
    pub fn parts_with(&self, attribute: &str) -> impl Iterator<Item = (&String, &Part)> {
        let has = move |(_, part): &(&String, &Part)| part.best.contains_key(attribute);
        self.parts.iter().filter(has)
    }

    /// Adds what is seen now. A value counts once it has stood for ten minutes.
    pub fn learn(&mut self, machine: Option<String>, seen: Vec<Observed>, now: Millis) {
        if machine.is_some() && self.machine != machine {
            if self.machine.is_some() {
                self.parts.clear();
            }
            self.machine = machine;
        }
        for (key, part) in &mut self.parts {
            if !seen.iter().any(|seen| seen.part == *key) {
                part.standing.clear();
            }
        }
        for seen in seen {
            if self.parts.len() >= MAX_PARTS && !self.parts.contains_key(&seen.part) {
                continue;
            }
            let part = self.parts.entry(seen.part).or_default();
            if !part.is(&seen.identity) {
                *part = Part::default();
            }
            if !seen.identity.is_empty() {
                part.identity = seen.identity;
            }
            part.name = seen.name;
            part.learn(&seen.values, now);
        }
        self.parts
            .retain(|_, part| !part.best.is_empty() || !part.standing.is_empty());
    }

    /// Forgets everything: the machine as it is now is right.
    pub fn forget(&mut self) {
        *self = Remembered {
            accepted: self.accepted,
            ..Remembered::default()
        };
    }

    /// Whether a request to accept the machine as it is, named by its moment, is a new one.
    pub fn accepts(&mut self, request: jiff::Timestamp) -> bool {
        let is_new = self.accepted.is_none_or(|last| request > last);
        if is_new {
            self.accepted = Some(request);
        }
        is_new
    }

    /// Parts whose value has been seen for long enough or not at all; none is waiting.
    pub fn to_keep(&self) -> Remembered {
        let mut kept = self.clone();
        kept.parts.retain(|_, part| !part.best.is_empty());
        (kept.parts.values_mut()).for_each(|part| part.standing.clear());
        kept
    }
}

impl Part {
    fn is(&self, identity: &str) -> bool {
        self.identity.is_empty() || identity.is_empty() || self.identity == identity
    }

    fn learn(&mut self, values: &[(&'static str, u64)], now: Millis) {
        self.standing
            .retain(|name, _| values.iter().any(|(seen, _)| seen == name));
        for (name, value) in values {
            let (standing, since) = self.standing.entry(name).or_insert((*value, now));
            if standing != value {
                (*standing, *since) = (*value, now);
            }
            if now.since(*since) >= STANDS_FOR {
                let best = self.best.entry((*name).to_string()).or_default();
                *best = (*best).max(*value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(value: u64) -> Vec<Observed> {
        vec![Observed {
            part: "0000:18:00.0/1".into(),
            identity: "guid".into(),
            name: "mlx5_0/1".into(),
            values: vec![("rate", value)],
        }]
    }

    fn best(memory: &Remembered) -> Option<u64> {
        memory.best("0000:18:00.0/1", "guid", "rate")
    }

    #[test]
    fn a_value_that_stands_is_remembered_and_a_worse_one_does_not_replace_it() {
        let mut memory = Remembered::default();
        let at = |minutes: u64| Millis::from_secs(minutes * 60);
        memory.learn(None, rail(400), at(0));
        memory.learn(None, rail(400), at(9));
        assert_eq!(best(&memory), None);
        memory.learn(None, rail(400), at(10));
        assert_eq!(best(&memory), Some(400));
        memory.learn(None, rail(200), at(11));
        memory.learn(None, rail(200), at(60));
        assert_eq!(best(&memory), Some(400));
        memory.learn(None, rail(800), at(61));
        memory.learn(None, vec![], at(62));
        memory.learn(None, rail(800), at(72));
        assert_eq!(best(&memory), Some(400), "it was away in between");
        memory.forget();
        assert_eq!(best(&memory), None);
    }

    #[test]
    fn another_card_and_another_machine_start_afresh() {
        let mut memory = Remembered::default();
        let machine = |name: &str| Some(name.to_string());
        memory.learn(machine("DGX"), rail(400), Millis(0));
        memory.learn(machine("DGX"), rail(400), Millis::from_secs(600));
        assert_eq!(memory.best("0000:18:00.0/1", "other", "rate"), None);
        assert_eq!(memory.best("0000:18:00.0/1", "", "rate"), Some(400));
        memory.learn(None, vec![], Millis::from_secs(601));
        assert_eq!(best(&memory), Some(400), "DMI was not read this time");
        memory.learn(machine("HGX"), vec![], Millis::from_secs(602));
        assert_eq!(best(&memory), None);
    }

    #[test]
    fn a_request_counts_once_and_an_earlier_one_does_not() {
        let mut memory = Remembered::default();
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        assert!(memory.accepts(at("2026-11-22T10:00:00Z")));
        memory.forget();
        for kept in [memory.clone(), memory.to_keep()] {
            let mut kept = kept;
            assert!(!kept.accepts(at("2026-11-22T10:00:00Z")));
            assert!(!kept.accepts(at("2026-11-21T10:00:00Z")));
            assert!(kept.accepts(at("2026-11-22T10:00:01Z")));
        }
    }

    #[test]
    fn what_is_kept_over_a_restart_is_what_stood() {
        let mut memory = Remembered::default();
        memory.learn(None, rail(400), Millis(0));
        assert_eq!(memory.to_keep(), Remembered::default());
        memory.learn(None, rail(400), Millis::from_secs(600));
        let text = serde_json::to_string(&memory.to_keep()).unwrap();
        let again: Remembered = serde_json::from_str(&text).unwrap();
        assert_eq!(best(&again), Some(400));
    }
}
