//! Machines of known shapes, what can go wrong with them, and what selvage says of that.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use crate::support::{scratch, selvage};
use selvage::simulate::{Node, NodeFiles};
use selvage::units::Bdf;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tempfile::TempDir;

/// What a report says, as far as it is held here.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub code: i32,
    pub state: String,
    pub reasons: Vec<String>,
    /// `LinkDown`, or `FewerDevicesThanPromised (notice)`.
    pub findings: BTreeSet<String>,
    /// Name, PCI address and bits per second of each rail.
    pub rails: Vec<(String, Bdf, Option<u64>)>,
    /// Names of ports that are none.
    pub others: Vec<String>,
    pub source: String,
    pub fabric: String,
    pub gpudirect: String,
    pub lacks: String,
    /// The line `Platform:` of the text form.
    pub sentence: String,
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("none").to_string()
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(word).collect()
}

/// A directory that is one machine after another: of the next only what differs is written.
pub struct Machine {
    node: Node,
    _dir: TempDir,
}

impl Machine {
    pub fn new(spec: NodeFiles) -> Self {
        let dir = scratch();
        let node = Node::write(spec, dir.path()).expect("the machine is written");
        Machine { node, _dir: dir }
    }

    /// What the real binary says of it; `profile` is what the Node's label says in life. Without the text
    /// form, which takes a look of its own.
    pub fn judged(&mut self, spec: NodeFiles, profile: Option<&str>) -> Said {
        self.node.become_another(spec).expect("it is written");
        look(self.node.root(), profile, false)
    }

    /// The same with the text form's line on the platform.
    pub fn said(&mut self, spec: NodeFiles, profile: Option<&str>) -> Said {
        self.node.become_another(spec).expect("it is written");
        look(self.node.root(), profile, true)
    }
}

/// What is said of a machine whose tree is changed before it is judged.
pub fn judged_after(spec: NodeFiles, profile: Option<&str>, change: &dyn Fn(&Path)) -> Said {
    let machine = Machine::new(spec);
    change(machine.node.root());
    look(machine.node.root(), profile, false)
}

fn look(root: &Path, profile: Option<&str>, with_text: bool) -> Said {
    let flags = profile.map_or(Vec::new(), |name| vec!["--platform-profile", name]);
    let (code, json) = selvage(root, &[&["check", "-o", "json"], &flags[..]].concat());
    let mut sentence = String::new();
    if with_text {
        let (again, text) = selvage(root, &[&["check"], &flags[..]].concat());
        assert_eq!(code, again, "both forms come to one exit status");
        sentence = paragraph(&text, "Platform: ");
    }
    let report: Value = serde_json::from_str(&json).expect("JSON");
    let finding = |finding: &Value| match finding["weight"].as_str() {
        Some("verdict") => word(&finding["reason"]),
        Some(weight) => format!("{} ({weight})", word(&finding["reason"])),
        None => panic!("{finding}"),
    };
    let (rails, others) = ports(&report);
    Said {
        code,
        state: word(&report["state"]),
        reasons: words(&report["reasons"]),
        findings: report["findings"]
            .as_array()
            .expect("findings")
            .iter()
            .map(finding)
            .collect(),
        rails,
        others,
        source: word(&report["platform"]["source"]),
        fabric: word(&report["platform"]["fabric"]),
        gpudirect: word(&report["gpudirect"]["path"]),
        lacks: words(&report["platform"]["lacks"]).join(", "),
        sentence,
    }
}

type Rails = Vec<(String, Bdf, Option<u64>)>;

fn ports(report: &Value) -> (Rails, Vec<String>) {
    let (mut rails, mut others) = (Vec::new(), Vec::new());
    for port in report["ports"].as_array().expect("ports") {
        let name = word(&port["device"]);
        if port["rail"] == Value::Bool(true) {
            let at = word(&port["pci"]).parse().expect("a PCI address");
            rails.push((name, at, port["rate_bits_per_second"].as_u64()));
        } else {
            others.push(name);
        }
    }
    (rails, others)
}

/// A line that begins so, with those that it is wrapped into.
fn paragraph(text: &str, begin: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(begin));
    let first = lines.next().unwrap_or_default().trim_start_matches(begin);
    let more = lines.take_while(|line| line.starts_with("  "));
    more.fold(first.to_string(), |all, line| all + " " + line.trim())
}

