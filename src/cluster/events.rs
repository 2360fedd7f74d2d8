//! Events: on the Node one a change of verdict, and one when a taint is withheld; on a Pod one a
//! change of what is known of its job (`pod_events.rs`).

use super::api::{ApiError, Failure, bounded};
use super::desired::WantedCondition;
use super::names::FIELD_MANAGER;
use super::pace::Limits;
use super::pod_events::{PodNotice, PodRef};
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

/// Most events that are remembered for being counted up.
const TOLD: usize = 128;

/// A notice with the name of its event: told again after no answer came, it is the same event.
#[derive(Debug, Clone)]
struct Waiting {
    notice: Notice,
    at: jiff::Timestamp,
    /// None: about the Node.
    pod: Option<PodRef>,
}

/// Publishes in order, and keeps what could not be until it can.
///
/// Events of the core group, as kubelet's own about its Node: events.k8s.io takes none in `default`
/// about what has no namespace before 1.22.
pub struct Teller {
    client: Option<Client>,
    node: String,
    deadline: Duration,
    queue: VecDeque<Waiting>,
    /// Apart, so that many jobs' events push out none of the Node's.
    pods: VecDeque<Waiting>,
    /// What was told lately, and of which object.
    told: Vec<Event>,
}

impl Teller {
    /// For one node.
    pub fn new(node: &str, limits: Limits) -> Self {
        Teller {
            client: None,
            node: node.to_string(),
            deadline: limits.deadline,
            queue: VecDeque::new(),
            pods: VecDeque::new(),
            told: Vec::new(),
        }
    }

    /// Publishes through this client.
    pub fn use_client(&mut self, client: Client) {
        self.client = Some(client);
    }

    /// To be told. The same twice running is told once.
    pub fn push(&mut self, notice: Notice) {
        if self.queue.back().is_some_and(|last| last.notice == notice) {
            return;
        }
        if self.queue.len() >= WAITING {
            self.queue.pop_front();
        }
        self.queue.push_back(Waiting::new(notice, None));
    }

    /// To be told before all that waits.
    pub fn push_first(&mut self, notice: Notice) {
        if self.queue.len() < WAITING {
            self.queue.push_front(Waiting::new(notice, None));
        }
    }

    /// To be told of a pod. What waits with the same reason about the same pod gives way to it.
    pub fn push_pod(&mut self, PodNotice { pod, notice }: PodNotice) {
        let pod = Some(pod);
        self.pods
            .retain(|had| had.pod != pod || had.notice.reason != notice.reason);
        if self.pods.len() >= WAITING {
            self.pods.pop_front();
        }
        self.pods.push_back(Waiting::new(notice, pod));
    }

    /// Whether something waits to be told of the Node.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether something waits to be told of a pod.
    pub fn pods_wait(&self) -> bool {
        !self.pods.is_empty()
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.pods.clear();
    }

    /// Publishes the oldest that waits about the Node.
    ///
    /// # Errors
    /// As any request. It then waits on, unless it was refused for good.
    pub async fn publish_one(&mut self, uid: &str) -> Result<(), ApiError> {
        let Some(waiting) = self.queue.pop_front() else {
            return Ok(());
        };
        let (again, result) = self.publish(&waiting, uid).await;
        if again {
            self.queue.push_front(waiting);
        }
        result
    }

    /// The same about a pod.
    ///
    /// # Errors
    /// As [`Teller::publish_one`].
    pub async fn publish_one_of_a_pod(&mut self) -> Result<(), ApiError> {
        let Some(waiting) = self.pods.pop_front() else {
            return Ok(());
        };
        let (again, result) = self.publish(&waiting, "").await;
        if again {
            self.pods.push_front(waiting);
        }
        result
    }

