//! The kernel log: from bytes to events.
//!
//! `wrapper` takes off what log readers add, [`record`] reads `/dev/kmsg`'s own form, `decode`
//! turns one message into at most one event, [`assemble`] joins what one report spreads over
//! lines, [`follow`] follows a live node: by `/dev/kmsg`, or by syslog(2) (`ring`, `lines`). A message is matched from its first byte only: text that
//! quotes a kernel line is not an event.

mod aer;
pub mod assemble;
mod device;
pub mod follow;
pub mod input;
mod klogctl;
pub mod lines;
mod mlx5;
mod nic;
mod nvidia;
pub mod open;
pub mod record;
mod ring;
pub mod state;
#[cfg(test)]
mod tests;
mod text;
mod vendor;
mod wrapper;
mod xid;

use crate::observe::kernel::{EventKind, KernelEvent};

/// Decodes one kernel message, wrappers already gone.
///
/// `dictionary` is the PCI address (with function) of the record's `DEVICE=+pci:` line; it serves
/// when the text names no address. Of a message with several lines the first decides.
#[must_use]
pub fn decode(message: &str, dictionary: Option<&str>) -> Option<KernelEvent> {
    let message = message.trim_start_matches([' ', '\t']).trim_end();
    if let Some(after) = message.strip_prefix("NVRM: ") {
        return nvidia::nvrm(after, message).map(one_line);
    }
    let line = message.lines().next()?;
    match line.as_bytes().first()? {
        b'n' if line.starts_with("nvidia-nvswitch") => {
            let after = line.strip_prefix("nvidia-nvswitch")?;
            if let Some(event) = xid::sxid(after, line) {
                return Some(event);
            }
        }
        b'n' => {
            if let Some(event) = nvidia::module(line) {
                return Some(event);
            }
        }
        b'N' => {
            let after = line.strip_prefix("NETDEV WATCHDOG: ")?;
            return nic::watchdog(after, dictionary, line);
        }
        b'A' | b'P' => return aer::decode(None, line, line),
        b'{' => return aer::firmware_first(line),
        b'i' => {
            if let Some(rest) = line.strip_prefix("infiniband ") {
                let (kind, detail) = vendor::infiniband(rest)?;
                let mut event = KernelEvent::new(kind, line);
                event.detail = detail;
                nic::place(&mut event, "efa", None, dictionary);
                return Some(event);
            }
        }
        _ => {}
    }
    let origin = device::origin(line)?;
    nic::decode(&origin, dictionary, line)
        .or_else(|| aer::decode(Some(&origin).filter(|o| o.bdf.is_some()), origin.rest, line))
}

/// NVIDIA's driver says that it was loaded: no event for people, but what an Xid is judged by.
#[must_use]
pub fn driver_loaded(message: &str) -> Option<KernelEvent> {
    message
        .starts_with("NVRM: loading NVIDIA UNIX ")
        .then(|| one_line(KernelEvent::new(EventKind::DriverLoaded, message)))
}

/// The event's text is the first line of the message that it was decoded from.
fn one_line(mut event: KernelEvent) -> KernelEvent {
    if let Some(end) = event.text.find('\n') {
        event.text.truncate(end);
    }
    event
}

/// Decodes one line of any log form.
///
/// `any_facility` accepts what user space wrote to the kernel log; for tests and demonstrations.
#[must_use]
pub fn decode_line(line: &str, any_facility: bool) -> Option<KernelEvent> {
    let stripped = wrapper::strip(line, any_facility)?;
    decode(&stripped.text, stripped.device.as_deref())
}
