//! Who may read what is served, and over what: TLS, client certificates, bearer tokens.

use super::optional_path;
use crate::settings_macro::section;
use std::path::PathBuf;

section! {
    /// TLS and who may ask: docs/tls.md. Nothing set: plain HTTP, open to all who reach the address.
    /// Files are taken in anew when they change.
    Serve {
        /// Certificate chain to serve TLS with, own certificate first (PEM); empty: plain HTTP.
        #[serde(with = "optional_path")]
        tls_cert: Option<PathBuf> = None,
        /// Its private key, unencrypted (PEM: PKCS#8, SEC1 or PKCS#1).
        #[serde(with = "optional_path")]
        tls_key: Option<PathBuf> = None,
        /// Authorities (PEM) of client certificates: /metrics, /report and / are for those who show
        /// one, or a token of token_file. Probes need neither.
        #[serde(with = "optional_path")]
        tls_client_ca: Option<PathBuf> = None,
        /// Bearer tokens, one a line: /metrics, /report and / are for those who send one, or show a
        /// certificate by tls_client_ca. Probes need neither.
        #[serde(with = "optional_path")]
        token_file: Option<PathBuf> = None,
    }
}

impl Serve {
    /// What does not fit together: key and sentence each.
    pub(super) fn complaints(&self) -> Vec<(String, String)> {
        let cert = ("serve.tls_cert", self.tls_cert.is_some());
        let key = ("serve.tls_key", self.tls_key.is_some());
        let ca = ("serve.tls_client_ca", self.tls_client_ca.is_some());
        [(cert, key), (key, cert), (ca, cert)]
            .into_iter()
            .filter(|((_, set), (_, needed))| *set && !needed)
            .map(|((name, _), (needed, _))| (name.into(), format!("is of no use without {needed}")))
            .collect()
    }
}
