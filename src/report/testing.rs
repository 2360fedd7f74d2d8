//! Reports built by hand for the outputs' tests.

mod ports;

use super::{Report, Role, RoleFacts, State, XidSeen};
use crate::check::gpudirect::{GpuDirectVerdict, Path};
use crate::check::{Action, Finding, Status, Weight};
use crate::observe::history::ports_of;
use crate::observe::{
    AER_SEVERITIES, Advertisement, GpuDirectFacts, LinkFacts, LinkLayer, LinkRate, Module,
    Neighbor, NvidiaDriver, NvidiaFs, PciFacts, PciFunction, PcieLink, PhysState, PortState,
    RdmaDevice, RdmaPort, Reading, Snapshot, SourceHealth, Stamped,
};
use crate::units::{Bdf, BitsPerSec, Millis};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The moment of every report here: ten minutes after boot.
pub const NOW: Millis = Millis(600_000);

/// Hardware counters of an mlx5 RoCE port.
pub const MLX5_HW: &[&str] = &[
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "duplicate_request",
    "rnr_nak_retry_err",
    "req_transport_retries_exceeded",
    "req_rnr_retries_exceeded",
    "out_of_buffer",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_icrc_encapsulated",
    "resp_local_length_error",
    "resp_cqe_error",
    "req_cqe_error",
    "req_remote_invalid_request",
    "req_remote_access_errors",
    "resp_remote_access_errors",
    "resp_cqe_flush_error",
    "req_cqe_flush_error",
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "rx_dct_connect",
    "cc_rx_ce_pkts",
    "cc_rx_cnp_pkts",
    "cc_tx_cnp_pkts",
];

fn stamped<T>(value: T) -> Arc<Stamped<T>> {
    Arc::new(Stamped { at: NOW, value })
}

/// Every port has heard of this switch just now.
pub fn hear_of(report: &mut Report, switch: &str) {
    let neighbor = Neighbor {
        switch: switch.into(),
        switch_port: switch.into(),
        description: Some(switch.into()),
        ids: (switch.into(), switch.into()),
    };
    let ttl = Duration::from_secs(120);
    let heard = stamped(Advertisement { neighbor, ttl });
    let names = ports_of(&report.snapshot).filter_map(|(_, port)| port.netdev.clone());
    let lldp = names.map(|name| (name, Arc::clone(&heard)));
    report.snapshot.lldp = lldp.collect();
}

/// A report with nothing in it.
pub fn empty() -> Report {
    Report {
        generation: 1,
        node: "gpu-17".into(),
        snapshot: Snapshot {
            at: NOW,
            wall: Some("2026-01-02T03:04:05Z".parse().unwrap()),
            boot_id: Some("b0071d00-0000-4000-8000-000000000000".into()),
            live: true,
            ..Snapshot::default()
        },
        stale_after: Duration::from_secs(30),
        roles: BTreeMap::new(),
        state: State::Unknown,
        since: Millis(0),
        reasons: Vec::new(),
        findings: Vec::new(),
        xids: Vec::new(),
        gpudirect: GpuDirectVerdict::default(),
        totals: Arc::default(),
        full_window: false,
        muted: Vec::new(),
        tainting: crate::report::Tainting::default(),
        taint_muted: false,
        jobs: Arc::default(),
        profile: crate::report::Profile::default(),
        resources: Vec::new(),
        history: Arc::default(),
    }
}

/// A healthy node with 8 GPUs and `rails` mlx5 rails of 400 Gb/s, every counter read, every source
/// up; on Ethernet with PFC on priority 3.
pub fn node(rails: u8, layer: LinkLayer) -> Report {
    let mut report = empty();
    report.state = State::Ready;
    report.full_window = true;
    report.gpudirect = GpuDirectVerdict {
        path: Path::Peermem,
        why: vec!["nvidia_peermem is loaded".into()],
    };
    let mut pci = PciFacts::default();
    for gpu in 0..8 {
        let address = bdf(0x80 + gpu);
        pci.gpus.push(address);
        pci.functions.insert(address.to_string(), function());
    }
    let mut devices = Vec::new();
    for rail in 0..rails {
        let device = device(rail, layer);
        pci.functions
            .insert(device.pci.unwrap().to_string(), function());
        let key = device.port_key(1);
        report.roles.insert(
            key.clone(),
            RoleFacts {
                role: Role::Rail,
                why: "nearest to a GPU".into(),
            },
        );
        ports::add(&mut report.snapshot, key, layer, &format!("eth{rail}"));
        devices.push(device);
    }
    report.snapshot.devices = Some(Stamped {
        at: NOW,
        value: Arc::new(devices),
    });
    report.snapshot.pci = Some(stamped(pci));
    report.snapshot.gpudirect = Some(stamped(gpudirect_facts()));
    for source in [
        "devices",
        "link",
        "counters",
        "gids",
        "netdev",
        "ethtool",
        "dcb",
        "dot1x",
        "lldp",
        "umad",
        "vf_links",
        "pci",
        "gpudirect",
        "kernel_log",
    ] {
        report.snapshot.sources.insert(
            source.into(),
            SourceHealth {
                source: source.into(),
                subject: "".into(),
                last_ok: Some(NOW),
                micros: 1500,
                stalled_since: None,
                fault: None,
                absent: false,
                via: None,
            },
        );
    }
    report
}

