//! What happens to the demo's nodes, from `data/fleet.toml`.

use super::event::Event;
use super::nccl::Gang;
use super::pod::{PodSpec, ProcessSpec};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    makers: BTreeMap<String, Maker>,
    scenarios: Vec<Script>,
    healthy: Vec<Script>,
}

/// What creates the pods of a job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Maker {
    kind: String,
    pod: String,
    labels: BTreeMap<String, String>,
}

/// A scenario as it is written down.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Script {
    node: Option<String>,
    about: String,
    state: Option<String>,
    reasons: Vec<String>,
    /// Length, where it begins again.
    seconds: Option<f64>,
    leaves: Option<f64>,
    before: Vec<Event>,
    steps: Vec<StepText>,
    jobs: Vec<Job>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StepText {
    at: Option<f64>,
    from: Option<f64>,
    every: Option<f64>,
    until: Option<f64>,
    proportional: bool,
    say: String,
    events: Vec<Event>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    at: f64,
    until: Option<f64>,
    namespace: String,
    maker: String,
    name: String,
    #[serde(default)]
    index: u32,
    /// RDMA resource requested; empty: none.
    #[serde(default = "shared_device")]
    rdma: String,
    #[serde(default = "one")]
    rdma_count: u32,
    #[serde(default)]
    env: Vec<(String, String)>,
    /// Text from which the UID is made, where it is not the pod's name.
    uid_of: Option<String>,
    /// Whether the job writes no NCCL log.
    #[serde(default)]
    silent: bool,
    /// Process that is simulated as well.
    pid: Option<u32>,
    #[serde(default)]
    queue_pairs: bool,
    #[serde(default)]
    gang: Gang,
    prints: Option<Prints>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prints {
    at: f64,
    from: f64,
    every: f64,
    lines: Vec<String>,
}

fn shared_device() -> String {
    "rdma/hca_shared_devices_a".into()
}

fn one() -> u32 {
    1
}

static FILE: LazyLock<File> = LazyLock::new(|| super::embedded(include_str!("data/fleet.toml")));

/// What a node of the fleet is by default.
const DEFAULT_NODE: &str = "h100_roce";

/// How an agent's waiting times are shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// For faults that come and go within seconds.
    Passing,
    /// For faults that last.
    Lasting,
}

/// When a step happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// Once, at this time.
    At(Duration),
    /// First at a time, then after each interval, until a time.
    Every {
        /// Time of the first.
        from: Duration,
        /// Interval between two.
        every: Duration,
        /// None happens from here on.
        until: Option<Duration>,
    },
}

/// Events and when they happen.
#[derive(Debug, Clone)]
pub struct Step {
    /// Times since the scenario began.
    pub when: When,
    /// What happens, in this order.
    pub events: Vec<Event>,
    /// Line for the audience; empty: nothing is said.
    pub say: String,
}

/// What happens to one node of the fleet.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Node name, such as `gpu-01`.
    pub name: String,
    /// The preset that the node is.
    pub preset: String,
    /// What happens, in one line.
    pub about: String,
    /// How its agent waits.
    pub timing: Timing,
    /// Share of the links' rate that its jobs use, in percent; 0: only the steps' traffic.
    pub load: u64,
    /// Events before its agent starts.
    pub before: Vec<Event>,
    /// Events of the scenario, in order of time.
    pub steps: Vec<Step>,
    /// When it begins again from the start; `None`: its faults last.
    pub length: Option<Duration>,
    /// When its agent stops for good.
    pub leaves: Option<Duration>,
    /// The verdict that it ends in; `None` where that changes all the time.
    pub state: Option<String>,
    /// Reasons of findings that end up standing.
    pub reasons: Vec<String>,
}

/// The first `nodes` of the fleet, with everything `speed` times as fast.
pub fn fleet(nodes: usize, speed: f64) -> Vec<Scenario> {
    (0..nodes)
        .filter_map(|n| {
            let further = || FILE.healthy.get(n % FILE.healthy.len().max(1));
            let script = FILE.scenarios.get(n).or_else(further)?;
            Some(script.scenario(n, speed))
        })
        .collect()
}

impl Script {
    fn scenario(&self, n: usize, speed: f64) -> Scenario {
        let secs = |secs: f64| Duration::from_secs_f64(secs / speed);
        let mut texts = self.steps.clone();
        texts.extend(self.jobs.iter().flat_map(Job::steps));
        let mut steps = Vec::new();
        for text in texts {
            let events = match text.proportional {
                true => text
                    .events
                    .iter()
                    .map(|event| slowed(event, speed))
                    .collect(),
                false => text.events,
            };
            let mut step = |when, say| {
                let events = events.clone();
                steps.push(Step { when, events, say });
            };
            if let Some(at) = text.at {
                step(When::At(secs(at)), text.say);
            }
            if let Some(every) = text.every {
                let when = When::Every {
                    from: secs(text.from.unwrap_or(every)),
                    every: secs(every),
                    until: text.until.map(secs),
                };
                step(when, String::new());
            }
        }
        Scenario {
            name: format!("gpu-{:02}", n + 1),
            preset: self.node.clone().unwrap_or_else(|| DEFAULT_NODE.into()),
            about: self.about.clone(),
            timing: match self.seconds {
                Some(_) => Timing::Passing,
                None => Timing::Lasting,
            },
            load: match self.seconds {
                Some(_) => 0,
                None => 40 + (n as u64 * 17) % 40,
            },
            before: self.before.clone(),
            steps,
            length: self.seconds.map(secs),
            leaves: self.leaves.map(secs),
            state: match self.state.as_deref() {
                None => Some("ready".into()),
                Some("") => None,
                Some(state) => Some(state.into()),
            },
            reasons: self.reasons.clone(),
        }
    }
}

