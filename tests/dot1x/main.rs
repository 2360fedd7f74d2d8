//! 802.1X for real: hostapd as the switch and wpa_supplicant on the node, at the two ends of a pair
//! of virtual Ethernet devices in a network namespace of their own, and the program that asks.
//! What the machine does not allow fails the test; nothing is skipped.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

#[path = "../support/mod.rs"]
mod support;

mod bench;

use bench::{Bench, IF, PATIENCE, RAIL};
use selvage::simulate::Change;
use std::time::{Duration, Instant};
use support::node;

fn link(up: bool) -> Change {
    Change::Link {
        device: "mlx5_3".into(),
        up,
    }
}

/// Asks until it is as `wanted`: a supplicant that has no processor does not answer in time.
fn until<T>(wanted: impl Fn() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match wanted() {
            Ok(found) => return found,
            Err(said) => assert!(begin.elapsed() < PATIENCE, "{said}"),
        }
    }
}

const FAILING: &str = "mlx5_3/1 PortNotAuthenticated failing verdict";
const UNKNOWN: &str = "mlx5_3/1 PortNotAuthenticated unknown verdict";

#[test]
fn let_in_and_shut_out_later() {
    let mut bench = Bench::new("right");
    bench.others_are_authorized();
    let said = bench.until("true AUTHENTICATED SUCCESS");
    assert_eq!(said.port()["dot1x"]["method"], "4 (EAP-MD5)");
    assert_eq!(said.told(), Vec::<String>::new());
    assert_eq!(said.0["state"], "ready", "{}", said.0["findings"]);
    let source = said.source();
    assert!(
        source["up"] == true && source["absent"] == false,
        "{source}"
    );

    // For people.
    let root = bench.root().to_str().unwrap();
    until(|| {
        let patient = "--set=intervals.deadline=1m";
        let args = [
            "check",
            "--host-root",
            root,
            "--set=agent.state_dir=",
            patient,
        ];
        let text = bench.net.run(env!("CARGO_BIN_EXE_selvage"), &args);
        let text = String::from_utf8(text.stdout).unwrap();
        let is_told = text.contains("802.1X: 8 of 8 authorized");
        is_told.then_some(()).ok_or(text)
    });

    // The credential goes bad; the switch asks anew and refuses it. The link stays up.
    bench.control(&["set_network", "0", "password", "\"wrong\""]);
    let said = bench.until("false HELD FAILURE");
    assert_eq!(said.told(), [FAILING]);
    assert_eq!(said.0["state"], "unready");
    let finding = said.findings()[0];
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains(IF) && message.contains("EAP FAILURE"),
        "{message}"
    );
    assert_eq!(
        finding["evidence"]["evidence"],
        "its peer rails are authorized"
    );
    assert_eq!(said.port()["state"], "active");

    // The supplicant hangs: nothing is known of the port, within the deadline, and all else is.
    bench.supplicant.signal(nix::sys::signal::Signal::SIGSTOP);
    let begin = Instant::now();
    let said = bench.look();
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(said.dot1x(), "nothing");
    assert_eq!(said.told(), Vec::<String>::new());
    assert_eq!(said.0["state"], "ready", "{}", said.0["findings"]);
    let detail = said.source()["detail"].as_str().unwrap();
    assert!(detail.contains("does not answer"), "{detail}");
    let of_others = said.0["ports"].as_array().unwrap().iter();
    let answered = of_others.filter(|port| port["dot1x"]["authorized"] == true);
    assert_eq!(answered.count(), 7);
    bench.supplicant.signal(nix::sys::signal::Signal::SIGCONT);
    bench.until("false HELD FAILURE");

    // The switch takes the link, too: that is the finding, and it names the cause.
    bench.node.apply(&link(false)).unwrap();
    let said = bench.until("false HELD FAILURE");
    assert_eq!(said.told(), ["mlx5_3/1 LinkDown failing verdict"]);
    let finding = said.findings()[0];
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("802.1X authentication failed before that"),
        "{message}"
    );
    assert_eq!(
        finding["evidence"]["dot1x"],
        "not authorized (PAE HELD, EAP FAILURE)"
    );

    // Mended.
    bench.node.apply(&link(true)).unwrap();
    bench.control(&["set_network", "0", "password", "\"right\""]);
    bench.control(&["reassociate"]);
    let said = bench.until("true AUTHENTICATED SUCCESS");
    assert_eq!(said.told(), Vec::<String>::new());
}

