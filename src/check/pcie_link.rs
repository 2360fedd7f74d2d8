//! PCIe links of rails and GPUs.

use super::expected::{PAST_AND_PEERS, RailAttribute, RailValues, row};
use super::policy::Limit;
use super::roles::pcie_affinity::upwards;
use super::{Candidate, Context, PortView, Reason, Weight, debounce::WHOLE_NODE, unseen_on_rails};
use crate::observe::{Function, Note, PciFacts, PciFunction, PcieLink, Reading};
use crate::units::span_text;
use std::collections::BTreeMap;

check!(pcie_link, run);

const ERRORS: Reason = "PcieErrors";

/// What the slowest PCIe link between a NIC and the CPU carries, in bit/s.
pub const PATH: RailAttribute = RailAttribute {
    // A link a generation or half its lanes down carries half.
    enough: |_| 0.75,
    text: |rate| format!("{} Gb/s", rate / 1_000_000_000),
    value: |rate| (rate / 1_000_000_000).into(),
    verb: "has a PCIe path of",
    evidence: "pcie_gbps",
    ..row(
        "pcie",
        |context, port| path(context, port).map(|(rate, _)| rate),
        &[(PAST_AND_PEERS, "PciePathTooSlow")],
    )
};

/// Bandwidth of the path and where it is least. Nothing in guests, where bridges are emulated, of functions
/// that show no link of their own, and of ports that are down: no rate is known that it must carry.
fn path<'a>(context: &Context<'a>, port: &PortView<'_>) -> Option<(u64, &'a str)> {
    let pci = context.pci().filter(|pci| !pci.virtual_machine)?;
    let whole = port.device.function == Function::Physical;
    let address = port.address().filter(|_| whole && port.is_active())?;
    let mut least: Option<(u64, &str)> = None;
    for (name, function) in upwards(pci, edge(pci, &address)) {
        let rate = match &function.current {
            Reading::Value(link) => carries(link),
            // Above, what has no link of its own is inside the CPU or a card.
            Reading::Absent if least.is_some() => None,
            _ => return None,
        };
        let rate = rate.map(|rate| (rate, name.as_str()));
        let known = least.into_iter().chain(rate);
        least = known.min_by_key(|(rate, _)| *rate);
    }
    least
}

/// Ports of the switch on a NIC: BlueField-3's, ConnectX's.
const OWN_SWITCH: [&str; 3] = ["15b3:197b", "15b3:197c", "15b3:1979"];

/// The function of a NIC whose link leaves the card: its own, or the upper port of the NIC's own switch.
/// Links inside a card say nothing about its slot.
fn edge<'a>(pci: &'a PciFacts, address: &'a str) -> &'a str {
    let is_inside = |(_, above): &(_, &PciFunction)| OWN_SWITCH.contains(&above.id.as_str());
    // A switch has two ports on the way.
    let above = upwards(pci, address).skip(1).take(2);
    let outer = above.take_while(is_inside).last();
    outer.map_or(address, |(at, _)| at)
}

/// Usable bit/s of a link: 8b/10b at 2.5 and 5 GT/s, 128b/130b up to 32, flits above
/// (PCIE_SPEED2MBS_ENC in drivers/pci/pci.h).
fn carries(link: &PcieLink) -> Option<u64> {
    let lanes = u64::from(link.width).checked_mul(u64::from(link.megatransfers) * 1_000_000)?;
    let usable = match link.megatransfers {
        0 => return None,
        1..8_000 => lanes / 10 * 8,
        8_000..64_000 => lanes / 130 * 128,
        _ => lanes,
    };
    (link.width > 0 && link.width < 63).then_some(usable)
}

