//! How a part of the fleet is written down.

use super::PLAY_PRESET;
use super::cast::{Role, Timing};
use super::event::Event;
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

    pub(super) fn at(&mut self, secs: f64, event: Event) {
        let at = self.secs(secs);
        self.role.scenes.push((at, event, ""));
    }

    pub(super) fn every(&mut self, secs: f64, event: Event) {
        self.again(secs, secs, event);
    }

    pub(super) fn again(&mut self, from: f64, secs: f64, event: Event) {
        let times = [from, secs].map(|secs| self.secs(secs));
        self.role.again.push((times, event));
    }

    /// A kernel-log line, soon and then again: a line that is told once is forgotten after a while.
    pub(super) fn kmsg(&mut self, secs: f64, again: Option<f64>, priority: u32, text: String) {
        let event = Event::Kmsg {
            priority,
            micros: 0,
            text,
            device: None,
        };
        if let Some(again) = again {
            self.every(again, event.clone());
        }
        self.at(secs, event);
    }
}

pub(super) fn counter(device: &str, name: &str, add: u64) -> Event {
    Event::Counter {
        device: device.into(),
        port: 1,
        name: name.into(),
        add,
    }
}

pub(super) fn hw_counter(device: &str, name: &str, add: u64) -> Event {
    Event::HwCounter {
        device: device.into(),
        port: 1,
        name: name.into(),
        add,
    }
}

pub(super) fn link(device: &str, up: bool) -> Event {
    Event::Link {
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
