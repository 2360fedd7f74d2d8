//! What is known of the node's pods, bounded.

use crate::observe::pod::PodFacts;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most pods that are kept. kubelet's default is 110 a node, platforms go up to some 250; those that
/// ended stay listed until they are collected.
const PODS: usize = 1024;

/// How it stands with what is known of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    /// Nobody asks: no cluster, or the settings say so.
    #[default]
    Off,
    /// As the API server has it now.
    Known,
    /// The API server does not allow it. Nothing is known.
    Forbidden,
    /// Not heard of yet, or the API server is away: what was known last.
    Away,
}

impl Health {
    /// As metrics and the report write it.
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
    /// By UID; of a static pod by its hash: as the directories in `/var/log/pods` are called.
    pub by_uid: BTreeMap<String, Arc<PodFacts>>,
    /// How far that can be relied on.
    pub health: Health,
    /// Why it is not known, in words.
    pub error: Option<String>,
    /// Pods that could not be made out, since the start.
    pub skipped: u64,
    /// Pods that there was no room for, since the start.
    pub left_out: u64,
}

impl PodTable {
    /// A pod by namespace and name, where its UID is not known.
    pub fn named(&self, namespace: &str, name: &str) -> Option<&Arc<PodFacts>> {
        let is = |pod: &&Arc<PodFacts>| pod.name == name && pod.namespace == namespace;
        // Of two that had the same name, the one that runs.
        let mut found: Vec<&Arc<PodFacts>> = self.by_uid.values().filter(is).collect();
        found.sort_by_key(|pod| pod.finished);
        found.first().copied()
    }

    /// Puts a pod; whether that changed anything.
    pub(super) fn put(&mut self, key: &str, facts: PodFacts) -> bool {
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
