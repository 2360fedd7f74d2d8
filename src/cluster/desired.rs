//! What the Node should carry, by the report alone. Pure.

use super::label_syntax::label_value;
use super::{ClusterSettings, Condition, Mode, names};
use crate::check::{Finding, Weight, gpudirect, verdict_docs};
use crate::observe::LinkLayer;
use crate::report::{PortView, Report, Role, State, Tainting, port_view};
use crate::units::cut;
use std::collections::{BTreeMap, BTreeSet};

/// Longest message of the condition, in bytes.
pub const MESSAGE_MAX: usize = 1024;

/// What the condition's message begins with while a wanted taint is not put.
pub const WITHHELD: &str = "The taint is withheld";

/// What our taint should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedTaint {
    /// Stays as it is found.
    Keep,
    /// Is removed, if it is there.
    Absent,
    /// Is put with this value: the first reason of the verdict.
    Present(String),
}

impl WantedTaint {
    /// Whether it should be there.
    pub fn is_present(&self) -> bool {
        matches!(self, WantedTaint::Present(_))
    }
}

/// What the Node should carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The verdict from which the rest follows.
    pub state: State,
    /// Labels by full name; `None` keeps the value: the sources cannot tell.
    pub labels: BTreeMap<String, Option<String>>,
    /// The verdict in words, for the condition and for events.
    pub condition: Condition,
    /// Whether the mode has the condition written.
    pub writes_condition: bool,
    /// What our taint should be.
    pub taint: WantedTaint,
    /// Whether the taint that the node joined with is removed.
    pub end_startup: bool,
}

impl Desired {
    /// Nothing of ours.
    pub fn nothing() -> Self {
        Desired {
            state: State::Unknown,
            labels: BTreeMap::new(),
            condition: Condition::default(),
            writes_condition: false,
            taint: WantedTaint::Absent,
            end_startup: true,
        }
    }
}

/// What the Node should carry; `None` before the first full window, and if nothing is written.
pub fn desired(report: &Report, settings: &ClusterSettings) -> Option<Desired> {
    if !report.full_window || settings.mode == Mode::Off {
        return None;
    }
    let taints = settings.mode == Mode::All;
    Some(Desired {
        state: report.state,
        labels: labels(report, settings),
        condition: condition(report),
        writes_condition: settings.mode >= Mode::Condition,
        taint: match report.tainting {
            // What an earlier mode put is removed, but not by an unknown verdict.
            _ if !taints && report.state == State::Unknown => WantedTaint::Keep,
            _ if !taints || report.taint_muted => WantedTaint::Absent,
            Tainting::Clear => WantedTaint::Absent,
            // Only a node that is unready now is tainted, not one that was, or whose verdict is unknown.
            Tainting::Want if report.state == State::Unready => {
                let reason = report.reasons.first().map_or("Unready", |reason| reason);
                WantedTaint::Present(label_value(reason))
            }
            Tainting::Keep | Tainting::Want => WantedTaint::Keep,
        },
        end_startup: taints && !matches!(report.state, State::Unready | State::Unknown),
    })
}

fn labels(report: &Report, settings: &ClusterSettings) -> BTreeMap<String, Option<String>> {
    let ports = port_view::ports(report);
    let rails: Vec<&PortView<'_>> = ports.iter().filter(|port| port.rail).collect();
    let roles = report.roles.values();
    let count = roles.filter(|role| role.role == Role::Rail).count();
    let enumerated = report.snapshot.devices.is_some();
    let path = Some(report.gpudirect.path).filter(|path| *path != gpudirect::Path::Unknown);
    let gds = port_view::gds_ready(report);
    let gds = gds.map(|_| port_view::gds_name(gds).to_string());
    let wants = [
        (names::FABRIC, Some(report.state.as_str().to_string())),
        (names::FABRIC_KIND, fabric_kind(&rails, count, enumerated)),
        (names::RAILS, enumerated.then(|| count.to_string())),
        (names::RAIL_GBPS, rail_gbps(&rails)),
        (names::GPUDIRECT, path.map(|path| path.as_str().to_string())),
        (names::GDS, gds),
    ];
    // Without rails the last known rate is not kept.
    let stays = |(name, _): &(&str, _)| *name != names::RAIL_GBPS || !enumerated || count > 0;
    let own = |(name, want)| (settings.own(name), want);
    wants.into_iter().filter(stays).map(own).collect()
}

