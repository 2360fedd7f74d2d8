//! Default settings, with intervals, waiting times and windows that fit a demo.

use super::Member;
use crate::config::listen::Listen;
use crate::config::{Config, RdmaSource};
use crate::units::Span;
use std::time::Duration;

/// Settings of one agent, with waiting times that fit an audience.
pub(super) fn config(member: &Member, speed: f64) -> Config {
    let span = |secs: f64| Span(Duration::from_secs_f64(secs / speed));
    let mut config = Config::default();
    config.agent.listen = Listen::on(member.listen.ip(), member.listen.port());
    config.agent.host_root = member.root.to_path_buf();
    config.agent.node_name = member.scenario.name.clone();
    config.agent.state_dir = None;
    config.agent.rdma_source = RdmaSource::Sysfs;
    config.cluster.hold = span(2.0);
    config.cluster.clear = Span::from_secs(1).max(span(3.0));
    config.cluster.clear_max = config.cluster.clear;
    config.nccl.suspects_every = Span::from_secs(1).max(span(5.0));
    config.hysteresis.hold = span(2.0);
    // The scenario repeats faults on purpose: they must not count as flapping.
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
    // Faults that come and go within seconds are to be seen at once; with lasting ones many agents
    // share a machine.
    let passing = member.scenario.seconds.is_some();
    if passing {
        policy.link_flap.degraded.within = span(9.0);
        policy.link_flap.failing.within = span(9.0);
        policy.link_flap.clear_after = span(1.0);
        policy.congestion.clear_after = span(2.0);
        policy.xid.quiet = span(3.0);
    }
    let intervals = &mut config.intervals;
    // Many agents on a busy machine are slow, and none of them hangs.
    intervals.deadline = Span::from_secs(30);
    for (interval, lasting) in [
        (&mut intervals.link, 1.0),
        (&mut intervals.counters, 3.0),
        (&mut intervals.ethtool, 3.0),
        (&mut intervals.netdev, 3.0),
        (&mut intervals.gpudirect, 5.0),
        (&mut intervals.pci, 5.0),
    ] {
        // At least the shortest interval that settings allow.
        let every = span(if passing { 1.0 } else { lasting });
        *interval = every.max(Span(Duration::from_millis(100)));
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::SPEEDS;

    /// Thresholds of the demo must be ones that a file may hold.
    #[test]
    fn the_settings_are_valid_at_every_speed() {
        for scenario in crate::simulate::fleet(2) {
            let member = Member {
                scenario,
                spec: crate::simulate::NodeSpec::default(),
                root: "/nowhere".into(),
                listen: "127.0.0.1:9949".parse().unwrap(),
            };
            for speed in [*SPEEDS.start(), 1.0, *SPEEDS.end()] {
                let config = config(&member, speed);
                assert_eq!(config.complaints(), [], "{speed}");
            }
        }
    }
}
