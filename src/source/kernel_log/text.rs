//! Small readers over text; none can panic on any input.

/// Whether a message begins with the name of a process, which may be any 15 bytes, as the kernel's words
/// about a segmentation fault do (`arch/x86/mm/fault.c`), or about too little memory (`mm/oom_kill.c`,
/// `mm/page_alloc.c`).
pub fn begins_with_a_process(s: &str) -> bool {
    let number = |rest: &str, open, close| {
        let number = rest.strip_prefix(open).and_then(take_u32);
        number.is_some_and(|(_, rest)| rest.starts_with(close))
    };
    let of_process = |rest: &str| {
        rest.starts_with(" invoked oom-killer: ")
            || rest.starts_with(": page allocation ")
            || number(rest, "[", ']')
            || number(rest, " (", ')')
    };
    (1..=15).any(|end| s.get(end..).is_some_and(of_process))
}

/// A PCI address at the start of `s`, in lower case and with a domain of four digits, and what
/// follows it: `dddd:bb:dd.f`, or `dddd:bb:dd` where no function is given, as NVIDIA prints it.
pub fn take_address(s: &str) -> Option<(String, &str)> {
    let (domain, rest) = take_hex(s, 4, 8)?;
    let (bus, rest) = take_hex(rest.strip_prefix(':')?, 2, 2)?;
    let (device, rest) = take_hex(rest.strip_prefix(':')?, 2, 2)?;
    let address = format!("{domain:04x}:{bus:02x}:{device:02x}");
    let function = rest.strip_prefix('.').and_then(|f| f.split_at_checked(1));
    Some(match function {
        Some((digit, after)) if matches!(digit.as_bytes(), [b'0'..=b'7']) => {
            (format!("{address}.{digit}"), after)
        }
        // None, or a full stop that ends a sentence.
        _ => (address, rest),
    })
}

/// The last address in `s` that stands as a word of its own.
pub fn last_address(s: &str) -> Option<String> {
    let words = s.split([' ', '\t', '(', ')', ',']);
    let mut addresses = words.filter_map(|word| {
        let (address, rest) = take_address(word)?;
        matches!(rest, "" | "." | ":").then_some(address)
    });
    addresses.next_back()
}

/// `dddd:bb:dd` of an address.
pub fn slot(address: &str) -> String {
    address.split('.').next().unwrap_or(address).to_owned()
}

/// Hex digits at the start of `s`, between `min` and `max` of them.
fn take_hex(s: &str, min: usize, max: usize) -> Option<(u32, &str)> {
    let len = s.bytes().take_while(u8::is_ascii_hexdigit).count();
    let (digits, rest) = s.split_at_checked(len)?;
    let value = u32::from_str_radix(digits, 16).ok()?;
    (min..=max).contains(&len).then_some((value, rest))
}

/// Decimal digits at the start of `s`.
pub fn take_u32(s: &str) -> Option<(u32, &str)> {
    let len = s.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = s.split_at_checked(len)?;
    Some((digits.parse().ok()?, rest))
}

/// A `0x…` word at the start of `s`.
pub fn take_0x(s: &str) -> Option<(u32, &str)> {
    take_hex(s.strip_prefix("0x")?, 1, 8)
}

/// All whole `0x…` words of a list; a word that the line's end cut is left out.
pub fn hex_words(s: &str) -> Vec<u32> {
    let closed = s.contains(')');
    let body = s.split(')').next().unwrap_or_default();
    let mut words: Vec<&str> = body.split([',', ' ']).filter(|w| !w.is_empty()).collect();
    if !closed && words.last().is_some_and(|last| last.len() < 10) {
        words.pop();
    }
    let values = words.iter().map_while(|word| match take_0x(word)? {
        (value, "") => Some(value),
        _ => None,
    });
    values.take(16).collect()
}

/// The driver and device that print a message, by the prefix of `dev_*` and `netdev_*` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageOrigin<'a> {
    /// Driver name; empty when only mlx5's function name is there.
    pub driver: &'a str,
    /// PCI address; absent from messages without a device.
    pub address: Option<String>,
    /// Interface or RDMA device, where the message names it instead of an address.
    pub name: Option<&'a str>,
    /// The message without the prefix.
    pub rest: &'a str,
}

