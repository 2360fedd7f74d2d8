//! Link edges: as polls see them, and as the kernel counts those that polls missed.

use super::{History, PortHistory, port_of};
use crate::observe::{LinkLayer, PortState, Reading, Snapshot, Window, rdma};
use crate::units::{BitsPerSec, Millis, PortKey};

/// Link edges kept a port; older ones are merged into the oldest.
const MAX_EDGES: usize = 128;

impl History {
    /// Link edges of a port within the last `window`, but for those at excused moments.
    pub fn edges(&self, key: &PortKey, window: Window, excused: impl Fn(Millis) -> bool) -> u64 {
        let edges = self.ports.get(key).into_iter().flat_map(|port| &port.edges);
        let within = edges.filter(|(at, _)| *at >= window.start() && !excused(*at));
        within.map(|(_, edges)| edges).sum()
    }

    pub(super) fn push_links(&mut self, snapshot: &Snapshot) {
        for (key, facts) in &snapshot.links {
            let Some(state) = facts.value.state.value() else {
                continue;
            };
            let port = self.ports.entry(key.clone()).or_default();
            let up = state.is_up();
            let before = port.state.map(|(state, _)| state);
            if before != Some(*state) {
                port.moved |= before.is_some();
                let since = port.state.replace((*state, facts.at));
                if let Some((_, since)) = since.filter(|(state, _)| state.is_up() && !up) {
                    port.longest_up = port.longest_up.max(facts.at.since(since));
                }
            }
            if up {
                port.ever_active = true;
                port.lid.push(facts.value.lid, facts.at);
                port.sm_lid.push(facts.value.sm_lid, facts.at);
                if let Some(rate) = facts.value.rate.value() {
                    let rate = rate_of(snapshot, key, rate.rate);
                    port.best_rate = port.best_rate.max(rate);
                }
            }
            // The first look is a baseline. A port that waits for a subnet manager has its link.
            let linked = |state: PortState| {
                state.is_up() || matches!(state, PortState::Init | PortState::Armed)
            };
            let is_linked = linked(*state);
            let was_linked = before.map_or(is_linked, linked);
            let edges = port.polled(was_linked, is_linked, facts.at);
            if edges > 0 && !counts_carrier_changes(snapshot, key) {
                self.add_edges(key, facts.at, edges);
            }
        }
    }

    /// Counts edges of a port's link.
    pub(super) fn add_edges(&mut self, key: &PortKey, at: Millis, edges: u64) {
        *self.totals.link_edges.entry(key.clone()).or_default() += edges;
        let port = self.ports.entry(key.clone()).or_default();
        port.edges.push_back((at, edges));
        while port.edges.len() > MAX_EDGES
            && let Some((_, merged)) = port.edges.pop_front()
        {
            if let Some(first) = port.edges.front_mut() {
                first.1 += merged;
            }
        }
    }
}

impl PortHistory {
    /// What a poll saw after another state: the edges to count, none of those that `link_downed`
    /// told before the poll did.
    fn polled(&mut self, was_up: bool, up: bool, at: Millis) -> u64 {
        let ahead = self.counted_ahead.is_some_and(|counted| at > counted);
        if ahead {
            // Falls that are over when the first poll after them comes belong to no poll.
            self.counted_ahead = None;
        }
        match (was_up, up) {
            (true, false) if ahead => {
                self.rise_counted = true;
                0
            }
            (true, false) => {
                self.polled_downs += 1;
                self.uncounted = false;
                1
            }
            (false, true) if std::mem::take(&mut self.rise_counted) => 0,
            (false, true) => 1,
            _ => 0,
        }
    }

    /// What `link_downed` that rose by `downs` tells beyond what polls saw: the edges to count.
    pub(super) fn counted(&mut self, downs: u64, at: Millis) -> u64 {
        if downs == 0 {
            // Nor by the sample before: the counter is full, or was cleared.
            if self.uncounted {
                self.polled_downs = 0;
            }
            self.uncounted = self.polled_downs > 0;
            return 0;
        }
        // Flaps shorter than a poll: each fall that no poll saw is two edges.
        let unseen = downs.saturating_sub(self.polled_downs);
        self.polled_downs = 0;
        if unseen > 0 && self.state.is_some_and(|(state, _)| state.is_up()) {
            self.counted_ahead = Some(at);
        }
        2 * unseen
    }
}

