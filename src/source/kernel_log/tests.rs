//! One line of each kind through the whole decoder, and properties over arbitrary input.

use proptest::prelude::*;

use super::{decode, silent, wrapper};
use crate::observe::{KernelEvent, KernelEventKind, Note, Severity};

/// Decodes one line of any log form.
fn decode_line(line: &str) -> Option<KernelEvent> {
    let stripped = wrapper::strip(line)?;
    decode(&stripped.text, stripped.device.as_deref())
}

/// Kind, device, line. Written for this test after the drivers' formats.
const LINKS_CABLES_POWER_HEAT: &str = r#"
nic_link_down     | mlx5_core 0000:1a:00.1  | mlx5_core 0000:1a:00.1 ens1f1np1: Link down
nic_link_up       | mlx5_core 0000:1a:00.1  | mlx5_core 0000:1a:00.1 ens1f1np1: Link up
nic_link_down     | mlx5_core 0000:1a:00.1  | mlx5_core 0000:1a:00.1 mlx5_9: Port: 1 Link DOWN
none              | -                       | mlx5_core 0000:1a:00.1 mlx5_9: Port: 1 Link ARMED
nic_link_up       | -                       | rxe0: Port: 1 Link ACTIVE
nic_link_up       | bnxt_en 0000:1a:00.0    | bnxt_en 0000:1a:00.0 ens1f0np0: NIC Link is Up, 100000 Mbps full duplex
nic_link_down     | bnxt_en 0000:1a:00.0    | bnxt_en 0000:1a:00.0 ens1f0np0: NIC Link is Down
nic_link_up       | ice 0000:17:00.0        | ice 0000:17:00.0 ens1: NIC Link is up 100 Gbps Full Duplex
nic_link_down     | gve 0000:00:04.0        | gve 0000:00:04.0: Device link is down.
nic_link_down     | hfi1 0000:d8:00.0       | hfi1 0000:d8:00.0: hfi1_0: logical state changed to PORT_DOWN (0x1)
nic_link_up       | -                       | mlx4_en: eth2: Link Up
none              | -                       | igb 0000:02:00.0 enp2s0: igb: enp2s0 NIC Link is Up 1000 Mbps
none              | -                       | r8169 0000:02:00.0 enp2s0: Link is Down
none              | -                       | bond0: (slave ens1f0): link status definitely down, disabling slave
nic_cable_plugged | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: Port module event: module 0, Cable plugged
nic_cable_unplugged| mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: mlx5_port_module_event:1025:(pid 0): Port module event: module 0, Cable unplugged
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)
nic_power         | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded
nic_power         | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, One or more network ports have been powered down due to insufficient/unadvertised power on the PCIe slot
nic_temperature   | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: temp_warn:196:(pid 0): High temperature on sensors with bit set 0 1
none              | -                       | mlx5_core 0000:1a:00.0: mlx5_pcie_event:299:(pid 7): PCIe slot advertised sufficient power (75W).
none              | -                       | mlx5_core 0000:1a:00.0: PCIe slot power capability was not advertised.
nic_power         | mlx5_core 0000:12:00.0  | mlx5_core 0000:12:00.0: mlx5_pcie_event:299: Detected insufficient power on the PCIe slot (27W).
nic_power         | -                       | mlx5_core: mlx5_pcie_event: Detected insufficient power on the PCIe slot (15W).
nic_temperature   | mlx4_core 0000:05:00.0  | mlx4_core 0000:05:00.0: Temperature Threshold was reached! Threshold=105 celsius degrees; Current Temperature=106
nic_temperature   | hfi1 0000:05:00.0       | hfi1 0000:05:00.0: hfi1_0: QSFP cable temperature too high
nic_temperature   | hfi1 0000:d8:00.0       | hfi1 0000:d8:00.0: hfi1_0: Critical temperature reached! Forcing device into freeze mode!
none              | -                       | thermal thermal_zone0: critical temperature reached (95 C), shutting down
"#;

