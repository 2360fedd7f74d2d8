//! Asking the agent that runs on this node for its report.

use crate::config::Config;
use crate::fleet::agent_client::{AgentClient, url};
use crate::report::agent_report::AgentReport;
use crate::report::text::Style;
use clap::{Arg, ArgMatches};
use std::time::Duration;

/// Where the agent serves by default.
const ADDRESS: &str = "http://127.0.0.1:9949";

/// How long the agent may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest token file, in bytes.
const TOKENS_MAX: u64 = 64 << 10;

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
    client: AgentClient,
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
        let wrong = |why: String| format!("--agent={address}: {why}");
        let url = url(address).ok_or_else(|| wrong("not an address".into()))?;
        let token = match &config.serve.token_file {
            Some(path) => {
                let text = crate::files::read_regular(path, TOKENS_MAX);
                let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
                let text = String::from_utf8_lossy(&text);
                text.lines().next().map(|token| token.trim().to_string())
            }
            None => None,
        };
        let client = AgentClient::new(url, token, PATIENCE).map_err(wrong)?;
        Ok(Agent { address, client })
    }

    /// The report's JSON as it came, and what decides in it; where a style is wanted, as text.
    ///
    /// # Errors
    /// Why nothing is known: no answer in time, or none that may be believed.
    pub async fn report(&self, style: Option<Style>) -> Result<(AgentReport, String), String> {
        let asked = async {
            let body = self.client.get("/report").await?;
            let asked = AgentReport::parse(&body, jiff::Timestamp::now())?;
            let body = match style {
                Some(style) => {
                    let path = format!("/report?{}", style.query());
                    self.client.get(&path).await?
                }
                None => body,
            };
            Ok((asked, String::from_utf8_lossy(&body).into_owned()))
        };
        tokio::time::timeout(PATIENCE, asked)
            .await
            .unwrap_or_else(|_| Err("no answer within 1 s".into()))
            .map_err(|why: String| format!("agent at {}: {why}", self.address))
    }
}