/// An amount for real time, at another speed.
fn slowed(event: &Event, speed: f64) -> Event {
    let mut event = event.clone();
    if let Event::Ethtool { add: amount, .. } | Event::Traffic { millis: amount, .. } = &mut event {
        *amount = (*amount as f64 / speed) as u64;
    }
    event
}

impl Job {
    fn pod(&self) -> Option<PodSpec> {
        let maker = FILE.makers.get(&self.maker)?;
        let fill = |text: &str| {
            let text = text.replace("{job}", &self.name);
            text.replace("{index}", &self.index.to_string())
        };
        let name = fill(&maker.pod);
        let debug = (!self.silent).then_some(("NCCL_DEBUG", "INFO"));
        let env = debug.into_iter().chain([("PET_NNODES", "2")]);
        let env = env.map(|(name, value)| (name.to_string(), value.to_string()));
        let labels = maker.labels.iter();
        Some(PodSpec {
            namespace: self.namespace.clone(),
            uid: uid(self.uid_of.as_ref().unwrap_or(&name)),
            name,
            owner: (maker.kind.clone(), self.name.clone()),
            labels: labels
                .map(|(key, value)| (key.clone(), fill(value)))
                .collect(),
            env: env.chain(self.env.iter().cloned()).collect(),
            gpus: self.gang.ranks,
            rdma: Some((self.rdma.clone(), self.rdma_count)).filter(|(name, _)| !name.is_empty()),
        })
    }

    /// The pod starts, prints what its gang prints, then its own words from time to time.
    fn steps(&self) -> Vec<StepText> {
        let Some(pod) = self.pod() else {
            return Vec::new();
        };
        let once = |at: f64, event: Event| StepText {
            at: Some(at),
            events: vec![event],
            ..StepText::default()
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
            for (after, lines) in self.gang.output(&self.name, &pod.name, self.index) {
                steps.push(once(self.at + 0.5 + after, prints(lines)));
            }
        }
        if let Some(own) = &self.prints {
            let lines = own
                .lines
                .iter()
                .map(|line| line.replace("{pod}", &pod.name));
            steps.push(StepText {
                from: Some(own.from),
                every: Some(own.every),
                ..once(own.at, prints(lines.collect()))
            });
        }
        match self.until {
            Some(until) => steps.push(once(until, Event::PodEnds(pod.uid.clone()))),
            None if !self.gang.hangs && !self.silent => steps.push(StepText {
                from: Some(self.at + 5.0),
                every: Some(5.0),
                events: vec![prints(vec!["throughput 3021.7 tokens/s/GPU".into()])],
                ..StepText::default()
            }),
            None => {}
        }
        steps
    }
}

/// A UID that depends on a text alone (FNV-1a).
fn uid(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let (a, b) = (hash >> 32, hash & 0xffff_ffff);
    format!(
        "{a:08x}-{:04x}-4{:03x}-8{:03x}-{b:08x}{:04x}",
        b >> 16,
        b & 0xfff,
        a & 0xfff,
        a >> 16
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CHECKS;
    use crate::simulate::{Node, NodeSpec, preset};
    use std::collections::BTreeSet;

    fn first(step: &Step) -> Duration {
        match step.when {
            When::At(at) => at,
            When::Every { from, .. } => from,
        }
    }

    /// Applies each step once, in the order of time, and returns the node's state.
    fn performed(scenario: &Scenario) -> (NodeSpec, NodeSpec) {
        let dir = tempfile::tempdir().unwrap();
        let spec = preset(&scenario.preset).unwrap();
        let mut node = Node::write(spec.clone(), dir.path()).unwrap();
        let mut steps: Vec<&Step> = scenario.steps.iter().collect();
        steps.sort_by_key(|step| first(step));
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
        for scenario in fleet(15, 1.0) {
            performed(&scenario);
            assert!(!scenario.about.is_empty());
            if let Some(length) = scenario.length {
                assert!(scenario.steps.iter().all(|step| first(step) < length));
            }
        }
    }

    #[test]
    fn what_begins_again_ends_as_it_began() {
        let (was, is) = performed(&fleet(1, 1.0)[0]);
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
        let scenarios = fleet(64, 1.0);
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
        let of_checks = CHECKS.iter().flat_map(|check| check.reasons);
        let mut known: BTreeSet<&str> = of_checks.map(|doc| doc.reason).collect();
        known.insert("NoFabric");
        for scenario in fleet(12, 1.0) {
            for reason in &scenario.reasons {
                assert!(known.contains(reason.as_str()), "{reason}");
            }
        }
    }

    #[test]
    fn faster_is_sooner() {
        let (slow, fast) = (fleet(12, 1.0), fleet(12, 4.0));
        for (slow, fast) in slow.iter().zip(&fast) {
            for (one, other) in slow.steps.iter().zip(&fast.steps) {
                let wanted = first(one) / 4;
                assert!(first(other).abs_diff(wanted) < Duration::from_millis(1));
            }
        }
        assert_eq!(fast[11].leaves, Some(Duration::from_secs(15)));
    }
}
