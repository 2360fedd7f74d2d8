//! `selvage capture`: saves what the sources read on this node as a tree of files, to attach to a
//! report and replay with `--host-root`.
//!
//! Every source is read once by the agent's own sampler, from a host that records what is opened
//! ([`crate::host::recording`]); what answered with an errno is listed in
//! [`ERRNO_FILE`]; what a tree cannot hold (ethtool, DCB) lies below `selvage/`. Left out are
//! hardware addresses of interfaces, routes but the default ones, kernel parameters but those about
//! the IOMMU, and log lines of user space. GIDs stay: they hold the ports' addresses.
//!
//! [`ERRNO_FILE`]: crate::host::ERRNO_FILE

mod logs;
mod privacy;
mod write;

use crate::clock::Clock;
use crate::config::Config;
use crate::host::Host;
use crate::host::recording::{Recorded, Recording, Stored};
use crate::observe::{Reading, Snapshot};
use crate::sampler::Sampler;
use crate::source::{dot1x, ethtool, machine, rdma_port, replay, tree};
use crate::units::PortKey;
use nix::errno::Errno;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::{path::Path, sync::Arc};

/// What a capture holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Files that were written.
    pub files: usize,
    /// Symbolic links that were made.
    pub links: usize,
    /// Paths that answered with an errno.
    pub errnos: usize,
    /// Bytes in the files.
    pub bytes: u64,
    /// Entries left out because a bound was reached.
    pub left_out: usize,
    /// Entries that could not be saved, in the system's words; bounded.
    pub troubles: Vec<String>,
}

/// Saves what the sources read below `host`'s root into `out`, which must be new or empty. `config`
/// excludes devices and sets the deadline of a read; counters of `restricted` ports stay closed. A
/// file that cannot be read or written does not stop the others.
///
/// # Errors
/// Only if there is nothing to save, or `out` cannot be used at all.
pub async fn capture(
    host: &Host,
    out: &Path,
    mut config: Config,
    restricted: Vec<PortKey>,
) -> Result<Summary, String> {
    let there = |path: &&str| (tree::list(host, path).value()).is_some_and(|all| !all.is_empty());
    let kernel = ["sys/class", "sys/bus", "sys/devices", "proc"];
    if !kernel.iter().any(there) {
        let root = host.root().display();
        return Err(format!(
            "{root} holds neither /sys nor /proc of a node: there is nothing to save"
        ));
    }
    prepare(out)?;
    let name = format!("{}\n", config.agent.node_name);
    let recording = Arc::<Recording>::default();
    let recorded = Arc::new(host.clone().recorded_by(Arc::clone(&recording)));
    let clock = Clock::starting_at(crate::clock::monotonic());
    config.counters.full = true;
    let mut sampler = Sampler::new(Arc::clone(&recorded), config, clock, None, restricted);
    let machine = tokio::task::spawn_blocking(move || {
        tree::list(&recorded, "sys/class");
        let _ = (machine::boot_id(&recorded), machine::host_name(&recorded));
        // By it, those who judge the capture know how old the kernel log's records are.
        let _ = machine::uptime(&recorded);
    });
    while !sampler.sampled_once() {
        sampler.step().await;
    }
    // One that hangs is listed as such.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(5), machine).await;
    let restricted = sampler.restricted();
    let mut tree = recording.recorded();
    let snapshot = sampler.snapshot(None);
    privacy::scrub(host, snapshot, &mut tree);
    refuse_counters(host, snapshot, &restricted, &mut tree);
    add_answers(host, snapshot, &mut tree);
    // Of a running kernel, the name comes from uname(2).
    if host.is_live() {
        add_text(host, &mut tree, "proc/sys/kernel/hostname", name);
    }
    if let Some(log) = logs::kernel(host) {
        add_text(host, &mut tree, "dev/kmsg", log);
    }
    write::write(out, tree)
}

/// The directory must exist and be empty: files of someone else, or of an earlier capture, would be
/// mixed in.
fn prepare(out: &Path) -> Result<(), String> {
    std::fs::create_dir_all(out).map_err(|error| unwritable(out, &error))?;
    match tree::list(&Host::new(out), ".") {
        Reading::Value(names) if names.is_empty() => Ok(()),
        Reading::Value(_) => Err(format!(
            "{} is not empty; name a new or empty directory",
            out.display()
        )),
        _ => Err(unwritable(out, &ErrorKind::PermissionDenied.into())),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Adds a file of the capture's own, where the sources would find it: `proc/net` is a link.
fn add_text(host: &Host, tree: &mut Recorded, path: impl AsRef<Path>, text: String) {
    let path = path.as_ref();
    let real = || {
        let parent = tree::canonical(host, path.parent()?)?;
        Some(parent.join(path.file_name()?))
    };
    let real = real().unwrap_or_else(|| path.to_path_buf());
    (tree.entries).insert(real, Stored::File(Some(text.into_bytes())));
}

/// Counters that a restricted function refuses: a replay meets the same answer at the same files.
fn refuse_counters(host: &Host, snapshot: &Snapshot, restricted: &[PortKey], tree: &mut Recorded) {
    let devices = snapshot.devices.iter();
    for device in devices.flat_map(|devices| devices.value.iter()) {
        for port in &device.ports {
            if !restricted.contains(&device.port_key(port.number)) {
                continue;
            }
            let dir = rdma_port::port_dir(&device.name, port.number).join("counters");
            for name in tree::list(host, &dir).value().into_iter().flatten() {
                let path = dir.join(name);
                if let Some(real) = tree::canonical(host, &path) {
                    tree.entries.entry(real).or_insert(Stored::File(None));
                    tree.errnos.entry(path).or_insert(Errno::EINVAL as i32);
                }
            }
        }
    }
}

/// Answers that do not come from kernel files: ethtool, DCB, virtual functions, supplicants.
fn add_answers(host: &Host, snapshot: &Snapshot, tree: &mut Recorded) {
    for (name, facts) in &snapshot.dot1x {
        // Words without addresses, live or not.
        if let Reading::Value(facts) = &facts.value {
            add_text(host, tree, dot1x::path(name), dot1x::text(facts));
        }
    }
    if !host.is_live() {
        return;
    }
    for name in snapshot.ethtool.keys() {
        let Ok((driver, statistics)) = ethtool::dump(name) else {
            continue;
        };
        let mut text = format!("driver: {driver}\n");
        for (statistic, value) in &statistics {
            let _ = writeln!(text, "{statistic}: {value}");
        }
        if !statistics.is_empty() {
            add_text(host, tree, replay::ethtool_path(name), text);
        }
    }
    let dcb = snapshot.dcb.iter().filter_map(|(name, facts)| {
        let facts = facts.value.value()?;
        Some(("dcb", name, serde_json::to_string(facts).ok()?))
    });
    let links = snapshot.vf_links.iter().filter_map(|(name, links)| {
        let links = links.value.value()?;
        Some(("vf_links", name, serde_json::to_string(links).ok()?))
    });
    for (what, name, text) in dcb.chain(links) {
        add_text(host, tree, replay::json_path(what, name), text);
    }
}

#[cfg(test)]
mod tests;
