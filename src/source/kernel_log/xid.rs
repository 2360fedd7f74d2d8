//! `NVRM: Xid …` and `nvidia-nvswitchN: SXid …` (open-gpu-kernel-modules: `kernel_rc.c`,
//! `common_nvswitch.h`).

use crate::observe::kernel::{
    Detail, EventKind, KernelEvent, NvLink, RecoveryAction, Severity, SxidDetail, XidDetail,
};

use super::text::{Bdf, hex_words, number_after, take_0x, take_u32};

/// Decodes what follows `NVRM: Xid`. `message` is the whole text, for the event.
pub fn xid(after: &str, message: &str) -> Option<KernelEvent> {
    let (place, rest) = place_and_rest(after)?;
    let (code, rest) = code(rest)?;
    let mut detail = XidDetail::default();
    let mut event = KernelEvent::new(EventKind::Xid, message);
    event.xid = Some(code);
    if let Some(place) = place {
        let place = place.strip_prefix("PCI:").unwrap_or(place);
        if let Some((bdf, mig)) = Bdf::take(place) {
            event.pci = Some(bdf.slot());
            detail.gpu_instance = number_after(mig, "GPU-I:");
            detail.compute_instance = number_after(mig, "GPU-CI:");
        }
    }
    let body = blame(rest, &mut event);
    detail.nvlink = match code {
        74 | 136 => nvlink_4(body),
        144..=150 => nvlink_5(body),
        _ => None,
    };
    if code == 154 {
        detail.recovery = recovery(body);
    }
    detail.caused_by = number_after(body, "caused by previous Xid ");
    event.detail = Detail::Xid(detail);
    Some(event)
}

/// ` (…): ` before the code, or `: `, or one blank: drivers of before 2008 name no device.
fn place_and_rest(after: &str) -> Option<(Option<&str>, &str)> {
    if let Some(rest) = after.strip_prefix(" (") {
        let (place, rest) = rest.split_once(')')?;
        if place.len() > 64 {
            return None;
        }
        return Some((Some(place), rest.strip_prefix(':').unwrap_or(rest)));
    }
    let rest = after.strip_prefix(':').unwrap_or(after);
    rest.starts_with(' ').then_some((None, rest))
}

/// The code, which must end where its digits end.
fn code(rest: &str) -> Option<(u32, &str)> {
    let (code, rest) = take_u32(rest.trim_start())?;
    let ends = rest
        .chars()
        .next()
        .is_none_or(|c| c.is_whitespace() || matches!(c, ',' | ':' | ';' | '.' | '('));
    ends.then_some((code, rest))
}

/// Takes `pid=` and `name=` off the front; returns the message proper.
fn blame<'a>(rest: &'a str, event: &mut KernelEvent) -> &'a str {
    let mut rest = rest.trim_start_matches([',', ':']).trim_start();
    if let Some(after) = rest.strip_prefix("pid=") {
        let (value, tail) = split_field(after, ",");
        event.pid = unquote(value).parse().ok();
        rest = tail.trim_start();
    }
    if let Some(after) = rest.strip_prefix("name=") {
        // A name may hold a comma; the driver always writes ", " behind it.
        let (value, tail) = split_field(after, ", ");
        let name = unquote(value.trim_end_matches(','));
        let known = !matches!(name, "" | "<unknown>" | "<n/a>");
        event.process = known.then(|| name.to_owned());
        rest = tail;
    }
    rest
}

fn split_field<'a>(s: &'a str, separator: &str) -> (&'a str, &'a str) {
    s.split_once(separator).unwrap_or((s, ""))
}

fn unquote(s: &str) -> &str {
    let s = s.trim();
    s.strip_prefix('\'')
        .and_then(|t| t.strip_suffix('\''))
        .unwrap_or(s)
}

/// `… link 14(0x0, 0x0, …)`: the registers of an NVLink of before Blackwell.
fn nvlink_4(body: &str) -> Option<NvLink> {
    let (_, rest) = body.split_once("link ")?;
    let (link, rest) = take_u32(rest)?;
    Some(NvLink {
        unit: None,
        severity: None,
        link: i32::try_from(link).ok(),
        words: rest.strip_prefix('(').map(hex_words).unwrap_or_default(),
    })
}

