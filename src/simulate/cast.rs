//! The demo's fleet: who plays what, as data. A part's faults stand from soon after the start unless
//! it says otherwise, so that whoever looks later sees the same.

use super::PLAY_LENGTH;
use super::cast_jobs as jobs;
use super::event::Event;
use super::play::{Scene, play};
use super::script::{Script, counter, function, hw_counter, link};
use std::time::Duration;

/// How an agent's waiting times are shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// For faults that come and go within seconds.
    Play,
    /// For faults that stand.
    Standing,
}

/// One node of the fleet.
#[derive(Debug, Clone)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// The preset that it is.
    pub preset: &'static str,
    /// What is played on it, in a line.
    pub about: &'static str,
    /// How its agent waits.
    pub timing: Timing,
    /// Share of the links' rate that its jobs use, in percent; 0: no traffic.
    pub load: u64,
    /// What has happened before its agent looks for the first time.
    pub before: Vec<Event>,
    /// What happens once, by the time since the start.
    pub scenes: Vec<Scene>,
    /// What happens again and again: from when on, and how often.
    pub again: Vec<([Duration; 2], Event)>,
    /// What is played from its beginning when it has ended, and how long it takes.
    pub play: Option<(Vec<Scene>, Duration)>,
    /// When its agent goes away for good.
    pub leaves: Option<Duration>,
    /// The verdict that it comes to; none: it changes all the time.
    pub state: Option<&'static str>,
    /// Reasons of findings that come to stand.
    pub reasons: &'static [&'static str],
}

/// The first `nodes` of the fleet, all that happens `speed` times as fast.
pub fn cast(nodes: usize, speed: f64) -> Vec<Role> {
    (0..nodes)
        .map(|at| {
            let mut script = Script::new(at, speed);
            part(at, &mut script);
            script.role
        })
        .collect()
}

fn part(at: usize, script: &mut Script) {
    match at {
        0 => the_play(script),
        1 => rail_down(script),
        2 => storm(script),
        3 => efa(script),
        4 => lost_gpu(script),
        5 => dirty_link(script),
        6 => no_peermem(script),
        7 => loose_cable(script),
        8 => well_ib(script),
        9 => no_fabric(script),
        10 => bad_jobs(script),
        11 => going(script),
        // Those that are well, over and over.
        _ => more(at, script),
    }
}

fn the_play(script: &mut Script) {
    script.role.about = "the play: faults come and go within a minute and a half";
    script.role.timing = Timing::Play;
    script.role.play = Some((play(script.speed), PLAY_LENGTH.div_f64(script.speed)));
    // The play brings its own.
    script.role.load = 0;
    script.role.state = None;
}

fn rail_down(script: &mut Script) {
    script.role.preset = "h100_ib";
    script.role.about = "rail mlx5_4 is down; the one node that the budget lets be tainted";
    script.role.state = Some("unready");
    script.role.reasons = &["LinkDown"];
    script.at(6.0, link("mlx5_4", false));
}

fn storm(script: &mut Script) {
    script.role.about = "PFC storm, drops on the lossless priority, congestion notifications";
    script.role.state = Some("degraded");
    script.role.reasons = &["PfcStorm", "LosslessDrops", "CongestionNotifications"];
    // Often, as a NIC counts all the time: a sample must not fall between two steps.
    const STEP: f64 = 0.25;
    let part = |a_second: f64| (a_second * STEP / script.speed) as u64;
    let add = |name: &str, add| Event::Ethtool {
        netdev: "enp64s0np0".into(),
        name: name.into(),
        add,
    };
    let paused = Event::All(vec![
        add("rx_prio3_pause", part(11_000.0)),
        add("rx_prio3_pause_duration", part(820_000.0)),
        add("rx_prio3_pause_transition", part(5_500.0)),
    ]);
    let surge = Event::All(vec![
        add("rx_prio3_discards", 40),
        add("rx_discards_phy", 40),
        hw_counter("mlx5_1", "np_cnp_sent", 30_000),
        hw_counter("mlx5_1", "np_ecn_marked_roce_packets", 60_000),
        hw_counter("mlx5_3", "rp_cnp_handled", 24_000),
    ]);
    script.every(STEP, paused);
    script.every(1.0, surge);
    jobs::embed(script);
}

