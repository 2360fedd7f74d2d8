//! `selvage fleet` as a program, also by the name of a kubectl plug-in: what it asks, shows and writes.

use crate::fake_api::{FakeApi, Wrong};
use crate::support;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The server's kubeconfig in a directory, and the program under kubectl's name.
struct Plugin {
    dir: tempfile::TempDir,
}

impl Plugin {
    fn new(api: &FakeApi) -> Self {
        let dir = support::scratch();
        std::fs::write(dir.path().join("config"), api.kubeconfig("token: t")).unwrap();
        let program = PathBuf::from(support::program().get_program());
        std::os::unix::fs::symlink(program, dir.path().join("kubectl-selvage")).unwrap();
        Plugin { dir }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.dir.path().join("kubectl-selvage"));
        command
            .args(args)
            .env("KUBECONFIG", self.dir.path().join("config"))
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("COLUMNS")
            .stdin(Stdio::null());
        command
    }

    /// Exit status, standard output and standard error.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let done = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            done.status.code().unwrap(),
            text(done.stdout),
            text(done.stderr),
        )
    }
}

fn ago(seconds: i64) -> String {
    let now = jiff::Timestamp::now().as_second();
    jiff::Timestamp::from_second(now - seconds)
        .unwrap()
        .to_string()
}

/// A Node with a verdict of ten minutes ago, `seen` seconds ago.
fn node(name: &str, state: &str, reason: &str, seen: i64) -> Value {
    let status = if state == "unready" { "False" } else { "True" };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {
            "selvage.dev/fabric": state, "selvage.dev/fabric-kind": "roce",
            "selvage.dev/rails": "8", "selvage.dev/rail-gbps": "400", "pool": name.get(..1),
        }},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {
            "nodeInfo": {"kernelVersion": "6.8.0-52", "osImage": "Ubuntu 24.04"},
            "images": [{"names": ["a"], "sizeBytes": 1}],
            "conditions": [{"type": "Ready", "status": "True"}, {
                "type": "FabricReady", "status": status, "reason": reason, "message": "mlx5_4/1",
                "lastHeartbeatTime": ago(seen), "lastTransitionTime": ago(660),
            }],
        },
    })
}

/// Some healthy nodes, and one of each trouble; the server's own Node has no agent.
fn fleet() -> FakeApi {
    let api = FakeApi::new(json!({}), Value::Null);
    let mut tainted = node("b-1", "unready", "LinkDown", 30);
    tainted["spec"]["taints"] = json!([
        {"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"}]);
    let mut nodes: Vec<Value> = (0..20)
        .map(|n| node(&format!("a-{n}"), "ready", "FabricReady", 9))
        .collect();
    nodes.extend([
        tainted,
        node("b-2", "degraded", "LinkFlapping", 30),
        node("b-10", "ready", "FabricReady", 7500),
    ]);
    api.state().set_others(nodes);
    api.state().page = 7;
    api
}

