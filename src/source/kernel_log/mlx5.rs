//! mlx5's own words (`drivers/net/ethernet/mellanox/mlx5/core/{health,events,cmd,en_main}.c`).
//!
//! Warnings carry `function:line:(pid N): `; that part differs between kernels and is absent from
//! informational lines, so only what follows it is matched.

use crate::observe::kernel::{Detail, EventKind, HealthKind};

use super::device::call_site;
use super::nic::{Found, health};
use super::text::{contains_nocase, number_after, take_0x, take_u32};

/// Decodes what follows the device prefix.
pub fn decode(rest: &str) -> Option<Found> {
    let mut body = call_site(rest).unwrap_or(rest);
    for word in ["INFO: ", "WARN: ", "WARNING: ", "ERR: ", "ERROR: "] {
        body = body.strip_prefix(word).unwrap_or(body);
    }
    let body = call_site(body).unwrap_or(body);
    port_module(body)
        .or_else(|| sensors(body))
        .or_else(|| dump_heading(body))
        .or_else(|| lifecycle(body))
        .or_else(|| command(body))
        .or_else(|| queues(body))
}

/// `Port module event: module 0, Cable plugged`; `Port module event[error]: module 0, Cable error, …`.
fn port_module(body: &str) -> Option<Found> {
    let rest = body.strip_prefix("Port module event")?;
    let (error, rest) = match rest.strip_prefix("[error]") {
        Some(r) => (true, r),
        None => (false, rest),
    };
    let rest = rest.strip_prefix(": ")?;
    let (module, reason) = match rest.strip_prefix("module ").and_then(take_u32) {
        Some((n, r)) => (Some(n), r.trim_start_matches([',', ' '])),
        None => (None, rest),
    };
    let kind = if contains_nocase(reason, "cable unplugged") {
        EventKind::NicCableUnplugged
    } else if contains_nocase(reason, "cable plugged") {
        EventKind::NicCablePlugged
    } else if contains_nocase(reason, "high temperature") {
        EventKind::NicTemperature
    } else if contains_nocase(reason, "power") {
        EventKind::NicPower
    } else if error || contains_nocase(reason, "error") || contains_nocase(reason, "disabled") {
        return Some(health(HealthKind::ModuleFault));
    } else {
        return None;
    };
    let reason = (!reason.is_empty()).then(|| reason.chars().take(200).collect());
    Some((kind, Detail::Module { module, reason }))
}

/// Heat and slot power. "PCIe slot advertised sufficient power" comes from the same place.
fn sensors(body: &str) -> Option<Found> {
    if body.starts_with("High temperature") {
        return Some((EventKind::NicTemperature, Detail::None));
    }
    let rest = body.strip_prefix("Detected insufficient power on the PCIe slot")?;
    let watts = number_after(rest, "(");
    Some((EventKind::NicPower, Detail::Power { watts }))
}

/// The lines of a health dump that say what is wrong; the rest of the dump is context.
fn dump_heading(body: &str) -> Option<Found> {
    let (code, says) = if let Some(rest) = body.strip_prefix("synd ") {
        let (code, rest) = take_0x(rest)?;
        (Some(code), rest)
    } else {
        (None, body.strip_prefix("Health issue observed")?)
    };
    // Syndrome 0x10 is the firmware's heat alarm.
    if code == Some(0x10) || contains_nocase(says, "high temperature") {
        return Some((EventKind::NicTemperature, Detail::None));
    }
    Some(health_code(HealthKind::Syndrome, code))
}

fn health_code(what: HealthKind, code: Option<u32>) -> Found {
    (
        EventKind::NicHealth,
        Detail::Health {
            what,
            command: None,
            code,
        },
    )
}

/// Heartbeat, fatal sensors, recovery.
fn lifecycle(body: &str) -> Option<Found> {
    const STARTS: [(&str, HealthKind); 10] = [
        ("device's health compromised", HealthKind::HeartbeatLost),
        ("FW is unable to respond", HealthKind::HeartbeatLost),
        ("PCI slot is unavailable", HealthKind::DeviceError),
        ("PCI slot 0 is unavailable", HealthKind::DeviceError),
        ("handling bad device here", HealthKind::DeviceError),
        ("Driver is in error state", HealthKind::DeviceError),
        ("health recovery failed", HealthKind::DeviceError),
        ("health recovery flow aborted", HealthKind::DeviceError),
        ("starting health recovery flow", HealthKind::RecoveryStarted),
        ("health recovery succe", HealthKind::Recovered),
    ];
    if let Some(rest) = body.strip_prefix("Fatal error ") {
        let (code, rest) = take_u32(rest)?;
        return rest
            .starts_with(" detected")
            .then(|| health_code(HealthKind::FatalSensor, Some(code)));
    }
    STARTS
        .iter()
        .find(|(s, _)| body.starts_with(s))
        .map(|(_, what)| health(*what))
}

/// Firmware commands: `NAME(0x805) op_mod(0x1) failed, …`, `NAME(0x805) timeout. Will cause …`.
fn command(body: &str) -> Option<Found> {
    const TIMEOUTS: [&str; 4] = [
        "timeout. Will cause a leak of a command resource",
        "No done completion",
        "recovered after timeout",
        "Command completion arrived after timeout",
    ];
    let timed_out = TIMEOUTS.iter().any(|t| body.contains(t));
    let name = command_name(body);
    let failed = name.is_some() && body.contains(") op_mod(0x")
        || body.starts_with("command failed, status")
        || body.starts_with("failed to allocate command entry")
        || (name.is_some() && body.contains(") failed"));
    let what = if timed_out {
        HealthKind::CommandTimeout
    } else if failed {
        HealthKind::CommandFailed
    } else {
        return None;
    };
    Some((
        EventKind::NicHealth,
        Detail::Health {
            what,
            command: name.map(str::to_owned),
            code: None,
        },
    ))
}

/// The upper-case name before `(0x`, behind an optional `cmd[N]: `.
fn command_name(body: &str) -> Option<&str> {
    let start = match body.strip_prefix("cmd[") {
        Some(rest) => rest.split_once("]: ")?.1,
        None => body,
    };
    let (name, _) = start.split_once("(0x")?;
    let shape = !name.is_empty()
        && name.len() <= 64
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    shape.then_some(name)
}

/// Transmit watchdog and stuck queues.
fn queues(body: &str) -> Option<Found> {
    ["TX timeout", "RX timeout on channel"]
        .iter()
        .any(|s| body.starts_with(s))
        .then(|| health(HealthKind::QueueTimeout))
}
