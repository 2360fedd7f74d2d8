//! Differences of counters between two looks at the same thing.

use crate::units::Millis;
use std::collections::BTreeMap;

/// The last look at each thing. Bounded by [`Rates::keep`].
#[derive(Debug, Default)]
pub(super) struct Rates<T> {
    last: BTreeMap<String, (Millis, Vec<u64>, T)>,
}

impl<T> Rates<T> {
    /// `difference` of this look and the last one, with the moment of the last. `None` at the first
    /// look, where `identity` changed, and where `difference` says that the counters went back.
    pub(super) fn step<M>(
        &mut self,
        key: &str,
        identity: Vec<u64>,
        at: Millis,
        value: T,
        difference: impl FnOnce(&T, &T) -> Option<M>,
    ) -> Option<(Millis, M)> {
        let before = self.last.get(key).and_then(|(then, who, before)| {
            let same = *who == identity && *then < at;
            Some((*then, difference(&value, before).filter(|_| same)?))
        });
        self.last.insert(key.to_string(), (at, identity, value));
        before
    }

    /// Forgets what `keep` does not want.
    pub(super) fn keep(&mut self, keep: impl Fn(&str) -> bool) {
        self.last.retain(|key, _| keep(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_start_over() {
        let mut rates = Rates::default();
        let at = Millis::from_secs;
        let gain = |now: &u64, then: &u64| now.checked_sub(*then);
        assert_eq!(rates.step("a", vec![1], at(10), 100, gain), None);
        assert_eq!(
            rates.step("a", vec![1], at(20), 150, gain),
            Some((at(10), 50))
        );
        // Another namespace under the same name, then counters that went back.
        assert_eq!(rates.step("a", vec![2], at(30), 9000, gain), None);
        assert_eq!(rates.step("a", vec![2], at(40), 8000, gain), None);
        assert_eq!(
            rates.step("a", vec![2], at(50), 8001, gain),
            Some((at(40), 1))
        );
        // Twice at one moment has no rate.
        assert_eq!(rates.step("a", vec![2], at(50), 8002, gain), None);
        assert_eq!(rates.step("b", vec![], at(50), 1, gain), None);
        rates.keep(|key| key == "b");
    }
}
