use super::*;
use crate::source::testtree::TestTree;
use proptest::prelude::*;

/// What lldpd 1.0.16 sends for SONiC's way of naming ports.
const LEAF_3: &str = "0207042201 83026fa5 040d0745746865726e6574312f3132 06020008 0a064c6561662d33
    0c0c4c6561662d3320534f4e6943 0e04009c0080 10181102fe80000000000000200183fffe026fa5020000000200
    080945746865726e657431 fe0900120f030100000000 fe0900120f01008000 0036 0000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let head = u16::from(kind) << 9 | u16::try_from(value.len()).unwrap();
    [&head.to_be_bytes()[..], value].concat()
}

/// Chassis `leaf`, this port ID, TTL 120, and more.
fn lldpdu(port: &[u8], more: &[(u8, &[u8])]) -> Vec<u8> {
    let mut all = [tlv(1, b"\x07leaf"), tlv(2, port), tlv(3, &[0, 120])].concat();
    for (kind, value) in more {
        all.extend(tlv(*kind, value));
    }
    all
}

fn named(lldpdu: &[u8]) -> Option<String> {
    parse(lldpdu).map(|heard| heard.neighbor.to_string())
}

#[test]
fn what_lldpd_sends() {
    let heard = parse(&bytes(LEAF_3)).unwrap();
    let neighbor = Neighbor {
        switch: "Leaf-3".into(),
        switch_port: "Ethernet1/12".into(),
        description: Some("Ethernet1".into()),
        ids: ("22:01:83:02:6f:a5".into(), "Ethernet1/12".into()),
    };
    let ttl = Duration::from_secs(8);
    assert_eq!(heard, Advertisement { neighbor, ttl });
}

#[test]
fn names_of_switches_and_ports() {
    type Row<'a> = (&'a [u8], &'a [(u8, &'a [u8])], &'a str);
    let mac = b"\x03\x02\x00\x00\x00\x00\x01";
    let rows: [Row<'_>; 13] = [
        (b"\x05swp1", &[], "leaf swp1"),
        (b"\x05swp1", &[(5, b"leaf-1")], "leaf-1 swp1"),
        // An end, then padding.
        (b"\x05swp1", &[(0, b""), (5, b"late")], "leaf swp1"),
        // Unknown kinds, and an organisation's.
        (b"\x05swp1", &[(9, b"x"), (127, b"")], "leaf swp1"),
        (mac, &[], "leaf 02:00:00:00:00:01"),
        (mac, &[(4, b"swp7")], "leaf swp7"),
        (mac, &[(4, b"")], "leaf 02:00:00:00:00:01"),
        (b"\x07512", &[(4, b"xe-0/0/1")], "leaf 512"),
        (b"\x04\x01\x0a\x00\x00\x07", &[], "leaf 10.0.0.7"),
        (b"\x04\x02\xfe\x80", &[], "leaf 02:fe:80"),
        (
            b"\x04\x02\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
            &[],
            "leaf fe80::1",
        ),
        (b"\x07\x00\x01", &[], "leaf 00:01"),
        // What is not printable goes, and so does a second line.
        (
            b"\x05swp1",
            &[(5, b"a\x1b[31m\"\xff b\nc")],
            "a[31m\" b swp1",
        ),
    ];
    for (port, more, want) in rows {
        assert_eq!(named(&lldpdu(port, more)).as_deref(), Some(want));
    }
    let long = [b'x'; 255];
    let got = parse(&lldpdu(b"\x05swp1", &[(5, &long)])).unwrap();
    assert_eq!(got.neighbor.switch.len(), 128);
}

#[test]
fn what_is_not_a_whole_lldpdu_is_nothing() {
    let whole = lldpdu(b"\x05swp1", &[(5, b"leaf-1")]);
    assert!(parse(&whole).is_some());
    let ends_of_tlvs = [7, 14, 18, 26].map(|end| end.min(whole.len()));
    for end in 0..whole.len() {
        // Cut between two TLVs, the first three are enough.
        let enough = ends_of_tlvs.contains(&end) && end >= 18;
        assert_eq!(parse(&whole[..end]).is_some(), enough, "{end}");
    }
    let (chassis, port, ttl) = (tlv(1, b"\x07leaf"), tlv(2, b"\x05swp1"), tlv(3, &[0, 9]));
    for parts in [
        vec![&port, &chassis, &ttl],
        vec![&chassis, &ttl, &port],
        vec![&chassis, &port, &ttl, &port],
        vec![&chassis, &port, &tlv(3, &[9])],
        vec![&tlv(1, b"\x07"), &port, &ttl],
        vec![&chassis, &tlv(2, b""), &ttl],
        vec![&chassis, &tlv(2, &[7; 257]), &ttl],
        vec![&tlv(0, b""), &chassis, &port, &ttl],
    ] {
        let frame: Vec<u8> = parts.into_iter().flatten().copied().collect();
        assert_eq!(named(&frame), None, "{frame:02x?}");
    }
}

#[test]
fn a_directory_tree_has_no_frames() {
    let tree = TestTree::new();
    assert!(matches!(Listener::open(&tree.host()), Reading::Absent));
}

proptest! {
    #[test]
    fn any_bytes_are_read_within_bounds(mut frame in prop::collection::vec(any::<u8>(), 0..1600), valid in any::<bool>()) {
        if valid {
            let mut start = lldpdu(b"\x05swp1", &[]);
            start.append(&mut frame);
            frame = start;
        }
        if let Some(heard) = parse(&frame) {
            let Neighbor { switch, switch_port, description, ids } = heard.neighbor;
            for text in [switch, switch_port, description.unwrap_or("x".into()), ids.0, ids.1] {
                prop_assert!((1..=128).contains(&text.chars().count()), "{text:?}");
                prop_assert!(!text.contains(char::is_control), "{text:?}");
            }
        }
    }
}