#[test]
fn the_table() {
    let api = fleet();
    let plugin = Plugin::new(&api);
    let (status, out, err) = plugin.run(&[]);
    assert_eq!(
        out,
        "\
24 nodes: 1 unready, 1 unknown, 1 degraded, 20 ready, 1 without an agent; taints: 1 of 2 allowed

AgentSilent: 1 node: b-10
LinkDown: 1 node: b-1
LinkFlapping: 1 node: b-2

NODE  VERDICT   REASON        SINCE  RAILS   TAINT
b-1   unready   LinkDown      11m    8x400G  yes
b-10  unknown   AgentSilent   2h     8x400G  -
b-2   degraded  LinkFlapping  -      8x400G  -
"
    );
    assert_eq!((status, err.as_str()), (1, ""));
    let asked: Vec<String> = api.log().into_iter().map(|seen| seen.uri).collect();
    assert_eq!(asked.len(), 4, "pages: {asked:?}");
    assert!(
        asked.iter().all(|uri| uri.contains("limit=500")),
        "{asked:?}"
    );

    let (_, wide, _) = plugin.run(&["-o", "wide"]);
    assert!(
        wide.contains("a-0 ") && wide.contains("kernel=6.8.0-52"),
        "{wide}"
    );
    let (status, json, _) = plugin.run(&["-o", "json", "-l", "pool=b"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (status, &json["schema"]),
        (1, &json!("selvage.dev/fleet/v1"))
    );
    assert_eq!(json["counts"]["nodes"], 3, "{json:#}");
    assert_eq!(json["nodes"][0]["taint"], "applied", "{json:#}");
    let (status, out, _) = plugin.run(&["-l", "pool=a"]);
    assert_eq!(out, "20 nodes: 20 ready\n");
    assert_eq!(status, 0);
    assert!(api.writes().is_empty());
}

#[test]
fn a_server_that_cannot_be_asked() {
    let api = fleet();
    let plugin = Plugin::new(&api);
    api.fail("GET", "/nodes", 1, Wrong::Status(403, Value::Null));
    let (status, out, err) = plugin.run(&[]);
    assert_eq!((status, out.as_str()), (70, ""));
    assert!(err.contains("list the nodes: 403"), "{err}");
    // A page that is too long is asked for in halves.
    api.fail("GET", "limit=500", 9, Wrong::Bytes(17 << 20));
    let (status, out, err) = plugin.run(&[]);
    assert_eq!(status, 1, "{err}");
    assert!(out.starts_with("24 nodes: "), "{out}");
    api.set_up(false);
    assert_eq!(plugin.run(&[]).0, 70);
    assert_eq!(plugin.run(&["--context", "nonesuch"]).0, 70);
    assert_eq!(plugin.run(&["mute", "b-1", "4h"]).0, 70);
}

#[test]
fn mutes_and_acceptance_are_annotations() {
    let api = fleet();
    let plugin = Plugin::new(&api);
    let annotations = || api.state().node("b-1").unwrap()["metadata"]["annotations"].clone();
    let before = api.state().node("b-1").unwrap().clone();
    let (status, out, err) = plugin.run(&["mute", "b-1", "4h", "LinkFlapping", "taint"]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    let text = annotations()["selvage.dev/mute"]
        .as_str()
        .unwrap()
        .to_string();
    assert_eq!(out, format!("b-1: muted until: {text}\n"));
    let mutes = selvage::cluster::silence::Mutes::parse(&text, |id| id == "link_flap");
    assert!(mutes.complaints.is_empty(), "{text}");
    assert!(mutes.taint(ago(-14_000).parse().unwrap()), "{text}");
    assert!(!mutes.taint(ago(-14_500).parse().unwrap()), "{text}");
    assert_eq!(mutes.checks(jiff::Timestamp::now()).count(), 1, "{text}");

    // Somebody else was quicker: read again.
    api.fail("PATCH", "/nodes/b-1", 1, Wrong::Status(409, Value::Null));
    let (status, out, _) = plugin.run(&["unmute", "b-1", "link_flap"]);
    assert!(
        status == 0 && out.starts_with("b-1: muted until: taint="),
        "{out}"
    );
    let (status, out, _) = plugin.run(&["unmute", "b-1"]);
    assert_eq!((status, out.as_str()), (0, "b-1: nothing is muted\n"));
    assert_eq!(
        plugin.run(&["accept", "b-1", "--prefix", "example.com/"]).0,
        0
    );
    let accepted = annotations()["example.com/accept"]
        .as_str()
        .unwrap()
        .parse::<jiff::Timestamp>();
    assert!(
        accepted
            .unwrap()
            .duration_since(jiff::Timestamp::now())
            .as_secs()
            .abs()
            < 60
    );

    // An acceptance counts although the one before it came from a clock that was ahead.
    let ahead = "2126-01-01T00:00:00Z";
    api.state().change_node("b-1", |node| {
        node["metadata"]["annotations"]["selvage.dev/accept"] = json!(ahead);
        Ok(())
    });
    assert_eq!(plugin.run(&["accept", "b-1"]).0, 0);
    assert_eq!(annotations()["selvage.dev/accept"], "2126-01-01T00:00:01Z");

    // Nothing else was written.
    let mut after = api.state().node("b-1").unwrap().clone();
    after["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(after, before);

    let writes = api.writes().len();
    for (args, complaints) in [
        (&["mute", "b-1", "4", "nonesuch", "link_flap"][..], 2),
        (&["mute", "b-1", "0s"], 1),
        (&["unmute", "b-1", "Link"], 1),
        (&["--prefix", "x"], 1),
        (&["-w", "-o", "json"], 1),
        (&["-w", "node", "b-1"], 1),
        (&["--targets", "/x", "accept", "b-1"], 1),
        (&["unmute", "b-1", "-l", "pool=a"], 1),
    ] {
        let (status, _, err) = plugin.run(args);
        assert_eq!(
            (status, err.lines().count()),
            (64, complaints),
            "{args:?}: {err}"
        );
    }
    let (status, _, err) = plugin.run(&["accept", "nonesuch"]);
    assert!(status == 70 && err.contains("404"), "{err}");
    assert_eq!(api.writes().len(), writes);
}

#[test]
fn one_nodes_report_comes_by_the_pod_proxy() {
    let api = fleet();
    let plugin = Plugin::new(&api);
    let pod = |name: &str, phase: &str, node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "selvage", "uid": name},
            "spec": {"nodeName": node, "containers": [{
                "name": "agent", "ports": [{"name": "metrics", "containerPort": 9100}],
                "livenessProbe": {"httpGet": {"port": "metrics", "scheme": "HTTPS"}},
            }]},
            "status": {"phase": phase},
        })
    };
    api.put_pod(pod("selvage-old", "Failed", "b-1"));
    api.put_pod(pod("selvage-new", "Running", "b-1"));
    api.put_pod(pod("selvage-other", "Running", "b-2"));
    let address = |path: &str| ("https:selvage-new:9100".to_string(), path.to_string());
    let text = "/report?format=text&width=80&colour=false";
    api.state().proxied.insert(address(text), json!("READY"));
    api.state()
        .proxied
        .insert(address("/report"), json!({"state": "ready"}));
    let (status, out, err) = plugin.run(&["node", "b-1"]);
    assert_eq!((status, out.as_str()), (0, "\"READY\"\n"), "{err}");
    let (status, out, err) = plugin.run(&["node", "b-1", "-o", "json"]);
    assert_eq!(
        (status, out.as_str()),
        (0, "{\"state\":\"ready\"}\n"),
        "{err}"
    );
    let (status, _, err) = plugin.run(&["node", "a-1"]);
    assert_eq!(status, 70);
    assert!(err.contains("no agent runs on \"a-1\""), "{err}");
    assert!(plugin.run(&["node", "b-2"]).2.contains("503"));
    let asked = api
        .log()
        .into_iter()
        .find(|seen| seen.uri.contains("/pods?"))
        .unwrap();
    assert!(
        asked
            .uri
            .contains("labelSelector=app.kubernetes.io%2Fname%3Dselvage"),
        "{asked:?}"
    );
}

