//! 802.1X: ports that are up and not let in. Reasons of the check `link_state`.

use super::{Candidate, Context, PortView, ReasonDoc, Status, Weight, expected::majority, peers};
use crate::observe::{Dot1xFacts, Reading};
use std::time::Duration;

/// The link is up and the switch lets nothing through.
pub(super) const REASON: &str = "PortNotAuthenticated";

/// The interface that remedies name until they are about one.
const SOME_INTERFACE: &str = "enp24s0np0";

/// A port that is up and not authorized.
pub(super) fn judge(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let (name, facts) = shut_out(port).filter(|_| port.is_active())?;
    let evidence = evidence(context, port);
    if evidence.is_none() && !facts.tries() {
        return None;
    }
    let hold = context.policy.link_state.unauthorized_raise_after.0;
    let why = match (facts.failed(), &facts.method) {
        (true, Some(_)) => "its 802.1X authentication failed",
        (true, None) => "its 802.1X authentication failed, refused by name or not answered",
        (false, _) => "its 802.1X authentication has not completed",
    };
    let shown = evidence.map_or_else(String::new, |evidence| format!(" ({evidence})"));
    let (subject, told) = (&port.subject, facts.summary());
    let message = format!("{subject} is up, but {why}: {name} is {told}{shown}");
    let attempts = if facts.failed() { 1 } else { 2 };
    let mut candidate = (context.of_port(REASON, port, message))
        .raised_after(hold.saturating_mul(attempts))
        .with("netdev", name)
        .with("dot1x", told)
        .with("method", facts.method.as_deref())
        .with("evidence", evidence);
    candidate.remedy = candidate.remedy.replace(SOME_INTERFACE, name);
    // A node has one certificate, so all rails may be refused at once. If no method was chosen, the switch may
    // not use 802.1X at all.
    match evidence {
        None if port.rail
            && (has_unknown_peers(context) || facts.failed() && facts.method.is_some()) =>
        {
            candidate.status = Status::Unknown
        }
        None => (candidate.status, candidate.weight) = (Status::Degraded, Weight::Notice),
        Some(_) => {}
    }
    Some(candidate)
}

/// How long a supplicant's last answer stands once no socket can be found. If the directory was made again,
/// the agent's mount does not show it; if 802.1X was switched off, no supplicant comes back.
const LAST_WORD: Duration = Duration::from_secs(3600);

/// Whether rails are let in of which cannot be told whether they are like a port.
fn has_unknown_peers(context: &Context<'_>) -> bool {
    context.rails().any(is_authorized) && !context.rails().all(peers::is_of_known_make)
}

fn is_authorized(port: &PortView<'_>) -> bool {
    (port.dot1x).is_some_and(|facts| facts.tries() && facts.authorized == Some(true))
}

/// Whether the port's supplicant cannot be asked just now, or what other rails say against it is unread.
pub(super) fn is_unread(context: &Context<'_>, port: &PortView<'_>) -> bool {
    if shut_out(port).is_some() && has_unknown_peers(context) {
        return true;
    }
    let health = context.snapshot.health("dot1x", "");
    let Some(health) = health.filter(|health| health.fails()) else {
        return false;
    };
    let told = &context.snapshot.dot1x;
    let own = (port.port.netdev.as_ref()).and_then(|name| told.get(name));
    let silent = own.is_some_and(|own| matches!(own.value, Reading::Failed(_)));
    let heard = |at| context.now.since(at) <= LAST_WORD;
    let lost = told.is_empty() && health.last_ok.is_some_and(heard);
    silent || lost || health.stalled_since.is_some()
}

/// A link that is down, with what the supplicant says: a switch may take the link from a port that
/// failed to authenticate.
pub(super) fn explain(port: &PortView<'_>, mut candidate: Candidate) -> Candidate {
    let Some((name, facts)) = shut_out(port) else {
        return candidate;
    };
    // An attempt in which a method was chosen had a link; one without may have failed for want of it.
    let before = port.history.is_some_and(|history| history.shut_out)
        || (facts.failed() && facts.method.is_some());
    let told = facts.summary();
    candidate.message += &match before {
        true => "; its 802.1X authentication failed before that".to_string(),
        false => format!("; 802.1X: {told}, which may be the cause or a consequence"),
    };
    if before {
        let doc = ReasonDoc::of(REASON);
        let first = doc.remedy().replace(SOME_INTERFACE, name);
        let remedy = format!("{first} Else: {}", candidate.remedy);
        candidate = candidate.fix(doc.action, remedy);
    }
    candidate.with("dot1x", told)
}

fn shut_out<'a>(port: &PortView<'a>) -> Option<(&'a str, &'a Dot1xFacts)> {
    let name = port.port.netdev.as_deref()?;
    let facts = port.dot1x?;
    (facts.authorized == Some(false)).then_some((name, facts))
}

/// What says that the port should be authorized.
fn evidence(context: &Context<'_>, port: &PortView<'_>) -> Option<&'static str> {
    if port.history.is_some_and(|history| history.ever_authorized) {
        return Some("it was authorized earlier this boot");
    }
    let peers = peers::among(context, port, |other| Some(is_authorized(other)));
    (port.rail && majority(&peers) == Some(true)).then_some("its peer rails are authorized")
}

#[cfg(test)]
mod tests;
