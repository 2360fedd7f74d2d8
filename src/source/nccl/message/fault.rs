//! Classifies warnings, and the few INFO lines about failures, by their words.

use crate::observe::nccl::{Event, Failure, Net};
use crate::source::nccl::anchor::finder;
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// Words of warnings, and the failure that they show: `FAILURE: WORDS & WORDS`.
const WORDS: &str = include_str!("failures.txt");

/// Words that must all be in a message, and what they show; `None` if that is harmless to the job.
type Row = (Vec<&'static str>, Option<Failure>);

/// The first match counts.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let (name, words) = line.split_once(": ")?;
        let failure = Failure::ALL.iter().find(|failure| failure.as_str() == name);
        let words = words.split(" & ").collect();
        (failure.is_some() || name == "harmless").then_some((words, failure.copied()))
    };
    WORDS.lines().filter_map(row).collect()
});

/// Errors passed on from another rank or thread, whose root an earlier line shows.
const SECONDARY: &str =
    "Proxy Call to rank|[Proxy Service|[Service thread]|Socket recv failed|Accept failed";

/// Classifies a WARN.
pub(super) fn warning(text: &str) -> Event<'_> {
    let mut secondary = SECONDARY.split('|');
    if secondary.any(|words| text.starts_with(words)) && !text.contains("refused") {
        return Event::Failure(Failure::Secondary);
    }
    match row(text) {
        None => Event::Failure(Failure::Other),
        // Harmless, but of verbs in use.
        Some(None) if text.starts_with("NET/IB") => Event::PluginSpeaks(Net::Ib),
        Some(None) => Event::Plain,
        Some(Some(failure)) => on_device(failure, text),
    }
}

/// A failure, with the device of the node that it names. A flushed operation (status 5) only follows
/// another error.
fn on_device(failure: Failure, text: &str) -> Event<'_> {
    use Failure::{DeviceFatal, GidIndex, IbError, PortDown};
    const FLUSHED: [&str; 4] = ["error 5,", "status=5 ", "(5) opcode", "WR_FLUSH_ERR"];
    let flushed = failure == IbError && FLUSHED.iter().any(|words| text.contains(words));
    let named = matches!(failure, IbError | PortDown | DeviceFatal | GidIndex) && !flushed;
    match named.then(|| device(text)).flatten() {
        Some(device) => Event::DeviceFailure(failure, device),
        None => Event::Failure(failure),
    }
}

/// The node's own device in an error of verbs: by name (`hca mlx5_5` since 2.22, `on dev mlx5_5:1`,
/// `NET/IB : mlx5_5:1 Got async event`), or else by its GID (`localGid`, RoCE since 2.18).
fn device(text: &str) -> Option<&str> {
    const BEFORE: [&str; 3] = [" hca ", " on dev ", " localGid "];
    let behind = |words: &&str| text.split_once(*words).map(|(_, rest)| rest);
    let named = BEFORE.iter().find_map(behind);
    let async_event = || {
        let rest = text.strip_prefix("NET/IB")?;
        let (name, said) = rest.trim_start_matches([' ', ':']).split_once(' ')?;
        (name.contains(':') && said.contains("async")).then_some(name)
    };
    let word = named.or_else(async_event)?.split([' ', ',', '(']).next()?;
    // A GID holds several colons; after a name follows one and the port.
    let gid = word.matches(':').count() > 1;
    let name = word.split(':').next()?;
    let device = if gid { word } else { name };
    (!device.is_empty() && device != "N/A").then_some(device)
}

/// UCX's errors, which name the port: `Transport retry count exceeded on mlx5_5:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)`.
pub(in crate::source::nccl) fn ucx(line: &str) -> Option<Event<'_>> {
    let (said, _) = line.split_once(" (synd ")?;
    let (_, port) = said.rsplit_once(" on ")?;
    let (device, rest) = port.split_once(':')?;
    let port_number = rest.split('/').next()?;
    let whole = !device.contains(' ') && port_number.bytes().all(|b| b.is_ascii_digit());
    whole.then_some(Event::DeviceFailure(Failure::IbError, device))
}

/// Classifies an INFO that is not otherwise known: some versions report failures without a warning.
pub(super) fn info(text: &str) -> Option<Event<'_>> {
    const AS_INFO: &str = "Failed to open libibverbs|Could not open libibverbs|Unable to open device|\
        ibv_open_device failed|No IP interface found|Error: network |ibv_reg_dmabuf_mr failed|failed to extend /dev/shm";
    static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| finder(AS_INFO.split('|')));
    let failure = FINDER.as_ref().is_some_and(|words| words.is_match(text));
    let failure = failure.then(|| row(text)).flatten()??;
    Some(Event::Failure(failure))
}

/// NCCL's last error, as others print it: the text of a warning, if that is known.
pub(in crate::source::nccl) fn last_error(text: &str) -> Option<Event<'_>> {
    // A plugin that failed ends no job, so that it is not the last error.
    let failure = row(text)
        .flatten()
        .filter(|of| *of != Failure::PluginInit)?;
    Some(on_device(failure, text))
}

fn row(text: &str) -> Option<Option<Failure>> {
    let fits = |(words, _): &&Row| words.iter().all(|word| text.contains(word));
    ROWS.iter().find(fits).map(|(_, failure)| *failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_failure() {
        let rows = WORDS.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(rows.count(), ROWS.len());
    }
}
