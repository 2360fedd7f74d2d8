//! The address to serve on.

use crate::units::serialized_as_text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// `ADDRESS:PORT`, with an IP address, `localhost`, or nothing for all addresses: `:9949`,
/// `127.0.0.1:9949`, `[::1]:9949`. Host names are refused: they would make the start depend on DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    address: Option<IpAddr>,
    port: u16,
}

impl Listen {
    /// Listens on one address, or on all of them.
    pub const fn new(address: Option<IpAddr>, port: u16) -> Self {
        Listen { address, port }
    }

    /// Socket addresses to try, the first that binds serves. All addresses are one IPv6 socket that
    /// takes IPv4 too, or an IPv4 socket where the kernel has no IPv6.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let (v6, v4) = (Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into());
        let addresses = self.address.map_or(vec![v6, v4], |address| vec![address]);
        let socket = |address| SocketAddr::new(address, self.port);
        addresses.into_iter().map(socket).collect()
    }

    /// Where this machine reaches it: on loopback, if it listens on all addresses.
    pub fn from_here(&self) -> SocketAddr {
        let one = self.address.filter(|address| !address.is_unspecified());
        SocketAddr::new(one.unwrap_or(Ipv4Addr::LOCALHOST.into()), self.port)
    }
}

/// As in the settings.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            None => write!(f, ":{}", self.port),
            Some(address) => SocketAddr::new(address, self.port).fmt(f),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let right = "write it as :9949, 127.0.0.1:9949 or [::1]:9949";
        let bad = || format!("not an address to listen on: {text:?}; {right}");
        let (address, port) = text.rsplit_once(':').ok_or_else(bad)?;
        if !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let port = port.parse().map_err(|_| bad())?;
        let address = match address {
            "" => None,
            "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
            _ => Some(text.parse::<SocketAddr>().map_err(|_| bad())?.ip()),
        };
        Ok(Listen { address, port })
    }
}

serialized_as_text!(Listen);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_reaches_it() {
        for (text, want) in [
            (":9949", "127.0.0.1:9949"),
            ("[::]:1", "127.0.0.1:1"),
            ("10.2.3.4:9949", "10.2.3.4:9949"),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.from_here().to_string(), want);
        }
    }

    #[test]
    fn listen_text() {
        for (text, want) in [
            (":9949", Some(":9949")),
            ("127.0.0.1:0", Some("127.0.0.1:0")),
            ("[::1]:80", Some("[::1]:80")),
            ("localhost:9949", Some("127.0.0.1:9949")),
            ("9949", None),
            (":", None),
            (":+80", None),
            (":99999", None),
            ("::1:80", None),
            ("host.example:9949", None),
            ("", None),
        ] {
            let got = text.parse::<Listen>().ok().map(|listen| listen.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn all_addresses_are_tried_as_ipv6_first() {
        let addresses: Vec<String> = Listen::new(None, 7)
            .addresses()
            .iter()
            .map(|a| a.to_string())
            .collect();
        assert_eq!(addresses, ["[::]:7", "0.0.0.0:7"]);
    }
}
