//! Many agents, an API server, and any order of what each of them does. Patches and ledger writes
//! may arrive long after they were sent, and a node may have two agents (a pod that is replaced).

use super::super::*;
use proptest::prelude::*;

const NODES: usize = 6;
/// Two agents a node.
const AGENTS: usize = 2 * NODES;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    version: u64,
    tainted: bool,
}

/// A ledger write on its way: it succeeds on the version of the Lease that was read.
#[derive(Debug, Clone)]
struct LedgerWrite {
    read: u64,
    ledger: Ledger,
}

#[derive(Debug, Clone, Default)]
enum Phase {
    #[default]
    Idle,
    /// The ledger as read, at the Lease's version, and the group where it was listed since.
    Read(u64, Ledger, Option<ListedNodes>),
    /// Said that it counts.
    Counting(u64, Ledger),
}

#[derive(Debug, Clone, Default)]
struct Agent {
    view: Option<Seen>,
    phase: Phase,
    /// Giving back: read, and not written yet.
    release: Option<LedgerWrite>,
}

#[derive(Debug)]
struct World {
    revision: u64,
    seconds: i64,
    lease: u64,
    ledger: Ledger,
    nodes: Vec<Option<Seen>>,
    agents: Vec<Agent>,
    /// Taint patches on their way: node, version tested for.
    patches: Vec<(usize, u64)>,
    max: BudgetMax,
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl World {
    fn new(max: BudgetMax) -> Self {
        let mut world = World {
            revision: 8,
            seconds: 0,
            lease: 0,
            ledger: Ledger::default(),
            nodes: vec![None; NODES],
            agents: vec![Agent::default(); AGENTS],
            patches: Vec::new(),
            max,
        };
        for node in 0..NODES {
            world.write(node, false);
        }
        world
    }

    fn write(&mut self, node: usize, tainted: bool) {
        self.revision += 1;
        let version = self.revision;
        self.nodes[node] = Some(Seen { version, tainted });
    }

    fn write_ledger(&mut self, write: LedgerWrite) -> bool {
        let current = write.read == self.lease;
        if current {
            self.revision += 1;
            self.lease = self.revision;
            self.ledger = write.ledger;
        }
        current
    }

    fn now(&self) -> jiff::Timestamp {
        super::at(self.seconds)
    }

    fn group(&self) -> ListedNodes {
        let listed = |(node, seen): (usize, &Option<Seen>)| {
            let seen = (*seen)?;
            let listed = Listed {
                resource_version: seen.version.to_string(),
                tainted: seen.tainted,
                counted: true,
            };
            Some((name(node), listed))
        };
        self.nodes.iter().enumerate().filter_map(listed).collect()
    }

    /// The next step of asking. Whether room was granted.
    fn ask(&mut self, agent: usize, crashes: bool) -> bool {
        let node = agent % NODES;
        let Some(view) = self.agents[agent].view.filter(|view| !view.tainted) else {
            self.agents[agent].phase = Phase::Idle;
            return false;
        };
        let (read, ledger, listed) = match std::mem::take(&mut self.agents[agent].phase) {
            Phase::Idle => {
                self.agents[agent].phase = Phase::Read(self.lease, self.ledger.clone(), None);
                return false;
            }
            Phase::Counting(read, ledger) => {
                self.agents[agent].phase = Phase::Read(read, ledger, Some(self.group()));
                return false;
            }
            Phase::Read(read, ledger, listed) => (read, ledger, listed),
        };
        let (node_name, version) = (name(node), view.version.to_string());
        let asker = Asker {
            node: &node_name,
            resource_version: &version,
            max: self.max,
            in_group: true,
            now: self.now(),
        };
        let granted = match ledger.ask(asker, listed.as_ref()) {
            BudgetStep::Go => true,
            BudgetStep::ClaimThenGo(ledger) => self.write_ledger(LedgerWrite { read, ledger }),
            BudgetStep::Count(ledger) => {
                let said = LedgerWrite {
                    read,
                    ledger: ledger.clone(),
                };
                if self.write_ledger(said) {
                    self.agents[agent].phase = Phase::Counting(self.lease, ledger);
                }
                false
            }
            BudgetStep::Withhold(_, Some(ledger)) => {
                self.write_ledger(LedgerWrite { read, ledger });
                false
            }
            BudgetStep::Stale => {
                self.agents[agent].view = self.nodes[node];
                false
            }
            BudgetStep::Withhold(_, None) | BudgetStep::Wait => false,
        };
        if granted && !crashes {
            self.patches.push((node, view.version));
        }
        granted
    }

    fn step(&mut self, what: u8, who: usize) {
        let node = who % NODES;
        match what {
            // Asking is what there is most of.
            0..=5 => {
                self.ask(who, false);
            }
            6 => {
                self.ask(who, true);
                self.agents[who] = Agent {
                    view: self.nodes[node],
                    ..Agent::default()
                };
            }
            // A patch arrives, in any order; or never.
            7..=9 if !self.patches.is_empty() => {
                let (node, version) = self.patches.remove(who % self.patches.len());
                let fits = |seen: &Seen| seen.version == version && !seen.tainted;
                if self.nodes[node].as_ref().is_some_and(fits) {
                    self.write(node, true);
                }
            }
            10 if !self.patches.is_empty() => {
                self.patches.remove(who % self.patches.len());
            }
            // The watch catches up.
            11..=13 => self.agents[who].view = self.nodes[node],
            // The kubelet writes; the taint goes, by the agent or by hand.
            14 | 15 => {
                if let Some(seen) = self.nodes[node] {
                    self.write(node, what == 14 && seen.tainted);
                }
            }
            // Giving back, in two steps.
            16 => {
                let view = self.agents[who].view.filter(|view| !view.tainted);
                self.agents[who].release = view.and_then(|view| {
                    let ledger = self
                        .ledger
                        .released(&name(node), &view.version.to_string())?;
                    Some(LedgerWrite {
                        read: self.lease,
                        ledger,
                    })
                });
            }
            17 => {
                if let Some(write) = self.agents[who].release.take() {
                    self.write_ledger(write);
                }
            }
            18 if who < 2 => self.nodes[node] = None,
            19 if self.nodes[node].is_none() => self.write(node, false),
            20 => self.seconds += i64::try_from(who).unwrap() * 20,
            _ => {}
        }
    }

    fn tainted(&self) -> Vec<String> {
        let is = |seen: &Option<Seen>| seen.is_some_and(|seen| seen.tainted);
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(_, seen)| is(seen))
            .map(|(node, _)| name(node))
            .collect()
    }
}

