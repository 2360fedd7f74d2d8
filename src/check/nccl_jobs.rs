//! Jobs on this node, by what NCCL logs in them: each container's verdict, and what several failing
//! in a row say about the node.

use super::job_verdicts::{ContainerVerdict, Jobs};
use super::policy::JobEffect;
use super::{Candidate, Context, PortView, Reason, Timing, Weight, nccl::Fallback, nccl_pods};
use crate::observe::nccl::log::DeviceErrors;
use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};

// Believed at once: it rests on lines in a log.
check!(nccl_jobs, run, Timing::default());

/// A crashing daemon runs for a moment after each restart.
const DAEMON_TIMING: Timing = Timing {
    raise_after: Duration::from_secs(30),
    clear_after: Duration::from_secs(60),
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let Some(jobs) = context.jobs else {
        return Vec::new();
    };
    let policy = &context.policy.nccl;
    let mut found = Vec::new();
    let mut said = FairShare::default();
    for container in &jobs.containers {
        let verdict = &container.verdict;
        let wrong = verdict.tcp_fallback == Fallback::Yes || verdict.init_hangs_since.is_some();
        if !wrong || !said.may(&container.key.namespace, &container.key.uid) {
            continue;
        }
        if verdict.tcp_fallback == Fallback::Yes {
            let counts = container.of_job && policy.fallback == JobEffect::Degraded;
            let mut candidate = of_container(context, "NcclTcpFallback", container);
            candidate.weight = Weight::counting_if(counts);
            if let Some(remedy) = verdict.remedies.first() {
                candidate.remedy.clone_from(remedy);
            }
            found.push(candidate);
        }
        if verdict.init_hangs_since.is_some() {
            found.push(of_container(context, "NcclInitHang", container));
        }
    }
    let ports = (context.ports().iter()).filter(|_| !jobs.containers.is_empty());
    found.extend(ports.filter_map(|port| rail(context, jobs, port)));
    let row = jobs.fallbacks_in_a_row;
    let several = jobs.fallback_namespaces >= NAMESPACES;
    if policy.jobs_in_a_row > 0 && row >= policy.jobs_in_a_row && several {
        let message = format!("the last {row} multi-node jobs here fell back to TCP");
        let candidate = context.candidate("NcclFallbackRepeats", ("node", "node"), message);
        found.push(candidate.with("jobs", row));
    }
    found.extend(pods(context, jobs));
    found
}

/// What the logs of jobs say of a port.
fn rail(context: &Context<'_>, jobs: &Jobs, port: &PortView<'_>) -> Option<Candidate> {
    let errors = rail_errors(context, jobs, port);
    let first = errors.first()?;
    let lines = (errors.iter()).fold(0u64, |sum, (_, of)| sum.saturating_add(of.lines));
    let id = (port.key.to_string(), port.subject.clone());
    let names = errors.iter().take(4).map(|(name, _)| name.as_str());
    let (device, names) = (&port.device.name, names.collect::<Vec<_>>().join(", "));
    let message = format!("jobs report RDMA errors on {device}: {names}");
    let candidate = context.candidate("NcclRailErrors", id, message);
    let candidate = candidate.with("containers", errors.len());
    Some((candidate.with("lines", lines)).with("first", first.1.first.as_str()))
}

/// Pods without RDMA, and with a daemon missing or down.
fn pods(context: &Context<'_>, jobs: &Jobs) -> Vec<Candidate> {
    let about = |reason, (kind, subject): (&str, &String), message: &str, remedy: &str, gpus| {
        let found = context.candidate(reason, (format!("{kind} {subject}"), subject), message);
        let action = found.action;
        found.fix(action, remedy).with("gpus", gpus)
    };
    let mut said = FairShare::default();
    let no_rdma = (jobs.no_rdma.iter()).filter(|pod| said.may_of(&pod.subject));
    let no_rdma = no_rdma.map(|pod| {
        let of_pod = ("pod", &pod.subject);
        let reason = nccl_pods::REASON;
        let found = about(reason, of_pod, &pod.message, &pod.remedy, pod.gpus);
        found.with("resource", pod.resource.as_str())
    });
    let mut found: Vec<Candidate> = no_rdma.collect();
    let mut said = FairShare::default();
    let troubles = (jobs.daemon_troubles.iter()).filter(|pod| said.may_of(&pod.subject));
    found.extend(troubles.map(|pod| {
        let of_daemon = ("daemon", &pod.subject);
        let found = about(pod.reason, of_daemon, &pod.message, &pod.remedy, pod.gpus);
        let (container, state) = pod.daemon.clone().unzip();
        let mut found = found.with("daemon", container).with("state", state);
        if pod.daemon.is_some() {
            found.timing = DAEMON_TIMING;
        }
        found
    }));
    found
}

