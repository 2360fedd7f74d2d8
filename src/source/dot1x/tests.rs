use super::*;
use crate::observe::FaultKind;
use crate::source::testtree::TestTree;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

const AUTHORIZED: &str = "\
bssid=01:80:c2:00:00:03
freq=0
ssid=
id=0
mode=station
pairwise_cipher=NONE
group_cipher=NONE
key_mgmt=IEEE 802.1X (no WPA)
wpa_state=COMPLETED
address=02:00:00:00:00:01
Supplicant PAE state=AUTHENTICATED
suppPortStatus=Authorized
EAP state=SUCCESS
selectedMethod=13 (EAP-TLS)
";

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn look(tree: &TestTree, asked: &[&str]) -> Reading<BTreeMap<String, Reading<Dot1xFacts>>> {
    read(&tree.host(), &names(asked))
}

/// What is said of `eth0`.
fn eth0(tree: &TestTree) -> Reading<Dot1xFacts> {
    match look(tree, &["eth0"]) {
        Reading::Value(mut found) => found.remove("eth0").unwrap(),
        other => other.map(|_| Dot1xFacts::default()),
    }
}

fn fault(reading: Reading<Dot1xFacts>) -> (FaultKind, String) {
    match reading {
        Reading::Failed(fault) => (fault.kind, fault.detail),
        other => panic!("{other:?}"),
    }
}

fn bound(tree: &TestTree, name: &str) -> UnixDatagram {
    tree.dir("run/wpa_supplicant");
    let socket = UnixDatagram::bind(tree.path(&path(name))).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket
}

/// A supplicant that answers each question with these messages.
struct Supplicant {
    path: std::path::PathBuf,
    thread: std::thread::JoinHandle<()>,
}

fn supplicant(tree: &TestTree, name: &str, messages: Vec<Vec<u8>>) -> Supplicant {
    let socket = bound(tree, name);
    let thread = std::thread::spawn(move || {
        loop {
            let mut bytes = [0; 64];
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            if &bytes[..length] == b"END" {
                return;
            }
            assert_eq!(&bytes[..length], b"STATUS");
            for message in &messages {
                let _ = socket.send_to_addr(message, &from);
            }
        }
    });
    let path = tree.path(&path(name));
    Supplicant { path, thread }
}

impl Supplicant {
    fn end(self) {
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(b"END", &self.path).unwrap();
        self.thread.join().unwrap();
    }
}

/// What `ask` gives once every supplicant was in time: the answer must come within 200 ms, and the machine may be busy.
fn in_time<T>(ask: impl Fn() -> T, late: impl Fn(&T) -> bool) -> T {
    let mut asked = std::iter::repeat_with(ask).take(100);
    asked
        .find(|answer| !late(answer))
        .expect("an answer in time")
}

fn is_late(reading: &Reading<Dot1xFacts>) -> bool {
    matches!(reading, Reading::Failed(fault) if fault.detail.contains("does not answer"))
}

#[test]
fn answers_and_what_is_none() {
    let facts = parse(AUTHORIZED);
    let facts = facts.value().unwrap();
    assert_eq!(facts.authorized, Some(true));
    assert_eq!(facts.pae_state.as_deref(), Some("AUTHENTICATED"));
    assert_eq!(facts.method.as_deref(), Some("13 (EAP-TLS)"));
    assert!(facts.tries() && !facts.failed());
    // What a capture keeps reads back as the same, and holds no address.
    let kept = text(facts);
    assert_eq!(parse(&kept).value(), Some(facts));
    assert!(!kept.contains("02:00"), "{kept}");

    let held = "wpa_state=ASSOCIATED\nkey_mgmt=IEEE 802.1X (no WPA)\nSupplicant PAE state=HELD\nsuppPortStatus=Unauthorized\nEAP state=FAILURE\n";
    let facts = parse(held);
    let facts = facts.value().unwrap();
    assert!(facts.failed() && facts.tries());
    assert_eq!(facts.summary(), "not authorized (PAE HELD, EAP FAILURE)");
    let waits = held
        .replace("HELD", "CONNECTING")
        .replace("FAILURE", "IDLE");
    assert!(!parse(&waits).value().unwrap().failed());
    assert!(!parse("wpa_state=INACTIVE\n").value().unwrap().tries());

    for bad in [
        "",
        "FAIL\n",
        "UNKNOWN COMMAND\n",
        "suppPortStatus=Auth",
        "suppPortStatus=\u{1b}[31mAuthorized",
        "\u{fffd}\u{fffd}=\u{fffd}",
    ] {
        assert!(matches!(parse(bad), Reading::Failed(_)), "{bad:?}");
    }
    // Odd words are left out, whatever they are.
    let odd = format!(
        "wpa_state=\u{7}\nEAP state={}\nsuppPortStatus=Unauthorized\n",
        "A".repeat(49)
    );
    let facts = parse(&odd);
    let facts = facts.value().unwrap();
    assert_eq!((&facts.wpa_state, &facts.eap_state), (&None, &None));
    assert_eq!(facts.summary(), "not authorized");
}

