mod tls;
mod tls_auth;

use super::*;
use crate::check::Status;
use crate::check::job_verdicts::{ContainerVerdict, VerdictSource};
use crate::check::nccl::{Fallback, JobContext, judge};
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::log::LogLimits;
use crate::observe::{ContainerKey, LinkLayer};
use crate::readiness::history::{FindingKey, HistoryEntry, VerdictChange};
use crate::report::State;
use crate::report::testing::{empty, finding, node};
use crate::units::Millis;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longest time that any step of a test may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Server {
    pub(super) address: SocketAddr,
    reports: watch::Sender<Arc<Report>>,
    pub(super) stop: oneshot::Sender<()>,
    pub(super) task: JoinHandle<()>,
}

async fn start(report: Report, limits: HttpLimits) -> Server {
    start_guarded(report, limits, Arc::default()).await
}

pub(super) async fn start_guarded(
    report: Report,
    limits: HttpLimits,
    guard: Arc<TlsAuth>,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (reports, receiver) = watch::channel(Arc::new(report));
    let stats = || AgentStats {
        process: vec![("process_resident_memory_bytes", Some(12_345_678.0))],
        ..AgentStats::default()
    };
    let cluster = watch::channel(None).1;
    let state = Arc::new(ServeState {
        reports: receiver,
        cluster,
        rendered: Default::default(),
        stats,
        detail: Default::default(),
        limits,
        guard,
        hosts: Hosts::default(),
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(serve(listener, state, async {
        let _ = stopped.await;
    }));
    Server {
        address,
        reports,
        stop,
        task,
    }
}

impl Server {
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and gives everything that comes back until the server closes.
    pub(super) async fn talk(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes).await;
        read_all(&mut stream).await
    }

    async fn get(&self, path: &str) -> String {
        self.talk(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await
    }

    async fn assert_alive(&self) {
        let answer = self.get("/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends the answer as well as a close does.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("the server neither answered nor closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Limits under which waiting is short.
pub(super) fn hasty() -> HttpLimits {
    HttpLimits {
        header_timeout: Duration::from_millis(100),
        write_timeout: Duration::from_millis(100),
        ..HttpLimits::default()
    }
}

#[tokio::test]
async fn routes() {
    let server = start(node(8, LinkLayer::Infiniband), HttpLimits::default()).await;
    for (path, status, kind, part) in [
        (
            "/metrics",
            "200 OK",
            exposition::METRICS_TYPE,
            "\nselvage_fabric_ready 1\n",
        ),
        (
            "/metrics",
            "200 OK",
            exposition::METRICS_TYPE,
            "\nprocess_resident_memory_bytes 12345678\n",
        ),
        (
            "/report",
            "200 OK",
            "application/json",
            "\"schema\":\"selvage.dev/report/v1\"",
        ),
        ("/report?x=1", "200 OK", "application/json", "\"mlx5_7\""),
        ("/healthz", "200 OK", TEXT_TYPE, "ok\n"),
        ("/readyz", "200 OK", TEXT_TYPE, "first full window seen\n"),
        (
            "/",
            "200 OK",
            "text/html; charset=utf-8",
            "href=\"/metrics\"",
        ),
        (
            "/",
            "200 OK",
            "text/html; charset=utf-8",
            "\r\nrefresh: 10\r\n",
        ),
        (
            "/",
            "200 OK",
            "text/html; charset=utf-8",
            "\r\ncontent-security-policy: default-src 'none';",
        ),
        (
            "/paused",
            "200 OK",
            "text/html; charset=utf-8",
            "<a href=\"/\">Resume</a>",
        ),
        (
            "/runbooks",
            "200 OK",
            "text/html; charset=utf-8",
            "/runbooks/SelvageRailDown",
        ),
        (
            "/runbooks/",
            "200 OK",
            "text/html; charset=utf-8",
            "/runbooks/SelvageRailDown",
        ),
        (
            "/runbooks/SelvageRailDown",
            "200 OK",
            "text/html; charset=utf-8",
            "<h1>SelvageRailDown</h1>",
        ),
        (
            "/runbooks/SelvageRailDown.md",
            "200 OK",
            TEXT_TYPE,
            "# SelvageRailDown",
        ),
        ("/runbooks/README.md", "200 OK", TEXT_TYPE, "# Runbooks"),
        ("/runbooks/Nope", "404 Not Found", TEXT_TYPE, "not found"),
        ("/runbooksX", "404 Not Found", TEXT_TYPE, "not found"),
        ("/nope", "404 Not Found", TEXT_TYPE, "not found"),
        ("/metrics/", "404 Not Found", TEXT_TYPE, "not found"),
    ] {
        let answer = server.get(path).await.to_lowercase();
        for want in [
            format!("http/1.1 {status}\r\n"),
            format!("content-type: {kind}\r\n"),
            part.to_string(),
        ] {
            assert!(
                answer.contains(&want.to_lowercase()),
                "{path}: {want}\n{answer}"
            );
        }
    }
}

#[tokio::test]
async fn not_ready_until_the_first_full_window() {
    let server = start(empty(), HttpLimits::default()).await;
    let answer = server.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    server.assert_alive().await;
    let mut report = empty();
    report.full_window = true;
    server.reports.send_replace(Arc::new(report));
    assert!(server.get("/readyz").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn answers_follow_the_report() {
    let server = start(empty(), HttpLimits::default()).await;
    assert!(
        server
            .get("/metrics")
            .await
            .contains("selvage_fabric_ready 0")
    );
    assert!(
        server
            .get("/report")
            .await
            .contains("\"state\":\"unknown\"")
    );
    let mut report = node(1, LinkLayer::Infiniband);
    report.generation = 2;
    assert_eq!(report.state, State::Ready);
    server.reports.send_replace(Arc::new(report));
    assert!(
        server
            .get("/metrics")
            .await
            .contains("selvage_fabric_ready 1")
    );
    assert!(server.get("/report").await.contains("\"state\":\"ready\""));
}

#[tokio::test]
async fn head_tells_the_length_and_sends_nothing() {
    let server = start(empty(), HttpLimits::default()).await;
    let answer = server
        .talk(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await;
    assert!(answer.contains("content-length: 3\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn bad_requests() {
    let server = start(empty(), HttpLimits::default()).await;
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(300));
    let rows: [(&[u8], &str); 8] = [
        (
            b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\nabc",
            "405",
        ),
        (
            b"BREW / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "405",
        ),
        (
            b"POST /nope HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "404",
        ),
        (b"GET /healthz HTTP/1.0\r\n\r\n", "200"),
        (b"\x00\xff\xfe\r\n\r\n", "400"),
        (b"GET / HTTP/9.9\r\n\r\n", "400"),
        (long.as_bytes(), "431"),
        (many.as_bytes(), "431"),
    ];
    for (request, status) in rows {
        let answer = server.talk(request).await;
        let shown = String::from_utf8_lossy(request);
        let shown = shown.chars().take(60).collect::<String>();
        assert!(answer.contains(&format!(" {status} ")), "{shown}: {answer}");
        server.assert_alive().await;
    }
    let answer = server
        .talk(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await;
    assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    // An HTTP/2 preface, and nothing at all.
    server.talk(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    drop(server.connect().await);
    server.assert_alive().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = start(empty(), HttpLimits::default()).await;
    let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nope HTTP/1.1\r\nHost: x\r\n\r\n\
                   GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = server.talk(request.as_bytes()).await;
    let statuses: Vec<&str> = answer
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &answer[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, ["200", "404", "503"], "{answer}");
}

#[tokio::test]
async fn a_client_that_closes_its_side_still_gets_its_answer() {
    let server = start(node(8, LinkLayer::Infiniband), HttpLimits::default()).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.contains("selvage_kmsg_records_lost_total 0"), "cut");
    // Half a request, then nothing: closed without an answer to it.
    let mut stream = server.connect().await;
    stream.write_all(b"GET /met").await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(!read_all(&mut stream).await.contains("200 OK"));
    server.assert_alive().await;
}

#[tokio::test]
async fn slow_headers_and_idle_connections_are_closed() {
    let server = start(empty(), hasty()).await;
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\nHost:"] {
        let answer = server.talk(bytes).await;
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    // Kept alive after an answer, but not indefinitely.
    let answer = server
        .talk(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(answer.contains("200 OK"), "{answer}");
    server.assert_alive().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped() {
    let server = start(node(18, LinkLayer::Ethernet), hasty()).await;
    let mut deaf = server.connect().await;
    let requests = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    // Asks and asks and reads nothing, until the server hangs up.
    tokio::time::timeout(PATIENCE, async {
        while deaf.write_all(&requests).await.is_ok() {}
    })
    .await
    .expect("the connection was kept");
    server.assert_alive().await;
}

#[tokio::test]
async fn a_hundred_idle_connections_lock_no_client_out() {
    let server = start(empty(), HttpLimits::default()).await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(server.connect().await);
    }
    server.assert_alive().await;
    // One that asked lately outlives those that never did.
    let mut busy = server.connect().await;
    let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut buffer = [0; 1024];
    for _ in 0..3 {
        for _ in 1..HttpLimits::default().per_address {
            idle.push(server.connect().await);
        }
        busy.write_all(request).await.unwrap();
        let read = tokio::time::timeout(PATIENCE, busy.read(&mut buffer)).await;
        assert!(read.unwrap().unwrap() > 0, "the busy one was closed");
    }
    server.assert_alive().await;
}

#[tokio::test]
async fn all_at_once_are_all_answered() {
    let server = Arc::new(start(node(8, LinkLayer::Ethernet), HttpLimits::default()).await);
    let mut tasks = JoinSet::new();
    for _ in 0..HttpLimits::default().per_address {
        let server = Arc::clone(&server);
        tasks.spawn(async move { server.get("/metrics").await });
    }
    while let Some(answer) = tasks.join_next().await {
        assert!(answer.unwrap().contains("process_resident_memory_bytes"));
    }
}

/// Counts its answers.
#[derive(Default)]
struct Counting {
    made: AtomicU64,
}

impl Answers for Counting {
    fn answer(&self, _: &Request<Incoming>, _: &Peer) -> Answer {
        self.made.fetch_add(1, Ordering::Relaxed);
        plain(StatusCode::OK, "ok\n")
    }

    fn limits(&self) -> HttpLimits {
        HttpLimits::default()
    }
}

#[tokio::test]
async fn who_asks_for_much_waits_and_probes_do_not() {
    const PIPELINED: usize = 2000;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = Arc::new(Counting::default());
    tokio::spawn(serve(listener, Arc::clone(&state), std::future::pending()));
    let requests = b"GET /report HTTP/1.1\r\nHost: x\r\n\r\n".repeat(PIPELINED);
    let mut hostile = Vec::new();
    for _ in 1..HttpLimits::default().per_address {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&requests).await.unwrap();
        hostile.push(stream);
    }
    let before = state.made.load(Ordering::Relaxed);
    let mut probe = TcpStream::connect(address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    probe.write_all(request).await.unwrap();
    assert!(read_all(&mut probe).await.contains("200 OK"));
    let made = state.made.load(Ordering::Relaxed);
    assert!(
        made < (hostile.len() * PIPELINED) as u64,
        "nothing was waiting"
    );
    // In turns, one answer for each step that the probe takes through the runtime; without them,
    // hyper makes sixteen for every connection each time.
    let between = made - before;
    assert!(between < 40, "{between} answers came before the probe's");
}

#[test]
fn long_answers_pause_once_their_credit_is_spent() {
    let (long, start) = (Duration::from_millis(20), Instant::now());
    let mut credit = Credit::full(start);
    let mut now = start;
    let mut spend = |after: Duration, took: Duration| {
        let began = now + after;
        now = began + took;
        credit.spend(began, now)
    };
    let in_a_row: Vec<_> = (0..6).map(|_| spend(Duration::ZERO, long)).collect();
    let pause = Some(long);
    assert_eq!(in_a_row, [None, None, None, None, pause, pause]);
    // As long a pause is half of the time.
    assert_eq!(spend(long, long), None);
    // The credit does not grow beyond its bound, however long the server is idle.
    assert_eq!(spend(Duration::from_secs(60), CREDIT * 2), Some(CREDIT * 2));
}

#[test]
fn the_client_with_most_connections_makes_room() {
    let limits = HttpLimits {
        connections: 6,
        per_address: 4,
        ..HttpLimits::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    // Connections by the last part of their address, from the one idle longest on.
    for (open, new, left) in [
        (&[1, 2, 3][..], 1, &[1, 2, 3][..]),
        // One too many from its own address.
        (&[2, 1, 1, 1, 1], 1, &[2, 1, 1, 1]),
        // Too many in all: not the idlest of all, but of those with most.
        (&[2, 1, 1, 1, 3, 3], 4, &[2, 3, 1, 1, 3]),
        (&[1, 2, 3, 4, 5, 6], 7, &[6, 2, 3, 4, 5]),
    ] {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let at = |(turn, last): (usize, &u8)| OpenConnection {
            task: runtime.spawn(async {}).abort_handle(),
            active: Arc::new(AtomicU64::new(turn as u64)),
            address: address(*last),
        };
        let mut kept: Vec<OpenConnection> = open.iter().enumerate().map(at).collect();
        make_room(&mut kept, address(new), limits);
        let mut kept: Vec<IpAddr> = kept.iter().map(|one| one.address).collect();
        let mut left: Vec<IpAddr> = left.iter().copied().map(address).collect();
        kept.sort();
        left.sort();
        assert_eq!(kept, left, "{open:?} and then {new}");
    }
}

/// A job that fell back to TCP, with what its log and its pod are called by.
fn add_fallback(report: &mut Report) {
    let mut verdict = judge(&NcclLog::new(LogLimits::CONTAINER), &JobContext::default());
    verdict.tcp_fallback = Fallback::Yes;
    verdict.summary = "a line of its log".into();
    let key = ContainerKey {
        namespace: "secret-team".into(),
        pod: "w-0".into(),
        uid: "u".into(),
        container: "main".into(),
    };
    let container = ContainerVerdict {
        key,
        job: None,
        since: Millis(0),
        via: VerdictSource::Log,
        of_job: true,
        verdict: Arc::new(verdict),
    };
    Arc::make_mut(&mut report.jobs).containers = vec![Arc::new(container)];
    let mut found = finding(
        "nccl_jobs",
        "secret-team/w-0/main",
        "NcclTcpFallback",
        Status::Degraded,
    );
    found.evidence = [("line".to_string(), "a line of its log".into())].into();
    let change = VerdictChange::Raised {
        what: FindingKey {
            check: found.check,
            subject: found.subject.clone(),
            reason: found.reason,
            status: found.status,
            weight: found.weight,
        },
        message: found.message.clone(),
    };
    report.history = [HistoryEntry {
        at: Millis(0),
        change,
    }]
    .into();
    report.findings.push(found);
}

#[test]
fn pods_are_shown_to_those_on_the_node_or_behind_a_guard() {
    let mut report = node(2, LinkLayer::Infiniband);
    add_fallback(&mut report);
    let reports = watch::channel(Arc::new(report)).1;
    let state = |guard: TlsAuth| ServeState {
        reports: reports.clone(),
        cluster: watch::channel(None).1,
        rendered: Default::default(),
        stats: AgentStats::default,
        detail: Default::default(),
        limits: HttpLimits::default(),
        guard: Arc::new(guard),
        hosts: Hosts::default(),
    };
    let shown = |route: &'static str, from: &str| {
        let client = Peer {
            address: from.parse().unwrap(),
            chain: Vec::new(),
        };
        let state = state(TlsAuth::default());
        state.report_for(route, &client, &state.guard.access())
    };
    for route in ["/report", "/", "/paused"] {
        for (from, names) in [("127.0.0.1", true), ("::1", true), ("10.0.0.9", false)] {
            let report = shown(route, from);
            let text = json::encode(&report, None) + &page::encode(&report, None, Refresh::Off);
            for secret in ["secret-team", "w-0", "a line of its log"] {
                assert_eq!(text.contains(secret), names, "{route} {from} {secret}");
            }
            assert!(text.contains("NcclTcpFallback"), "the verdict stays");
        }
    }
    // Scrapes need the names: they are labels.
    assert!(!shown("/metrics", "10.0.0.9").jobs.containers.is_empty());
}

#[tokio::test]
async fn shutdown_ends_it_although_clients_linger() {
    let server = start(empty(), HttpLimits::default()).await;
    let mut lingering = server.connect().await;
    lingering
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /")
        .await
        .unwrap();
    server.assert_alive().await;
    server.stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE, server.task)
        .await
        .expect("still serving")
        .unwrap();
    assert!(read_all(&mut lingering).await.contains("200 OK"));
    assert!(TcpStream::connect(server.address).await.is_err());
}