/// Jobs of one namespace alone say nothing of the node: anyone who may make pods there could make them up.
const NAMESPACES: u32 = 2;

/// Most things said of one pod, and of one namespace.
const SAID: (u32, u32) = (4, 16);

/// Counts what was said of pods and namespaces, so that none crowds out another.
#[derive(Debug, Default)]
pub struct FairShare(BTreeMap<(String, String), u32>);

impl FairShare {
    /// Whether one thing more may be said of the pod, and of its namespace.
    pub fn may(&mut self, namespace: &str, pod: &str) -> bool {
        let keys = [(pod, SAID.0), ("", SAID.1)];
        keys.into_iter().all(|(pod, most)| {
            let count = self.0.entry((namespace.into(), pod.into())).or_default();
            *count += 1;
            *count <= most
        })
    }

    /// The same of `namespace/pod`.
    fn may_of(&mut self, subject: &str) -> bool {
        let namespace = subject.split('/').next().unwrap_or_default();
        self.may(namespace, subject)
    }
}

/// Containers whose logs name the port's device, or one of its GIDs, in an error; each with its errors.
fn rail_errors<'a>(
    context: &Context<'_>,
    jobs: &'a Jobs,
    port: &PortView<'_>,
) -> Vec<(String, &'a DeviceErrors)> {
    let table = context.snapshot.gids.get(&port.key);
    let gids = table.iter().flat_map(|table| &table.value.gids);
    let gids: Vec<Ipv6Addr> = gids.filter_map(|gid| gid.gid.parse().ok()).collect();
    // An error names a device, not its port: the first port stands for it.
    let names = |device: &str| match device.parse::<Ipv6Addr>() {
        Ok(gid) => gids.contains(&gid),
        Err(_) => device == port.device.name && port.port.number == 1,
    };
    let containers = jobs.containers.iter().flat_map(|container| {
        let errors = container.verdict.device_errors.iter();
        errors.map(|(device, of)| (container.subject(), device, of))
    });
    let ours = containers.filter(|(_, device, _)| names(device));
    ours.map(|(subject, _, of)| (subject, of)).collect()
}

