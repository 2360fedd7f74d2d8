//! Asking the agent that runs on this node for its report.

use crate::config::Config;
use crate::fleet::agent_client::{AgentClient, url};
use crate::report::{AgentReport, Style};
use clap::Args;
use std::time::Duration;

/// How long the agent may take.
const AGENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest token file, in bytes.
const TOKENS_MAX: u64 = 64 << 10;

#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// Ask the running agent, where agent.listen says or at ADDRESS
    #[arg(long, value_name = "ADDRESS", require_equals = true)]
    pub agent: Option<Option<String>>,
}

/// What the agent says that the command line names: the report, and its JSON as it came or, where a
/// style is wanted, as text. Requests carry the first of the tokens that the agent takes by the same
/// settings; HTTPS is verified by the system's authorities.
///
/// # Errors
/// The agent cannot be reached, does not answer in time, or its answer cannot be trusted.
pub(super) async fn report(
    config: &Config,
    asked: &AgentArgs,
    style: Option<Style>,
) -> Result<(AgentReport, String), String> {
    let given = asked.agent.clone().flatten();
    let own = || format!("http://{}", config.agent.listen.from_here());
    let address = given.unwrap_or_else(own);
    let wrong = |why: String| format!("--agent={address}: {why}");
    let url = url(&address).ok_or_else(|| wrong("not an address".into()))?;
    let client = AgentClient::new(url, token(config)?, AGENT_TIMEOUT).map_err(wrong)?;
    let failed = |why: String| format!("agent at {address}: {why}");
    let (report, mut body) = client.report().await.map_err(failed)?;
    if let Some(style) = style {
        let path = format!("/report?{}", style.query());
        body = client.get(&path).await.map_err(failed)?;
    }
    Ok((report, String::from_utf8_lossy(&body).into_owned()))
}

fn token(config: &Config) -> Result<Option<String>, String> {
    let Some(path) = &config.serve.token_file else {
        return Ok(None);
    };
    let text = crate::files::read_regular(path, TOKENS_MAX);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().next().map(|token| token.trim().to_string()))
}
