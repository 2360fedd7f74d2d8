//! An API server without a cluster: plain HTTP on loopback, with the semantics that the agent leans
//! on (versions, watches, server-side apply of labels, JSON patch with its tests, compare and swap
//! of Leases). Tests inject faults into it.

mod objects;
mod patch;
mod serve;
mod watches;

pub use objects::{Objects, status};
pub use serve::{Answer, Body, answer, filled, read};
pub use watches::Lines;

use serde_json::Value;

/// A request as received.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// HTTP method, such as `PATCH`.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// Content type of the request's body; it tells kinds of patch apart.
    pub content: String,
    /// Bearer token of the request, without the word `Bearer`.
    pub token: String,
    /// `User-Agent` of the request.
    pub agent: String,
    /// Body; null where there was none or it was not JSON.
    pub body: Value,
}

impl Asked {
    /// Path and query.
    pub fn parts(&self) -> (&str, &str) {
        self.uri.split_once('?').unwrap_or((&self.uri, ""))
    }

    /// Whether it is a watch.
    pub fn watches(&self) -> bool {
        self.has("watch=true")
    }

    /// Whether the query has this part.
    pub fn has(&self, part: &str) -> bool {
        self.parts().1.split('&').any(|had| had == part)
    }

    /// A parameter of the query, still URL-encoded.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let parts = self.parts().1.split('&');
        let mut found = parts.filter_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        found.next()
    }

    /// `resourceVersion` from which a watch resumes.
    pub fn since(&self) -> u64 {
        let version = self.parameter("resourceVersion");
        version.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The value that `fieldSelector=field=value` requires.
    pub fn field(&self, name: &str) -> Option<&str> {
        let selector = self.parameter("fieldSelector")?;
        selector.strip_prefix(name)?.strip_prefix("%3D")
    }
}

/// A kubeconfig for a server at this address, with a user's entry (`token: x`).
pub fn kubeconfig(address: std::net::SocketAddr, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    )
}

#[cfg(test)]
mod tests;
