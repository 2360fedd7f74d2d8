//! GID table of a port. The core answers from its cache: no firmware command.

use crate::host::Host;
use crate::observe::{Gid, GidKind, GidTable, LinkLayer, RdmaDevice, Reading};
use crate::source::{parse, rdma_port, tree};
use std::{cell::LazyCell, path::Path};

/// Slots read as a rule: tables have up to 256 (rxe: 1024), and what is used comes first.
const MAX_SLOTS: u32 = 16;

/// Empty slots in a row after which the rest is left alone, as a rule.
const MAX_EMPTY: u32 = 8;

/// Slots read where an address that RoCE can use did not turn up among the first ones: only a
/// table that was seen to its end tells that there is none.
pub const ALL_SLOTS: u32 = 1024;

/// Filled slots among the first of a port's table, of an Ethernet port until a RoCE v2 address of the
/// best kind, IPv4, is found. `complete` is set only where the table's end was reached.
pub fn read(host: &Host, device: &RdmaDevice, port: u32) -> Reading<GidTable> {
    let ethernet = (device.ports.iter())
        .any(|known| known.number == port && known.link_layer == LinkLayer::Ethernet);
    let dir = rdma_port::port_dir(&device.name, port);
    let slot_file = |slot: u32| dir.join("gids").join(slot.to_string());
    let mut table = GidTable::default();
    let mut empty = 0;
    let mut observed = false;
    let mut slot = 0;
    let last = LazyCell::new(|| last_slot(host, &dir.join("gids")));
    let mut whole = true;
    while slot < ALL_SLOTS {
        let seeking = ethernet && !table.gids.iter().any(is_ipv4);
        if !seeking && (slot >= MAX_SLOTS || empty >= MAX_EMPTY) {
            break;
        }
        let gid = match tree::read_text(host, slot_file(slot)) {
            Reading::Value(text) => {
                observed = true;
                let gid = parse_gid(&text);
                // Of a torn or garbled slot nothing is known.
                whole &= gid.is_some() || text.trim().parse::<std::net::Ipv6Addr>().is_ok();
                gid
            }
            Reading::NotObservable => None,
            // The end, unless slots beyond it are there: then one is missing, and what it held is
            // not known.
            Reading::Absent if slot < *last => {
                whole = false;
                None
            }
            Reading::Absent if slot == 0 => return Reading::Absent,
            Reading::Absent => break,
            Reading::Failed(fault) => return Reading::Failed(fault),
        };
        empty = if gid.is_some() { 0 } else { empty + 1 };
        (table.gids).extend(gid.map(|gid| with_attributes(host, &dir, slot, gid)));
        slot += 1;
    }
    if !observed {
        return Reading::NotObservable;
    }
    table.complete = whole && !tree::exists(host, slot_file(slot));
    Reading::Value(table)
}

/// One slot of a port's table, whichever: none where it is empty, absent beyond the table's end.
pub fn read_slot(host: &Host, device: &str, port: u32, slot: u32) -> Reading<Option<Gid>> {
    let dir = rdma_port::port_dir(device, port);
    match tree::read_text(host, dir.join("gids").join(slot.to_string())) {
        // Some drivers refuse to tell an empty slot.
        Reading::NotObservable => Reading::Value(None),
        read => read.map(|text| {
            let gid = parse_gid(&text)?;
            Some(with_attributes(host, &dir, slot, gid))
        }),
    }
}

fn with_attributes(host: &Host, dir: &Path, slot: u32, gid: String) -> Gid {
    let attribute = |kind: &str| dir.join("gid_attrs").join(kind).join(slot.to_string());
    Gid {
        index: slot,
        gid,
        kind: parse::word(host, attribute("types")).and_then(|text| parse_kind(&text)),
        netdev: parse::word(host, attribute("ndevs")),
    }
}

/// The highest slot that the directory of a table shows.
fn last_slot(host: &Host, dir: &Path) -> u32 {
    let slots = tree::names(host, dir).into_iter();
    let numbers = slots.filter_map(|name| name.parse().ok());
    numbers.max().unwrap_or(0)
}

