//! Asking the agent that runs on this node for its report.

use crate::cluster::error::chain;
use crate::config::Config;
use crate::report::asked::AgentVerdict;
use crate::report::text::Style;
use bytes::Bytes;
use clap::{Arg, ArgMatches};
use http_body_util::{BodyExt, Limited};
use hyper::{Request, StatusCode, Uri};
use kube::client::Body;
use std::time::Duration;

/// Where the agent serves by default.
const ADDRESS: &str = "http://127.0.0.1:9949";

/// How long the agent may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest answer, in bytes.
const LONGEST: usize = 4 << 20;

/// `--agent[=ADDRESS]`.
pub(super) fn arg() -> Arg {
    Arg::new("agent")
        .long("agent")
        .value_name("ADDRESS")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value(ADDRESS)
        .help("Ask the running agent, at http://127.0.0.1:9949 or ADDRESS")
}

/// An agent to ask.
pub(super) struct Agent<'a> {
    address: &'a str,
    client: kube::Client,
}

impl<'a> Agent<'a> {
    /// The agent that the command line names. Requests carry the first of the tokens that the agent
    /// takes by the same settings; HTTPS is verified by the system's authorities.
    ///
    /// # Errors
    /// Why it cannot be asked.
    pub fn new(config: &Config, matches: &'a ArgMatches) -> Result<Self, String> {
        let address = matches
            .get_one::<String>("agent")
            .map_or(ADDRESS, String::as_str);
        let url = match address.contains("://") {
            true => address.parse::<Uri>(),
            false => format!("http://{address}").parse(),
        };
        let url = url.map_err(|error| format!("--agent={address}: {error}"))?;
        // Plain HTTP needs no authorities, which some systems do not have.
        let is_plain = url.scheme_str() == Some("http");
        let mut client = kube::Config::new(url);
        client.root_cert = is_plain.then(Vec::new);
        client.default_retry = false;
        if let Some(path) = &config.serve.token_file {
            let text = crate::files::read_regular(path, LONGEST as u64);
            let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
            let text = String::from_utf8_lossy(&text);
            client.auth_info.token = text.lines().next().map(|token| token.trim().into());
        }
        let client = kube::Client::try_from(client);
        let client = client.map_err(|error| format!("--agent={address}: {error}"))?;
        Ok(Agent { address, client })
    }

    /// The report's JSON as it came, and what decides in it; where a style is wanted, as text.
    ///
    /// # Errors
    /// Why nothing is known: no answer in time, or none that may be believed.
    pub async fn report(&self, style: Option<Style>) -> Result<(AgentVerdict, String), String> {
        let asked = tokio::time::timeout(PATIENCE, async {
            let body = self.get("/report").await?;
            let asked = AgentVerdict::parse(&body, jiff::Timestamp::now())?;
            let body = match style {
                Some(Style { width, colour }) => {
                    self.get(&format!(
                        "/report?format=text&width={width}&colour={colour}"
                    ))
                    .await?
                }
                None => body,
            };
            Ok((asked, String::from_utf8_lossy(&body).into_owned()))
        });
        let asked = asked
            .await
            .unwrap_or_else(|_| Err("no answer within 1 s".into()));
        asked.map_err(|why: String| format!("agent at {}: {why}", self.address))
    }

    async fn get(&self, path: &str) -> Result<Bytes, String> {
        let request = Request::get(path).body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| chain(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer is {}", response.status()));
        }
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        Ok(body.map_err(|error| error.to_string())?.to_bytes())
    }
}
