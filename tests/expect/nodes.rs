//! Nodes at one moment: what was done to a machine that is well, what it remembers, and the verdict.

use super::spoilt::{self as s, HDR, NDR200, Rails};
use super::{Machine, evaluator, said, snapshot};
use selvage::check::policy::Policy;
use selvage::evaluator::SamplingMode;
use selvage::observe::Memory;
use selvage::simulate::NodeFiles;
use selvage::units::Millis;

type Spoil = fn(&mut NodeFiles, Rails<'_>);

/// What the agent remembers of the machine.
enum Had {
    /// It was never here before.
    Nothing,
    /// The machine as it was when all was well.
    All,
    /// The machine as it is now.
    Same,
}
use Had::{All, Nothing, Same};

type Row = (&'static str, Spoil, Had, &'static str);

fn hold(name: &str, rows: &[Row]) {
    hold_configured(name, rows, |_| ());
}

fn hold_configured(name: &str, rows: &[Row], policy: fn(&mut Policy)) {
    let machine = Machine::new(name);
    let mut wrong = Vec::new();
    for (what, spoil, had, want) in rows {
        let mut spec = machine.spec.clone();
        spoil(&mut spec, &machine.rails);
        let now = snapshot(&spec, Millis::from_secs(36_000));
        let memory = match had {
            Nothing => Memory::default(),
            All => machine.remembered(&machine.well),
            Same => machine.remembered(&now),
        };
        let mut judge = evaluator(&machine.profile, memory, policy);
        let got = said(&judge.evaluate(&now, SamplingMode::Once));
        if got != *want {
            wrong.push(format!("{name}, {what}: {got}, and not {want}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rates() {
    hold(
        "dgxh100",
        &[
            (
                "5 of 8 at half",
                |n, r| s::rate(n, &r[..5], NDR200),
                Nothing,
                "degraded: LaneWidthReduced",
            ),
            (
                "1 of 8 at half",
                |n, r| s::rate(n, &r[..1], HDR),
                Nothing,
                "degraded: RateBelowPeers",
            ),
            (
                "7 of 8 at half",
                |n, r| s::rate(n, &r[..7], HDR),
                Nothing,
                "degraded: RateBelowPeers",
            ),
            (
                "all at NDR200",
                |n, r| s::rate(n, r, NDR200),
                Nothing,
                "ready: (RateBelowNominal)",
            ),
            (
                "all at NDR200, as ever",
                |n, r| s::rate(n, r, NDR200),
                Same,
                "ready: (RateBelowNominal)",
            ),
            (
                "all at NDR200, and had 400",
                |n, r| s::rate(n, r, NDR200),
                All,
                "degraded: RateBelowBest",
            ),
            (
                "one lane",
                |n, r| s::rate(n, &r[..1], "100 Gb/sec (1X NDR)"),
                Nothing,
                "degraded: LaneWidthReduced",
            ),
            (
                "800",
                |n, r| s::rate(n, r, "800 Gb/sec (4X XDR)"),
                Nothing,
                "degraded: PciePathTooSlow",
            ),
        ],
    );
    hold(
        "Standard_ND96isr_H100_v5",
        &[
            (
                "all at 200",
                |n, r| s::rate(n, r, HDR),
                Nothing,
                "degraded: RateBelowExpected",
            ),
            (
                "all at 200, as ever",
                |n, r| s::rate(n, r, HDR),
                Same,
                "degraded: RateBelowExpected",
            ),
            (
                "one at 200",
                |n, r| s::rate(n, &r[..1], HDR),
                Nothing,
                "degraded: RateBelowExpected",
            ),
        ],
    );
    hold(
        "h100_ib, of no known make",
        &[
            (
                "all at NDR200",
                |n, r| s::rate(n, r, NDR200),
                Nothing,
                "ready",
            ),
            (
                "two rails, 200 and 400",
                |n, r| {
                    s::gone(n, &r[2..]);
                    s::rate(n, &r[..1], HDR);
                },
                Nothing,
                "ready: (RateBelowPeers)",
            ),
            (
                "two rails, 100 and 400",
                |n, r| {
                    s::gone(n, &r[2..]);
                    s::rate(n, &r[..1], "100 Gb/sec (2X HDR)");
                },
                Nothing,
                "degraded: LaneWidthReduced",
            ),
        ],
    );
    hold(
        "p5.48xlarge",
        &[(
            "EFA's rate is a constant",
            |n, r| s::rate(n, &r[..9], "25 Gb/sec (1X EDR)"),
            All,
            "ready",
        )],
    );
}

#[test]
fn rails_that_are_down() {
    hold(
        "h100_ib",
        &[
            (
                "1 of 8",
                |n, r| s::down(n, &r[..1]),
                Nothing,
                "unready: LinkDown",
            ),
            (
                "3 of 8",
                |n, r| s::down(n, &r[..3]),
                Nothing,
                "unready: LinkDown",
            ),
            (
                "half, by design or not",
                |n, r| s::down(n, &r[..4]),
                Nothing,
                "unknown: LinkUnproven",
            ),
            (
                "half, as ever",
                |n, r| s::down(n, &r[..4]),
                Same,
                "unknown: LinkUnproven",
            ),
            (
                "half, and all had links",
                |n, r| s::down(n, &r[..4]),
                All,
                "unready: LinkDown",
            ),
            (
                "7 of 8",
                |n, r| s::down(n, &r[..7]),
                Nothing,
                "unknown: LinkUnproven",
            ),
            (
                "7 of 8, and all had links",
                |n, r| s::down(n, &r[..7]),
                All,
                "unready: LinkDown",
            ),
            ("all", |n, r| s::down(n, r), All, "unready: LinkDown"),
            (
                "one without a LID",
                |n, r| s::no_lid(n, &r[..1]),
                Nothing,
                "unready: NoLid",
            ),
            (
                "one trained alone",
                |n, r| s::init(n, &r[..1]),
                Nothing,
                "unready: LinkInit",
            ),
        ],
    );
    hold(
        "Standard_ND96isr_H100_v5",
        &[
            (
                "half",
                |n, r| s::down(n, &r[..4]),
                Nothing,
                "unready: LinkDown",
            ),
            ("all", |n, r| s::down(n, r), Nothing, "unready: LinkDown"),
            (
                "a virtual function without a LID",
                |n, r| s::no_lid(n, &r[..1]),
                Nothing,
                "ready: (NoLid)",
            ),
        ],
    );
    hold(
        "h100_roce",
        &[
            ("RoCE has no LIDs", |n, r| s::no_lid(n, r), Nothing, "ready"),
            (
                "half",
                |n, r| s::down(n, &r[..4]),
                Nothing,
                "unknown: LinkUnproven",
            ),
        ],
    );
    hold_configured(
        "h100_ib",
        &[
            (
                "4 of 8 cabled, and 4 expected",
                |n, r| s::down(n, &r[..4]),
                Nothing,
                "ready: (NeverUp)",
            ),
            (
                "4 expected, and 3 up",
                |n, r| s::down(n, &r[..5]),
                Nothing,
                "unready: LinkDown",
            ),
            (
                "4 expected, all had links",
                |n, r| s::down(n, &r[..4]),
                All,
                "ready: (NeverUp)",
            ),
        ],
        |policy| policy.expect.rails = Some(4),
    );
    hold(
        "dgxh100",
        &[(
            "a half-cabled DGX is a design",
            |n, r| s::down(n, &r[..4]),
            Same,
            "unknown: LinkUnproven",
        )],
    );
}

#[test]
fn parts_that_are_gone() {
    hold(
        "dgxh100",
        &[
            (
                "7 GPUs and 7 NICs",
                |n, r| {
                    s::without_gpus(n, 1);
                    s::gone(n, &r[..1]);
                },
                Nothing,
                "unready: FewerDevicesThanPromised MissingGpu",
            ),
            (
                "7 GPUs",
                |n, _| s::without_gpus(n, 1),
                Nothing,
                "unready: MissingGpu",
            ),
            (
                "7 NICs",
                |n, r| s::gone(n, &r[..1]),
                Nothing,
                "degraded: FewerDevicesThanPromised",
            ),
            (
                "7 NICs, and had 8",
                |n, r| s::gone(n, &r[..1]),
                All,
                "unready: FewerDevicesThanPromised RailVanished",
            ),
            (
                "a GPU whose probe failed",
                |n, _| s::gpus_bound_to(n, 1, None),
                Nothing,
                "unready: GpuNotDriven",
            ),
            (
                "a GPU for a virtual machine",
                |n, _| s::gpus_bound_to(n, 1, Some("vfio-pci")),
                Nothing,
                "ready",
            ),
            (
                "all GPUs for virtual machines",
                |n, _| s::gpus_bound_to(n, 8, Some("vfio-pci")),
                Nothing,
                "ready",
            ),
            (
                "a NIC without a driver",
                |n, r| s::undriven(n, &r[..1]),
                Nothing,
                "degraded: RailWithoutDriver",
            ),
        ],
    );
    let share: Spoil = |n, r| {
        s::without_gpus(n, 4);
        s::gone(n, &r[4..]);
    };
    hold(
        "Standard_ND96isr_H100_v5",
        &[
            ("a share", share, Nothing, "ready: (MissingGpu)"),
            ("a share, as ever", share, Same, "ready: (MissingGpu)"),
            (
                "half is gone",
                share,
                All,
                "unready: MissingGpu RailVanished",
            ),
        ],
    );
    hold(
        "h100_ib",
        &[
            (
                "7 GPUs and 7 NICs, a DGX by its firmware",
                |n, r| {
                    s::without_gpus(n, 1);
                    s::gone(n, &r[7..]);
                },
                Nothing,
                "unready: FewerDevicesThanPromised MissingGpu",
            ),
            (
                "7 GPUs, and had 8",
                |n, _| s::without_gpus(n, 1),
                All,
                "unready: MissingGpu",
            ),
            (
                "no NIC at all, and had 8",
                |n, r| s::gone(n, r),
                All,
                "unready: (NeverUp) (RateBelowNominal) FewerDevicesThanPromised RailVanished",
            ),
        ],
    );
    hold(
        "h100_ib, of no known make",
        &[(
            "7 GPUs and 7 NICs",
            |n, r| {
                s::without_gpus(n, 1);
                s::gone(n, &r[7..]);
            },
            Nothing,
            "ready",
        )],
    );
}

#[test]
fn pcie() {
    let gen4: Spoil = |n, r| s::slot(n, &r[..1], "16.0 GT/s PCIe", 16);
    let gen3: Spoil = |n, r| s::slot(n, &r[..1], "8.0 GT/s PCIe", 16);
    let all: Spoil = |n, r| s::slot(n, r, "8.0 GT/s PCIe", 16);
    for name in ["h100_ib", "h100_roce", "dgxh100"] {
        hold(
            name,
            &[
                ("Gen4 slot", gen4, Nothing, "degraded: PciePathTooSlow"),
                ("Gen3 slot", gen3, Nothing, "degraded: PciePathTooSlow"),
                ("Gen3 slots", all, Nothing, "degraded: PciePathTooSlow"),
                (
                    "Gen3 slots, as ever",
                    all,
                    Same,
                    "degraded: PciePathTooSlow",
                ),
                (
                    "Gen4 slot, and port down",
                    |n, r| {
                        s::slot(n, &r[..1], "16.0 GT/s PCIe", 16);
                        s::down(n, &r[..1]);
                    },
                    Nothing,
                    "unready: LinkDown",
                ),
            ],
        );
    }
    hold(
        "Standard_ND96isr_H100_v5",
        &[("a guest's bus says nothing", all, Nothing, "ready")],
    );
}
