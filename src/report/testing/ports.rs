//! Ports of a report in tests.

use super::{MLX5_HW, link, stamped};
use crate::observe::{
    DcbFacts, EthtoolFacts, Gid, GidKind, GidTable, LinkLayer, NetdevFacts, PhysState,
    PortCounters, PortState, Reading, Snapshot,
};
use crate::units::PortKey;

const PMA_ERRORS: &str = "symbol_error link_error_recovery link_downed port_rcv_errors \
    port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_discards \
    port_xmit_constraint_errors port_rcv_constraint_errors local_link_integrity_errors \
    excessive_buffer_overrun_errors VL15_dropped port_xmit_wait";

pub(super) fn add(snapshot: &mut Snapshot, key: PortKey, layer: LinkLayer, netdev: &str) {
    snapshot
        .links
        .insert(key.clone(), link(PortState::Active, PhysState::LinkUp));
    let pma = PMA_ERRORS.split(' ').map(|name| (name, 0)).chain([
        ("port_rcv_data", 4000),
        ("port_xmit_data", 8000),
        ("port_rcv_packets", 10),
        ("port_xmit_packets", 20),
        ("unicast_rcv_packets", 10),
        ("unicast_xmit_packets", 20),
        ("multicast_rcv_packets", 0),
        ("multicast_xmit_packets", 0),
    ]);
    snapshot.counters.insert(
        key.clone(),
        stamped(PortCounters {
            pma: pma.map(|(n, v)| (n.into(), Reading::Value(v))).collect(),
            hw: MLX5_HW
                .iter()
                .map(|name| ((*name).into(), Reading::Value(0)))
                .collect(),
            ..PortCounters::default()
        }),
    );
    snapshot.netdevs.insert(
        netdev.into(),
        stamped(NetdevFacts {
            carrier: Reading::Value(true),
            operstate: Some("up".into()),
            speed_mbps: Reading::Value(400_000),
            mtu: Some(9000),
            carrier_changes: Reading::Value(2),
            ..NetdevFacts::default()
        }),
    );
    if layer == LinkLayer::Ethernet {
        add_ethernet(snapshot, key, netdev);
    }
}

fn add_ethernet(snapshot: &mut Snapshot, key: PortKey, netdev: &str) {
    let discards = (0..8).map(|priority| (format!("prio{priority}.rx_discards"), 0));
    // mlx5 has pause counters only where PFC is on.
    let pause = [
        ("prio3.rx_pause_frames", 7),
        ("prio3.tx_pause_frames", 0),
        ("prio3.rx_pause_micros", 1_500_000),
        ("prio3.tx_pause_micros", 0),
    ];
    let other = ["rx_discards_phy", "tx_discards_phy", "link_down_events_phy"];
    let named = pause.into_iter().chain(other.map(|name| (name, 0)));
    let named = named.map(|(name, count)| (name.to_string(), count));
    snapshot.ethtool.insert(
        netdev.into(),
        stamped(Reading::Value(EthtoolFacts {
            driver: "mlx5_core".into(),
            counts: discards.chain(named).collect(),
        })),
    );
    snapshot.dcb.insert(
        netdev.into(),
        stamped(Reading::Value(DcbFacts {
            pfc_enabled: Some(0b1000),
            ..DcbFacts::default()
        })),
    );
    snapshot.gids.insert(
        key,
        stamped(GidTable {
            gids: vec![
                gid(0, GidKind::IbOrRoceV1, netdev),
                gid(3, GidKind::RoceV2, netdev),
            ],
            complete: true,
        }),
    );
}

fn gid(index: u32, kind: GidKind, netdev: &str) -> Gid {
    Gid {
        index,
        gid: "0000:0000:0000:0000:0000:ffff:0a00:0001".into(),
        kind: Some(kind),
        netdev: Some(netdev.into()),
    }
}
