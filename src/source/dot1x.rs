//! 802.1X: what `wpa_supplicant` says of each interface on its control socket (doc/ctrl_iface.doxygen
//! of hostap), `/run/wpa_supplicant/IF`, which is there since 0.3 where the configuration has
//! `ctrl_interface=/run/wpa_supplicant` (or `/var/run/…`). Missing: no supplicant, or one with another
//! directory. Only `STATUS` is ever asked. A socket is of mode 0770 and its supplicant's owner's and
//! group's.
//!
//! In a directory tree a plain file in a socket's place holds the answer.

mod socket;

use crate::host::Host;
use crate::observe::dot1x::Dot1xFacts;
use crate::observe::reading::{Fault, FaultKind, Reading};
use socket::{Asked, Directory};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

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
    let directory = match Directory::open(host) {
        Reading::Value(directory) => directory,
        Reading::Absent => return Reading::Absent,
        Reading::NotObservable => return Reading::NotObservable,
        Reading::Failed(fault) => return Reading::Failed(fault),
    };
    let mut found = BTreeMap::new();
    let mut asked = Vec::new();
    for name in names {
        match directory.ask(host, name) {
            Asked::Socket(question) => asked.push((name, question)),
            Asked::Text(text) => {
                found.insert(name.clone(), text.and_then(|text| parse(&text)));
            }
            Asked::Nothing => {}
        }
    }
    let (names, questions): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    for (name, answer) in names.into_iter().zip(socket::answers(questions)) {
        found.insert(name.clone(), answer.and_then(|text| parse(&text)));
    }
    match found.is_empty() {
        true => Reading::Absent,
        false => Reading::Value(found),
    }
}

/// Facts of one answer.
pub fn parse(text: &str) -> Reading<Dot1xFacts> {
    let mut facts = Dot1xFacts::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        match key {
            "suppPortStatus" => {
                facts.authorized = match value {
                    "Authorized" => Some(true),
                    "Unauthorized" => Some(false),
                    _ => return malformed("suppPortStatus is neither of its two words"),
                }
            }
            "Supplicant PAE state" => facts.pae_state = word(value),
            "EAP state" => facts.eap_state = word(value),
            "wpa_state" => facts.wpa_state = word(value),
            "key_mgmt" => facts.key_mgmt = word(value),
            "selectedMethod" => facts.method = word(value),
            _ => {}
        }
    }
    if facts.authorized.is_none() && facts.wpa_state.is_none() {
        return malformed("no answer to STATUS");
    }
    Reading::Value(facts)
}

/// The same as text again, without addresses and names: what a capture keeps.
pub fn text(facts: &Dot1xFacts) -> String {
    let mut text = String::new();
    let port = facts.authorized.map(|authorized| match authorized {
        true => "Authorized",
        false => "Unauthorized",
    });
    for (key, value) in [
        ("key_mgmt", facts.key_mgmt.as_deref()),
        ("wpa_state", facts.wpa_state.as_deref()),
        ("Supplicant PAE state", facts.pae_state.as_deref()),
        ("suppPortStatus", port),
        ("EAP state", facts.eap_state.as_deref()),
        ("selectedMethod", facts.method.as_deref()),
    ] {
        if let Some(value) = value {
            let _ = writeln!(text, "{key}={value}");
        }
    }
    text
}

/// A short printable word; nothing else comes out of an answer.
fn word(value: &str) -> Option<String> {
    let fits = (1..=MAX_WORD).contains(&value.len())
        && (value.bytes()).all(|byte| byte == b' ' || byte.is_ascii_graphic());
    fits.then(|| value.to_string())
}

fn malformed(detail: &str) -> Reading<Dot1xFacts> {
    Reading::Failed(Fault {
        kind: FaultKind::Malformed,
        detail: format!("wpa_supplicant: {detail}"),
    })
}

#[cfg(test)]
#[path = "dot1x/tests.rs"]
mod tests;