/// A finding about a container's NCCL, with the lines behind it.
fn of_container(context: &Context<'_>, reason: Reason, container: &ContainerVerdict) -> Candidate {
    let (verdict, subject) = (&container.verdict, container.subject());
    let key = format!("{} {}", container.key.uid, container.key.container);
    let message = format!("{subject}: {}", verdict.summary);
    let causes: Vec<&str> = verdict.causes.iter().map(|cause| cause.as_str()).collect();
    let lines = verdict.evidence.iter().take(4);
    let lines: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
    let via = serde_json::to_value(container.via).unwrap_or_default();
    let job = container.job.as_ref();
    (context.candidate(reason, (key, subject), message))
        .with("causes", causes.join(", "))
        .with("lines", lines.join(" | "))
        .with("via", via)
        .with("job", job.map(|job| format!("{} {}", job.kind, job.name)))
        .with("nranks", verdict.nranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::job_verdicts::{Outcomes, VerdictSource};
    use crate::check::nccl::{JobContext, NcclVerdict, Network, judge};
    use crate::check::testing::{Node, key};
    use crate::observe::nccl::NcclLog;
    use crate::observe::nccl::log::LogLimits;
    use crate::observe::{ContainerKey, Gid, GidKind, GidTable, Stamped};
    use crate::units::Millis;
    use std::sync::Arc;

    fn verdict(fallback: Fallback, network: Network) -> NcclVerdict {
        let mut verdict = judge(&NcclLog::new(LogLimits::CONTAINER), &JobContext::default());
        verdict.tcp_fallback = fallback;
        verdict.network = network;
        verdict
    }

    #[test]
    fn errors_in_jobs_are_a_notice_on_the_rail_that_they_name() {
        let mut node = Node::infiniband();
        let gid = Gid {
            index: 3,
            gid: "0000:0000:0000:0000:0000:ffff:0ace:0118".into(),
            kind: Some(GidKind::RoceV2),
            netdev: None,
        };
        let gids = vec![gid];
        let table = Stamped {
            at: node.now,
            value: GidTable {
                gids,
                complete: true,
            },
        };
        node.snapshot.gids.insert(key(5), table.into());
        for (device, subjects) in [
            ("mlx5_5", &["mlx5_5/1"][..]),
            ("::ffff:10.206.1.24", &["mlx5_5/1"]),
            ("::ffff:10.206.1.25", &[]),
            // A virtual function of the pod's own, or another node's.
            ("mlx5_77", &[]),
            ("mlx5", &[]),
        ] {
            let mut verdict = verdict(Fallback::No, Network::Roce);
            let errors = DeviceErrors {
                lines: 2,
                first: "Got completion".into(),
            };
            verdict.device_errors.insert(device.into(), errors);
            let container = ContainerVerdict {
                key: ContainerKey {
                    uid: "u".into(),
                    namespace: "ml".into(),
                    pod: "w-0".into(),
                    container: "main".into(),
                },
                job: None,
                since: Millis(0),
                via: VerdictSource::Log,
                of_job: true,
                verdict: Arc::new(verdict),
            };
            let jobs = Jobs {
                containers: vec![Arc::new(container.clone()), Arc::new(container)],
                ..Jobs::default()
            };
            let mut context = node.context();
            context.jobs = Some(&jobs);
            let found = run(&context);
            let named: Vec<&str> = found.iter().map(|found| found.subject.as_str()).collect();
            assert_eq!(named, subjects, "{device}");
            for found in found {
                assert_eq!(
                    (found.reason, found.weight),
                    ("NcclRailErrors", Weight::Notice)
                );
                assert!(
                    found.message.contains("mlx5_5: ml/w-0/main"),
                    "{}",
                    found.message
                );
                assert_eq!(found.evidence["lines"], 4);
            }
        }
    }

    #[test]
    fn only_jobs_that_used_a_network_say_something_of_the_node() {
        let yes = verdict(Fallback::Yes, Network::Socket);
        let rdma = verdict(Fallback::No, Network::Roce);
        let local = verdict(Fallback::No, Network::None);
        let unknown = verdict(Fallback::Unknown, Network::Socket);
        let meant = verdict(Fallback::Configured, Network::Socket);
        for (jobs, row) in [
            (&[][..], 0),
            (&[("a", &yes)][..], 1),
            (&[("a", &yes), ("a", &yes), ("a", &rdma)][..], 1),
            (&[("a", &rdma), ("a", &yes)][..], 1),
            (
                &[
                    ("a", &yes),
                    ("b", &local),
                    ("c", &unknown),
                    ("d", &meant),
                    ("e", &yes),
                ][..],
                2,
            ),
            (&[("a", &yes), ("b", &rdma), ("c", &yes)][..], 1),
            (&[("a", &yes), ("b", &yes), ("c", &rdma)][..], 0),
        ] {
            let mut outcomes = Outcomes::default();
            for (job, verdict) in jobs {
                outcomes.note(job, verdict, false);
            }
            let names: Vec<&str> = jobs.iter().map(|(name, _)| *name).collect();
            assert_eq!(outcomes.fallbacks_in_a_row().0, row, "{names:?}");
        }
        let mut outcomes = Outcomes::default();
        for n in 0..100 {
            outcomes.note(&n.to_string(), &yes, false);
        }
        assert_eq!(outcomes.fallbacks_in_a_row(), (16, 16));
    }

    #[test]
    fn jobs_of_one_namespace_and_a_crowd_of_pods_move_nothing() {
        let node = Node::infiniband();
        let fallback = |namespace: &str, uid: &str, container: usize| {
            Arc::new(ContainerVerdict {
                key: ContainerKey {
                    uid: uid.into(),
                    namespace: namespace.into(),
                    pod: uid.into(),
                    container: format!("c{container}"),
                },
                job: None,
                since: Millis(0),
                via: VerdictSource::Log,
                of_job: false,
                verdict: Arc::new(verdict(Fallback::Yes, Network::Socket)),
            })
        };
        for (namespaces, here) in [(1, false), (2, true)] {
            let crowd = (0..40).flat_map(|n| {
                let uid = format!("p{}", n % 8);
                [fallback("foe", &uid, n), fallback("foe", &uid, 100 + n)]
            });
            let jobs = Jobs {
                containers: crowd.chain([fallback("victim", "v", 0)]).collect(),
                fallbacks_in_a_row: 5,
                fallback_namespaces: namespaces,
                ..Jobs::default()
            };
            let mut context = node.context();
            context.jobs = Some(&jobs);
            let found = run(&context);
            let of = |start: &str| {
                found
                    .iter()
                    .filter(|f| f.subject.starts_with(start))
                    .count()
            };
            assert_eq!((of("foe/p0/"), of("foe/"), of("victim/")), (2, 16, 1));
            let weighty: Vec<_> = found
                .iter()
                .filter(|f| f.weight == Weight::Verdict)
                .collect();
            assert_eq!(weighty.len(), usize::from(here), "{weighty:?}");
        }
    }
}
