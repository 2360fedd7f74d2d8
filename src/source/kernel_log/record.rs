//! One `/dev/kmsg` record: `PRIO,SEQ,TS_US,FLAGS[,k=v…];TEXT`, then ` KEY=VALUE` lines
//! (Documentation/ABI/testing/dev-kmsg).

use std::borrow::Cow;

use super::text::{is_digits, take_address};

/// A parsed record; text is unescaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsgRecord<'a> {
    /// Syslog facility; the kernel's own is 0 and user space cannot write it.
    pub facility: u32,
    /// Number of the record, counted from 0 at boot without gaps.
    pub seq: u64,
    /// Microseconds of the kernel's local clock since boot.
    pub ts_us: u64,
    /// The message, possibly of several lines.
    pub text: Cow<'a, str>,
    /// The PCI device from the dictionary (`DEVICE=+pci:…`), with function.
    pub device: Option<String>,
}

/// Parses a record with its dictionary; `None` when `raw` has not this form.
pub fn parse(raw: &str) -> Option<KmsgRecord<'_>> {
    // Most lines that are not records fail on their first byte.
    if !raw.as_bytes().first()?.is_ascii_digit() {
        return None;
    }
    let (header, body) = raw.split_once(';')?;
    let mut fields = header.split(',');
    let mut number = || fields.next().filter(|n| is_digits(n))?.parse::<u64>().ok();
    let prio = u32::try_from(number()?).ok()?;
    let (seq, ts_us) = (number()?, number()?);
    fields.next()?;
    let mut lines = body.split('\n');
    let text = unescape(lines.next()?);
    Some(KmsgRecord {
        facility: prio >> 3,
        seq,
        ts_us,
        text,
        device: lines.find_map(dictionary_device),
    })
}

/// Whether a line belongs to the record before it: a blank, then `KEY=`.
pub fn is_dictionary_line(line: &str) -> bool {
    let field = line.strip_prefix(' ').and_then(|l| l.split_once('='));
    field.is_some_and(|(key, _)| {
        let upper = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        !key.is_empty() && key.bytes().all(upper)
    })
}

/// The PCI address in a ` DEVICE=+pci:…` line.
pub fn dictionary_device(line: &str) -> Option<String> {
    pci_device(line.strip_prefix(" DEVICE=")?)
}

/// The PCI address in a kernel device tag, `+pci:0000:5c:00.0`.
pub fn pci_device(tag: &str) -> Option<String> {
    take_address(tag.strip_prefix("+pci:")?).map(|(address, _)| address)
}

/// Turns `\xNN` back into bytes; invalid UTF-8 is replaced.
fn unescape(s: &str) -> Cow<'_, str> {
    if !s.contains("\\x") {
        return Cow::Borrowed(s);
    }
    let mut parts = s.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.split_at_checked(2).and_then(|(hex, rest)| {
            let hex = hex.bytes().all(|b| b.is_ascii_hexdigit()).then_some(hex)?;
            Some((u8::from_str_radix(hex, 16).ok()?, rest))
        });
        match code {
            Some((byte, rest)) => {
                bytes.push(byte);
                bytes.extend_from_slice(rest.as_bytes());
            }
            None => bytes.extend([b"\\x", part.as_bytes()].concat()),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_fields_and_dictionary() {
        let r = parse(
            "4,1234,987654,-,caller=T1946;mlx5_core: a; b\n SUBSYSTEM=pci\n DEVICE=+pci:0000:5C:00.1\n",
        )
        .unwrap();
        assert_eq!((r.facility, r.seq, r.ts_us), (0, 1234, 987_654));
        assert_eq!(r.text, "mlx5_core: a; b");
        assert_eq!(r.device.as_deref(), Some("0000:5c:00.1"));
    }

    #[test]
    fn facility_is_the_priority_without_its_three_low_bits() {
        assert_eq!(parse("12,1,1,-;x").unwrap().facility, 1);
        assert_eq!(parse("7,1,1,c;x").unwrap().facility, 0);
    }

    #[test]
    fn escapes() {
        let text = |s| parse(s).unwrap().text.into_owned();
        assert_eq!(text(r"3,1,1,-;a\x0ab\x5cx"), "a\nb\\x");
        assert_eq!(text(r"3,1,1,-;\xc3\xa9 \xzz \x4"), r"é \xzz \x4");
    }

    #[test]
    fn other_lines_are_no_records() {
        for s in [
            "",
            "[1.2] x",
            "3,1;x",
            "3,1,1;x",
            "+3,1,1,-;x",
            "3,-1,1,-;x",
            "a,1,1,-;",
            "99999999999,1,1,-;x",
        ] {
            assert_eq!(parse(s), None, "{s}");
        }
    }

    #[test]
    fn dictionary_lines() {
        assert!(is_dictionary_line(" SUBSYSTEM=pci"));
        assert!(!is_dictionary_line(" os_dump_stack+0xe/0x14 [nvidia]"));
        assert!(!is_dictionary_line("SUBSYSTEM=pci"));
        assert_eq!(dictionary_device(" DEVICE=n4"), None);
    }
}