/// Kind, device, line. Written for this test after the drivers' formats.
const HEALTH: &str = r#"
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:
nic_temperature   | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: print_health_info:431:(pid 0): Health issue observed, High temperature, severity(3) ERROR:
none              | -                       | mlx5_core 0000:1a:00.0: print_health_info:435:(pid 0): assert_var[0] 0x00000001
none              | -                       | mlx5_core 0000:1a:00.0: print_health_info:440:(pid 0): fw_ver 28.36.1010
none              | -                       | mlx5_core 0000:1a:00.0: print_health_info:449:(pid 0): ext_synd 0x8f7a
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: wait_func:1163:(pid 9): MANAGE_PAGES(0x108) timeout. Will cause a leak of a command resource
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: wait_func_handle_exec_timeout:1128:(pid 9): cmd[2]: CREATE_UCTX(0xa04) No done completion
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: cmd_work_handler:877:(pid 9): failed to allocate command entry
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0 ens1: TX timeout detected
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0 ens1: NETDEV WATCHDOG: CPU: 3: transmit queue 5 timed out 5120 ms
none              | -                       | r8125 0000:22:04.0 eth4: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms
nic_health        | -                       | NETDEV WATCHDOG: ens1 (mlx5_core): transmit queue 8 timed out
none              | -                       | NETDEV WATCHDOG: eth2 (igb): transmit queue 4 timed out
nic_health        | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: health_recover_work:310:(pid 9): health recovery failed
none              | -                       | mlx5_core: 23 callbacks suppressed
nic_health        | mlx4_core 0000:05:00.0  | mlx4_core 0000:05:00.0: command 0x31 timed out (go bit not cleared)
nic_health        | mlx4_core 0000:05:00.0  | mlx4_core 0000:05:00.0: Internal error detected:
none              | -                       | mlx4_core 0000:05:00.0:   buf[00]: 000c0000
nic_health        | bnxt_en 0000:1a:00.0    | bnxt_en 0000:1a:00.0 ens1f0np0: Error (timeout: 5000) msg {0x50 0x12ab} len:0
nic_health        | bnxt_en 0000:1a:00.0    | bnxt_en 0000:1a:00.0 ens1f0np0: TX timeout detected, starting reset task!
nic_health        | ice 0000:17:00.0        | ice 0000:17:00.0 ens1: tx_timeout: VSI_num: 6, Q 3, NTC: 0x1, HW_HEAD: 0x2
nic_health        | efa 0000:10:1d.0        | efa 0000:10:1d.0: The device didn't send any completion for admin cmd CREATE_QP(1) status 0 (ctx 0x1)
nic_health        | -                       | infiniband rdmap16s29: Failed to process command ALLOC_PD (opcode 14) comp_status 4 err -5
none              | -                       | infiniband mlx5_0: create_mkey_warn:158:(pid 2): async reg mr failed. status -121
nic_health        | -                       | infiniband bnxt_re0: QPLIB: cmdq[0x7]=0x3 timedout (120000)msec
none              | -                       | infiniband bnxt_re0: Couldn't start port
none              | -                       | infiniband mlx5_0: Wait for completion (polling) timeout
none              | -                       | infiniband mlx5_bond_0: Admin queue is closed
none              | -                       | nvme_core:123: Async, timeout. Will cause a leak
nic_health        | bnxt_en 0000:82:00.0    | bnxt_en 0000:82:00.0: QPLIB: cmdq[0x8]=0xf status 0x3
nic_health        | bnxt_en 0000:19:00.0    | bnxt_en 0000:19:00.0: QPLIB: cmdq[0x0]=0x3 send failed
nic_health        | bnxt_en 0000:01:09.0    | bnxt_en 0000:01:09.0 s1p1: hwrm_ring_free type 1 failed. rc:fffffff0 err:0
nic_health        | mlx5_core 0000:c4:00.0  | mlx5_core 0000:c4:00.0: mlx5_health_try_recover:343: health recovery flow aborted, PCI reads still not working
nic_health        | mlx5_core 0000:c4:00.0  | mlx5_core 0000:c4:00.0: poll_health:803: Fatal error 1 detected
nic_health        | -                       | mlx5_cmd_out_err:838: ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2)
nic_health        | -                       | mlx5_port_module_event: Port module event[error]: module 0, Cable error, Low Signal
nic_health        | mana 7870:00:00.0       | mana 7870:00:00.0: HWC: Request timed out!
"#;

