//! Events on the Node: one a change of verdict, and one when a taint is withheld.

use super::api::{ApiError, Failure, bounded};
use super::desired::WantedCondition;
use super::names::FIELD_MANAGER;
use super::pace::Limits;
use crate::report::State;
use crate::units::cut;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::VecDeque;
use std::time::Duration;

/// Most events that wait for the API server; beyond, the oldest are forgotten.
const WAITING: usize = 16;

/// Longest message of an event, in bytes (core/v1 validation).
const NOTE_MAX: usize = 1024;

/// Longest name of an object (DNS subdomain), in bytes.
const NAME_MAX: usize = 253;

/// Longest `reportingInstance`.
const INSTANCE_MAX: usize = 128;

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Good news or not.
    pub normal: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// For people.
    pub note: String,
}

/// The event of a verdict.
pub fn of_verdict(state: State, words: &WantedCondition) -> Notice {
    let reason = match state {
        State::Ready => "FabricReady",
        State::Degraded => "FabricDegraded",
        State::Unready => "FabricUnready",
        State::Unknown => "FabricUnknown",
    };
    Notice {
        normal: state == State::Ready,
        reason,
        note: words.message.clone(),
    }
}

/// Where events about what has no namespace live.
const NAMESPACE: &str = "default";

/// The same again within this long is counted up rather than told anew, as events live an hour.
const SERIES: Duration = Duration::from_secs(360);

/// A notice with the name of its event: told again after no answer came, it is the same event.
#[derive(Debug)]
struct Waiting {
    notice: Notice,
    at: jiff::Timestamp,
}

/// Publishes in order, and keeps what could not be until it can.
///
/// Events of the core group, as kubelet's own about its Node: events.k8s.io takes none in `default`
/// about what has no namespace before 1.22.
pub struct Teller {
    api: Option<Api<Event>>,
    node: String,
    deadline: Duration,
    queue: VecDeque<Waiting>,
    /// What was told lately, and of which object.
    told: Vec<Event>,
}

impl Teller {
    /// For one node.
    pub fn new(node: &str, limits: Limits) -> Self {
        Teller {
            api: None,
            node: node.to_string(),
            deadline: limits.deadline,
            queue: VecDeque::new(),
            told: Vec::new(),
        }
    }

    /// Publishes through this client.
    pub fn use_client(&mut self, client: Client) {
        self.api = Some(Api::namespaced(client, NAMESPACE));
    }

    /// To be told. The same twice running is told once.
    pub fn push(&mut self, notice: Notice) {
        if self.queue.back().is_some_and(|last| last.notice == notice) {
            return;
        }
        if self.queue.len() >= WAITING {
            self.queue.pop_front();
        }
        let at = jiff::Timestamp::now();
        self.queue.push_back(Waiting { notice, at });
    }

    /// To be told before all that waits.
    pub fn push_first(&mut self, notice: Notice) {
        if self.queue.len() < WAITING {
            let at = jiff::Timestamp::now();
            self.queue.push_front(Waiting { notice, at });
        }
    }

    /// Whether something waits.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Publishes the oldest that waits.
    ///
    /// # Errors
    /// As any request. It then waits on, unless it was refused for good.
    pub async fn publish_one(&mut self, uid: &str) -> Result<(), ApiError> {
        let (Some(waiting), Some(api)) = (self.queue.front(), &self.api) else {
            return Ok(());
        };
        let now = jiff::Timestamp::now();
        self.told.retain(|event| is_recent(event, now));
        let mut event = event(&self.node, uid, &waiting.notice, waiting.at);
        let earlier = self.told.iter().position(|told| is_same(told, &event));
        let what = "write an event";
        let result = if let Some(told) = earlier.and_then(|at| self.told.get(at)) {
            let last = Some(Time(waiting.at));
            event = told.clone();
            event.count = Some(told.count.unwrap_or(1).saturating_add(1));
            event.last_timestamp = last;
            let body = json!({"count": event.count, "lastTimestamp": event.last_timestamp});
            let name = event.metadata.name.clone().unwrap_or_default();
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.into()),
                ..PatchParams::default()
            };
            let patch = Patch::Merge(&body);
            bounded(what, self.deadline, api.patch(&name, &params, &patch)).await
        } else {
            let params = PostParams {
                field_manager: Some(FIELD_MANAGER.into()),
                ..PostParams::default()
            };
            bounded(what, self.deadline, api.create(&params, &event)).await
        };
        let failure = match &result {
            Ok(_) => None,
            // An earlier attempt went through after all.
            Err(error) if error.failure == Failure::Conflict && earlier.is_none() => None,
            Err(error) => Some(error.failure),
        };
        if let Some(at) = earlier {
            self.told.remove(at);
            if failure == Some(Failure::NotFound) {
                // It was cleared away: told anew next time.
                return Ok(());
            }
        }
        match failure {
            None => {
                self.queue.pop_front();
                self.told.push(event);
                Ok(())
            }
            Some(failure) => {
                use Failure::{Conflict, Forbidden, Invalid, NotFound};
                if matches!(failure, Conflict | Forbidden | Invalid | NotFound) {
                    self.queue.pop_front();
                } else if earlier.is_some() {
                    // Counted up to the same number next time.
                    event.count = event.count.map(|count| count - 1);
                    self.told.push(event);
                }
                result.map(|_| ())
            }
        }
    }
}

fn event(node: &str, uid: &str, notice: &Notice, at: jiff::Timestamp) -> Event {
    let kind = if notice.normal { "Normal" } else { "Warning" };
    Event {
        metadata: ObjectMeta {
            namespace: Some(NAMESPACE.into()),
            name: Some(name(node, at)),
            ..ObjectMeta::default()
        },
        count: Some(1),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        type_: Some(kind.into()),
        reason: Some(notice.reason.into()),
        message: Some(cut(notice.note.clone(), NOTE_MAX)),
        // `kubectl describe node` finds events by the Node's UID.
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(node.into()),
            uid: Some(uid.into()),
            ..ObjectReference::default()
        },
        source: Some(EventSource {
            component: Some(FIELD_MANAGER.into()),
            host: Some(node.into()),
        }),
        reporting_component: Some(FIELD_MANAGER.into()),
        reporting_instance: Some(cut(node.into(), INSTANCE_MAX)),
        ..Event::default()
    }
}

/// A node's name may be as long as an event's: 253 bytes, and no part of it ends with a dot.
fn name(node: &str, at: jiff::Timestamp) -> String {
    let stamp = format!("{:x}", at.as_nanosecond());
    let node: String = node.chars().take(NAME_MAX - stamp.len() - 1).collect();
    format!("{}.{stamp}", node.trim_end_matches(['.', '-']))
}

fn is_same(one: &Event, other: &Event) -> bool {
    let key = |event: &Event| {
        (
            event.type_.clone(),
            event.reason.clone(),
            event.message.clone(),
            event.involved_object.clone(),
        )
    };
    key(one) == key(other)
}

fn is_recent(event: &Event, now: jiff::Timestamp) -> bool {
    let last = event.last_timestamp.as_ref();
    last.is_some_and(|last| now.duration_since(last.0).unsigned_abs() < SERIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_node_with_the_longest_name_has_a_valid_name() {
        let at = jiff::Timestamp::from_second(1_795_000_000).unwrap_or_default();
        let long = format!("{}.{}", "a".repeat(235), "b".repeat(17));
        let named = name(&long, at);
        assert!(named.len() <= NAME_MAX && !named.contains(".."), "{named}");
        assert!(name("gpu-1", at).starts_with("gpu-1."));
    }
}
