//! The kernel log of a capture.

use crate::host::Host;
use crate::source::kernel_log::{Input, Position, input, lines::raw_record, open, record};
use crate::source::tree;
use std::collections::VecDeque;

/// Most bytes kept: the newest.
const MAX_BYTES: usize = 1 << 20;

/// Most records read: a log that grows as fast as it is read must end.
const MAX_RECORDS: usize = 200_000;

/// The kernel's own records that are still in its ring, as raw records for a regular `dev/kmsg`;
/// `None` if there are none. Records of user space stay out: they may hold anything.
pub fn kernel(host: &Host) -> Option<String> {
    // Not through a link that leads out of the root.
    let opened = tree::canonical(host, "dev/kmsg").map(|path| input::open(&host.path(path), true));
    let mut log = match opened {
        Some(Ok(log)) => log,
        // As for the agent: refused to a container, the log is still there.
        _ if host.is_live() => open::syslog(Position::default()).ok()?,
        _ => return None,
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
                raw_record(message.priority, (numbers, message.ts_us), &message.text)
            }
            Ok(Input::Empty) | Err(_) => break,
            Ok(_) => continue,
        };
        if record::parse(&text).is_some_and(|record| record.facility == 0) {
            bytes += text.len() + 1;
            kept.push_back(text);
        }
        while bytes > MAX_BYTES
            && let Some(oldest) = kept.pop_front()
        {
            bytes -= oldest.len() + 1;
        }
    }
    let lines = kept.iter().map(|record| record.trim_end_matches('\n'));
    let text: String = lines.flat_map(|record| [record, "\n"]).collect();
    (!text.is_empty()).then_some(text)
}