impl Said {
    /// State, and what led there.
    pub fn outcome(&self) -> String {
        let mut found: Vec<String> = self.findings.iter().cloned().collect();
        let told = |reason: &&String| !found.iter().any(|finding| finding == *reason);
        let others: Vec<String> = self.reasons.iter().filter(told).cloned().collect();
        found.extend(others);
        if found.is_empty() {
            return self.state.clone();
        }
        format!("{}: {}", self.state, found.join(", "))
    }

    /// The same with the line on the platform, where there is one.
    pub fn outcome_and_sentence(&self) -> String {
        let parts = [self.outcome(), self.sentence.clone()];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// `8 at 400 Gb/s`.
    pub fn rails_and_rate(&self) -> String {
        let mut rates: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, _, rate) in &self.rails {
            *rates.entry(rate.unwrap_or(0) / 1_000_000_000).or_default() += 1;
        }
        match rates.len() {
            0 => "none".into(),
            _ => rates
                .iter()
                .map(|(rate, count)| format!("{count} at {rate} Gb/s"))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    pub fn names(&self) -> Vec<&str> {
        self.rails
            .iter()
            .map(|(name, _, _)| name.as_str())
            .collect()
    }

    pub fn rail_at(&self, n: usize) -> Bdf {
        self.rails[n].1
    }
}

/// The function never came up on the bus: nothing of it is there.
pub fn never_there(mut spec: NodeFiles, at: Bdf) -> NodeFiles {
    spec.pci.remove(&at.to_string());
    without_driver(spec, at)
}

/// The function is there, and no driver took it.
pub fn without_driver(mut spec: NodeFiles, at: Bdf) -> NodeFiles {
    spec.rdma.retain(|device| device.pci != at);
    spec.netdevs.retain(|netdev| netdev.pci != Some(at));
    if let Some(pci) = spec.pci.get_mut(&at.to_string()) {
        pci.driver = None;
    }
    spec
}

/// A link without a partner, from boot on.
pub fn link_down(mut spec: NodeFiles, at: Bdf) -> NodeFiles {
    for device in spec.rdma.iter_mut().filter(|device| device.pci == at) {
        for port in &mut device.ports {
            // IB without a partner polls; RoCE without carrier says Disabled.
            (port.state, port.phys) = (1, if port.link_layer == "Ethernet" { 3 } else { 2 });
        }
    }
    for netdev in spec
        .netdevs
        .iter_mut()
        .filter(|netdev| netdev.pci == Some(at))
    {
        netdev.carrier = false;
        netdev.carrier_changes += 1;
    }
    spec
}

/// Two rails more: the last one again, in other slots next to it.
pub fn with_two_more(mut spec: NodeFiles, last: Bdf) -> NodeFiles {
    for n in 1..=2 {
        let at = Bdf {
            device: last.device + 8 + n,
            ..last
        };
        let mut pci = spec.pci[&last.to_string()].clone();
        pci.bdf = at;
        spec.pci.insert(at.to_string(), pci);
        let mut netdevs = spec.netdevs.iter().filter(|one| one.pci == Some(last));
        let mut netdev = netdevs.next().cloned();
        if let Some(netdev) = &mut netdev {
            netdev.pci = Some(at);
            netdev.name += &format!("m{n}");
            netdev.ifindex = spec.netdevs.len() as u32 + 2;
        }
        let mut devices = spec.rdma.iter().filter(|device| device.pci == last);
        let mut device = devices.next().cloned();
        if let Some(device) = &mut device {
            device.pci = at;
            device.name += &format!("m{n}");
            device.uverbs = spec.rdma.len() as u32;
            device.guid += u64::from(n) << 32;
            device.image_guid += u64::from(n) << 32;
            let name = netdev.as_ref().map(|netdev| netdev.name.clone());
            for port in &mut device.ports {
                port.netdev = port.netdev.take().and(name.clone());
                for gid in &mut port.gids {
                    gid.netdev = gid.netdev.take().and(name.clone());
                }
            }
        }
        spec.netdevs.extend(netdev);
        spec.rdma.extend(device);
    }
    spec
}

/// Nothing tells whose machine this is, nor what.
pub fn nameless(mut spec: NodeFiles) -> NodeFiles {
    spec.dmi = ("Acme".into(), "Server".into());
    spec.asset_tag = None;
    spec
}