/// `UNIT Fatal|Nonfatal XC0 i0 Link 03 (0x… 0x…)`, columns padded with blanks.
fn nvlink_5(body: &str) -> Option<NvLink> {
    let mut words = body.split_ascii_whitespace();
    let unit = words.next()?;
    let severity = severity(words.next()?)?;
    let after = body.split_once(" Link ").map_or("", |(_, r)| r);
    let link = after
        .split([' ', '('])
        .next()
        .and_then(|n| n.trim().parse().ok());
    Some(NvLink {
        unit: Some(unit.to_owned()),
        severity: Some(severity),
        link,
        words: after
            .split_once('(')
            .map(|(_, r)| hex_words(r))
            .unwrap_or_default(),
    })
}

fn severity(word: &str) -> Option<Severity> {
    match word.trim_end_matches(',') {
        "Fatal" => Some(Severity::Fatal),
        "Nonfatal" | "Non-fatal" => Some(Severity::Nonfatal),
        _ => None,
    }
}

/// `… changed from 0x0 (None) to 0x4 (Drain and Reset)`.
fn recovery(body: &str) -> Option<(RecoveryAction, RecoveryAction)> {
    let (_, rest) = body.split_once("changed from ")?;
    let (from, rest) = take_0x(rest)?;
    let (_, rest) = rest.split_once(" to ")?;
    let (to, _) = take_0x(rest)?;
    Some((
        RecoveryAction::from_code(from),
        RecoveryAction::from_code(to),
    ))
}

