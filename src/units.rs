//! Names and numbers with their units, and their text forms.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};

/// Version of the package, which a release's tag repeats.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit that it was built from, set by the Makefile where git knows it; else `unknown`.
pub const REVISION: &str = match option_env!("SELVAGE_REVISION") {
    Some(revision) if !revision.is_empty() => revision,
    _ => "unknown",
};

/// A PCI address: `dddd:bb:dd.f`, lower-case hex, as in `/sys/bus/pci/devices`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bdf {
    /// PCI domain (segment); wider than 16 bits under some hypervisors (VMD, Hyper-V).
    pub domain: u32,
    /// Bus number within the domain.
    pub bus: u8,
    /// Device (slot) number, at most 31.
    pub device: u8,
    /// Function number of the device, at most 7.
    pub function: u8,
}

impl Bdf {
    /// `dddd:bb:dd`, the form that Xid lines use (no function digit).
    pub fn slot(&self) -> String {
        format!("{:04x}:{:02x}:{:02x}", self.domain, self.bus, self.device)
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.slot(), self.function)
    }
}

impl FromStr for Bdf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = |part: &str, most: usize| {
            let digits = part.len() <= most && part.bytes().all(|b| b.is_ascii_hexdigit());
            digits.then(|| u32::from_str_radix(part, 16).ok())?
        };
        let address = || {
            let (place, function) = text.rsplit_once('.')?;
            let mut parts = place.splitn(3, ':');
            let address = Bdf {
                domain: hex(parts.next()?, 8)?,
                bus: hex(parts.next()?, 2)? as u8,
                device: hex(parts.next()?, 2)? as u8,
                function: hex(function, 1)? as u8,
            };
            (address.device <= 0x1f && address.function <= 7).then_some(address)
        };
        address().ok_or_else(|| format!("not a PCI address: {text:?}"))
    }
}

/// What an RDMA device is known by for as long as the node lives: its PCI address, since udev
/// renames devices (`mlx5_0` to `rocep25s0f0`) and the kernel renumbers them.
///
/// Text forms: `0000:19:00.0`; `0000:19:00.0/mlx5_core.sf.2` for a sub-function;
/// `guid:xxxx:xxxx:xxxx:xxxx` for a software device (rxe, siw); `name:NAME` when nothing else is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct DeviceKey(pub String);

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One port of one RDMA device. Text form: `DEVICE_KEY/PORT`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// The device that has the port.
    pub device: DeviceKey,
    /// Port number, from 1.
    pub port: u32,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.device, self.port)
    }
}

impl FromStr for PortKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let key = || {
            let (device, port) = text.rsplit_once('/')?;
            let device = DeviceKey(device.to_string());
            let port = port.parse().ok()?;
            Some(PortKey { device, port })
        };
        key().ok_or_else(|| format!("not DEVICE_KEY/PORT: {text:?}"))
    }
}

/// Bits a second: the unit of link rates.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct BitsPerSec(pub u64);

impl BitsPerSec {
    /// From gigabits a second.
    pub const fn from_gbps(gbps: u64) -> Self {
        BitsPerSec(gbps * 1_000_000_000)
    }

    /// Gigabits a second, for people.
    pub fn gbps(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Bytes a second: the unit of Prometheus metrics.
    pub fn bytes_per_sec(self) -> f64 {
        self.0 as f64 / 8.0
    }
}

impl fmt::Display for BitsPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Gb/s", self.gbps())
    }
}

/// Milliseconds on the node's monotonic clock (`CLOCK_MONOTONIC` where live): the only time that
/// checks use. Wall time is for display.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

impl Millis {
    /// A value of so many whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Millis(secs.saturating_mul(1000))
    }

    /// Time passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Millis) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Time between two moments, whichever is earlier.
    pub fn apart(self, other: Millis) -> Duration {
        self.since(other).max(other.since(self))
    }

    /// This moment moved back by `by`; stops at zero.
    pub fn minus(self, by: Duration) -> Millis {
        Millis(self.0.saturating_sub(millis(by)))
    }

    /// This moment moved on by `by`.
    pub fn plus(self, by: Duration) -> Millis {
        Millis(self.0.saturating_add(millis(by)))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A number with its noun: `2 nodes`.
pub fn count(number: impl ToString, noun: &str) -> String {
    let number = number.to_string();
    let s = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// The first `most` words with a separator, and how many more there are.
pub fn joined<T: AsRef<str>>(words: &[T], separator: &str, most: usize) -> String {
    let shown: Vec<&str> = words.iter().take(most).map(AsRef::as_ref).collect();
    match words.len().saturating_sub(most) {
        0 => shown.join(separator),
        more => format!("{} and {more} more", shown.join(separator)),
    }
}

/// A length of time in settings, written as `250ms`, `10s`, `5m`, `1h` or `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

impl Span {
    /// A value of so many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Span(Duration::from_millis(millis))
    }

    /// A value of so many whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Span(Duration::from_secs(secs))
    }

    /// As the standard library's type.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// Milliseconds in each unit, longest first.
const SPAN_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = millis(self.0);
        if left == 0 {
            return f.write_str("0s");
        }
        for (unit, millis) in SPAN_UNITS {
            let whole = left / millis;
            if whole > 0 {
                write!(f, "{whole}{unit}")?;
                left -= whole * millis;
            }
        }
        Ok(())
    }
}

