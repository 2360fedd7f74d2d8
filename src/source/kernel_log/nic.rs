//! What RDMA-capable NICs print, as far as it is common to drivers: links, transmit watchdog,
//! failed probes. mlx5 and the other vendors' own words are in `mlx5` and `vendor`.

use crate::observe::kernel::{Detail, EventKind, HealthKind, KernelEvent};

use super::device::{Origin, label};
use super::nvidia::symbol_failure;
use super::text::{Bdf, contains_nocase, strip_prefix_nocase, take_u32};
use super::{mlx5, vendor};

/// Drivers of NICs that carry RDMA or GPUDirect traffic. Other NICs are ignored.
const DRIVERS: [&str; 29] = [
    "mlx5_core",
    "mlx5_ib",
    "mlx4_core",
    "mlx4_en",
    "mlx4_ib",
    "bnxt_en",
    "bnxt_re",
    "ice",
    "irdma",
    "i40iw",
    "idpf",
    "efa",
    "mana",
    "mana_ib",
    "gve",
    "hfi1",
    "qib",
    "qede",
    "qedr",
    "qed",
    "cxgb4",
    "iw_cxgb4",
    "hns3",
    "hns_roce",
    "hns_roce_hw_v2",
    "ionic",
    "ionic_rdma",
    "erdma",
    "enic",
];

/// Whether a driver's name is one of a fabric NIC.
pub fn is_fabric_driver(driver: &str) -> bool {
    DRIVERS.contains(&driver)
}

/// A finding about a NIC: kind and details, before the device is filled in.
pub type Found = (EventKind, Detail);

/// A health event without command or code.
pub fn health(what: HealthKind) -> Found {
    (
        EventKind::NicHealth,
        Detail::Health {
            what,
            command: None,
            code: None,
        },
    )
}

/// A finding without details.
pub fn plain(kind: EventKind) -> Found {
    (kind, Detail::None)
}

/// Decodes a message that carries a driver's prefix.
pub fn decode(origin: &Origin<'_>, dictionary: Option<&str>, message: &str) -> Option<KernelEvent> {
    if let Some(found) = ib_core_port(origin) {
        return Some(build(found, origin, dictionary, message));
    }
    let nic = is_fabric_driver(origin.driver);
    let gpu = origin.driver == "nvidia" || origin.driver.starts_with("nvidia-nv");
    if (nic || gpu || base_driver(origin.driver).is_some())
        && let Some(event) = failed_start(origin, dictionary, message)
    {
        return Some(event);
    }
    if !nic && !origin.driver.is_empty() {
        return None;
    }
    let found = common(origin)
        .filter(|_| nic)
        .or_else(|| match origin.driver {
            "mlx5_core" | "mlx5_ib" | "" => mlx5::decode(origin.rest),
            driver => vendor::decode(driver, origin.rest),
        })?;
    Some(build(found, origin, dictionary, message))
}

fn build(
    (kind, detail): Found,
    origin: &Origin<'_>,
    dictionary: Option<&str>,
    message: &str,
) -> KernelEvent {
    let mut event = KernelEvent::new(kind, message);
    event.detail = detail;
    place(&mut event, origin.driver, origin.bdf, dictionary);
    event
}

/// Fills address and device from the text, or else from the record's dictionary.
pub fn place(event: &mut KernelEvent, driver: &str, bdf: Option<Bdf>, dictionary: Option<&str>) {
    let Some(bdf) = bdf.or_else(|| Bdf::take(dictionary?).map(|(b, _)| b)) else {
        return;
    };
    event.pci = Some(bdf.slot());
    event.device = Some(if driver.is_empty() {
        bdf.to_string()
    } else {
        label(driver, bdf)
    });
}

/// ib_core's own line, for any RDMA device: `Port: 1 Link ACTIVE`. INIT and ARMED are on the way.
fn ib_core_port(origin: &Origin<'_>) -> Option<Found> {
    let (port, rest) = take_u32(origin.rest.strip_prefix("Port: ")?)?;
    let state = rest.strip_prefix(" Link ")?.trim_end();
    let kind = match state {
        "ACTIVE" => EventKind::NicLinkUp,
        "DOWN" => EventKind::NicLinkDown,
        _ => return None,
    };
    let name = origin
        .name
        .or(origin.bdf.is_none().then_some(origin.driver));
    Some((
        kind,
        Detail::Link {
            name: name.map(str::to_owned),
            port: Some(port),
        },
    ))
}

/// Words that every driver uses alike.
fn common(origin: &Origin<'_>) -> Option<Found> {
    if origin.rest.starts_with("NETDEV WATCHDOG") {
        return Some(health(HealthKind::QueueTimeout));
    }
    link(origin.rest, origin.name)
}

