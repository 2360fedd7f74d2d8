//! Other NIC drivers' own words: mlx4, bnxt (`bnxt_en/bnxt.c`, `bnxt_hwrm.c`), EFA (`efa_com.c`),
//! Intel, and what most drivers say alike about heat, firmware and queues.

use crate::observe::kernel::{EventKind, HealthKind};

use super::nic::{Found, health, plain};
use super::text::contains_nocase;

/// Phrases and what they mean; matched anywhere in the message, case aside.
type Phrases = &'static [(&'static str, HealthKind)];

const MLX4: Phrases = &[
    ("internal error detected", HealthKind::FatalSensor),
    ("timed out (go bit not cleared)", HealthKind::CommandTimeout),
    ("failed: fw status", HealthKind::CommandFailed),
    ("device is going to be reset", HealthKind::DeviceError),
    ("failed to reset hca", HealthKind::DeviceError),
];

const BNXT: Phrases = &[
    ("error (timeout:", HealthKind::CommandTimeout),
    ("abandoning msg {", HealthKind::CommandTimeout),
    ("timedout (", HealthKind::CommandTimeout),
    ("resp cmpl intr err msg", HealthKind::CommandFailed),
    ("hwrm req_type", HealthKind::CommandFailed),
    ("firmware not responding", HealthKind::HeartbeatLost),
    ("detected firmware fatal condition", HealthKind::FatalSensor),
    ("firmware fatal reset event", HealthKind::FatalSensor),
    ("firmware non-fatal reset event", HealthKind::DeviceError),
    ("firmware reset aborted", HealthKind::DeviceError),
];

const EFA: Phrases = &[
    (
        "didn't send any completion for admin cmd",
        HealthKind::CommandTimeout,
    ),
    (
        "didn't send a completion for the admin cmd",
        HealthKind::CommandTimeout,
    ),
    ("completion (polling) timeout", HealthKind::CommandTimeout),
    ("completion timeout", HealthKind::CommandTimeout),
    ("reading register timed out", HealthKind::CommandTimeout),
    ("reading reg failed for timeout", HealthKind::CommandTimeout),
    ("admin queue is closed", HealthKind::DeviceError),
    (
        "device isn't ready, abort com init",
        HealthKind::DeviceError,
    ),
    ("failed to submit command", HealthKind::CommandFailed),
    ("failed to process command", HealthKind::CommandFailed),
];

const ANY: Phrases = &[
    ("tx timeout", HealthKind::QueueTimeout),
    ("tx_timeout", HealthKind::QueueTimeout),
    ("transmit timeout", HealthKind::QueueTimeout),
    ("firmware recovery mode detected", HealthKind::DeviceError),
    ("control queue timeout", HealthKind::CommandTimeout),
    ("adminq timeout", HealthKind::CommandTimeout),
    ("mailbox timed out", HealthKind::CommandTimeout),
    ("hwc: request timed out", HealthKind::CommandTimeout),
    ("hwc: failed hw_channel req", HealthKind::CommandFailed),
];

/// Decodes what follows a driver's prefix.
pub fn decode(driver: &str, rest: &str) -> Option<Found> {
    if heat(rest) {
        return Some(plain(EventKind::NicTemperature));
    }
    let own: Phrases = match driver {
        "mlx4_core" | "mlx4_en" | "mlx4_ib" => MLX4,
        "bnxt_en" | "bnxt_re" => BNXT,
        "efa" => EFA,
        _ => &[],
    };
    first(own, rest).or_else(|| first(ANY, rest))
}

/// `infiniband <device>: …`: the EFA command layer also speaks in this form.
pub fn infiniband(rest: &str) -> Option<Found> {
    let (device, body) = rest.split_once(": ")?;
    if device.contains(' ') {
        return None;
    }
    first(EFA, body)
}

fn first(phrases: Phrases, rest: &str) -> Option<Found> {
    phrases
        .iter()
        .find(|(p, _)| contains_nocase(rest, p))
        .map(|(_, what)| health(*what))
}

/// Too hot, in the ways drivers put it. Reading a sensor is not an alarm.
fn heat(rest: &str) -> bool {
    const WORDS: [&str; 7] = [
        "over temperature",
        "overtemperature",
        "overheat",
        "over heated",
        "temperature too high",
        "temperature threshold",
        "thermal threshold",
    ];
    WORDS.iter().any(|w| contains_nocase(rest, w))
}
