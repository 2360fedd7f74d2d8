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
use std::io::Write;
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
        // Written past the capture of libtest, which would hide it.
        let skipped = "skipped: corpus_kmsg::every_labelled_line: SELVAGE_CORPUS is not set";
        let _ = writeln!(std::io::stderr(), "{skipped}");
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
    // Of an H200 under 580.159.04, by programs that read a wild address and that trapped.
    ("[   35.668506] NVRM: Xid (PCI:0000:00:06): 31, pid=734, name=xid31, channel 0x0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x7f00_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE", "xid", Some(31), Some("0000:00:06"), Some(734), Some("xid31"), None),
    ("[   35.999391] NVRM: Xid (PCI:0000:00:06): 43, pid=740, name=xid31, channel 0x0000000a", "xid", Some(43), Some("0000:00:06"), Some(740), Some("xid31"), None),
    ("[   35.668497] NVRM: GPU at PCI:0000:00:06: GPU-25d60d2d-46c4-ddce-3e10-72466be70c17", "none", None, None, None, None, None),
    ("[    1.626453] NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clearing it.", "none", None, None, None, None, None),
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
    // mlx5_core: links, also by an interface alone, of a subfunction and of the device that ib_core names.
    ("mlx5_core 0000:53:00.0 ens1f0np0: Link up", "nic_link_up", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0 ibp83s0: Link down", "nic_link_down", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core ens1f0np0: Link down", "nic_link_down", None, None, None, None, None),
    ("mlx5_core ens1f0np0: Link up", "nic_link_up", None, None, None, None, None),
    ("ens1f0np0: Link down", "nic_link_down", None, None, None, None, None),
    ("[  812.004211] rdma3: Link up", "nic_link_up", None, None, None, None, None),
    ("mlx5_core.sf mlx5_core.sf.4 enp83s0f0s88: Link up", "nic_link_up", None, None, None, None, None),
    ("bond0: Link down", "none", None, None, None, None, None),
    ("docker0: Link up", "none", None, None, None, None, None),
    ("ens1f0np0: link becomes ready", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0 ens1f0np0: renamed from eth0", "none", None, None, None, None, None),
    ("IPv6: ADDRCONF(NETDEV_CHANGE): ens1f0np0: link becomes ready", "none", None, None, None, None, None),
    ("mlx5_3: Port: 1 Link DOWN", "nic_link_down", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0 mlx5_3: Port: 1 Link INIT", "none", None, None, None, None, None),
    // mlx5_core main.c: PCI error recovery and starting; "%s Device state = %d pci_status: %d. Enter".
    ("mlx5_core 0000:53:00.0: mlx5_pci_err_detected Device state = 1 health sensors: 1 pci_status: 1. Enter, pci channel state = 2", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_err_detected Device state = 2 pci_status: 0. Exit, result = 3, need reset", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_err_detected Device state = 2 pci_status: 0. Exit, result = 4, disconnect", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_err_detected was called", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_slot_reset Device state = 2 pci_status: 0. Enter", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: wait vital counter value 0x16b5b after 1 iterations", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_slot_reset Device state = 2 pci_status: 1. Exit, err = 0, result = 5, recovered", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_slot_reset:1808:(pid 901): mlx5_pci_slot_reset: wait vital failed with error code: -110", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_slot_reset:1801:(pid 901): mlx5_pci_slot_reset: mlx5_pci_enable_device failed with error code: -5", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_resume Device state = 2 health sensors: 0 pci_status: 1. Enter, loading driver..", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_resume Device state = 1 health sensors: 0 pci_status: 1. Done, err = 0, device recovered", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_resume Device state = 2 health sensors: 1 pci_status: 1. Done, err = -5, device Failed", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: wait_fw_init:198:(pid 9): Waiting for FW initialization, timeout abort in 79s (0x80000000)", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: wait_fw_init:198:(pid 9): Waiting for FW pre-initialization, timeout abort in 100s (0xffffffff)", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: wait_fw_init:189:(pid 9): Firmware over 120000 MS in pre-initializing state, aborting", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: wait_fw_init:194:(pid 9): device is being removed, stop waiting for FW initialization", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: mlx5_function_enable:1165:(pid 9): enable hca failed", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_function_open:1230:(pid 9): set_hca_ctrl failed", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_function_open:1236:(pid 9): set_hca_cap failed", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: set_hca_cap:795:(pid 9): handle_hca_cap_roce failed", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_function_open:1248:(pid 9): init hca failed", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_load:1330:(pid 9): Failed to create EQs", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_load:1326:(pid 9): Failed to alloc IRQs", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_init_once:1050:(pid 9): query board id failed", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_init:910:(pid 9): Cannot enable PCI device, aborting", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_init:917:(pid 9): error requesting BARs, aborting", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_init:934:(pid 9): Failed mapping initialization segment, aborting", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: request_bar:230:(pid 9): Missing registers BAR, aborting", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: probe_one:1975:(pid 9): mlx5_pci_init failed with error code -12", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: probe_one:1982:(pid 9): mlx5_init_one failed with error code -110", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pci_resume:1850:(pid 9): mlx5_pci_resume: mlx5_load_one failed with error code: -5", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Rate limit: 127 rates are supported, range: 0Mbps to 195312Mbps", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: E-Switch: Total vports 2, per vport: max uc(128) max mc(2048)", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: mlx5e: IPSec ESP acceleration enabled", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link at 0000:52:00.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)", "none", None, None, None, None, None),
    // mlx5_core health.c, with the lines of one dump and of recovery.
    ("mlx5_core 0000:53:00.0: poll_health:478:(pid 0): Fatal error 1 detected", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: poll_health:801:(pid 0): device's health compromised", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: print_health_info:424:(pid 0): Health issue observed, unrecoverable hardware error, severity(3) ERROR:", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: print_health_info:424:(pid 0): Health issue observed, ICM fetch PCI data poisoned error, severity(3) ERROR:", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: print_health_info:421:(pid 0): synd 0x8: unrecoverable hardware error", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: print_health_info:421:(pid 0): synd 0x10: High temprature", "nic_temperature", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: print_health_info:428:(pid 0): assert_var[0] 0x00000001", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:430:(pid 0): assert_exit_ptr 0x20adbc50", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:432:(pid 0): assert_callra 0x20adbc9c", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:435:(pid 0): fw_ver 28.39.1002", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:437:(pid 0): time 1718000000", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:438:(pid 0): hw_id 0x00000218", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:439:(pid 0): rfr 0", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:440:(pid 0): severity 3 (ERROR)", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:441:(pid 0): irisc_index 3", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:443:(pid 0): ext_synd 0x8f7a", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: print_health_info:415:(pid 0): PCI slot is unavailable", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_health_try_recover:332:(pid 5553): handling bad device here", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_handle_bad_state:260:(pid 5553): Driver is in error state. Unloading", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_health_try_recover:338:(pid 5553): health recovery flow aborted, PCI reads still not working", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_health_try_recover:344:(pid 5553): starting health recovery flow", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_health_try_recover:350:(pid 5553): health recovery failed", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: enter_error_state:240:(pid 5553): NIC IFC still 7 after 4000ms.", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: mlx5_error_sw_reset:212:(pid 5553): FW requests reset, synd: 1", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: reset_fw_if_needed:150:(pid 5553): Issuing FW Reset", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_error_sw_reset:230:(pid 5553): NIC SW reset in progress", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_error_sw_reset:222:(pid 5553): PCI channel offline, stop waiting for NIC IFC", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    // mlx5_core fw_reset.c: a reset that the firmware or mlxfwreset asks for.
    ("mlx5_core 0000:53:00.0: mlx5_sync_reset_request_event:512:(pid 77): PCI Sync FW Update Reset Ack. Device reset is expected.", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_sync_reset_reload_work:200:(pid 77): reset reload flow aborted, PCI reads still not working", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_sync_reset_now_event:601:(pid 77): Sync Reset now. Device is going to reset.", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_sync_reset_unload_event:655:(pid 77): Sync Reset Unload. Function is forced down.", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_sync_pci_link_toggle:430:(pid 77): PCI link not ready (0x1013) after 30000 ms", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: PCI Link up", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Firmware responds to PCI config cycles again", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_sync_reset_timeout_event:700:(pid 77): FW sync reset timeout after 60 seconds", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    // mlx5_core cmd.c, events.c and en_main.c.
    ("mlx5_core 0000:53:00.0: wait_func:1211:(pid 3300): CREATE_QP(0x500) timeout. Will cause a leak of a command resource", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: cb_timeout_handler:868:(pid 12): cmd[5]: QUERY_VPORT_COUNTER(0x770) Async, timeout. Will cause a leak of a command resource", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: wait_func_handle_exec_timeout:1149:(pid 3300): cmd[0]: ACCESS_REG(0x805) No done completion", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: cmd_work_handler:1006:(pid 3300): QUERY_PAGES(0x107) timed out while waiting for a slot.", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: wait_func:1180:(pid 3300): QUERY_PAGES(0x107) canceled on out of queue timeout.", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: cmd_work_handler:1000:(pid 3300): failed to allocate command entry", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_cmd_out_err:838:(pid 3300): MODIFY_LAG(0x841) op_mod(0x0) failed, status bad parameter(0x3), syndrome (0x7d49cb), err(-22)", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: cmd_exec: MODIFY_LAG took 3 ms", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: Port module event: module 1, Cable unplugged", "nic_cable_unplugged", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_port_module_event:1131:(pid 0): Port module event: module 1, Cable plugged", "nic_cable_plugged", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Port module event[error]: module 0, Cable error, Bad or shorted cable/module", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Port module event[error]: module 0, Cable error, No EEPROM/retry timeout", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Port module event[error]: module 0, Cable error, Enforce part number list", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: Port module event[error]: module 0, Cable error, Long Range for non MLNX cable", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: temp_warn:196:(pid 0): High temperature on sensors with bit set 0 80", "nic_temperature", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pcie_event:301:(pid 10): Detected insufficient power on the PCIe slot (20W).", "nic_power", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0: mlx5_pcie_event:295:(pid 10): PCIe slot power capability was not advertised.", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0 ens1f0np0: TX timeout detected", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0 ens1f0np0: TX timeout on queue: 7, SQ: 0x1234, CQ: 0x588, SQ Cons: 0x1 SQ Prod: 0x9, usecs since last trans: 15400000", "nic_health", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("mlx5_core 0000:53:00.0 ens1f0np0: Error cqe on cqn 0x588, ci 0x1, qn 0x1234, opcode 0xd, syndrome 0x2, vendor syndrome 0x68", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0 ens1f0np0: Recovered 1 eqes on EQ 0x1c", "none", None, None, None, None, None),
    // The words of PCI's core for a device that no longer answers (drivers/pci/pci.c).
    ("mlx5_core 0000:53:00.0: Unable to change power state from D3cold to D0, device inaccessible", "driver", None, Some("0000:53:00"), None, None, Some("mlx5_core 0000:53:00.0")),
    ("nvidia 0000:4e:00.0: Unable to change power state from D3cold to D0, device inaccessible", "driver", None, Some("0000:4e:00"), None, None, Some("nvidia 0000:4e:00.0")),
    ("nvidia 0000:4e:00.0: can't change power state from D3cold to D0 (config space inaccessible)", "driver", None, Some("0000:4e:00"), None, None, Some("nvidia 0000:4e:00.0")),
    ("nvidia 0000:4e:00.0: not ready 65535ms after bus reset; giving up", "driver", None, Some("0000:4e:00"), None, None, Some("nvidia 0000:4e:00.0")),
    ("nvme 0000:4e:00.0: Unable to change power state from D3cold to D0, device inaccessible", "none", None, None, None, None, None),
    ("nvidia 0000:4e:00.0: vgaarb: VGA decodes changed: olddecodes=io+mem,decodes=none:owns=none", "none", None, None, None, None, None),
    ("nvidia 0000:4e:00.0: enabling device (0000 -> 0002)", "none", None, None, None, None, None),
    // NVIDIA's nvidia.ko: nv.c, nv-pci.c, osinit.c, osapi.c.
    ("NVRM: GPU 0000:4e:00.0: rm_init_adapter failed, device minor number 3", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: GPU 0000:4e:00.0: RmInitAdapter failed! (0x62:0xffff:2477)", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: RmInitAdapter: Cannot initialize GSP firmware RM", "driver", None, None, None, None, None),
    ("NVRM: RmFetchGspRmImages: No firmware image found", "driver", None, None, None, None, None),
    ("NVRM: GPU0 RmInitNvDevice failed, bailing out of RmInitAdapter", "driver", None, None, None, None, None),
    ("NVRM: GPU 0000:4e:00.0: GPU does not have the necessary power cables connected.", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: The NVIDIA GPU 0000:4e:00.0 (PCI ID: 10de:1db6)", "none", None, None, None, None, None),
    ("NVRM: The NVIDIA probe routine failed for 1 device(s).", "driver", None, None, None, None, None),
    ("NVRM: The NVIDIA probe routine was not called for 2 device(s).", "driver", None, None, None, None, None),
    ("NVRM: None of the NVIDIA devices were initialized.", "driver", None, None, None, None, None),
    ("NVRM: This can occur when a driver such as: ", "none", None, None, None, None, None),
    ("NVRM: No NVIDIA GPU found.", "driver", None, None, None, None, None),
    ("NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:", "driver", None, None, None, None, None),
    ("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:4e:00.0)", "none", None, None, None, None, None),
    ("NVRM: request_mem_region failed for 16M @ 0xa4000000. This can", "driver", None, None, None, None, None),
    ("NVRM: pci_enable_device failed, aborting", "driver", None, None, None, None, None),
    ("NVRM: Can't find an IRQ for your NVIDIA card!", "driver", None, None, None, None, None),
    ("NVRM: Please check your BIOS settings.", "none", None, None, None, None, None),
    ("NVRM: GPU 0000:4e:00.0: request_irq() failed (-22)", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: GPU 0000:4e:00.0: No interrupts of any type are available. Cannot use this GPU.", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: GPU 0000:4e:00.0: rm_init_private_state() failed!", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: ignoring the legacy GPU 0000:4e:00.0", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: Aborting probe for VF 0000:4e:00.4 since IOMMU is not present on the system.", "driver", None, Some("0000:4e:00"), None, None, None),
    ("NVRM: GPU 0000:4e:00.0: GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("NVRM: GPU 0000:4e:00.0: GPU serial number is 1655223010000.", "none", None, None, None, None, None),
    ("NVRM: GPU at PCI:0000:4e:00: GPU-4ad4f1d6-8b05-d1be-1eaf-3c4ae4c40b06", "none", None, None, None, None, None),
    ("NVRM: A GPU crash dump has been created. If possible, please run", "none", None, None, None, None, None),
    ("NVRM: GPU4 GSP RPC buffer contains function 76 (GSP_RM_CONTROL) and data 0x0000000020802a02 0x0000000000000008.", "none", None, None, None, None, None),
    ("NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359", "none", None, None, None, None, None),
    ("NVRM: nvAssertFailed: Assertion failed: 0 @ kern_bus_gm107.c:3080", "none", None, None, None, None, None),
    ("NVRM: Persistence mode is deprecated and will be removed in a future release. Please use nvidia-persistenced instead.", "none", None, None, None, None, None),
    ("NVRM: API mismatch: the client has the version 550.54.14, but", "none", None, None, None, None, None),
    ("NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE", "driver", None, None, None, None, None),
    ("NVRM: Xid (PCI:0000:4e:00): 119, pid=5, name=a b:c, Timeout after 45s of waiting for RPC response from GPU2 GSP! Expected function 76 (GSP_RM_CONTROL) sequence 9 (0x20802a02 0x8).", "xid", Some(119), Some("0000:4e:00"), Some(5), Some("a b:c"), None),
    ("NVRM: Xid (PCI:00000008:01:00.0): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0008:01:00"), None, None, None),
    // Memory that GB200 onlines, BARs, the loader.
    ("NVRM: GPU memory zone movable auto onlining failed!", "driver", None, None, None, None, None),
    ("NVRM: FATAL: Failed to re-allocate BAR1.", "driver", None, None, None, None, None),
    ("NVRM: Device start failed for 0000:4e:00.0 (ret=-5)", "driver", None, Some("0000:4e:00"), None, None, None),
    ("nvidia: version magic '6.8.0-40-generic SMP' should be '6.8.0-41-generic SMP'", "driver", None, None, None, None, None),
    ("nvidia: probe of 0000:4e:00.0 failed with error -1", "driver", None, Some("0000:4e:00"), None, None, Some("nvidia 0000:4e:00.0")),
    ("nvidia 0000:4e:00.0: probe with driver nvidia failed with error -1", "driver", None, Some("0000:4e:00"), None, None, Some("nvidia 0000:4e:00.0")),
    ("nvidia 0000:4e:00.0: Direct firmware load for nvidia/570.86.15/gsp_ga10x.bin failed with error -2", "driver", None, Some("0000:4e:00"), None, None, Some("nvidia 0000:4e:00.0")),
    ("nvidia-nvswitch0: Failed to initialize device : -5", "driver", None, None, None, None, None),
    ("nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 11004, Non-fatal, Link 03 Ingress invalid ACL", "sxid", None, Some("0000:07:00"), None, None, None),
    ("nvidia-nvswitch: Version mismatch, kernel version 570.86.15 user version 570.86.10", "none", None, None, None, None, None),
    ("nvidia-nvlink: IBMNPU: An NPU was not found", "none", None, None, None, None, None),
    ("nv-fabricmanager[2211]: failed to initialize NVSwitch 0", "none", None, None, None, None, None),
    // nvidia-peermem, its predecessor, and nvidia-fs.
    ("nvidia-peermem nv_mem_acquire:228 ERROR nv_mem_acquire -- error -22 while calling nvidia_p2p_put_pages()", "peermem", None, None, None, None, None),
    ("nvidia-peermem nv_dma_map:319 ERROR nv_dma_map -- invalid pci_dev", "peermem", None, None, None, None, None),
    ("nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)", "peermem", None, None, None, None, None),
    ("nv_peer_mem: disagrees about version of symbol nvidia_p2p_get_pages", "peermem", None, None, None, None, None),
    ("nvidia-peermem nv_mem_client_init:600 TRACE registered", "none", None, None, None, None, None),
    ("nvidia-fs:Error in nvidia_p2p_get_pages, ret -22", "gds", None, None, None, None, None),
    ("nvidia-fs: Initialized nvfs with ver 2.20", "none", None, None, None, None, None),
    // Other NICs: bnxt_en, ice, ionic, gve, mlx4, hfi1, efa, mana.
    ("bnxt_en 0000:1a:00.0 ens2np0: NIC Link is Up, 400000 Mbps (PAM4 112Gbps) full duplex, Flow control: ON - receive & transmit", "nic_link_up", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 ens2np0: FEC autoneg on encoding: RS544_2X", "none", None, None, None, None, None),
    ("bnxt_en 0000:1a:00.0 ens2np0: PCI I/O error detected", "nic_health", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 ens2np0: PCI Slot Resume", "nic_health", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 ens2np0: Detected firmware fatal condition, initiating reset", "nic_health", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 ens2np0: Chip temperature has gone above the critical thermal threshold!", "nic_temperature", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0: Cannot map device registers, aborting", "driver", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 ens2np0: Fatal firmware reset event, data1: 0x1, data2: 0x8000, min wait 2000 ms, max wait 6000 ms", "nic_health", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 ens2np0: Non-fatal firmware reset event, data1: 0x2, data2: 0x8001, min wait 2000 ms, max wait 6000 ms", "nic_health", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0: QPLIB: bnxt_re_is_fw_stalled: FW STALL Detected. cmdq[0xe]=0x3 waited (103641 > 100000) msec active 1", "nic_health", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 bnxt_re0: Failed to initialize RCFW: 0xffffff92", "driver", None, Some("0000:1a:00"), None, None, Some("bnxt_en 0000:1a:00.0")),
    ("bnxt_en 0000:1a:00.0 ens2np0: Driver recovery watchdog is enabled", "none", None, None, None, None, None),
    ("ice 0000:17:00.0 ens1: NIC Link is Down", "nic_link_down", None, Some("0000:17:00"), None, None, Some("ice 0000:17:00.0")),
    ("ice 0000:17:00.0 ens1: tx_timeout recovery unsuccessful, device is in unrecoverable state.", "nic_health", None, Some("0000:17:00"), None, None, Some("ice 0000:17:00.0")),
    ("ice 0000:17:00.0: The module's power requirements exceed the device's power supply. Cannot start link", "nic_power", None, Some("0000:17:00"), None, None, Some("ice 0000:17:00.0")),
    ("ice 0000:17:00.0: The DDP package was successfully loaded: ICE OS Default Package version 1.3.36.0", "none", None, None, None, None, None),
    ("ionic 0000:b5:00.0 enp181s0: Link up - 400 Gbps", "nic_link_up", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("ionic 0000:b5:00.0 enp181s0: Link down", "nic_link_down", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("ionic 0000:b5:00.0: FW heartbeat stalled at 1234", "nic_health", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("ionic 0000:b5:00.0: FW Up: LIFs restarted", "nic_health", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("ionic 0000:b5:00.0: DEVCMD LIF_INIT (21) timeout after 5 secs", "nic_health", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("ionic 0000:b5:00.0: FW Down: LIFs stopped", "nic_health", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("ionic 0000:b5:00.0: FW Up: restarting LIFs", "nic_health", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("ionic 0000:b5:00.0: DEV_CMD IONIC_CMD_IDENTIFY (1) error, IONIC_RC_EIO (5) failed", "nic_health", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("ionic 0000:b5:00.0 enp181s0: IONIC_CMD_Q_CONTROL (4) failed: TIMEOUT (-110)", "nic_health", None, Some("0000:b5:00"), None, None, Some("ionic 0000:b5:00.0")),
    ("gve 0000:00:04.0: AQ commands timed out, need to reset AQ", "nic_health", None, Some("0000:00:04"), None, None, Some("gve 0000:00:04.0")),
    ("gve 0000:00:04.0: Device link is up.", "nic_link_up", None, Some("0000:00:04"), None, None, Some("gve 0000:00:04.0")),
    ("mlx4_core 0000:05:00.0: mlx4_pci_err_detected was called", "nic_health", None, Some("0000:05:00"), None, None, Some("mlx4_core 0000:05:00.0")),
    ("mlx4_core 0000:05:00.0: device was reset successfully", "nic_health", None, Some("0000:05:00"), None, None, Some("mlx4_core 0000:05:00.0")),
    ("hfi1 0000:d8:00.0: hfi1_0: logical state changed to PORT_ACTIVE (0x4)", "nic_link_up", None, Some("0000:d8:00"), None, None, Some("hfi1 0000:d8:00.0")),
    ("2026-11-22T07:39:45,283102+00:00 hfi1 0000:d8:00.0: hfi1_0: logical state changed to PORT_DOWN (0x1)", "nic_link_down", None, Some("0000:d8:00"), None, None, Some("hfi1 0000:d8:00.0")),
    ("hfi1 0000:d8:00.0: hfi1_0: set_link_state: current INIT, new ARMED ", "none", None, None, None, None, None),
    ("efa 0000:10:1d.0: Reading register timed out. expected: req id[1] offset[10] actual: req id[0] offset[10]", "nic_health", None, Some("0000:10:1d"), None, None, Some("efa 0000:10:1d.0")),
    ("efa 0000:10:1d.0: Admin queue is closed", "nic_health", None, Some("0000:10:1d"), None, None, Some("efa 0000:10:1d.0")),
    ("efa 0000:10:1d.0 rdmap16s29: The device sent a completion but the driver didn't receive any MSI-X interrupt for admin cmd REG_MR(7) status 1 (ctx: 0xf, sq producer: 3, sq consumer: 2, cq consumer: 3)", "nic_health", None, Some("0000:10:1d"), None, None, Some("efa 0000:10:1d.0")),
    ("efa 0000:10:1d.0: Reset indication didn't turn on", "nic_health", None, Some("0000:10:1d"), None, None, Some("efa 0000:10:1d.0")),
    ("ena 0000:00:05.0 ens5: Keep alive watchdog timeout.", "none", None, None, None, None, None),
    ("mana 7870:00:00.0: mana_hwc_send_request: Command 0x20005 timed out: 10000 ms", "nic_health", None, Some("7870:00:00"), None, None, Some("mana 7870:00:00.0")),
    ("infiniband rdmap16s29: Wait for completion (polling) timeout", "nic_health", None, None, None, None, None),
    ("infiniband mlx5_3: Port: 1 Link DOWN", "nic_link_down", None, None, None, None, None),
    ("infiniband bnxt_re0: Couldn't change QP1 state to INIT: -110", "none", None, None, None, None, None),
    ("mana 7870:00:00.0: HWC: Failed hw_channel req: 0x6f", "nic_health", None, Some("7870:00:00"), None, None, Some("mana 7870:00:00.0")),
    ("NETDEV WATCHDOG: ens1f0np0 (mlx5_core): transmit queue 3 timed out", "nic_health", None, None, None, None, None),
    ("NETDEV WATCHDOG: ens5 (ena): transmit queue 3 timed out", "none", None, None, None, None, None),
    // drivers/pci/pcie and drivers/acpi/apei: native and firmware-first reports.
    ("pcieport 0000:52:01.0: AER: Multiple Uncorrectable (Fatal) error message received from 0000:53:00.0", "pcie_aer", None, Some("0000:53:00"), None, None, Some("0000:53:00.0")),
    ("pcieport 0000:52:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:53:00.0", "pcie_aer", None, Some("0000:53:00"), None, None, Some("0000:53:00.0")),
    ("nvidia 0000:4e:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)", "pcie_aer", None, Some("0000:4e:00"), None, None, Some("nvidia 0000:4e:00.0")),
    ("pcieport 0000:52:01.0: DPC: containment event, status:0x1f15 source:0x5300", "pcie_aer", None, Some("0000:52:01"), None, None, Some("pcieport 0000:52:01.0")),
    ("pcieport 0000:52:01.0: EDR: EDR event received", "pcie_aer", None, Some("0000:52:01"), None, None, Some("pcieport 0000:52:01.0")),
    ("{1}[Hardware Error]:   section_type: PCIe error", "pcie_aer", None, None, None, None, None),
    ("[Hardware Error]:   section_type: PCIe error", "pcie_aer", None, None, None, None, None),
    ("{1}[Hardware Error]:   section_type: memory error", "none", None, None, None, None, None),
    ("{1}[Hardware Error]:   device_id: 0000:53:00.0", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: AER: aer_status: 0x00040000, aer_mask: 0x00000000", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0:   device [15b3:1021] error status/mask=00040000/00000000", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0:    [18] MalfTLP                (First)", "none", None, None, None, None, None),
    ("mlx5_core 0000:53:00.0: AER: can't recover (no error_detected callback)", "none", None, None, None, None, None),
    ("pcieport 0000:52:01.0: AER: Downstream Port link has been reset (0)", "none", None, None, None, None, None),
    ("pcieport 0000:52:01.0: pciehp: Slot(12): Link Down", "none", None, None, None, None, None),
    // Wrappers of log readers and of tools for many hosts.
    ("gpu-node-7: [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("node12: Nov 22 07:39:45 node12 kernel: [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("10.0.0.7: kern: warning: [2026-11-22T07:39:45.123Z]: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("3: [Sun Nov 22 16:24:18 2026] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("nov. 22 07:39:45 nodo1 kernel: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("22 Nov 07:39:45 node kernel: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("Nov 22 07:39:45 node kernel: [812.004211] [T12] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("+[  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("< [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("kern  :err   : [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("<3>[  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("[pod/node-debugger-7f/shell] [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("2026-11-22T07:39:45.123456789Z stdout F [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("dmesg-1  | [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("[  812.004211 <    0.000012>] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    (" 3: [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid", Some(79), Some("0000:4e:00"), None, None, None),
    ("[pod/healthd-7f/main] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("2026-11-22T07:39:45.123456789Z stdout F NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("user  :err   : [  812.004211] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("Nov 22 07:39:45 node dockerd[12]: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("ERROR: log said NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("> quoted: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("node12: healthd: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("Xid notes: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("/* NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("usb 1-1: device descriptor read/64, error -71", "none", None, None, None, None, None),
    ("amdgpu 0000:63:00.0: probe with driver amdgpu failed with error -22", "driver", None, Some("0000:63:00"), None, None, Some("amdgpu 0000:63:00.0")),
    // Text that only quotes a kernel line, and records that user space wrote.
    ("healthd[12]: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("12,1,1,-;NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "none", None, None, None, None, None),
    ("nvme nvme0: I/O 12 QID 3 timeout, aborting", "none", None, None, None, None, None),
];

#[test]
fn every_line_of_our_own() {
    let mut wrong = Vec::new();
    for (line, event, xid, pci, pid, process, device) in OWN {
        let got = decoded(line);
        let want = serde_json::json!({
            "event": event, "xid": xid, "pci": pci, "pid": pid, "process": process,
            "device": device, "line": line,
        });
        let want = Vec::from_iter((*event != "none").then_some(want));
        if got != want {
            wrong.push(format!("{line}: {event} {pci:?} {device:?}, got {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
