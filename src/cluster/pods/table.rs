//! The node's pods, bounded in number.

use super::object::PodObject;
use crate::observe::pod::PodFacts;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most pods that are kept. kubelet's default is 110 a node, platforms go up to some 250; pods that
/// have ended stay listed until they are collected.
const PODS: usize = 1024;

/// Whether the table can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    /// The pods are not watched: no cluster, or switched off by the settings.
    #[default]
    Off,
    /// As the API server has it now.
    Known,
    /// The API server denies access, so the table is empty.
    Forbidden,
    /// Not listed yet, or the API server cannot be reached: as last known.
    Away,
}

impl Health {
    /// The value in metrics and the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Off => "off",
            Health::Known => "known",
            Health::Forbidden => "forbidden",
            Health::Away => "away",
        }
    }
}

/// The pods of this node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodTable {
    /// By UID; a static pod by its hash: the name of its directory in `/var/log/pods`.
    pub by_uid: BTreeMap<String, Arc<PodFacts>>,
    /// Whether `by_uid` is current.
    pub health: Health,
    /// The error that keeps it from being current.
    pub error: Option<String>,
    /// Pods that could not be decoded, since the start.
    pub skipped: u64,
    /// Pods dropped at the bound, since the start.
    pub left_out: u64,
}

impl PodTable {
    /// A pod by namespace and name, for callers without its UID.
    pub fn named(&self, namespace: &str, name: &str) -> Option<&Arc<PodFacts>> {
        let is = |pod: &&Arc<PodFacts>| pod.name == name && pod.namespace == namespace;
        // Of two that had the same name, the one that runs.
        let mut found: Vec<&Arc<PodFacts>> = self.by_uid.values().filter(is).collect();
        found.sort_by_key(|pod| pod.finished);
        found.first().copied()
    }

    /// The same health and totals without any pod: what a list begins with.
    pub(super) fn emptied(&self) -> PodTable {
        PodTable {
            by_uid: BTreeMap::new(),
            health: self.health,
            error: self.error.clone(),
            skipped: self.skipped,
            left_out: self.left_out,
        }
    }

    /// Whether a pod is known with just these facts.
    pub(super) fn has(&self, pod: &PodObject) -> bool {
        let known = pod.key.as_ref().and_then(|key| self.by_uid.get(key));
        known.is_some_and(|known| pod.facts.as_ref() == Some(known.as_ref()))
    }

    /// Takes a pod from a list or watch.
    pub(super) fn apply(&mut self, pod: PodObject) {
        match (pod.key, pod.facts) {
            (Some(key), Some(facts)) => {
                self.put(&key, facts);
            }
            _ => self.skipped += 1,
        }
    }

    /// Puts a pod; whether that changed anything.
    fn put(&mut self, key: &str, facts: PodFacts) -> bool {
        if let Some(known) = self.by_uid.get_mut(key) {
            let differs = **known != facts;
            if differs {
                *known = Arc::new(facts);
            }
            return differs;
        }
        if self.by_uid.len() >= PODS {
            let ended = self.by_uid.iter().find(|(_, pod)| pod.finished);
            let Some(ended) = ended
                .map(|(key, _)| key.clone())
                .filter(|_| !facts.finished)
            else {
                self.left_out += 1;
                return true;
            };
            self.by_uid.remove(&ended);
        }
        self.by_uid.insert(key.to_string(), Arc::new(facts));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, finished: bool) -> PodFacts {
        PodFacts {
            uid: name.into(),
            namespace: "ml".into(),
            name: name.into(),
            finished,
            ..PodFacts::default()
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_those_that_run_go_first() {
        let mut table = PodTable::default();
        for n in 0..PODS {
            assert!(table.put(&format!("u{n}"), pod(&format!("p{n}"), n == 7)));
        }
        assert!(!table.put("u3", pod("p3", false)), "nothing new");
        assert!(table.put("a", pod("a", false)));
        assert_eq!((table.by_uid.len(), table.left_out), (PODS, 0));
        assert!(!table.by_uid.contains_key("u7"), "it had ended");
        table.put("b", pod("b", false));
        assert_eq!((table.by_uid.len(), table.left_out), (PODS, 1));
        assert!(!table.by_uid.contains_key("b"));
        // What is there is brought up to date all the same.
        assert!(table.put("u3", pod("p3", true)));
        table.put("c", pod("c", true));
        assert!(
            !table.by_uid.contains_key("c"),
            "one that ended takes no one's place"
        );
    }

    #[test]
    fn of_two_of_a_name_the_one_that_runs() {
        let mut table = PodTable::default();
        for (uid, finished) in [("1", true), ("2", false), ("3", true)] {
            table.put(
                uid,
                PodFacts {
                    uid: uid.into(),
                    ..pod("p", finished)
                },
            );
        }
        assert_eq!(
            table.named("ml", "p").map(|pod| pod.uid.as_str()),
            Some("2")
        );
        assert_eq!(table.named("other", "p"), None);
    }
}
