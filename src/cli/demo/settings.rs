//! Default settings, with intervals, waiting times and windows that fit a demo.

use crate::cluster::settings::Mode;
use crate::config::listen::Listen;
use crate::config::{Config, RdmaSource};
use crate::simulate::Timing;
use crate::units::Span;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Who a node's agent is, and where.
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) root: &'a Path,
    pub(super) listen: SocketAddr,
    pub(super) kubeconfig: &'a Path,
}

/// Settings of one agent. Nothing waits longer than somebody who looks on.
pub(super) fn config(timing: Timing, speed: f64, place: &Place<'_>) -> Config {
    let span = |secs: f64| Span(Duration::from_secs_f64(secs / speed));
    let mut config = Config::default();
    config.agent.listen = Listen::on(place.listen.ip(), place.listen.port());
    config.agent.host_root = place.root.to_path_buf();
    config.agent.node_name = place.name.to_string();
    config.agent.state_dir = None;
    config.agent.rdma_source = RdmaSource::Sysfs;
    // Many agents on a busy machine are slow, and none of them hangs.
    config.intervals.deadline = Span::from_secs(30);
    let cluster = &mut config.cluster;
    cluster.mode = Mode::All;
    cluster.kubeconfig = place.kubeconfig.display().to_string();
    cluster.hold = span(2.0);
    cluster.clear = Span::from_secs(1).max(span(3.0));
    cluster.clear_max = cluster.clear;
    config.nccl.suspects_every = Span::from_secs(1).max(span(5.0));
    config.hysteresis.hold = span(2.0);
    // Repeats are the play's, not a nervous node's: no longer waits for them.
    config.hysteresis.flap_count = 0;
    let policy = &mut config.policy;
    policy.nccl.init_hang_after = span(20.0);
    policy.nccl.suspect_after = span(15.0);
    policy.link_state.raise_after = span(2.0);
    policy.link_state.clear_after = span(1.0);
    policy.link_rate.raise_after = span(2.0);
    policy.link_rate.clear_after = span(2.0);
    policy.congestion.storm_raise_after = span(5.0);
    policy.congestion.pressure_raise_after = span(15.0);
    policy.gpudirect.raise_after = span(2.0);
    policy.promised.raise_after = span(5.0);
    policy.device_missing.dead_raise_after = span(2.0);
    match timing {
        Timing::Play => play(&mut config, span),
        Timing::Standing => standing(&mut config, span),
    }
    config
}

/// Not more often than settings allow.
fn often(span: Span) -> Span {
    Span(span.duration().max(Duration::from_millis(100)))
}

fn play(config: &mut Config, span: impl Fn(f64) -> Span) {
    let intervals = &mut config.intervals;
    for interval in [
        &mut intervals.link,
        &mut intervals.counters,
        &mut intervals.ethtool,
        &mut intervals.netdev,
        &mut intervals.gpudirect,
        &mut intervals.pci,
    ] {
        *interval = often(span(1.0));
    }
    let policy = &mut config.policy;
    policy.link_flap.degraded.within = span(9.0);
    policy.link_flap.failing.within = span(9.0);
    policy.link_flap.clear_after = span(1.0);
    policy.congestion.clear_after = span(2.0);
    policy.xid.quiet = span(3.0);
}

/// Many agents share a machine, and what stands need not be seen at once.
fn standing(config: &mut Config, span: impl Fn(f64) -> Span) {
    let intervals = &mut config.intervals;
    for (interval, secs) in [
        (&mut intervals.link, 1.0),
        (&mut intervals.counters, 3.0),
        (&mut intervals.ethtool, 3.0),
        (&mut intervals.netdev, 3.0),
        (&mut intervals.gpudirect, 5.0),
        (&mut intervals.pci, 5.0),
    ] {
        *interval = often(span(secs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::SPEEDS;

    /// Thresholds of the demo must be ones that a file may hold.
    #[test]
    fn the_settings_are_sound_at_every_speed() {
        for timing in [Timing::Play, Timing::Standing] {
            for speed in [*SPEEDS.start(), 1.0, *SPEEDS.end()] {
                let place = Place {
                    name: "gpu-01",
                    root: Path::new("/nowhere"),
                    listen: "127.0.0.1:9949".parse().unwrap(),
                    kubeconfig: Path::new("/nowhere/kubeconfig"),
                };
                let config = config(timing, speed, &place);
                assert_eq!(config.complaints(), [], "{timing:?} {speed}");
            }
        }
    }
}
