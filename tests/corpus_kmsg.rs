//! Kernel-log lines with labels, line by line through `selvage kmsg`'s code: the project's own, written
//! from the drivers' format strings, and the labelled lines in `$SELVAGE_CORPUS/kmsg.jsonl` where that
//! variable is set.

#![allow(clippy::disallowed_methods)] // reads the corpus
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs
)]

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

const FIELDS: [&str; 6] = ["event", "xid", "pci", "pid", "process", "device"];

/// What `selvage kmsg -o json` prints for one input; null fields and `none` where it prints nothing.
fn decoded(line: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, line).unwrap();
    let mut out = Vec::new();
    selvage::cli::kmsg::run(&[path], true, &mut out).unwrap();
    String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn every_labelled_line() {
    let Some(folder) = std::env::var_os("SELVAGE_CORPUS") else {
        eprintln!("skipped: SELVAGE_CORPUS is not set");
        return;
    };
    let path = PathBuf::from(folder).join("kmsg.jsonl");
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("SELVAGE_CORPUS is set, but {}: {e}", path.display()));
    let mut wrong = Vec::new();
    let mut compared = 0;
    for row in text.lines().filter(|l| !l.trim().is_empty()) {
        let row: Value = serde_json::from_str(row).unwrap();
        let note = row["note"].as_str().unwrap_or_default();
        if note.contains("debatable") {
            continue;
        }
        compared += 1;
        let line = row["line"].as_str().unwrap();
        let got = decoded(line);
        let nothing = Value::Null;
        let first = got.first().unwrap_or(&nothing);
        for field in FIELDS {
            let have = match (field, got.is_empty()) {
                ("event", true) => Value::from("none"),
                _ => first[field].clone(),
            };
            if have != row[field] {
                wrong.push(format!(
                    "{} {field}: got {have}, label {} in {line}",
                    row["id"], row[field]
                ));
            }
        }
        if got.len() > 1 {
            wrong.push(format!("{}: {} events in {line}", row["id"], got.len()));
        }
        if let Some(e) = got.first()
            && e["line"] != row["line"]
        {
            wrong.push(format!("{}: line differs: {}", row["id"], e["line"]));
        }
    }
    assert!(compared > 0, "no lines in {}", path.display());
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// One line with its labels: event, xid, pci, pid, process, device.
type Row = (
    &'static str,
    &'static str,
    Option<u32>,
    Option<&'static str>,
    Option<u32>,
    Option<&'static str>,
    Option<&'static str>,
);

/// Each row follows a format string of the driver named above it.
#[rustfmt::skip]
const OWN: &[Row] = &[
    // NVIDIA's open kernel modules, nvidia.ko: "NVRM: Xid (PCI:%04x:%02x:%02x%s): %d, pid=%s, name=%s, …".
    ("[ 812.004211] NVRM: Xid (PCI:0000:4e:00): 79, pid=4021, name=trainer, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), Some(4021), Some("trainer"), None),
    ("NVRM: Xid (PCI:0000:4e:00): 31, pid=77, name=python3, Ch 00000010, intr 00000000. MMU Fault", "xid", Some(31), Some("0000:4e:00"), Some(77), Some("python3"), None),
    ("NVRM: Xid (PCI:0000:4e:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x1) marked for remapping", "xid", Some(63), Some("0000:4e:00"), None, None, None),
    ("NVRM: Xid (PCI:0000:4e:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "xid", Some(154), Some("0000:4e:00"), None, None, None),
    ("NVRM: Xid (PCI:0000:4e:00 GPU-I:02): 94, pid=9, name=a.out, Contained: SM (0x1).", "xid", Some(94), Some("0000:4e:00"), Some(9), Some("a.out"), None),
    ("NVRM: Xid (PCI:0009:01:00): 149, pid=3, name=a, NETIR_LINK_EVT  Fatal   XC0 i0 Link 07 (0x1 0x2)", "xid", Some(149), Some("0009:01:00"), Some(3), Some("a"), None),
    ("NVRM: GPU 0000:4e:00.0: RmInitAdapter failed! (0x24:0x72:1568)", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build", "none", None, None, None, None, None),
    // nvidia-nvswitch: "SXid (PCI:" NVLINK_PCI_DEV_FMT "): %05d, Fatal|Non-fatal, …".
    ("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid", None, Some("0000:05:00"), None, None, None),
    ("nvidia-nvswitch0: open (major=510)", "none", None, None, None, None, None),
    // nvidia-peermem: peerclient and nv_mem callbacks; nvidia-fs: nvfs_err.
    ("nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing", "peermem", None, None, None, None, None),
    ("nvidia_fs: Unknown symbol nvme_v1_register_nvfs_dma_ops (err -2)", "gds", None, None, None, None, None),
    // mlx5_core: en_main.c, events.c, health.c, cmd.c.
    ("mlx5_core 0000:53:00.0 eth0: Link down", "nic_link_down", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0 eth0: Link up", "nic_link_up", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Port module event: module 0, Cable unplugged", "nic_cable_unplugged", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Port module event: module 0, Cable plugged", "nic_cable_plugged", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Port module event[error]: module 0, Cable error, High Temperature", "nic_temperature", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded", "nic_power", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_health_try_recover:335:(pid 17): health recovery succeeded", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: wait_func:1151:(pid 9): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: firmware version: 28.39.1002", "none", None, None, None, None, None),
    // bnxt_en and efa in their own words; ib_core's line for any RDMA device.
    ("bnxt_en 0000:1a:00.0 ens2np0: NIC Link is Down", "nic_link_down", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 ens2np0: Firmware not responding, status: 0x8006", "nic_health", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    // drivers/pci/pcie/aer.c and dpc.c: the port reports, the message names the device that erred.
    ("pcieport 0000:16:01.0: AER: Correctable error message received from 0000:17:00.1", "pcie_aer", None, Some("0000:17:00"), None, None, Some("0000:17:00.1")),
    ("mlx5_core 0000:53:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)", "pcie_aer", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("pcieport 0000:16:01.0: AER: device recovery successful", "none", None, None, None, None, None),
    // Text that only quotes a kernel line, and records that user space wrote.
    ("healthd[12]: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("12,1,1,-;NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("nvme nvme0: I/O 12 QID 3 timeout, aborting", "none", None, None, None, None, None),
];

#[test]
fn every_line_of_our_own() {
    for (line, event, xid, pci, pid, process, device) in OWN {
        let got = decoded(line);
        assert!(got.len() <= 1, "{} events in {line}", got.len());
        let Some(got) = got.first() else {
            assert_eq!(*event, "none", "no event in {line}");
            continue;
        };
        let want = serde_json::json!({
            "event": event, "xid": xid, "pci": pci, "pid": pid, "process": process,
            "device": device, "line": line,
        });
        assert_eq!(*got, want, "{line}");
    }
}
