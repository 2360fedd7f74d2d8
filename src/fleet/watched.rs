//! What a watch on Nodes has delivered.

use super::FleetNode;
use crate::cluster::NodeObject;
use kube::runtime::watcher::Event;
use std::collections::BTreeMap;

/// The rows that a watch has delivered so far.
#[derive(Default)]
pub struct Watched {
    /// By name.
    pub nodes: BTreeMap<String, FleetNode>,
    /// Whether all are there.
    pub complete: bool,
    /// Whether something other than a heartbeat changed since this was last set to false.
    pub changed: bool,
}

impl Watched {
    /// Takes in an event; `row` makes the row of a Node.
    pub fn take(&mut self, event: Event<NodeObject>, row: impl Fn(&NodeObject) -> FleetNode) {
        match event {
            Event::Init => {
                self.nodes.clear();
                self.complete = false;
            }
            Event::InitDone => {
                self.complete = true;
                self.changed = true;
            }
            Event::Delete(node) => {
                self.changed |= self.nodes.remove(&row(&node).node).is_some();
            }
            Event::Apply(node) | Event::InitApply(node) => {
                let row = row(&node);
                let heartbeat = row.heartbeat;
                let had = self.nodes.insert(row.node.clone(), row.clone());
                self.changed |= had.is_none_or(|had| FleetNode { heartbeat, ..had } != row);
            }
        }
    }
}
