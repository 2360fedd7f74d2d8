//! The kernel log of a capture.

use super::copier::Copier;
use crate::source::kernel_log::input::{self, Input};
use crate::source::kernel_log::state::Place;
use crate::source::kernel_log::{open, record};
use crate::source::tree;
use std::collections::VecDeque;

/// Most bytes kept: the newest.
const MAX_BYTES: usize = 1 << 20;

/// Most records looked at: a log that grows as fast as it is read must end.
const MAX_RECORDS: usize = 200_000;

/// The kernel's own records that are still in its ring, as raw records in a regular `dev/kmsg`.
/// Those of user space stay out: nobody knows what they hold.
pub fn kernel(copier: &mut Copier<'_>) {
    // Not through a link to somebody else's file.
    let inside = tree::canonical(copier.host, "dev/kmsg");
    let opened = inside.map(|path| input::open(&copier.host.path(path)));
    let mut log = match opened {
        Some(Ok(log)) => log,
        // As for the agent: refused to a container, the log is still there.
        _ if copier.host.is_live() => match open::syslog(Place::default()) {
            Ok(log) => log,
            Err(_) => return,
        },
        _ => return,
    };
    let mut kept: VecDeque<String> = VecDeque::new();
    let mut bytes = 0;
    // syslog(2) numbers nothing.
    let mut numbers = 0;
    for _ in 0..MAX_RECORDS {
        let text = match log.next() {
            Ok(Input::Record { text, .. }) => text,
            Ok(Input::Message(message)) => {
                numbers += 1;
                message.raw(numbers)
            }
            Ok(Input::Empty) | Err(_) => break,
            Ok(_) => continue,
        };
        if record::parse(&text).is_some_and(|record| record.facility == 0) {
            bytes += text.len() + 1;
            kept.push_back(text);
        }
        while bytes > MAX_BYTES {
            let Some(oldest) = kept.pop_front() else {
                break;
            };
            bytes -= oldest.len() + 1;
        }
    }
    let mut text = String::with_capacity(bytes);
    for record in kept {
        text.push_str(record.trim_end_matches('\n'));
        text.push('\n');
    }
    if !text.is_empty() {
        copier.text("dev/kmsg", &text);
    }
}
