//! What happens to the demo's nodes, from `data/fleet.toml`.

use super::nccl::Gang;
use super::{Change, ProcessSpec};
use crate::data_files::embedded;
use crate::observe::{PodContainer, PodFacts, PodJob};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    gangs: BTreeMap<String, Gang>,
    scenarios: Vec<Scenario>,
    healthy: Vec<Scenario>,
    plays: BTreeMap<String, Vec<Scenario>>,
}

static FILE: LazyLock<ScenarioFile> = LazyLock::new(|| embedded(include_str!("data/fleet.toml")));

/// What happens to one node of the fleet. Times are seconds from its beginning.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Node name, such as `gpu-01`.
    #[serde(skip)]
    pub name: String,
    /// Nodes of a play that are like this, next to each other; 0 means 1.
    count: usize,
    /// Labels of the Node object.
    pub labels: BTreeMap<String, String>,
    /// Firmware of its NICs, where it is not the preset's.
    pub firmware: Option<String>,
    /// The preset that the node is.
    #[serde(rename = "node")]
    pub preset: String,
    /// What happens, in one line.
    pub about: String,
    /// The verdict that it ends in; empty where that changes all the time.
    pub state: String,
    /// Reasons of findings that end up standing.
    pub reasons: Vec<String>,
    /// When it begins again from the start; `None`: its faults last.
    pub seconds: Option<f64>,
    /// When its agent stops for good.
    pub leaves: Option<f64>,
    /// Share of the links' rate that its jobs use, in percent; 0: only the steps' traffic.
    #[serde(skip)]
    pub load: u64,
    /// Events before its agent starts.
    pub before: Vec<Change>,
    /// What happens when, in any order.
    pub steps: Vec<Step>,
    jobs: Vec<SimulatedJob>,
}

/// Events and when they happen: once, again and again, or both.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// When they happen once.
    pub at: Option<f64>,
    /// When they first happen of several times; after one interval if left out.
    pub from: Option<f64>,
    /// Interval between two times.
    pub every: Option<f64>,
    /// They no longer happen from here on.
    pub until: Option<f64>,
    /// Whether amounts are for real time: N times smaller at N times the speed.
    pub proportional: bool,
    /// Line for the audience; empty: nothing is said.
    pub say: String,
    /// What happens, in this order.
    pub events: Vec<Change>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SimulatedJob {
    at: f64,
    until: Option<f64>,
    namespace: String,
    /// Name of its pod on the node.
    pod: String,
    /// UID of the pod.
    uid: String,
    job: Option<PodJob>,
    /// The node's place in the gang.
    index: u32,
    /// RDMA devices requested, by resource.
    rdma: BTreeMap<String, u64>,
    /// Without `NCCL_DEBUG`, the job writes no NCCL log.
    env: BTreeMap<String, String>,
    /// Process that is simulated as well.
    process: Option<ProcessSpec>,
    /// Key of its gang in the data file.
    gang: String,
}

/// The first `nodes` of the fleet.
pub fn fleet(nodes: usize) -> Vec<Scenario> {
    let all = FILE.scenarios.iter().chain(FILE.healthy.iter().cycle());
    named(all.take(nodes).cloned().collect())
}

/// A fleet in which many nodes fail for what they have in common.
pub fn play(name: &str) -> Option<Vec<Scenario>> {
    let nodes = FILE.plays.get(name)?.iter();
    let nodes = nodes.flat_map(|scenario| vec![scenario.clone(); scenario.count.max(1)]);
    Some(named(nodes.collect()))
}

/// Names of the plays.
pub fn plays() -> impl Iterator<Item = &'static str> {
    FILE.plays.keys().map(String::as_str)
}

/// Gives the nodes names, load and jobs.
fn named(mut fleet: Vec<Scenario>) -> Vec<Scenario> {
    for (scenario, n) in fleet.iter_mut().zip(0u64..) {
        scenario.name = format!("gpu-{:02}", n + 1);
        if scenario.seconds.is_none() {
            scenario.load = 40 + (n * 17) % 40;
        }
        let jobs = std::mem::take(&mut scenario.jobs);
        scenario
            .steps
            .extend(jobs.iter().flat_map(SimulatedJob::steps));
    }
    fleet
}

impl SimulatedJob {
    fn pod(&self, gang: &Gang) -> PodFacts {
        let trainer = PodContainer {
            env: self.env.clone(),
            gpus: gang.ranks.into(),
            rdma: self.rdma.clone(),
            ..PodContainer::default()
        };
        PodFacts {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            name: self.pod.clone(),
            job: self.job.clone(),
            gang: Some(true),
            containers: BTreeMap::from([("trainer".into(), trainer)]),
            ..PodFacts::default()
        }
    }

