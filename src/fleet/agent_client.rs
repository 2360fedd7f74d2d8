//! Requests to an agent's own address.

use crate::cluster::chain;
use crate::report::AgentReport;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{Request, StatusCode, Uri};
use kube::client::Body;
use std::time::Duration;

/// Port of an address without one.
pub const PORT: u16 = 9949;

/// Longest answer, in bytes.
const LONGEST: usize = 4 << 20;

/// The URL of `host`, `host:port` or a URL of HTTP or HTTPS; `None` where it is none of these. Plain HTTP without a port
/// is the agent's port.
pub fn url(address: &str) -> Option<Uri> {
    let url = match address.contains("://") {
        true => address.to_string(),
        false => format!("http://{address}"),
    };
    let url: Uri = url.parse().ok()?;
    matches!(url.scheme_str(), Some("http" | "https")).then_some(())?;
    let authority = url.authority().filter(|of| !of.host().is_empty())?;
    let has_no_port = url.scheme_str() == Some("http") && authority.port().is_none();
    match has_no_port {
        true if authority.as_str().ends_with(':') => None,
        true => format!("http://{authority}:{PORT}").parse().ok(),
        false => Some(url),
    }
}

/// One agent.
pub struct AgentClient {
    client: kube::Client,
    patience: Duration,
}

impl AgentClient {
    /// By its URL. HTTPS is verified by the system's authorities. `patience`: how long one answer may take.
    ///
    /// # Errors
    /// Why it cannot be asked.
    pub fn new(url: Uri, token: Option<String>, patience: Duration) -> Result<Self, String> {
        // Plain HTTP needs no authorities, which some systems do not have.
        let is_plain = url.scheme_str() == Some("http");
        let mut config = kube::Config::new(url);
        config.root_cert = is_plain.then(Vec::new);
        config.default_retry = false;
        config.auth_info.token = token.map(Into::into);
        let client = kube::Client::try_from(config).map_err(|error| chain(&error))?;
        Ok(AgentClient { client, patience })
    }

    /// What the agent says now: its report, and the bytes that it came as.
    ///
    /// # Errors
    /// Why nothing is known: no answer in time, or none that may be believed.
    pub async fn report(&self) -> Result<(AgentReport, Bytes), String> {
        let body = self.get("/report").await?;
        Ok((AgentReport::parse(&body, jiff::Timestamp::now())?, body))
    }

    /// The body of an answer with status 200.
    ///
    /// # Errors
    /// Why there is none: no answer in time, another status, or too long a body.
    pub async fn get(&self, path: &str) -> Result<Bytes, String> {
        let request = Request::get(path).body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let answered = async {
            let response = self.client.send(request).await;
            let response = response.map_err(|error| chain(&error))?;
            if response.status() != StatusCode::OK {
                return Err(format!("the answer is {}", response.status()));
            }
            let body = Limited::new(response.into_body(), LONGEST).collect().await;
            Ok(body.map_err(|error| error.to_string())?.to_bytes())
        };
        let answered = tokio::time::timeout(self.patience, answered).await;
        answered.unwrap_or_else(|_| Err(format!("no answer within {} s", self.patience.as_secs())))
    }
}
