use super::*;

fn decode(s: &str) -> Option<KernelEvent> {
    nvrm(s.strip_prefix("NVRM: ")?, s)
}

fn xid_of(s: &str) -> Option<(Option<String>, Xid)> {
    let event = decode(s)?;
    match event.what {
        KernelEventKind::Xid(xid) => Some((event.pci, xid)),
        other => panic!("{s}: {other:?}"),
    }
}

#[test]
fn gpus_that_the_driver_lost() {
    for (text, slot) in [
        (
            "NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.",
            Some("0000:91:00"),
        ),
        (
            "NVRM: GPU at PCI:0000:91:00: GPU has fallen off the bus.",
            Some("0000:91:00"),
        ),
        ("NVRM: GPU 0000:91:00.0: GPU serial number is 1.", None),
    ] {
        let event = KernelEvent::new(KernelEventKind::Note(Note::GpuLost), text);
        let want = slot.map(|slot| event.of_slot(Some(slot.into())));
        assert_eq!(lost(text), want, "{text}");
    }
}

#[test]
fn devices_processes_and_codes() {
    type Row<'a> = (&'a str, u32, Option<&'a str>, Option<u32>, Option<&'a str>);
    let rows: [Row; 19] = [
        (
            "NVRM: Xid (PCI:0000:B9:00): 94",
            94,
            Some("0000:b9:00"),
            None,
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:00:1d.0): 79, GPU",
            79,
            Some("0000:00:1d"),
            None,
            None,
        ),
        (
            "NVRM: Xid (PCI:00000008:01:00): 79, GPU",
            79,
            Some("0008:01:00"),
            None,
            None,
        ),
        (
            "NVRM: Xid (0000:03:00): 14, Channel 1",
            14,
            Some("0000:03:00"),
            None,
            None,
        ),
        ("NVRM: Xid (0000:05): 13, 0000 e001", 13, None, None, None),
        ("NVRM: Xid (0001:00): 36,  L0 -> L0", 36, None, None, None),
        ("NVRM: Xid: 13, 0000 02005600", 13, None, None, None),
        ("NVRM: Xid 79, GPU has fallen", 79, None, None, None),
        ("NVRM: Xid (PCI:): 31, x", 31, None, None, None),
        (
            "NVRM: Xid (PCI:0000:c1:00 GPU-I:05 GPU-CI:00): 43, pid=7, Ch 1",
            43,
            Some("0000:c1:00"),
            Some(7),
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 31, pid=19, name=a:[b] (c)#, Ch 8",
            31,
            Some("0000:c1:00"),
            Some(19),
            Some("a:[b] (c)#"),
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 31, pid=19, name=x,y, Ch 8",
            31,
            Some("0000:c1:00"),
            Some(19),
            Some("x,y"),
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 31, name=train, Ch 8",
            31,
            Some("0000:c1:00"),
            None,
            Some("train"),
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 45, pid=0, name=, Ch 8",
            45,
            Some("0000:c1:00"),
            Some(0),
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name='<unknown>', GPU",
            79,
            Some("0000:c1:00"),
            None,
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 79, pid=<n/a>, name=<n/a>, GPU",
            79,
            Some("0000:c1:00"),
            None,
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 38, pid=1659,",
            38,
            Some("0000:c1:00"),
            Some(1659),
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 38, pid=1659, name=tra",
            38,
            Some("0000:c1:00"),
            Some(1659),
            Some("tra"),
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 140, pid=99999999999, x",
            140,
            Some("0000:c1:00"),
            None,
            None,
        ),
    ];
    for (line, code, pci, pid, process) in rows {
        let (slot, xid) = xid_of(line).unwrap_or_else(|| panic!("no event: {line}"));
        assert_eq!((xid.code, xid.pid), (code, pid), "{line}");
        assert_eq!(xid.process.as_deref(), process, "{line}");
        assert_eq!(slot.as_deref(), pci, "{line}");
    }
    assert_eq!(xid_of("NVRM: Xid 79 was reported earlier"), None);
}

#[test]
fn words_that_are_no_code() {
    for line in [
        "NVRM: Xid (invalid): some error",
        "NVRM: Xid (PCI:0000:65:00): invalid",
        "NVRM: Xid (PCI:0000:65:00)",
        "NVRM: Xid error: 79, invalid data",
        "NVRM: Xid (PCI:0000:65:00): 13abc",
        "NVRM: Xid (PCI:0000:65:00): 99999999999",
        "NVRM: Xids 79",
        "NVRM: Xid",
        "NVRM: Xid (",
    ] {
        assert_eq!(decode(line), None, "{line}");
    }
}

