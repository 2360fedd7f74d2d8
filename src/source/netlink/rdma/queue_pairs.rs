//! Queue pairs of a device (RDMA_NLDEV_CMD_RES_QP_GET; fill_res_qp_entry in nldev.c). The driver is
//! asked about each one (QUERY_QP, a firmware command on most): only for those who need it.

use super::{Client, DEV_INDEX, NLDEV, is_of, needed};
use crate::source::netlink::{Attrs, DUMP, NetlinkError, Reply, Request};

const CMD_RES_QP_GET: u16 = NLDEV | 10;

const RES_QP: u16 = 19;
const RES_QP_ENTRY: u16 = 20;
const RES_TYPE: u16 = 26;
const RES_STATE: u16 = 27;
const RES_PID: u16 = 28;
const RES_KERN_NAME: u16 = 29;

/// More than this many queue pairs of one device are not taken; NCCL nodes have thousands.
const MAX_QUEUE_PAIRS: usize = 1 << 18;

/// `enum ib_qp_type` (include/rdma/ib_verbs.h), as far as it tells who moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpKind {
    /// SMI and GSI (0, 1), the kernel's own.
    Management,
    /// Reliable connected (2), NCCL's kind.
    Rc,
    /// Others by which plugins may move bytes: unreliable connected (3), XRC (9, 10), and a driver's
    /// own (255), EFA's SRD and mlx5's DC.
    Connected,
    /// Unreliable datagram (4), used by management and IPoIB, and types without a name here.
    Datagram,
}

/// Whose a queue pair is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QpOwner {
    /// A module of the kernel.
    Kernel,
    /// A task of this PID namespace: the thread that made it, which need not lead its process
    /// (rdma_restrack_set_name takes `current`).
    Task(u32),
    /// A task that cannot be named from here: of another PID namespace, or gone.
    Hidden,
}

/// One queue pair as RES_QP_GET lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePair {
    /// The transport it uses.
    pub kind: QpKind,
    /// Ready to receive or to send: RTR (2) or RTS (3) of `enum ib_qp_state`.
    pub ready: bool,
    /// The process or kernel module that owns it.
    pub owner: QpOwner,
}

impl Client {
    /// Every queue pair of a device. While they come and go, the kernel may tell one twice or not
    /// at all.
    pub fn queue_pairs(&mut self, index: u32, name: &str) -> Reply<Vec<QueuePair>> {
        let request = Request::new(CMD_RES_QP_GET, DUMP).u32(DEV_INDEX, index);
        let got = self.socket.ask(request, |all: &mut Vec<_>, message| {
            is_of(message.payload, name)?;
            all.extend(queue_pairs(message.payload)?);
            match all.len() > MAX_QUEUE_PAIRS {
                true => Err(NetlinkError::Malformed("queue pairs beyond all measure")),
                false => Ok(()),
            }
        });
        self.or_gone(index, got)
    }
}

/// Parses one message of a dump of queue pairs.
pub fn queue_pairs(payload: &[u8]) -> Reply<Vec<QueuePair>> {
    // A device whose queue pairs are none has a table without entries, or no table.
    let Some(table) = Attrs::parse(payload)?.nest(RES_QP)? else {
        return Ok(Vec::new());
    };
    let entries = table.iter().filter(|attr| attr.id == RES_QP_ENTRY);
    let queue_pairs = entries.map(|attr| {
        let entry = Attrs::parse(attr.bytes)?;
        let owner = match (entry.u32(RES_PID)?, entry.text(RES_KERN_NAME)) {
            (Some(pid), _) if pid != 0 => QpOwner::Task(pid),
            (_, Some(_)) => QpOwner::Kernel,
            _ => QpOwner::Hidden,
        };
        Ok(QueuePair {
            kind: match needed(entry.u8(RES_TYPE)?)? {
                0 | 1 => QpKind::Management,
                2 => QpKind::Rc,
                3 | 9 | 10 | 255 => QpKind::Connected,
                _ => QpKind::Datagram,
            },
            ready: matches!(needed(entry.u8(RES_STATE)?)?, 2 | 3),
            owner,
        })
    });
    queue_pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::rdma::tests::{nest, payload};

    fn entry(fields: &[(u16, Vec<u8>)]) -> (u16, Vec<u8>) {
        (RES_QP_ENTRY, nest(fields))
    }

    fn number(value: u32) -> Vec<u8> {
        value.to_ne_bytes().to_vec()
    }

    #[test]
    fn owners_types_and_states() {
        let rows = [
            // As rxe tells ib_write_bw's, the kernel's GSI, and one made in another PID namespace.
            (
                vec![
                    (3, number(1)),
                    (21, number(18)),
                    (22, number(18)),
                    (26, vec![2]),
                    (27, vec![3]),
                    (28, number(185)),
                ],
                (QpKind::Rc, true, QpOwner::Task(185)),
            ),
            (
                vec![
                    (21, number(1)),
                    (26, vec![1]),
                    (27, vec![3]),
                    (29, b"ib_core\0".to_vec()),
                ],
                (QpKind::Management, true, QpOwner::Kernel),
            ),
            (
                vec![(21, number(19)), (26, vec![4]), (27, vec![0])],
                (QpKind::Datagram, false, QpOwner::Hidden),
            ),
            (
                vec![
                    (21, number(20)),
                    (26, vec![255]),
                    (27, vec![2]),
                    (28, number(0)),
                ],
                (QpKind::Connected, true, QpOwner::Hidden),
            ),
            (
                vec![
                    (21, number(21)),
                    (26, vec![10]),
                    (27, vec![6]),
                    (28, number(7)),
                ],
                (QpKind::Connected, false, QpOwner::Task(7)),
            ),
        ];
        let table = nest(
            &rows
                .iter()
                .map(|(fields, _)| entry(fields))
                .collect::<Vec<_>>(),
        );
        let bytes = payload(
            Request::new(CMD_RES_QP_GET, 0)
                .u32(1, 0)
                .text(2, "rxeA")
                .attr(RES_QP, &table),
        );
        let want: Vec<_> = rows
            .into_iter()
            .map(|(_, (kind, ready, owner))| QueuePair { kind, ready, owner })
            .collect();
        assert_eq!(queue_pairs(&bytes).unwrap(), want);
    }

    #[test]
    fn none_and_broken() {
        let none = payload(Request::new(CMD_RES_QP_GET, 0).u32(1, 0));
        assert_eq!(queue_pairs(&none), Ok(Vec::new()));
        // Without a type it might be anything; a pid of another width is not a pid.
        for fields in [
            vec![(21, number(1)), (27, vec![3])],
            vec![(21, number(1)), (26, vec![2])],
            vec![(21, number(1)), (26, vec![2]), (27, vec![3]), (28, vec![7])],
        ] {
            let bytes =
                payload(Request::new(CMD_RES_QP_GET, 0).attr(RES_QP, &nest(&[entry(&fields)])));
            assert!(queue_pairs(&bytes).is_err(), "{fields:?}");
        }
    }
}
