//! Virtual functions as their physical function's network device administers them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Administrative link state of a virtual function (`ip link set PF vf N state …`;
/// include/uapi/linux/if_link.h, IFLA_VF_LINK_STATE). It lives in the physical function's driver:
/// neither sysfs nor the function itself tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VfLink {
    /// Follows the physical port.
    Auto,
    /// Up whatever the physical port is.
    Enable,
    /// Down whatever the physical port is.
    Disable,
    /// A word that later kernels may have.
    Other,
}

/// Link states of one physical function's virtual functions, by their number (N of `virtfnN`). All
/// of them, or none was told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VfLinks {
    /// Link states by the function's number.
    pub states: BTreeMap<u32, VfLink>,
}

impl VfLinks {
    /// Numbers of those in a state.
    pub fn in_state(&self, state: VfLink) -> impl Iterator<Item = u32> {
        let states = self.states.iter().filter(move |(_, is)| **is == state);
        states.map(|(number, _)| *number)
    }

    /// Numbers of those that are switched off, as people write them (`0-3, 6`); none: no one is.
    pub fn disabled_text(&self) -> Option<String> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in self.in_state(VfLink::Disable) {
            match runs.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => runs.push((number, number)),
            }
        }
        let told = runs.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        let links = |disabled: &[u32]| VfLinks {
            states: (0..8)
                .map(|n| match disabled.contains(&n) {
                    true => (n, VfLink::Disable),
                    false => (n, VfLink::Auto),
                })
                .collect(),
        };
        for (disabled, want) in [
            (&[][..], None),
            (&[3], Some("3")),
            (&[0, 1, 2, 6], Some("0-2, 6")),
            (&[0, 1, 2, 3, 4, 5, 6, 7], Some("0-7")),
            (&[0, 2, 4], Some("0, 2, 4")),
        ] {
            assert_eq!(links(disabled).disabled_text().as_deref(), want);
        }
    }
}
