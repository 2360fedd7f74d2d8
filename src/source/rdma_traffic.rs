//! About how many bytes an RDMA device has moved, as far as its counters tell: enough to say whether
//! it moves any.

use crate::host::Host;
use crate::observe::Reading;
use crate::source::rdma_port::{class_dir, port_dir};
use crate::source::tree;
use std::path::Path;

/// PMA counters, in words of four bytes.
const PMA: &str = "port_xmit_data port_rcv_data";

/// Hardware counters of bytes: EFA and bnxt_re; irdma.
const BYTES: &str = "tx_bytes rx_bytes ip4InOctets ip4OutOctets ip6InOctets ip6OutOctets";

/// Hardware counters of packets: rxe has no others.
const PACKETS: &str = "sent_pkts rcvd_pkts";

/// A packet counts as this many bytes: the smallest usual path MTU of RoCE.
const PACKET_BYTES: u64 = 1024;

/// Bytes that a device moved in both directions, from an arbitrary start; absent without byte counters. Without `pma` its
/// PMA files stay closed: each costs a firmware command. Not observable where they may not be read: they
/// must not be tried again, as each try is logged by the kernel (see [`super::counters`]).
pub fn read(host: &Host, device: &str, ports: u32, pma: bool) -> Reading<u64> {
    let mut total: Option<u64> = None;
    for port in 1..=ports.min(u32::from(u8::MAX)) {
        let dir = port_dir(device, port);
        let words = match pma {
            true => sum(host, &dir.join("counters"), PMA, 4),
            false => Reading::Absent,
        };
        if words == Reading::NotObservable {
            return words;
        }
        let hw = dir.join("hw_counters");
        let moved = (words.into_value())
            .or_else(|| sum(host, &hw, BYTES, 1).into_value())
            .or_else(|| sum(host, &hw, PACKETS, PACKET_BYTES).into_value());
        total = (total.into_iter().chain(moved)).reduce(u64::saturating_add);
    }
    let of_device = || sum(host, &class_dir(device).join("hw_counters"), BYTES, 1).into_value();
    (total.or_else(of_device)).map_or(Reading::Absent, Reading::Value)
}

/// The sum of the counters that are there, in bytes; not observable where one refuses.
fn sum(host: &Host, dir: &Path, names: &str, unit: u64) -> Reading<u64> {
    let mut total: Reading<u64> = Reading::Absent;
    for name in names.split(' ') {
        match tree::read_u64(host, dir.join(name)) {
            Reading::Value(value) => {
                let so_far = total.value().copied().unwrap_or(0);
                total = Reading::Value(so_far.saturating_add(value.saturating_mul(unit)));
            }
            Reading::NotObservable => return Reading::NotObservable,
            _ => {}
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn each_driver_s_counters() {
        for (files, pma, want) in [
            (
                vec![
                    ("ports/1/counters/port_xmit_data", "10"),
                    ("ports/1/counters/port_rcv_data", "5"),
                    ("ports/1/hw_counters/rx_bytes", "9"),
                ],
                true,
                Reading::Value(60),
            ),
            // Excluded: PMA stays closed.
            (
                vec![
                    ("ports/1/counters/port_xmit_data", "10"),
                    ("ports/1/hw_counters/rx_bytes", "9"),
                ],
                false,
                Reading::Value(9),
            ),
            (
                vec![
                    ("ports/1/hw_counters/sent_pkts", "3"),
                    ("ports/1/hw_counters/rcvd_pkts", "1"),
                ],
                true,
                Reading::Value(4096),
            ),
            // EFA counts by device.
            (
                vec![
                    ("ports/1/hw_counters/lifespan", "12"),
                    ("hw_counters/tx_bytes", "8"),
                    ("hw_counters/rx_bytes", "7"),
                ],
                true,
                Reading::Value(15),
            ),
            (vec![("ports/1/state", "4: ACTIVE")], true, Reading::Absent),
            // Two ports.
            (
                vec![
                    ("ports/1/counters/port_xmit_data", "1"),
                    ("ports/2/counters/port_rcv_data", "1"),
                ],
                true,
                Reading::Value(8),
            ),
        ] {
            let tree = TestTree::new();
            tree.files("sys/class/infiniband/x", &files);
            assert_eq!(read(&tree.host(), "x", 2, pma), want, "{files:?}");
        }
    }

    #[test]
    fn a_restricted_function_is_not_asked_again() {
        let tree = TestTree::new();
        let file = "sys/class/infiniband/x/ports/1/counters/port_xmit_data";
        tree.file(file, "1");
        tree.errno(22, file);
        assert_eq!(read(&tree.host(), "x", 1, true), Reading::NotObservable);
        assert_eq!(read(&tree.host(), "x", 1, false), Reading::Absent);
    }
}
