//! Settings of UCX and Open MPI: whether the names in them exist.

use super::context::{Context, Fabric, port_names};
use super::devices::request;
use super::interfaces::{interfaces, offer, unknown_entries};
use super::item::Item;
use super::network::Network;
use super::wording::{any_of, list};
use crate::observe::container::{Interface, Setting};

/// Transports and groups of them by which UCX uses RDMA hardware; `_` ends a prefix (src/uct/ib,
/// `ucp_tl_aliases` in src/ucp/core/ucp_context.c).
const RDMA_TRANSPORTS: &[&str] = &[
    "all", "ib", "rc", "ud", "dc", "srd", "rc_", "ud_", "dc_", "gga", "mlx5",
];

/// Open MPI's lists of interface names or networks (`10.0.0.0/16`).
const OPEN_MPI: &[&str] = &[
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_oob_tcp_if_include",
    "PRTE_MCA_oob_tcp_if_include",
];

/// How UCX reads an entry of `UCX_NET_DEVICES`. It compares whole names (`ucp_str_array_search`) and
/// knows no shell patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Present,
    /// A device without its port, known since UCX 1.21, or a range such as `mlx5_[0-7]:1`, known
    /// since 1.22 (UCX's NEWS).
    NewForm,
    Missing,
}

fn look_up(name: &str, present: &[String]) -> Name {
    if name == "all" || present.iter().any(|known| known == name) {
        return Name::Present;
    }
    let is_new = |name: &str| {
        let device = |port: &str| {
            port.split_once(':')
                .is_some_and(|(device, _)| device == name)
        };
        present.iter().any(|known| known == name || device(known))
    };
    match is_new(name) || range(name).is_some_and(|mut names| names.any(|name| is_new(&name))) {
        true => Name::NewForm,
        false => Name::Missing,
    }
}

/// The names of `mlx5_[0-7]:1`.
fn range(name: &str) -> Option<impl Iterator<Item = String>> {
    let (before, rest) = name.split_once('[')?;
    let (range, after) = rest.split_once(']')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    Some((first..=last).map(move |number| format!("{before}{number}{after}")))
}

