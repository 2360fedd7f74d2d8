//! The agent as a program, over TLS: what it serves to whom, a certificate that is swapped under it,
//! and files with which it does not start.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test code"
)]

#[path = "support/pki.rs"]
mod pki;
mod support;

use pki::{Authority, Client, Leaf};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Server, get, node, parse, scratch};

/// The files are looked at every ten seconds; a machine that is busy may need longer.
const BOUND: Duration = Duration::from_secs(60);

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    // By renaming, as who writes certificates should.
    std::fs::write(dir.join("new"), text).unwrap();
    std::fs::rename(dir.join("new"), &path).unwrap();
    path.to_str().unwrap().to_string()
}

fn write_leaf(dir: &Path, leaf: &Leaf) -> [String; 2] {
    [
        format!(
            "--set=serve.tls_cert={}",
            write(dir, "tls.crt", &leaf.chain)
        ),
        format!("--set=serve.tls_key={}", write(dir, "tls.key", &leaf.key)),
    ]
}

fn value(metrics: &str, family: &str) -> Option<f64> {
    let series = parse(metrics.split_once("\r\n\r\n")?.1);
    let found = series.iter().find(|series| series.family == family);
    found.map(|series| series.value)
}

#[tokio::test]
async fn an_agent_behind_tls() {
    let (tree, _node) = node("h100_ib");
    let secret = scratch();
    let authority = Authority::new("a");
    let (old, new) = (authority.issue(2100), authority.issue(2101));
    let client = Client::new(&authority, Some(&old));
    let probe = Client::new(&authority, None);
    let [cert, key] = write_leaf(secret.path(), &old);
    let ca = write(secret.path(), "ca.crt", &authority.pem());
    let token = write(secret.path(), "token", "sesame\n");
    let agent = Server::agent(
        tree.path(),
        &[
            &cert,
            &key,
            &format!("--set=serve.tls_client_ca={ca}"),
            &format!("--set=serve.token_file={token}"),
        ],
    );
    let address = agent.address.as_str();
    let code = async |client: &Client<'_>, path, token| {
        let answer = client.get(address, path, token).await;
        answer.expect("an answer").0
    };
    assert_eq!(code(&probe, "/healthz", "").await, 200);
    assert_eq!(code(&probe, "/metrics", "").await, 401);
    assert_eq!(code(&probe, "/report", "sesame").await, 200);
    let expiry = "selvage_tls_certificate_expiry_timestamp_seconds";
    let failures = "selvage_serve_reload_failures_total";
    let (_, metrics) = client.get(address, "/metrics", "").await.unwrap();
    assert_eq!(value(&metrics, expiry), Some(4_102_444_800.0));
    assert_eq!(value(&metrics, failures), Some(0.0));

    write_leaf(secret.path(), &new);
    let end = Instant::now() + BOUND;
    loop {
        let (_, metrics) = client.get(address, "/metrics", "").await.unwrap();
        // Between the two renames the pair may have been looked at: a failure, which is told.
        if value(&metrics, expiry) == Some(4_133_980_800.0) {
            break;
        }
        assert!(Instant::now() < end, "not taken in within {BOUND:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn without_settings_it_is_plain_and_open() {
    let (tree, _node) = node("h100_ib");
    let agent = Server::agent(tree.path(), &[]);
    let (code, body) = get(&agent.address, "/metrics");
    assert_eq!(code, 200);
    assert!(!body.contains("selvage_tls_") && !body.contains("selvage_serve_"));
}

#[test]
fn files_that_will_not_do_stop_it_before_it_serves() {
    let (tree, _node) = node("h100_ib");
    let secret = scratch();
    let authority = Authority::new("a");
    let [cert, key] = write_leaf(secret.path(), &authority.issue(2100));
    let strange = write(secret.path(), "strange.key", &authority.issue(2100).key);
    for (args, want) in [
        (
            vec![
                "--set=serve.tls_cert=/nonesuch",
                &key,
                "--set=serve.token_file=/nonesuch",
            ],
            &[
                "selvage: serve.tls_cert: /nonesuch: cannot be read: No such file",
                "selvage: serve.token_file: /nonesuch: cannot be read: No such file",
            ][..],
        ),
        (
            vec![&cert, &format!("--set=serve.tls_key={strange}")],
            &["it is not the certificate's key"],
        ),
        (
            vec![&cert],
            &["flag --set: serve.tls_cert: has no effect without serve.tls_key"],
        ),
    ] {
        let done = Command::new(env!("CARGO_BIN_EXE_selvage"))
            .arg("agent")
            .arg(format!("--host-root={}", tree.path().display()))
            .args(["--listen=127.0.0.1:0", "--set=agent.state_dir="])
            .args(&args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(64), "{said}");
        for want in want {
            assert!(said.contains(want), "{want}\n{said}");
        }
        assert!(!said.contains("serving"), "{said}");
    }
}