/// Kind, device, line. Written for this test after the drivers' formats.
const DRIVERS_THAT_DO_NOT_START: &str = r#"
driver            | nvidia 0000:3b:00.0     | nvidia: probe of 0000:3b:00.0 failed with error -1
driver            | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: probe with driver mlx5_core failed with error -110
driver            | mlx5_core 0000:1a:00.0  | mlx5_core: probe of 0000:1a:00.0 failed with error -22
driver            | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: probe_one:1683:(pid 9): mlx5_init_one failed with error code -110
driver            | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: wait_fw_init:198:(pid 9): Firmware over 120000 MS in pre-initializing state, aborting
driver            | ice 0000:17:00.0        | ice 0000:17:00.0: Direct firmware load for intel/ice/ddp/ice.pkg failed with error -2
driver            | nvidia 0000:17:00.0     | nvidia 0000:17:00.0: loading /lib/firmware/nvidia/570.133.20/gsp_ga10x.bin failed with error -4
driver            | nvidia 0000:17:00.0     | nvidia 0000:17:00.0: firmware: failed to load nvidia/525.85.12/gsp_tu10x.bin (-2)
driver            | -                       | NVRM RmInitAdapter: Cannot initialize GSP firmware RM
none              | -                       | NVRM cpuidInfoAMD: Unrecognized AMD processor in cpuidInfoAMD
none              | -                       | NVRM Xid 79
driver            | 0000:03:00.0            | 0000:03:00.0:mlx5_load_one:1140:(pid 6016): init hca failed
nic_health        | 0000:03:00.0            | 0000:03:00.0:wait_func:782:(pid 16038): ALLOC_UAR(0x802) timeout. Will cause a leak of a command resource
driver            | -                       | mlx5_ib: Unknown symbol ib_register_device (err -22)
driver            | ice 0000:ca:00.0        | ice 0000:ca:00.0: ice_init_hw failed: -16
driver            | efa 0000:10:1d.0        | efa 0000:10:1d.0: EFA device init failed
driver            | efa 0000:10:1d.0        | efa 0000:10:1d.0: pci_enable_device_mem() failed!
driver            | efa 0000:10:1d.0        | efa 0000:10:1d.0: Failed to enable MSI-X. irq_num -28
none              | -                       | ena 0000:00:05.0: pci_enable_device_mem() failed!
driver            | gve 0000:00:04.0        | gve 0000:00:04.0: Could not get device information: err=-110
driver            | gve 0000:00:04.0        | gve 0000:00:04.0: could not count MSI-x vectors: err=-22
driver            | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: mlx5_load:1197:(pid 9): Failed to init flow steering
driver            | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: mlx5_load:1210:(pid 9): sriov init failed -12
driver            | mlx5_core 0000:1a:00.0  | mlx5_core 0000:1a:00.0: mlx5_init_once:850:(pid 9): failed to initialize eq
driver            | mlx4_core 0000:05:00.0  | mlx4_core 0000:05:00.0: QUERY_FW command failed, aborting
driver            | mana 7870:00:00.0       | mana 7870:00:00.0: Failed to establish HWC: -110
driver            | amdgpu 0000:63:00.0     | amdgpu 0000:63:00.0: amdgpu: amdgpu_device_ip_init failed
driver            | amdgpu 0000:63:00.0     | amdgpu 0000:63:00.0: amdgpu: Fatal error during GPU init
driver            | amdgpu 0000:63:00.0     | amdgpu 0000:63:00.0: amdgpu: ASIC reset failed with error, -62 for drm dev, 0000:63:00.0
driver            | amdgpu 0000:63:00.0     | amdgpu 0000:63:00.0: amdgpu: GPU reset(3) failed
driver            | amdgpu 0000:63:00.0     | amdgpu 0000:63:00.0: amdgpu: GPU Recovery Failed: -62
none              | -                       | amdgpu 0000:63:00.0: amdgpu: GPU reset begin!
none              | -                       | amdgpu 0000:63:00.0: amdgpu: finishing device.
none              | -                       | panfrost ff9a0000.gpu: Fatal error during GPU init
driver            | amdgpu 0000:63:00.0     | amdgpu 0000:63:00.0: amdgpu: GPU reset end with ret = -19
driver            | amdgpu 0000:63:00.0     | amdgpu 0000:63:00.0: device lost from bus!
none              | -                       | amdgpu 0000:63:00.0: amdgpu: GPU reset end with ret = 0
nic_health        | gve 0000:80:00.0        | gve 0000:80:00.0 eth1: Adjust queues failed! !!! DISABLING ALL QUEUES !!!
nic_health        | gve 0000:80:00.0        | gve 0000:80:00.0: Failed to adjust ring sizes: err=-12. Disabling all queues.
nic_health        | mana 7870:00:00.0       | mana 7870:00:00.0: Command 0x20001 timed out: 15000 ms
nic_health        | mlx4_core 0000:86:00.0  | mlx4_core 0000:86:00.0: Fail to reset HCA
nic_health        | mlx5_core 0000:18:00.0  | mlx5_core 0000:18:00.0: cmd_work_handler:1025:(pid 3): All CMD slots are stalled, aborting command
nic_health        | mlx5_core 0000:18:00.0  | mlx5_core 0000:18:00.0 ens1np0: mlx5e_safe_reopen_channels failed recovering from a tx_timeout, err(-5).
nic_health        | bnxt_en 0000:41:00.0    | bnxt_en 0000:41:00.0 ens3f0np0: bnxt_open() failed during FW reset
nic_health        | ice 0000:17:00.0        | ice 0000:17:00.0: ice_pci_err_detected: unrecoverable PCI or device error 3
nic_health        | ice 0000:17:00.0        | ice 0000:17:00.0 ens1f0: driver needs to be unloaded and reloaded
driver            | -                       | NVRM: failed to map registers!
driver            | -                       | nvidia_uvm: Unknown symbol nvidia_p2p_get_pages (err -2)
driver            | -                       | nvidia-uvm: disagrees about version of symbol module_layout
none              | -                       | nvidia_uvm: module uses symbols nvUvmInterfaceDisableAccessCntr from proprietary module nvidia, inheriting taint.
none              | -                       | mt7915e: probe of 0000:05:00.0 failed with error -5
none              | -                       | mlx5_core 0000:1a:00.0: firmware version: 28.36.1010
none              | -                       | nvidia: module verification failed: signature and/or required key missing - tainting kernel
none              | -                       | nvidia-nvlink: Nvlink Core is being initialized, major device number 507
"#;