/// The rate to go by of a port that is up, from what it tells.
fn rate_of(snapshot: &Snapshot, key: &PortKey, told: BitsPerSec) -> Option<BitsPerSec> {
    // As a rule no device has to be looked for.
    if told != rdma::MLX5_ETHERNET_UNNAMED {
        return Some(told);
    }
    let (device, port) = port_of(snapshot, key)?;
    let speed = (port.netdev.as_ref()).and_then(|name| snapshot.speed_of(name));
    rdma::true_rate(port.link_layer, &device.driver, told, speed)
}

/// Whether the kernel counts every edge of this port in `carrier_changes`, or would if no pod had the
/// interface, which is closed and opened with it. On InfiniBand the IPoIB device's carrier also waits for
/// the subnet manager, so `link_downed` is the truth there.
pub(super) fn counts_carrier_changes(snapshot: &Snapshot, key: &PortKey) -> bool {
    let port = port_of(snapshot, key).map(|(_, port)| port);
    let ethernet = port.filter(|port| port.link_layer == LinkLayer::Ethernet);
    let netdev = ethernet.and_then(|port| snapshot.netdevs.get(port.netdev.as_ref()?));
    let counted = |of: &Reading<u64>| matches!(of, Reading::Value(_) | Reading::Absent);
    netdev.is_some_and(|facts| counted(&facts.value.carrier_changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Event {
        /// A poll that saw the link up or down before, and now, at this moment.
        Poll(bool, bool, u64),
        /// `link_downed` rose by so many at this moment.
        Counted(u64, u64),
    }
    use Event::{Counted, Poll};

    #[test]
    fn each_fall_counts_once() {
        let rows: [(&str, &[Event], u64); 7] = [
            (
                "seen by polls, then counted",
                &[Poll(true, false, 1), Poll(false, true, 2), Counted(1, 3)],
                2,
            ),
            ("too short for a poll", &[Counted(2, 1)], 4),
            ("nothing fell", &[Counted(0, 1), Poll(true, true, 2)], 0),
            (
                "one of two was seen",
                &[Poll(true, false, 1), Poll(false, true, 2), Counted(2, 3)],
                4,
            ),
            (
                "counted before the poll saw it",
                &[Counted(1, 5), Poll(true, false, 6), Poll(false, true, 7)],
                2,
            ),
            (
                "a poll of the same moment is not a later one",
                &[Counted(1, 5), Poll(true, false, 5), Poll(false, true, 7)],
                4,
            ),
            (
                "over when the next poll came: the next fall is another",
                &[Counted(1, 5), Poll(true, true, 6), Poll(true, false, 7)],
                3,
            ),
        ];
        for (name, events, want) in rows {
            let mut port = PortHistory {
                state: Some((PortState::Active, Millis(0))),
                ..PortHistory::default()
            };
            let edges = events.iter().map(|event| match event {
                Poll(was_up, up, at) => port.polled(*was_up, *up, Millis(*at)),
                Counted(downs, at) => port.counted(*downs, Millis(*at)),
            });
            assert_eq!(edges.sum::<u64>(), want, "{name}");
        }
    }

    #[test]
    fn the_oldest_edges_are_merged_and_none_is_lost() {
        let key = PortKey {
            device: crate::units::DeviceKey("x".into()),
            port: 1,
        };
        let mut history = History::default();
        for at in 0..MAX_EDGES as u64 + 2 {
            history.add_edges(&key, Millis(at), 2);
        }
        let (port, totals) = (&history.ports[&key], &history.totals);
        assert_eq!(port.edges.len(), MAX_EDGES);
        assert_eq!(port.edges.front(), Some(&(Millis(2), 6)));
        let all: u64 = port.edges.iter().map(|(_, edges)| edges).sum();
        assert_eq!(
            (all, totals.link_edges[&key]),
            (2 * (MAX_EDGES as u64 + 2), all)
        );
    }
}
