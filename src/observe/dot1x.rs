//! 802.1X of a port, as the supplicant on this node tells it.

use serde::Serialize;

/// What `wpa_supplicant` answers to `STATUS` on the control socket of one interface. Words are the
/// supplicant's own (`PAE` and `EAP` states of IEEE 802.1X-2004 and RFC 4137), short and printable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Dot1xFacts {
    /// `suppPortStatus`: whether the supplicant takes its port for authorized.
    pub authorized: Option<bool>,
    /// `Supplicant PAE state`: `AUTHENTICATED`, `HELD` (failed, waits 60 s before it tries again),
    /// `CONNECTING` (asks, and no answer has come) …
    pub pae_state: Option<String>,
    /// `EAP state`: `SUCCESS`, `FAILURE`, `IDLE` …
    pub eap_state: Option<String>,
    /// `wpa_state`: `COMPLETED`, `ASSOCIATED` (authenticates, or failed to), `INACTIVE` (nothing is
    /// configured) …
    pub wpa_state: Option<String>,
    /// `key_mgmt`: `IEEE 802.1X (no WPA)` on a wired port that authenticates; missing while nothing
    /// is tried.
    pub key_mgmt: Option<String>,
    /// `selectedMethod`: `13 (EAP-TLS)`; missing where no answer came in this attempt, and where it was
    /// refused by name.
    pub method: Option<String>,
}

impl Dot1xFacts {
    /// Whether the supplicant is set up to authenticate this port.
    pub fn tries(&self) -> bool {
        (self.key_mgmt.as_deref()).is_some_and(|key_mgmt| key_mgmt.contains("802.1X"))
    }

    /// Whether its last attempt failed. Refused and not answered for 60 s look alike but for
    /// [`Dot1xFacts::method`].
    pub fn failed(&self) -> bool {
        self.authorized == Some(false)
            && (self.pae_state.as_deref() == Some("HELD")
                || self.eap_state.as_deref() == Some("FAILURE"))
    }

    /// `not authorized (PAE HELD, EAP FAILURE)`: for people.
    pub fn summary(&self) -> String {
        let port = match self.authorized {
            Some(true) => "authorized",
            Some(false) => "not authorized",
            None => "unknown",
        };
        let states = [("PAE", &self.pae_state), ("EAP", &self.eap_state)].into_iter();
        let states = states.filter_map(|(name, of)| Some(format!("{name} {}", of.as_deref()?)));
        let states: Vec<String> = states.collect();
        match states.is_empty() {
            true => port.to_string(),
            false => format!("{port} ({})", states.join(", ")),
        }
    }
}
