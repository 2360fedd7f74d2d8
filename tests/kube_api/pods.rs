//! The watch of the node's pods against a server that pages, forgets, refuses, goes away and lies.

use crate::fake_api::{FakeApi, Wrong};
use crate::support;
use crate::told::{BOUND, short, until};
use selvage::cluster::ClusterSettings;
use selvage::cluster::pods::{Health, PodTable, PodWatch};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

const LIST: &str = "resourceVersion=0&";

/// A watch that runs.
struct Watching {
    known: watch::Receiver<Arc<PodTable>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Watching {
    fn start(api: &FakeApi) -> Self {
        Self::start_as(api, "token: x")
    }

    fn start_as(api: &FakeApi, user: &str) -> Self {
        let dir = support::scratch();
        let file = dir.path().join("config");
        std::fs::write(&file, api.kubeconfig(user)).unwrap();
        let settings = ClusterSettings {
            kubeconfig: file.to_str().unwrap().into(),
            ..ClusterSettings::default()
        };
        let (table, known) = watch::channel(Arc::new(PodTable::default()));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let watch = PodWatch::new(settings, "node-1", usize::MAX, short());
            runtime.block_on(async {
                tokio::select! {
                    () = watch.run(table) => {}
                    _ = stopped => {}
                }
            });
        });
        Watching {
            known,
            stop: Some(stop),
            thread: Some(thread),
            _dir: dir,
        }
    }

    fn table(&self) -> Arc<PodTable> {
        Arc::clone(&self.known.borrow())
    }

    fn uids(&self) -> Vec<String> {
        self.table().by_uid.keys().cloned().collect()
    }

    fn health(&self) -> Health {
        self.table().health
    }

    /// All is known, and it is these.
    fn knows(&self, what: &str, uids: &[&str]) {
        until(what, || {
            self.health() == Health::Known && self.uids() == uids
        });
    }
}

fn api() -> FakeApi {
    FakeApi::new(json!({}), Value::Null)
}

fn pod(uid: &str) -> Value {
    json!({
        "metadata": {"name": format!("pod-{uid}"), "namespace": "ml", "uid": uid},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        },
        "status": {"phase": "Running"},
    })
}

fn asked(api: &FakeApi, part: &str) -> usize {
    let log = api.log();
    log.iter()
        .filter(|seen| seen.uri.starts_with("/api/v1/pods") && seen.uri.contains(part))
        .count()
}

fn lists(api: &FakeApi) -> usize {
    asked(api, "/api/v1/pods?") - asked(api, "watch=true")
}

#[test]
fn what_comes_changes_and_goes_is_known() {
    let api = api();
    api.put_pod(pod("a"));
    let watching = Watching::start(&api);
    watching.knows("list", &["a"]);
    assert_eq!(watching.table().by_uid["a"].containers["main"].gpus, 8);
    until("watch", || api.pod_watches() == 1);
    api.put_pod(pod("b"));
    watching.knows("pod that came", &["a", "b"]);
    let mut ended = pod("a");
    ended["status"]["phase"] = json!("Succeeded");
    api.put_pod(ended);
    until("change", || watching.table().by_uid["a"].finished);
    api.delete_pod("a");
    watching.knows("pod that went", &["b"]);
    // Nothing but this node's, from the server's cache, and no write.
    let log = api.log();
    let first = &log.first().unwrap().uri;
    assert!(
        first.contains("resourceVersion=0") && first.contains("spec.nodeName%3Dnode-1"),
        "{first}"
    );
    assert!(log.iter().all(|seen| seen.method == "GET"));
    assert_eq!(lists(&api), 1);
}