/// The report of a simulated node, by `selvage check`.
fn report(name: &str, rail_down: bool) -> String {
    let (dir, mut node) = support::node("h100_ib");
    if rail_down {
        let down = selvage::simulate::Change::Link {
            device: "mlx5_4".into(),
            up: false,
        };
        node.apply(&down).unwrap();
    }
    let root = format!("--host-root={}", dir.path().display());
    let name = format!("--node-name={name}");
    let done = support::program()
        .args(["check", "-o", "json", &root, &name])
        // A read that waits for a busy machine does not hang.
        .arg("--set=intervals.deadline=1m")
        .output()
        .unwrap();
    String::from_utf8(done.stdout).unwrap()
}

/// Answers every request with this body, until the test ends.
fn serve(body: String) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn without_kubernetes_the_agents_are_asked() {
    let api = fleet();
    let plugin = Plugin::new(&api);
    let hung = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let list = format!(
        "# rack 1\n{}\n{} # the odd one\n{}\n{}\n",
        serve(report("gpu-1", false)),
        serve(report("gpu-2", true)),
        serve("READY".into()),
        hung.local_addr().unwrap(),
    );
    let path = plugin.dir.path().join("targets");
    std::fs::write(&path, list).unwrap();
    let path = path.to_str().unwrap();
    let (status, out, err) = plugin.run(&["--targets", path]);
    assert!(
        out.starts_with("4 nodes: 1 unready, 2 unknown, 1 ready\n"),
        "{out}{err}"
    );
    let row = out.lines().find(|line| line.starts_with("gpu-2 ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..3], ["unready", "LinkDown"], "{out}");
    assert_eq!(cells[4], "7/8x400G", "{out}");
    assert_eq!((status, err.as_str()), (1, ""));
    let (_, json, _) = plugin.run(&["--targets", path, "-o", "json"]);
    assert!(
        json.contains("is not a report") && json.contains("no answer within 2 s"),
        "{json}"
    );
    assert!(api.log().is_empty(), "the API server was asked");
    std::fs::write(path, "a b\n/\n").unwrap();
    let (status, _, err) = plugin.run(&["--targets", path]);
    assert_eq!((status, err.lines().count()), (64, 2), "{err}");
    assert_eq!(plugin.run(&["--targets", "/nonexistent"]).0, 64);
}

#[test]
fn a_watch_shows_what_changes() {
    let api = fleet();
    let plugin = Plugin::new(&api);
    let mut child = plugin
        .command(&["--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next_headline = || {
        let mut heads = lines.by_ref().map(|line| line.unwrap());
        heads
            .find(|line| line.contains(" nodes: "))
            .expect("a screen")
    };
    assert!(next_headline().starts_with("24 nodes: 1 unready, 1 unknown, 1 degraded, 20 ready"));
    api.state().change_node("b-2", |node| {
        node["metadata"]["labels"]["selvage.dev/fabric"] = json!("unready");
        Ok(())
    });
    assert!(next_headline().starts_with("24 nodes: 2 unready, 1 unknown, 20 ready"));
    // SIGINT, as of Ctrl-C.
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id() as i32),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(
        lines
            .filter(|line| line.as_ref().is_ok_and(|line| line.contains(" nodes: ")))
            .count(),
        0
    );
}
