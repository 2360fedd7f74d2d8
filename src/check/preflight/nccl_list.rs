//! How NCCL reads its lists of devices and interfaces, and its numbers.
//!
//! From NCCL's sources (2.30: `parseStringList`, `matchIfList` in src/misc/utils.cc, `ncclLoadParam`
//! in src/misc/param.cc, `ncclIbInitDevices`, `ncclFindInterfaces`):
//! - a leading `^` excludes, then a `=` asks for whole names (`^=` both; `=^` is a name that begins
//!   with `^`); otherwise an entry is a prefix;
//! - entries end at commas; blanks belong to names, and nothing trims them;
//! - `name:port` narrows to a port; a word is port 0, which no device has; `name:` and `name` mean
//!   any port; a third and fourth part (rail, plane) do not select;
//! - an empty list selects everything, and with `^` nothing.

use crate::observe::{SeenDevice, SeenPort};

/// Longest name that NCCL keeps of an entry (`netIf::prefix`, 64 bytes with the end).
const MAX_NAME: usize = 63;

/// Entries that NCCL reads of `NCCL_IB_HCA` (`MAX_IB_DEVS`).
pub(super) const MAX_HCAS: usize = 32;

/// Entries that NCCL reads of `NCCL_SOCKET_IFNAME` (`MAX_IFS`).
pub(super) const MAX_INTERFACES: usize = 16;

/// NCCL's number for any port.
const ANY: i64 = -1;

/// A list as NCCL reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NcclList {
    /// Matches are left out.
    pub excludes: bool,
    /// Entries are whole names.
    pub exact: bool,
    pub entries: Vec<ListItem>,
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListItem {
    /// A name or the prefix of one.
    pub name: String,
    /// Port number; -1 is any.
    pub port: i64,
}

impl NcclList {
    /// Reads a list of which NCCL uses at most `most` entries.
    pub fn parse(text: &str, most: usize) -> Self {
        let (excludes, text) = strip(text, '^');
        let (exact, text) = strip(text, '=');
        NcclList {
            excludes,
            exact,
            entries: text.split(',').filter_map(entry).take(most).collect(),
        }
    }

    /// Whether NCCL selects this name; `port`: that of an RDMA device.
    pub fn selects(&self, name: &str, port: Option<u32>) -> bool {
        let mut entries = self.entries.iter();
        let is_matched =
            self.entries.is_empty() || entries.any(|entry| self.matches(entry, name, port));
        is_matched != self.excludes
    }

    pub fn selects_port(&self, (device, port): &(&SeenDevice, &SeenPort)) -> bool {
        self.selects(&device.device.name, Some(port.number))
    }

    /// Whether one entry matches a name.
    pub fn matches(&self, entry: &ListItem, name: &str, port: Option<u32>) -> bool {
        let is_name = match self.exact {
            true => name == entry.name,
            false => name.starts_with(&entry.name),
        };
        is_name && port.is_none_or(|port| entry.port == ANY || entry.port == i64::from(port))
    }

    /// Names in the list that match none of these; an exclusion may name what is not there.
    pub fn unmatched<'n>(
        &self,
        there: impl Iterator<Item = (&'n str, Option<u32>)> + Clone,
    ) -> Vec<&str> {
        let is_unmatched = |entry: &&ListItem| {
            let mut there = there.clone();
            !self.excludes && !there.any(|(name, port)| self.matches(entry, name, port))
        };
        let unmatched = self.entries.iter().filter(is_unmatched);
        unmatched.map(|entry| entry.name.as_str()).collect()
    }

    /// An entry that matches no name because of the blanks around it.
    pub fn with_blanks(&self) -> Option<&ListItem> {
        (self.entries.iter()).find(|entry| entry.name.trim() != entry.name)
    }
}

fn strip(text: &str, mark: char) -> (bool, &str) {
    let rest = text.strip_prefix(mark);
    (rest.is_some(), rest.unwrap_or(text))
}

fn entry(text: &str) -> Option<ListItem> {
    let mut parts = text.split(':');
    let name = parts.next().filter(|name| !name.is_empty())?;
    let port = parts.next().filter(|port| !port.is_empty());
    let mut ends = (0..=name.len().min(MAX_NAME)).rev();
    Some(ListItem {
        name: ends.find_map(|end| name.get(..end))?.to_string(),
        port: port.map_or(ANY, |port| leading_integer(port, 10).unwrap_or(0)),
    })
}

/// Whether a setting that is 0 by default is on.
pub(in crate::check) fn is_on(text: &str) -> bool {
    parse_number(text).is_some_and(|number| number != 0)
}

/// A number as NCCL reads it (`strtoll` with base 0): it ignores leading blanks and what follows the
/// digits, `0x` and `0` select the base, and a word is 0. `None` if NCCL keeps its default: an empty
/// value, or too large a number.
pub(super) fn parse_number(text: &str) -> Option<i64> {
    if text.is_empty() {
        return None;
    }
    let digits = text.trim_start().trim_start_matches(['+', '-']);
    let base = match digits.get(..2) {
        Some("0x" | "0X") => 16,
        _ if digits.starts_with('0') => 8,
        _ => 10,
    };
    leading_integer(text, base)
}

