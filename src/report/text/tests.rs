use super::*;
use crate::check::Status;
use crate::observe::{Fault, FaultKind, LinkLayer, PhysState};
use crate::report::port_view::ago;
use crate::report::testing::{broken, device, empty, finding, hear_of, link, node};
use crate::report::{Role, RoleFacts};
use crate::units::Millis;

#[test]
fn a_broken_node_reads_like_this() {
    let mut report = broken();
    report.snapshot.devices.as_mut().unwrap().value =
        std::sync::Arc::new((2..5).map(|n| device(n, LinkLayer::Infiniband)).collect());
    let want = "\
UNREADY  gpu-17: GpuLost, LinkDown (for 2 min)

Rails: 2 of 3 active
  PORT      PCI           NETDEV  STATE         RATE      FINDINGS
  mlx5_2/1  0000:12:00.0  eth2    active        400 Gb/s  ok
  mlx5_3/1  0000:13:00.0  eth3    down/polling  -         LinkDown
  mlx5_4/1  0000:14:00.0  eth4    active        400 Gb/s  ok
GPUs: 8 (driver 535.129.03, proprietary); GDS: absent
GPUDirect RDMA: peermem (nvidia_peermem is loaded)

failing  0000:83:00 GpuLost (xid, for 2 min)
  0000:83:00 is not as it should be.
  seen: peers_up=7, phys_state=polling
  fix:  Look at the cable.

failing  mlx5_3/1 LinkDown (link_state, for 2 min)
  mlx5_3/1 is not as it should be.
  seen: peers_up=7, phys_state=polling
  fix:  Look at the cable.
";
    assert_eq!(encode(&report, Style::default()), want);
}

#[test]
fn a_healthy_node_is_short() {
    let mut report = node(8, LinkLayer::Infiniband);
    let other = device(7, LinkLayer::Infiniband).port_key(1);
    report.roles.insert(
        other,
        RoleFacts {
            role: Role::Other,
            why: "storage".into(),
        },
    );
    let text = encode(&report, Style::default());
    assert!(text.starts_with("READY  gpu-17 (for 10 min)\n"), "{text}");
    assert!(text.contains("Rails: 7 of 7 active\n"));
    assert!(text.contains("Other ports: mlx5_7/1 active 400 Gb/s\n"));
    assert!(text.lines().count() <= 14, "{text}");
    hear_of(&mut report, "leaf-3");
    let text = encode(&report, Style::default());
    assert!(
        text.contains("\nNeighbors: mlx5_0/1 leaf-3 leaf-3, mlx5_1/1"),
        "{text}"
    );
}

#[test]
fn nothing_read_is_not_nothing_there() {
    let mut report = empty();
    let text = encode(&report, Style::default());
    assert!(text.starts_with("UNKNOWN  gpu-17 (for 10 min), first window not complete\n"));
    assert!(text.contains("RDMA devices could not be listed."));
    assert!(text.contains("GPUs: unknown; GDS: unknown"), "{text}");
    report.snapshot.devices = Some(crate::observe::Stamped {
        at: Millis(1),
        value: std::sync::Arc::default(),
    });
    assert!(encode(&report, Style::default()).contains("No RDMA device on this node."));
}

#[test]
fn a_source_that_hangs_is_told() {
    let mut report = node(1, LinkLayer::Infiniband);
    let source = report.snapshot.sources.get_mut("link").unwrap();
    source.stalled_since = Some(Millis(1));
    let source = report.snapshot.sources.get_mut("dcb").unwrap();
    source.fault = Some(Fault {
        kind: FaultKind::Denied,
        detail: String::new(),
    });
    report.snapshot.sources.get_mut("ethtool").unwrap().absent = true;
    let text = encode(&report, Style::default());
    assert!(
        text.contains("Sources that did not answer: dcb, link (1 stalled)\n"),
        "{text}"
    );
}