fn budgets() -> impl Strategy<Value = BudgetMax> {
    prop_oneof![
        (0u32..4).prop_map(BudgetMax::Nodes),
        (1u32..60).prop_map(BudgetMax::Percent),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_bound_holds_at_every_instant_and_room_is_found(
        max in budgets(),
        steps in proptest::collection::vec((0u8..21, 0..AGENTS), 0..400),
    ) {
        let mut world = World::new(max);
        let most = max.of(NODES);
        for (what, who) in steps {
            world.step(what, who);
            let tainted = world.tainted();
            for node in &tainted {
                prop_assert!(world.ledger.claims.contains_key(node), "{node} without entry after {:?}", (what, who));
            }
            prop_assert!(world.ledger.claims.len() <= most, "{:?}", world.ledger);
        }
        // Every agent was killed, nothing is on its way, every object moved on.
        world.patches.clear();
        for node in 0..NODES {
            let tainted = world.nodes[node].is_some_and(|seen| seen.tainted);
            world.write(node, tainted);
        }
        for agent in 0..AGENTS {
            world.agents[agent] = Agent { view: world.nodes[agent % NODES], ..Agent::default() };
        }
        world.seconds += i64::try_from(SWEEP_EVERY.as_secs()).unwrap();
        let tainted = world.tainted();
        let limit = max.of(world.group().len());
        let free = (0..NODES).find(|node| world.nodes[*node].is_some() && !tainted.contains(&name(*node)));
        if let Some(node) = free.filter(|_| tainted.len() < limit) {
            // Read, count, list, claim.
            let granted = (0..4).any(|_| world.ask(node, false));
            prop_assert!(granted, "no room next to {tainted:?}: {:?}", world.ledger);
        }
    }
}
