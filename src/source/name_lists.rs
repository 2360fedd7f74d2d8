//! Lists of counter names, each held once: eighteen ports of one kind have the same, and walking one
//! list is kinder to the processor's caches than walking eighteen.

use crate::observe::named::Names;
use std::sync::{Arc, Mutex, PoisonError};

/// Lists of names in use: ports of one kind share theirs.
#[derive(Debug, Default)]
pub struct NameLists(Mutex<Vec<Names>>);

impl NameLists {
    /// The list that others use already, if it is the same.
    pub fn share(&self, names: Names) -> Names {
        // A list is whole whatever happened to the thread that added one.
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.iter().find(|known| **known == names) {
            return Arc::clone(known);
        }
        lists.retain(|list| Arc::strong_count(list) > 1);
        lists.push(Arc::clone(&names));
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::named::names;

    #[test]
    fn lists_are_shared_while_they_are_in_use() {
        let lists = NameLists::default();
        let list = |name: &str| names(vec![name.into()]);
        let first = lists.share(list("a"));
        assert!(Arc::ptr_eq(&first, &lists.share(list("a"))));
        drop(first);
        let _second = lists.share(list("b"));
        assert_eq!(lists.0.lock().unwrap().len(), 1);
    }
}
