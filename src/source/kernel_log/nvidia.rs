//! NVIDIA's other messages: bring-up failures (`NVRM:`, `nvidia:`), peer memory, GPUDirect Storage.

use crate::observe::kernel::{EventKind, KernelEvent};

use super::text::{Bdf, contains_nocase, take_u32};
use super::xid;

/// Decodes what follows `NVRM: `: Xids and bring-up failures.
pub fn nvrm(after: &str, message: &str) -> Option<KernelEvent> {
    if let Some(rest) = after.strip_prefix("Xid") {
        return xid::xid(rest, message);
    }
    if let Some(rest) = after.strip_prefix("The NVIDIA GPU ") {
        return lost_at_probe(rest, message);
    }
    let (gpu, body) = match after.strip_prefix("GPU ").and_then(Bdf::take) {
        Some((bdf, rest)) => (Some(bdf), rest.strip_prefix(": ")?),
        None => (None, without_gpu_index(after)),
    };
    if !bring_up_failure(body) {
        return None;
    }
    let mut event = KernelEvent::new(EventKind::Driver, message);
    event.pci = gpu.map(Bdf::slot);
    Some(event)
}

/// Newer drivers put the GPU's index in front: `GPU4 knvlink…`, `GPU0: …`.
fn without_gpu_index(s: &str) -> &str {
    s.strip_prefix("GPU")
        .and_then(take_u32)
        .and_then(|(_, rest)| rest.strip_prefix(": ").or(rest.strip_prefix(' ')))
        .unwrap_or(s)
}

/// One printk of several lines: which GPU, its PCI id, and what is wrong with it. rsyslog writes
/// the newline as `#012`.
fn lost_at_probe(rest: &str, message: &str) -> Option<KernelEvent> {
    if !probe_verdict(rest) {
        return None;
    }
    let mut event = KernelEvent::new(EventKind::Driver, message);
    event.pci = Bdf::take(rest).map(|(bdf, _)| bdf.slot());
    Some(event)
}

/// The GPU that the first line of such a report names, when the line stands alone.
#[must_use]
pub fn probe_report_start(message: &str) -> Option<String> {
    let rest = message.strip_prefix("NVRM: The NVIDIA GPU ")?;
    let (bdf, _) = Bdf::take(rest)?;
    (!probe_verdict(rest)).then(|| bdf.slot())
}

/// Whether a later line of such a report tells the fault.
#[must_use]
pub fn probe_report_verdict(message: &str) -> bool {
    message
        .trim_start()
        .strip_prefix("NVRM: ")
        .is_some_and(probe_verdict)
}

/// The endings of the report.
fn probe_verdict(s: &str) -> bool {
    [
        "fallen off the bus and is not responding to commands",
        "is not supported by",
        "requires use of the NVIDIA open kernel modules",
    ]
    .iter()
    .any(|end| s.contains(end))
}

/// Failures that end in a GPU, or a GPU's links, not coming up. What leads to them (assertions,
/// GSP boot traces) prints before and is left out.
fn bring_up_failure(body: &str) -> bool {
    const STARTS: [&str; 10] = [
        "RmInitAdapter failed",
        "rm_init_adapter failed",
        "rm_init_adapter() failed",
        "The NVIDIA probe routine failed",
        "The NVIDIA probe routine was not called",
        "None of the NVIDIA ",
        "No NVIDIA ",
        "NVIDIA init module failed",
        "Failed to copy vbios",
        "This PCI I/O region assigned to your NVIDIA device is invalid",
    ];
    if STARTS.iter().any(|s| body.starts_with(s)) || probe_verdict(body) {
        return true;
    }
    let fails = || contains_nocase(body, "fail") || body.contains("Cannot ");
    if body.starts_with("RmInitAdapter: ") {
        return fails();
    }
    (body.starts_with("knvlink") || body.starts_with("nvlink")) && fails()
}

/// Messages that are not faults: a module's licence and signature taint the kernel.
fn taint(body: &str) -> bool {
    contains_nocase(body, "taint") || body.contains("GPL-only symbols")
}

/// A module that the loader refused.
pub fn symbol_failure(body: &str) -> bool {
    body.starts_with("Unknown symbol ") || body.starts_with("disagrees about version of symbol ")
}

/// Words by which a module reports a fault of its own.
fn complains(body: &str) -> bool {
    const WORDS: [&str; 8] = [
        "error",
        "fail",
        "unable",
        "cannot",
        "could not",
        "invalid",
        "mismatch",
        "timed out",
    ];
    symbol_failure(body) || WORDS.iter().any(|w| contains_nocase(body, w))
}

