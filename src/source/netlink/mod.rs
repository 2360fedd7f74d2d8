//! Netlink framing: `nlmsghdr` and attributes to and from bytes (include/uapi/linux/netlink.h).
//! Pure; the bytes may be anything. Numbers are in the host's byte order, parts are aligned to 4.

pub mod dcb;
mod error;
pub mod monitor;
pub mod rdma;
pub mod route;
pub mod socket;
pub mod vf;

use crate::source::parse::until_nul;
pub use error::{NetlinkError, Reply};
use nix::errno::Errno;

const HEADER: usize = 16;
const ATTR_HEADER: usize = 4;
/// NLA_TYPE_MASK: the upper two bits say "nested" and "network byte order", and the kernel sets
/// the first on some nests only.
const ATTR_TYPE: u16 = 0x3fff;

/// NLM_F_REQUEST, set in every request.
pub const REQUEST: u16 = 1;
/// NLM_F_MULTI: more messages follow, up to NLMSG_DONE.
pub const MULTI: u16 = 2;
/// NLM_F_DUMP_INTR: the table changed while it was told.
pub const DUMP_INTERRUPTED: u16 = 0x10;
/// NLM_F_ROOT | NLM_F_MATCH: asks for all objects.
pub const DUMP: u16 = 0x300;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_OVERRUN: u16 = 4;

fn aligned(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// The `N` bytes at `at`.
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The native-endian u16 at `at`.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_ne_bytes)
}

/// The native-endian u32 at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

/// One netlink message of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`: the command, or a control type below 0x10.
    pub kind: u16,
    /// `nlmsg_flags`, such as [`MULTI`].
    pub flags: u16,
    /// `nlmsg_seq`: the request's; 0 in notifications.
    pub seq: u32,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// What a message is in the course of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyStep<'a> {
    /// A message with data of the exchange.
    Data(Message<'a>),
    /// The end: of a dump, or an acknowledgement.
    Done,
    /// NLMSG_OVERRUN: data was lost.
    Overrun,
    /// NLMSG_NOOP, or a control message without a name.
    Nothing,
}

impl<'a> Message<'a> {
    /// Control messages taken apart. NLMSG_ERROR and NLMSG_DONE begin with a signed errno, which a request
    /// failed with; a dump that failed half way tells so in its NLMSG_DONE.
    pub fn step(self) -> Reply<ReplyStep<'a>> {
        match self.kind {
            NLMSG_ERROR | NLMSG_DONE => match array(self.payload, 0).map(i32::from_ne_bytes) {
                Some(code) if code < 0 => Err(Errno::from_raw(code.saturating_neg()).into()),
                Some(_) => Ok(ReplyStep::Done),
                None if self.kind == NLMSG_DONE => Ok(ReplyStep::Done),
                None => Err(NetlinkError::Malformed("error message without a number")),
            },
            NLMSG_OVERRUN => Ok(ReplyStep::Overrun),
            kind if kind < 0x10 => Ok(ReplyStep::Nothing),
            _ => Ok(ReplyStep::Data(self)),
        }
    }
}

/// The messages of one datagram. Ends after the first malformed one.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Reply<Message<'_>>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let bytes = std::mem::take(&mut rest);
        let message = || {
            let len = usize::try_from(u32_at(bytes, 0)?).ok()?;
            let message = Message {
                kind: u16_at(bytes, 4)?,
                flags: u16_at(bytes, 6)?,
                seq: u32_at(bytes, 8)?,
                payload: bytes.get(HEADER..len)?,
            };
            Some((message, bytes.get(aligned(len)..).unwrap_or(&[])))
        };
        if bytes.is_empty() {
            return None;
        }
        let Some((message, next)) = message() else {
            let error = NetlinkError::Malformed("message longer than its datagram");
            return Some(Err(error));
        };
        rest = next;
        Some(Ok(message))
    })
}

/// A run of attributes whose lengths have been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attrs<'a> {
    bytes: &'a [u8],
}

/// One attribute with its raw value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr<'a> {
    /// Type, without the flag bits.
    pub id: u16,
    /// The value, without padding.
    pub bytes: &'a [u8],
}

/// The first attribute and what follows it. Less than a header is left over padding.
fn split_attr(bytes: &[u8]) -> Option<(Attr<'_>, &[u8])> {
    let len = usize::from(u16_at(bytes, 0)?);
    let next = bytes.get(aligned(len)..).unwrap_or(&[]);
    let (id, bytes) = (u16_at(bytes, 2)? & ATTR_TYPE, bytes.get(ATTR_HEADER..len)?);
    Some((Attr { id, bytes }, next))
}

