//! Framing against bytes written by hand, and against anything at all.

use super::*;
use crate::observe::{Fault, FaultKind, Reading};
use proptest::prelude::*;

/// A little-endian machine's bytes; the framing is native-endian.
fn le() -> bool {
    cfg!(target_endian = "little")
}

#[test]
fn a_request_is_laid_out_as_the_kernel_reads_it() {
    if !le() {
        return;
    }
    // RDMA_NLDEV_CMD_PORT_GET for device 2, port 1.
    let request = Request::new(0x1405, 0).u32(1, 2).u32(3, 1);
    assert_eq!(
        request.finish(7),
        [
            32, 0, 0, 0, 0x05, 0x14, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, // nlmsghdr
            8, 0, 1, 0, 2, 0, 0, 0, // DEV_INDEX
            8, 0, 3, 0, 1, 0, 0, 0, // PORT_INDEX
        ]
    );
    // RTM_GETDCB: struct dcbmsg, then DCB_ATTR_IFNAME with NUL and padding.
    let request = Request::new(78, 0).header(&[0, 21, 0, 0]).text(1, "ens3");
    assert_eq!(
        request.finish(1).get(16..),
        Some(&[0, 21, 0, 0, 9, 0, 1, 0, b'e', b'n', b's', b'3', 0, 0, 0, 0][..])
    );
}

#[test]
fn attributes_with_padding_flags_and_nests() {
    if !le() {
        return;
    }
    let bytes = [
        8, 0, 1, 0, 2, 0, 0, 0, // 1: u32 2
        11, 0, 2, 0, b'm', b'l', b'x', b'5', b'_', b'0', 0, 0, // 2: text, odd length
        4, 0, 0, 0, // pad
        12, 0, 6, 0, 1, 2, 3, 4, 5, 6, 7, 8, // 6: u64
        12, 0, 0x50, 0x80, 8, 0, 0x51, 0x80, 1, 0, 0, 0, // 80 (NLA_F_NESTED) of 81
        5, 0, 12, 0, 4, 0, 0, 0, // 12: u8
    ];
    let attrs = Attrs::parse(&bytes).unwrap();
    assert_eq!(attrs.u32(1), Ok(Some(2)));
    assert_eq!(attrs.text(2).as_deref(), Some("mlx5_0"));
    assert_eq!(attrs.u64(6), Ok(Some(0x0807_0605_0403_0201)));
    assert_eq!(attrs.u8(12), Ok(Some(4)));
    assert_eq!(attrs.nest(80).unwrap().unwrap().u32(81), Ok(Some(1)));
    assert_eq!(attrs.u32(99), Ok(None));
    // A value of another width is refused, never read as a part of itself or as zero.
    assert!(attrs.u8(1).is_err());
    assert!(attrs.u64(1).is_err());
    assert_eq!(
        attrs.iter().map(|a| a.id).collect::<Vec<_>>(),
        [1, 2, 6, 80, 12]
    );
}

#[test]
fn broken_lengths_are_refused() {
    for bytes in [
        &[3, 0, 1, 0][..],          // shorter than its own header
        &[0, 0, 0, 0],              // no length at all would loop endlessly
        &[9, 0, 1, 0, 1, 2, 3, 4],  // one byte too long
        &[255, 255, 1, 0, 1, 2, 3], // far too long
    ] {
        assert!(Attrs::parse(bytes).is_err(), "{bytes:?}");
    }
    // Less than a header is padding, as the kernel takes it.
    assert_eq!(Attrs::parse(&[0, 0, 0]).unwrap().iter().count(), 0);
    assert!(Attrs::after(&[1, 2], 4).is_err());
}

#[test]
fn a_datagram_holds_several_messages() {
    let mut datagram = Request::new(0x1401, MULTI).u32(1, 0).finish(5);
    datagram.extend(Request::new(0x1401, MULTI).u32(1, 1).finish(5));
    datagram.extend(Request::new(NLMSG_DONE, MULTI).header(&[0; 4]).finish(5));
    let got: Vec<_> = messages(&datagram)
        .map(|m| m.unwrap().step().unwrap())
        .collect();
    assert!(
        matches!(got[..], [ReplyStep::Data(_), ReplyStep::Data(b), ReplyStep::Done]
        if b.seq == 5 && Attrs::parse(b.payload).unwrap().u32(1) == Ok(Some(1)))
    );
    // Cut off anywhere, it gives whole messages, then an error or the end.
    for cut in 0..datagram.len() {
        let whole = messages(&datagram[..cut]).filter(Result::is_ok).count();
        assert_eq!(whole, cut / 24, "{cut}");
    }
}

#[test]
fn errors_in_control_messages() {
    let control = |kind: u16, payload: &[u8]| {
        let bytes = Request::new(kind, 0).header(payload).finish(1);
        let step = messages(&bytes).next().unwrap().unwrap().step();
        step.map(|step| step == ReplyStep::Done)
    };
    let code = |code: i32| code.to_ne_bytes();
    assert_eq!(control(NLMSG_ERROR, &code(-22)), Err(Errno::EINVAL.into()));
    assert_eq!(control(NLMSG_ERROR, &code(0)), Ok(true));
    let malformed = control(NLMSG_ERROR, &[]);
    assert!(matches!(malformed, Err(NetlinkError::Malformed(_))));
    assert_eq!(
        control(NLMSG_ERROR, &code(i32::MIN)),
        Err(Errno::UnknownErrno.into())
    );
    assert_eq!(control(NLMSG_DONE, &code(-19)), Err(Errno::ENODEV.into()));
    assert_eq!(control(NLMSG_DONE, &[]), Ok(true));
    assert_eq!(control(NLMSG_OVERRUN, &[]), Ok(false));
}

