//! What is at the other end of a port's cable, as LLDP (IEEE 802.1AB) says, or on InfiniBand a request
//! through umad.

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// A switch's port, in its own words. Nothing of it is authenticated. Texts are short and printable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbor {
    /// Its name; the chassis ID, or on InfiniBand the node's GUID, where it has none.
    pub switch: String,
    /// Its port: the port ID, or the port description where the ID is only a MAC address.
    pub switch_port: String,
    /// Port description: often what an operator wrote there.
    pub description: Option<String>,
    /// Chassis ID and port ID (node GUID and port number), which together name the sender.
    #[serde(skip)]
    pub ids: (String, String),
}

/// One LLDPDU that was received, or one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertisement {
    /// Its sender.
    pub neighbor: Neighbor,
    /// How long it holds; zero: the sender's port is about to go down.
    pub ttl: Duration,
}

impl Neighbor {
    /// Whether it is the same port: a switch may be renamed, or replaced under its name.
    pub fn is_same_port(&self, other: &Neighbor) -> bool {
        self.ids == other.ids
            || (&self.switch, &self.switch_port) == (&other.switch, &other.switch_port)
    }
}

/// `leaf-3 Ethernet1/12`
impl fmt::Display for Neighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.switch, self.switch_port)
    }
}

impl Advertisement {
    /// The interface's neighbor after one more LLDPDU; `None` where that changes nothing. One
    /// of TTL 0 ends what its own sender said before; it has no names, so those stay.
    #[must_use]
    pub fn after(self, before: Option<&Advertisement>) -> Option<Advertisement> {
        if !self.ttl.is_zero() {
            return Some(self);
        }
        let before = before.filter(|before| before.neighbor.ids == self.neighbor.ids)?;
        Some(Advertisement {
            ttl: Duration::ZERO,
            ..before.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(switch: &str, port: &str, chassis: &str, ttl: u64) -> Advertisement {
        Advertisement {
            neighbor: Neighbor {
                switch: switch.into(),
                switch_port: port.into(),
                description: None,
                ids: (chassis.into(), port.into()),
            },
            ttl: Duration::from_secs(ttl),
        }
    }

    #[test]
    fn the_newest_counts_and_a_ttl_of_zero_ends_its_own_sender() {
        let leaf = heard("leaf-1", "swp1", "02:01", 120);
        let other = heard("leaf-2", "swp1", "02:02", 120);
        assert_eq!(leaf.clone().after(None), Some(leaf.clone()));
        assert_eq!(other.clone().after(Some(&leaf)), Some(other.clone()));
        let goodbye = heard("02:01", "swp1", "02:01", 0);
        let ended = heard("leaf-1", "swp1", "02:01", 0);
        assert_eq!(goodbye.clone().after(Some(&leaf)), Some(ended));
        assert_eq!(goodbye.clone().after(Some(&other)), None);
        assert_eq!(goodbye.after(None), None);
    }

    #[test]
    fn a_renamed_and_a_replaced_switch_are_the_same_port() {
        let was = heard("leaf-1", "swp1", "02:01", 120).neighbor;
        for (switch, port, chassis, same) in [
            ("leaf-1", "swp1", "02:01", true),
            ("leaf-1a", "swp1", "02:01", true),
            ("leaf-1", "swp1", "02:ff", true),
            ("leaf-1", "swp2", "02:01", false),
            ("leaf-2", "swp1", "02:02", false),
        ] {
            let is = heard(switch, port, chassis, 120).neighbor;
            assert_eq!(was.is_same_port(&is), same, "{switch} {port} {chassis}");
        }
    }
}
