//! Settings that choose NCCL's network, and settings that NCCL reads differently than intended.

use super::context::{Context, Fabric};
use super::item::Item;
use super::nccl_list::parse_number;
use super::referenced_files::{missing_file, missing_rail};
use super::wording::count;
use crate::observe::container::Setting;

/// Settings that NCCL reads as whole numbers, among those that people set by hand.
const NUMBERS: &[&str] = &[
    "NCCL_IB_DISABLE",
    "NCCL_IBEXT_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_CROSS_NIC",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NET_GDR_READ",
    "NCCL_DMABUF_ENABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_MNNVL_ENABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_BUFFSIZE",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
];

/// Judges which network NCCL will use.
pub(super) fn network(context: &Context<'_>) -> Item {
    let usable = context.selected().len();
    if let Some(setting) = context.nccl("NCCL_NET") {
        let value = setting.value;
        if value.trim().is_empty() || value.trim() != value {
            let message = format!(
                "{:?}: no network has this name, blanks included, and NCCL ends instead of choosing another",
                setting.to_string()
            );
            return Item::failing("NetNotAvailable", message).fix("NCCL_NET: unset it, or IB");
        }
        if value.eq_ignore_ascii_case("ib") {
            return ib(context, setting, usable);
        }
        if !value.eq_ignore_ascii_case("socket") {
            return Item::ok(format!("{setting}: a plugin's network (net_plugin)"));
        }
    }
    if let Some(setting) = context.tcp {
        return tcp(context, setting).with("network", "Socket");
    }
    match (context.fabric, context.plugin()) {
        (_, Some(path)) => Item::ok(format!("NCCL tries the plugin {path} first")),
        (Fabric::Verbs, None) if usable > 0 => Item::ok(format!(
            "NCCL's own transport over {}",
            count(usable, "port")
        )),
        _ => Item::skipped("no setting chooses a network"),
    }
}

/// `NCCL_NET=IB`: NCCL ends without a usable port.
fn ib(context: &Context<'_>, setting: Setting<'_>, usable: usize) -> Item {
    if context.nccl_flag("NCCL_IB_DISABLE") {
        let message = format!("{setting}, and NCCL_IB_DISABLE forbids it: NCCL ends");
        return Item::failing("NetNotAvailable", message).fix("NCCL_IB_DISABLE: unset it");
    }
    match (context.fabric, usable) {
        (Fabric::Unknown, _) => {
            Item::unknown("RdmaUnreadable", format!("{setting}; RDMA devices could not be listed"))
        }
        (_, 0) => Item::failing("NetNotAvailable", format!("{setting}, and no port is usable: NCCL ends (`network IB not found`) instead of using TCP"))
            .fix("fix uverbs, rdma_ports and ib_hca; or unset NCCL_NET"),
        (_, many) => Item::ok(format!("{setting}: NCCL's own transport over {}", count(many, "port"))),
    }
}

/// A setting asks for TCP: wrong if the job could have used RDMA. Devices that this container was not
/// given count as well.
fn tcp(context: &Context<'_>, setting: Setting<'_>) -> Item {
    let has_rdma = !context.devices().is_empty() || context.fabric == Fabric::TcpRails;
    let has_gpus = context.gpus.is_some_and(|gpus| gpus > 0);
    let why = match (has_rdma, context.is_many_nodes() && has_gpus) {
        _ if context.is_one_node() => {
            return Item::ok(format!(
                "{setting} asks for TCP, and the job runs on one node"
            ));
        }
        (true, _) => "though RDMA is here",
        (false, true) => "and the job's GPUs are on several nodes",
        (false, false) => {
            return Item::ok(format!(
                "{setting} asks for TCP, and the node has no RDMA device"
            ));
        }
    };
    let from = setting
        .file
        .map_or(String::new(), |file| format!(" from {file}"));
    Item::degraded("TcpConfigured", format!("{setting} asks for TCP, {why}"))
        .fix(format!("{}: remove it{from}", setting.name))
}

/// Judges the other settings.
pub(super) fn others(context: &Context<'_>) -> Item {
    let environment = &context.facts.environment;
    let wrong = missing_file(context)
        .or_else(|| missing_rail(context))
        .or_else(|| {
            NUMBERS
                .iter()
                .find_map(|name| not_a_number(context.nccl(name)?))
        })
        .or_else(|| p2p_disabled(context))
        .or_else(|| wrong_family(context.nccl("NCCL_SOCKET_FAMILY")?));
    if let Some(wrong) = wrong {
        return wrong;
    }
    if !environment.unread.is_empty() {
        let message = format!(
            "{}: its settings are unknown",
            environment.unread.join("; ")
        );
        return Item::unknown("SettingsUnreadable", message)
            .fix("the file system of the file; NCCL_CONF_FILE names another");
    }
    let names = environment
        .variables
        .keys()
        .chain(environment.nccl_files.keys());
    match names.filter(|name| name.starts_with("NCCL_")).count() {
        0 => Item::ok("none is set"),
        number => Item::ok(format!("{number} set, each read as written")),
    }
}

fn not_a_number(setting: Setting<'_>) -> Option<Item> {
    let digits = setting.value.trim_start().trim_start_matches(['+', '-']);
    let why = match parse_number(setting.value) {
        _ if setting.value.is_empty() => return None,
        None => "the number is too large, NCCL keeps its default",
        Some(_) if digits.starts_with(|c: char| c.is_ascii_digit()) => return None,
        Some(_) => "NCCL reads a number here, and takes this for 0",
    };
    let item = Item::degraded("NotANumber", format!("{setting}: {why}"));
    Some(item.fix(format!("{}: a number", setting.name)))
}

fn p2p_disabled(context: &Context<'_>) -> Option<Item> {
    let matters = context.gpus.is_some_and(|gpus| gpus > 1);
    (matters && context.nccl_flag("NCCL_P2P_DISABLE")).then(|| {
        let message = "NCCL_P2P_DISABLE=1: GPUs of this node communicate through host memory instead of NVLink or PCIe";
        Item::degraded("P2pDisabled", message).fix("NCCL_P2P_DISABLE: unset it")
    })
}

fn wrong_family(setting: Setting<'_>) -> Option<Item> {
    (!["AF_INET", "AF_INET6"].contains(&setting.value)).then(|| {
        let message = format!("{setting}: NCCL knows AF_INET and AF_INET6 and ignores this");
        Item::degraded("NotAnAddressFamily", message).fix("NCCL_SOCKET_FAMILY: AF_INET or AF_INET6")
    })
}

#[cfg(test)]
mod tests;
