//! The prefix that `dev_*` and `netdev_*` prints carry: driver, PCI address, interface name.

use super::text::{Bdf, take_u32};

/// The driver and device that print a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// Driver name; empty when only mlx5's function name is there.
    pub driver: &'a str,
    /// PCI address; absent from messages without a device.
    pub bdf: Option<Bdf>,
    /// Network interface or RDMA device.
    pub name: Option<&'a str>,
    /// The message without the prefix.
    pub rest: &'a str,
}

/// `<driver> <address>`, as dmesg shows it.
pub fn label(driver: &str, bdf: Bdf) -> String {
    format!("{driver} {bdf}")
}

/// Splits `driver bdf[ name]: rest`, `driver: rest` or `function:line:(pid N): rest`.
pub fn origin(line: &str) -> Option<Origin<'_>> {
    let len = line
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b))
        .count();
    let driver = line.get(..len).filter(|d| !d.is_empty())?;
    let after = line.get(len..)?;
    if let Some(rest) = after.strip_prefix(": ") {
        return Some(Origin {
            driver,
            bdf: None,
            name: None,
            rest,
        });
    }
    if let Some(rest) = call_site(line) {
        return Some(Origin {
            driver: "",
            bdf: None,
            name: None,
            rest,
        });
    }
    let (bdf, after) = Bdf::take(after.strip_prefix(' ')?)?;
    let (name, rest) = match after.strip_prefix(": ") {
        Some(rest) => (None, rest),
        None => {
            let (name, rest) = after.strip_prefix(' ')?.split_once(": ")?;
            // An interface that has no name yet prints two remarks in parentheses.
            let named = !name.contains(' ') || name.starts_with('(') || name.ends_with(')');
            (Some(name).filter(|_| named), named.then_some(rest)?)
        }
    };
    Some(Origin {
        driver,
        bdf: Some(bdf),
        name,
        rest: rest.trim_start(),
    })
}

/// What follows mlx5's `function:line:(pid N): `, in any of its ages: `bdf:function:line:…` too.
pub fn call_site(s: &str) -> Option<&str> {
    let (site, rest) = s.split_once(":(pid ")?;
    if site.len() > 80 || site.contains(' ') {
        return None;
    }
    let line_number = site.rsplit(':').next()?;
    if line_number.is_empty() || !line_number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (_, rest) = take_u32(rest)?;
    Some(rest.strip_prefix("):")?.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(s: &str) -> Option<(&str, Option<String>, Option<&str>, &str)> {
        origin(s).map(|o| (o.driver, o.bdf.map(|b| b.to_string()), o.name, o.rest))
    }

    #[test]
    fn prefixes() {
        let bdf = |s: &str| Some(s.to_owned());
        assert_eq!(
            parts("mlx5_core 0000:53:00.0 eth0: Link down"),
            Some(("mlx5_core", bdf("0000:53:00.0"), Some("eth0"), "Link down"))
        );
        assert_eq!(
            parts("bnxt_en 0000:1A:00.0 (unnamed net_device) (uninitialized): x: y"),
            Some((
                "bnxt_en",
                bdf("0000:1a:00.0"),
                Some("(unnamed net_device) (uninitialized)"),
                "x: y"
            ))
        );
        assert_eq!(
            parts("mlx5_core: Port module event"),
            Some(("mlx5_core", None, None, "Port module event"))
        );
        assert_eq!(
            parts("mlx5_port_module_event:1131:(pid 0): Port"),
            Some(("", None, None, "Port"))
        );
        assert_eq!(parts("nvme nvme0: rdma failed"), None);
        assert_eq!(parts("mlx5_core 0000:53:00.0 is a device: yes"), None);
        assert_eq!(parts(""), None);
    }

    #[test]
    fn call_sites() {
        assert_eq!(call_site("poll_health:801:(pid 0): x"), Some("x"));
        assert_eq!(
            call_site("0000:03:00.0:handle_hca_cap:438:(pid 6016): x"),
            Some("x")
        );
        assert_eq!(call_site("a b:1:(pid 3): x"), None);
        assert_eq!(call_site("a:b:(pid 3): x"), None);
    }
}