    /// The pod starts, and prints what its gang prints.
    fn steps(&self) -> Vec<Step> {
        let Some(gang) = FILE.gangs.get(&self.gang) else {
            return Vec::new();
        };
        let uid = || self.uid.clone();
        let once = |at: f64, event: Change| Step {
            at: Some(at),
            events: vec![event],
            ..Step::default()
        };
        let prints = |lines: Vec<String>| Change::PodPrints { uid: uid(), lines };
        let pod = Box::new(self.pod(gang));
        let mut steps = vec![once(self.at, Change::PodStarts(pod))];
        if let Some(mut process) = self.process.clone() {
            process.pod = uid();
            steps.push(once(self.at + 1.0, Change::ProcessStarts(process)));
        }
        let logs = self.env.contains_key("NCCL_DEBUG");
        let job = self.job.as_ref().filter(|_| logs);
        let output = job.map(|job| gang.output(&job.name, &self.pod, self.index));
        for (after, lines) in output.into_iter().flatten() {
            steps.push(once(self.at + 0.5 + after, prints(lines)));
        }
        match self.until {
            Some(until) => steps.push(once(until, Change::PodEnds(uid()))),
            None if logs && !gang.hangs => steps.push(Step {
                from: Some(self.at + 5.0),
                every: Some(5.0),
                events: vec![prints(vec!["throughput 3021.7 tokens/s/GPU".into()])],
                ..Step::default()
            }),
            None => {}
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CHECKS;
    use crate::simulate::NodeFiles;
    use crate::simulate::tests::written;
    use std::collections::BTreeSet;

    fn first(step: &Step) -> f64 {
        let first = step.at.or(step.from).or(step.every);
        first.expect("a step that happens")
    }

    /// Applies each step once, in the order of time, and returns the node's state.
    fn performed(scenario: &Scenario) -> (NodeFiles, NodeFiles) {
        let (_dir, mut node) = written(&scenario.preset);
        let spec = node.spec().clone();
        let mut steps: Vec<&Step> = scenario.steps.iter().collect();
        steps.sort_by(|a, b| first(a).total_cmp(&first(b)));
        let events = steps.iter().flat_map(|step| &step.events);
        for event in scenario.before.iter().chain(events) {
            if !matches!(event, Change::Traffic { .. }) {
                let done = node.apply(event);
                assert!(done.is_ok(), "{}: {done:?} {event:?}", scenario.name);
            }
        }
        (spec, node.spec().clone())
    }

    #[test]
    fn every_event_fits_its_node() {
        let plays = plays().flat_map(|name| play(name).unwrap());
        for scenario in fleet(15).into_iter().chain(plays) {
            performed(&scenario);
            assert!(!scenario.about.is_empty());
            if let Some(seconds) = scenario.seconds {
                assert!(scenario.steps.iter().all(|step| first(step) < seconds));
            }
        }
    }

    #[test]
    fn what_begins_again_ends_as_it_began() {
        let (was, is) = performed(&fleet(1)[0]);
        for (was, is) in was.rdma.iter().zip(&is.rdma) {
            let (was, is) = (&was.ports[0], &is.ports[0]);
            assert_eq!((was.state, &was.rate), (is.state, &is.rate));
        }
        assert_eq!(is.pci, was.pci);
        assert_eq!(is.memory_peers, was.memory_peers);
        let names = |spec: &NodeFiles| -> BTreeSet<String> {
            spec.modules
                .iter()
                .map(|module| module.name.clone())
                .collect()
        };
        assert_eq!(names(&is), names(&was));
    }

    #[test]
    fn names_and_pods_differ() {
        let scenarios = fleet(64);
        let names: BTreeSet<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names.len(), 64);
        let mut uids = BTreeSet::new();
        let steps = scenarios.iter().flat_map(|scenario| &scenario.steps);
        for event in steps.flat_map(|step| &step.events) {
            if let Change::PodStarts(pod) = event {
                assert!(uids.insert(pod.uid.clone()), "{}", pod.name);
            }
        }
        assert!(uids.len() >= 10);
    }

    #[test]
    fn lines_are_those_of_pods_that_start() {
        let plays = plays().flat_map(|name| play(name).unwrap());
        let mut lines = 0;
        for scenario in fleet(12).into_iter().chain(plays) {
            let events = || scenario.steps.iter().flat_map(|step| &step.events);
            let started = events().filter_map(|event| match event {
                Change::PodStarts(pod) => Some(&pod.uid),
                _ => None,
            });
            let started: BTreeSet<&String> = started.collect();
            for event in events() {
                if let Change::PodPrints { uid, .. } = event {
                    assert!(started.contains(uid), "{}: {event:?}", scenario.name);
                    lines += 1;
                }
            }
        }
        assert!(lines > 20, "{lines}");
    }

    #[test]
    fn reasons_are_ones_that_checks_give() {
        let of_checks = CHECKS.iter().flat_map(|check| check.reasons());
        let mut known: BTreeSet<&str> = of_checks.map(|doc| doc.reason.as_str()).collect();
        known.insert("NoFabric");
        let plays = plays().flat_map(|name| play(name).unwrap());
        for scenario in fleet(12).into_iter().chain(plays) {
            for reason in &scenario.reasons {
                assert!(known.contains(reason.as_str()), "{reason}");
            }
        }
    }
}
