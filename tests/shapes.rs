//! A machine of every known shape through the real binary: healthy, broken in one way each, and as
//! if its shape were not known. `tests/golden/shapes.txt` holds what comes of each;
//! `UPDATE_GOLDEN=1` writes it anew; read the diff.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

#[path = "shapes/front_end.rs"]
mod front_end;
#[path = "support/shapes.rs"]
mod machines;
#[path = "shapes/published.rs"]
mod published;
mod support;

use machines::{Machine, Said, link_down, nameless, never_there, with_two_more, without_driver};
use selvage::check::profile::{Certainty, Fabric, Shape, by_type};
use selvage::simulate::{NodeFiles, by_name, shape_names};
use std::fmt::Write;
use std::fs;

const GOLDEN: &str = "tests/golden/shapes.txt";

const HEAD: &str = "\
# Every known shape as a simulated machine, by the real binary: `selvage simulate TYPE DIR`, then
# `selvage check --host-root DIR --platform-profile TYPE`. UPDATE_GOLDEN=1 cargo test --test shapes
# writes it anew.
#
# set             the shape told (as the Node's label does): state, rails, ports that are none
# untold          the same without a label: how it is known by itself, and the state
# one gone        a rail's function never came up on the bus
# no driver       a rail's function is there, and no driver took it
# link down       a rail without a partner since boot
# two more        two rails more than the table says
# unknown         no table, label or DMI that tells: what is inferred
# unknown, - 1    the same and a rail gone: nothing can know it
";

/// One shape's part of the table, and what is wrong with it whatever the table holds.
struct Row<'a> {
    shape: &'a Shape,
    name: &'a str,
    machine: Machine,
    text: String,
    wrong: Vec<String>,
}

impl Row<'_> {
    fn tell(&mut self, what: &str, told: &str) {
        writeln!(self.text, "  {what:<15} {told}").unwrap();
    }

    fn hold(&mut self, is: bool, what: &str) {
        if !is {
            self.wrong.push(format!("{}: {what}", self.name));
        }
    }

    fn healthy(&mut self, spec: &NodeFiles) -> Said {
        let name = self.name;
        let base = self.machine.said(spec.clone(), Some(name));
        let fabric = self.shape.fabric != Fabric::None;
        self.tell(
            "set",
            &format!("{}; rails {}", base.outcome(), base.rails_and_rate()),
        );
        let others = match base.others.is_empty() {
            true => "none".to_string(),
            false => base.others.join(" "),
        };
        self.tell("", &format!("rails {}", in_short(&base.names())));
        self.tell("", &format!("other ports {others}"));
        let lacks = match base.lacks.as_str() {
            "" => "nothing",
            lacks => lacks,
        };
        self.tell("", &format!("GPUDirect {}; lacks {lacks}", base.gpudirect));
        self.tell("", &base.sentence);
        self.hold(
            base.rails.len() == self.shape.rails.0 as usize,
            "another number of rails than the table's",
        );
        self.hold(base.findings.is_empty(), "findings on a healthy machine");
        // What has no fabric is never ready by itself: gangs are placed by that word.
        let state = if fabric { "ready" } else { "none" };
        self.hold(base.state == state, "the healthy machine's state");
        self.hold(base.source == "set", "the setting does not decide");
        let gbps = u64::from(self.shape.gbps.0) * 1_000_000_000;
        let at_rate = |rate: Option<u64>| gbps == 0 || rate == Some(gbps);
        let all = base.rails.iter().all(|(_, _, rate)| at_rate(*rate));
        self.hold(all, "another rate than the table's");
        base
    }

    /// What the machine says of itself: EC2 and DGX by DMI, A3 by its NICs, else only whose it is.
    fn untold(&mut self, spec: &NodeFiles, base: &Said) {
        let untold = self.machine.judged(spec.clone(), None);
        let told = format!("{}, {}", untold.source, untold.outcome());
        self.tell("untold", &told);
        self.hold(untold.rails == base.rails, "other rails without the label");
        self.hold(
            // A large machine of a cloud may be of a size with a fabric.
            untold.state == base.state || (base.state == "none" && untold.state == "unknown"),
            "another state without the label",
        );
    }

    fn faults(&mut self, spec: &NodeFiles, base: &Said) {
        let name = Some(self.name);
        let (_, sure) = self.shape.rails;
        let at = base.rail_at(base.rails.len() / 2);

        let gone = self.machine.judged(never_there(spec.clone(), at), name);
        let told = format!("{}; rails {}", gone.outcome(), gone.rails_and_rate());
        self.tell("one gone", &told);
        self.hold(
            gone.rails.len() + 1 == base.rails.len(),
            "more than one gone",
        );
        self.hold(
            gone.state != "unready",
            "a table alone makes a node failing",
        );
        let (state, finding) = match sure {
            // There is no rail left that could prove anything.
            Certainty::No if base.rails.len() == 1 => ("unknown", ""),
            Certainty::AtMost if base.rails.len() == 1 => {
                ("unknown", "FewerDevicesThanPromised (notice)")
            }
            _ if base.rails.len() == 1 => ("unknown", "FewerDevicesThanPromised"),
            Certainty::Yes | Certainty::OnBus => ("degraded", "FewerDevicesThanPromised"),
            Certainty::AtMost => ("ready", "FewerDevicesThanPromised (notice)"),
            Certainty::No => ("ready", ""),
        };
        self.hold(gone.state == state, "state with a device gone");
        self.hold(
            gone.findings
                .iter()
                .eq([finding].iter().filter(|f| !f.is_empty())),
            "findings with a device gone",
        );

        let undriven = self.machine.judged(without_driver(spec.clone(), at), name);
        self.tell("no driver", &undriven.outcome());
        let named = undriven
            .reasons
            .iter()
            .any(|reason| reason == "RailWithoutDriver");
        self.hold(named, "a rail's driver is missing, and not named");

        if self.shape.fabric == Fabric::Efa {
            self.tell("link down", "EFA has no link state");
        } else {
            let down = self.machine.judged(link_down(spec.clone(), at), name);
            self.tell("link down", &down.outcome());
            let named = down.reasons.iter().any(|reason| reason == "LinkDown");
            self.hold(named || base.rails.len() == 1, "a link that is down");
            self.hold(down.state != "ready", "ready with a rail down");
        }

        let last = base.rail_at(base.rails.len() - 1);
        let more = self.machine.judged(with_two_more(spec.clone(), last), name);
        let told = format!("{}; rails {}", more.outcome(), more.rails_and_rate());
        self.tell("two more", &told);
        self.hold(
            more.rails.len() == self.shape.rails.0 as usize + 2,
            "two more rails are not rails",
        );
        self.hold(more.outcome() == "ready", "more than promised is a fault");
    }

    fn unknown(&mut self, spec: &NodeFiles, base: &Said) {
        let unknown = self.machine.said(nameless(spec.clone()), Some("none"));
        let told = unknown.outcome_and_sentence();
        self.tell("unknown", &told);
        self.hold(unknown.source == "inferred", "not inferred");
        self.hold(unknown.rails == base.rails, "other rails by inference");
        self.hold(unknown.others == base.others, "other ports by inference");
        self.hold(
            unknown.outcome() == base.outcome(),
            "inferred, and not as well",
        );
        if base.rails.is_empty() {
            return;
        }
        let at = base.rail_at(base.rails.len() / 2);
        let fewer = self
            .machine
            .said(never_there(nameless(spec.clone()), at), Some("none"));
        let told = fewer.outcome_and_sentence();
        self.tell("unknown, - 1", &told);
        self.hold(fewer.findings.is_empty(), "fewer than nobody promised");
        // Three gVNICs beside the node's own are no fabric, unless the shape is told.
        let too_few = self.shape.fabric == Fabric::Gvnic && base.rails.len() == 4;
        let state = if too_few {
            "unknown"
        } else if base.rails.len() == 1 {
            "none"
        } else {
            "ready"
        };
        self.hold(fewer.state == state, "an unknown machine of one rail less");
    }
}

