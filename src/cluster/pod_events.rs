//! Events on pods: the agent's end.

use super::events::Notice;
use super::settings::is_dns_name;
use crate::observe::pod::PodFacts;
use tokio::sync::mpsc;

/// Events that may wait for the writer.
const WAITING: usize = 64;

/// Longest UID that is passed on; the API's have 36 bytes.
const UID_MAX: usize = 64;

/// The pod that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Its namespace, in which the event is made.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: a log's path has it, too.
    pub uid: String,
}

impl From<&PodFacts> for PodRef {
    fn from(pod: &PodFacts) -> Self {
        PodRef {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }
}

/// `type` of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Good news.
    Normal,
    /// Something to look at.
    Warning,
}

/// Something to tell of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNotice {
    /// The pod.
    pub pod: PodRef,
    /// What to tell.
    pub notice: Notice,
}

/// Where events on pods are handed in: one a change of what is known of a job, not one a look. They
/// are told by the rules of the Node's events (none in a dry run, nor under the modes `labels` and
/// `off`), at the pace of all that is written, the same again counted up.
#[derive(Debug, Clone)]
pub struct EventSender(mpsc::Sender<PodNotice>);

impl EventSender {
    /// A sender, and the writer's end of it.
    pub fn channel() -> (Self, mpsc::Receiver<PodNotice>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (EventSender(sender), receiver)
    }

    /// To be told of a pod: a reason in CamelCase (`NcclTcpFallback`), and words for people. False:
    /// there is nobody to tell, too much waits, or it is no pod (a log's path may hold anything).
    pub fn pod(
        &self,
        pod: impl Into<PodRef>,
        reason: &'static str,
        kind: EventKind,
        message: String,
    ) -> bool {
        let notice = Notice {
            normal: kind == EventKind::Normal,
            reason,
            note: message,
        };
        let pod = pod.into();
        let is_pod = is_dns_name(&pod.namespace)
            && is_dns_name(&pod.name)
            && (1..=UID_MAX).contains(&pod.uid.len());
        is_pod && self.0.try_send(PodNotice { pod, notice }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pod_and_what_is_too_much_is_not_taken() {
        let (sender, mut receiver) = EventSender::channel();
        let tell = |namespace: &str, name: &str, uid: &str| {
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
            assert!(!tell(namespace, name, uid), "{namespace} {name} {uid}");
        }
        assert!(receiver.try_recv().is_err());
        for _ in 0..WAITING {
            assert!(tell("ml", "w.a-0", "u"));
        }
        assert!(!tell("ml", "w.a-0", "u"), "too much waits");
        drop(receiver);
        assert!(!tell("ml", "w", "u"), "nobody listens");
    }
}