fn efa(script: &mut Script) {
    script.role.preset = "efa_p5";
    script.role.about = "well: 32 EFA devices, a job over libfabric";
    jobs::moe(script);
}

fn lost_gpu(script: &mut Script) {
    script.role.about = "a GPU fell off the bus (Xid 79, 154); the taint is withheld by the budget";
    script.role.state = Some("unready");
    script.role.reasons = &[
        "GpuFellOff",
        "XidFatal",
        "GpuRecoveryRequired",
        "XidDegraded",
    ];
    let dead = Event::ConfigDead {
        pci: function(0x9d),
        dead: true,
    };
    script.at(16.0, dead);
    let mut xid = |at: f64, again: Option<f64>, gpu: &str, text: &str| {
        script.kmsg(
            at,
            again,
            3,
            format!("NVRM: Xid (PCI:0000:{gpu}:00): {text}"),
        );
    };
    xid(16.0, None, "9d", "79, GPU has fallen off the bus.");
    xid(
        17.0,
        None,
        "9d",
        "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    );
    xid(
        20.0,
        Some(180.0),
        "1b",
        "63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0000000017a3e8d4) marked for remapping, reset gpu to activate.",
    );
    xid(
        22.0,
        Some(240.0),
        "43",
        "190, pid=41210, name=python3, unknown event",
    );
    script.kmsg(
        24.0,
        Some(300.0),
        4,
        "nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 22013, Non-fatal, Link 31 minion link DLREQ interrupt"
            .into(),
    );
}

fn dirty_link(script: &mut Script) {
    script.role.preset = "h100_ib";
    script.role.about = "symbol errors, recoveries and lost packets on mlx5_9; mlx5_5 at half rate";
    script.role.state = Some("degraded");
    script.role.reasons = &[
        "SymbolErrors",
        "LinkRecoveries",
        "PacketLoss",
        "LaneWidthReduced",
        "CounterSaturated",
    ];
    // A counter of 16 bits at its end.
    let stuck = counter("mlx5_10", "port_rcv_errors", 65_535);
    script.role.before.push(stuck);
    let half = Event::Rate {
        device: "mlx5_5".into(),
        port: 1,
        rate: "200 Gb/sec (2X NDR)".into(),
        speed: 200_000,
    };
    script.at(8.0, half);
    let errors = Event::All(vec![
        counter("mlx5_9", "symbol_error", 6),
        counter("mlx5_9", "port_rcv_errors", 1),
        hw_counter("mlx5_9", "packet_seq_err", 60),
        hw_counter("mlx5_9", "out_of_sequence", 40),
        hw_counter("mlx5_9", "local_ack_timeout_err", 4),
    ]);
    script.every(2.0, errors);
    script.every(8.0, counter("mlx5_9", "link_error_recovery", 1));
    jobs::llama(script, 1);
}

fn no_peermem(script: &mut Script) {
    script.role.about =
        "nvidia_peermem and the RDMA device plugin are gone; a job without GPUDirect";
    script.role.state = Some("degraded");
    script.role.reasons = &["GpuDirectPathMissing", "ResourceFewerThanDevices"];
    let gone = Event::All(vec![
        Event::UnloadModule("nvidia_peermem".into()),
        Event::MemoryPeers(Some(Vec::new())),
    ]);
    script.at(5.0, gone);
    script.at(5.0, Event::PluginGoes("rdma/hca_shared_devices_a".into()));
    jobs::vision(script);
}

fn loose_cable(script: &mut Script) {
    script.role.preset = "h100_ib";
    script.role.about = "rail mlx5_4 flaps, the NIC of mlx5_9 is hot; the taint is withheld";
    script.role.state = Some("unready");
    script.role.reasons = &["LinkFlapping", "NicTemperature", "NicModuleFault"];
    let flap = Event::All(vec![
        counter("mlx5_4", "link_downed", 1),
        counter("mlx5_4", "link_error_recovery", 1),
        Event::Carrier {
            netdev: "ibp79s0".into(),
            up: true,
            edges: 2,
        },
    ]);
    for n in 0..6 {
        script.at(18.0 + f64::from(n) * 2.0, flap.clone());
    }
    script.every(45.0, flap);
    let nic = "mlx5_core 0000:c0:00.0";
    script.kmsg(
        12.0,
        Some(120.0),
        4,
        format!("{nic}: temp_warn:196:(pid 0): High temperature on sensors with bit set 0 1"),
    );
    script.kmsg(
        14.0,
        Some(150.0),
        3,
        format!("{nic}: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:"),
    );
    script.kmsg(
        15.0,
        Some(160.0),
        3,
        format!("{nic}: Port module event[error]: module 5, Cable error, Bus stuck (I2C or data shorted)"),
    );
    jobs::llama(script, 2);
}

fn well_ib(script: &mut Script) {
    script.role.preset = "h100_ib";
    script.role.about =
        "well: a job over InfiniBand with GPUDirect RDMA, whose program errs at times";
    let text = "NVRM: Xid (PCI:0000:52:00): 31, pid=20118, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f12_4a000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ";
    script.kmsg(25.0, Some(60.0), 3, text.into());
    jobs::llama(script, 0);
}

fn no_fabric(script: &mut Script) {
    script.role.preset = "empty";
    script.role.about = "a server without fabric: nothing shows that it is ready; no list of PCI";
    script.role.state = Some("unknown");
    script.role.reasons = &["NoFabric", "SourceFailing"];
    script.role.before.push(Event::Refuse {
        path: "sys/bus/pci/devices".into(),
        errno: nix::libc::EIO,
    });
}

fn bad_jobs(script: &mut Script) {
    script.role.about =
        "jobs: silent fallback to TCP, a hanging init, TCP as asked; a narrow PCIe link";
    script.role.state = Some("degraded");
    script.role.reasons = &[
        "NcclTcpFallback",
        "NcclInitHang",
        "NoRdmaRequested",
        "NcclSuspect",
        "PcieWidthReduced",
    ];
    let narrow = Event::PcieLink {
        pci: function(0xce),
        speed: "32.0 GT/s PCIe".into(),
        width: 8,
    };
    script.at(5.0, narrow);
    jobs::sft(script);
    jobs::eval(script);
    jobs::legacy(script);
    jobs::silent(script);
}

fn going(script: &mut Script) {
    script.role.about = "well, but its kernel log loses records, and its agent goes away for good";
    script.role.reasons = &["KernelLogLost"];
    script.role.leaves = Some(script.secs(60.0));
    // A reader tells of what it lost when it reads on.
    let lost = Event::All(vec![
        Event::KmsgTooLarge,
        Event::Kmsg {
            priority: 6,
            micros: 0,
            text: "mlx5_core 0000:18:00.0: Port module event: module 0, Cable plugged".into(),
            device: None,
        },
    ]);
    script.again(10.0, 12.0, lost);
    jobs::rlhf(script);
}

fn more(at: usize, script: &mut Script) {
    match at % 3 {
        0 => {
            script.role.preset = "h100_ib";
            script.role.about = "well: InfiniBand";
        }
        1 => script.role.about = "well: RoCE",
        _ => {
            script.role.preset = "efa_p5";
            script.role.about = "well: 32 EFA devices";
        }
    }
}

#[cfg(test)]
#[path = "cast_tests.rs"]
mod tests;