fn slow_path(paths: &RailValues<'_, '_>, rail: &PortView<'_>) -> Option<Candidate> {
    let context = paths.context;
    let narrowest = path(context, rail);
    if let Some(mut found) = paths.judge(rail) {
        if let Some((_, at)) = &narrowest {
            found.message += &format!("; least at {at}");
            found = found.with("at", *at);
        }
        return Some(found);
    }
    let (carried, at) = narrowest?;
    let rate = needed(rail, rail.judged_rate()?.0);
    // Headers take their part, so a path that equals the port is tight and still a design.
    if carried as f64 >= rate as f64 * 0.9 {
        return None;
    }
    // A second function of the same NIC elsewhere carries its part (Socket Direct, multi-host).
    let shared = context.ports().iter().any(|other| {
        let card = other.device.sys_image_guid.is_some()
            && other.device.sys_image_guid == rail.device.sys_image_guid;
        let slot = |port: &PortView<'_>| port.device.pci.map(|pci| pci.slot());
        card && slot(other) != slot(rail)
    });
    (!shared).then(|| {
        let (carried, rate) = ((PATH.text)(carried), (PATH.text)(rate));
        let message = format!(
            "{} has a PCIe path of {carried} (least at {at}), and its port needs {rate}",
            rail.subject
        );
        (context.of_port("PciePathTooSlow", rail, message))
            .with("pcie_gbps", carried)
            .with("port_gbps", rate)
            .with("at", at)
    })
}

/// Usable bit/s of a Gen5 x16 link.
const GEN5_X16: u64 = 504_123_076_923;

/// What the path to the CPU should carry for a port of this rate. From ConnectX-8 on the way to the
/// GPUs is another one, inside the card's own switch (HGX B300) or by its Data Direct function
/// (GB300), and the one to the CPU is Gen5 x16 by design.
fn needed(rail: &PortView<'_>, rate: u64) -> u64 {
    let second_way = ["15b3:1023", "15b3:1025", "15b3:1027", "15b3:2101"];
    match rail.device.pci_id.as_deref() {
        Some(id) if second_way.contains(&id) => rate.min(GEN5_X16),
        _ => rate,
    }
}

/// A function that is judged.
struct Endpoint {
    subject: String,
    /// In messages.
    name: String,
    weight: Weight,
    gpu: bool,
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let Some(pci) = context.pci() else {
        if context.snapshot.pci.is_none() {
            return vec![context.unread(WHOLE_NODE)];
        }
        // An empty key stands for every key of the check, so that no finding is cleared.
        let message = "the last read of the PCI bus is too old";
        return vec![context.candidate("PciUnreadable", (WHOLE_NODE, "pci"), message)];
    };
    let mut found = Vec::new();
    for (address, endpoint) in endpoints(context) {
        let outer = match endpoint.gpu {
            true => &address,
            false => edge(pci, &address),
        };
        let mut upwards = upwards(pci, outer).map(|(_, function)| function);
        let Some(function) = upwards.next() else {
            continue;
        };
        let link = judge_link(context, &endpoint, function, upwards.next());
        let link = link.filter(|_| !pci.virtual_machine);
        let errors = judge_errors(context, (pci, &address), &endpoint);
        let unread = function.current.value().is_none() || function.max.value().is_none();
        if unread {
            let docs = ["PcieWidthReduced", "PcieSpeedReduced"];
            found.extend(docs.map(|doc| context.unseen(doc, address.as_str())));
        }
        found.extend(link.into_iter().chain(errors).map(|mut of| {
            of.key = format!("{address}{}", of.key);
            of.weight = of.weight.min(endpoint.weight);
            of.with("address", address.as_str())
        }));
    }
    // A link below what its ends can is the better word for a slow path.
    let told = |address: &String| found.iter().any(|of| !of.unseen && of.key == *address);
    let rails = (context.rails()).filter(|rail| !rail.address().as_ref().is_some_and(told));
    let paths = PATH.of_rails(context);
    let slow = rails.filter_map(|rail| slow_path(&paths, rail));
    found.extend(slow.collect::<Vec<_>>());
    let unread = |rail: &PortView<'_>| rail.may_be_linked() && path(context, rail).is_none();
    found.extend(unseen_on_rails(context, &["PciePathTooSlow"], unread));
    found
}