#[test]
fn one_line_of_each_kind() {
    for row in [LINKS_CABLES_POWER_HEAT, HEALTH, DRIVERS_THAT_DO_NOT_START]
        .iter()
        .flat_map(|t| t.lines())
        .filter(|l| !l.is_empty())
    {
        let mut parts = row.splitn(3, '|').map(str::trim);
        let mut part = || parts.next().unwrap();
        let (kind, device, line) = (part(), part(), part());
        let e = decode_line(line);
        let got = e.as_ref().map_or("none", |e| e.what.name());
        assert_eq!(got, kind, "{line}");
        let Some(e) = e else { continue };
        assert_eq!(e.device.as_deref().unwrap_or("-"), device, "{line}");
        let address = device.split(' ').next_back();
        let slot = address.and_then(|bdf| Some(bdf.split_once('.')?.0));
        assert_eq!(e.pci.as_deref(), slot, "{line}");
        assert!(!matches!(e.what, KernelEventKind::Xid(_)), "{line}");
    }
}

#[test]
fn what_lines_mean() {
    use Note::*;
    for (line, want) in [
        (
            "mlx5_cmd_out_err:8:(pid 9): ACCESS_REG(0x805) op_mod(0x1) failed, status x",
            CommandFailed,
        ),
        (
            "poll_health:795:(pid 0): Fatal error 3 detected",
            FatalSensor,
        ),
        (
            "print_health:819:(pid 0): Fatal error detected",
            FatalSensor,
        ),
        (
            "print_health_info:423:(pid 0): PCI slot 1 is unavailable",
            DeviceError,
        ),
        (
            "poll_health:801:(pid 0): device's health compromised - x",
            HeartbeatLost,
        ),
        (
            "print_health_info:421:(pid 0): synd 0x10: High temperature",
            Temperature,
        ),
        (
            "print_health_info:421:(pid 0): synd 0x1: firmware internal error",
            Syndrome,
        ),
        (
            "health_care:350:(pid 920): handling bad device here",
            DeviceError,
        ),
        ("starting health recovery flow", RecoveryStarted),
        ("health recovery succeeded", Recovered),
        (
            "cmd[2]: CREATE_UCTX(0xa04) No done completion",
            CommandTimeout,
        ),
        ("Detected insufficient power on the PCIe slot (27W).", Power),
        ("Port module event: module 3, Cable plugged", CablePlugged),
        (
            "Port module event[error]: module 3, Cable error, Power budget exceeded",
            ModulePower,
        ),
        (
            "Port module event[error]: module 3, Cable error, Unknown identifier",
            ModuleFault,
        ),
        (
            "AER: Multiple Corrected error received: 0000:1a:00.0",
            AerCorrectable,
        ),
        (
            "PCIe Bus Error: severity=Uncorrected (Non-Fata",
            AerUncorrected,
        ),
        ("PCIe Bus Error: severity=Uncorrected (Fata", AerCorrectable),
        (
            "DPC: containment event, status:0x1f01 source:0x0000",
            AerFatal,
        ),
    ] {
        let event = decode_line(&format!("mlx5_core 0000:1a:00.0: {line}"));
        assert_eq!(
            event.map(|event| event.what),
            Some(KernelEventKind::Note(want)),
            "{line}"
        );
    }
}