fn bdf(bus: u8) -> Bdf {
    Bdf {
        domain: 0,
        bus,
        device: 0,
        function: 0,
    }
}

fn function() -> PciFunction {
    let link = PcieLink {
        megatransfers: 32_000,
        width: 16,
    };
    PciFunction {
        current: Reading::Value(link),
        max: Reading::Value(link),
        aer: AER_SEVERITIES.map(|severity| (severity, 0)).into(),
        ..PciFunction::default()
    }
}

/// `mlx5_N` at bus 0x10 + N, one port.
pub fn device(number: u8, layer: LinkLayer) -> RdmaDevice {
    RdmaDevice {
        name: format!("mlx5_{number}"),
        driver: "mlx5_core".into(),
        pci_id: Some("15b3:1021".into()),
        node_type: Some(1),
        firmware: Some("28.41.1000".into()),
        board_id: Some("MT_0000000838".into()),
        hca_type: Some("MT4129".into()),
        numa_node: Some(0),
        ports: vec![RdmaPort {
            number: 1,
            link_layer: layer,
            netdev: Some(format!("eth{number}")),
        }],
        ..RdmaDevice::at(&bdf(0x10 + number).to_string())
    }
}

/// State of a port.
pub fn link(state: PortState, phys: PhysState) -> Arc<Stamped<LinkFacts>> {
    stamped(LinkFacts {
        state: Reading::Value(state),
        phys_state: Reading::Value(phys),
        rate: Reading::Value(LinkRate {
            rate: BitsPerSec::from_gbps(400),
            lanes: Some(4),
        }),
        lid: Some(0),
        sm_lid: None,
        pkey: None,
    })
}

fn gpudirect_facts() -> GpuDirectFacts {
    let live = || Module {
        version: Some("535.129.03".into()),
        taint: Some("OE".into()),
        state: Some("live".into()),
    };
    GpuDirectFacts {
        modules: Reading::Value(
            ["nvidia", "nvidia_peermem", "ib_core", "mlx5_core"]
                .into_iter()
                .map(|name| (name.to_string(), live()))
                .collect(),
        ),
        driver: Reading::Value(NvidiaDriver {
            version: "535.129.03".into(),
            open: Some(false),
        }),
        nvidia_fs: Reading::Value(NvidiaFs {
            version: None,
            errors: [("Reads/err".to_string(), 0)].into(),
            acs_bridges: Vec::new(),
        }),
        ..GpuDirectFacts::default()
    }
}

/// A finding on a subject.
pub fn finding(
    check: &'static str,
    subject: &str,
    reason: &'static str,
    status: Status,
) -> Finding {
    Finding {
        check,
        key: subject.into(),
        subject: subject.into(),
        status,
        weight: Weight::Verdict,
        reason,
        since: Millis(480_000),
        message: format!("{subject} is not as it should be."),
        remedy: "Look at the cable.".into(),
        action: Action::None,
        evidence: [
            ("phys_state".to_string(), serde_json::json!("polling")),
            ("peers_up".to_string(), serde_json::json!(7)),
        ]
        .into(),
        expected: None,
        caused_by: None,
        timing: crate::check::Timing::default(),
        unseen: false,
    }
}

/// `mlx5_3` of an 8-rail node down since two minutes, and an Xid 79.
pub fn broken() -> Report {
    let mut report = node(8, LinkLayer::Infiniband);
    report.state = State::Unready;
    report.since = Millis(480_000);
    report.reasons = vec!["GpuLost".into(), "LinkDown".into()];
    let key = device(3, LinkLayer::Infiniband).port_key(1);
    report
        .snapshot
        .links
        .insert(key.clone(), link(PortState::Down, PhysState::Polling));
    report.findings = vec![
        finding("xid", "0000:83:00", "GpuLost", Status::Failing),
        Finding {
            key: key.to_string(),
            ..finding("link_state", "mlx5_3/1", "LinkDown", Status::Failing)
        },
    ];
    report.xids = vec![XidSeen {
        pci: Some("0000:83:00".into()),
        xid: 79,
        class: "bus".into(),
        count: 2,
        first: Millis(470_000),
        last: Millis(480_000),
        message: "GPU has fallen off the bus.".into(),
        process: None,
    }];
    let totals = Arc::make_mut(&mut report.totals);
    totals.xids.insert("0000:83:00".into(), [(79, 2)].into());
    totals
        .nic_events
        .insert("0000:13:00".into(), [("nic_link_down".into(), 1)].into());
    totals.link_edges.insert(key, 1);
    totals.transitions.insert("unready".into(), 1);
    report
}
