//! 802.1X: what `wpa_supplicant` says of each interface on its control socket (doc/ctrl_iface.doxygen
//! of hostap), `/run/wpa_supplicant/IF`, which is there since 0.3 where the configuration has
//! `ctrl_interface=/run/wpa_supplicant` (or `/var/run/…`). Missing: no supplicant, or one with another
//! directory. Only `STATUS` is ever asked. A socket is of mode 0770 and its supplicant's owner's and
//! group's.
//!
//! In a directory tree a plain file in a socket's place holds the answer.

mod socket;

use crate::host::Host;
use crate::observe::{Dot1xFacts, Reading};
use socket::{SupplicantDirectory, WAITS};
use std::collections::{BTreeMap, BTreeSet};

/// Where the sockets are.
const DIRECTORY: [&str; 2] = ["run", "wpa_supplicant"];

/// Longest word kept of an answer.
const MAX_WORD: usize = 48;

/// The path of an interface's socket, or of the text in its place.
pub fn path(name: &str) -> String {
    format!("{}/{name}", DIRECTORY.join("/"))
}

/// What is said of each of these interfaces that has a supplicant. All are asked at once and waited
/// for together. Absent: there is none, or not even the directory.
pub fn read(
    host: &Host,
    names: &BTreeSet<String>,
) -> Reading<BTreeMap<String, Reading<Dot1xFacts>>> {
    let directory = match SupplicantDirectory::open(host) {
        Ok(directory) => directory,
        Err(why) => return why.map(|_| BTreeMap::new()),
    };
    let asked = names.iter().map(|name| (name, directory.ask(host, name)));
    let asked: Vec<_> = asked.collect();
    let mut waits = WAITS;
    let mut found = BTreeMap::new();
    for (name, asked) in asked {
        let answer = match asked {
            Ok(question) => question.answer(&mut waits),
            Err(Reading::Absent) => continue,
            Err(known) => known,
        };
        found.insert(name.clone(), answer.and_then(|text| parse(&text)));
    }
    match found.is_empty() {
        true => Reading::Absent,
        false => Reading::Value(found),
    }
}

/// The words of an answer that are kept, with their keys.
fn words(facts: &mut Dot1xFacts) -> [(&'static str, &mut Option<String>); 5] {
    [
        ("key_mgmt", &mut facts.key_mgmt),
        ("wpa_state", &mut facts.wpa_state),
        ("Supplicant PAE state", &mut facts.pae_state),
        ("EAP state", &mut facts.eap_state),
        ("selectedMethod", &mut facts.method),
    ]
}

/// Facts of one answer.
pub fn parse(text: &str) -> Reading<Dot1xFacts> {
    let mut facts = Dot1xFacts::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        if key == "suppPortStatus" {
            facts.authorized = match value {
                "Authorized" => Some(true),
                "Unauthorized" => Some(false),
                _ => return malformed("suppPortStatus is neither of its two words"),
            };
        } else if let Some((_, kept)) = words(&mut facts).into_iter().find(|(k, _)| *k == key) {
            *kept = word(value);
        }
    }
    if facts.authorized.is_none() && facts.wpa_state.is_none() {
        return malformed("no answer to STATUS");
    }
    Reading::Value(facts)
}

/// The same as text again, without addresses and names: what a capture keeps.
pub fn text(facts: &Dot1xFacts) -> String {
    let status = |yes| if yes { "Authorized" } else { "Unauthorized" };
    let status = facts.authorized.map(|yes| status(yes).to_string());
    let mut facts = facts.clone();
    let words = words(&mut facts).map(|(key, word)| (key, word.take()));
    let lines = [("suppPortStatus", status)].into_iter().chain(words);
    let line = |(key, word): (&str, Option<String>)| Some(format!("{key}={}\n", word?));
    lines.filter_map(line).collect()
}

/// A short printable word; nothing else comes out of an answer.
fn word(value: &str) -> Option<String> {
    let fits = (1..=MAX_WORD).contains(&value.len())
        && (value.bytes()).all(|byte| byte == b' ' || byte.is_ascii_graphic());
    fits.then(|| value.to_string())
}

fn malformed(detail: &str) -> Reading<Dot1xFacts> {
    Reading::malformed(format!("wpa_supplicant: {detail}"))
}

#[cfg(test)]
mod tests;