fn fabric_kind(rails: &[&PortView<'_>], count: usize, enumerated: bool) -> Option<String> {
    let kinds: BTreeSet<&str> = rails.iter().filter_map(|rail| kind_of(rail)).collect();
    let kind = match (kinds.len(), kinds.first()) {
        // Rails that are gone now had a kind.
        (0, _) if count > 0 => return None,
        (0, _) => "none",
        (1, Some(kind)) => *kind,
        _ => "mixed",
    };
    enumerated.then(|| kind.to_string())
}

fn kind_of(rail: &PortView<'_>) -> Option<&'static str> {
    if rail.device.driver == "efa" {
        return Some("efa");
    }
    if rail.device.is_gvnic() {
        return Some("tcpxo");
    }
    match rail.port.link_layer {
        LinkLayer::Infiniband => Some("infiniband"),
        LinkLayer::Ethernet => Some("roce"),
        LinkLayer::Unspecified => None,
    }
}

/// The lowest known rate of the rails, in Gbit/s.
fn rail_gbps(rails: &[&PortView<'_>]) -> Option<String> {
    let slowest = rails.iter().filter_map(|rail| rail.rate()).min()?;
    let gbps = slowest.0 as f64 / 1e9;
    Some(label_value(&format!("{}", (gbps * 10.0).round() / 10.0)))
}

/// Status of the condition, and the reason of the event, of a verdict.
pub(super) fn status_and_reason(state: State) -> (&'static str, &'static str) {
    match state {
        State::Ready => ("True", "FabricReady"),
        State::Degraded => ("True", "FabricDegraded"),
        State::Unready => ("False", "FabricUnready"),
        State::Unknown => ("Unknown", "FabricUnknown"),
        // True, so that nothing that repairs nodes by their conditions acts; schedulers go by the label.
        State::NoFabric => ("True", "NoFabric"),
    }
}

/// The verdict as a condition, without its moments. Its message is sorted and bounded, without numbers that
/// move; its reason is of the first finding, or of the verdict.
pub fn condition(report: &Report) -> Condition {
    let (status, healthy) = status_and_reason(report.state);
    let reason = match (report.state, report.reasons.first()) {
        (State::Ready | State::NoFabric, _) | (_, None) => healthy.to_string(),
        (_, Some(first)) => first.clone(),
    };
    Condition {
        status: status.into(),
        reason,
        message: cut(message(report), MESSAGE_MAX),
        ..Condition::default()
    }
}

/// The verdict in words. Only what stays the same while the verdict does: counts and times would
/// make every evaluation a write.
fn message(report: &Report) -> String {
    let muted = match report.muted.as_slice() {
        [] => String::new(),
        muted => format!(" Muted: {}.", muted.join(", ")),
    };
    if report.state == State::Ready {
        let rails = report.roles.values().any(|role| role.role == Role::Rail);
        let well = match rails {
            true => "every rail works as it should",
            false => "the node has no rails, and none are expected",
        };
        return match muted.as_str() {
            "" => well.into(),
            muted => format!("{well}, by the checks that are not muted.{muted}"),
        };
    }
    let mut parts = Vec::new();
    let leads = |id: &String| {
        let mut findings = report.findings.iter();
        findings.any(|finding| {
            report.reasons.iter().any(|of| of == finding.reason) && finding.id() == *id
        })
    };
    for reason in &report.reasons {
        let decides = |of: &&Finding| of.weight == Weight::Verdict && of.reason == *reason;
        let mut found: Vec<&Finding> = report.findings.iter().filter(decides).collect();
        found.sort_by_cached_key(|finding| port_view::natural(&finding.subject));
        let mut subjects: Vec<&str> = found.iter().map(|f| f.subject.as_str()).collect();
        subjects.retain(|subject| !subject.is_empty());
        subjects.dedup();
        let on = if subjects.is_empty() { "" } else { " on " };
        let of_finding = found.first().map(|finding| finding.remedy.as_str());
        // Of what follows, the cause has the remedy.
        let follows = |finding: &&Finding| finding.caused_by.as_ref().is_some_and(leads);
        let follows = !found.is_empty() && found.iter().all(follows);
        let remedy = of_finding.or_else(|| remedy(reason)).filter(|_| !follows);
        let remedy = remedy.map_or(String::new(), |remedy| format!(" Remedy: {remedy}"));
        parts.push(format!("{reason}{on}{}.{remedy}", subjects.join(", ")));
    }
    format!("{}: {}{muted}", report.state.as_str(), parts.join(" "))
}

/// The remedy of a reason that comes without a finding.
fn remedy(reason: &str) -> Option<&'static str> {
    let mut docs = verdict_docs().iter();
    docs.find(|doc| doc.reason == reason)
        .map(|doc| doc.remedy())
}

#[cfg(test)]
mod tests;
