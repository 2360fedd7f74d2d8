//! Messages to rulings: which authority decides about a code.

#![allow(clippy::unwrap_used, missing_docs)]

use selvage::check::policy::XidOverride;
use selvage::check::xid_codes::{Disposition, Overrides, Ruling, ruling};
use selvage::source::kernel_log::decode;

fn judge(rest: &str) -> Ruling {
    let line = format!("NVRM: Xid (PCI:0000:3b:00): {rest}");
    ruling(&decode(&line, None).unwrap(), &Overrides::new()).unwrap()
}

#[test]
fn authorities_in_their_order() {
    use Disposition as D;
    let seven = "(0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)";
    for (rest, disposition) in [
        ("79, GPU has fallen off the bus.".to_owned(), D::Fatal),
        ("45, pid=1, name=a, Ch 8".to_owned(), D::Ignore),
        ("13, Graphics SM Warp Exception".to_owned(), D::App),
        ("63, Row Remapper: New row".to_owned(), D::Degraded),
        ("999, new".to_owned(), D::Report),
        (
            "145, RLW_X Nonfatal XC0 i0 Link 03 (0x1 0x2 0x0 0x0)".to_owned(),
            D::Ignore,
        ),
        (
            "145, RLW_X Fatal XC0 i0 Link 03 (0x1 0x2 0x0 0x0)".to_owned(),
            D::Fatal,
        ),
        ("145, RLW_X".to_owned(), D::Degraded),
        (
            format!("74, NVLink: fatal error detected on link 1{seven}"),
            D::Ignore,
        ),
        (
            "74, NVLink: fatal error detected on link 1(0x40800001, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
                .to_owned(),
            D::Ignore,
        ),
        (
            "74, NVLink: fatal error detected on link 1(0x3, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
                .to_owned(),
            D::Fatal,
        ),
        (
            "74, NVLink: fatal error detected on link 1(0x1, 0x0, 0x10, 0x0, 0x0, 0x0, 0x0)"
                .to_owned(),
            D::Fatal,
        ),
        (
            "74, NVLink: fatal error detected on link 1(0x1, 0x0, 0x0".to_owned(),
            D::Fatal,
        ),
        (
            "74, NVLink: fatal error detected on link 1".to_owned(),
            D::Fatal,
        ),
        (
            "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
                .to_owned(),
            D::Fatal,
        ),
        (
            "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
                .to_owned(),
            D::Clear,
        ),
        (
            "154, GPU recovery action changed from 0x0 (None) to 0x9 (New)".to_owned(),
            D::Degraded,
        ),
        ("154, GPU recovery act".to_owned(), D::Report),
    ] {
        let r = judge(&rest);
        assert_eq!(
            (r.disposition, r.overridden),
            (disposition, false),
            "{rest}"
        );
    }
}

#[test]
fn the_operator_stands_above_all() {
    let mut overrides = Overrides::new();
    let o = XidOverride {
        action: Disposition::Fatal,
        count: 3,
        within: Some(selvage::units::Span::from_secs(600)),
    };
    for code in [43, 145, 154, 999] {
        overrides.insert(code, o);
    }
    for rest in [
        "43, Ch 8",
        "145, RLW_X Nonfatal XC0 i0 Link 03 (0x1 0x2)",
        "154, GPU recovery action changed from 0x1 (x) to 0x0 (None)",
        "999, new",
    ] {
        let event = decode(&format!("NVRM: Xid (PCI:0000:3b:00): {rest}"), None).unwrap();
        let r = ruling(&event, &overrides).unwrap();
        assert_eq!(r.disposition, Disposition::Fatal, "{rest}");
        assert_eq!((r.overridden, r.count), (true, 3), "{rest}");
    }
}

#[test]
fn switches_go_by_their_own_word() {
    let of = |s: &str| {
        let line = format!("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, {s}");
        ruling(&decode(&line, None).unwrap(), &Overrides::new())
            .unwrap()
            .disposition
    };
    assert_eq!(of("Fatal, Link 30 LTSSM Fault Up"), Disposition::Fatal);
    assert_eq!(of("Non-fatal, Link 30 x"), Disposition::Ignore);
    assert_eq!(of("Severity 1 Engine instance 60"), Disposition::Ignore);
    assert_eq!(of("Data {0x5, 0x1}"), Disposition::Ignore);
}

#[test]
fn other_events_are_not_judged_here() {
    let e = decode("mlx5_core 0000:1a:00.0 ens1: Link down", None).unwrap();
    assert_eq!(ruling(&e, &Overrides::new()), None);
}
