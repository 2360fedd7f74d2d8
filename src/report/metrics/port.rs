//! Series of RDMA ports.

use super::{Exposition, flag, port_labels};
use crate::observe::counters::{CounterKind, hw_kind, pma_kind};
use crate::observe::rdma::PortState;
use crate::report::catalogue::{self as cat, Detail, Family};
use crate::report::default_counters::{self, Traffic};
use crate::report::port_view::{self, ReportedPort};
use crate::report::{Report, Role};
use std::borrow::Cow;

pub(super) fn families(exposition: &mut Exposition, report: &Report, ports: &[ReportedPort<'_>]) {
    // Before the first enumeration nothing is known of rails: no series, not 0.
    let rails = ports.iter().filter(|port| port.is_rail()).count();
    exposition.one(
        &cat::RAILS,
        report.snapshot.devices.as_ref().map(|_| rails as f64),
    );
    exposition.add(&cat::PORT_INFO, ports.iter().map(|port| (info(port), 1.0)));
    each(exposition, &cat::PORT_UP, ports, |port| {
        match port.state()? {
            PortState::Unknown => None,
            state => Some(flag(state.is_up())),
        }
    });
    each(exposition, &cat::PORT_STATE_ID, ports, |port| {
        Some(f64::from(port.state()?.id()))
    });
    each(exposition, &cat::PORT_PHYSICAL_STATE_ID, ports, |port| {
        Some(f64::from(port.phys_state()?.id()))
    });
    each(exposition, &cat::PORT_RATE, ports, |port| {
        Some(port.rate()?.bytes_per_sec())
    });

    let full = exposition.detail == Detail::Full;
    let counted: Vec<&ReportedPort<'_>> = ports
        .iter()
        .filter(|port| full || default_counters::counted_by_default(port))
        .collect();
    let traffic: Vec<(&ReportedPort<'_>, Traffic)> = counted
        .iter()
        .filter_map(|port| Some((*port, default_counters::traffic(port.counters?))))
        .collect();
    let mut moved = |family: &Family, pick: fn(&Traffic) -> Option<u64>| {
        let values = traffic
            .iter()
            .filter_map(|(port, traffic)| Some((port_labels(port), pick(traffic)? as f64)));
        exposition.add(family, values);
    };
    moved(&cat::PORT_RECEIVE_BYTES, |t| t.rx_bytes);
    moved(&cat::PORT_TRANSMIT_BYTES, |t| t.tx_bytes);
    moved(&cat::PORT_RECEIVE_PACKETS, |t| t.rx_packets);
    moved(&cat::PORT_TRANSMIT_PACKETS, |t| t.tx_packets);

    let pma = |saturated: bool| {
        counted.iter().flat_map(move |port| {
            pma_values(port, full)
                .filter(move |(name, value)| !saturated || is_saturated(name, *value))
                .map(move |(name, value)| {
                    let shown = if saturated { 1.0 } else { value as f64 };
                    (with_counter(port, name), shown)
                })
        })
    };
    exposition.add(&cat::PORT_COUNTER, pma(false));
    exposition.add(&cat::PORT_COUNTER_SATURATED, pma(true));
    let hw = |gauges: bool| {
        counted.iter().flat_map(move |port| {
            hw_values(port, full)
                .filter(move |(name, _)| {
                    (hw_kind(&port.device.driver, name) == CounterKind::Gauge) == gauges
                })
                .map(move |(name, value)| (with_counter(port, name), value as f64))
        })
    };
    exposition.add(&cat::PORT_HW_COUNTER, hw(false));
    exposition.add(&cat::PORT_HW_GAUGE, hw(true));

    // A port whose state was never read has no edges to count from.
    exposition.add(
        &cat::PORT_LINK_TRANSITIONS,
        counted.iter().filter(|port| port.state_read).map(|port| {
            let edges = report.totals.link_edges.get(&port.key).copied();
            (port_labels(port), edges.unwrap_or(0) as f64)
        }),
    );
}

fn each(
    exposition: &mut Exposition,
    family: &Family,
    ports: &[ReportedPort<'_>],
    value: impl Fn(&ReportedPort<'_>) -> Option<f64>,
) {
    exposition.add(
        family,
        ports
            .iter()
            .filter_map(|port| Some((port_labels(port), value(port)?))),
    );
}

fn info<'a>(port: &'a ReportedPort<'_>) -> [Cow<'a, str>; 8] {
    let rail = match port.role.map(|role| role.role) {
        Some(Role::Rail) => "true",
        Some(Role::Other) => "false",
        None => "",
    };
    let [device, number] = port_labels(port);
    [
        device.into(),
        number.into(),
        port.pci().unwrap_or_default().into(),
        port.port.netdev.as_deref().unwrap_or_default().into(),
        port_view::link_layer(port.port.link_layer).into(),
        port.device.driver.as_str().into(),
        port.device.firmware.as_deref().unwrap_or_default().into(),
        rail.into(),
    ]
}

fn with_counter<'a>(port: &'a ReportedPort<'_>, counter: &'a str) -> [&'a str; 3] {
    let [device, number] = port_labels(port);
    [device, number, counter]
}

fn is_saturated(name: &str, value: u64) -> bool {
    matches!(pma_kind(name), CounterKind::Saturating { max } if value == max)
}

/// PMA counters to export, traffic left out.
fn pma_values<'a>(
    port: &'a ReportedPort<'_>,
    full: bool,
) -> impl Iterator<Item = (&'a str, u64)> + 'a {
    let layer = port.port.link_layer;
    port.counters
        .into_iter()
        .flat_map(|counters| counters.pma.iter())
        .filter_map(|(name, reading)| Some((name.as_str(), *reading.value()?)))
        .filter(move |(name, _)| !default_counters::PMA_TRAFFIC.contains(name))
        .filter(move |(name, _)| full || default_counters::pma_by_default(layer, name))
}

/// Hardware counters to export. A device-wide counter that a port has under the same name is the
/// port's: one series must not come twice.
fn hw_values<'a>(
    port: &'a ReportedPort<'_>,
    full: bool,
) -> impl Iterator<Item = (&'a str, u64)> + 'a {
    let driver = port.device.driver.as_str();
    let layer = port.port.link_layer;
    port.counters
        .into_iter()
        .flat_map(|counters| {
            let device_wide = counters
                .device_hw
                .iter()
                .filter(|(name, _)| !counters.hw.contains_key(*name));
            counters.hw.iter().chain(device_wide)
        })
        .filter_map(|(name, reading)| Some((name.as_str(), *reading.value()?)))
        .filter(move |(name, _)| full || default_counters::hw_by_default(driver, layer, name))
}

#[cfg(test)]
mod tests;