#[test]
fn outside_text_cannot_steer_the_terminal_or_flood_it() {
    let mut report = broken();
    let evil = "\x1b]0;owned\x07\u{202e}\r\n\u{9b}31m";
    report.node = format!("n{evil}");
    report.findings[0].message = evil.repeat(1000);
    report.findings[0].subject = format!("s{evil}");
    report.findings[0]
        .evidence
        .insert(format!("k{evil}"), serde_json::json!(evil));
    let devices = &mut report.snapshot.devices.as_mut().unwrap().value;
    let mut list = devices.to_vec();
    list[0].ports[0].netdev = Some(evil.repeat(100));
    *devices = std::sync::Arc::new(list);
    report
        .findings
        .extend((0..500).map(|i| finding("xid", &format!("gpu{i}"), "GpuLost", Status::Failing)));
    let text = encode(&report, Style::default());
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    assert!(!text.contains('\u{202e}'));
    assert!(text.contains("and 482 more"), "{}", text.len());
    assert!(text.len() < 16_384, "{}", text.len());
}

#[test]
fn lines_are_wrapped_and_colour_takes_no_room() {
    let mut report = broken();
    report.findings[0].message = "word ".repeat(100);
    let plain = encode(&report, Style::default());
    assert!(
        plain.lines().all(|line| line.chars().count() <= 80),
        "{plain}"
    );
    assert!(!plain.contains('\x1b'));
    let coloured = encode(
        &report,
        Style {
            width: 80,
            colour: true,
        },
    );
    assert!(coloured.contains("\x1b[31mUNREADY\x1b[0m  gpu-17"));
    let mut stripped = coloured;
    for code in [1, 31, 32, 33, 35, 0] {
        stripped = stripped.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn no_table_is_wider_than_the_page() {
    let mut report = node(8, LinkLayer::Ethernet);
    let key = device(3, LinkLayer::Ethernet).port_key(1);
    let down = link(PortState::Down, PhysState::Polling);
    report.snapshot.links.insert(key.clone(), down);
    let devices = report.snapshot.devices.as_mut().unwrap();
    for device in std::sync::Arc::make_mut(&mut devices.value) {
        device.ports[0].netdev = Some("enp220s0f1np1".into());
    }
    for reason in ["LinkDown", "MtuBelowPeers"] {
        report.findings.push(finding(
            "link_state",
            &key.to_string(),
            reason,
            Status::Failing,
        ));
    }
    for width in 60..200 {
        let text = encode(
            &report,
            Style {
                width,
                colour: false,
            },
        );
        let row = text.lines().find(|line| line.contains("mlx5_3/1")).unwrap();
        assert!(row.chars().count() <= width, "{width}: {text}");
        assert!(row.contains("down/polling"), "{width}: {text}");
        assert_eq!(text.contains("PCI"), width >= 80, "{text}");
    }
}

#[test]
fn states_other_than_active_tell_the_physical_one() {
    let mut report = node(1, LinkLayer::Infiniband);
    let key = device(0, LinkLayer::Infiniband).port_key(1);
    report
        .snapshot
        .links
        .insert(key, link(PortState::Init, PhysState::LinkUp));
    assert!(encode(&report, Style::default()).contains("init/link_up"));
}

#[test]
fn ages_in_one_unit() {
    let mut report = empty();
    report.snapshot.at = Millis::from_secs(1_000_000);
    for (seconds, want) in [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_800, "2 d"),
    ] {
        let since = Millis::from_secs(1_000_000 - seconds);
        assert_eq!(ago(&report, since), want);
    }
}

#[test]
fn findings_come_before_a_long_table_of_ports() {
    for (ports, first) in [(LONG_TABLE, false), (LONG_TABLE + 1, true)] {
        let mut report = node(ports as u8, LinkLayer::Infiniband);
        report.findings = vec![finding("xid", "gpu0", "GpuLost", Status::Failing)];
        let text = encode(&report, Style::default());
        let (found, table) = (text.find("failing  gpu0"), text.find("Rails: "));
        assert!(found.is_some() && table.is_some());
        assert_eq!(found < table, first, "{ports} ports");
    }
}

#[test]
fn of_another_program_s_text_only_lines_and_colours_are_kept() {
    for (text, cleaned) in [
        ("READY  a\n  b\n", "READY  a\n  b\n"),
        ("\x1b[1;31mUNREADY\x1b[0m  a", "\x1b[1;31mUNREADY\x1b[0m  a"),
        ("\x1b]0;owned\x07a\x1b[2Jb\r\x1b", "?]0;owned?a?[2Jb??"),
        ("\x1b[31", "?[31"),
        ("\x1b[\x1b[m", "?[\x1b[m"),
        ("a\u{9b}2J\u{202e}", "a?2J?"),
    ] {
        assert_eq!(clean_lines(text), cleaned, "{text:?}");
    }
}
