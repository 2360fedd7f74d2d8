//! Warnings, and the few INFO lines that tell of trouble, by their words.

use crate::observe::nccl::{Event, Trouble};
use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::LazyLock;

/// What has to be in a message, all of it, and what it then is. The first that fits counts.
type Row = (&'static [&'static str], Trouble);

const ROWS: &[Row] = &[
    // Verbs that never come up.
    (&["Failed to open libibverbs"], Trouble::LibibverbsMissing),
    (&["Unable to open device"], Trouble::OpenDevice),
    (&["ibv_open_device failed"], Trouble::OpenDevice),
    (&["No IP interface found"], Trouble::Ifname),
    // The limit on locked memory; versions before 2.18 tell no reason.
    (&["ibv_reg_mr", "annot allocate memory"], Trouble::Memlock),
    (
        &["ibv_create_cq", "annot allocate memory"],
        Trouble::Memlock,
    ),
    (
        &["ibv_create_qp", "annot allocate memory"],
        Trouble::Memlock,
    ),
    (&["ibv_create_qp failed with"], Trouble::QueuePair),
    (&["ibv_create_cq failed with"], Trouble::QueuePair),
    (&["ibv_create_qp failed"], Trouble::Memlock),
    (&["ibv_create_cq failed"], Trouble::Memlock),
    // EFAULT: the memory is a GPU's, and no module takes care of that.
    (&["ibv_reg_mr", "Bad address"], Trouble::Dmabuf),
    (&["ibv_reg_mr", "failed"], Trouble::Memlock),
    (&["Unable to register memory", "RC: 12"], Trouble::Memlock),
    (
        &["Unable to register memory", "annot allocate"],
        Trouble::Memlock,
    ),
    (&["ibv_reg_dmabuf_mr", "failed"], Trouble::Dmabuf),
    // Addresses of RoCE.
    (&["GID index"], Trouble::GidIndex),
    (&["ibv_query_gid"], Trouble::GidIndex),
    (&["ibv_modify_qp", "failed"], Trouble::GidIndex),
    (&["ibv_create_qp"], Trouble::QueuePair),
    // A running job.
    (&["local catastrophic error"], Trouble::DeviceFatal),
    (&["sync event", "device fatal"], Trouble::DeviceFatal),
    (&["port error"], Trouble::PortDown),
    (&["Got completion"], Trouble::IbError),
    (&["async fatal event"], Trouble::IbError),
    (&["Got async error event"], Trouble::IbError),
    (&["sync event", "error"], Trouble::IbError),
    (&["encountered a fatal error"], Trouble::IbError),
    // Shared memory.
    (&["posix_fallocate failed"], Trouble::Shm),
    (&["failed to extend /dev/shm"], Trouble::Shm),
    (&["shared memory segment"], Trouble::Shm),
    (&["/dev/shm", "No space left"], Trouble::Shm),
    // Plugins and choice.
    (&["aws-ofi-nccl initialization failed"], Trouble::PluginInit),
    (
        &["Failed to initialize any NET plugin"],
        Trouble::NetworkMissing,
    ),
    (&["Error: network ", " not found"], Trouble::NetworkMissing),
    (&["NET/OFI", "failed"], Trouble::PluginInit),
    (&["Only EFA provider is supported"], Trouble::PluginInit),
    (
        &["Could not find any optimal provider"],
        Trouble::PluginInit,
    ),
    // Bootstrap.
    (&["no socket interface found"], Trouble::Ifname),
    (&["neither AF_INET"], Trouble::Ifname),
    (&["NCCL_OOB_NET_IFNAME"], Trouble::Ifname),
    (&["wrong magic"], Trouble::StrayClient),
    (&["wrong type"], Trouble::StrayClient),
    (&["Mismatched NCCL version"], Trouble::VersionMismatch),
    (&["Bootstrap Root", "mismatch"], Trouble::VersionMismatch),
    (
        &["Bootstrap Root", "already checked in"],
        Trouble::Bootstrap,
    ),
    // TCP.
    (&["Connection refused"], Trouble::ConnectRefused),
    (&["onnect to", "failed"], Trouble::ConnectRefused),
    (&["timed out"], Trouble::ConnectRefused),
    (&["No route to host"], Trouble::ConnectRefused),
    (&["onnection closed by"], Trouble::PeerReset),
    (&["Connection reset"], Trouble::PeerReset),
    (&["Broken pipe"], Trouble::PeerReset),
    // Not the fabric.
    (&["Duplicate GPU detected"], Trouble::DuplicateGpu),
    (&["Cuda failure"], Trouble::Cuda),
    (&["nvml"], Trouble::Cuda),
    (&["HIP failure"], Trouble::Cuda),
    (&["iommu=pt"], Trouble::Iommu),
];

/// Warnings that are no trouble of the job's fabric.
const HARMLESS: &[&str] = &[
    "client reregistration",
    "GID table change",
    "port active",
    "LID change",
    "SM change",
    "NUMA auto balancing",
    "ras/",
    "dlvsym failed",
    "mlx5dv symbols",
];

/// Passed on from elsewhere: the root of it is told somewhere before.
const SECONDARY: &[&str] = &[
    "Proxy Call to rank",
    "[Proxy Service",
    "[Service thread]",
    "Socket recv failed",
    "Accept failed",
];

/// A WARN.
pub(super) fn warning(text: &str) -> Event<'_> {
    if HARMLESS.iter().any(|words| text.contains(words)) {
        return Event::Plain;
    }
    if SECONDARY.iter().any(|words| text.starts_with(words)) && !text.contains("refused") {
        return Event::Trouble(Trouble::Secondary);
    }
    Event::Trouble(row(text).unwrap_or(Trouble::Other))
}

/// An INFO that says nothing else: some versions tell of trouble without warning.
pub(super) fn info(text: &str) -> Option<Event<'_>> {
    const AS_INFO: [&str; 7] = [
        "Failed to open libibverbs",
        "Unable to open device",
        "ibv_open_device failed",
        "No IP interface found",
        "Error: network ",
        "ibv_reg_dmabuf_mr failed",
        "failed to extend /dev/shm",
    ];
    static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let kind = MatchKind::LeftmostFirst;
        AhoCorasick::builder().match_kind(kind).build(AS_INFO).ok()
    });
    let trouble = FINDER.as_ref().is_some_and(|words| words.is_match(text));
    trouble.then(|| row(text)).flatten().map(Event::Trouble)
}

fn row(text: &str) -> Option<Trouble> {
    let fits = |(words, _): &&Row| words.iter().all(|word| text.contains(word));
    ROWS.iter().find(fits).map(|(_, trouble)| *trouble)
}