#[test]
fn the_name_of_a_process_says_nothing() {
    for line in [
        "NVRM: Xid: 79,[4242]: segfault at 0 ip 000055d0c0a0 sp 00007ffd error 4 in a.out",
        "NVRM: Xid: 79, invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE)",
        "NVRM: Xid: 79,: page allocation failure: order:0",
        "nvidia-peermem[12]: segfault at 0 ip 0 sp 0 error 4 in a.out",
        "NVRM: no nvidia invoked oom-killer: gfp_mask=0xcc0",
    ] {
        assert_eq!(decode_line(&format!("6,1,1,-;{line}")), None, "{line}");
    }
}

#[test]
fn a_switch_that_stops_is_fatal_without_a_word() {
    for (body, want) in [
        (
            "10006, TSENSE OVERT Threshold reached. Shutting Down",
            Some(Severity::Fatal),
        ),
        (
            "10004, PMGR OVERT Threshold reached. Shutting Down",
            Some(Severity::Fatal),
        ),
        ("26006, SOE HALTED", Some(Severity::Fatal)),
        // Of these the driver does not say whether the switch stops.
        ("10007, IO failure", Some(Severity::Nonfatal)),
        ("26002, SOE init failed(1)", Some(Severity::Nonfatal)),
        ("26002, SOE init Failed(0)", Some(Severity::Nonfatal)),
        (
            "28003, OSFP Thermal Overt Activated",
            Some(Severity::Nonfatal),
        ),
        ("10007, Fatal, IO failure (0x0/0x0", Some(Severity::Fatal)),
        (
            "10006, NVSWITCH Temperature 99C | OVERT Threshold 98C",
            None,
        ),
        ("26006, SOE HALT data[0] = 0x1", None),
        ("20034, Severity 1 Engine instance 60", None),
    ] {
        let line = format!("nvidia-nvswitch0: SXid (PCI:0000:08:00.0): {body}");
        let Some(KernelEventKind::Sxid(sxid)) = decode_line(&line).map(|event| event.what) else {
            panic!("{line}");
        };
        assert_eq!(sxid.severity, want, "{line}");
    }
}

