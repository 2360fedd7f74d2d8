//! Bootstrap, plugins, NICs and the choice of a network (src/bootstrap.cc, src/plugin/net.cc,
//! src/transport/net_ib, net_socket.cc; aws-ofi-nccl; the other plugins' own lines).

use crate::observe::nccl::{Event, Failure, Net};

pub(super) fn network(text: &str) -> Option<Event<'_>> {
    if let Some(rest) = text.strip_prefix("Using ") {
        return using(rest);
    }
    if let Some(rest) = text.strip_prefix("NET/") {
        return net(rest);
    }
    if let Some(rest) = text.strip_prefix("Bootstrap") {
        // 2.27 can bootstrap over the net plugin: `Using NAME:N`, no address there.
        return rest
            .trim_start_matches([' ', ':'])
            .strip_prefix("Using ")
            .map(Event::Bootstrap);
    }
    // 2.3.
    if let Some(rest) = text.strip_prefix("NET : Using interface ") {
        return Some(Event::Bootstrap(rest));
    }
    if text.starts_with("Net/IB") && text.contains("returned 0 devices") {
        return Some(Event::IbNone);
    }
    // 2.27+: printed for each communicator.
    if let Some(rest) = text.strip_prefix("Assigned NET plugin ") {
        return Some(Event::Using(clean(rest.split(" to comm").next()?)));
    }
    if let Some(name) = text.strip_prefix("Initialized NET plugin ") {
        return Some(Event::Using(clean(name)));
    }
    if let Some(name) = text.strip_prefix("Failed to initialize NET plugin ") {
        return Some(Event::NetFailed(clean(name)));
    }
    if let Some(name) = text.strip_prefix("P2P plugin ") {
        return Some(Event::PluginLoaded(clean(name)));
    }
    if text.starts_with("Successfully loaded external ") {
        return Some(Event::Plain);
    }
    if text.starts_with("GPU Direct RDMA Disabled for GPU") {
        return Some(Event::Gdr {
            enabled: false,
            no_module: false,
        });
    }
    if text.starts_with("No network plugin found") {
        return Some(Event::NoPlugin);
    }
    None
}

/// A net's name, which may contain a space, without what some logs append.
fn clean(name: &str) -> &str {
    let end = ["  ", " [", " comm ", "\t", "│", "\""]
        .iter()
        .filter_map(|behind| name.find(behind))
        .min()
        .unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default();
    name.trim().trim_end_matches(['.', ',', ';'])
}

fn using<'a>(rest: &'a str) -> Option<Event<'a>> {
    if let Some(name) = rest
        .strip_prefix("network ")
        .or_else(|| rest.strip_prefix("internal Network "))
        .or_else(|| rest.strip_prefix("internal network "))
    {
        let name = clean(name);
        if name.is_empty() || name == "plugin" {
            return Some(Event::NoPlugin);
        }
        return Some(Event::Using(name));
    }
    if rest.starts_with("NCCL_NET_DEVICE_UNPACK") {
        return Some(Event::PluginSpeaks(Net::Tcpx));
    }
    None
}

fn net(rest: &str) -> Option<Event<'_>> {
    let (family, said) = rest.split_once([' ', ':'])?;
    let said = said.trim_start_matches([' ', ':']);
    if let Some(gdr) = said.strip_prefix("GPU Direct RDMA ") {
        return gpu_direct(family, gdr);
    }
    match family {
        "IB" => ib(said),
        "Socket" => said
            .strip_prefix("Using ")
            .filter(|list| list.starts_with('['))
            .map(Event::SocketInterfaces),
        "OFI" => ofi(said),
        "FastSocket" => Some(Event::FastSocket),
        "GPUDirectTCPX" | "FasTrak" => Some(Event::PluginSpeaks(Net::of(family))),
        "Plugin" => plugin(said),
        _ => None,
    }
}

/// For Socket it is always disabled and means nothing.
fn gpu_direct<'a>(family: &str, said: &str) -> Option<Event<'a>> {
    if family == "Socket" || family == "FastSocket" {
        return Some(Event::Plain);
    }
    Some(Event::Gdr {
        enabled: said.starts_with("Enabled") || said.contains(" enabled"),
        no_module: said.contains("(no module)"),
    })
}

fn ib(said: &str) -> Option<Event<'_>> {
    if said.starts_with("No device found") {
        return Some(Event::IbNone);
    }
    if let Some(list) = said.strip_prefix("Using ") {
        // Since 2.24 the line follows "No device found" too, with an empty list.
        return Some(match list.as_bytes() {
            [b'[', digit, ..] if digit.is_ascii_digit() => Event::IbDevices(list),
            _ => Event::Plain,
        });
    }
    if let Some(rest) = said.strip_prefix("Made virtual device ") {
        let (_, name) = rest.split_once("name=")?;
        return Some(Event::IbDevice(name.split(' ').next()?));
    }
    // 2.3 prints one device a line.
    if said.starts_with('[') && (said.contains("/IB") || said.contains("/RoCE")) {
        return Some(Event::IbDevices(said));
    }
    None
}

fn ofi(said: &str) -> Option<Event<'_>> {
    for start in ["Selected provider is ", "Selected Provider is "] {
        if let Some(rest) = said.strip_prefix(start) {
            let end = rest.find([',', ' ']).unwrap_or(rest.len());
            return rest.get(..end).map(Event::OfiProvider);
        }
    }
    if said.starts_with("Using transport protocol ") {
        return Some(Event::OfiProtocol);
    }
    const FAILED: [&str; 6] = [
        "aws-ofi-nccl initialization failed",
        "Only EFA provider is supported",
        "Could not find any optimal provider",
        "OFI fi_getinfo() call failed",
        "Unable to find a protocol that worked",
        "Failed to initialize ",
    ];
    if FAILED.iter().any(|text| said.starts_with(text)) {
        return Some(Event::Failure(Failure::PluginInit));
    }
    None
}

fn plugin(said: &str) -> Option<Event<'_>> {
    if let Some(rest) = said.strip_prefix("Loaded net plugin ") {
        let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
        return Some(Event::PluginLoaded(name));
    }
    // NCCL_NET_PLUGIN, up to 2.27.
    if let Some(value) = said.strip_prefix("Plugin name set by env to ") {
        return Some(Event::Env {
            name: "NCCL_NET_PLUGIN",
            value,
        });
    }
    let none = [
        "No plugin found",
        "Could not find",
        "Plugin load ",
        "dlerror=",
    ];
    if none.iter().any(|text| said.starts_with(text)) {
        return Some(Event::NoPlugin);
    }
    None
}