/// Why the item does not apply.
pub(super) fn ucx_devices_skip(context: &Context<'_>) -> Option<&'static str> {
    let environment = &context.facts.environment;
    let is_set = ["UCX_NET_DEVICES", "UCX_TLS"]
        .iter()
        .any(|name| environment.get(name).is_some());
    (!is_set).then_some("neither UCX_NET_DEVICES nor UCX_TLS is set")
}

/// Judges `UCX_NET_DEVICES` (names such as `mlx5_0:1` and `eth0`) and `UCX_TLS`.
pub(super) fn ucx_devices(context: &Context<'_>) -> Item {
    let environment = &context.facts.environment;
    let devices = environment.get("UCX_NET_DEVICES");
    let transports = environment.get("UCX_TLS");
    let rdma = port_names(&match context.fabric {
        Fabric::Efa => context.ports(),
        _ => context.candidates(),
    });
    if let Some(value) = devices {
        let wrong = match interfaces(context) {
            Ok(all) => wrong_names(context, value, &rdma, all),
            Err(item) => Some(item),
        };
        if let Some(wrong) = wrong {
            return wrong;
        }
    }
    let without_rdma = nccl_over_ucx(context)
        .filter(|_| !context.candidates().is_empty() && !context.is_one_node())
        .and_then(|setting| excludes_rdma(context, setting, &rdma));
    without_rdma.unwrap_or_else(|| {
        let settings = [("UCX_NET_DEVICES", devices), ("UCX_TLS", transports)];
        let set = settings
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", (*value)?)));
        Item::ok(set.collect::<Vec<_>>().join(", "))
    })
}

/// NCCL uses UCX, whose settings exclude the RDMA ports that are here.
fn excludes_rdma(context: &Context<'_>, setting: Setting<'_>, rdma: &[String]) -> Option<Item> {
    let environment = &context.facts.environment;
    let devices = environment.get("UCX_NET_DEVICES");
    let transports = environment.get("UCX_TLS");
    let (culprit, remedy) =
        if let Some(value) = devices.filter(|value| names_exclude_rdma(value, rdma)) {
            let remedy = format!("UCX_NET_DEVICES: unset it, or {}", any_of(rdma));
            (format!("UCX_NET_DEVICES={value}"), remedy)
        } else {
            let value = transports.filter(|value| transports_exclude_rdma(value, context))?;
            (
                format!("UCX_TLS={value}"),
                "UCX_TLS: unset it, or add rc".into(),
            )
        };
    let message =
        format!("{culprit} excludes RDMA, which is here, and {setting} makes NCCL use UCX");
    Some(Item::degraded("UcxWithoutRdma", message).fix(remedy))
}

/// Entries of `UCX_NET_DEVICES` that do not exist or that older versions do not know.
fn wrong_names(
    context: &Context<'_>,
    value: &str,
    rdma: &[String],
    interfaces: &[Interface],
) -> Option<Item> {
    if value.starts_with('^') {
        return None;
    }
    let running = interfaces.iter().filter(|interface| interface.running);
    let running = running.map(|interface| interface.name.clone());
    let present: Vec<String> = rdma.iter().cloned().chain(running).collect();
    let is = |name: &str, kind| look_up(name, &present) == kind;
    let (missing, are_all) = unknown_entries(value, |name| !is(name, Name::Missing));
    let (new_form, _) = unknown_entries(value, |name| !is(name, Name::NewForm));
    let setting = format!("UCX_NET_DEVICES={value}");
    let item = if are_all {
        Item::failing(
            "NoUcxDevice",
            format!("{setting}: nothing usable has these names; UCX ends"),
        )
    } else if !missing.is_empty() {
        let missing = list(&missing);
        Item::degraded(
            "UcxPartly",
            format!("{setting}: nothing usable is called {missing}"),
        )
    } else if !new_form.is_empty() {
        let names = list(&new_form);
        let message = format!(
            "{setting}: UCX before 1.21 needs a device's port and before 1.22 knows no ranges: it would not find {names}"
        );
        Item::degraded("UcxNewForm", message)
    } else {
        return None;
    };
    let is_device = |name: &String| name.contains(':') || name.starts_with("mlx");
    let resource = match context.ports().is_empty() && missing.iter().any(is_device) {
        true => format!("; for an RDMA device: {}", request(context)),
        false => String::new(),
    };
    let remedy = format!("{}{resource}", offer("UCX_NET_DEVICES", &present));
    Some(item.fix(remedy).with("there", present))
}

/// Whether the names leave no RDMA port.
fn names_exclude_rdma(value: &str, rdma: &[String]) -> bool {
    match value.strip_prefix('^') {
        Some(names) => rdma
            .iter()
            .all(|port| names.split(',').any(|name| name == port || name == "all")),
        None => value
            .split(',')
            .all(|name| look_up(name, rdma) == Name::Missing),
    }
}

/// Whether the transports leave none that uses RDMA.
fn transports_exclude_rdma(value: &str, context: &Context<'_>) -> bool {
    let Some(names) = value.strip_prefix('^') else {
        return !value.split(',').any(is_rdma);
    };
    let is_excluded = |name: &str| names.split(',').any(|each| each == name);
    let kinds: &[&str] = match context.fabric {
        Fabric::Efa => &["srd", "ud"],
        _ => &["rc", "dc", "ud"],
    };
    is_excluded("all") || is_excluded("ib") || kinds.iter().all(|kind| is_excluded(kind))
}

fn is_rdma(transport: &str) -> bool {
    // `rc:aux` narrows a transport; a backslash asks for the exact name.
    let name = transport.split(':').next().unwrap_or_default();
    let name = name.trim_start_matches('\\');
    RDMA_TRANSPORTS
        .iter()
        .any(|known| name == *known || known.ends_with('_') && name.starts_with(known))
}

/// The setting that makes NCCL use UCX: its network, its plugin, or the transport of HPC-X's plugin.
fn nccl_over_ucx<'a>(context: &Context<'a>) -> Option<Setting<'a>> {
    let names = ["NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_PLUGIN_P2P"].into_iter();
    let mut settings = names.filter_map(|name| context.nccl(name));
    settings.find(|setting| setting.value.to_ascii_lowercase().contains("ucx"))
}

/// Why the item does not apply.
pub(super) fn mpi_ifname_skip(context: &Context<'_>) -> Option<&'static str> {
    let environment = &context.facts.environment;
    let is_set = OPEN_MPI.iter().any(|name| environment.get(name).is_some());
    (!is_set).then_some("no interface list of Open MPI is set")
}

/// Judges Open MPI's lists of interfaces and networks.
pub(super) fn mpi_ifname(context: &Context<'_>) -> Item {
    let all = match interfaces(context) {
        Ok(all) => all,
        Err(item) => return item,
    };
    let usable = all
        .iter()
        .filter(|one| one.running && !one.addresses.is_empty());
    let usable: Vec<String> = usable.map(|interface| interface.name.clone()).collect();
    let is_known = |entry: &str| match Network::parse(entry) {
        Some(network) => {
            let mut addresses = all.iter().flat_map(|interface| &interface.addresses);
            addresses.any(|address| network.contains(*address))
        }
        None => usable.iter().any(|name| name == entry),
    };
    let environment = &context.facts.environment;
    let settings = OPEN_MPI
        .iter()
        .filter_map(|name| Some((*name, environment.get(name)?)));
    for (name, value) in settings.clone() {
        let (missing, are_all) = unknown_entries(value, is_known);
        let message = format!("{name}={value}: no interface in here is {}", list(&missing));
        let item = match (missing.is_empty(), are_all) {
            (true, _) => continue,
            (false, true) => Item::failing("NoInterface", message),
            (false, false) => Item::degraded("MpiPartly", message),
        };
        return item.fix(offer(name, &usable));
    }
    let settings: Vec<_> = settings
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Item::ok(settings.join(", "))
}

#[cfg(test)]
mod tests;