/// `Link up`, `NIC Link is Down`, `port 1 link down`, `eth2: Link Up`, hfi1's logical states.
fn link(rest: &str, name: Option<&str>) -> Option<Found> {
    let (name, rest) = match rest.split_once(": ") {
        // mlx4_en and hfi1 put the interface into the text.
        Some((n, r)) if name.is_none() && !n.contains(' ') => (Some(n), r),
        _ => (name, rest),
    };
    let mut s = rest;
    let mut port = None;
    if let Some(after) = strip_prefix_nocase(s, "port ")
        && let Some((n, after)) = take_u32(after)
    {
        port = Some(n);
        s = after.trim_start_matches([':', ' ']);
    }
    for prefix in ["nic ", "device ", "physical ", "logical "] {
        s = strip_prefix_nocase(s, prefix).unwrap_or(s);
    }
    let up = if let Some(after) = strip_prefix_nocase(s, "link ") {
        let after = strip_prefix_nocase(after, "is ").unwrap_or(after);
        edge(after)?
    } else {
        match s
            .strip_prefix("state changed to PORT_")?
            .split(' ')
            .next()?
        {
            "ACTIVE" => true,
            "DOWN" => false,
            _ => return None,
        }
    };
    let kind = if up {
        EventKind::NicLinkUp
    } else {
        EventKind::NicLinkDown
    };
    Some((
        kind,
        Detail::Link {
            name: name.map(str::to_owned),
            port,
        },
    ))
}

/// `up` or `down` as a whole word.
fn edge(s: &str) -> Option<bool> {
    let len = s.bytes().take_while(u8::is_ascii_alphabetic).count();
    let word = s.get(..len)?;
    if word.eq_ignore_ascii_case("up") {
        Some(true)
    } else if word.eq_ignore_ascii_case("down") {
        Some(false)
    } else {
        None
    }
}

/// `NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 8 timed out` (kernels before 6.5).
pub fn watchdog(after: &str, dictionary: Option<&str>, message: &str) -> Option<KernelEvent> {
    let (_, rest) = after.split_once('(')?;
    let (driver, _) = rest.split_once(')')?;
    if !is_fabric_driver(driver) {
        return None;
    }
    let (kind, detail) = health(HealthKind::QueueTimeout);
    let mut event = KernelEvent::new(kind, message);
    event.detail = detail;
    place(&mut event, driver, None, dictionary);
    Some(event)
}

/// The NIC driver behind an auxiliary driver's name: `mlx5_core.rdma`, `ice.roce`, `mlx5_ib.rdma`.
fn base_driver(driver: &str) -> Option<&str> {
    let (base, _) = driver.split_once('.')?;
    is_fabric_driver(base).then_some(base)
}

/// Probe, module loading and firmware loading that failed.
fn failed_start(
    origin: &Origin<'_>,
    dictionary: Option<&str>,
    message: &str,
) -> Option<KernelEvent> {
    let rest = call_free(origin.rest);
    let mut bdf = origin.bdf;
    if let Some(after) = rest.strip_prefix("probe of ") {
        if !after.contains("failed with error") {
            return None;
        }
        bdf = Bdf::take(after).map(|(b, _)| b).or(bdf);
    } else if !start_failure(origin.driver, rest) {
        return None;
    }
    let mut event = KernelEvent::new(EventKind::Driver, message);
    place(&mut event, origin.driver, bdf, dictionary);
    Some(event)
}

fn call_free(rest: &str) -> &str {
    super::device::call_site(rest).unwrap_or(rest)
}

fn start_failure(driver: &str, rest: &str) -> bool {
    const ANYWHERE: [&str; 19] = [
        "mlx5_init_one failed",
        "mlx5_load_one failed",
        "init_one failed with",
        "load_one failed with",
        "handle_hca_cap failed",
        "enable hca failed",
        "init hca failed",
        "init_hca failed",
        "failed to boot",
        "failed to allocate boot pages",
        "failed to allocate init pages",
        "sw objs init failed",
        "Failed initializing command interface",
        "command interface, aborting",
        "initializing state, aborting",
        "Failed to init device",
        "Safe Mode",
        "probe failed",
        "Failed to load firmware",
    ];
    if (rest.starts_with("probe with driver ") && rest.contains("failed with error"))
        || (rest.starts_with("Direct firmware load for ") && rest.contains("failed"))
        || symbol_failure(rest)
        || rest.starts_with("error requesting BARs")
    {
        return true;
    }
    if driver.starts_with("nvidia-nv") {
        return contains_nocase(rest, "failed") && !contains_nocase(rest, "taint");
    }
    driver != "nvidia" && ANYWHERE.iter().any(|w| rest.contains(w))
}
