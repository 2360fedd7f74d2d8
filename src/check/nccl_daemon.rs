//! A pod of a gang on a Google machine whose rails NCCL reaches only through a daemon next to the job
//! (RxDM, GPUDirect-TCPX and -TCPXO): without it, or while it is down, the job fails, hangs or uses
//! TCP, and its own log seldom says why. A statement about the pod, never about the node.

use super::{nccl_pods::wants_sockets, profile::GpuDirectTcp};
use crate::observe::{ContainerState, NodeResources, PodContainer, PodFacts};

/// Reason of a pod without the daemon.
pub const MISSING: &str = "TcpxoDaemonMissing";
/// Reason of a pod whose daemon does not run.
pub const DOWN: &str = "TcpxoDaemonDown";

/// A pod whose daemon is missing or down, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DaemonTrouble {
    /// [`MISSING`] or [`DOWN`].
    pub reason: &'static str,
    /// `namespace/pod`.
    pub subject: String,
    /// GPUs that the pod requests.
    pub gpus: u64,
    /// The daemon's container and its state; `None` where it is missing.
    pub daemon: Option<(String, String)>,
    /// One sentence on what is wrong.
    pub message: String,
    /// What to do, with the command or the manifest's lines.
    pub remedy: String,
}

/// Judges a pod by the transport of its machine; `None`: nothing wrong, or unknown.
///
/// Only pods that are proven to be one of several, request all GPUs of the node and are not
/// configured to use sockets need a daemon; and not where another pod of the node has one (`another`),
/// which may serve this one.
pub fn daemon_trouble(
    pod: &PodFacts,
    tcp: GpuDirectTcp,
    node: Option<&NodeResources>,
    another: bool,
) -> Option<DaemonTrouble> {
    if pod.finished || pod.gang == Some(false) {
        return None;
    }
    let at_work = |container: &&PodContainer| !container.tcp_daemon && container.gpus > 0;
    let jobs = || pod.containers.values().filter(at_work);
    let gpus = jobs().fold(0u64, |sum, container| sum.saturating_add(container.gpus));
    if gpus == 0 || jobs().any(|container| wants_sockets(&container.env)) {
        return None;
    }
    let subject = format!("{}/{}", pod.namespace, pod.name);
    let name = tcp.name;
    let mut daemons = pod.containers.iter().filter(|(_, of)| of.tcp_daemon);
    let Some((container, daemon)) = daemons.next() else {
        let all = node.is_some_and(|node| (1..=gpus).contains(&node.gpus()));
        return (pod.gang == Some(true) && all && !another).then(|| missing(subject, tcp, gpus));
    };
    let runs = |container: &PodContainer| container.state == Some(ContainerState::Running);
    let how = match daemon.state.as_ref()? {
        ContainerState::Running => return None,
        ContainerState::Waiting(why) => match why.as_str() {
            // It is starting.
            "ContainerCreating" | "PodInitializing" | "" => return None,
            why => why.to_string(),
        },
        ContainerState::Ended(why) => format!("ended: {why}"),
    };
    // Of several, one that runs is enough; before and after the job none is needed.
    if daemons.any(|(_, other)| runs(other)) || !jobs().any(runs) {
        return None;
    }
    Some(DaemonTrouble {
        reason: DOWN,
        gpus,
        message: format!(
            "{subject}: its {name} daemon `{container}` does not run ({how}) while the job does: \
             NCCL reaches the GPUs' interfaces only through it. The job fails, hangs, or uses TCP \
             between nodes."
        ),
        remedy: format!(
            "Read its log: `kubectl -n {} logs {} -c {container} --previous`. Often it lacks the \
             GPUs' devices (annotation `devices.gke.io/container.{container}`) or NET_ADMIN, or \
             its version does not go with the plugin on the nodes: docs/platforms/gcp-tcpxo.md.",
            pod.namespace, pod.name,
        ),
        daemon: Some((container.clone(), how)),
        subject,
    })
}

