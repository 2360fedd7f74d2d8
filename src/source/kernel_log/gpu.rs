//! NVIDIA's messages (open-gpu-kernel-modules: `kernel_rc.c`, `common_nvswitch.h`): Xids, SXids,
//! GPUs that do not come up, peer memory, GPUDirect Storage.

use crate::observe::{
    KernelEvent, KernelEventKind, Note, NvLink, RecoveryAction, Severity, Sxid, Xid, XidDetail,
};

use super::phrases::{PHRASES, first, says_any};
use super::text::{hex_words, last_address, slot, take_0x, take_address, take_u32};

/// Decodes what follows `NVRM: `: Xids and bring-up failures. `message` is the whole text.
pub fn nvrm(after: &str, message: &str) -> Option<KernelEvent> {
    if let Some(rest) = after.strip_prefix("Xid") {
        return xid(rest, message);
    }
    // nv-dmabuf.c, in the words of 570 and of later drivers.
    if after.contains("topology not supported") {
        let refused = KernelEventKind::Note(Note::DmabufRefused);
        return Some(KernelEvent::new(refused, message));
    }
    let failed =
        |slot| Some(KernelEvent::new(KernelEventKind::Note(Note::Driver), message).of_slot(slot));
    // One printk of several lines: which GPU, its PCI id, and what is wrong with it. rsyslog writes
    // the newline as `#012`.
    if let Some(rest) = after.strip_prefix("The NVIDIA GPU ") {
        let address = take_address(rest).map(|(address, _)| slot(&address));
        return probe_verdict(rest).then(|| failed(address)).flatten();
    }
    if let Some((address, rest)) = after.strip_prefix("GPU ").and_then(take_address) {
        let is_failure = bring_up_failure(rest.strip_prefix(": ")?);
        return is_failure.then(|| failed(Some(slot(&address)))).flatten();
    }
    // Newer drivers put the GPU's index in front: `GPU4 knvlink…`, `GPU0: …`.
    let index = after.strip_prefix("GPU").and_then(take_u32);
    let indexed = index.and_then(|(_, rest)| rest.strip_prefix(": ").or(rest.strip_prefix(' ')));
    let named = || last_address(after).map(|address| slot(&address));
    let is_failure = bring_up_failure(indexed.unwrap_or(after));
    is_failure.then(|| failed(named())).flatten()
}

/// `GPU 0000:29:00.0: GPU has fallen off the bus.` and the driver's other words for a GPU that it
/// no longer reaches, where no code is given.
pub fn lost(message: &str) -> Option<KernelEvent> {
    let rest = message.strip_prefix("NVRM: GPU ")?;
    let (address, rest) = take_address(rest.strip_prefix("at PCI:").unwrap_or(rest))?;
    let body = rest.strip_prefix(": ")?.to_ascii_lowercase();
    says_any(&body, &PHRASES.lost).then(|| {
        KernelEvent::new(KernelEventKind::Note(Note::GpuLost), message)
            .of_slot(Some(slot(&address)))
    })
}

/// `NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] …`.
pub fn reset_required(message: &str) -> Option<KernelEvent> {
    let body = message.strip_prefix("NVRM: ")?.to_ascii_lowercase();
    let event = || KernelEvent::new(KernelEventKind::Note(Note::ResetRequired), message);
    says_any(&body, &PHRASES.reset_required).then(event)
}

/// The GPU that the first line of a report on a failed probe names, when the line stands alone.
pub fn probe_report_start(message: &str) -> Option<String> {
    let rest = message.strip_prefix("NVRM: The NVIDIA GPU ")?;
    let (address, _) = take_address(rest)?;
    (!probe_verdict(rest)).then(|| slot(&address))
}

/// Whether a text holds the ending of a report on a failed probe.
pub fn probe_verdict(s: &str) -> bool {
    says_any(s, &PHRASES.endings)
}

/// Failures that end in a GPU, or a GPU's links, not coming up. What leads to them (assertions,
/// GSP boot traces) prints before and is left out.
fn bring_up_failure(body: &str) -> bool {
    probe_verdict(body) || says_any(&body.to_ascii_lowercase(), &PHRASES.bring_up_failures)
}

/// Decodes what follows `NVRM: Xid`.
fn xid(after: &str, message: &str) -> Option<KernelEvent> {
    let (place, code, rest) = place_and_code(after)?;
    let (pid, process, body) = blame(rest);
    let detail = XidDetail {
        nvlink: match code {
            74 | 136 => nvlink_4(body),
            144..=150 => nvlink_5(body),
            _ => None,
        },
        recovery: (code == 154).then(|| recovery(body)).flatten(),
    };
    let xid = Xid {
        code,
        pid,
        process,
        detail,
    };
    Some(KernelEvent::new(KernelEventKind::Xid(xid), message).of_slot(place))
}

/// Decodes an NVSwitch's line.
pub fn sxid(line: &str) -> Option<KernelEvent> {
    let (name, rest) = line.strip_prefix("nvidia-nvswitch")?.split_once(':')?;
    let numbered = name.len() <= 3 && name.bytes().all(|b| b.is_ascii_digit());
    let (place, code, body) = place_and_code(rest.strip_prefix(" SXid").filter(|_| numbered)?)?;
    let says = |phrases, severity| says_any(body, phrases).then_some(severity);
    let severity = severity(body.split(' ').next().unwrap_or_default())
        .or_else(|| says(&PHRASES.switch_stops, Severity::Fatal))
        .or_else(|| says(&PHRASES.switch_troubles, Severity::Nonfatal));
    let sxid = Sxid { code, severity };
    Some(KernelEvent::new(KernelEventKind::Sxid(sxid), line).of_slot(place))
}

