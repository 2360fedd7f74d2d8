//! IP networks in settings: `10.0.0.0/16`.

use std::net::IpAddr;

/// The addresses that share the first `bits` of `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    base: IpAddr,
    bits: u32,
}

impl Network {
    /// `None` if the address family has fewer bits.
    pub(super) fn new(base: IpAddr, bits: u32) -> Option<Self> {
        let width = if base.is_ipv6() { 128 } else { 32 };
        (bits <= width).then_some(Network { base, bits })
    }

    /// Reads `10.0.0.0/16`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/')?;
        Network::new(base.parse().ok()?, bits.parse().ok()?)
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let differ = u32::from(base) ^ u32::from(address);
                differ.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let differ = u128::from(base) ^ u128::from(address);
                differ.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}