fn endpoints(context: &Context<'_>) -> BTreeMap<String, Endpoint> {
    let mut endpoints: BTreeMap<String, Endpoint> = BTreeMap::new();
    for port in context.ports() {
        let Some(address) = port.address() else {
            continue;
        };
        let endpoint = Endpoint {
            subject: port.device.name.clone(),
            name: port.device.name.clone(),
            weight: port.weight(),
            gpu: false,
        };
        // Several devices of one function: a rail stands for it.
        let known = endpoints.get(&address);
        if known.is_none_or(|known| known.weight < endpoint.weight) {
            endpoints.insert(address, endpoint);
        }
    }
    endpoints.extend(context.gpus().into_iter().map(|gpu| {
        let endpoint = Endpoint {
            subject: gpu.clone(),
            name: context.gpu_name(&gpu),
            weight: Weight::Verdict,
            gpu: true,
        };
        (gpu, endpoint)
    }));
    endpoints
}

fn judge_link(
    context: &Context<'_>,
    endpoint: &Endpoint,
    function: &PciFunction,
    parent: Option<&PciFunction>,
) -> Option<Candidate> {
    let now = function.current.value().filter(|link| link.width > 0)?;
    let own = function.max.value()?;
    let above = parent.and_then(|parent| parent.max.value()).unwrap_or(own);
    let best = PcieLink {
        megatransfers: own.megatransfers.min(above.megatransfers),
        width: own.width.min(above.width),
    };
    // 255 stands for "not known" in the capability register.
    let narrow = best.width < 255 && now.width < best.width;
    let slow = !endpoint.gpu && (1..best.megatransfers).contains(&now.megatransfers);
    let doc = match (narrow, slow) {
        (true, _) => "PcieWidthReduced",
        (false, true) => "PcieSpeedReduced",
        (false, false) => return None,
    };
    let (name, now, best) = (&endpoint.name, text(now), text(&best));
    let message = format!("{name}: its PCIe link runs at {now}; it and its slot can do {best}");
    let found = context.candidate(doc, ("", &endpoint.subject), message);
    Some(found.with("link", now).with("can_do", best))
}

/// `16 GT/s x16`.
fn text(link: &PcieLink) -> String {
    let gigatransfers = f64::from(link.megatransfers) / 1000.0;
    format!("{gigatransfers} GT/s x{}", link.width)
}

