//! What happens to the demo's nodes, from `data/fleet.toml`.

use super::event::Event;
use super::nccl::Gang;
use super::spec::ProcessSpec;
use crate::hash::fnv1a;
use crate::observe::pod::{self, ContainerFacts, PodFacts};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    makers: BTreeMap<String, Maker>,
    gangs: BTreeMap<String, Gang>,
    scenarios: Vec<Scenario>,
    healthy: Vec<Scenario>,
    plays: BTreeMap<String, Vec<Scenario>>,
}

/// What creates the pods of a job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Maker {
    kind: String,
    pod: String,
}

static FILE: LazyLock<File> = LazyLock::new(|| super::embedded(include_str!("data/fleet.toml")));

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
    pub before: Vec<Event>,
    /// What happens when, in any order.
    pub steps: Vec<Step>,
    jobs: Vec<Job>,
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
    pub events: Vec<Event>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Job {
    at: f64,
    until: Option<f64>,
    namespace: String,
    maker: String,
    name: String,
    index: u32,
    /// RDMA resource requested; empty: none.
    rdma: String,
    rdma_count: u64,
    env: BTreeMap<String, String>,
    /// Text from which the UID is made, where it is not the pod's name.
    uid_of: Option<String>,
    /// Whether the job writes no NCCL log.
    silent: bool,
    /// Process that is simulated as well.
    pid: Option<u32>,
    queue_pairs: bool,
    /// Key of its gang in the data file.
    gang: String,
    prints: Option<Prints>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prints {
    at: f64,
    from: f64,
    every: f64,
    lines: Vec<String>,
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
        scenario.steps.extend(jobs.iter().flat_map(Job::steps));
    }
    fleet
}

impl Job {
    fn pod(&self, gang: &Gang) -> Option<PodFacts> {
        let maker = FILE.makers.get(&self.maker)?;
        let name = maker.pod.replace("{job}", &self.name);
        let name = name.replace("{index}", &self.index.to_string());
        let debug = (!self.silent).then_some(("NCCL_DEBUG", "INFO"));
        let env = debug.into_iter().chain([("PET_NNODES", "2")]);
        let mut env: BTreeMap<String, String> = env
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        env.extend(self.env.clone());
        let trainer = ContainerFacts {
            env,
            gpus: gang.ranks.into(),
            rdma: match self.rdma.as_str() {
                "" => BTreeMap::new(),
                rdma => BTreeMap::from([(rdma.into(), self.rdma_count)]),
            },
            ..ContainerFacts::default()
        };
        Some(PodFacts {
            uid: uid(self.uid_of.as_ref().unwrap_or(&name)),
            namespace: self.namespace.clone(),
            name,
            job: Some(pod::Job {
                kind: maker.kind.clone(),
                name: self.name.clone(),
            }),
            gang: Some(true),
            containers: BTreeMap::from([("trainer".into(), trainer)]),
            ..PodFacts::default()
        })
    }

    /// The pod starts, prints what its gang prints, then its own words from time to time.
    fn steps(&self) -> Vec<Step> {
        let gang = FILE.gangs.get(&self.gang);
        let Some((gang, pod)) = gang.and_then(|gang| Some((gang, self.pod(gang)?))) else {
            return Vec::new();
        };
        let once = |at: f64, event: Event| Step {
            at: Some(at),
            events: vec![event],
            ..Step::default()
        };
        let prints = |lines: Vec<String>| Event::PodPrints {
            uid: pod.uid.clone(),
            lines,
        };
        let mut steps = vec![once(self.at, Event::PodStarts(Box::new(pod.clone())))];
        if let Some(pid) = self.pid {
            let process = ProcessSpec {
                pid,
                pod: pod.uid.clone(),
                queue_pairs: self.queue_pairs,
                tcp: 0,
            };
            steps.push(once(self.at + 1.0, Event::ProcessStarts(process)));
        }
        if !self.silent {
            for (after, lines) in gang.output(&self.name, &pod.name, self.index) {
                steps.push(once(self.at + 0.5 + after, prints(lines)));
            }
        }
        if let Some(own) = &self.prints {
            let lines = own.lines.iter();
            let lines = lines.map(|line| line.replace("{pod}", &pod.name));
            steps.push(Step {
                from: Some(own.from),
                every: Some(own.every),
                ..once(own.at, prints(lines.collect()))
            });
        }
        match self.until {
            Some(until) => steps.push(once(until, Event::PodEnds(pod.uid.clone()))),
            None if !gang.hangs && !self.silent => steps.push(Step {
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

/// A UID that depends on a text alone.
fn uid(text: &str) -> String {
    let hash = fnv1a(text.as_bytes());
    let (a, b) = (hash >> 32, hash & 0xffff_ffff);
    let (high, low, node) = (b >> 16, b & 0xfff, a >> 16);
    let variant = a & 0xfff;
    format!("{a:08x}-{high:04x}-4{low:03x}-8{variant:03x}-{b:08x}{node:04x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CHECKS;
    use crate::simulate::NodeSpec;
    use crate::simulate::tests::written;
    use std::collections::BTreeSet;

    fn first(step: &Step) -> f64 {
        let first = step.at.or(step.from).or(step.every);
        first.expect("a step that happens")
    }

    /// Applies each step once, in the order of time, and returns the node's state.
    fn performed(scenario: &Scenario) -> (NodeSpec, NodeSpec) {
        let (_dir, mut node) = written(&scenario.preset);
        let spec = node.spec().clone();
        let mut steps: Vec<&Step> = scenario.steps.iter().collect();
        steps.sort_by(|a, b| first(a).total_cmp(&first(b)));
        let events = steps.iter().flat_map(|step| &step.events);
        for event in scenario.before.iter().chain(events) {
            if !matches!(event, Event::Traffic { .. }) {
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
        let names = |spec: &NodeSpec| -> BTreeSet<String> {
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
            if let Event::PodStarts(pod) = event {
                assert!(uids.insert(pod.uid.clone()), "{}", pod.name);
            }
        }
        assert!(uids.len() >= 10);
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
