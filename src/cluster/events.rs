//! Requests for Events: what they say, and the agent's end of the channel for those on pods.

use super::{desired, is_dns_name};
use crate::report::{Report, State};
use crate::settings_macro::words;
use tokio::sync::mpsc;

/// Events that may wait for the writer.
const WAITING: usize = 64;

/// Longest UID that is passed on; the API's have 36 bytes.
const UID_MAX: usize = 64;

/// The pod that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Namespace, of the pod and of the event.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod, as the path of its logs has it, too.
    pub uid: String,
}

words! {
    /// `type` of an event.
    EventKind {
        /// Recovery, or a good verdict.
        Normal = "Normal",
        /// Something that needs attention.
        Warning = "Warning",
    }
}

/// An Event to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRequest {
    /// When it happened. Published again after no answer came, it is the same event.
    pub at: jiff::Timestamp,
    /// The pod it is about; `None`: the Node.
    pub pod: Option<PodRef>,
    /// Published only if the Node's label says something else: of the first verdict since the start.
    pub unless_labelled: Option<State>,
    /// The `type` of the event.
    pub kind: EventKind,
    /// Its reason in CamelCase, such as `FabricUnready`.
    pub reason: &'static str,
    /// Its message, for people.
    pub message: String,
}

impl EventRequest {
    /// An event on the Node.
    pub fn on_node(kind: EventKind, reason: &'static str, message: String) -> Self {
        EventRequest {
            at: jiff::Timestamp::now(),
            pod: None,
            unless_labelled: None,
            kind,
            reason,
            message,
        }
    }

    /// The event of a change of verdict, or of the `first` verdict since the agent started.
    pub fn of_verdict(report: &Report, first: bool) -> Self {
        let kind = match report.state {
            State::Ready | State::NoFabric => EventKind::Normal,
            State::Degraded | State::Unready | State::Unknown => EventKind::Warning,
        };
        let (_, reason) = desired::status_and_reason(report.state);
        let message = desired::condition(report).message;
        EventRequest {
            unless_labelled: first.then_some(report.state),
            ..EventRequest::on_node(kind, reason, message)
        }
    }
}

/// Takes events on pods: one for each change in a job, not one for each sample. They
/// follow the rules of the Node's events (none in a dry run, nor in the modes `labels` and `off`), have
/// a rate limit of their own, and repetitions are counted in one event.
#[derive(Debug, Clone)]
pub struct EventSender(mpsc::Sender<EventRequest>);

impl EventSender {
    /// A sender, and the writer's end of the channel.
    pub fn channel() -> (Self, mpsc::Receiver<EventRequest>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (EventSender(sender), receiver)
    }

    /// Requests an event on a pod, with a reason in CamelCase (`NcclTcpFallback`). Returns false if
    /// it is dropped: nothing writes, too many wait, or the path of a log named something that
    /// cannot be a pod.
    pub fn pod(&self, pod: PodRef, reason: &'static str, kind: EventKind, message: String) -> bool {
        let is_pod = is_dns_name(&pod.namespace)
            && is_dns_name(&pod.name)
            && (1..=UID_MAX).contains(&pod.uid.len());
        let request = EventRequest {
            pod: Some(pod),
            ..EventRequest::on_node(kind, reason, message)
        };
        is_pod && self.0.try_send(request).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_pod_and_what_is_too_much_is_dropped() {
        let (sender, mut receiver) = EventSender::channel();
        let publish = |namespace: &str, name: &str, uid: &str| {
            let pod = PodRef {
                namespace: namespace.into(),
                name: name.into(),
                uid: uid.into(),
            };
            sender.pod(pod, "NcclTcpFallback", EventKind::Warning, "TCP".into())
        };
        for (namespace, name, uid) in [
            ("ml/../x", "w", "u"),
            ("ml?a=b", "w", "u"),
            ("", "w", "u"),
            ("ml", "w w", "u"),
            ("ml", "w", ""),
            ("ml", "w", &"u".repeat(65)),
        ] {
            assert!(!publish(namespace, name, uid), "{namespace} {name} {uid}");
        }
        assert!(receiver.try_recv().is_err());
        for _ in 0..WAITING {
            assert!(publish("ml", "w.a-0", "u"));
        }
        assert!(!publish("ml", "w.a-0", "u"), "too many wait");
        drop(receiver);
        assert!(!publish("ml", "w", "u"), "nothing receives");
    }
}