fn missing(subject: String, tcp: GpuDirectTcp, gpus: u64) -> DaemonTrouble {
    let name = tcp.name;
    DaemonTrouble {
        reason: MISSING,
        gpus,
        daemon: None,
        message: format!(
            "{subject} is one of several pods of a job, requests all {gpus} GPUs, and has no \
                 {name} daemon: on this machine NCCL reaches the GPUs' interfaces only \
                 through one. The job fails, hangs, or uses TCP between nodes."
        ),
        remedy: format!(
            "Add the daemon to the pod template: an init container `{}` with `restartPolicy: \
                 Always` and image {}:VERSION, in the version that goes with the plugin on the \
                 nodes; docs/platforms/gcp-tcpxo.md has the full manifest. If TCP is intended, set \
                 NCCL_NET=Socket.",
            tcp.container, tcp.image,
        ),
        subject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(why: &str) -> Option<ContainerState> {
        Some(ContainerState::Waiting(why.into()))
    }

    fn ended(why: &str) -> Option<ContainerState> {
        Some(ContainerState::Ended(why.into()))
    }

    /// A worker with its daemon, both at work.
    fn worker() -> PodFacts {
        let running = PodContainer {
            state: Some(ContainerState::Running),
            ..PodContainer::default()
        };
        let job = PodContainer {
            gpus: 8,
            ..running.clone()
        };
        let daemon = PodContainer {
            tcp_daemon: true,
            ..running.clone()
        };
        PodFacts {
            uid: "u".into(),
            namespace: "ml".into(),
            name: "w-0".into(),
            gang: Some(true),
            containers: [("job", job), ("log", running), ("tcpxo-daemon", daemon)]
                .map(|(name, facts)| (name.to_string(), facts))
                .into(),
            ..PodFacts::default()
        }
    }

    fn of<'a>(pod: &'a mut PodFacts, name: &str) -> &'a mut PodContainer {
        pod.containers.get_mut(name).unwrap()
    }

    fn tcp(machine: &str) -> GpuDirectTcp {
        let shape = crate::check::profile::by_type(machine).unwrap();
        shape.gpudirect_tcp.unwrap()
    }

    fn judged(pod: &PodFacts) -> Option<DaemonTrouble> {
        let node = NodeResources::allocatable(&[("nvidia.com/gpu", 8)]);
        daemon_trouble(pod, tcp("a3-megagpu-8g"), Some(&node), false)
    }

    #[test]
    fn without_a_daemon() {
        type Edit = fn(&mut PodFacts);
        let cases: &[(&str, Edit, bool)] = &[
            ("as it is", |_| {}, true),
            ("one pod", |pod| pod.gang = Some(false), false),
            ("not told", |pod| pod.gang = None, false),
            ("ended", |pod| pod.finished = true, false),
            ("one of the GPUs", |pod| of(pod, "job").gpus = 1, false),
            ("a launcher", |pod| of(pod, "job").gpus = 0, false),
            (
                "GPUs of two containers",
                |pod| {
                    of(pod, "job").gpus = 4;
                    of(pod, "log").gpus = 4;
                },
                true,
            ),
            (
                "sockets are meant",
                |pod| {
                    of(pod, "job")
                        .env
                        .insert("NCCL_NET".into(), "Socket".into());
                },
                false,
            ),
            // Google's own examples do it, and have a daemon all the same.
            ("the host's network", |pod| pod.host_network = true, true),
            ("privileged", |pod| of(pod, "job").privileged = true, true),
            ("not begun", |pod| of(pod, "job").state = None, true),
            (
                "a daemon of another name",
                |pod| of(pod, "log").tcp_daemon = true,
                false,
            ),
        ];
        for (case, edit, want) in cases {
            let mut pod = worker();
            pod.containers.remove("tcpxo-daemon");
            edit(&mut pod);
            let found = judged(&pod);
            assert_eq!(found.is_some(), *want, "{case}");
            if let Some(found) = found {
                assert_eq!((found.reason, found.gpus), (MISSING, 8), "{case}");
                assert!(found.message.contains("ml/w-0"), "{}", found.message);
                assert!(found.message.contains("TCPXO"), "{}", found.message);
                let image = "gpudirect-tcpxo/tcpgpudmarxd-dev";
                assert!(found.remedy.contains(image), "{}", found.remedy);
            }
        }
    }

    #[test]
    fn what_is_not_known_is_not_missed() {
        let mut pod = worker();
        pod.containers.remove("tcpxo-daemon");
        let node = |gpus| NodeResources::allocatable(&[("nvidia.com/gpu", gpus)]);
        let judge = |node: Option<&NodeResources>, another| {
            daemon_trouble(&pod, tcp("a3-highgpu-8g"), node, another)
        };
        assert_eq!(judge(None, false), None);
        assert_eq!(judge(Some(&node(0)), false), None);
        assert_eq!(judge(Some(&node(8)), true), None, "another pod has one");
        let found = judge(Some(&node(8)), false).unwrap();
        assert!(found.remedy.contains("`tcpx-daemon`"), "{}", found.remedy);
        assert!(found.remedy.contains("gpudirect-tcpx/"), "{}", found.remedy);
    }

    #[test]
    fn a_daemon_that_does_not_run() {
        for (state, want) in [
            (Some(ContainerState::Running), None),
            // The kubelet has not started the pod yet.
            (None, None),
            (waiting("ContainerCreating"), None),
            (waiting("PodInitializing"), None),
            (waiting(""), None),
            (waiting("CrashLoopBackOff"), Some("CrashLoopBackOff")),
            (waiting("ImagePullBackOff"), Some("ImagePullBackOff")),
            (ended("Error, exit 1"), Some("ended: Error, exit 1")),
            (ended("Completed, exit 0"), Some("ended: Completed, exit 0")),
        ] {
            let mut pod = worker();
            of(&mut pod, "tcpxo-daemon").state = state.clone();
            let found = judged(&pod);
            let how = found.as_ref().and_then(|found| found.daemon.as_ref());
            assert_eq!(how.map(|(_, how)| how.as_str()), want, "{state:?}");
            let Some(found) = found else { continue };
            assert_eq!(found.reason, DOWN);
            assert!(found.message.contains("ml/w-0"), "{}", found.message);
            assert!(
                found.remedy.contains("-n ml logs w-0 -c tcpxo-daemon"),
                "{}",
                found.remedy
            );

            // It matters only while the job's own container runs.
            for state in [None, waiting("PodInitializing"), ended("Completed, exit 0")] {
                let mut pod = pod.clone();
                of(&mut pod, "job").state = state;
                assert_eq!(judged(&pod), None);
            }
            let mut alone = pod.clone();
            alone.gang = Some(false);
            assert_eq!(judged(&alone), None);
            let mut second = pod.clone();
            of(&mut second, "log").tcp_daemon = true;
            assert_eq!(judged(&second), None, "another one runs");
        }
    }
}