#[test]
fn boundaries_of_framing() {
    for (len, want) in [(0, 0), (1, 4), (3, 4), (4, 4), (5, 8)] {
        assert_eq!(aligned(len), want);
    }
    fn message(kind: u16, payload: &[u8]) -> Message<'_> {
        Message {
            kind,
            flags: 0,
            seq: 0,
            payload,
        }
    }
    for (kind, want) in [
        (1, ReplyStep::Nothing),
        (4, ReplyStep::Overrun),
        (0x0f, ReplyStep::Nothing),
        (0x10, ReplyStep::Data(message(0x10, &[]))),
    ] {
        assert_eq!(message(kind, &[]).step(), Ok(want), "{kind}");
    }
    // NLMSG_ERROR and NLMSG_DONE: only a negative number is a failure.
    for (code, want) in [
        (-22i32, Err(Errno::EINVAL.into())),
        (0, Ok(ReplyStep::Done)),
        (1, Ok(ReplyStep::Done)),
    ] {
        for kind in [2, 3] {
            let payload = code.to_ne_bytes();
            assert_eq!(message(kind, &payload).step(), want, "{kind} {code}");
        }
    }
    assert_eq!(message(3, &[]).step(), Ok(ReplyStep::Done));
    assert!(message(2, &[]).step().is_err());
    // A message of its header alone, and one byte less.
    let request = Request::new(0x10, 0);
    let bytes = request.finish(9);
    let only: Vec<_> = messages(&bytes).collect();
    assert!(matches!(
        only[..],
        [Ok(Message {
            seq: 9,
            payload: [],
            ..
        })]
    ));
    let mut short = bytes.clone();
    short[..4].copy_from_slice(&15u32.to_ne_bytes());
    assert!(messages(&short).next().unwrap().is_err());
    // An attribute of its header alone, and one byte less.
    let attr = |len: u16| [len.to_ne_bytes(), 7u16.to_ne_bytes()].concat();
    let empty = Attrs::parse(&attr(4)).map(|attrs| attrs.get(7).map(|a| a.bytes.len()));
    assert_eq!(empty, Ok(Some(0)));
    assert!(Attrs::parse(&attr(3)).is_err());
    assert_eq!(Attrs::parse(&[1, 0, 0]).map(|a| a.iter().count()), Ok(0));
    // A request asks for all objects only with both flags.
    for (flags, dump) in [(DUMP, true), (0x100, false), (0x200, false), (0, false)] {
        assert_eq!(Request::new(0x10, flags).is_dump(), dump, "{flags:#x}");
    }
    // A value that does not fit the length is left out.
    let long = Request::new(0x10, 0).attr(1, &[0; 65_532]);
    assert_eq!(long, Request::new(0x10, 0));
}

#[test]
fn errors_by_what_to_do_next() {
    assert_eq!(
        NetlinkError::from(Errno::EPROTONOSUPPORT),
        NetlinkError::NotSupported
    );
    assert_eq!(
        NetlinkError::from(Errno::EINVAL),
        NetlinkError::NotAvailable
    );
    assert_eq!(NetlinkError::from(Errno::EAGAIN), NetlinkError::Timeout);
    assert_eq!(
        NetlinkError::NotAvailable.reading::<u8>("x"),
        Reading::NotObservable
    );
    assert_eq!(
        NetlinkError::NotSupported.reading::<u8>("x"),
        Reading::Absent
    );
    assert!(matches!(
        NetlinkError::Gone.reading::<u8>("x"),
        Reading::Failed(Fault {
            kind: FaultKind::Gone,
            ..
        })
    ));
}

proptest! {
    #[test]
    fn any_bytes_end_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for message in messages(&bytes).flatten() {
            let _ = message.step();
            let _ = route::parse(&message);
            let _ = rdma::device(message.payload);
            let _ = rdma::port_link(message.payload);
            let _ = rdma::counters(message.payload);
        }
        let _ = rdma::device(&bytes);
        let _ = rdma::port_link(&bytes);
        let _ = rdma::counters(&bytes);
        let _ = rdma::resources(&bytes);
        let _ = rdma::system(&bytes);
        let _ = rdma::queue_pairs::queue_pairs(&bytes);
        let _ = dcb::facts(&bytes);
        for kind in [16, 17, 78, 79] {
            let _ = route::parse(&Message { kind, flags: 0, seq: 0, payload: &bytes });
        }
        if let Ok(attrs) = Attrs::parse(&bytes) {
            for attr in attrs.iter() {
                let _ = (attrs.u8(attr.id), attrs.u32(attr.id), attrs.u64(attr.id));
                let _ = (attrs.text(attr.id), Attrs::parse(attr.bytes));
            }
        }
    }

    #[test]
    fn what_is_written_is_read(attrs in proptest::collection::vec(
        (1u16..0x3fff, proptest::collection::vec(any::<u8>(), 0..40)), 0..12)) {
        let mut request = Request::new(0x1401, 0);
        for (id, value) in &attrs {
            request = request.attr(*id, value);
        }
        let bytes = request.finish(3);
        let message = messages(&bytes).next().unwrap().unwrap();
        prop_assert_eq!((message.kind, message.flags, message.seq), (0x1401, REQUEST, 3));
        let got: Vec<_> = Attrs::parse(message.payload).unwrap().iter()
            .map(|a| (a.id, a.bytes.to_vec())).collect();
        prop_assert_eq!(got, attrs);
    }
}