/// Slot, code and what follows, of ` (PCI:…): 79, …`. Drivers of before 2008 name no device: `: 79`
/// or ` 79`. The code must end where its digits end; without a device a sentence may only mention it.
fn place_and_code(after: &str) -> Option<(Option<String>, u32, &str)> {
    let (place, rest) = match after.strip_prefix(" (") {
        Some(rest) => rest
            .split_once(')')
            .filter(|(place, _)| place.len() <= 64)?,
        None => ("", after),
    };
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let (code, rest) = take_u32(rest.trim_start()).filter(|_| rest.starts_with(' '))?;
    let ends = |c: char| (c.is_whitespace() && !place.is_empty()) || ",:;.(".contains(c);
    if !(rest.is_empty() || rest.starts_with(ends)) {
        return None;
    }
    let address = take_address(place.strip_prefix("PCI:").unwrap_or(place));
    let rest = rest.trim_start_matches([',', ':']).trim_start();
    Some((address.map(|(address, _)| slot(&address)), code, rest))
}

/// Takes `pid=` and `name=` off the front; gives both and the message proper.
fn blame(mut rest: &str) -> (Option<u32>, Option<String>, &str) {
    fn field<'a>(rest: &'a str, separator: &str) -> (&'a str, &'a str) {
        rest.split_once(separator).unwrap_or((rest, ""))
    }
    let (mut pid, mut process) = (None, None);
    if let Some(after) = rest.strip_prefix("pid=") {
        let (value, tail) = field(after, ",");
        pid = unquote(value).parse().ok();
        rest = tail.trim_start();
    }
    if let Some(after) = rest.strip_prefix("name=") {
        // A name may hold a comma; the driver always writes ", " behind it.
        let (value, tail) = field(after, ", ");
        let name = unquote(value.trim_end_matches(','));
        process =
            Some(name.to_owned()).filter(|name| !matches!(&**name, "" | "<unknown>" | "<n/a>"));
        rest = tail;
    }
    (pid, process, rest)
}

fn unquote(s: &str) -> &str {
    let s = s.trim();
    let inner = s.strip_prefix('\'').and_then(|s| s.strip_suffix('\''));
    inner.unwrap_or(s)
}

/// `… link 14(0x0, 0x0, …)`: the registers of an NVLink of before Blackwell.
fn nvlink_4(body: &str) -> Option<NvLink> {
    let (_, rest) = body.split_once("link ")?;
    let (_, rest) = take_u32(rest)?;
    Some(NvLink {
        severity: None,
        words: rest.strip_prefix('(').map(hex_words).unwrap_or_default(),
    })
}

/// `UNIT Fatal|Nonfatal XC0 i0 Link 03 (0x… 0x…)`, columns padded with blanks.
fn nvlink_5(body: &str) -> Option<NvLink> {
    // The last such words: a process's name may hold some, too.
    let words: Vec<&str> = body.split_ascii_whitespace().collect();
    let mut said = words.windows(2).filter_map(|pair| match pair {
        [word, unit] if unit.starts_with("XC") => severity(word),
        _ => None,
    });
    let severity = said.next_back()?;
    let words = (body.split_once(" Link ")).and_then(|(_, link)| link.split_once('('));
    Some(NvLink {
        severity: Some(severity),
        words: words.map(|(_, words)| hex_words(words)).unwrap_or_default(),
    })
}

fn severity(word: &str) -> Option<Severity> {
    match word.trim_end_matches(',') {
        "Fatal" => Some(Severity::Fatal),
        "Nonfatal" | "Non-fatal" => Some(Severity::Nonfatal),
        _ => None,
    }
}

/// `… changed from 0x0 (None) to 0x4 (Drain and Reset)`. Where the line was cut, a change from none asks
/// for something all the same.
fn recovery(body: &str) -> Option<(RecoveryAction, RecoveryAction)> {
    let (from, rest) = take_0x(body.split_once("changed from ")?.1)?;
    let to = rest.split_once(" to ").and_then(|(_, to)| take_0x(to));
    let to = to.map(|(to, _)| to).or((from == 0).then_some(u32::MAX))?;
    let action = RecoveryAction::from_code;
    Some((action(from), action(to)))
}

/// `nvidia-peermem func:line ERROR …`, `nvidia_peermem: …`, `nv_peer_mem: …`; `nvidia_fs: …`.
pub fn module(line: &str) -> Option<KernelEvent> {
    let note = first(&PHRASES.modules, line)?;
    let end = line.find([':', ' '])?;
    let (_, rest) = line.split_at_checked(end)?;
    // The peer-memory module prints its name, a blank, and function:line.
    let spoken = note == Note::Peermem && rest.starts_with(' ') && !rest.starts_with("  ");
    let body = rest.to_ascii_lowercase();
    let body = body.trim_start_matches(':').trim_start();
    let complains = says_any(body, &PHRASES.complaints) || says_any(body, &PHRASES.symbol_failures);
    ((rest.starts_with(':') || spoken) && complains && !says_any(body, &PHRASES.taints))
        .then(|| KernelEvent::new(KernelEventKind::Note(note), line))
}

#[cfg(test)]
mod tests;
