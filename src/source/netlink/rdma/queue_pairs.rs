//! Queue pairs of a device (RDMA_NLDEV_CMD_RES_QP_GET; fill_res_qp_entry in nldev.c). The driver is
//! asked about each one (QUERY_QP, a firmware command on most): only for those who need it.

use super::{Client, DEV_INDEX, NLDEV, is_of, needed};
use crate::source::netlink::{Attrs, DUMP, NetlinkError, Request};

const CMD_RES_QP_GET: u16 = NLDEV | 10;

const RES_QP: u16 = 19;
const RES_QP_ENTRY: u16 = 20;
const RES_LQPN: u16 = 21;
const RES_TYPE: u16 = 26;
const RES_STATE: u16 = 27;
const RES_PID: u16 = 28;
const RES_KERN_NAME: u16 = 29;

/// More than this many queue pairs of one device are not taken; NCCL nodes have thousands.
const MAX_QUEUE_PAIRS: usize = 1 << 18;

/// `enum ib_qp_type` (include/rdma/ib_verbs.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QpKind {
    /// Management: SMI and GSI, the kernel's own.
    Management,
    /// Reliable connected, NCCL's kind.
    Rc,
    /// Unreliable connected, without retransmission.
    Uc,
    /// Unreliable datagram, used by management and IPoIB.
    Ud,
    /// Extended reliable connected, either end.
    Xrc,
    /// A driver's own (255): EFA's SRD, mlx5's DC.
    Driver,
    /// A type without a name here.
    Other(u8),
}

impl QpKind {
    /// From the kernel's number.
    pub fn from_id(id: u8) -> Self {
        match id {
            0 | 1 => QpKind::Management,
            2 => QpKind::Rc,
            3 => QpKind::Uc,
            4 => QpKind::Ud,
            9 | 10 => QpKind::Xrc,
            255 => QpKind::Driver,
            other => QpKind::Other(other),
        }
    }
}

/// Whose a queue pair is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QpOwner {
    /// The kernel's, by the module that made it.
    Kernel(String),
    /// A task of this PID namespace: the thread that made it, which need not lead its process
    /// (rdma_restrack_set_name takes `current`).
    Task(u32),
    /// A task that cannot be named from here: of another PID namespace, or gone.
    Hidden,
}

/// One queue pair as RES_QP_GET lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePair {
    /// Its number on this device.
    pub number: u32,
    /// The transport it uses.
    pub kind: QpKind,
    /// `enum ib_qp_state`: 0 RESET, 1 INIT, 2 RTR, 3 RTS, 4 SQD, 5 SQE, 6 ERR.
    pub state: u8,
    /// The process or kernel module that owns it.
    pub owner: QpOwner,
}

impl QueuePair {
    /// Whether it is ready to receive or to send.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, 2 | 3)
    }
}

impl Client {
    /// Every queue pair of a device. While they come and go, the kernel may tell one twice or not
    /// at all.
    pub fn queue_pairs(&mut self, index: u32, name: &str) -> Result<Vec<QueuePair>, NetlinkError> {
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
pub fn queue_pairs(payload: &[u8]) -> Result<Vec<QueuePair>, NetlinkError> {
    // A device whose queue pairs are none has a table without entries, or no table.
    let Some(table) = Attrs::parse(payload)?.nest(RES_QP)? else {
        return Ok(Vec::new());
    };
    table
        .iter()
        .filter(|attr| attr.id == RES_QP_ENTRY)
        .map(|attr| {
            let entry = attr.nested()?;
            let owner = match (entry.u32(RES_PID)?, entry.text(RES_KERN_NAME)) {
                (Some(pid), _) if pid != 0 => QpOwner::Task(pid),
                (_, Some(name)) => QpOwner::Kernel(name),
                _ => QpOwner::Hidden,
            };
            Ok(QueuePair {
                number: needed(entry.u32(RES_LQPN)?)?,
                kind: QpKind::from_id(needed(entry.u8(RES_TYPE)?)?),
                state: needed(entry.u8(RES_STATE)?)?,
                owner,
            })
        })
        .collect()
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
                (18, QpKind::Rc, 3, QpOwner::Task(185)),
            ),
            (
                vec![
                    (21, number(1)),
                    (26, vec![1]),
                    (27, vec![3]),
                    (29, b"ib_core\0".to_vec()),
                ],
                (1, QpKind::Management, 3, QpOwner::Kernel("ib_core".into())),
            ),
            (
                vec![(21, number(19)), (26, vec![4]), (27, vec![0])],
                (19, QpKind::Ud, 0, QpOwner::Hidden),
            ),
            (
                vec![
                    (21, number(20)),
                    (26, vec![255]),
                    (27, vec![2]),
                    (28, number(0)),
                ],
                (20, QpKind::Driver, 2, QpOwner::Hidden),
            ),
            (
                vec![
                    (21, number(21)),
                    (26, vec![10]),
                    (27, vec![6]),
                    (28, number(7)),
                ],
                (21, QpKind::Xrc, 6, QpOwner::Task(7)),
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
            .map(|(_, (number, kind, state, owner))| QueuePair {
                number,
                kind,
                state,
                owner,
            })
            .collect();
        assert_eq!(queue_pairs(&bytes).unwrap(), want);
        let ready: Vec<bool> = want.iter().map(QueuePair::is_ready).collect();
        assert_eq!(ready, [true, true, false, true, false]);
    }

    #[test]
    fn none_and_broken() {
        let none = payload(Request::new(CMD_RES_QP_GET, 0).u32(1, 0));
        assert_eq!(queue_pairs(&none), Ok(Vec::new()));
        // Without a type it might be anything; a pid of another width is not a pid.
        for fields in [
            vec![(21, number(1)), (27, vec![3])],
            vec![(21, number(1)), (26, vec![2])],
            vec![(26, vec![2]), (27, vec![3])],
            vec![(21, number(1)), (26, vec![2]), (27, vec![3]), (28, vec![7])],
        ] {
            let bytes =
                payload(Request::new(CMD_RES_QP_GET, 0).attr(RES_QP, &nest(&[entry(&fields)])));
            assert!(queue_pairs(&bytes).is_err(), "{fields:?}");
        }
    }
}