fn detail(s: &str) -> XidDetail {
    xid_of(s).unwrap().1.detail
}

#[test]
fn details() {
    let d = detail(
        "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)",
    );
    assert_eq!(
        d.recovery,
        Some((RecoveryAction::DrainAndReset, RecoveryAction::None))
    );
    let d = detail(
        "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x9 (New)",
    );
    assert_eq!(d.recovery.unwrap().1, RecoveryAction::Other(9));
    // Cut: from none, it can only be a request.
    for (said, want) in [
        (
            "from 0x0 (None) to 0x",
            Some(RecoveryAction::Other(u32::MAX)),
        ),
        ("from 0x0 (No", Some(RecoveryAction::Other(u32::MAX))),
        ("from 0x1 (GPU Reset Required) to 0x", None),
        ("from 0x", None),
    ] {
        let line = format!("NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed {said}");
        assert_eq!(detail(&line).recovery.map(|(_, to)| to), want, "{said}");
    }
    let d = detail(
        "NVRM: Xid (PCI:0000:c1:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    );
    let link = d.nvlink.unwrap();
    assert_eq!(link.words, vec![0, 0, 0x1_0000, 0, 0, 0, 0]);
    let d = detail(
        "NVRM: Xid (PCI:0009:01:00): 149, pid=3, name=a, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x021425c6 0x00000001)",
    );
    let link = d.nvlink.unwrap();
    assert_eq!(link.severity, Some(Severity::Fatal));
    assert_eq!(link.words.len(), 2);
    // A process's name says nothing about it.
    for name in ["a, b Nonfatal", "a Nonfatal XC0"] {
        let d = detail(&format!(
            "NVRM: Xid (PCI:0000:1b:00): 145, pid=7, name={name}, RLW_SRC_TRACK Fatal XC1 i0 Link 12 (0x1)"
        ));
        assert_eq!(d.nvlink.unwrap().severity, Some(Severity::Fatal), "{name}");
    }
}

#[test]
fn switch_errors() {
    let said = |line: &str| {
        let event = sxid(line)?;
        match event.what {
            KernelEventKind::Sxid(sxid) => Some((event.pci, sxid.code, sxid.severity)),
            other => panic!("{other:?}"),
        }
    };
    let slot = Some("0000:05:00".to_owned());
    for (line, want) in [
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress",
            Some((slot.clone(), 12028, Some(Severity::Nonfatal))),
        ),
        (
            "nvidia-nvswitch: SXid (PCI:0000:05:00.0): 20034, Data {0x5, 0x1}",
            Some((slot, 20034, None)),
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): xyz, Fatal error",
            None,
        ),
        ("nvidia-nvswitch0: SXid (invalid): some error", None),
        ("nvidia-nvswitch2: open (major=510)", None),
        ("nvidia-nvswitch: Probing device 0000:08:00.0", None),
    ] {
        assert_eq!(said(line), want, "{line}");
    }
}

fn nvrm_kind(s: &str) -> Option<(KernelEventKind, Option<String>)> {
    let event = nvrm(s.strip_prefix("NVRM: ")?, s)?;
    assert!(!matches!(event.what, KernelEventKind::Xid(_)), "{s}");
    Some((event.what, event.pci))
}

#[test]
fn bring_up() {
    let driver =
        |pci: Option<&str>| Some((KernelEventKind::Note(Note::Driver), pci.map(str::to_owned)));
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
        ("NVRM: rm_init_adapter(0) failed", driver(None)),
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
fn memory_that_is_not_shared_with_a_nic() {
    for line in [
        "NVRM: topology not supported for mapping type FORCE_PCIE",
        "NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE",
        "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf",
    ] {
        assert_eq!(
            nvrm_kind(line),
            Some((KernelEventKind::Note(Note::DmabufRefused), None)),
            "{line}"
        );
    }
}

#[test]
fn modules() {
    for (line, want) in [
        (
            "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context",
            Some(Note::Peermem),
        ),
        (
            "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
            Some(Note::Peermem),
        ),
        (
            "nv_peer_mem: disagrees about version of symbol nvidia_p2p_get_pages",
            Some(Note::Peermem),
        ),
        (
            "nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)",
            Some(Note::Gds),
        ),
        (
            "nvidia-fs: nvfs_mgroup: failed to pin pages",
            Some(Note::Gds),
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
        assert_eq!(
            module(line).map(|e| e.what),
            want.map(KernelEventKind::Note),
            "{line}"
        );
    }
}
