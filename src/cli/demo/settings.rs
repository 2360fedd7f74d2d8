//! Default settings, with intervals, waiting times and windows that fit a demo.

use super::Member;
use crate::config::{Config, Listen};
use crate::units::Span;
use askama::Template;
use std::time::Duration;

/// `settings.toml`, which says what each is.
#[derive(Template)]
#[template(path = "settings.toml", escape = "none")]
struct DemoSettings {
    speed: f64,
    /// Whether faults come and go within seconds.
    passing: bool,
}

impl DemoSettings {
    fn span(&self, secs: f64) -> Span {
        Span(Duration::from_secs_f64(secs / self.speed))
    }

    fn long(&self, secs: f64) -> Span {
        self.span(secs).max(Span::from_secs(1))
    }

    /// An interval, at least the shortest one that settings allow.
    fn every(&self, lasting: f64) -> Span {
        let span = self.span(if self.passing { 1.0 } else { lasting });
        span.max(Span::from_millis(100))
    }
}

/// Settings of one agent, with waiting times that fit an audience. The tests read them at every speed.
pub(super) fn config(member: &Member, speed: f64) -> Config {
    let passing = member.scenario.seconds.is_some();
    let settings = DemoSettings { speed, passing };
    let text = settings.render().unwrap_or_default();
    let mut config: Config = toml::from_str(&text).unwrap_or_default();
    config.agent.listen = Listen::new(Some(member.listen.ip()), member.listen.port());
    config.agent.host_root = member.root.to_path_buf();
    config.agent.node_name = member.scenario.name.clone();
    config.agent.state_dir = None;
    if passing {
        let flap = &mut config.policy.link_flap;
        flap.degraded.within = settings.span(9.0);
        flap.failing.within = settings.span(9.0);
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
                spec: crate::simulate::NodeFiles::default(),
                root: "/nowhere".into(),
                listen: "127.0.0.1:9949".parse().unwrap(),
            };
            for speed in [*SPEEDS.start(), 1.0, *SPEEDS.end()] {
                let config = config(&member, speed);
                assert_eq!(config.complaints(), [], "{speed}");
                assert_eq!(config.hysteresis.flap_count, 0, "{speed}: not read");
            }
        }
    }
}
