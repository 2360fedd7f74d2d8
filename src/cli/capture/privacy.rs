//! What a capture keeps of files that say more than the sources need.

use crate::host::{Host, recording};
use crate::observe::{Reading, Snapshot};
use crate::source::{gpudirect, ovs, routes};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// Replaces or drops what is not the reader's business.
pub fn scrub(host: &Host, snapshot: &Snapshot, tree: &mut recording::Recorded) {
    // Hardware addresses of interfaces, and routes with their gateways.
    let private = |path: &Path| {
        let network = path.components().any(|part| part.as_os_str() == "net");
        path.file_name().is_some_and(|name| name == "address")
            // Also by its real place, `proc/PID/net`.
            || (path.starts_with("proc") && network)
            || path.starts_with("run/wpa_supplicant")
    };
    tree.entries
        .retain(|path, entry| !matches!(entry, recording::Stored::File(_)) || !private(path));
    tree.errnos.retain(|path, _| !private(path));
    let mut replace = |path: &str, keep: &dyn Fn(&str) -> String| {
        if let Some(recording::Stored::File(Some(bytes))) = tree.entries.get_mut(Path::new(path)) {
            *bytes = keep(&String::from_utf8_lossy(bytes)).into_bytes();
        }
    };
    replace("proc/cmdline", &|text| {
        gpudirect::iommu_words(text).join(" ") + "\n"
    });
    replace("proc/cpuinfo", &processor);
    if let Reading::Value(mut names) = routes::default_route_devices(host) {
        // Without hardware addresses a replay finds the NIC below a virtual switch by the route.
        let over = |name: &&String| ovs::route_over(host, &names, name).is_some_and(|r| r.sure);
        let below: Vec<String> = snapshot.netdevs.keys().filter(over).cloned().collect();
        names.extend(below);
        super::add_text(host, tree, "proc/net/route", default_routes(&names));
    }
}

/// The first processor's lines that say what kind of machine it is.
fn processor(cpuinfo: &str) -> String {
    const KEPT: &str = "vendor_id,model name,flags,Features,CPU implementer";
    let kept = |line: &&str| {
        let key = line.split_once(':').map(|(key, _)| key.trim());
        key.is_some_and(|key| KEPT.split(',').any(|kept| kept == key))
    };
    (cpuinfo.lines())
        .take_while(|line| !line.trim().is_empty())
        .filter(kept)
        .fold(String::new(), |text, line| text + line + "\n")
}

/// A routing table that says no more than which interfaces have a default route.
fn default_routes(names: &BTreeSet<String>) -> String {
    let mut text = String::from("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n");
    for name in names {
        let _ = writeln!(text, "{name}\t00000000\t00000000\t0003\t0\t0\t0\t00000000");
    }
    text
}
