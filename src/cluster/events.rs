//! Events on the Node: one a change of verdict, and one when a taint is withheld.

use super::api::{ApiError, bounded};
use super::desired::WantedCondition;
use crate::report::State;
use crate::units::cut;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::VecDeque;
use std::time::Duration;

/// Most events that wait for the API server; beyond, the oldest are forgotten.
const WAITING: usize = 16;

/// Longest `action` of an event (events.k8s.io/v1).
const ACTION_MAX: usize = 128;

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Good news or not.
    pub normal: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// What makes it another event than the last of the same reason: the verdict's reasons.
    pub action: String,
    /// For people.
    pub note: String,
}

/// The event of a verdict.
pub fn of_verdict(state: State, reasons: &[String], words: &WantedCondition) -> Notice {
    let reason = match state {
        State::Ready => "FabricReady",
        State::Degraded => "FabricDegraded",
        State::Unready => "FabricUnready",
        State::Unknown => "FabricUnknown",
    };
    let action = match reasons {
        [] => "Judge".to_string(),
        reasons => cut(reasons.join(","), ACTION_MAX),
    };
    Notice {
        normal: state == State::Ready,
        reason,
        action,
        note: words.message.clone(),
    }
}

/// Publishes in order, and keeps what could not be until it can.
pub struct Teller {
    client: Client,
    controller: String,
    node: String,
    recorder: Recorder,
    queue: VecDeque<Notice>,
}

impl Teller {
    /// For one node.
    pub fn new(client: Client, node: &str) -> Self {
        let controller = "selvage".to_string();
        Teller {
            recorder: recorder(&client, &controller, node),
            client,
            controller,
            node: node.to_string(),
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

    /// Publishes the oldest that waits.
    ///
    /// # Errors
    /// As any request; it then waits on.
    pub async fn publish_one(&mut self, uid: &str) -> Result<(), ApiError> {
        let Some(notice) = self.queue.front() else {
            return Ok(());
        };
        let event = Event {
            type_: if notice.normal {
                EventType::Normal
            } else {
                EventType::Warning
            },
            reason: notice.reason.into(),
            note: Some(notice.note.clone()),
            action: notice.action.clone(),
            secondary: None,
        };
        // `kubectl describe node` finds events by the Node's UID.
        let node = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(self.node.clone()),
            uid: Some(uid.into()),
            ..ObjectReference::default()
        };
        let published = self.recorder.publish(&event, &node);
        let result = bounded("write an event", Duration::from_secs(10), published).await;
        match &result {
            Ok(()) => {
                self.queue.pop_front();
            }
            // The earlier event that this one would count up is gone: start anew next time.
            Err(_) => self.recorder = recorder(&self.client, &self.controller, &self.node),
        }
        result
    }
}

fn recorder(client: &Client, controller: &str, node: &str) -> Recorder {
    let reporter = Reporter {
        controller: controller.into(),
        instance: Some(node.into()),
    };
    Recorder::new(client.clone(), reporter)
}
