//! Publishes Events: on the Node one for each change of verdict, and one when a taint is withheld; on
//! a Pod one for each change in its job.
//!
//! kube's `Recorder` does not serve here: it counts an event up by its reason alone, so that another
//! rail's failure within six minutes would show the first one's message, and it gives an event another
//! name on each attempt, so that a request whose answer is lost makes two.

use super::api::post_params;
use super::{ApiError, ApiResult, ErrorKind, EventRequest, RateLimits, bounded, names};
use crate::units::cut;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::{collections::VecDeque, time::Duration};

/// Most events on the Node that wait for the API server, and as many on pods; the oldest of the
/// namespace with most are dropped.
const WAITING: usize = 16;

/// Longest message of an event, in bytes (core/v1 validation).
const MESSAGE_MAX: usize = 1024;

/// Longest name of an object (DNS subdomain), in bytes.
const NAME_MAX: usize = 253;

/// Longest `reportingInstance`, in bytes.
const INSTANCE_MAX: usize = 128;

/// Namespace of events about objects without a namespace.
const NAMESPACE: &str = "default";

/// A repetition within this long is counted in the earlier event; events live an hour.
const SERIES: Duration = Duration::from_secs(360);

/// Most events that are remembered to be counted up.
const PUBLISHED_MAX: usize = 128;

/// Publishes events in order, and keeps those that cannot be published until they can.
///
/// Events of the core group, as kubelet's own about its Node.
pub(super) struct EventRecorder {
    node: String,
    deadline: Duration,
    pub on_node: VecDeque<EventRequest>,
    on_pods: VecDeque<EventRequest>,
    /// What was published lately, newest first.
    published: VecDeque<Event>,
}

impl EventRecorder {
    pub fn new(node: &str, limits: RateLimits) -> Self {
        EventRecorder {
            node: node.to_string(),
            deadline: limits.deadline,
            on_node: VecDeque::new(),
            on_pods: VecDeque::new(),
            published: VecDeque::new(),
        }
    }

    fn queue(&mut self, on_pod: bool) -> &mut VecDeque<EventRequest> {
        match on_pod {
            true => &mut self.on_pods,
            false => &mut self.on_node,
        }
    }

    /// Queues an event. The Node's last one is not repeated; on a pod, the latest of a reason
    /// replaces one that waits.
    pub fn push(&mut self, request: EventRequest) {
        let on_pod = request.pod.is_some();
        let queue = self.queue(on_pod);
        let same = |had: &EventRequest| {
            had.reason == request.reason
                && had.pod == request.pod
                && (on_pod || had.message == request.message)
        };
        if on_pod {
            queue.retain(|had| !same(had));
        } else if queue.back().is_some_and(same) {
            return;
        }
        if queue.len() >= WAITING {
            // The oldest of the namespace that has most: none crowds out another.
            let namespace = |had: &EventRequest| had.pod.as_ref().map(|pod| pod.namespace.clone());
            let all: Vec<_> = queue.iter().map(namespace).collect();
            let crowd = |of: &Option<String>| all.iter().filter(|other| *other == of).count();
            let oldest = all.iter().enumerate().rev();
            if let Some((at, _)) = oldest.max_by_key(|(_, of)| crowd(of)) {
                queue.remove(at);
            }
        }
        queue.push_back(request);
    }

    /// Drops all that wait.
    pub fn clear(&mut self) {
        self.on_node.clear();
        self.on_pods.clear();
    }

    /// Whether events on the Node, or on pods, wait.
    pub fn has(&mut self, on_pod: bool) -> bool {
        !self.queue(on_pod).is_empty()
    }

