//! Series of RDMA ports.

use crate::observe::{CounterKind, Counts, Function, LinkLayer, PortState, hw_kind, pma_kind};
use crate::report::{Exposition, PortView, Report, Role, default_counters, series};

pub(super) fn families(out: &mut Exposition, report: &Report, ports: &[PortView<'_>]) {
    // Before the first enumeration the number of rails is unknown: no series, not 0.
    if report.snapshot.devices.is_some() {
        let rails = ports.iter().filter(|port| port.rail).count();
        out.push("selvage_rails", &[], rails);
    }
    // On InfiniBand the network device's is IPoIB's.
    let is_roce = |port: &PortView| port.port.link_layer == LinkLayer::Ethernet;
    let roce_rails = ports.iter().filter(|port| port.rail && is_roce(port));
    let mtu = roce_rails.filter_map(|port| port.netdev?.mtu).min();
    out.push("selvage_rail_mtu_bytes", &[], mtu);
    for port in ports {
        info(out, port);
        let (device, number) = (port.device.name.as_str(), &port.port.number.to_string());
        let state = port.state();
        let known = state.filter(|state| *state != PortState::Unknown);
        series! { out
            "selvage_port_up" [device, number] known.map(PortState::is_up);
            "selvage_port_state_id" [device, number] state.map(|state| state as u32);
            "selvage_port_physical_state_id" [device, number] port.phys_state().map(|state| state as u32);
            "selvage_port_rate_bytes_per_second" [device, number] port.rate().map(|rate| rate.bytes_per_sec());
        }
        if let Some(neighbor) = port.neighbor {
            let labels = [device, number, &neighbor.switch, &neighbor.switch_port];
            out.push("selvage_port_neighbor_info", &labels, true);
        }
        // VFs lent to guests are the guests' to watch, and a node may have hundreds.
        if out.is_full() || port.device.function != Function::VirtualOfHost {
            counters(out, report, port, number);
        }
    }
}

fn info(out: &mut Exposition, port: &PortView<'_>) {
    let labels = [
        port.device.name.as_str(),
        &port.port.number.to_string(),
        &port.address().unwrap_or_default(),
        port.port.netdev.as_deref().unwrap_or_default(),
        port.port.link_layer.as_str(),
        &port.device.driver,
        port.device.firmware.as_deref().unwrap_or_default(),
        match port.role.map(|role| role.role) {
            Some(Role::Rail) => "true",
            Some(Role::Other) => "false",
            None => "",
        },
    ];
    out.push("selvage_port_info", &labels, true);
}

fn counters(out: &mut Exposition, report: &Report, port: &PortView<'_>, number: &str) {
    let device = port.device.name.as_str();
    // A port whose state was never read has no edges to count from.
    let link = report.snapshot.links.get(&port.key);
    if link.is_some_and(|link| link.value.state.value().is_some()) {
        let edges = report.totals.link_edges.get(&port.key).copied();
        series! { out "selvage_port_link_transitions_total" [device, number] edges.unwrap_or(0); }
    }
    let counters = report.snapshot.counters.get(&port.key);
    let source = ("counters", port.key.device.0.as_str());
    let Some(counters) = counters.filter(|counters| report.is_fresh(counters.at, source)) else {
        return;
    };
    let counters = &counters.value;
    for (family, value) in default_counters::traffic(counters) {
        out.push(family, &[device, number], value);
    }
    let (driver, layer) = (port.device.driver.as_str(), port.port.link_layer);
    let full = out.is_full();
    let pma = values(&counters.pma)
        .filter(|(name, _)| !default_counters::DEFAULTS.pma_traffic.contains(name))
        .filter(|(name, _)| full || default_counters::pma_by_default(layer, name));
    for (name, value) in pma {
        out.push("selvage_port_counter_total", &[device, number, name], value);
        if matches!(pma_kind(name), CounterKind::Saturating { max } if value == max) {
            series! { out "selvage_port_counter_saturated" [device, number, name] true; }
        }
    }
    // A device-wide counter that a port has under the same name is the port's.
    let device_wide =
        values(&counters.device_hw).filter(|(name, _)| !counters.hw.contains_key(*name));
    let hw = values(&counters.hw)
        .chain(device_wide)
        .filter(|(name, _)| full || default_counters::hw_by_default(driver, layer, name));
    for (name, value) in hw {
        let family = match hw_kind(driver, name) {
            CounterKind::Gauge => "selvage_port_hw_gauge",
            _ => "selvage_port_hw_counter_total",
        };
        out.push(family, &[device, number, name], value);
    }
}

fn values(counts: &Counts) -> impl Iterator<Item = (&str, u64)> {
    counts
        .iter()
        .filter_map(|(name, reading)| Some((name.as_str(), *reading.value()?)))
}

#[cfg(test)]
mod tests;
