//! Texts of `ports/N/{state,phys_state,rate}`. Pure.

use crate::observe::{LinkRate, PhysState, PortState};
use crate::source::parse;
use crate::units::BitsPerSec;

/// Names by number.
const STATES: &str = "NOP|DOWN|INIT|ARMED|ACTIVE|ACTIVE_DEFER";
const PHYS_STATES: &str = "<unknown>|Sleep|Polling|Disabled|PortConfigurationTraining|LinkUp|\
    LinkErrorRecovery|Phy Test";

/// `ports/N/state`: `4: ACTIVE`.
pub fn parse_state(text: &str) -> Option<PortState> {
    numbered(text, STATES).map(PortState::from_id)
}

/// `ports/N/phys_state`: `5: LinkUp`.
pub fn parse_phys_state(text: &str) -> Option<PhysState> {
    numbered(text, PHYS_STATES).map(PhysState::from_id)
}

/// Number of `N: NAME`. Number and name are read each for itself: either serves alone, and a name
/// of another file's list is passed over, but two answers that contradict each other are none.
fn numbered(text: &str, names: &str) -> Option<u32> {
    let (number, name) = text.split_once(':').unwrap_or((text, text));
    let number: Option<u32> = number.trim().parse().ok();
    let named = names.split('|').position(|known| known == name.trim());
    let named = named.map(|id| id as u32);
    match (number, named) {
        (Some(number), Some(named)) if number != named => None,
        (number, named) => number.or(named),
    }
}

/// Highest rate believed, in Gb/s.
const MAX_GBPS: u64 = 1_000_000;

/// `ports/N/rate`: `400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)`.
pub fn parse_rate(text: &str) -> Option<LinkRate> {
    let (number, rest) = text.trim().split_once(' ')?;
    let rest = rest.trim().strip_prefix("Gb/sec")?.trim();
    let tenths = parse::tenths(number).filter(|tenths| (1..=MAX_GBPS * 10).contains(tenths))?;
    let words = (rest.strip_prefix('(')).and_then(|rest| rest.strip_suffix(')'));
    let words = words.unwrap_or_default();
    let lanes = words.split(' ').next().unwrap_or_default();
    Some(LinkRate {
        rate: BitsPerSec(tenths * 100_000_000),
        lanes: lanes.strip_suffix('X').and_then(|lanes| lanes.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        for (text, want) in [
            ("4: ACTIVE", Some(PortState::Active)),
            ("1: DOWN", Some(PortState::Down)),
            ("2: INIT", Some(PortState::Init)),
            ("5: ACTIVE_DEFER", Some(PortState::ActiveDefer)),
            ("0: NOP", Some(PortState::Unknown)),
            ("9: UNKNOWN", Some(PortState::Unknown)),
            ("4", Some(PortState::Active)),
            ("4:", Some(PortState::Active)),
            ("4: ACT", Some(PortState::Active)),
            ("ACTIVE", Some(PortState::Active)),
            ("1: ACTIVE", None),
            ("", None),
            (":", None),
            ("-1: x", None),
        ] {
            assert_eq!(parse_state(text), want, "{text:?}");
        }
    }

    #[test]
    fn physical_states() {
        for (text, want) in [
            ("5: LinkUp", Some(PhysState::LinkUp)),
            ("7: Phy Test", Some(PhysState::PhyTest)),
            ("0: <unknown>", Some(PhysState::Unknown)),
            ("2: Polling", Some(PhysState::Polling)),
            ("3: Disabled", Some(PhysState::Disabled)),
            // A fixture of another project: the number counts, the name is not a physical state.
            ("4: ACTIVE", Some(PhysState::Training)),
            ("5: Polling", None),
        ] {
            assert_eq!(parse_phys_state(text), want, "{text:?}");
        }
    }

    #[test]
    fn rates() {
        for (text, bits, lanes) in [
            ("400 Gb/sec (4X NDR)", 400_000_000_000, 4),
            ("800 Gb/sec (4X XDR)", 800_000_000_000, 4),
            ("400 Gb/sec (8X HDR)", 400_000_000_000, 8),
            ("200 Gb/sec (2X NDR)", 200_000_000_000, 2),
            ("56 Gb/sec (4X FDR)", 56_000_000_000, 4),
            ("40 Gb/sec (4X FDR10)", 40_000_000_000, 4),
            ("120 Gb/sec (12X QDR)", 120_000_000_000, 12),
            ("2.5 Gb/sec (1X SDR)\n", 2_500_000_000, 1),
            ("1000000 Gb/sec (4X NDR)", 1_000_000_000_000_000, 4),
        ] {
            let got = parse_rate(text).unwrap();
            assert_eq!(got.rate, BitsPerSec(bits), "{text}");
            assert_eq!(got.lanes, Some(lanes), "{text}");
        }
        assert_eq!(
            parse_rate("10 Gb/sec"),
            Some(LinkRate {
                rate: BitsPerSec::from_gbps(10),
                lanes: None
            })
        );
        for text in [
            "",
            "400",
            "400 Mb/sec (4X NDR)",
            "-1 Gb/sec (4X NDR)",
            "0 Gb/sec",
            "2.55 Gb/sec (1X SDR)",
            "1000001 Gb/sec (4X NDR)",
            "18446744073709551615 Gb/sec (4X NDR)",
            "nan Gb/sec",
        ] {
            assert_eq!(parse_rate(text), None, "{text:?}");
        }
    }
}
