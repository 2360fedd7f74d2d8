//! About how many bytes an RDMA device has moved, as far as its counters tell: enough to say whether
//! it moves any.

use crate::host::Host;
use crate::observe::reading::Reading;
use crate::source::rdma_port::class_dir;
use crate::source::rdma_port::port_dir;
use crate::source::tree;
use std::path::Path;

/// PMA counters, in words of four bytes.
const PMA: [&str; 2] = ["port_xmit_data", "port_rcv_data"];

/// Hardware counters of bytes: EFA and bnxt_re; irdma.
const BYTES: [&str; 6] = [
    "tx_bytes",
    "rx_bytes",
    "ip4InOctets",
    "ip4OutOctets",
    "ip6InOctets",
    "ip6OutOctets",
];

/// Hardware counters of packets: rxe has no others.
const PACKETS: [&str; 2] = ["sent_pkts", "rcvd_pkts"];

/// A packet counts as this many bytes: the smallest usual path MTU of RoCE.
const PACKET_BYTES: u64 = 1024;

/// What a device moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceMoved {
    /// Bytes, both ways, since whenever.
    Bytes(u64),
    /// It has no counter that tells.
    Untold,
    /// Its PMA counters may not be read: they must not be tried again, as each try is logged by the
    /// kernel (see [`super::counters`]).
    Restricted,
}

/// Reads it. Without `pma` its PMA files stay closed: each costs a firmware command.
pub fn read(host: &Host, device: &str, ports: u32, pma: bool) -> DeviceMoved {
    let mut total: Option<u64> = None;
    let mut add = |dir: &Path, names: &[&str], unit: u64| -> Result<bool, ()> {
        let mut any = false;
        for name in names {
            let path = dir.join(name);
            match tree::read_text(host, &path).and_then(|text| tree::parse_u64(&text, &path)) {
                Reading::Value(value) => {
                    let so_far = total.unwrap_or(0);
                    total = Some(so_far.saturating_add(value.saturating_mul(unit)));
                    any = true;
                }
                Reading::NotObservable => return Err(()),
                _ => {}
            }
        }
        Ok(any)
    };
    for port in 1..=ports.min(u32::from(u8::MAX)) {
        let dir = port_dir(device, port);
        if pma {
            match add(&dir.join("counters"), &PMA, 4) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(()) => return DeviceMoved::Restricted,
            }
        }
        let hw = dir.join("hw_counters");
        if add(&hw, &BYTES, 1) != Ok(true) {
            let _ = add(&hw, &PACKETS, PACKET_BYTES);
        }
    }
    if total.is_none() {
        let mut add_device = |names: &[&str]| {
            for name in names {
                let path = class_dir(device).join("hw_counters").join(name);
                let value = tree::read_text(host, &path).and_then(|t| tree::parse_u64(&t, &path));
                if let Reading::Value(value) = value {
                    total = Some(total.unwrap_or(0).saturating_add(value));
                }
            }
        };
        add_device(&BYTES);
    }
    total.map_or(DeviceMoved::Untold, DeviceMoved::Bytes)
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
                DeviceMoved::Bytes(60),
            ),
            // Excluded: PMA stays closed.
            (
                vec![
                    ("ports/1/counters/port_xmit_data", "10"),
                    ("ports/1/hw_counters/rx_bytes", "9"),
                ],
                false,
                DeviceMoved::Bytes(9),
            ),
            (
                vec![
                    ("ports/1/hw_counters/sent_pkts", "3"),
                    ("ports/1/hw_counters/rcvd_pkts", "1"),
                ],
                true,
                DeviceMoved::Bytes(4096),
            ),
            // EFA counts by device.
            (
                vec![
                    ("ports/1/hw_counters/lifespan", "12"),
                    ("hw_counters/tx_bytes", "8"),
                    ("hw_counters/rx_bytes", "7"),
                ],
                true,
                DeviceMoved::Bytes(15),
            ),
            (
                vec![("ports/1/state", "4: ACTIVE")],
                true,
                DeviceMoved::Untold,
            ),
            // Two ports.
            (
                vec![
                    ("ports/1/counters/port_xmit_data", "1"),
                    ("ports/2/counters/port_rcv_data", "1"),
                ],
                true,
                DeviceMoved::Bytes(8),
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
        assert_eq!(read(&tree.host(), "x", 1, true), DeviceMoved::Restricted);
        assert_eq!(read(&tree.host(), "x", 1, false), DeviceMoved::Untold);
    }
}