#[test]
fn files_stand_for_sockets_in_a_tree() {
    let tree = TestTree::new();
    assert_eq!(look(&tree, &["eth0"]), Reading::Absent);
    tree.dir("run/wpa_supplicant");
    assert_eq!(
        look(&tree, &["eth0", "", ".", "..", "../x"]),
        Reading::Absent
    );
    tree.file("run/wpa_supplicant/eth0", AUTHORIZED);
    tree.file("run/wpa_supplicant/wlan0", AUTHORIZED);
    let found = look(&tree, &["eth0", "eth1"]);
    let found = found.value().unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["eth0"]);
    assert_eq!(eth0(&tree).value().unwrap().authorized, Some(true));
    // Refused: not seen, and no fault.
    tree.errno(13, "run/wpa_supplicant/eth0");
    assert_eq!(eth0(&tree), Reading::NotObservable);
    tree.errno(13, "run/wpa_supplicant");
    assert_eq!(look(&tree, &["eth0"]), Reading::NotObservable);
}

#[test]
fn a_supplicant_is_asked_and_answers() {
    let tree = TestTree::new();
    let event = b"<3>CTRL-EVENT-EAP-SUCCESS".to_vec();
    let one = supplicant(&tree, "eth0", vec![event, AUTHORIZED.into()]);
    let two = supplicant(
        &tree,
        "eth1",
        vec![AUTHORIZED.replace("Auth", "Unauth").into()],
    );
    let ask = || look(&tree, &["eth0", "eth1"]).into_value().unwrap();
    let found = in_time(ask, |found| found.values().any(is_late));
    assert_eq!(found["eth0"].value().unwrap().authorized, Some(true));
    assert_eq!(found["eth1"].value().unwrap().authorized, Some(false));
    one.end();
    two.end();
}

#[test]
fn hostile_answers_fail_and_are_bounded() {
    for (messages, want) in [
        (vec![vec![b'A'; MAX_OF_TEST]], FaultKind::Malformed),
        (vec![vec![0xff; 64]], FaultKind::Malformed),
        (vec![Vec::new()], FaultKind::Malformed),
        (vec![b"<3>one more".to_vec(); 64], FaultKind::Malformed),
    ] {
        let tree = TestTree::new();
        let other = supplicant(&tree, "eth0", messages);
        assert_eq!(fault(in_time(|| eth0(&tree), is_late)).0, want);
        other.end();
    }
}

const MAX_OF_TEST: usize = 20_000;

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it took")]
fn silence_costs_a_deadline_once_for_all() {
    let tree = TestTree::new();
    let all: Vec<String> = (0..16).map(|i| format!("eth{i}")).collect();
    let sockets: Vec<UnixDatagram> = all.iter().map(|name| bound(&tree, name)).collect();
    let asked: Vec<&str> = all.iter().map(String::as_str).collect();
    let quickest = |took: &dyn Fn() -> Duration| (0..9).map(|_| took()).min().unwrap();
    let took = quickest(&|| {
        let begin = Instant::now();
        assert_eq!(look(&tree, &asked).value().unwrap().len(), 16);
        begin.elapsed()
    });
    assert!(fault(eth0(&tree)).1.contains("does not answer"));
    assert!(took >= Duration::from_millis(150), "{took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    // Its queue is full: still an answer about it, and no wait.
    let full = tree.path(&path("eth0"));
    let fills_it = || {
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        let sent = || sender.send_to(b"PING", &full).is_ok();
        // Until the queue or the sender's own buffer is full; a new sender's buffer is empty.
        std::iter::repeat_with(sent)
            .take_while(|sent| *sent)
            .count()
            > 0
    };
    while fills_it() {}
    // Each would wait, or none; a busy machine delays one or another.
    let took = quickest(&|| {
        let begin = Instant::now();
        assert!(fault(eth0(&tree)).1.contains("does not answer"));
        begin.elapsed()
    });
    assert!(took < Duration::from_millis(100), "{took:?}");
    drop(sockets);
    assert!(fault(eth0(&tree)).1.contains("no supplicant listens"));
}

#[test]
fn nothing_odd_is_followed_or_opened() {
    let tree = TestTree::new();
    let elsewhere = TestTree::new();
    elsewhere.file("answer", AUTHORIZED);
    let other = bound(&elsewhere, "eth0");
    tree.dir("run/wpa_supplicant");
    let at = tree.path(&path("eth0"));
    // A link to a socket, and to a file, out of the root.
    for target in [elsewhere.path(&path("eth0")), elsewhere.path("answer")] {
        std::os::unix::fs::symlink(target, &at).unwrap();
        assert_eq!(fault(eth0(&tree)).0, FaultKind::Malformed);
        std::fs::remove_file(&at).unwrap();
    }
    other.set_nonblocking(true).unwrap();
    assert!(other.recv(&mut [0; 8]).is_err(), "it was asked");
    // A pipe, which would block.
    nix::unistd::mkfifo(&at, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(fault(eth0(&tree)).1.contains("not a socket"));
    std::fs::remove_file(&at).unwrap();
    tree.dir("run/wpa_supplicant/eth0");
    assert!(fault(eth0(&tree)).1.contains("not a socket"));
    // A stream socket: nothing that takes datagrams.
    std::fs::remove_dir(&at).unwrap();
    let _stream = std::os::unix::net::UnixListener::bind(&at).unwrap();
    assert_eq!(fault(eth0(&tree)).0, FaultKind::Other);
    // The directory itself.
    let tree = TestTree::new();
    tree.dir("run");
    let link = tree.path("run/wpa_supplicant");
    std::os::unix::fs::symlink(elsewhere.path("run/wpa_supplicant"), &link).unwrap();
    assert_eq!(fault(eth0(&tree)).0, FaultKind::Malformed);
}
