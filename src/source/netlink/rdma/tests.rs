//! Answers written as nldev.c writes them.

use super::*;
use crate::source::netlink::{Message, messages};

/// The payload of a message written by `request`.
pub(super) fn payload(request: Request) -> Vec<u8> {
    let bytes = request.finish(1);
    let Some(Ok(Message { payload, .. })) = messages(&bytes).next() else {
        panic!("no message");
    };
    payload.to_vec()
}

pub(super) fn nest(entries: &[(u16, Vec<u8>)]) -> Vec<u8> {
    payload(
        entries
            .iter()
            .fold(Request::new(0x1401, 0), |r, (id, v)| r.attr(*id, v)),
    )
}

#[test]
fn a_device() {
    let bytes = payload(
        Request::new(CMD_GET, 0)
            .u32(1, 3)
            .text(2, "mlx5_0")
            .u32(3, 2)
            .attr(0, &[])
            .attr(4, &[0; 8])
            .u32(4242, 1),
    );
    let want = NlDevice {
        index: 3,
        name: "mlx5_0".into(),
        ports: 2,
    };
    assert_eq!(device(&bytes), Ok(want));
    // Without an index it is nothing.
    assert!(device(&payload(Request::new(CMD_GET, 0).text(2, "x"))).is_err());
}

#[test]
fn states_of_ports() {
    let port = |number: u32, state: u8, phys: u8| {
        let request = Request::new(CMD_PORT_GET, 0).u32(1, 0).u32(3, number);
        port_link(&payload(request.attr(12, &[state]).attr(13, &[phys]))).unwrap()
    };
    for (number, state, phys, want) in [
        (1, 4, 5, (PortState::Active, PhysState::LinkUp)),
        (2, 1, 3, (PortState::Down, PhysState::Disabled)),
        (3, 2, 4, (PortState::Init, PhysState::Training)),
    ] {
        let port = port(number, state, phys);
        assert_eq!((port.state, port.phys_state), want);
        assert_eq!(port.port, number);
    }
    // A port without a state is malformed, not down.
    let none = Request::new(CMD_PORT_GET, 0).u32(3, 2).attr(13, &[3]);
    assert!(matches!(
        port_link(&payload(none)),
        Err(NetlinkError::Malformed(_))
    ));
}

#[test]
fn counters_with_nest_flags() {
    const NESTED: u16 = 0x8000;
    let entry = |name: &[u8], value: u64| {
        let fields = [
            (82, [name, &[0]].concat()),
            (0, Vec::new()),
            (83, value.to_ne_bytes().to_vec()),
        ];
        (81 | NESTED, nest(&fields))
    };
    let table = nest(&[
        entry(b"rx_read_requests", 0),
        entry(b"out_of_sequence", 1 << 40),
    ]);
    let bytes = payload(
        Request::new(CMD_STAT_GET, 0)
            .u32(1, 0)
            .u32(3, 1)
            .attr(80 | NESTED, &table),
    );
    let want = BTreeMap::from([
        ("rx_read_requests".to_string(), 0),
        ("out_of_sequence".to_string(), 1 << 40),
    ]);
    assert_eq!(counters(&bytes), Ok(want));
    // An empty table has no counters; no table is malformed; a short value is never zero.
    let empty = payload(Request::new(CMD_STAT_GET, 0).attr(80, &[]));
    assert_eq!(counters(&empty), Ok(BTreeMap::new()));
    assert!(counters(&payload(Request::new(CMD_STAT_GET, 0).u32(1, 0))).is_err());
    let short = nest(&[(81, nest(&[(82, b"x\0".to_vec()), (83, vec![1, 0, 0, 0])]))]);
    assert!(counters(&payload(Request::new(CMD_STAT_GET, 0).attr(80, &short))).is_err());
}

#[test]
fn an_index_that_is_another_device_s_by_now() {
    let answer = |name| payload(Request::new(CMD_PORT_GET, 0).u32(1, 3).text(2, name));
    assert_eq!(is_of(&answer("mlx5_3"), "mlx5_3"), Ok(()));
    assert_eq!(is_of(&answer("mlx5_4"), "mlx5_3"), Err(NetlinkError::Gone));
    let nameless = payload(Request::new(CMD_PORT_GET, 0).u32(1, 3));
    assert_eq!(is_of(&nameless, "mlx5_3"), Ok(()));
}

#[test]
fn resources_and_system() {
    let entry = |name: &str, value: u64| {
        let fields = [
            (17, [name.as_bytes(), &[0]].concat()),
            (18, value.to_ne_bytes().to_vec()),
        ];
        (16, nest(&fields))
    };
    let table = nest(&[entry("qp", 12), entry("mr", 3)]);
    let bytes = payload(Request::new(CMD_RES_GET, 0).u32(1, 0).attr(15, &table));
    let want = BTreeMap::from([("qp".to_string(), 12), ("mr".to_string(), 3)]);
    assert_eq!(resources(&bytes), Ok(want));

    let rows = [
        (vec![(66, vec![1]), (103, vec![1])], Some(false), true),
        (vec![(66, vec![0])], Some(true), false),
        (vec![], None, false),
    ];
    for (attrs, netns_exclusive, monitor) in rows {
        assert_eq!(
            system(&nest(&attrs)),
            Ok(System {
                netns_exclusive,
                monitor
            })
        );
    }
}