#[test]
fn a_change_that_is_none_to_us_wakes_nobody() {
    let api = api();
    api.put_pod(pod("a"));
    let watching = Watching::start(&api);
    watching.knows("list", &["a"]);
    until("watch", || api.pod_watches() == 1);
    let before = watching.table();
    let mut changed = pod("a");
    changed["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    api.put_pod(changed);
    api.tell_pod_watchers(&json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": "500"}}}).to_string());
    api.put_pod(pod("b"));
    watching.knows("the pod after it", &["a", "b"]);
    assert!(Arc::ptr_eq(
        &before.by_uid["a"],
        &watching.table().by_uid["a"]
    ));
}

#[test]
fn a_server_whose_cache_stays_behind_is_asked_for_what_is_so_in_pages() {
    let api = api();
    api.state().page = 3;
    let uids: Vec<String> = (0..10).map(|n| format!("u{n}")).collect();
    for uid in &uids {
        api.put_pod(pod(uid));
    }
    // Each watch from what the cache says is too old.
    let gone = || Wrong::Status(410, Value::Null);
    api.fail("GET", "watch=true", 2, gone());
    // A page that is lost: from the beginning, and nothing half is told.
    api.fail("GET", "continue=6", 1, gone());
    let watching = Watching::start(&api);
    until("watch", || api.pod_watches() == 1);
    let want: Vec<&str> = uids.iter().map(String::as_str).collect();
    watching.knows("all pages", &want);
    let log = api.log();
    let query = |seen: &crate::fake_api::Seen| {
        let parts: Vec<&str> = seen.uri.split(['?', '&']).collect();
        let kept = ["limit", "continue", "resourceVersion="];
        let kept = parts
            .into_iter()
            .filter(|part| kept.iter().any(|k| part.starts_with(k)));
        kept.collect::<Vec<_>>().join(" ")
    };
    let lists: Vec<String> = log
        .iter()
        .filter(|seen| !seen.uri.contains("watch=true"))
        .map(query)
        .collect();
    let cached = "resourceVersion=0";
    let pages = [
        "limit=10",
        "limit=10 continue=3",
        "limit=10 continue=6",
        "limit=10 continue=9",
    ];
    let want: Vec<&str> = [cached, cached]
        .into_iter()
        .chain(pages[..3].iter().copied())
        .chain(pages)
        .collect();
    assert_eq!(lists, want);
}

#[test]
fn a_watch_that_ends_is_taken_up_where_it_was() {
    let api = api();
    api.put_pod(pod("a"));
    let watching = Watching::start(&api);
    watching.knows("list", &["a"]);
    until("watch", || api.pod_watches() == 1);
    // A bookmark moves on what is gone on from, past what is forgotten.
    let version = "150";
    api.tell_pod_watchers(
        &json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": version}}})
            .to_string(),
    );
    api.put_pod(pod("z"));
    watching.knows("pod", &["a", "z"]);
    api.tell_pod_watchers(
        &json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": version}}})
            .to_string(),
    );
    for round in 1..=3 {
        api.end_pod_watches();
        until("watch", || api.pod_watches() == 1);
        api.put_pod(pod(&format!("b{round}")));
        until("pod", || watching.uids().len() == 2 + round);
    }
    assert_eq!(lists(&api), 1);
    assert!(asked(&api, &format!("resourceVersion={version}")) >= 1);
    assert_eq!(watching.health(), Health::Known);
}

#[test]
fn a_server_that_ends_every_watch_at_once_is_asked_less_and_less() {
    let api = api();
    api.put_pod(pod("a"));
    api.fail("GET", "watch=true", usize::MAX, Wrong::Bytes(0));
    let watching = Watching::start(&api);
    watching.knows("list", &["a"]);
    until("nine watches", || asked(&api, "watch=true") >= 9);
    let log = api.log();
    let mut watches = log.iter().filter(|seen| seen.uri.contains("watch=true"));
    let (first, ninth) = (watches.next().unwrap(), watches.nth(7).unwrap());
    // Waits of 20, 40, 80 ms and then five of 100, each of which may be half as long.
    let least = Duration::from_millis(640 / 2);
    assert!(ninth.at - first.at >= least, "{:?}", ninth.at - first.at);
    api.heal();
    api.put_pod(pod("b"));
    watching.knows("what comes later", &["a", "b"]);
}

#[test]
fn an_answer_without_end_is_cut_and_asked_for_in_parts() {
    let api = api();
    api.put_pod(pod("a"));
    const LONG: usize = 17 << 20;
    api.fail("GET", LIST, 1, Wrong::Bytes(LONG));
    api.fail("GET", "watch=true", 2, Wrong::Bytes(LONG));
    let watching = Watching::start(&api);
    watching.knows("pages", &["a"]);
    until("watch", || api.pod_watches() == 1);
    assert!(asked(&api, "limit=10") >= 1, "the list is taken in pages");
}

#[test]
fn a_kubeconfig_is_a_regular_file_of_bounded_length() {
    let dir = support::scratch();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let api = api();
    let names_pipe = dir.path().join("names-a-pipe");
    let user = format!("tokenFile: {}", pipe.display());
    std::fs::write(&names_pipe, api.kubeconfig(&user)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for path in [Path::new("/dev/zero"), &pipe, &names_pipe] {
        let settings = ClusterSettings {
            kubeconfig: path.to_str().unwrap().into(),
            ..ClusterSettings::default()
        };
        let limits = short();
        let connected = selvage::cluster::api::connect(&settings, &limits, None);
        let Err(error) = runtime.block_on(connected) else {
            panic!("{path:?} was taken");
        };
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

#[test]
fn what_was_missed_while_the_past_was_forgotten_is_listed() {
    for by_status in [false, true] {
        let api = api();
        api.put_pod(pod("a"));
        api.put_pod(pod("b"));
        let watching = Watching::start(&api);
        watching.knows("list", &["a", "b"]);
        until("watch", || api.pod_watches() == 1);
        if by_status {
            api.fail("GET", "watch=true", 1, Wrong::Status(410, Value::Null));
        }
        {
            // Nobody is told of these.
            let mut state = api.state();
            state.pods.remove(0);
        }
        api.put_pod(pod("c"));
        api.forget_the_past();
        watching.knows("what is so now", &["b", "c"]);
        assert_eq!(lists(&api), 2, "by status: {by_status}");
    }
}

#[test]
fn without_the_right_nothing_is_known_until_it_is_granted() {
    let api = api();
    api.put_pod(pod("a"));
    api.fail(
        "GET",
        "/api/v1/pods",
        1_000_000,
        Wrong::Status(403, Value::Null),
    );
    let watching = Watching::start(&api);
    until("refusal", || watching.health() == Health::Forbidden);
    assert!(watching.uids().is_empty());
    assert!(watching.table().error.as_ref().unwrap().contains("403"));
    api.heal();
    watching.knows("list", &["a"]);
    assert_eq!(watching.table().error, None);
    // Taken away while it runs: what is no longer looked at is no longer known.
    until("watch", || api.pod_watches() == 1);
    api.fail(
        "GET",
        "/api/v1/pods",
        1_000_000,
        Wrong::Status(403, Value::Null),
    );
    api.end_pod_watches();
    until("refusal", || watching.health() == Health::Forbidden);
    assert!(watching.uids().is_empty());
}

#[test]
fn a_right_that_is_missing_is_asked_for_rarely() {
    let limits = selvage::cluster::RateLimits::default();
    assert_eq!(limits.forbidden.1, Duration::from_secs(600));
}

#[test]
fn while_the_server_is_away_what_was_known_stays() {
    let api = api();
    api.put_pod(pod("a"));
    let watching = Watching::start(&api);
    watching.knows("list", &["a"]);
    api.set_up(false);
    until("word of it", || watching.health() == Health::Away);
    assert_eq!(watching.uids(), ["a"]);
    assert!(watching.table().error.is_some());
    api.put_pod(pod("b"));
    api.set_up(true);
    watching.knows("what came meanwhile", &["a", "b"]);
}

#[test]
fn every_error_is_outlived() {
    let no = || Value::Null;
    for (case, part, times, wrong) in [
        ("list 500", LIST, 3, Wrong::Status(500, no())),
        ("list closed", LIST, 2, Wrong::Close),
        ("list half-open", LIST, 1, Wrong::Stall),
        (
            "list throttled",
            LIST,
            1,
            Wrong::Status(429, json!({"retryAfterSeconds": 0})),
        ),
        ("watch 500", "watch=true", 3, Wrong::Status(500, no())),
        ("watch closed", "watch=true", 2, Wrong::Close),
        ("watch half-open", "watch=true", 1, Wrong::Stall),
    ] {
        let api = api();
        api.put_pod(pod("a"));
        api.fail("GET", part, times, wrong);
        let watching = Watching::start(&api);
        until(case, || api.pod_watches() == 1);
        api.put_pod(pod("b"));
        watching.knows(case, &["a", "b"]);
    }
}

#[test]
fn a_token_that_was_rotated_is_read_anew() {
    let api = api();
    api.put_pod(pod("a"));
    api.state().token = Some("new".into());
    let dir = support::scratch();
    let token = dir.path().join("token");
    std::fs::write(&token, "old").unwrap();
    let watching = Watching::start_as(&api, &format!("tokenFile: '{}'", token.display()));
    until("a refusal", || watching.table().error.is_some());
    assert_eq!(watching.health(), Health::Away, "a token is no right");
    std::fs::write(&token, "new").unwrap();
    watching.knows("list", &["a"]);
}

#[test]
fn hostile_pods_are_passed_over_and_the_others_kept() {
    let api = api();
    let mut huge = pod("huge");
    let variables: Vec<Value> = (0..3000)
        .map(|n| json!({"name": format!("NCCL_{n}"), "value": "x".repeat(400)}))
        .collect();
    huge["spec"]["containers"][0]["env"] = json!(variables);
    let mut odd = pod("odd");
    odd["spec"]["containers"] = json!("none");
    let mut nameless = pod("nameless");
    nameless["metadata"]["name"] = Value::Null;
    for pod in [pod("a"), huge, odd, nameless, pod("b")] {
        api.put_pod(pod);
    }
    let watching = Watching::start(&api);
    watching.knows("list", &["a", "b", "huge"]);
    let kept = &watching.table().by_uid["huge"].containers["main"].env;
    assert!(kept.len() <= 64 && kept.values().all(|value| value.len() <= 256));
    // The same in a watch; what makes no sense there costs a list at most.
    until("watch", || api.pod_watches() == 1);
    for line in [
        r#"{"type":"ADDED","object":{"metadata":{"uid":"q"},"spec":7}}"#,
        r#"{"type":"ADDED","object":null}"#,
        r#"{"type":"ADDED"}"#,
        r#"{"type":5,"object":{}}"#,
        r#"{"type":"DELETED","object":{"metadata":{"uid":["a"]}}}"#,
        r#"{"type":"DELETED","object":{"metadata":{"uid":"never seen"}}}"#,
        "{}",
    ] {
        api.tell_pod_watchers(line);
    }
    api.put_pod(pod("c"));
    watching.knows("the pod after them", &["a", "b", "c", "huge"]);
    // What is not JSON at all ends the watch, which is taken up again.
    until("watch", || api.pod_watches() == 1);
    api.tell_pod_watchers("<html>");
    api.put_pod(pod("d"));
    watching.knows("the pod after it", &["a", "b", "c", "d", "huge"]);
}

#[test]
fn a_server_that_ends_every_watch_at_once_is_not_hammered() {
    let api = api();
    api.put_pod(pod("a"));
    let watching = Watching::start(&api);
    watching.knows("list", &["a"]);
    let began = Instant::now();
    let before = asked(&api, "watch=true");
    while began.elapsed() < Duration::from_millis(600) {
        api.end_pod_watches();
        std::thread::sleep(Duration::from_millis(1));
        assert!(began.elapsed() < BOUND);
    }
    // Waits here are from 20 to 100 ms, half of it by chance.
    let times = asked(&api, "watch=true") - before;
    assert!(times < 40, "{times} times in 600 ms");
    watching.knows("all", &["a"]);
}