#[test]
fn never_let_in() {
    let bench = Bench::new("wrong");
    // Alone it does not say that the port should be let in.
    let said = bench.until("false HELD FAILURE");
    assert_eq!(said.told(), [UNKNOWN]);
    assert_eq!(said.0["state"], "unknown", "{}", said.0["findings"]);
    bench.others_are_authorized();
    let said = bench.until("false HELD FAILURE");
    assert_eq!(said.told(), [FAILING]);
    assert_eq!(said.findings()[0]["subject"], RAIL);

    // A capture holds the words and replays, without the addresses.
    let (capture, kept) = until(|| {
        let capture = tempfile::tempdir_in(bench.files.path()).unwrap();
        let to = capture.path().to_str().unwrap();
        let root = bench.root().to_str().unwrap();
        let output = bench.net.run(
            env!("CARGO_BIN_EXE_selvage"),
            &["capture", to, "--host-root", root],
        );
        assert!(output.status.success(), "{output:?}");
        let kept = capture.path().join(format!("run/wpa_supplicant/{IF}"));
        let kept = std::fs::read_to_string(kept).map_err(|error| error.to_string())?;
        Ok((capture, kept))
    });
    assert!(kept.contains("suppPortStatus=Unauthorized"), "{kept}");
    assert!(
        !kept.contains("address") && !kept.contains("uuid"),
        "{kept}"
    );
    assert_eq!(bench.net.look(capture.path()).told(), [FAILING]);

    // The supplicant is killed: its socket stays, and tells nothing.
    let Bench {
        supplicant,
        net,
        dir,
        ..
    } = bench;
    drop(supplicant);
    let said = net.look(dir.path());
    assert_eq!(said.dot1x(), "nothing");
    assert_eq!(said.told(), Vec::<String>::new());
    let detail = said.source()["detail"].as_str().unwrap();
    assert!(detail.contains("no supplicant listens"), "{detail}");
}

#[test]
fn through_a_mount_as_in_a_pod() {
    let bench = Bench::new("right");
    bench.until("true AUTHENTICATED SUCCESS");
    let sockets = bench.root().join("run/wpa_supplicant");
    let (other, _node) = node("h100_roce");
    let mounted = other.path().join("run/wpa_supplicant");
    std::fs::create_dir_all(&mounted).unwrap();
    let (from, to) = (sockets.to_str().unwrap(), mounted.to_str().unwrap());
    let script = format!("mount --bind {from} {to}; mount -o remount,bind,ro {to}; ! touch {to}/x");
    let output = bench.net.run("sh", &["-euc", &script]);
    assert!(output.status.success(), "{output:?}");
    bench.until_seen("true AUTHENTICATED SUCCESS", || {
        bench.net.look(other.path())
    });

    // The last supplicant to end takes the directory with it: the mount is of nothing any more.
    bench.control(&["terminate"]);
    let begin = Instant::now();
    while sockets.exists() {
        assert!(
            begin.elapsed() < PATIENCE,
            "wpa_supplicant leaves its directory"
        );
        support::pause();
    }
    let said = bench.net.look(other.path());
    assert_eq!(said.dot1x(), "nothing");
    let detail = said.source()["detail"].as_str().unwrap();
    assert!(detail.contains("removed after it was mounted"), "{detail}");
    assert_eq!(said.0["state"], "ready", "{}", said.0["findings"]);
    // Where it really is, it is merely not there.
    let said = bench.net.look(bench.root());
    assert_eq!(said.source()["absent"], true);
}

#[test]
fn the_agent_waits_and_remembers() {
    let bench = Bench::new("right");
    bench.until("true AUTHENTICATED SUCCESS");
    let state = bench.files.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let state = format!("--set=agent.state_dir={}", state.to_str().unwrap());
    let args = [
        "--set=intervals.dot1x=200ms",
        "--set=policy.link_state.unauthorized_raise_after=1s",
        state.as_str(),
    ];
    let mut agent = bench.agent(&args);
    agent.until(|said| said.dot1x() == "true AUTHENTICATED SUCCESS");
    bench.control(&["set_network", "0", "password", "\"wrong\""]);
    let said = agent.until(|said| !said.told().is_empty());
    // No other rail has a supplicant: what was so this boot is the evidence.
    assert_eq!(said.told(), [FAILING]);
    let finding = said.findings()[0];
    let evidence = &finding["evidence"]["evidence"];
    assert_eq!(evidence, "it was authorized earlier this boot");
    let remedy = finding["remedy"].as_str().unwrap();
    assert!(
        remedy.contains(&format!("wpa_cli -i {IF} status")),
        "{remedy}"
    );
    agent.terminate();
    // Over its restart, too, and not without what it wrote down.
    let said = bench.until_seen("false HELD FAILURE", || bench.look_with(&state));
    assert_eq!(said.told(), [FAILING]);
    assert_eq!(bench.until("false HELD FAILURE").told(), [UNKNOWN]);
}
