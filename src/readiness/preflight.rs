//! The verdict of `selvage preflight` over its items.

use super::State;
use crate::check::preflight::{Item, ItemStatus};

/// The worst item decides. Skipped items do not count; without any other item the verdict is unknown.
pub fn fold(items: &[Item]) -> State {
    let judged = items.iter().map(|item| item.status);
    let judged = judged.filter(|status| *status != ItemStatus::Skipped);
    match judged.max() {
        Some(ItemStatus::Failing) => State::Unready,
        Some(ItemStatus::Degraded) => State::Degraded,
        Some(ItemStatus::Ok) => State::Ready,
        Some(ItemStatus::Unknown | ItemStatus::Skipped) | None => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_worst_decides() {
        use ItemStatus::{Degraded, Failing, Ok, Skipped, Unknown};
        for (statuses, want) in [
            (&[][..], State::Unknown),
            (&[Skipped, Skipped], State::Unknown),
            (&[Skipped, Ok], State::Ready),
            (&[Ok, Unknown, Skipped], State::Unknown),
            (&[Unknown, Degraded, Ok], State::Degraded),
            (&[Degraded, Failing, Unknown], State::Unready),
        ] {
            let items: Vec<Item> = statuses
                .iter()
                .map(|status| Item {
                    item: "x",
                    status: *status,
                    reason: None,
                    message: String::new(),
                    remedy: String::new(),
                    evidence: BTreeMap::new(),
                })
                .collect();
            assert_eq!(fold(&items), want, "{statuses:?}");
        }
    }
}