/// Splits `driver address[ interface]: rest`, `driver: rest` or `function:line:(pid N): rest`.
pub fn origin(line: &str) -> Option<MessageOrigin<'_>> {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let len = line.find(|c| !word(c)).filter(|len| *len > 0)?;
    let (driver, after) = line.split_at_checked(len)?;
    let of = |driver, address, rest| MessageOrigin {
        driver,
        address,
        name: None,
        rest,
    };
    if let Some(rest) = after.strip_prefix(": ") {
        return Some(of(driver, None, rest));
    }
    let of_mlx5 = |_: &&str| line.starts_with("mlx5_") || line.contains(":(pid ");
    if let Some(rest) = call_site(line).filter(of_mlx5) {
        // mlx5 of before Linux 4.0 names its device only here: `0000:03:00.0:handle_hca_cap:438:(pid 6): `.
        let address = take_address(line).filter(|(_, rest)| rest.starts_with(':'));
        return Some(of("", address.map(|(address, _)| address), rest));
    }
    let (address, after) = take_address(after.strip_prefix(' ')?)?;
    // A service of a PCIe port before Linux 5.1: `dpc 0000:00:03.2:pcie008: `.
    let service = after.strip_prefix(":pcie");
    let after = service.map_or(after, |n| {
        n.trim_start_matches(|c: char| c.is_ascii_digit())
    });
    let rest = after.strip_prefix(": ").or_else(|| {
        let (name, rest) = after.strip_prefix(' ')?.split_once(": ")?;
        // An interface that has no name yet prints two remarks in parentheses.
        let named = !name.contains(' ') || name.starts_with('(') || name.ends_with(')');
        named.then_some(rest)
    })?;
    Some(of(driver, Some(address), rest.trim_start()))
}

/// What follows mlx5's `function:line:(pid N): `, in any of its ages: `bdf:function:line:…` and
/// `function:line: ` too.
pub fn call_site(s: &str) -> Option<&str> {
    let (site, rest) = match s.split_once(":(pid ") {
        Some((site, rest)) => (site, take_u32(rest)?.1.strip_prefix("):")?),
        None => s.split_once(": ").filter(|(site, _)| site.contains('_'))?,
    };
    let (_, line_number) = site.rsplit_once(':')?;
    let shape = site.len() <= 80 && !site.contains(' ') && is_digits(line_number);
    shape.then(|| rest.trim_start())
}

/// Whether a word consists of decimal digits.
pub fn is_digits(s: &str) -> bool {
    !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, want) in [
            ("0000:3B:00.1: x", Some(("0000:3b:00.1", ": x"))),
            ("00000009:01:00)", Some(("0009:01:00", ")"))),
            ("0000:05", None),
            ("05:00.0", None),
            ("0000:3b:00. So", Some(("0000:3b:00", ". So"))),
            ("0000:3b:00.9", Some(("0000:3b:00", ".9"))),
        ] {
            let want = want.map(|(address, rest)| (address.to_owned(), rest));
            assert_eq!(take_address(text), want, "{text}");
        }
        let last = last_address("from 0000:16:01.0 to 0000:17:00.0");
        assert_eq!(last.as_deref(), Some("0000:17:00.0"));
        assert_eq!(slot("0000:17:00.0"), "0000:17:00");
    }

    #[test]
    fn register_lists_drop_a_cut_word() {
        assert_eq!(hex_words("0x0, 0x10000, 0x2)"), vec![0, 0x1_0000, 2]);
        assert_eq!(hex_words("0x000fe406 0x0000"), vec![0x000f_e406]);
        assert_eq!(hex_words("0x000fe406"), vec![0x000f_e406]);
        assert_eq!(hex_words("Link"), Vec::<u32>::new());
    }

    fn parts(s: &str) -> Option<(&str, Option<String>, &str)> {
        origin(s).map(|o| (o.driver, o.address, o.rest))
    }

    #[test]
    fn prefixes() {
        let bdf = |s: &str| Some(s.to_owned());
        for (line, want) in [
            (
                "mlx5_core 0000:53:00.0 eth0: Link down",
                Some(("mlx5_core", bdf("0000:53:00.0"), "Link down")),
            ),
            (
                "bnxt_en 0000:1A:00.0 (unnamed net_device) (uninitialized): x: y",
                Some(("bnxt_en", bdf("0000:1a:00.0"), "x: y")),
            ),
            (
                "mlx5_core: Port module event",
                Some(("mlx5_core", None, "Port module event")),
            ),
            (
                "mlx5_port_module_event:1131:(pid 0): Port",
                Some(("", None, "Port")),
            ),
            (
                "0000:03:00.0:handle_hca_cap:438:(pid 6016): x",
                Some(("", bdf("0000:03:00.0"), "x")),
            ),
            ("nvme nvme0: rdma failed", None),
            ("mlx5_core 0000:53:00.0 is a device: yes", None),
            ("", None),
        ] {
            assert_eq!(parts(line), want, "{line}");
        }
    }

    #[test]
    fn call_sites() {
        assert_eq!(call_site("poll_health:801:(pid 0): x"), Some("x"));
        assert_eq!(
            call_site("0000:03:00.0:handle_hca_cap:438:(pid 6016): x"),
            Some("x")
        );
        assert_eq!(call_site("poll_health:825: x: y"), Some("x: y"));
        assert_eq!(call_site("eth0:1: x"), None);
        assert_eq!(call_site("a b:1:(pid 3): x"), None);
        assert_eq!(call_site("a:b:(pid 3): x"), None);
    }
}
