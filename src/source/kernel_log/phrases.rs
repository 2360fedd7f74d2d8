//! What drivers print and what it means: `phrases.toml`.

use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

use crate::data_files::embedded;
use crate::observe::Note;

/// Phrases and what they mean.
type Notes = Vec<(String, Note)>;

/// The lists of `phrases.toml`, which says what each is.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Phrases {
    pub drivers: BTreeMap<String, Vec<String>>,
    pub notes: BTreeMap<String, Notes>,
    pub loaded: BTreeMap<String, Vec<String>>,
    pub modules: Notes,
    pub start_failures: Vec<String>,
    pub probe_failures: Vec<String>,
    pub firmware_files: Vec<String>,
    pub symbol_failures: Vec<String>,
    pub cooled: Vec<String>,
    pub lost: Vec<String>,
    pub reset_required: Vec<String>,
    pub switch_stops: Vec<String>,
    pub switch_troubles: Vec<String>,
    pub endings: Vec<String>,
    pub bring_up_failures: Vec<String>,
    pub complaints: Vec<String>,
    pub taints: Vec<String>,
}

/// The phrases, read once.
pub static PHRASES: LazyLock<Phrases> = LazyLock::new(|| embedded(include_str!("phrases.toml")));

/// Whether a text says one of `phrases`.
pub fn says_any(text: &str, phrases: &[String]) -> bool {
    phrases.iter().any(|phrase| says(text, phrase))
}

/// What the first phrase that a text says means.
pub fn first(notes: &[(String, Note)], text: &str) -> Option<Note> {
    let row = notes.iter().find(|(phrase, _)| says(text, phrase));
    row.map(|row| row.1)
}

/// A phrase stands at the text's start unless it begins with `*`, which stands for anything, also
/// inside: `a*b` is "a … b …".
fn says(text: &str, phrase: &str) -> bool {
    let mut parts = phrase.split('*');
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let end = parts.try_fold(rest, |rest, part| Some(rest.split_once(part)?.1));
    end.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases() {
        for (phrase, want) in [
            ("port module", true),
            ("module", false),
            ("*module", true),
            ("port*cable*in", true),
            ("port*in*cable", false),
            ("porter", false),
            ("port*", true),
        ] {
            assert_eq!(
                says("port module event: cable in", phrase),
                want,
                "{phrase}"
            );
        }
    }

    #[test]
    fn every_list_is_read_and_in_lower_case() {
        let phrases: Phrases = toml::from_str(include_str!("phrases.toml")).unwrap();
        let named = phrases.drivers.values().flatten();
        assert!(
            named
                .into_iter()
                .all(|list| phrases.notes.contains_key(list))
        );
        let notes = phrases.notes.values().chain([&phrases.modules]);
        let loaded = phrases.loaded.values().flatten();
        assert!(loaded.into_iter().all(|text| *text == text.to_lowercase()));
        let words = [
            &phrases.start_failures,
            &phrases.probe_failures,
            &phrases.firmware_files,
            &phrases.symbol_failures,
            &phrases.lost,
            &phrases.bring_up_failures,
            &phrases.complaints,
            &phrases.taints,
        ];
        assert!(!phrases.endings.is_empty());
        for list in notes {
            assert!(!list.is_empty());
            for (phrase, _) in list {
                assert_eq!(*phrase, phrase.to_lowercase());
            }
        }
        for list in words {
            assert!(!list.is_empty());
            for phrase in list {
                assert_eq!(*phrase, phrase.to_lowercase());
            }
        }
    }
}