/// `nvidia-peermem func:line ERROR …`, `nvidia_peermem: …`, `nv_peer_mem: …`; `nvidia_fs: …`.
pub fn module(message: &str) -> Option<KernelEvent> {
    const MODULES: [(&str, EventKind); 6] = [
        ("nvidia-peermem", EventKind::Peermem),
        ("nvidia_peermem", EventKind::Peermem),
        ("nv_peer_mem", EventKind::Peermem),
        ("nvidia-fs", EventKind::Gds),
        ("nvidia_fs", EventKind::Gds),
        ("nvfs", EventKind::Gds),
    ];
    let (kind, rest) = MODULES
        .iter()
        .find_map(|(name, kind)| Some((*kind, message.strip_prefix(name)?)))?;
    let body = match rest.strip_prefix(':') {
        Some(body) => body.trim_start(),
        // The peer-memory module prints its name, a blank, and function:line.
        None => rest
            .strip_prefix(' ')
            .filter(|b| !b.starts_with(' ') && kind == EventKind::Peermem)?,
    };
    (!taint(body) && complains(body)).then(|| KernelEvent::new(kind, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nvrm_kind(s: &str) -> Option<(EventKind, Option<String>)> {
        nvrm(s.strip_prefix("NVRM: ")?, s).map(|e| (e.kind, e.pci))
    }

    #[test]
    fn bring_up() {
        let driver = |pci: Option<&str>| Some((EventKind::Driver, pci.map(str::to_owned)));
        for (line, want) in [
            (
                "NVRM: GPU 0000:0A:00.0: RmInitAdapter failed! (0x24:0x72:1568)",
                driver(Some("0000:0a:00")),
            ),
            (
                "NVRM: GPU 0000:0a:00.0: rm_init_adapter failed, device minor number 5",
                driver(Some("0000:0a:00")),
            ),
            (
                "NVRM: RmInitAdapter failed! (0x26:0xffff:1375)",
                driver(None),
            ),
            (
                "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM",
                driver(None),
            ),
            (
                "NVRM: The NVIDIA probe routine failed for 1 device(s).",
                driver(None),
            ),
            (
                "NVRM: None of the NVIDIA devices were initialized.",
                driver(None),
            ),
            (
                "NVRM: fallen off the bus and is not responding to commands.",
                driver(None),
            ),
            (
                "NVRM: knvlinkSetup_GH100: Failed to train links",
                driver(None),
            ),
            (
                "NVRM: GPU4 knvlinkSetup_GH100: Failed to train links",
                driver(None),
            ),
            ("NVRM: GPU4 RPC history (CPU -> GSP):", None),
            (
                "NVRM: The NVIDIA GPU 0000:5d:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.",
                driver(Some("0000:5d:00")),
            ),
            (
                "NVRM: The NVIDIA GPU 0000:5d:00.0 (PCI ID: 10de:2901)#012NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
                driver(Some("0000:5d:00")),
            ),
            ("NVRM: The NVIDIA GPU 0000:5d:00.0", None),
            (
                "NVRM: (PCI ID: 10de:2330) installed in this system has",
                None,
            ),
            ("NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.", None),
            ("NVRM: GPU 0000:91:00.0: GPU serial number is 1.", None),
            ("NVRM: GPU at 0000:91:00.0 has fallen off the bus.", None),
            (
                "NVRM: GPU at PCI:0000:91:00: GPU-0a5579eb-2b91-8072-ac7a-a7c2952dfe02",
                None,
            ),
            (
                "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
                None,
            ),
            (
                "NVRM: nvAssertOkFailedNoLog: Assertion failed: Generic Error",
                None,
            ),
            (
                "NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!",
                None,
            ),
            (
                "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.144.03",
                None,
            ),
            (
                "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00",
                None,
            ),
        ] {
            assert_eq!(nvrm_kind(line), want, "{line}");
        }
    }

    #[test]
    fn modules() {
        for (line, want) in [
            (
                "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context",
                Some(EventKind::Peermem),
            ),
            (
                "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
                Some(EventKind::Peermem),
            ),
            (
                "nv_peer_mem: disagrees about version of symbol nvidia_p2p_get_pages",
                Some(EventKind::Peermem),
            ),
            (
                "nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)",
                Some(EventKind::Gds),
            ),
            (
                "nvidia-fs: nvfs_mgroup: failed to pin pages",
                Some(EventKind::Gds),
            ),
            (
                "nvidia_fs: module using GPL-only symbols uses symbols from proprietary module nvidia.",
                None,
            ),
            (
                "nvidia_fs: module verification failed: signature and/or required key missing - tainting kernel",
                None,
            ),
            (
                "nvidia_peermem: module verification failed: signature and/or required key missing - tainting kernel",
                None,
            ),
            (
                "nvidia_fs: registered correctly with major number 501",
                None,
            ),
            ("nvidia_peermem         16384  0", None),
            ("nvidia_peermem", None),
        ] {
            assert_eq!(module(line).map(|e| e.kind), want, "{line}");
        }
    }
}
