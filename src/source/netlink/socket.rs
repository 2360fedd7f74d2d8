//! Netlink sockets: one exchange at a time, every receive bounded.
//!
//! The kernel works a request off inside send(2), so a hung device holds the *sender* there, beyond
//! any receive timeout: a socket serves one subject, on a thread that may be given up.

use super::{Message, NetlinkError, Reply, ReplyStep, Request, messages};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvmsg, send,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Longest wait for one datagram of an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// First size of the buffer; the kernel packs the datagrams of a dump to what its reader takes.
const BUFFER: usize = 16 << 10;
/// The buffer never grows beyond this.
const MAX_BUFFER: usize = 4 << 20;
/// Datagrams taken for one answer, or in one go from a multicast group, before giving up on it.
const MAX_DATAGRAMS: usize = 4096;
/// Times an answer is asked for again: lost (ENOBUFS), too long for the buffer, or interrupted.
const ATTEMPTS: usize = 8;
/// Receive buffer of a multicast socket: a burst of a thousand link messages fits.
const EVENT_BUFFER: usize = 2 << 20;

/// A netlink socket with its receive buffer.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    seq: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket for requests.
    pub fn open(protocol: SockProtocol) -> Reply<Self> {
        Self::with_groups(protocol, 0)
    }

    /// Opens a socket that has joined the groups of the bit mask (group n: bit n-1).
    pub fn with_groups(protocol: SockProtocol, groups: u32) -> Reply<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        let seconds = i64::try_from(ANSWER_TIMEOUT.as_secs()).unwrap_or(1);
        let timeout = TimeVal::new(seconds as _, 0);
        setsockopt(&fd, sockopt::ReceiveTimeout, &timeout)?;
        setsockopt(&fd, sockopt::SendTimeout, &timeout)?;
        if groups != 0 && setsockopt(&fd, sockopt::RcvBufForce, &EVENT_BUFFER).is_err() {
            // Without CAP_NET_ADMIN the system's limit holds; a loss is seen as ENOBUFS anyway.
            let _ = setsockopt(&fd, sockopt::RcvBuf, &EVENT_BUFFER);
        }
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Socket {
            fd,
            seq: 0,
            buffer: Vec::new(),
        })
    }

    /// Sends a request and gives every message of its answer to `each`. Where the answer has to be
    /// asked for again, the part gathered so far is dropped.
    ///
    /// A single answer ends with its first message, a dump with NLMSG_DONE.
    pub fn ask<T: Default>(
        &mut self,
        request: Request,
        mut each: impl FnMut(&mut T, Message<'_>) -> Reply<()>,
    ) -> Reply<T> {
        for _ in 0..ATTEMPTS {
            let mut gathered = T::default();
            if self.exchange(&request, &mut |message| each(&mut gathered, message))? {
                return Ok(gathered);
            }
        }
        Err(NetlinkError::Io(Errno::ENOBUFS))
    }

    /// One attempt: whether the answer was whole.
    fn exchange(
        &mut self,
        request: &Request,
        each: &mut dyn FnMut(Message<'_>) -> Reply<()>,
    ) -> Reply<bool> {
        self.seq = self.seq.wrapping_add(1).max(1);
        let seq = self.seq;
        let bytes = request.finish(seq);
        let sent = loop {
            match send(self.fd.as_raw_fd(), &bytes, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                sent => break sent?,
            }
        };
        if sent != bytes.len() {
            return Err(NetlinkError::Malformed("request sent in part"));
        }
        // A dump is read to its end whatever happens on the way: until then the kernel answers EBUSY
        // to the next one on this socket.
        let dump = request.is_dump();
        let mut whole = true;
        let mut failure = None;
        for _ in 0..MAX_DATAGRAMS {
            let Some(datagram) = self.receive(MsgFlags::empty())? else {
                if !dump {
                    return Ok(false);
                }
                whole = false;
                continue;
            };
            for message in messages(datagram) {
                let message = message?;
                // An answer that came too late for its own request.
                if message.seq != seq {
                    continue;
                }
                whole &= message.flags & super::DUMP_INTERRUPTED == 0;
                match message.step()? {
                    ReplyStep::Data(message) => {
                        if failure.is_none() {
                            failure = each(message).err();
                        }
                        if message.flags & super::MULTI != 0 {
                            continue;
                        }
                    }
                    ReplyStep::Done => {}
                    ReplyStep::Overrun => {
                        whole = false;
                        continue;
                    }
                    ReplyStep::Nothing => continue,
                }
                return failure.map_or(Ok(whole), Err);
            }
        }
        Err(NetlinkError::Malformed("an answer without end"))
    }

    /// Waits until a multicast message comes, at most `timeout`, then gives all that are there to
    /// `each`. True if messages were lost since the last call.
    pub fn events(&mut self, timeout: Duration, mut each: impl FnMut(Message<'_>)) -> Reply<bool> {
        let millis = u16::try_from(timeout.as_millis()).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(0) | Err(Errno::EINTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut lost = false;
        for _ in 0..MAX_DATAGRAMS {
            let datagram = match self.receive(MsgFlags::MSG_DONTWAIT) {
                Ok(datagram) => datagram,
                Err(NetlinkError::Timeout) => break,
                Err(error) => return Err(error),
            };
            lost |= datagram.is_none();
            for message in messages(datagram.unwrap_or_default()) {
                match message.and_then(Message::step) {
                    Ok(ReplyStep::Data(message)) => each(message),
                    Ok(ReplyStep::Done | ReplyStep::Nothing) => {}
                    // An unreadable message may have been anything.
                    Ok(ReplyStep::Overrun) | Err(_) => lost = true,
                }
            }
        }
        Ok(lost)
    }

    /// The next datagram; none where messages were lost (ENOBUFS), or it was longer than the buffer,
    /// which has been grown. One from another sender than the kernel is dropped: it reads as empty.
    fn receive(&mut self, flags: MsgFlags) -> Reply<Option<&[u8]>> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER];
        }
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        // With MSG_TRUNC the kernel reports the datagram's whole length.
        let flags = flags | MsgFlags::MSG_TRUNC;
        let (len, from) = loop {
            match recvmsg::<NetlinkAddr>(self.fd.as_raw_fd(), &mut parts, None, flags) {
                Ok(got) => break (got.bytes, got.address),
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        };
        if len > MAX_BUFFER {
            return Err(NetlinkError::Malformed("datagram longer than 4 MiB"));
        }
        if len > self.buffer.len() {
            self.buffer.resize(len.next_power_of_two(), 0);
            return Ok(None);
        }
        let is_kernel = from.is_some_and(|address| address.pid() == 0);
        Ok(self.buffer.get(..if is_kernel { len } else { 0 }))
    }
}
