//! PCIe links of rails and GPUs.

use super::context::span_text;
use super::debounce::WHOLE_NODE;
use super::policy::Limit;
use super::{Candidate, Check, Context, ReasonDoc, Status, Weight};
use crate::observe::history::AerTracks;
use crate::observe::pci::{PciFacts, PciFunction, PcieLink};
use crate::observe::track::Track;
use std::collections::BTreeMap;

const ID: &str = "pcie_link";

const SEAT: &str =
    "Reseat the card or riser; if it stays so, try another slot and have card and board examined.";

const WIDTH: ReasonDoc = ReasonDoc {
    reason: "PcieWidthReduced",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A rail or GPU runs on fewer PCIe lanes than it and its slot have.",
    remedy: SEAT,
};
const SPEED: ReasonDoc = ReasonDoc {
    reason: "PcieSpeedReduced",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A rail's NIC runs at a lower PCIe speed than it and its slot can.",
    remedy: SEAT,
};
const ERRORS: ReasonDoc = ReasonDoc {
    reason: "PcieErrors",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A rail, a GPU, or the port above it counts PCIe errors (AER) that were not corrected.",
    remedy: "Look at `dmesg | grep AER` for the kind; reseat the card or riser, and update its firmware.",
};
const CORRECTED: ReasonDoc = ReasonDoc {
    reason: "PcieCorrectedErrors",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "A PCIe link corrects errors all the time, which costs bandwidth and often comes before worse.",
    remedy: "Reseat the card or riser at the next chance.",
};
const UNREADABLE: ReasonDoc = ReasonDoc {
    reason: "PciUnreadable",
    status: Status::Unknown,
    weight: Weight::Notice,
    meaning: "PCI facts can no longer be read; what was known of PCIe links is kept.",
    remedy: "Look at what source_health tells of the source `pci`.",
};

/// The row in the table.
pub const CHECK: Check = Check {
    id: ID,
    title: "PCIe link",
    what: "Width and speed of the PCIe links of rails and GPUs against the lesser of what the device and the port above it can, and AER errors of both. A GPU lowers its speed when idle, so only its width is judged. What is not observable (virtual functions, guests) is left alone.",
    reasons: &[WIDTH, SPEED, ERRORS, CORRECTED, UNREADABLE],
    run,
};

/// A function that is judged.
struct Endpoint {
    subject: String,
    weight: Weight,
    gpu: bool,
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let timing = context.policy.pcie_link.timing();
    let Some(pci) = context.pci() else {
        return context
            .snapshot
            .pci
            .is_some()
            .then(|| {
                // An empty key stands for every key of the check: what stands, stands.
                UNREADABLE.candidate(
                    ID,
                    (WHOLE_NODE, "pci"),
                    timing,
                    "PCI facts are too old to go by",
                )
            })
            .into_iter()
            .collect();
    };
    let mut found = Vec::new();
    for (address, endpoint) in endpoints(context, pci) {
        let Some(function) = pci.functions.get(&address) else {
            continue;
        };
        let parent = function
            .parent
            .as_ref()
            .and_then(|parent| pci.functions.get(parent));
        let mut candidates = Vec::new();
        if !pci.virtual_machine {
            candidates.extend(judge_link(context, &address, &endpoint, function, parent));
        }
        candidates.extend(judge_errors(
            context,
            &address,
            &endpoint,
            function.parent.as_deref(),
        ));
        for mut candidate in candidates {
            candidate.weight = candidate.weight.min(endpoint.weight);
            found.push(candidate.with("address", address.as_str()));
        }
    }
    found
}

fn endpoints(context: &Context<'_>, pci: &PciFacts) -> BTreeMap<String, Endpoint> {
    let mut endpoints: BTreeMap<String, Endpoint> = BTreeMap::new();
    for port in context.ports() {
        let Some(address) = port.device.pci.map(|pci| pci.to_string()) else {
            continue;
        };
        let endpoint = Endpoint {
            subject: port.device.name.clone(),
            weight: port.weight(),
            gpu: false,
        };
        match endpoints.get(&address) {
            Some(other) if other.weight >= endpoint.weight => {}
            _ => {
                endpoints.insert(address, endpoint);
            }
        }
    }
    for gpu in &pci.gpus {
        endpoints.insert(
            gpu.to_string(),
            Endpoint {
                subject: gpu.to_string(),
                weight: Weight::Verdict,
                gpu: true,
            },
        );
    }
    endpoints
}