impl<'a> Attrs<'a> {
    /// Checks every length at this level.
    pub fn parse(bytes: &'a [u8]) -> Reply<Self> {
        let mut rest = bytes;
        while rest.len() >= ATTR_HEADER {
            let Some((_, next)) = split_attr(rest) else {
                return Err(NetlinkError::Malformed("attribute longer than its message"));
            };
            rest = next;
        }
        Ok(Attrs { bytes })
    }

    /// The attributes that follow a fixed header of `header` bytes.
    pub fn after(payload: &'a [u8], header: usize) -> Reply<Self> {
        match payload.get(header..) {
            Some(bytes) => Attrs::parse(bytes),
            None => Err(NetlinkError::Malformed("message shorter than its header")),
        }
    }

    /// All of them in order, without padding (type 0).
    pub fn iter(self) -> impl Iterator<Item = Attr<'a>> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (attr, next) = split_attr(rest)?;
            rest = next;
            Some(attr)
        })
        .filter(|attr| attr.id != 0)
    }

    /// The first of a type.
    pub fn get(self, id: u16) -> Option<Attr<'a>> {
        self.iter().find(|attr| attr.id == id)
    }

    fn fixed<const N: usize>(self, id: u16) -> Reply<Option<[u8; N]>> {
        let malformed = |_| NetlinkError::Malformed("attribute of another length");
        let value = self.get(id).map(|attr| attr.bytes.try_into());
        value.transpose().map_err(malformed)
    }

    /// A u8, absent where the attribute is; an error if it has another width.
    pub fn u8(self, id: u16) -> Reply<Option<u8>> {
        Ok(self.fixed(id)?.map(u8::from_ne_bytes))
    }

    /// A u32, likewise.
    pub fn u32(self, id: u16) -> Reply<Option<u32>> {
        Ok(self.fixed(id)?.map(u32::from_ne_bytes))
    }

    /// A u64, likewise.
    pub fn u64(self, id: u16) -> Reply<Option<u64>> {
        Ok(self.fixed(id)?.map(u64::from_ne_bytes))
    }

    /// A NUL-terminated text, absent where the attribute is.
    pub fn text(self, id: u16) -> Option<String> {
        self.get(id).map(|attr| until_nul(attr.bytes))
    }

    /// A nest, absent where the attribute is.
    pub fn nest(self, id: u16) -> Reply<Option<Attrs<'a>>> {
        (self.get(id).map(|attr| Attrs::parse(attr.bytes))).transpose()
    }
}

/// A request being written: fixed header, then attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    kind: u16,
    flags: u16,
    bytes: Vec<u8>,
}

impl Request {
    /// A request of a type; NLM_F_REQUEST is set.
    pub fn new(kind: u16, flags: u16) -> Self {
        let flags = flags | REQUEST;
        let bytes = Vec::new();
        Request { kind, flags, bytes }
    }

    /// Whether it asks for all objects.
    pub fn is_dump(&self) -> bool {
        self.flags & DUMP == DUMP
    }

    fn pad(&mut self) {
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    /// Appends the family's fixed header.
    pub fn header(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// Appends an attribute. Values beyond 64 KiB do not fit its length and are left out.
    pub fn attr(mut self, id: u16, value: &[u8]) -> Self {
        if let Ok(len) = u16::try_from(ATTR_HEADER + value.len()) {
            self.bytes.extend_from_slice(&len.to_ne_bytes());
            self.bytes.extend_from_slice(&id.to_ne_bytes());
            self.bytes.extend_from_slice(value);
            self.pad();
        }
        self
    }

    /// Appends an attribute with a u32.
    pub fn u32(self, id: u16, value: u32) -> Self {
        self.attr(id, &value.to_ne_bytes())
    }

    /// Appends a text with its NUL.
    pub fn text(self, id: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attr(id, &bytes)
    }

    /// The message's bytes under a sequence number; the kernel fills in the sender.
    pub fn finish(&self, seq: u32) -> Vec<u8> {
        let len = u32::try_from(HEADER + self.bytes.len()).unwrap_or(u32::MAX);
        let kind_and_flags = [self.kind.to_ne_bytes(), self.flags.to_ne_bytes()].concat();
        let header = [&len.to_ne_bytes()[..], &kind_and_flags, &seq.to_ne_bytes()];
        [&header.concat()[..], &[0; 4], &self.bytes].concat()
    }
}

#[cfg(test)]
mod tests;