/// A RoCE v2 address that NCCL takes by default, and no interface gives itself.
fn is_ipv4(gid: &Gid) -> bool {
    let address: Option<std::net::Ipv6Addr> = gid.gid.parse().ok();
    let ipv4 = address.and_then(|address| address.to_ipv4_mapped());
    gid.kind == Some(GidKind::RoceV2) && ipv4.is_some_and(|ipv4| !ipv4.is_link_local())
}

/// A GID in full form; none of an empty slot, which prints all zeroes, and of junk.
pub fn parse_gid(text: &str) -> Option<String> {
    let text = text.trim();
    let address: std::net::Ipv6Addr = text.parse().ok()?;
    (!address.is_unspecified()).then(|| text.to_string())
}

/// Parses `gid_attrs/types/N`; `None` for words of later kernels.
pub fn parse_kind(text: &str) -> Option<GidKind> {
    match text.trim() {
        "IB/RoCE v1" => Some(GidKind::IbOrRoceV1),
        "RoCE v2" => Some(GidKind::RoceV2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::infiniband::enumerate;
    use crate::source::testtree::TestTree;

    const ZERO: &str = "0000:0000:0000:0000:0000:0000:0000:0000";
    const LOCAL: &str = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
    const V4: &str = "0000:0000:0000:0000:0000:ffff:0a00:0001";

    const V6: &str = "2001:0db8:0000:0001:0000:0000:0000:0001";

    fn read_first(tree: &TestTree) -> Reading<GidTable> {
        let host = tree.host();
        let devices = enumerate(&host);
        read(&host, &devices.value().unwrap()[0], 1)
    }

    fn with_slots(slots: &[(&str, Option<&str>)]) -> TestTree {
        let tree = TestTree::new();
        let dir = tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
        for (i, (gid, kind)) in slots.iter().enumerate() {
            tree.file(&format!("{dir}/ports/1/gids/{i}"), gid);
            let attrs = format!("{dir}/ports/1/gid_attrs");
            tree.file(&format!("{attrs}/types/{i}"), kind.unwrap_or(""));
            tree.file(&format!("{attrs}/ndevs/{i}"), "eth3");
            if kind.is_none() {
                for what in ["types", "ndevs"] {
                    let path = format!("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/{what}/{i}");
                    tree.errno(22, &path);
                }
            }
        }
        tree
    }

    #[test]
    fn filled_slots_keep_their_index() {
        let tree = with_slots(&[
            (LOCAL, Some("IB/RoCE v1")),
            (LOCAL, Some("RoCE v2")),
            (ZERO, None),
            (V4, Some("RoCE v2")),
            (LOCAL, None),
        ]);
        let Reading::Value(table) = read_first(&tree) else {
            panic!("no table");
        };
        assert!(table.complete);
        let got: Vec<_> = table
            .gids
            .iter()
            .map(|gid| (gid.index, gid.kind, gid.netdev.as_deref()))
            .collect();
        assert_eq!(
            got,
            [
                (0, Some(GidKind::IbOrRoceV1), Some("eth3")),
                (1, Some(GidKind::RoceV2), Some("eth3")),
                (3, Some(GidKind::RoceV2), Some("eth3")),
                (4, None, None),
            ]
        );
    }

    #[test]
    fn bounds_are_told() {
        let many = vec![(LOCAL, Some("RoCE v2")); 20];
        let table = read_first(&with_slots(&many)).value().cloned().unwrap();
        assert_eq!(table.gids.len(), 16);
        assert!(!table.complete);
        let sixteen = vec![(LOCAL, Some("RoCE v2")); 16];
        let table = read_first(&with_slots(&sixteen)).value().cloned().unwrap();
        assert!(table.complete);
        let mut sparse = vec![(ZERO, None); 10];
        sparse[9] = (LOCAL, Some("RoCE v2"));
        let table = read_first(&with_slots(&sparse)).value().cloned().unwrap();
        assert!(table.gids.is_empty());
        assert!(!table.complete);
    }

    #[test]
    fn an_ethernet_port_is_read_until_a_usable_address_turns_up() {
        const V1: Option<&str> = Some("IB/RoCE v1");
        const V2: Option<&str> = Some("RoCE v2");
        // What is filled of 256 slots: mlx5 puts its own two addresses first.
        let read = |filled: &[(usize, (&'static str, Option<&'static str>))]| {
            let mut slots = vec![(ZERO, None); 256];
            for (slot, gid) in filled {
                slots[*slot] = *gid;
            }
            let tree = with_slots(&slots);
            tree.file("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet");
            read_first(&tree).value().cloned().unwrap()
        };
        let table = read(&[(0, (LOCAL, V1)), (1, (LOCAL, V2)), (3, (V4, V2))]);
        assert_eq!((table.gids.len(), table.complete), (3, false));
        // Slots were freed in between.
        let table = read(&[(0, (LOCAL, V1)), (1, (LOCAL, V2)), (200, (V4, V2))]);
        assert_eq!((table.gids.len(), table.complete), (3, false));
        // NCCL takes IPv4 before IPv6.
        let table = read(&[(1, (V6, V2)), (200, (V4, V2))]);
        assert_eq!((table.gids.len(), table.complete), (2, false));
        let table = read(&[(1, (V6, V2))]);
        assert_eq!((table.gids.len(), table.complete), (1, true));
        // None anywhere: only now that is known.
        let table = read(&[(0, (LOCAL, V1)), (1, (LOCAL, V2))]);
        assert_eq!((table.gids.len(), table.complete), (2, true));
        let table = read(&[(0, (LOCAL, V1))]);
        assert_eq!((table.gids.len(), table.complete), (1, true));
        // A torn slot may have held one.
        let table = read(&[(0, (LOCAL, V1)), (3, ("", V2))]);
        assert_eq!((table.gids.len(), table.complete), (1, false));
    }

    #[test]
    fn missing_and_unreadable_tables() {
        assert_eq!(read_first(&with_slots(&[])), Reading::Absent);
        let tree = with_slots(&[(LOCAL, None)]);
        tree.errno(22, "sys/class/infiniband/mlx5_0/ports/1/gids/0");
        assert_eq!(read_first(&tree), Reading::NotObservable);
        let tree = with_slots(&[(LOCAL, None)]);
        tree.errno(19, "sys/class/infiniband/mlx5_0/ports/1/gids/0");
        assert!(matches!(read_first(&tree), Reading::Failed(_)));
    }

    #[test]
    fn a_slot_that_is_missing_is_not_the_end() {
        let tree = with_slots(&[
            (LOCAL, Some("IB/RoCE v1")),
            (LOCAL, Some("RoCE v2")),
            (V4, Some("RoCE v2")),
        ]);
        for (gone, want) in [("1", vec![0, 2]), ("0", vec![2]), ("2", vec![])] {
            tree.remove(&format!("sys/class/infiniband/mlx5_0/ports/1/gids/{gone}"));
            let read = read_first(&tree);
            let table = read.value().cloned().unwrap_or_default();
            let indexes: Vec<u32> = table.gids.iter().map(|gid| gid.index).collect();
            assert_eq!((indexes, table.complete), (want, false), "{gone}");
        }
    }

    #[test]
    fn a_slot_by_itself() {
        let mut slots = vec![(ZERO, None); 40];
        slots[30] = (V4, Some("RoCE v2"));
        let tree = with_slots(&slots);
        let slot = |slot| read_slot(&tree.host(), "mlx5_0", 1, slot);
        assert_eq!(slot(29), Reading::Value(None));
        assert_eq!(slot(30).value().unwrap().as_ref().unwrap().gid, V4);
        assert_eq!(slot(40), Reading::Absent);
        tree.errno(22, "sys/class/infiniband/mlx5_0/ports/1/gids/30");
        assert_eq!(slot(30), Reading::Value(None));
    }

    #[test]
    fn gid_text() {
        assert_eq!(parse_gid(ZERO), None);
        assert_eq!(parse_gid("fe80:00"), None);
        assert_eq!(parse_gid(V4).as_deref(), Some(V4));
    }
}