fn judge_link(
    context: &Context<'_>,
    address: &str,
    endpoint: &Endpoint,
    function: &PciFunction,
    parent: Option<&PciFunction>,
) -> Option<Candidate> {
    let now = function.current.value().filter(|link| link.width > 0)?;
    let own = function.max.value()?;
    let above = parent.and_then(|parent| parent.max.value());
    let width = above.map_or(own.width, |above| own.width.min(above.width));
    let speed = above.map_or(own.megatransfers, |above| {
        own.megatransfers.min(above.megatransfers)
    });
    // 255 stands for "not known" in the capability register.
    let narrow = width < 255 && now.width < width;
    let slow = !endpoint.gpu && now.megatransfers > 0 && now.megatransfers < speed;
    let doc = match (narrow, slow) {
        (true, _) => WIDTH,
        (false, true) => SPEED,
        (false, false) => return None,
    };
    let best = PcieLink {
        megatransfers: speed,
        width,
    };
    Some(
        doc.candidate(
            ID,
            (address, endpoint.subject.clone()),
            context.policy.pcie_link.timing(),
            format!(
                "{}: its PCIe link runs at {}; it and its slot can do {}",
                endpoint.subject,
                text(now),
                text(&best)
            ),
        )
        .with("link", text(now))
        .with("can_do", text(&best)),
    )
}

/// `16 GT/s x16`.
fn text(link: &PcieLink) -> String {
    format!(
        "{} GT/s x{}",
        f64::from(link.megatransfers) / 1000.0,
        link.width
    )
}

fn judge_errors(
    context: &Context<'_>,
    address: &str,
    endpoint: &Endpoint,
    parent: Option<&str>,
) -> Option<Candidate> {
    let policy = &context.policy.pcie_link;
    type Pick = fn(&AerTracks) -> Option<&Track>;
    let rules: [(&str, Pick, Limit, ReasonDoc); 3] = [
        ("fatal", |aer| aer.fatal.as_ref(), policy.fatal, ERRORS),
        (
            "nonfatal",
            |aer| aer.nonfatal.as_ref(),
            policy.nonfatal,
            ERRORS,
        ),
        (
            "correctable",
            |aer| aer.correctable.as_ref(),
            policy.correctable,
            CORRECTED,
        ),
    ];
    for (severity, pick, limit, doc) in rules {
        // Errors of a link are often counted at its upper end.
        for at in [Some(address), parent].into_iter().flatten() {
            let track = context.history.aer.get(at).and_then(pick);
            let Some(increase) = context.above(track, limit) else {
                continue;
            };
            return Some(
                doc.candidate(
                    ID,
                    (format!("{address} aer"), endpoint.subject.clone()),
                    policy.timing(),
                    format!(
                        "{}: {} {severity} PCIe errors (AER) at {at} within {}",
                        endpoint.subject,
                        increase.by,
                        span_text(limit.within.0.min(increase.over))
                    ),
                )
                .with("severity", severity)
                .with("counted_at", at)
                .with("increase", increase.by),
            );
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, gpu, nic};
    use super::*;
    use crate::check::roles::Role;
    use crate::observe::reading::Reading;
    use crate::units::Millis;

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
        assert_eq!(node.told(&CHECK), Vec::<String>::new());

        node.bend_pci(&nic(1), |f| f.current = link(32, 4));
        node.set_role(1, Role::Other);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_1 PcieWidthReduced Degraded Notice"]
        );
        let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
        pci.virtual_machine = true;
        node.set_pci(pci);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }

    #[test]
    fn errors_count_from_the_first_look_on_and_at_either_end() {
        let mut node = Node::infiniband();
        let port = "0000:17:01.0";
        node.bend_pci(&nic(0), |f| f.parent = Some(port.into()));
        node.bend_pci(port, |f| f.aer.nonfatal = Some(40));
        node.bend_pci(&gpu(1), |f| f.aer.correctable = Some(0));
        node.tick(60);
        assert_eq!(node.told(&CHECK), Vec::<String>::new(), "baseline");
        node.bend_pci(port, |f| f.aer.nonfatal = Some(41));
        node.bend_pci(&gpu(1), |f| f.aer.correctable = Some(5000));
        node.tick(60);
        assert_eq!(
            node.told(&CHECK),
            [
                "mlx5_0 PcieErrors Degraded Verdict",
                "0000:81:00.0 PcieCorrectedErrors Degraded Notice"
            ]
        );
        assert_eq!(node.run(&CHECK)[0].evidence["counted_at"], port);
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
