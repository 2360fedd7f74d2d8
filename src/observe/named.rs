//! Values by name, where the names stay and the values change: a sample of counters, their tracks.
//! Names are shared between samples, so that a sample is one allocation and no comparison.

use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Names in ascending order, each once.
pub type Names = Arc<[Box<str>]>;

/// Sorts names, and drops those that come twice.
pub fn names(mut names: Vec<Box<str>>) -> Names {
    names.sort_unstable();
    names.dedup();
    names.into()
}

/// A map from names to values, in the order of the names.
#[derive(Clone, PartialEq, Eq)]
pub struct Named<T> {
    names: Names,
    values: Vec<T>,
}

impl<T> Named<T> {
    /// One value for each name; what is too many on either side is left out.
    pub fn new(names: Names, mut values: Vec<T>) -> Self {
        let len = names.len().min(values.len());
        values.truncate(len);
        let names = match names.get(..len) {
            Some(fewer) if len < names.len() => fewer.into(),
            _ => names,
        };
        Named { names, values }
    }

    /// Its names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.values.get(self.place(name).ok()?)
    }

    /// The value of a name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let place = self.place(name).ok()?;
        self.values.get_mut(place)
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.names.iter().map(|name| &**name).zip(&self.values)
    }

    /// Values, by name.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// Values to be changed, by name.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut()
    }

    /// Sets the value of a name. A new name costs a list of names of its own.
    pub fn insert(&mut self, name: &str, value: T) {
        match self.place(name) {
            Ok(place) => {
                if let Some(slot) = self.values.get_mut(place) {
                    *slot = value;
                }
            }
            Err(place) => {
                let mut names = self.names.to_vec();
                names.insert(place, name.into());
                self.names = names.into();
                self.values.insert(place, value);
            }
        }
    }

    /// Takes another list of the very same names, to be shared.
    pub fn share_names(&mut self, names: &Names) {
        if self.names == *names {
            self.names = Arc::clone(names);
        }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|known| (**known).cmp(name))
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named {
            names: Names::default(),
            values: Vec::new(),
        }
    }
}

impl<T> FromIterator<(String, T)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(pairs: I) -> Self {
        let sorted: BTreeMap<String, T> = pairs.into_iter().collect();
        let (names, values): (Vec<Box<str>>, Vec<T>) = sorted
            .into_iter()
            .map(|(name, value)| (name.into_boxed_str(), value))
            .unzip();
        Named {
            names: names.into(),
            values,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Named<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map: BTreeMap<String, T> = Deserialize::deserialize(deserializer)?;
        Ok(map.into_iter().collect())
    }
}

#[cfg(test)]
impl<T> std::ops::Index<&str> for Named<T> {
    type Output = T;

    fn index(&self, name: &str) -> &T {
        self.get(name).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name_whatever_the_order_of_coming() {
        let mut named: Named<u32> = [("b", 2), ("d", 4), ("a", 1)]
            .map(|(name, value)| (name.to_string(), value))
            .into_iter()
            .collect();
        named.insert("c", 3);
        named.insert("b", 20);
        let all: Vec<_> = named.iter().collect();
        assert_eq!(all, [("a", &1), ("b", &20), ("c", &3), ("d", &4)]);
        assert_eq!((named.get("c"), named.get("e")), (Some(&3), None));
        let text = serde_json::to_string(&named).unwrap();
        assert_eq!(text, r#"{"a":1,"b":20,"c":3,"d":4}"#);
        assert_eq!(serde_json::from_str::<Named<u32>>(&text).unwrap(), named);
    }

    #[test]
    fn as_many_values_as_names() {
        let list = || names(["b", "a", "a"].map(Into::into).to_vec());
        assert_eq!(list().len(), 2);
        for (values, want) in [
            (vec![1], vec![("a", &1)]),
            (vec![1, 2, 3], vec![("a", &1), ("b", &2)]),
        ] {
            let named = Named::new(list(), values);
            assert_eq!(named.iter().collect::<Vec<_>>(), want);
            assert_eq!(named.names().len(), named.len());
        }
    }
}
