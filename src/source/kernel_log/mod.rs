//! The kernel log: from bytes to events.
//!
//! [`wrapper`] takes off what log readers add, [`record`] reads `/dev/kmsg`'s own form, [`decode`]
//! turns one message into at most one event, [`assemble`] joins what one report spreads over
//! lines, [`follow`] follows a live node: by `/dev/kmsg`, or by syslog(2) (`ring`, `lines`). A
//! message is matched from its first byte only: text that quotes a kernel line is not an event.

mod aer;
pub mod assemble;
pub mod follow;
mod gpu;
pub mod input;
mod klogctl;
pub mod lines;
mod nic;
pub mod open;
mod phrases;
pub mod record;
mod ring;
pub mod state;
#[cfg(test)]
mod tests;
mod text;
mod wrapper;

use crate::observe::{KernelEvent, KernelEventKind};
pub use follow::{
    Delivery, FollowError, FollowOptions, HISTORY, KmsgFollower, KmsgItem, ReadMethod,
};
pub use input::{Input, RecordInput};
pub use state::{LineMark, Position, ResumeState};

/// Decodes one kernel message, wrappers already gone.
///
/// `dictionary` is the PCI address (with function) of the record's `DEVICE=+pci:` line; it serves
/// when the text names no address. Of a message with several lines the first decides.
pub fn decode(message: &str, dictionary: Option<&str>) -> Option<KernelEvent> {
    let message = message.trim_start_matches([' ', '\t']).trim_end();
    if text::begins_with_a_process(message) {
        return None;
    }
    // The open driver's first releases (515) put no colon before the name of a function.
    let bare = message.strip_prefix("NVRM ");
    let bare = bare.filter(|rest| !rest.starts_with("Xid"));
    if let Some(after) = message.strip_prefix("NVRM: ").or(bare) {
        return gpu::nvrm(after, message);
    }
    let line = message.lines().next()?;
    let origin = nic::named(line).or_else(|| text::origin(line));
    gpu::sxid(line)
        .or_else(|| gpu::module(line))
        .or_else(|| nic::watchdog(line, dictionary))
        .or_else(|| nic::decode(origin.as_ref()?, dictionary, line))
        .or_else(|| aer::decode(origin.as_ref(), line))
        .or_else(|| aer::firmware_first(line))
}

/// What events are judged by, without being one for people: NVIDIA's driver was loaded, a GPU fell
/// off the bus (with an Xid or without one), a NIC's driver started its device, or a NIC cooled down.
pub fn silent(message: &str, dictionary: Option<&str>) -> Option<KernelEvent> {
    if message.starts_with("NVRM: loading NVIDIA UNIX ") {
        return Some(KernelEvent::new(KernelEventKind::DriverLoaded, message));
    }
    gpu::lost(message)
        .or_else(|| gpu::reset_required(message))
        .or_else(|| nic::relief(message, dictionary))
}