impl FromStr for Span {
    type Err = String;

    /// Whole numbers with a unit, longest unit first, each unit at most once. A bare number other
    /// than `0` is refused: its unit would be a guess.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad =
            || format!("not a length of time: {text:?}; write it as 250ms, 10s, 5m, 1h or 1h30m");
        if text == "0" {
            return Ok(Span::default());
        }
        let mut rest = text;
        let mut units = SPAN_UNITS.iter();
        let mut total = 0u64;
        loop {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at(digits);
            let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, tail) = tail.split_at(letters);
            let number: u64 = number.parse().map_err(|_| bad())?;
            let (_, millis) = units.find(|(name, _)| *name == unit).ok_or_else(bad)?;
            let part = number.checked_mul(*millis).ok_or_else(bad)?;
            total = total.checked_add(part).ok_or_else(bad)?;
            if tail.is_empty() {
                return Ok(Span::from_millis(total));
            }
            rest = tail;
        }
    }
}

/// Types that are their text in JSON and settings.
macro_rules! serialized_as_text {
    ($($type:ty)*) => {$(
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

pub(crate) use serialized_as_text;

serialized_as_text!(Bdf PortKey Span);

/// A stretch of time for people: `45 s`, `10 min`, `2 h`, `3 d`.
pub fn span_text(length: Duration) -> String {
    match length.as_secs() {
        secs @ 0..120 => format!("{secs} s"),
        secs @ 120..7200 => format!("{} min", secs / 60),
        secs @ 7200..172_800 => format!("{} h", secs / 3600),
        secs => format!("{} d", secs / 86_400),
    }
}

/// Text cut to a number of bytes at a character, with an ellipsis where something is missing.
pub fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(start(&text, most.saturating_sub("…".len())).len());
        text.push('…');
    }
    text
}

/// The first `most` bytes, without a character that would be cut.
pub fn start(text: &str, most: usize) -> &str {
    let mut ends = (0..=most.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or_default()
}

/// Whether a text can be a container's name: a DNS label (RFC 1123).
pub fn is_dns_label(text: &str) -> bool {
    let byte = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bdf_text() {
        for (text, want) in [
            ("0000:19:00.0", Some("0000:19:00.0")),
            ("0008:01:00.1", Some("0008:01:00.1")),
            ("10000:E1:1f.7", Some("10000:e1:1f.7")),
            ("0000:19:00", None),
            ("0000:19:20.0", None),
            ("0000:19:00.8", None),
            ("0000:+9:00.0", None),
            ("", None),
            ("....", None),
        ] {
            let got = text.parse::<Bdf>().ok().map(|b| b.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn span_text() {
        for (text, want) in [
            ("250ms", Some((250, "250ms"))),
            ("10s", Some((10_000, "10s"))),
            ("90s", Some((90_000, "1m30s"))),
            ("5m", Some((300_000, "5m"))),
            ("1h30m", Some((5_400_000, "1h30m"))),
            ("24h", Some((86_400_000, "1d"))),
            ("0", Some((0, "0s"))),
            ("0s", Some((0, "0s"))),
            ("10", None),
            ("", None),
            ("s", None),
            ("-5s", None),
            ("1.5s", None),
            ("5m1h", None),
            ("1s1s", None),
            ("10 s", None),
            ("10é", None),
            ("300000000000000000d", None),
            ("99999999999999999999s", None),
        ] {
            let got = text
                .parse::<Span>()
                .ok()
                .map(|span| (span.0.as_millis() as u64, span.to_string()));
            let got = got.as_ref().map(|(ms, text)| (*ms, text.as_str()));
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn text_is_cut_at_a_character() {
        for (text, most, want) in [
            ("abc", 3, "abc"),
            ("abcdef", 5, "ab…"),
            ("aéé", 4, "a…"),
            ("ééé", 5, "é…"),
        ] {
            let got = cut(text.to_string(), most);
            assert_eq!(got, want);
            assert!(got.len() <= most);
        }
    }

    #[test]
    fn port_key_round_trips_with_a_slash_in_the_device() {
        let key = PortKey {
            device: DeviceKey("0000:19:00.0/mlx5_core.sf.2".into()),
            port: 1,
        };
        let text = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<PortKey>(&text).unwrap(), key);
    }
}