#[test]
fn bnxt_says_when_it_is_cool_again_and_starts_itself() {
    let line = |text: &str| format!("bnxt_en 0000:41:00.0 ens1f0np0: {text}");
    for (text, want) in [
        (
            "Non-fatal firmware reset event, data1: 0x1, min wait 1 ms",
            Note::RecoveryStarted,
        ),
        ("SFP+ module is shutdown", Note::ModuleFault),
        (
            "Chip temperature has gone above the warning thermal threshold!",
            Note::Temperature,
        ),
    ] {
        let event = decode_line(&line(text));
        assert_eq!(
            event.map(|event| event.what),
            Some(KernelEventKind::Note(want)),
            "{text}"
        );
    }
    // It may still be above a milder one.
    let milder = line("Chip temperature has gone below the critical thermal threshold!");
    assert_eq!(decode_line(&milder), None);
    assert_eq!(silent(&milder, None), None);
    let cooled = line("Chip temperature has gone below the warning thermal threshold!");
    assert_eq!(decode_line(&cooled), None);
    let silent = silent(&cooled, None);
    assert_eq!(
        silent.map(|event| event.what),
        Some(KernelEventKind::Note(Note::Cooled))
    );
}

#[test]
fn first_words_of_a_driver_that_starts_a_device() {
    for (line, want) in [
        (
            "mlx5_core 0000:18:00.0: firmware version: 65535.65535.65535",
            None,
        ),
        (
            "mlx5_core 0000:18:00.0: firmware version: 28.36.1010",
            Some(Note::Loaded),
        ),
        (
            "bnxt_en 0000:41:00.0 eth0: Broadcom BCM57608 Ethernet found at mem 203fffc10000, node addr 5c:6f:69:01:02:03",
            Some(Note::Loaded),
        ),
        (
            "bnxt_en 0000:41:02.1 eth0: Broadcom BCM57608 Ethernet Virtual Function found at mem 203fffc10000, node addr 5c:6f:69:01:02:03",
            Some(Note::Loaded),
        ),
        (
            "efa 0000:4f:00.0 efa_0: IB device registered",
            Some(Note::Loaded),
        ),
        ("gve 0000:80:00.0: GVE version 1.4.5", Some(Note::Loaded)),
        ("gve 0000:80:00.0: Reset failed!", None),
        ("ena 0000:00:05.0: GVE version 1.4.5", None),
    ] {
        let silent = silent(line, None).map(|event| event.what);
        assert_eq!(silent, want.map(KernelEventKind::Note), "{line}");
    }
}

#[test]
fn gpus_that_need_a_reset_are_no_event_for_people() {
    for said in [
        "nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ kernel_channel.c:2827",
        "nvAssertFailedNoLog: Assertion failed: Back to back GSP RPC timeout detected! GPU marked for reset @ kernel_gsp.c:2387",
        "GPU3 nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) returned from rmStatus @ kernel_ce.c:1",
    ] {
        let said = format!("NVRM: {said}");
        assert_eq!(decode(&said, None), None, "{said}");
        let silent = silent(&said, None).map(|event| event.what);
        assert_eq!(
            silent,
            Some(KernelEventKind::Note(Note::ResetRequired)),
            "{said}"
        );
    }
}