/// The first and the last of many.
fn in_short(names: &[&str]) -> String {
    match names {
        [first, .., last] if names.len() > 16 => format!("{first} … {last}"),
        [] => "none".into(),
        _ => names.join(" "),
    }
}

fn row(name: &str) -> (String, Vec<String>) {
    let shape = by_type(name).unwrap();
    let spec = by_name(name).unwrap();
    let mut row = Row {
        shape,
        name,
        machine: Machine::new(spec.clone()),
        text: format!("\n{name} ({})\n", shape.name),
        wrong: Vec::new(),
    };
    let base = row.healthy(&spec);
    row.untold(&spec, &base);
    if !base.rails.is_empty() {
        row.faults(&spec, &base);
    }
    row.unknown(&spec, &base);
    (row.text, row.wrong)
}

#[test]
fn every_shape() {
    let names = shape_names();
    let (left, right) = names.split_at(names.len() / 2);
    let rows = |names: &[&str]| names.iter().map(|name| row(name)).collect::<Vec<_>>();
    let all = std::thread::scope(|scope| {
        let right = scope.spawn(|| rows(right));
        let mut all = rows(left);
        all.extend(right.join().unwrap());
        all
    });
    let mut got = HEAD.to_string();
    let mut wrong = Vec::new();
    for (text, of_row) in all {
        got += &text;
        wrong.extend(of_row);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(GOLDEN, &got).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let want = fs::read_to_string(GOLDEN).unwrap_or_default();
    let differs = want
        .lines()
        .zip(got.lines())
        .find(|(want, got)| want != got);
    assert!(
        want == got,
        "UPDATE_GOLDEN=1 cargo test --test shapes writes it anew: {differs:?}"
    );
}

/// As anybody would do it: by a type's name, in any case.
#[test]
fn simulate_takes_a_type() {
    for (name, rails) in [
        ("BM.GPU.B200.8", 8),
        ("dgxh100", 8),
        ("p6-b200.48xlarge", 8),
    ] {
        let dir = support::scratch();
        let simulate = |to: &str| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_selvage"));
            command.args(["simulate", name, to]).output().unwrap()
        };
        let output = simulate(dir.path().to_str().unwrap());
        assert!(output.status.success(), "{name}: {output:?}");
        let (code, json) = support::selvage(dir.path(), &["check", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (code, &report["platform"]["rails"]),
            (0, &rails.into()),
            "{name}"
        );
    }
    let list = std::process::Command::new(env!("CARGO_BIN_EXE_selvage"))
        .arg("simulate")
        .output()
        .unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    for name in shape_names() {
        let listed = list
            .lines()
            .any(|line| line.starts_with(&format!("{name} ")));
        assert!(listed, "{name} is not in the list");
    }
}
