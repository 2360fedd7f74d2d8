//! Classifies warnings, and the few INFO lines about failures, by their words.

use crate::observe::nccl::{Event, Failure};
use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::LazyLock;

/// Words that must all be in a message, and the failure that they show. The first match counts.
type Row = (&'static [&'static str], Failure);

const ROWS: &[Row] = &[
    // Verbs do not start.
    (&["Failed to open libibverbs"], Failure::LibibverbsMissing),
    (&["Unable to open device"], Failure::OpenDevice),
    (&["ibv_open_device failed"], Failure::OpenDevice),
    (&["No IP interface found"], Failure::Ifname),
    // The limit on locked memory; versions before 2.18 print no reason.
    (&["ibv_reg_mr", "annot allocate memory"], Failure::Memlock),
    (
        &["ibv_create_cq", "annot allocate memory"],
        Failure::Memlock,
    ),
    (
        &["ibv_create_qp", "annot allocate memory"],
        Failure::Memlock,
    ),
    (&["ibv_create_qp failed with"], Failure::QueuePair),
    (&["ibv_create_cq failed with"], Failure::QueuePair),
    (&["ibv_create_qp failed"], Failure::Memlock),
    (&["ibv_create_cq failed"], Failure::Memlock),
    // EFAULT: the memory is a GPU's, and no kernel module handles that.
    (&["ibv_reg_mr", "Bad address"], Failure::Dmabuf),
    (&["ibv_reg_mr", "failed"], Failure::Memlock),
    (&["Unable to register memory", "RC: 12"], Failure::Memlock),
    (
        &["Unable to register memory", "annot allocate"],
        Failure::Memlock,
    ),
    (&["ibv_reg_dmabuf_mr", "failed"], Failure::Dmabuf),
    // RoCE addresses.
    (&["GID index"], Failure::GidIndex),
    (&["ibv_query_gid"], Failure::GidIndex),
    (&["ibv_modify_qp", "failed"], Failure::GidIndex),
    (&["ibv_create_qp"], Failure::QueuePair),
    // While the job runs.
    (&["local catastrophic error"], Failure::DeviceFatal),
    (&["sync event", "device fatal"], Failure::DeviceFatal),
    (&["port error"], Failure::PortDown),
    (&["Got completion"], Failure::IbError),
    (&["async fatal event"], Failure::IbError),
    (&["Got async error event"], Failure::IbError),
    (&["sync event", "error"], Failure::IbError),
    (&["encountered a fatal error"], Failure::IbError),
    // Shared memory.
    (&["posix_fallocate failed"], Failure::Shm),
    (&["failed to extend /dev/shm"], Failure::Shm),
    (&["shared memory segment"], Failure::Shm),
    (&["/dev/shm", "No space left"], Failure::Shm),
    // Plugins and the choice of a network.
    (&["aws-ofi-nccl initialization failed"], Failure::PluginInit),
    (
        &["Failed to initialize any NET plugin"],
        Failure::NetworkMissing,
    ),
    (&["Error: network ", " not found"], Failure::NetworkMissing),
    (&["NET/OFI", "failed"], Failure::PluginInit),
    (&["Only EFA provider is supported"], Failure::PluginInit),
    (
        &["Could not find any optimal provider"],
        Failure::PluginInit,
    ),
    // Bootstrap.
    (&["no socket interface found"], Failure::Ifname),
    (&["neither AF_INET"], Failure::Ifname),
    (&["NCCL_OOB_NET_IFNAME"], Failure::Ifname),
    (&["wrong magic"], Failure::StrayClient),
    (&["wrong type"], Failure::StrayClient),
    (&["Mismatched NCCL version"], Failure::VersionMismatch),
    (&["Bootstrap Root", "mismatch"], Failure::VersionMismatch),
    (
        &["Bootstrap Root", "already checked in"],
        Failure::Bootstrap,
    ),
    // TCP.
    (&["Connection refused"], Failure::ConnectRefused),
    (&["onnect to", "failed"], Failure::ConnectRefused),
    (&["timed out"], Failure::ConnectRefused),
    (&["No route to host"], Failure::ConnectRefused),
    (&["onnection closed by"], Failure::PeerReset),
    (&["Connection reset"], Failure::PeerReset),
    (&["Broken pipe"], Failure::PeerReset),
    // Not the fabric.
    (&["Duplicate GPU detected"], Failure::DuplicateGpu),
    (&["Cuda failure"], Failure::Cuda),
    (&["nvml"], Failure::Cuda),
    (&["HIP failure"], Failure::Cuda),
    (&["iommu=pt"], Failure::Iommu),
];

/// Warnings that are harmless to the job.
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

/// Errors passed on from another rank or thread, whose root an earlier line shows.
const SECONDARY: &[&str] = &[
    "Proxy Call to rank",
    "[Proxy Service",
    "[Service thread]",
    "Socket recv failed",
    "Accept failed",
];

/// Classifies a WARN.
pub(super) fn warning(text: &str) -> Event<'_> {
    if HARMLESS.iter().any(|words| text.contains(words)) {
        return Event::Plain;
    }
    if SECONDARY.iter().any(|words| text.starts_with(words)) && !text.contains("refused") {
        return Event::Failure(Failure::Secondary);
    }
    Event::Failure(row(text).unwrap_or(Failure::Other))
}

/// Classifies an INFO that is not otherwise known: some versions report failures without a warning.
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
    let failure = FINDER.as_ref().is_some_and(|words| words.is_match(text));
    failure.then(|| row(text)).flatten().map(Event::Failure)
}

fn row(text: &str) -> Option<Failure> {
    let fits = |(words, _): &&Row| words.iter().all(|word| text.contains(word));
    ROWS.iter().find(fits).map(|(_, failure)| *failure)
}