#[test]
fn escaped_newlines_stay_in_one_record() {
    let e = decode_line(r"3,1,1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=5, name=a\x0ab, Ch 00000008")
        .unwrap();
    let KernelEventKind::Xid(xid) = e.what else {
        panic!("{e:?}");
    };
    assert_eq!(xid.process.as_deref(), Some("a\nb"));
    let e = decode_line(r"3,1,1,-;healthd says\x0aNVRM: Xid (PCI:0000:3b:00): 79, GPU");
    assert_eq!(e, None);
    let e = decode_line(
        r"3,1,1,-;NVRM: The NVIDIA GPU 0000:5d:00.0\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\x0aNVRM: fallen off the bus and is not responding to commands.",
    )
    .unwrap();
    assert_eq!(e.pci.as_deref(), Some("0000:5d:00"));
    assert_eq!(
        e.text,
        "NVRM: The NVIDIA GPU 0000:5d:00.0 NVRM: (PCI ID: 10de:2330) installed in this system has NVRM: fallen off the bus and is not responding to commands."
    );
}

/// Pieces from which the decoder's paths are reached sooner than by chance.
const PIECES: &[&str] = &[
    "NVRM: ",
    "Xid",
    " (",
    "PCI:",
    "0000:3b:00",
    ".0",
    " GPU-I:05",
    "): ",
    "79",
    ", ",
    "pid=",
    "name=",
    "'<unknown>'",
    "mlx5_core ",
    "Port module event",
    "[error]",
    ": ",
    "module 1",
    "synd 0x",
    "10",
    "nvidia-nvswitch",
    "SXid",
    "AER: ",
    "PCIe Bus Error: severity=",
    "received",
    "\\x0a",
    "\\x",
    "\n",
    "[",
    "]",
    "123.4",
    "<4>",
    "kern  :warn  : ",
    "kernel:",
    " host ",
    "3,1,1,-;",
    "{\"MESSAGE\":",
    "\"",
    "é",
    "\u{1b}[",
    "154",
    "changed from 0x",
    " to 0x",
    "Link ",
    "(0x",
    "Port: ",
    "(pid ",
    "Jan",
    "NETDEV WATCHDOG: ",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_line(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_mixture_of_pieces_panics(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24),
        cut in 0usize..400,
    ) {
        let mut line = pieces.concat();
        while cut < line.len() && !line.is_char_boundary(cut) {
            line.pop();
        }
        if cut < line.len() {
            line.truncate(cut);
        }
        let _ = decode_line(&line);
        let mut a = super::assemble::Assembler::default();
        for l in line.split('\n') {
            a.feed(l, &mut |_, _| {});
        }
    }

    #[test]
    fn wrappers_do_not_change_the_event(
        secs in 0u32..10_000_000,
        micros in 0u32..1_000_000,
        message in proptest::sample::select(vec![
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:01): 31, pid=12, name=a b, Ch 8",
            "mlx5_core 0000:1a:00.1 ens1f1np1: Link down",
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress",
            "pcieport 0000:16:01.0: AER: Correctable error message received from 0000:17:00.1",
        ]),
    ) {
        let bare = decode_line(message);
        prop_assert!(bare.is_some());
        for line in [
            format!("[{secs:5}.{micros:06}] {message}"),
            format!("[{secs:5}.{micros:06}][ T{secs}] {message}"),
            format!("<3>[{secs:5}.{micros:06}] {message}"),
            format!("3,{secs},{micros},-,caller=T{secs};{message}"),
            format!("Jan  3 07:39:45 node-1 kernel: [{secs:5}.{micros:06}] {message}"),
            format!("2026-10-03T06:01:36.{micros:06}+02:00 node-1 kernel: {message}"),
            format!("kern  :err   : [{secs:5}.{micros:06}] {message}"),
            serde_json::json!({"_TRANSPORT": "kernel", "MESSAGE": message}).to_string(),
        ] {
            prop_assert_eq!(&decode_line(&line), &bare, "{}", line);
        }
    }
}
