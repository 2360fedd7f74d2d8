//! Texts and registers of PCI functions. Pure.

use crate::observe::{PcieLink, Reading};
use crate::source::parse;

/// `current_link_speed` (`16.0 GT/s PCIe`, older kernels `8 GT/s`, `Unknown`) with
/// `current_link_width` (`16`; 0, and 255 of an unknown maximum). What is unknown is not
/// observable.
pub fn parse_link(speed: &str, width: &str) -> Reading<PcieLink> {
    let (speed, width) = (speed.trim(), width.trim());
    if speed.starts_with("Unknown") || width == "0" || width == "255" {
        return Reading::NotObservable;
    }
    let link = || {
        let width = width.parse().ok().filter(|width| *width <= 32)?;
        Some(PcieLink {
            megatransfers: parse_speed(speed)?,
            width,
        })
    };
    let odd = || format!("link speed {:?}, width {:?}", cut(speed), cut(width));
    Reading::parsed(link().ok_or_else(odd))
}

/// Megatransfers a second of `2.5 GT/s PCIe`.
fn parse_speed(text: &str) -> Option<u32> {
    let number = text.strip_suffix("PCIe").unwrap_or(text).trim();
    let number = number.strip_suffix("GT/s")?.trim();
    let tenths = parse::tenths(number).filter(|tenths| *tenths < 10_250)?;
    u32::try_from(tenths * 100).ok()
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Total of an `aer_dev_*` file: the `TOTAL_ERR_*` line, else the sum of all lines. Names have
/// blanks in them; the value is the last word.
pub fn parse_aer(text: &str) -> Option<u64> {
    let value = |line: &str| line.rsplit(' ').next()?.trim().parse::<u64>().ok();
    if let Some(total) = text.lines().find(|line| line.starts_with("TOTAL_ERR")) {
        return value(total);
    }
    let mut values = text.lines().filter_map(value).peekable();
    values.peek()?;
    Some(values.fold(0, u64::saturating_add))
}

/// Extended capability id of ACS.
const ACS: u32 = 0x000d;

/// ACS control bits that send peer-to-peer traffic up to the root complex: request redirect and
/// completion redirect.
const REDIRECT: u16 = 0x4 | 0x8;

/// Whether a bridge's ACS redirects; none if extended config space was not readable.
pub fn acs_redirect(config: &[u8]) -> Option<bool> {
    const EXTENDED: usize = 0x100;
    let dword = |at: usize| {
        let bytes: [u8; 4] = config.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    if config.starts_with(&[0xff, 0xff]) {
        return None;
    }
    let mut at = EXTENDED;
    // Each capability takes at least 8 bytes: more steps than that is a loop.
    for _ in 0..(4096 - EXTENDED) / 8 {
        let header = dword(at)?;
        if header == 0 || header == u32::MAX {
            return Some(false);
        }
        if header & 0xffff == ACS {
            let control = (dword(at + 4)? >> 16) as u16;
            return Some(control & REDIRECT != 0);
        }
        at = (header >> 20) as usize & !3;
        if at < EXTENDED {
            return Some(false);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        let link = |megatransfers, width| {
            Reading::Value(PcieLink {
                megatransfers,
                width,
            })
        };
        for (speed, width, want) in [
            ("16.0 GT/s PCIe", "16", link(16_000, 16)),
            ("32.0 GT/s PCIe\n", "8\n", link(32_000, 8)),
            ("2.5 GT/s PCIe", "1", link(2_500, 1)),
            ("8 GT/s", "16", link(8_000, 16)),
            ("5.0 GT/s", "4", link(5_000, 4)),
            ("Unknown", "16", Reading::NotObservable),
            ("Unknown speed", "0", Reading::NotObservable),
            ("16.0 GT/s PCIe", "0", Reading::NotObservable),
            ("32.0 GT/s PCIe", "255", Reading::NotObservable),
        ] {
            assert_eq!(parse_link(speed, width), want, "{speed} {width}");
        }
        for (speed, width) in [
            ("", "16"),
            ("16.0 GT/s PCIe", ""),
            ("16.0 GT/s PCIe", "64"),
            ("-5 GT/s", "4"),
            ("99999999999 GT/s", "4"),
            ("16.05 GT/s", "4"),
        ] {
            assert!(
                matches!(parse_link(speed, width), Reading::Failed(_)),
                "{speed} {width}"
            );
        }
    }

    #[test]
    fn aer_totals() {
        let text = "Receiver Error 3\nBad TLP 1\nReplay Timer Timeout 0\nTOTAL_ERR_COR 4\n";
        assert_eq!(parse_aer(text), Some(4));
        assert_eq!(parse_aer("Data Link Protocol 2\nPoisoned TLP 5\n"), Some(7));
        assert_eq!(parse_aer("TOTAL_ERR_FATAL x\n"), None);
        assert_eq!(parse_aer(""), None);
        assert_eq!(parse_aer("no number here"), None);
    }

    fn config(capabilities: &[(usize, u32, u32)], control: u16) -> Vec<u8> {
        let mut config = vec![0; 4096];
        for (at, id, next) in capabilities {
            let header = id | 1 << 16 | next << 20;
            config[*at..at + 4].copy_from_slice(&header.to_le_bytes());
            config[at + 6..at + 8].copy_from_slice(&control.to_le_bytes());
        }
        config
    }

    #[test]
    fn acs() {
        let chain = [(0x100, 1, 0x148), (0x148, 0xd, 0)];
        assert_eq!(acs_redirect(&config(&chain, 0x1d)), Some(true));
        assert_eq!(acs_redirect(&config(&chain, 0x11)), Some(false));
        assert_eq!(acs_redirect(&config(&[(0x100, 1, 0)], 0x1d)), Some(false));
        assert_eq!(acs_redirect(&config(&[], 0)), Some(false));
        assert_eq!(acs_redirect(&config(&chain, 0x1d)[..256]), None);
        assert_eq!(acs_redirect(&config(&chain, 0x1d)[..64]), None);
        assert_eq!(acs_redirect(&[0xff; 4096]), None);
        assert_eq!(acs_redirect(&[]), None);
        // A chain that bites its tail ends.
        let ring = [(0x100, 1, 0x148), (0x148, 2, 0x100)];
        assert_eq!(acs_redirect(&config(&ring, 0)), Some(false));
        // A pointer beyond the end.
        assert_eq!(acs_redirect(&config(&[(0x100, 1, 0xffc)], 0)), Some(false));
    }
}
