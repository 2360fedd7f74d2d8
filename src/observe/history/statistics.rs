//! Statistics of network devices over time.

use super::edges::{add_edges, counts_carrier_changes};
use super::{History, ports_of};
use crate::observe::netdev::EthtoolFacts;
use crate::observe::snapshot::Snapshot;

impl History {
    pub(super) fn push_netdevs(&mut self, snapshot: &Snapshot) {
        for (name, facts) in &snapshot.netdevs {
            let Some(changes) = facts.value.carrier_changes.value() else {
                continue;
            };
            let known = self.netdevs.get(name);
            if known.and_then(|tracks| tracks.get("carrier_changes")?.last_at()) == Some(facts.at) {
                continue;
            }
            let tracks = self.netdevs.entry(name.clone()).or_default();
            let track = tracks.entry("carrier_changes".into()).or_default();
            track.push(facts.at, *changes);
            let by = track.rose_from(self.carrier_before.remove(name));
            if by == 0 {
                continue;
            }
            for (device, port) in ports_of(snapshot) {
                let key = device.port_key(port.number);
                if port.netdev.as_deref() == Some(name) && counts_carrier_changes(snapshot, &key) {
                    let history = self.ports.entry(key.clone()).or_default();
                    add_edges(history, &mut self.totals, &key, facts.at, by);
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
            for (stat, value) in ethtool_names(stats) {
                tracks.entry(stat).or_default().push(facts.at, value);
            }
        }
        self.ethtool_at
            .retain(|name, _| snapshot.ethtool.contains_key(name));
        self.netdevs.retain(|name, _| {
            snapshot.netdevs.contains_key(name) || snapshot.ethtool.contains_key(name)
        });
    }
}

/// Statistics of one network device under neutral names: `prio3.rx_pause_frames`,
/// `prio3.rx_pause_micros`, `prio3.rx_discards`, `prio3.rx_packets`, `prio3.rx_bytes`,
/// `global.rx_pause_frames`, and the vendor's own names.
pub fn ethtool_names(stats: &EthtoolFacts) -> impl Iterator<Item = (String, u64)> + '_ {
    let priorities = stats.priorities.iter().flat_map(|(priority, facts)| {
        [
            ("rx_pause_frames", facts.pause.rx),
            ("tx_pause_frames", facts.pause.tx),
            ("rx_pause_micros", facts.rx_pause_micros),
            ("tx_pause_micros", facts.tx_pause_micros),
            ("rx_discards", facts.rx_discards),
            ("rx_packets", facts.rx_packets),
            ("rx_bytes", facts.rx_bytes),
            ("tx_bytes", facts.tx_bytes),
        ]
        .into_iter()
        .filter_map(move |(name, value)| Some((format!("prio{priority}.{name}"), value?)))
    });
    let global = [
        ("global.rx_pause_frames", stats.global_pause.rx),
        ("global.tx_pause_frames", stats.global_pause.tx),
    ];
    let global = (global.into_iter()).filter_map(|(name, of)| Some((name.to_string(), of?)));
    let other = (stats.other.iter()).map(|(name, value)| (name.clone(), *value));
    priorities.chain(global).chain(other)
}
