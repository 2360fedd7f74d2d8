//! Events on the Node: one a change of verdict, and one when a taint is withheld.

use super::api::{ApiError, Failure, bounded};
use super::desired::WantedCondition;
use super::names::FIELD_MANAGER;
use crate::report::State;
use crate::units::cut;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::VecDeque;
use std::time::Duration;

/// Most events that wait for the API server; beyond, the oldest are forgotten.
const WAITING: usize = 16;

/// Events remembered, whose repetition is counted up rather than told anew.
const REMEMBERED: usize = 16;

/// The API server forgets an event after an hour (`--event-ttl`); counted up it lives on, so that
/// one is counted up for less than that.
const COUNTED_FOR: Duration = Duration::from_secs(50 * 60);

/// Longest message of an event, in bytes (core/v1 validation).
const NOTE_MAX: usize = 1024;

const DEADLINE: Duration = Duration::from_secs(10);

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
        note: cut(words.message.clone(), NOTE_MAX),
    }
}

/// An event that was told, to be counted up.
struct Known {
    notice: Notice,
    name: String,
    count: i32,
    first: jiff::Timestamp,
}

/// Publishes in order, and keeps what could not be until it can.
///
/// Events of the core group, as kubelet's own about its Node: for a Node, whose events have no
/// namespace of their own, events.k8s.io before 1.22 takes none in `default`.
pub struct Teller {
    events: Api<Event>,
    node: String,
    known: VecDeque<Known>,
    queue: VecDeque<Notice>,
}

impl Teller {
    /// For one node.
    pub fn new(client: Client, node: &str) -> Self {
        Teller {
            events: Api::namespaced(client, "default"),
            node: node.to_string(),
            known: VecDeque::new(),
            queue: VecDeque::new(),
        }
    }

    /// To be told. The same twice running is told once.
    pub fn push(&mut self, notice: Notice) {
        if self.queue.back() == Some(&notice) {
            return;
        }
        if self.queue.len() >= WAITING {
            self.queue.pop_front();
        }
        self.queue.push_back(notice);
    }

    /// Whether something waits.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Publishes the oldest that waits. What the server will never take is forgotten.
    ///
    /// # Errors
    /// As any request; what may go better later waits on.
    pub async fn publish_one(&mut self, uid: &str) -> Result<(), ApiError> {
        let Some(notice) = self.queue.front().cloned() else {
            return Ok(());
        };
        let result = self.publish(&notice, uid, jiff::Timestamp::now()).await;
        if result.as_ref().map_or_else(ApiError::is_final, |()| true) {
            self.queue.pop_front();
        }
        result
    }

    async fn publish(
        &mut self,
        notice: &Notice,
        uid: &str,
        now: jiff::Timestamp,
    ) -> Result<(), ApiError> {
        let age = |known: &Known| now.duration_since(known.first).unsigned_abs();
        self.known.retain(|known| age(known) < COUNTED_FOR);
        let at = self.known.iter().position(|known| known.notice == *notice);
        if let Some(mut known) = at.and_then(|at| self.known.remove(at)) {
            known.count = known.count.saturating_add(1);
            let patch = Patch::Merge(json!({"count": known.count, "lastTimestamp": Time(now)}));
            let params = PatchParams::default();
            let sent = self.events.patch(&known.name, &params, &patch);
            match bounded("count up an event", DEADLINE, sent).await {
                Ok(_) => {
                    self.known.push_back(known);
                    return Ok(());
                }
                // Somebody deleted it: told anew.
                Err(error) if error.failure == Failure::NotFound => {}
                Err(error) => {
                    known.count -= 1;
                    self.known.push_back(known);
                    return Err(error);
                }
            }
        }
        let event = self.event(notice, uid, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        let params = PostParams::default();
        let sent = self.events.create(&params, &event);
        bounded("tell an event", DEADLINE, sent).await?;
        if self.known.len() >= REMEMBERED {
            self.known.pop_front();
        }
        self.known.push_back(Known {
            notice: notice.clone(),
            name,
            count: 1,
            first: now,
        });
        Ok(())
    }

    fn event(&self, notice: &Notice, uid: &str, now: jiff::Timestamp) -> Event {
        let kind = if notice.normal { "Normal" } else { "Warning" };
        let mut event = Event {
            // `kubectl describe node` finds events by the Node's UID.
            involved_object: ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Node".into()),
                name: Some(self.node.clone()),
                uid: Some(uid.into()),
                ..ObjectReference::default()
            },
            type_: Some(kind.into()),
            reason: Some(notice.reason.into()),
            message: Some(notice.note.clone()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource {
                component: Some(FIELD_MANAGER.into()),
                host: Some(self.node.clone()),
            }),
            reporting_component: Some(FIELD_MANAGER.into()),
            reporting_instance: Some(self.node.clone()),
            ..Event::default()
        };
        event.metadata.name = Some(format!("{}.{:x}", self.node, now.as_nanosecond()));
        event.metadata.namespace = Some("default".into());
        event
    }
}
