//! How NCCL reads its lists of devices and interfaces, and its numbers.
//!
//! From NCCL's sources (2.30: `parseStringList`, `matchIfList` in src/misc/utils.cc, `ncclLoadParam`
//! in src/misc/param.cc, `ncclIbInitDevices`, `ncclFindInterfaces`):
//! - a leading `^` excludes, then a `=` asks for whole names (`^=` both; `=^` is a name that begins
//!   with `^`); otherwise an entry is a prefix;
//! - entries end at commas; blanks belong to names, and nothing trims them;
//! - `name:port` narrows to a port; what is no number is port 0, which no device has; `name:` and
//!   `name` mean any port; a third and fourth part (rail, plane) do not select;
//! - no entry at all selects everything, and with `^` nothing.

/// Longest name that NCCL keeps of an entry (`netIf::prefix`, 64 bytes with the end).
const MAX_NAME: usize = 63;

/// Entries that NCCL takes of `NCCL_IB_HCA` (`MAX_IB_DEVS`).
pub const MAX_HCAS: usize = 32;

/// Entries that NCCL takes of `NCCL_SOCKET_IFNAME` (`MAX_IFS`).
pub const MAX_INTERFACES: usize = 16;

/// Any port.
const ANY: i64 = -1;

/// A list as NCCL reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NcclList {
    /// What matches is left out.
    pub excludes: bool,
    /// Whole names are meant.
    pub exact: bool,
    /// The entries.
    pub entries: Vec<Entry>,
    /// Entries beyond those that NCCL takes.
    pub ignored: usize,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name, or beginning of a name.
    pub name: String,
    /// Port; -1 is any.
    pub port: i64,
}

impl NcclList {
    /// Reads a list of which NCCL takes at most `most` entries.
    pub fn parse(text: &str, most: usize) -> Self {
        let (excludes, text) = strip(text, '^');
        let (exact, text) = strip(text, '=');
        let mut all = text.split(',').filter_map(entry);
        let entries = all.by_ref().take(most).collect();
        NcclList {
            excludes,
            exact,
            entries,
            ignored: all.count(),
        }
    }

    /// Whether NCCL takes what has this name; `port`: that of an RDMA device.
    pub fn selects(&self, name: &str, port: Option<u32>) -> bool {
        let named = self.entries.is_empty()
            || (self.entries.iter()).any(|entry| self.names(entry, name, port));
        named != self.excludes
    }

    /// Whether one entry names it.
    pub fn names(&self, entry: &Entry, name: &str, port: Option<u32>) -> bool {
        let called = if self.exact {
            name == entry.name
        } else {
            name.starts_with(&entry.name)
        };
        called && port.is_none_or(|port| entry.port == ANY || entry.port == i64::from(port))
    }

    /// An entry that no name can fit because of blanks around it, as people write lists.
    pub fn with_blanks(&self) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.name.trim() != entry.name)
    }
}

fn strip(text: &str, mark: char) -> (bool, &str) {
    match text.strip_prefix(mark) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

fn entry(text: &str) -> Option<Entry> {
    let mut parts = text.split(':');
    let name = parts.next().filter(|name| !name.is_empty())?;
    let port = parts.next().filter(|port| !port.is_empty());
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    Some(Entry {
        name: name.get(..end).unwrap_or_default().to_string(),
        port: port.map_or(ANY, |port| leading_integer(port, 10).unwrap_or(0)),
    })
}

/// A number as NCCL reads one (`strtoll` with base 0): leading blanks and what follows the digits
/// are passed over, `0x` and `0` choose the base, and a word is 0. None where NCCL keeps its
/// default: nothing given, or too large a number.
pub fn number(text: &str) -> Option<i64> {
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

/// The integer that a text begins with, 0 for none; none if it is too large.
pub(super) fn leading_integer(text: &str, base: u32) -> Option<i64> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let text = match base {
        16 => text.get(2..).unwrap_or_default(),
        _ => text,
    };
    let mut value: i64 = 0;
    for digit in text.chars().map_while(|c| c.to_digit(base)) {
        value = value
            .checked_mul(i64::from(base))?
            .checked_add(i64::from(digit))?;
    }
    Some(if negative { -value } else { value })
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
            // Case and wildcards are no such thing.
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
        let list = NcclList::parse(&many, MAX_HCAS);
        assert_eq!((list.entries.len(), list.ignored), (32, 8));
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
            assert_eq!(number(text), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,80}", name in ".{0,20}", port in 0u32..9) {
            let list = NcclList::parse(&text, MAX_HCAS);
            let _ = list.selects(&name, Some(port));
            let _ = number(&text);
            // A list and its exclusion never agree.
            let not = NcclList::parse(&format!("^{text}"), MAX_HCAS);
            if !list.excludes {
                prop_assert_ne!(list.selects(&name, Some(port)), not.selects(&name, Some(port)));
            }
        }
    }
}
