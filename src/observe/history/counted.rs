//! Counters of ports over time.

use super::{History, edges::counts_carrier_changes, ports_of};
use crate::observe::{
    CounterKind, Counts, PortCounters, Reading, Snapshot, Track, hw_kind, pma_kind,
};
use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Tracks of a port's counters, in the groups of a sample; only counters that were read have one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracks {
    /// PMA, by file name.
    pub pma: BTreeMap<String, Track>,
    /// Tracked counters of `hw_counters/`, by file name.
    pub hw: BTreeMap<String, Track>,
    /// Device-wide ones, told with the first port.
    pub device_hw: BTreeMap<String, Track>,
}

impl Tracks {
    /// What to keep over a restart of the agent.
    pub fn to_keep(&self) -> Tracks {
        Tracks {
            pma: tracks_to_keep(&self.pma),
            hw: tracks_to_keep(&self.hw),
            device_hw: tracks_to_keep(&self.device_hw),
        }
    }

    /// Makes the next sample a baseline: the device is another, or began again.
    pub fn rebase(&mut self) {
        let groups = [&mut self.pma, &mut self.hw, &mut self.device_hw];
        let tracks = groups.into_iter().flat_map(BTreeMap::values_mut);
        tracks.for_each(Track::rebase);
    }

    /// A counter that was read: PMA by file name, hardware counters by `hw.NAME`, device-wide ones
    /// by `dev.NAME`. mlx5 in switchdev mode has the port's on the device, some with a prefix
    /// (hw_switchdev_stats_ops).
    pub fn get(&self, name: &str) -> Option<&Track> {
        if let Some(name) = name.strip_prefix("dev.") {
            return self.device_hw.get(name);
        }
        let Some(name) = name.strip_prefix("hw.") else {
            return self.pma.get(name);
        };
        let of_device = || self.device_hw.get(name);
        let prefixed = || {
            let mut all = self.device_hw.iter();
            all.find_map(|(own, track)| (own.strip_prefix("vport_")? == name).then_some(track))
        };
        (self.hw.get(name).or_else(of_device)).or_else(prefixed)
    }
}

impl History {
    pub(super) fn push_counters(&mut self, snapshot: &Snapshot) {
        for (key, sample) in &snapshot.counters {
            if (self.ports.get(key)).is_some_and(|port| port.counted_at == Some(sample.at)) {
                continue;
            }
            let device = ports_of(snapshot).find(|(device, _)| device.key == key.device);
            let driver = device.map_or("", |(device, _)| device.driver.as_str());
            let port = self.ports.entry(key.clone()).or_default();
            port.counted_at = Some(sample.at);
            let tracks = &mut port.counters;
            let hardware = |name: &str| hw_kind(driver, name);
            let PortCounters {
                pma, hw, device_hw, ..
            } = &sample.value;
            // One counter that falls may have wrapped; several at once were reset.
            let fallen = fallen(&tracks.hw, hw)
                + fallen(&tracks.device_hw, device_hw)
                + fallen(&tracks.pma, pma);
            let look = (sample.at, fallen > 1);
            push(&mut tracks.hw, hw, look, hardware);
            push(&mut tracks.device_hw, device_hw, look, hardware);
            push(&mut tracks.pma, pma, look, pma_kind);
            let downs = (tracks.pma.get("link_downed"))
                .filter(|track| track.last_at() == Some(sample.at))
                .map(recent_falls);
            let Some(downs) = downs else { continue };
            let edges = port.counted(downs, sample.at);
            if edges > 0 && !counts_carrier_changes(snapshot, key) {
                self.add_edges(key, sample.at, edges);
            }
        }
    }
}

/// Counters worth keeping: error counters that rose recently, and those that count a link's falls.
pub(super) fn tracks_to_keep(tracks: &BTreeMap<String, Track>) -> BTreeMap<String, Track> {
    let traffic = || "_data packets pkts octets bytes requests bits".split(' ');
    let is_kept = |(name, track): &(&String, &Track)| {
        let falls = ["link_downed", "carrier_changes"].contains(&name.as_str());
        let lower = name.to_ascii_lowercase();
        let counts = !traffic().any(|word| lower.contains(word));
        falls || counts && track.rose_recently()
    };
    let kept = tracks.iter().filter(is_kept);
    kept.filter_map(|(name, track)| Some((name.clone(), track.to_keep()?)))
        .collect()
}

/// By how much the last sample of a count of falls rose. What it counted while no agent ran, or nothing could
/// be read, is of this hour only where that did not take longer.
pub(super) fn recent_falls(track: &Track) -> u64 {
    let step = track.last_step();
    let step = step.filter(|step| step.over <= Duration::from_secs(3600));
    step.map_or(0, |step| step.by)
}

/// How many counters of one group are below what they were.
fn fallen(tracks: &BTreeMap<String, Track>, counts: &Counts) -> usize {
    let falls = |(name, reading): &(&String, &Reading<u64>)| {
        let track = tracks.get(*name);
        (reading.value()).is_some_and(|value| track.is_some_and(|track| track.falls(*value)))
    };
    counts.iter().filter(falls).count()
}

/// Adds one group of a sample: when it was read, and whether the port's counters were reset.
fn push(
    tracks: &mut BTreeMap<String, Track>,
    counts: &Counts,
    (at, reset): (Millis, bool),
    kind: impl Fn(&str) -> CounterKind,
) {
    for (name, reading) in counts {
        let Reading::Value(value) = reading else {
            continue;
        };
        let track = match tracks.get_mut(name) {
            Some(track) => track,
            None => (tracks.entry(name.clone())).or_insert(Track::new(kind(name))),
        };
        track.push_with(at, *value, reset);
    }
}
