//! Settings that choose NCCL's network, and those that NCCL reads otherwise than they were meant.

use super::Item;
use super::devices::count;
use super::nccl_list::number;
use super::scene::{Fabric, Scene};

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

/// Which network NCCL will take, by its settings.
pub(super) fn network(scene: &Scene<'_>) -> Item {
    const ID: &str = "nccl_network";
    let usable = scene.selected().len();
    let disabled = scene
        .nccl_number("NCCL_IB_DISABLE")
        .is_some_and(|number| number != 0);
    if let Some(asked) = scene.nccl("NCCL_NET") {
        let told = asked.told();
        let value = asked.setting.value;
        if value.trim().is_empty() || value.trim() != value {
            return Item::failing(
                ID,
                "NetNotAvailable",
                format!("{told:?}: no network has this name, blanks included, and NCCL ends instead of taking another"),
            )
            .fix("NCCL_NET: unset it, or IB");
        }
        if value.eq_ignore_ascii_case("ib") {
            if disabled {
                return Item::failing(
                    ID,
                    "NetNotAvailable",
                    format!("{told}, and NCCL_IB_DISABLE forbids it: NCCL ends"),
                )
                .fix("NCCL_IB_DISABLE: unset it");
            }
            return match (scene.fabric, usable) {
                (Fabric::Unknown, _) => Item::unknown(
                    ID,
                    "RdmaUnreadable",
                    format!("{told}; RDMA devices could not be listed"),
                ),
                (_, 0) => Item::failing(
                    ID,
                    "NetNotAvailable",
                    format!("{told}, and there is no usable port: NCCL ends (`network IB not found`) instead of taking TCP"),
                )
                .fix("see to uverbs, rdma_ports and ib_hca; or unset NCCL_NET"),
                (_, many) => Item::ok(
                    ID,
                    format!("{told}: NCCL's own transport over {}", count(many, "port")),
                ),
            };
        }
        if !value.eq_ignore_ascii_case("socket") {
            return Item::ok(ID, format!("{told}: a plugin's network (net_plugin)"));
        }
    }
    if let Some(asked) = &scene.tcp {
        let told = asked.told();
        let sockets = |item: Item| item.with("network", "Socket");
        if scene.is_one_node() {
            return sockets(Item::ok(
                ID,
                format!("{told} asks for TCP, and the job is of one node"),
            ));
        }
        // Devices that this container was not given are the node's all the same.
        let here = !scene.devices().is_empty() || scene.fabric == Fabric::TcpRails;
        let gpus = scene.gpus.is_some_and(|gpus| gpus > 0);
        let why = match (here, scene.is_many_nodes() && gpus) {
            (true, _) => "though RDMA is here",
            (false, true) => "and the job's GPUs are on several nodes",
            (false, false) => {
                return sockets(Item::ok(
                    ID,
                    format!("{told} asks for TCP, and there is no RDMA device"),
                ));
            }
        };
        return sockets(Item::degraded(
            ID,
            "TcpConfigured",
            format!("{told} asks for TCP, {why}"),
        ))
        .fix(format!(
            "{}: take it out{}",
            asked.name,
            asked
                .setting
                .file
                .map_or(String::new(), |file| format!(" of {file}"))
        ));
    }
    match (scene.fabric, scene.plugin()) {
        (_, Some(path)) => Item::ok(ID, format!("NCCL tries the plugin {path} first")),
        (Fabric::Verbs, None) if usable > 0 => Item::ok(
            ID,
            format!("NCCL's own transport over {}", count(usable, "port")),
        ),
        _ => Item::skipped(ID, "no setting chooses a network"),
    }
}

/// The other settings.
pub(super) fn others(scene: &Scene<'_>) -> Item {
    const ID: &str = "nccl_settings";
    let named = super::named::files(ID, scene).or_else(|| super::named::rails(ID, scene));
    if let Some(wrong) = named {
        return wrong;
    }
    for name in NUMBERS {
        let Some(asked) = scene.nccl(name) else {
            continue;
        };
        let value = asked.setting.value;
        let begins = value
            .trim_start()
            .trim_start_matches(['+', '-'])
            .starts_with(|c: char| c.is_ascii_digit());
        if !value.is_empty() && !begins {
            return Item::degraded(
                ID,
                "NotANumber",
                format!(
                    "{}: NCCL reads a number here, and takes this for 0",
                    asked.told()
                ),
            )
            .fix(format!("{name}: a number"));
        }
        if !value.is_empty() && number(value).is_none() {
            return Item::degraded(
                ID,
                "NotANumber",
                format!(
                    "{}: too large a number, NCCL keeps its default",
                    asked.told()
                ),
            )
            .fix(format!("{name}: a number"));
        }
    }
    if scene
        .nccl_number("NCCL_P2P_DISABLE")
        .is_some_and(|n| n != 0)
        && scene.gpus.is_some_and(|gpus| gpus > 1)
    {
        return Item::degraded(
            ID,
            "P2pDisabled",
            "NCCL_P2P_DISABLE=1: GPUs of this node talk through host memory instead of NVLink or PCIe",
        )
        .fix("NCCL_P2P_DISABLE: unset it");
    }
    if let Some(asked) = scene.nccl("NCCL_SOCKET_FAMILY")
        && !["AF_INET", "AF_INET6"].contains(&asked.setting.value)
    {
        return Item::degraded(
            ID,
            "NotAnAddressFamily",
            format!(
                "{}: NCCL knows AF_INET and AF_INET6 and passes this over",
                asked.told()
            ),
        )
        .fix("NCCL_SOCKET_FAMILY: AF_INET or AF_INET6");
    }
    let unread = &scene.facts.environment.unread;
    if !unread.is_empty() {
        return Item::unknown(
            ID,
            "SettingsUnreadable",
            format!("{}: what it sets is not known here", unread.join("; ")),
        )
        .fix("the file system of the file; NCCL_CONF_FILE names another");
    }
    let set = scene.facts.environment.variables.keys();
    let files = scene.facts.environment.nccl_files.keys();
    let number_set = set
        .chain(files)
        .filter(|name| name.starts_with("NCCL_"))
        .count();
    match number_set {
        0 => Item::ok(ID, "none is set"),
        _ => Item::ok(ID, format!("{number_set} set, each read as it stands")),
    }
}

#[cfg(test)]
mod tests;