    /// Publishes the oldest event on the Node with this UID, or on pods.
    ///
    /// # Errors
    /// As any request. The event then waits on, unless it was rejected for good.
    pub async fn publish(&mut self, client: &Client, uid: &str, on_pod: bool) -> ApiResult<()> {
        let Some(request) = self.queue(on_pod).front().cloned() else {
            return Ok(());
        };
        let now = jiff::Timestamp::now();
        self.published.retain(|event| is_recent(event, now));
        let event = self.event(&request, uid);
        let mut published = self.published.iter();
        let earlier = published.position(|earlier| repeats(earlier, &event));
        let sent = match earlier.and_then(|at| self.published.get(at)) {
            Some(earlier) => self.count_up(client, earlier.clone(), event).await,
            None => self.create(client, event).await,
        };
        let error = sent.as_ref().err();
        // Then the next attempt creates one.
        let is_gone = |error: &ApiError| error.kind == ErrorKind::NotFound;
        let deleted = earlier.is_some() && error.is_some_and(is_gone);
        let waits = error.is_some_and(|error| !error.is_final() && !error.is_conflict());
        if !waits && !deleted {
            self.queue(on_pod).pop_front();
        }
        if let Some(at) = earlier.filter(|_| !waits) {
            self.published.remove(at);
        }
        match sent {
            Ok(event) => {
                self.published.truncate(PUBLISHED_MAX - 1);
                self.published.push_front(event);
            }
            Err(_) if deleted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn create(&self, client: &Client, event: Event) -> ApiResult<Event> {
        let (api, params) = (api(client, &event), post_params());
        let request = api.create(&params, &event);
        match bounded("write an event", self.deadline, request).await {
            // An earlier attempt has succeeded, though its answer was lost.
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(event),
        }
    }

    async fn count_up(&self, client: &Client, earlier: Event, event: Event) -> ApiResult<Event> {
        let other_message = event.message != earlier.message;
        let event = Event {
            count: Some(earlier.count.unwrap_or(1).saturating_add(1)),
            last_timestamp: event.last_timestamp,
            message: event.message,
            ..earlier
        };
        let mut body = json!({
            "count": event.count,
            "lastTimestamp": event.last_timestamp,
        });
        if let Some(body) = body.as_object_mut().filter(|_| other_message) {
            body.insert("message".into(), json!(event.message));
        }
        let params = PatchParams::apply(names::FIELD_MANAGER);
        let name = event.metadata.name.clone().unwrap_or_default();
        let (api, patch) = (api(client, &event), Patch::Merge(&body));
        let request = api.patch(&name, &params, &patch);
        bounded("write an event", self.deadline, request).await?;
        Ok(event)
    }

    fn event(&self, request: &EventRequest, uid: &str) -> Event {
        let about = match &request.pod {
            // `kubectl describe` finds events by the object's UID.
            None => ("Node", None, &self.node, uid),
            Some(pod) => ("Pod", Some(&pod.namespace), &pod.name, pod.uid.as_str()),
        };
        let (kind, namespace, name, uid) = about;
        Event {
            metadata: ObjectMeta {
                namespace: Some(namespace.map_or_else(|| NAMESPACE.into(), String::clone)),
                name: Some(event_name(name, request.at)),
                ..ObjectMeta::default()
            },
            count: Some(1),
            first_timestamp: Some(Time(request.at)),
            last_timestamp: Some(Time(request.at)),
            type_: Some(request.kind.as_str().into()),
            reason: Some(request.reason.into()),
            message: Some(cut(request.message.clone(), MESSAGE_MAX)),
            involved_object: ObjectReference {
                api_version: Some("v1".into()),
                kind: Some(kind.into()),
                namespace: namespace.cloned(),
                name: Some(name.clone()),
                uid: Some(uid.into()),
                ..ObjectReference::default()
            },
            source: Some(EventSource {
                component: Some(names::FIELD_MANAGER.into()),
                host: Some(self.node.clone()),
            }),
            reporting_component: Some(names::FIELD_MANAGER.into()),
            reporting_instance: Some(cut(self.node.clone(), INSTANCE_MAX)),
            ..Event::default()
        }
    }
}

fn api(client: &Client, event: &Event) -> Api<Event> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or(NAMESPACE);
    Api::namespaced(client.clone(), namespace)
}

/// The name of an event: no longer than the name of any object, and no part of it ends with a dot.
fn event_name(object: &str, at: jiff::Timestamp) -> String {
    let stamp = format!("{:x}", at.as_nanosecond());
    let object: String = object.chars().take(NAME_MAX - stamp.len() - 1).collect();
    format!("{}.{stamp}", object.trim_end_matches(['.', '-']))
}

/// Whether an event is counted in an earlier one. A pod's messages hold numbers that move.
fn repeats(earlier: &Event, event: &Event) -> bool {
    let on_pod = event.involved_object.kind.as_deref() == Some("Pod");
    earlier.type_ == event.type_
        && earlier.reason == event.reason
        && earlier.involved_object == event.involved_object
        && (on_pod || earlier.message == event.message)
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
        let named = event_name(&long, at);
        assert!(named.len() <= NAME_MAX && !named.contains(".."), "{named}");
        assert!(event_name("gpu-1", at).starts_with("gpu-1."));
    }
}
