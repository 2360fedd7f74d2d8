//! Statistics of network devices over time.

use super::{History, counted::recent_falls, edges::counts_carrier_changes, ports_of};
use crate::observe::{NetdevFacts, Reading, Snapshot};

impl History {
    /// Interfaces that pods have: each is closed and opened on its way, which is not the link's doing.
    fn in_pods(&self, snapshot: &Snapshot) -> Vec<String> {
        let absent = |facts: &NetdevFacts| facts.carrier_changes == Reading::Absent;
        let absent = (snapshot.netdevs.iter()).filter(|(_, facts)| absent(&facts.value));
        let gone = ports_of(snapshot);
        let gone = gone.filter(|(device, port)| device.is_gvnic() && port.netdev.is_none());
        let of_gvnics = gone.filter_map(|(device, port)| {
            let mut before = self.fabric.get(&device.key)?.device.ports.iter();
            let before = before.find(|before| before.number == port.number)?;
            before.netdev.as_ref()
        });
        let names = absent.map(|(name, _)| name).chain(of_gvnics);
        names.cloned().collect()
    }

    pub(super) fn push_netdevs(&mut self, snapshot: &Snapshot) {
        for name in self.in_pods(snapshot) {
            let tracks = self.netdevs.get_mut(&name);
            tracks.map(|tracks| tracks.remove("carrier_changes"));
        }
        for (name, facts) in &snapshot.netdevs {
            let Some(changes) = facts.value.carrier_changes.value() else {
                continue;
            };
            let tracks = self.netdevs.entry(name.clone()).or_default();
            let track = tracks.entry("carrier_changes".into()).or_default();
            let rose = track.push(facts.at, *changes) > 0;
            let by = recent_falls(track);
            if !rose || by == 0 {
                continue;
            }
            for (device, port) in ports_of(snapshot) {
                let key = device.port_key(port.number);
                if port.netdev.as_deref() == Some(name) && counts_carrier_changes(snapshot, &key) {
                    self.add_edges(&key, facts.at, by);
                }
            }
        }
        for (name, facts) in &snapshot.ethtool {
            let Some(stats) = facts.value.value() else {
                continue;
            };
            if self.ethtool_at.get(name) == Some(&facts.at) {
                continue;
            }
            self.ethtool_at.insert(name.clone(), facts.at);
            let tracks = self.netdevs.entry(name.clone()).or_default();
            for (stat, value) in &stats.counts {
                let track = tracks.entry(stat.clone()).or_default();
                track.push(facts.at, *value);
            }
        }
        self.ethtool_at
            .retain(|name, _| snapshot.ethtool.contains_key(name));
        // While the agent starts, what was kept of a port waits for its first sample.
        let ports = || self.fabric.values().flat_map(|seen| &seen.device.ports);
        let is_of_port = |name: &String| ports().any(|port| port.netdev.as_ref() == Some(name));
        self.netdevs.retain(|name, _| {
            snapshot.netdevs.contains_key(name)
                || snapshot.ethtool.contains_key(name)
                || is_of_port(name)
        });
    }
}