/// Decodes what follows `nvidia-nvswitch`.
pub fn sxid(after: &str, message: &str) -> Option<KernelEvent> {
    let (name, rest) = after.split_once(':')?;
    let switch = match name {
        "" => None,
        n if n.len() <= 3 && n.bytes().all(|b| b.is_ascii_digit()) => n.parse().ok(),
        _ => return None,
    };
    let (place, rest) = place_and_rest(rest.strip_prefix(" SXid")?)?;
    let (code, rest) = code(rest)?;
    let body = rest.trim_start_matches([',', ':']).trim_start();
    let mut event = KernelEvent::new(EventKind::Sxid, message);
    event.pci = place
        .map(|p| p.strip_prefix("PCI:").unwrap_or(p))
        .and_then(Bdf::take)
        .map(|(bdf, _)| bdf.slot());
    event.detail = Detail::Sxid(SxidDetail {
        code,
        switch,
        severity: severity(body.split(' ').next().unwrap_or_default()),
        link: number_after(body, "Link "),
    });
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(s: &str) -> Option<KernelEvent> {
        xid(s.strip_prefix("NVRM: Xid")?, s)
    }

    #[test]
    fn devices_processes_and_codes() {
        type Row<'a> = (&'a str, u32, Option<&'a str>, Option<u32>, Option<&'a str>);
        let rows: [Row; 19] = [
            (
                "NVRM: Xid (PCI:0000:B9:00): 94",
                94,
                Some("0000:b9:00"),
                None,
                None,
            ),
            (
                "NVRM: Xid (PCI:0000:00:1d.0): 79, GPU",
                79,
                Some("0000:00:1d"),
                None,
                None,
            ),
            (
                "NVRM: Xid (PCI:00000008:01:00): 79, GPU",
                79,
                Some("0008:01:00"),
                None,
                None,
            ),
            (
                "NVRM: Xid (0000:03:00): 14, Channel 1",
                14,
                Some("0000:03:00"),
                None,
                None,
            ),
            ("NVRM: Xid (0000:05): 13, 0000 e001", 13, None, None, None),
            ("NVRM: Xid (0001:00): 36,  L0 -> L0", 36, None, None, None),
            ("NVRM: Xid: 13, 0000 02005600", 13, None, None, None),
            ("NVRM: Xid 79, GPU has fallen", 79, None, None, None),
            ("NVRM: Xid (PCI:): 31, x", 31, None, None, None),
            (
                "NVRM: Xid (PCI:0000:c1:00 GPU-I:05 GPU-CI:00): 43, pid=7, Ch 1",
                43,
                Some("0000:c1:00"),
                Some(7),
                None,
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 31, pid=19, name=a:[b] (c)#, Ch 8",
                31,
                Some("0000:c1:00"),
                Some(19),
                Some("a:[b] (c)#"),
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 31, pid=19, name=x,y, Ch 8",
                31,
                Some("0000:c1:00"),
                Some(19),
                Some("x,y"),
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 31, name=train, Ch 8",
                31,
                Some("0000:c1:00"),
                None,
                Some("train"),
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 45, pid=0, name=, Ch 8",
                45,
                Some("0000:c1:00"),
                Some(0),
                None,
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name='<unknown>', GPU",
                79,
                Some("0000:c1:00"),
                None,
                None,
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 79, pid=<n/a>, name=<n/a>, GPU",
                79,
                Some("0000:c1:00"),
                None,
                None,
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 38, pid=1659,",
                38,
                Some("0000:c1:00"),
                Some(1659),
                None,
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 38, pid=1659, name=tra",
                38,
                Some("0000:c1:00"),
                Some(1659),
                Some("tra"),
            ),
            (
                "NVRM: Xid (PCI:0000:c1:00): 140, pid=99999999999, x",
                140,
                Some("0000:c1:00"),
                None,
                None,
            ),
        ];
        for (line, code, pci, pid, process) in rows {
            let e = decode(line).unwrap_or_else(|| panic!("no event: {line}"));
            assert_eq!(e.xid, Some(code), "{line}");
            assert_eq!(e.pci.as_deref(), pci, "{line}");
            assert_eq!(e.pid, pid, "{line}");
            assert_eq!(e.process.as_deref(), process, "{line}");
            assert_eq!(e.device, None, "{line}");
        }
    }

    #[test]
    fn words_that_are_no_code() {
        for line in [
            "NVRM: Xid (invalid): some error",
            "NVRM: Xid (PCI:0000:65:00): invalid",
            "NVRM: Xid (PCI:0000:65:00)",
            "NVRM: Xid error: 79, invalid data",
            "NVRM: Xid (PCI:0000:65:00): 13abc",
            "NVRM: Xid (PCI:0000:65:00): 99999999999",
            "NVRM: Xids 79",
            "NVRM: Xid",
            "NVRM: Xid (",
        ] {
            assert_eq!(decode(line), None, "{line}");
        }
    }

    fn detail(s: &str) -> XidDetail {
        match decode(s).unwrap().detail {
            Detail::Xid(d) => d,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn details() {
        let d = detail(
            "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)",
        );
        assert_eq!(
            d.recovery,
            Some((RecoveryAction::DrainAndReset, RecoveryAction::None))
        );
        let d = detail(
            "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x9 (New)",
        );
        assert_eq!(d.recovery.unwrap().1, RecoveryAction::Other(9));
        let d = detail(
            "NVRM: Xid (PCI:0000:c1:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        );
        let link = d.nvlink.unwrap();
        assert_eq!(link.link, Some(14));
        assert_eq!(link.words, vec![0, 0, 0x1_0000, 0, 0, 0, 0]);
        let d = detail(
            "NVRM: Xid (PCI:0009:01:00): 149, pid=3, name=a, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x021425c6 0x00000001)",
        );
        let link = d.nvlink.unwrap();
        assert_eq!(link.unit.as_deref(), Some("NETIR_LINK_EVT"));
        assert_eq!(link.severity, Some(Severity::Fatal));
        assert_eq!((link.link, link.words.len()), (Some(-1), 2));
        let d = detail(
            "NVRM: Xid (PCI:0000:c1:00): 45, pid=3, name=a, Ch 8 caused by previous Xid 149",
        );
        assert_eq!(d.caused_by, Some(149));
        let d = detail("NVRM: Xid (PCI:0000:c1:00 GPU-I:05 GPU-CI:02): 94");
        assert_eq!((d.gpu_instance, d.compute_instance), (Some(5), Some(2)));
    }

    #[test]
    fn switch_errors() {
        let s = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress";
        let e = sxid(s.strip_prefix("nvidia-nvswitch").unwrap(), s).unwrap();
        assert_eq!((e.kind, e.xid), (EventKind::Sxid, None));
        assert_eq!(e.pci.as_deref(), Some("0000:05:00"));
        assert_eq!(
            e.detail,
            Detail::Sxid(SxidDetail {
                code: 12028,
                switch: Some(3),
                severity: Some(Severity::Nonfatal),
                link: Some(32)
            })
        );
        let data = sxid(": SXid (PCI:0000:05:00.0): 20034, Data {0x5, 0x1}", "x").unwrap();
        let Detail::Sxid(d) = data.detail else {
            panic!()
        };
        assert_eq!((d.severity, d.switch), (None, None));
        for no in [
            "0: SXid (PCI:0000:00:00.0): xyz, Fatal error",
            "0: SXid (invalid): some error",
            "2: open (major=510)",
            ": Probing device 0000:08:00.0",
        ] {
            assert_eq!(sxid(no, no), None, "{no}");
        }
    }
}
