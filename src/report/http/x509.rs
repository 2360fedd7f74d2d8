//! The one thing that is read out of a certificate here: until when it is valid (RFC 5280, 4.1).

use jiff::civil::{DateTime, date};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// End of validity in seconds of Unix time; `None` where the bytes are not a certificate.
pub(super) fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (body, _) = element(certificate, SEQUENCE)?;
    let rest = element(body, VERSION).map_or(body, |(_, rest)| rest);
    // Serial number, signature algorithm, issuer; then the two ends of validity.
    let (_, rest) = any(rest)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_, end) = any(validity)?;
    time(*end.first()?, any(end)?.0)
}

/// Content of the first element, which must have this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    (*der.first()? == tag).then(|| any(der))?
}

fn any(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..=0x7f => (short, rest),
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(long & 0x7f)?;
            let add = |sum: usize, byte: &u8| (sum << 8) | usize::from(*byte);
            (bytes.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &[u8]) -> Option<i64> {
    // Two digits are of 1950 to 2049.
    let century = match (tag, text) {
        (UTC_TIME, [b'0'..=b'4', ..]) => "20",
        (UTC_TIME, _) => "19",
        (GENERALIZED_TIME, _) => "",
        _ => return None,
    };
    let text = century.to_string() + std::str::from_utf8(text).ok()?;
    if text.len() != 15 || !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let end = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    let epoch = date(1970, 1, 1).at(0, 0, 0, 0);
    Some(end.duration_since(epoch).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, tag, want) in [
            ("700101000000Z", UTC_TIME, Some(0)),
            ("491231235959Z", UTC_TIME, Some(2_524_607_999)),
            ("500101000000Z", UTC_TIME, Some(-631_152_000)),
            ("20500101000000Z", GENERALIZED_TIME, Some(2_524_608_000)),
            ("99991231235959Z", GENERALIZED_TIME, Some(253_402_300_799)),
            ("20230229000000Z", GENERALIZED_TIME, None),
            ("20231301000000Z", GENERALIZED_TIME, None),
            ("230101000000", UTC_TIME, None),
            ("2301010000Z", UTC_TIME, None),
            ("230101000000+0100", UTC_TIME, None),
            ("23010100000\u{e9}Z", UTC_TIME, None),
            ("Z", UTC_TIME, None),
            ("", GENERALIZED_TIME, None),
        ] {
            assert_eq!(time(tag, text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn lengths() {
        let long = [&[0x30, 0x82, 0x01, 0x00][..], &[7; 256], &[9]].concat();
        assert_eq!(any(&long), Some((&[7; 256][..], &[9][..])));
        for broken in [
            &[][..],
            &[0x30],
            &[0x30, 2, 0],
            &[0x30, 0x80, 0],
            &[0x30, 0x85, 0, 0, 0, 0, 1, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x30, 0x82, 1],
        ] {
            assert_eq!(any(broken), None, "{broken:x?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(0u8..255, 0..80)) {
            let _ = not_after(&bytes);
            let _ = time(UTC_TIME, &bytes);
        }
    }
}
