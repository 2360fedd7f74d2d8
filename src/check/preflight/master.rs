//! The job's master: its name, its port, and whether it answers.

use super::job::{is_on_masters_node, is_own, master_name, master_port, master_rank, parse_port};
use super::{Checked, Item, ItemStatus, PodView};
use crate::observe::{Attempt, FaultKind, Reading};
use std::net::IpAddr;

/// Judges name and port, then what they lead to.
pub(super) fn master(context: &PodView<'_>) -> Checked {
    let environment = &context.facts.environment;
    let port = master_port(environment);
    let Some((name, value)) = master_name(environment) else {
        return Ok(unset(context));
    };
    if let Some((variable, port)) = port.filter(|(_, port)| parse_port(port).is_none()) {
        let item = Item::failing("MasterPort", format!("{variable}={port:?} is not a port"));
        return Ok(item.fix(format!("env {variable}: a number from 1 to 65535")));
    }
    Ok(match &context.facts.master.addresses {
        Reading::Value(addresses) => reached(context, (name, value), addresses),
        Reading::Failed(fault) => {
            let why = match fault.kind {
                FaultKind::Stalled => "the resolver does not answer",
                _ => &fault.detail,
            };
            Item::degraded("MasterUnresolvable", format!("{name}={value} does not resolve: {why}; it may yet, if rank 0's pod is still starting: torch retries for minutes"))
                .fix(format!("env {name}: a name of this namespace. A headless Service publishes a pod's name once the pod is ready, or at once with `publishNotReadyAddresses: true`; --timeout waits longer"))
        }
        Reading::NotObservable => {
            let message = format!("no thread could be started to resolve {name}={value}");
            Item::unknown("MasterUnresolvable", message)
        }
        Reading::Absent => Item::skipped("not asked: this is a directory tree, not a container"),
    })
}

/// `MASTER_ADDR` is not set, or empty although something needs it.
fn unset(context: &PodView<'_>) -> Item {
    let environment = &context.facts.environment;
    let why = match (master_port(environment), &context.nodes) {
        (Some((port, _)), _) => Some(format!("{port} is set")),
        (None, Some((true, why))) => Some(format!("the job spans several nodes ({why})")),
        _ => None,
    };
    match why.filter(|_| environment.get("MASTER_ADDR").is_some()) {
        Some(why) => Item::failing("MasterUnset", format!("MASTER_ADDR is empty, and {why}")),
        None => Item::skipped("MASTER_ADDR is not set"),
    }
}

/// The name resolves: whether it can be the master's, and whether the master answers.
fn reached(context: &PodView<'_>, (name, value): (&str, &str), addresses: &[IpAddr]) -> Item {
    let environment = &context.facts.environment;
    let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let all = shown.join(", ");
    let port = master_port(environment);
    let target = port.map_or(value.to_string(), |(_, port)| format!("{value}:{port}"));
    let loopback = addresses.iter().all(IpAddr::is_loopback);
    // On rank 0's own node the name may resolve to loopback (/etc/hosts), and torch listens on all
    // addresses.
    let item = if loopback && context.is_many_nodes() && !is_on_masters_node(environment) {
        let message = format!(
            "{name}={value} is {all}, this container itself, and the job spans several nodes"
        );
        Item::failing("MasterIsLoopback", message)
            .fix(format!("env {name}: the name of rank 0's pod"))
    } else if let Some(rank) = master_rank(environment) {
        let note = match is_own(context.facts, addresses) {
            Some(false) => "; not an address of this container, so it must be a Service's",
            _ => "",
        };
        Item::ok(format!(
            "{rank}=0: this is the master, which listens at {target} itself ({all}{note})"
        ))
    } else {
        let connection = &context.facts.master.connection;
        answered(connection, (name, value), &target, &all)
    };
    item.with("addresses", shown)
}

fn answered(connection: &Attempt, (name, value): (&str, &str), target: &str, all: &str) -> Item {
    let at = format!("{target} ({all})");
    match connection {
        Attempt::Connected => Item::ok(format!("{at} is listening")),
        Attempt::NotTried => Item::ok(format!(
            "{value} resolves to {all}; no port is set to connect to"
        )),
        // The host is reachable, or the address is that of a Service without a pod.
        Attempt::Refused => {
            let why = "nothing listens there yet: rank 0 may not have started";
            let message = format!("{at} answers, and {why}");
            Item::new(ItemStatus::Skipped, Some("MasterNotListening"), message)
        }
        Attempt::TimedOut => {
            let why = "rank 0's pod is not up, or a NetworkPolicy drops the packets";
            Item::degraded("MasterSilent", format!("{at} does not answer: {why}"))
        }
        Attempt::Failed(why) => {
            Item::degraded("MasterUnreachable", format!("{name}={value}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests;
