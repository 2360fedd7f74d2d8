//! The node's pods, bounded in number.

use super::object::PodObject;
use crate::observe::PodFacts;
use crate::settings_macro::words;
use std::{collections::BTreeMap, sync::Arc};

/// Most pods that are kept. kubelet's default is 110 a node, platforms go up to some 250; pods that
/// have ended stay listed until they are collected.
const PODS: usize = 1024;

words! {
    /// Whether the table can be relied on.
    #[derive(Default)]
    Health {
        /// The pods are not watched: no cluster, or switched off by the settings.
        #[default]
        Off = "off",
        /// As the API server has it now.
        Known = "known",
        /// The API server denies access, so the table is empty.
        Forbidden = "forbidden",
        /// Not listed yet, or the API server cannot be reached: as last known.
        Away = "away",
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
    /// Pods dropped at the bounds, since the start.
    pub left_out: u64,
    /// Bytes that the facts may take together.
    pub budget: usize,
}

impl PodTable {
    /// The same health and totals without any pod: what a list begins with.
    pub(super) fn emptied(&self) -> PodTable {
        PodTable {
            by_uid: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Whether a pod is known with just these facts.
    pub(super) fn has(&self, pod: &PodObject) -> bool {
        let known = pod.key.as_ref().and_then(|key| self.by_uid.get(key));
        known.is_some_and(|known| pod.facts.as_ref() == Some(known.as_ref()))
    }

    /// Takes a pod from a list or watch. Without room, one that has ended gives way to one that runs.
    pub(super) fn apply(&mut self, pod: PodObject) {
        let (Some(key), Some(facts)) = (pod.key, pod.facts) else {
            return;
        };
        if self.by_uid.len() >= PODS && !self.by_uid.contains_key(&key) {
            let mut pods = self.by_uid.iter().filter(|_| !facts.finished);
            let ended = pods.find(|(_, pod)| pod.finished);
            let Some(ended) = ended.map(|(key, _)| key.clone()) else {
                self.left_out += 1;
                return;
            };
            self.by_uid.remove(&ended);
        }
        self.by_uid.insert(key, Arc::new(facts));
        while self.by_uid.values().map(|pod| pod.held()).sum::<usize>() > self.budget {
            let largest = self.by_uid.iter().max_by_key(|(_, pod)| pod.held());
            let Some(largest) = largest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.by_uid.remove(&largest);
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn put(table: &mut PodTable, name: &str, finished: bool) {
        let phase = if finished { "Failed" } else { "Running" };
        let pod = json!({
            "metadata": {"uid": name, "namespace": "ml", "name": name},
            "spec": {"containers": []}, "status": {"phase": phase},
        });
        table.apply(serde_json::from_value(pod).unwrap());
    }

    #[test]
    fn there_is_room_for_so_many_and_those_that_run_go_first() {
        let mut table = PodTable {
            budget: usize::MAX,
            ..PodTable::default()
        };
        for n in 0..PODS {
            put(&mut table, &format!("u{n}"), n == 7);
        }
        put(&mut table, "a", false);
        assert_eq!((table.by_uid.len(), table.left_out), (PODS, 0));
        assert!(!table.by_uid.contains_key("u7"), "it had ended");
        put(&mut table, "b", false);
        assert_eq!((table.by_uid.len(), table.left_out), (PODS, 1));
        assert!(!table.by_uid.contains_key("b"));
        // What is there is brought up to date all the same.
        put(&mut table, "u3", true);
        assert!(table.by_uid["u3"].finished);
        put(&mut table, "c", true);
        assert!(
            !table.by_uid.contains_key("c"),
            "one that ended takes no one's place"
        );
    }

    #[test]
    fn environments_that_take_too_much_go_the_largest_first() {
        let mut table = PodTable {
            budget: 256 << 10,
            ..PodTable::default()
        };
        put(&mut table, "victim", false);
        let env = |n: usize| json!({"name": format!("NCCL_{n}"), "value": "x".repeat(250)});
        for n in 0..300 {
            let env: Vec<_> = (0..60).map(env).collect();
            let containers = [json!({"name": "a", "env": env})];
            let pod = json!({
                "metadata": {"uid": format!("u{n}"), "namespace": "foe", "name": format!("p{n}")},
                "spec": {"containers": containers},
            });
            table.apply(serde_json::from_value(pod).unwrap());
            let held: usize = table.by_uid.values().map(|pod| pod.held()).sum();
            assert!(held <= 256 << 10, "{held} bytes");
        }
        assert!(table.by_uid.contains_key("victim"));
        assert!(table.left_out > 200 && table.by_uid.len() > 5);
        for n in 0..300 {
            table.by_uid.remove(&format!("u{n}"));
        }
    }
}