    /// Whether it is to be told again, and how it went.
    async fn publish(&mut self, waiting: &Waiting, uid: &str) -> (bool, Result<(), ApiError>) {
        let Some(client) = self.client.clone() else {
            return (true, Ok(()));
        };
        let now = jiff::Timestamp::now();
        self.told.retain(|event| is_recent(event, now));
        let mut event = event(&self.node, uid, waiting);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client, &namespace);
        let earlier = self.told.iter().position(|told| is_same(told, &event));
        let earlier = earlier.map(|at| self.told.remove(at));
        let counts_up = earlier.is_some();
        let what = "write an event";
        let result = if let Some(told) = earlier {
            let message = event.message.take();
            let says_else = message != told.message;
            event = told;
            event.count = Some(event.count.unwrap_or(1).saturating_add(1));
            event.last_timestamp = Some(Time(waiting.at));
            event.message = message;
            let mut body = json!({"count": event.count, "lastTimestamp": event.last_timestamp});
            if says_else && let Some(body) = body.as_object_mut() {
                body.insert("message".into(), json!(event.message));
            }
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
            Err(error) if error.failure == Failure::Conflict && !counts_up => None,
            Err(error) => Some(error.failure),
        };
        use Failure::{Conflict, Forbidden, Invalid, NotFound};
        match failure {
            None => {
                self.remember(event);
                (false, Ok(()))
            }
            // It was cleared away: told anew next time.
            Some(NotFound) if counts_up => (true, Ok(())),
            Some(Conflict | Forbidden | Invalid | NotFound) => (false, result.map(|_| ())),
            Some(_) => {
                if counts_up {
                    // Counted up to the same number next time.
                    event.count = event.count.map(|count| count - 1);
                    self.remember(event);
                }
                (true, result.map(|_| ()))
            }
        }
    }

    fn remember(&mut self, event: Event) {
        if self.told.len() >= TOLD {
            self.told.remove(0);
        }
        self.told.push(event);
    }
}

impl Waiting {
    fn new(notice: Notice, pod: Option<PodRef>) -> Self {
        Waiting {
            notice,
            at: jiff::Timestamp::now(),
            pod,
        }
    }
}

fn event(node: &str, uid: &str, waiting: &Waiting) -> Event {
    let Waiting { notice, at, pod } = waiting;
    let at = *at;
    let kind = if notice.normal { "Normal" } else { "Warning" };
    let about = ObjectReference {
        api_version: Some("v1".into()),
        ..ObjectReference::default()
    };
    let about = match pod {
        // `kubectl describe` finds events by the object's UID.
        None => ObjectReference {
            kind: Some("Node".into()),
            name: Some(node.into()),
            uid: Some(uid.into()),
            ..about
        },
        Some(pod) => ObjectReference {
            kind: Some("Pod".into()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..about
        },
    };
    let namespace = about.namespace.clone().unwrap_or_else(|| NAMESPACE.into());
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace),
            name: Some(name(about.name.as_deref().unwrap_or(node), at)),
            ..ObjectMeta::default()
        },
        count: Some(1),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        type_: Some(kind.into()),
        reason: Some(notice.reason.into()),
        message: Some(cut(notice.note.clone(), NOTE_MAX)),
        involved_object: about,
        source: Some(EventSource {
            component: Some(FIELD_MANAGER.into()),
            host: Some(node.into()),
        }),
        reporting_component: Some(FIELD_MANAGER.into()),
        reporting_instance: Some(cut(node.into(), INSTANCE_MAX)),
        ..Event::default()
    }
}

/// An object's name may be as long as an event's: 253 bytes, and no part of it ends with a dot.
fn name(node: &str, at: jiff::Timestamp) -> String {
    let stamp = format!("{:x}", at.as_nanosecond());
    let node: String = node.chars().take(NAME_MAX - stamp.len() - 1).collect();
    format!("{}.{stamp}", node.trim_end_matches(['.', '-']))
}

/// Whether one counts the other up. Of a pod the words do not matter: they hold numbers that move.
fn is_same(one: &Event, other: &Event) -> bool {
    let of_a_pod = one.involved_object.kind.as_deref() == Some("Pod");
    one.type_ == other.type_
        && one.reason == other.reason
        && one.involved_object == other.involved_object
        && (of_a_pod || one.message == other.message)
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
