//! How a part of the fleet is written down.

use super::PLAY_PRESET;
use super::act::Act;
use super::cast::{Role, Timing};
use crate::units::Bdf;
use std::time::Duration;

/// A part while it is written.
pub(super) struct Script {
    pub(super) role: Role,
    pub(super) speed: f64,
}

impl Script {
    pub(super) fn new(at: usize, speed: f64) -> Self {
        let role = Role {
            name: format!("gpu-{:02}", at + 1),
            preset: PLAY_PRESET,
            about: "",
            timing: Timing::Standing,
            load: 40 + (at as u64 * 17) % 40,
            before: Vec::new(),
            scenes: Vec::new(),
            again: Vec::new(),
            play: None,
            leaves: None,
            state: Some("ready"),
            reasons: &[],
        };
        Script { role, speed }
    }

    pub(super) fn secs(&self, secs: f64) -> Duration {
        Duration::from_secs_f64(secs / self.speed)
    }

    pub(super) fn at(&mut self, secs: f64, act: Act) {
        let at = self.secs(secs);
        self.role.scenes.push((at, act, ""));
    }

    pub(super) fn every(&mut self, secs: f64, act: Act) {
        self.again(secs, secs, act);
    }

    pub(super) fn again(&mut self, from: f64, secs: f64, act: Act) {
        let times = [from, secs].map(|secs| self.secs(secs));
        self.role.again.push((times, act));
    }

    /// A kernel-log line, soon and then again: a line that is told once is forgotten after a while.
    pub(super) fn kmsg(&mut self, secs: f64, again: Option<f64>, priority: u32, text: String) {
        let act = Act::Kmsg {
            priority,
            micros: 0,
            text,
            device: None,
        };
        if let Some(again) = again {
            self.every(again, act.clone());
        }
        self.at(secs, act);
    }
}

pub(super) fn counter(device: &str, name: &str, add: u64) -> Act {
    Act::Counter {
        device: device.into(),
        port: 1,
        name: name.into(),
        add,
    }
}

pub(super) fn hw_counter(device: &str, name: &str, add: u64) -> Act {
    Act::HwCounter {
        device: device.into(),
        port: 1,
        name: name.into(),
        add,
    }
}

pub(super) fn link(device: &str, up: bool) -> Act {
    Act::Link {
        device: device.into(),
        port: 1,
        up,
    }
}

pub(super) fn function(bus: u8) -> Bdf {
    Bdf {
        domain: 0,
        bus,
        device: 0,
        function: 0,
    }
}