fn judge_errors(
    context: &Context<'_>,
    (pci, address): (&PciFacts, &str),
    endpoint: &Endpoint,
) -> Option<Candidate> {
    let policy = &context.policy.pcie_link;
    let path = || upwards(pci, address).map(|(at, _)| at.as_str());
    // Errors of a link are often counted at its upper end.
    let ends = || path().take(2);
    let subject = &endpoint.subject;
    let counted = |reason: Reason, severity: &str, limit: Limit| {
        let (at, rise) = ends().find_map(|at| {
            let track = context.history.aer.get(at)?.get(severity);
            Some((at, context.above(track, limit)?))
        })?;
        let (by, span) = (rise.by, span_text(limit.within.0.min(rise.over)));
        let name = &endpoint.name;
        let message = format!("{name}: {by} {severity} PCIe errors (AER) at {at} within {span}");
        let found = context.candidate(reason, (" aer", subject), message);
        let found = found.with("severity", severity).with("counted_at", at);
        Some(found.with("increase", by))
    };
    // The kernel log names uncorrected ones, too: the counters of an earlier boot, of a driver that was
    // reloaded, or of a port that was reset begin at zero again. A bridge's fatal ones cut off all that is below.
    let logged = || {
        let devices = &context.history.kernel.devices;
        let said = |at, note| Some((at, devices.get(at)?.notes.get(&note)?));
        let fatal = path().filter_map(|at| said(at, Note::AerFatal));
        let others = ends().filter_map(|at| said(at, Note::AerUncorrected));
        let (at, seen) = fatal.chain(others).max_by_key(|(_, seen)| seen.last)?;
        (context.now.since(seen.last) <= policy.fatal.within.0).then(|| {
            let message = format!("{}: {}", endpoint.name, seen.text);
            let found = context.candidate(ERRORS, (" aer", subject), message);
            found.with("reported_at", at).with("count", seen.count)
        })
    };
    counted(ERRORS, "fatal", policy.fatal)
        .or_else(|| counted(ERRORS, "nonfatal", policy.nonfatal))
        .or_else(logged)
        .or_else(|| counted("PcieCorrectedErrors", "correctable", policy.correctable))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, gpu, nic};
    use super::*;
    use crate::check::Status;
    use crate::check::roles::Role;
    use crate::units::{Bdf, Millis};

    fn link(gigatransfers: u32, width: u32) -> Reading<PcieLink> {
        Reading::Value(PcieLink {
            megatransfers: gigatransfers * 1000,
            width,
        })
    }

    #[test]
    fn links() {
        let rail = nic(0);
        let gpu = gpu(0);
        for (address, now, want) in [
            (&rail, link(32, 16), None),
            (
                &rail,
                link(32, 8),
                Some("mlx5_0 PcieWidthReduced Degraded Verdict"),
            ),
            (
                &rail,
                link(16, 16),
                Some("mlx5_0 PcieSpeedReduced Degraded Verdict"),
            ),
            (&rail, link(16, 0), None),
            (&rail, Reading::NotObservable, None),
            // Saving power.
            (&gpu, link(2, 16), None),
            (
                &gpu,
                link(32, 4),
                Some("0000:80:00.0 PcieWidthReduced Degraded Verdict"),
            ),
        ] {
            let mut node = Node::infiniband();
            node.bend_pci(address, |function| function.current = now.clone());
            let got = node.told(&CHECK);
            assert_eq!(got.first().map(String::as_str), want, "{address} {now:?}");
        }
    }

    #[test]
    fn a_lesser_slot_a_guest_and_another_nic() {
        let mut node = Node::infiniband();
        node.bend_pci(&nic(0), |f| {
            f.current = link(16, 8);
            f.parent = Some("0000:17:01.0".into());
        });
        node.bend_pci("0000:17:01.0", |f| f.max = link(16, 8));
        let slow = "mlx5_0/1 PciePathTooSlow Degraded Verdict";
        assert_eq!(
            node.told(&CHECK),
            [slow],
            "both ends agree, and the port is faster"
        );

        node.bend_pci(&nic(1), |f| f.current = link(32, 4));
        node.set_role(1, Role::Other);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_1 PcieWidthReduced Degraded Notice", slow]
        );
        let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
        pci.virtual_machine = true;
        node.set_pci(pci);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }

    #[test]
    fn a_card_in_two_slots_shares_its_load() {
        let mut node = Node::infiniband();
        for i in 0..8 {
            node.set_link(i, crate::check::testing::link(800, 4));
        }
        node.tick(1);
        let slow = |node: &Node| node.told(&CHECK).len();
        assert_eq!(slow(&node), 8, "800 Gbit/s by PCIe 5.0 x16");
        for i in 0..2 {
            node.devices[i].sys_image_guid = Some("b83f:d203:00f1:a2c0".into());
        }
        node.tick(1);
        assert_eq!(slow(&node), 6);
        // A second function in the same slot carries nothing.
        let own = node.devices[0].pci.unwrap();
        node.devices[1].pci = Some(Bdf { function: 1, ..own });
        node.tick(1);
        let told = node.told(&CHECK);
        assert!(told[0].starts_with("mlx5_0/1 PciePathTooSlow"), "{told:?}");
    }

    #[test]
    fn links_inside_a_card_are_no_slots() {
        let (lower, upper) = ("0000:17:02.0", "0000:17:01.0");
        for (at, id, want) in [
            (nic(0).as_str(), "15b3:197b", None),
            (lower, "15b3:197b", None),
            (
                upper,
                "15b3:197b",
                Some("mlx5_0 PcieSpeedReduced Degraded Verdict"),
            ),
            // A switch on the board.
            (
                lower,
                "1000:c030",
                Some("mlx5_0/1 PciePathTooSlow Degraded Verdict"),
            ),
        ] {
            let mut node = Node::infiniband();
            node.bend_pci(&nic(0), |f| f.parent = Some(lower.into()));
            for (port, parent) in [(lower, Some(upper)), (upper, None)] {
                node.bend_pci(port, |f| {
                    (f.id, f.parent) = (id.into(), parent.map(Into::into));
                    (f.current, f.max) = (link(32, 16), link(32, 16));
                });
            }
            node.bend_pci(at, |f| f.current = link(8, 16));
            let told = node.told(&CHECK);
            assert_eq!(told.first().map(String::as_str), want, "{at} {id}");
        }
    }

    #[test]
    fn from_connectx_8_on_the_path_to_the_cpu_is_gen5_by_design() {
        for (id, gigatransfers, want) in [
            ("15b3:1023", 32, None),
            ("15b3:1025", 32, None),
            ("15b3:1023", 16, Some("PciePathTooSlow")),
            ("15b3:1021", 32, Some("PciePathTooSlow")),
        ] {
            let mut node = Node::infiniband();
            for i in 0..8 {
                node.devices[i].pci_id = Some(id.into());
                node.set_link(i, crate::check::testing::link(800, 4));
                node.bend_pci(&nic(i), |f| {
                    (f.current, f.max) = (link(gigatransfers, 16), link(gigatransfers, 16));
                });
            }
            node.tick(1);
            let got = node.run(&CHECK).first().map(|found| found.reason);
            assert_eq!(got, want, "{id} {gigatransfers}");
        }
    }

    #[test]
    fn errors_count_from_the_first_look_on_and_at_either_end() {
        let mut node = Node::infiniband();
        let port = "0000:17:01.0";
        node.bend_pci(&nic(0), |f| f.parent = Some(port.into()));
        node.bend_pci(port, |f| {
            f.aer.insert("nonfatal", 40);
        });
        node.bend_pci(&gpu(1), |f| {
            f.aer.insert("correctable", 0);
        });
        node.tick(60);
        assert_eq!(node.told(&CHECK), Vec::<String>::new(), "baseline");
        node.bend_pci(port, |f| {
            f.aer.insert("nonfatal", 41);
        });
        node.bend_pci(&gpu(1), |f| {
            f.aer.insert("correctable", 5000);
        });
        node.tick(60);
        assert_eq!(
            node.told(&CHECK),
            [
                "mlx5_0 PcieErrors Degraded Verdict",
                "0000:81:00.0 PcieCorrectedErrors Degraded Notice"
            ]
        );
        assert_eq!(node.run(&CHECK)[0].evidence["counted_at"], port);
        // A restart of the agent forgets none.
        node.history = crate::observe::History::restore(node.history.memory());
        node.tick(60);
        assert_eq!(node.told(&CHECK).len(), 2);
    }

    #[test]
    fn errors_that_a_bridge_further_up_logs_cut_off_the_rail() {
        let (root, switch) = ("0000:15:01.0", "0000:16:00.0");
        let mut node = Node::infiniband();
        node.bend_pci(&nic(0), |f| f.parent = Some(switch.into()));
        node.bend_pci(switch, |f| f.parent = Some(root.into()));
        node.bend_pci(root, |_| ());
        for (words, cuts_off) in [
            (
                "PCIe Bus Error: severity=Uncorrectable (Non-Fatal), x",
                false,
            ),
            ("DPC: containment event, status:0x1f01", true),
            (
                "PCIe Bus Error: severity=Uncorrectable (Non-Fatal), x",
                true,
            ),
        ] {
            let event =
                crate::source::kernel_log::decode(&format!("pcieport {root}: {words}"), None);
            node.history.push_event(node.now, false, &event.unwrap());
            let found = node.run(&CHECK);
            let told = found
                .first()
                .map(|of| (of.reason, &of.evidence["reported_at"]));
            assert_eq!(
                told,
                cuts_off.then_some(("PcieErrors", &root.into())),
                "{words}"
            );
        }
    }

    #[test]
    fn blind_speaks_for_every_link() {
        let mut node = Node::infiniband();
        node.set_stalled("pci", "", node.now);
        node.now = Millis::from_secs(1000);
        let found = node.run(&CHECK);
        assert_eq!(
            (found[0].key.as_str(), found[0].status),
            ("", Status::Unknown)
        );
    }
}