/// The integer at the start of a text, 0 if there is none; `None` if it is too large.
pub(super) fn leading_integer(text: &str, base: u32) -> Option<i64> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let (is_negative, text) = strip(text, '-');
    let unsigned = text.strip_prefix('+').filter(|_| !is_negative);
    let text = unsigned.unwrap_or(text);
    let text = match base {
        16 => text.get(2..).unwrap_or_default(),
        _ => text,
    };
    let mut digits = text.chars().map_while(|c| c.to_digit(base)).map(i64::from);
    let value = digits.try_fold(0i64, |value, digit| {
        value.checked_mul(i64::from(base))?.checked_add(digit)
    })?;
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn which_devices_a_list_takes() {
        const NODE: &[(&str, u32)] = &[
            ("mlx5_0", 1),
            ("mlx5_1", 1),
            ("mlx5_1", 2),
            ("mlx5_10", 1),
            ("rocep1s0", 1),
        ];
        for (list, want) in [
            ("", "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_10:1 rocep1s0:1"),
            ("mlx5", "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_10:1"),
            // A prefix: mlx5_1 takes mlx5_10 along, unless whole names are asked for.
            ("mlx5_1", "mlx5_1:1 mlx5_1:2 mlx5_10:1"),
            ("=mlx5_1", "mlx5_1:1 mlx5_1:2"),
            ("=mlx5", ""),
            ("mlx5_1:1", "mlx5_1:1 mlx5_10:1"),
            ("=mlx5_1:1", "mlx5_1:1"),
            ("=mlx5_1:2", "mlx5_1:2"),
            ("=mlx5_0:1,mlx5_1:1", "mlx5_0:1 mlx5_1:1"),
            ("mlx5_0,rocep", "mlx5_0:1 rocep1s0:1"),
            ("^mlx5_1", "mlx5_0:1 rocep1s0:1"),
            ("^=mlx5_1", "mlx5_0:1 mlx5_10:1 rocep1s0:1"),
            ("^=mlx5_1:2", "mlx5_0:1 mlx5_1:1 mlx5_10:1 rocep1s0:1"),
            ("^mlx5,rocep", ""),
            // `=^` asks for a name that begins with ^.
            ("=^mlx5_1", ""),
            ("^^mlx5", "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_10:1 rocep1s0:1"),
            // An empty list takes all, an empty exclusion none.
            ("^", ""),
            ("=", "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_10:1 rocep1s0:1"),
            ("^=", ""),
            (",,", "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_10:1 rocep1s0:1"),
            (":1", "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_10:1 rocep1s0:1"),
            (",mlx5_0,", "mlx5_0:1"),
            // `==` as some clouds' manifests write it: the second = is part of the name.
            ("==mlx5_0", ""),
            // Blanks are part of names.
            ("mlx5_0, rocep1s0", "mlx5_0:1"),
            (" mlx5_0", ""),
            ("mlx5_0 ", ""),
            // Ports.
            ("=mlx5_1:", "mlx5_1:1 mlx5_1:2"),
            ("=mlx5_1:x", ""),
            ("=mlx5_1:2x", "mlx5_1:2"),
            ("=mlx5_1: 2", "mlx5_1:2"),
            ("=mlx5_1:-1", "mlx5_1:1 mlx5_1:2"),
            ("=mlx5_1:0x1", ""),
            ("=mlx5_1:2:7:3", "mlx5_1:2"),
            ("=mlx5_1:99999999999999999999", ""),
            // Names are case-sensitive, and wildcards do not exist.
            ("MLX5", ""),
            ("mlx5_*", ""),
            ("mlx5_0;rocep1s0", ""),
        ] {
            let parsed = NcclList::parse(list, MAX_HCAS);
            let got: Vec<String> = NODE
                .iter()
                .filter(|(name, port)| parsed.selects(name, Some(*port)))
                .map(|(name, port)| format!("{name}:{port}"))
                .collect();
            assert_eq!(got.join(" "), want, "{list:?}");
        }
    }

    #[test]
    fn interfaces_have_no_ports() {
        for (list, name, want) in [
            ("eth0", "eth0", true),
            ("eth", "eth0", true),
            ("eth0:1", "eth0", true),
            ("eth1", "eth10", true),
            ("=eth1", "eth10", false),
            ("^docker,lo,virbr", "docker0", false),
            ("^docker,lo,virbr", "eth0", true),
            ("^=lo", "lo0", true),
        ] {
            let list_read = NcclList::parse(list, MAX_INTERFACES);
            assert_eq!(list_read.selects(name, None), want, "{list} {name}");
        }
    }

    #[test]
    fn long_lists_and_names() {
        let many = vec!["a"; 40].join(",");
        assert_eq!(NcclList::parse(&many, MAX_HCAS).entries.len(), 32);
        let long = "x".repeat(80);
        let list = NcclList::parse(&format!("={long}"), MAX_HCAS);
        assert!(list.selects(&"x".repeat(63), Some(1)) && !list.selects(&long, Some(1)));
        assert!(NcclList::parse("a, b", 9).with_blanks().is_some());
        assert!(NcclList::parse("a,b", 9).with_blanks().is_none());
    }

    #[test]
    fn numbers() {
        for (text, want) in [
            ("3", Some(3)),
            (" 3", Some(3)),
            ("3 ", Some(3)),
            ("-1", Some(-1)),
            ("+3", Some(3)),
            ("0x10", Some(16)),
            ("010", Some(8)),
            ("09", Some(0)),
            ("0", Some(0)),
            // A word is 0: NCCL_IB_DISABLE=true disables nothing.
            ("true", Some(0)),
            ("1,3", Some(1)),
            ("0x", Some(0)),
            ("-0x2", Some(-2)),
            ("", None),
            ("99999999999999999999", None),
            ("\u{fffd}", Some(0)),
        ] {
            assert_eq!(parse_number(text), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,80}", name in ".{0,20}", port in 0u32..9) {
            let list = NcclList::parse(&text, MAX_HCAS);
            let _ = list.selects(&name, Some(port));
            let _ = parse_number(&text);
            // A list and its exclusion never agree.
            let not = NcclList::parse(&format!("^{text}"), MAX_HCAS);
            if !list.excludes {
                prop_assert_ne!(list.selects(&name, Some(port)), not.selects(&name, Some(port)));
            }
        }
    }
}
