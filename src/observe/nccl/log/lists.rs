//! Lists of devices, interfaces and addresses in lines.

use super::*;
use std::net::IpAddr;

impl NcclLog {
    /// `[0]mlx5_0:1/IB [1]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE}`: records the link layer of each device.
    pub(super) fn devices(&mut self, list: &str) {
        // The number of the device whose parts follow, in braces.
        let mut outer = None;
        let parts = list.split('[').skip(1);
        for (index, rest) in parts.filter_map(|part| part.split_once(']')) {
            let Ok(index) = index.parse::<u32>() else {
                continue;
            };
            if rest.starts_with('=') {
                outer = Some(index);
                continue;
            }
            let index = outer.unwrap_or(index);
            outer = outer.filter(|_| !rest.contains('}'));
            let device = rest.trim_start().split([' ', ',', '}', ';']).next();
            let link = match device.and_then(|device| device.split('/').nth(1)) {
                Some("IB") => Link::Ib,
                Some("RoCE") => Link::Roce,
                _ => continue,
            };
            self.link_kinds.insert(link);
            if self.links.len() < MAX_NAMES {
                self.links.insert((index, link));
            }
        }
    }

    /// Whether two ranks of nccl-tests' list have the same device of the same host.
    pub fn test_shares_devices(&self) -> bool {
        let seats = self.test_ranks.values();
        let devices: BTreeSet<_> = seats.map(|(place, device)| (place.host, device)).collect();
        devices.len() < self.test_ranks.len()
    }

    /// Detects machines that share a name, by the first address of each interface. A process that begins
    /// with another address is of a pod that was started again, unless the one before comes back.
    pub(super) fn addressed(&mut self, place: HostPid, list: &str, begins: bool) {
        let mut seen = BTreeSet::new();
        for (interface, address) in entries(list).take(16) {
            if self.shared_names || address.is_empty() || !seen.insert(interface) {
                continue;
            }
            let (host, interface) = (place.host, hash(interface));
            let key = (host, interface, place.process);
            let address = hash(address);
            let known = self.addresses.get(&key).copied();
            match known {
                Some((known, _)) if known == address => continue,
                Some((known, before)) => {
                    let again = begins && place.process != u32::MAX;
                    self.shared_names |= !again || before == Some(address);
                    self.addresses.retain(|of, (address, _)| {
                        (of.0, of.1) != (host, interface) || *address != known
                    });
                }
                None => {
                    let all = (host, interface, 0)..=(host, interface, u32::MAX);
                    let mut others = self.addresses.range(all);
                    self.shared_names |= others.any(|(_, (other, _))| *other != address);
                }
            }
            if self.addresses.len() < 4 * self.limits.processes {
                let before = known.map(|(known, _)| known);
                self.addresses.insert(key, (address, before));
            }
        }
    }

    pub(super) fn interfaces(&mut self, list: &str) {
        // Hosts that announce their address by BGP have it on lo.
        let routed = |address: &str| {
            let address: Result<IpAddr, _> = address.parse();
            address.is_ok_and(|address| !address.is_loopback())
        };
        for (name, address) in entries(list) {
            let name = match name {
                "lo" if routed(address) => "routed",
                name => name,
            };
            if self.interfaces.len() >= MAX_NAMES {
                return;
            }
            if !self.interfaces.contains(name) {
                self.interfaces.insert(start(name, 32).into());
            }
        }
    }
}

/// `[0]eth0:10.0.0.1<0> [1]ib0:fe80::1%ib0<0>` or without numbers: `IF:ADDRESS<PORT>` each.
fn entries(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split_ascii_whitespace().take(32).filter_map(|word| {
        let word = match word.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?.1,
            None => word,
        };
        let (interface, address) = word.split_once(':')?;
        let (address, _) = address.split_once('<')?;
        Some((interface, address))
    })
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
