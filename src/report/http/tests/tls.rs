//! The server's bounds hold over TLS, and nothing is said outside it.

use super::tls_auth::pki::{Authority, Client, ask};
use super::tls_auth::{Secret, serve_secret, tls};
use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn nothing_is_told_in_plain_words_on_a_tls_port() {
    let authority = Authority::new("a");
    let secret = Secret::new(&tls(&authority.issue(2100)));
    let (server, _) = serve_secret(&secret, HttpLimits::default()).await;
    for request in [
        &b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0x16, 3, 1, 0xff, 0xff],
        &[0xff; 100_000],
    ] {
        let answer = server.talk(request).await;
        assert!(!answer.contains("HTTP") && answer.len() < 32, "{answer:?}");
    }
    let client = Client::new(&authority, None);
    let answer = client.get(server.address, "/healthz", "").await;
    assert_eq!(answer.unwrap().0, 200);
}

#[tokio::test]
async fn handshakes_that_come_to_nothing_are_cut() {
    let authority = Authority::new("a");
    let secret = Secret::new(&tls(&authority.issue(2100)));
    let (server, _) = serve_secret(&secret, hasty()).await;
    // `talk` waits until the server hangs up.
    for begin in [&b""[..], &[0x16, 3, 1], &[0x16, 3, 1, 2, 0, 1, 0, 1]] {
        assert_eq!(server.talk(begin).await, "", "{begin:x?}");
    }
    // With ample time they count as connections, and the idlest make room.
    let (server, _) = serve_secret(&secret, HttpLimits::default()).await;
    let mut stuck = Vec::new();
    for _ in 0..100 {
        let mut stream = server.connect().await;
        let _ = stream.write_all(&[0x16, 3, 1]).await;
        stuck.push(stream);
    }
    let client = Client::new(&authority, None);
    let answer = client.get(server.address, "/healthz", "").await;
    assert_eq!(answer.unwrap().0, 200);
    let mut end = [0];
    let first = tokio::time::timeout(PATIENCE, stuck[0].read(&mut end)).await;
    assert!(matches!(first.unwrap(), Ok(0) | Err(_)), "it was kept");
}

#[tokio::test]
async fn idle_and_deaf_clients_are_dropped_over_tls_too() {
    let authority = Authority::new("a");
    let secret = Secret::new(&tls(&authority.issue(2100)));
    // A busy machine needs a while for the handshake.
    let limits = HttpLimits {
        header_timeout: Duration::from_secs(2),
        ..hasty()
    };
    let (server, _) = serve_secret(&secret, limits).await;
    let client = Client::new(&authority, None);
    let mut idle = client.connect(server.address).await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, idle.read_to_end(&mut rest)).await;
    assert!(read.is_ok() && rest.is_empty(), "the connection was kept");
    let mut deaf = client.connect(server.address).await.unwrap();
    let requests = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    tokio::time::timeout(PATIENCE, async {
        while deaf.write_all(&requests).await.is_ok() {}
    })
    .await
    .expect("the connection was kept");
}

#[tokio::test]
async fn shutdown_waits_for_answers_and_for_no_handshake() {
    let authority = Authority::new("a");
    let secret = Secret::new(&tls(&authority.issue(2100)));
    let (server, _) = serve_secret(&secret, HttpLimits::default()).await;
    let mut stuck = server.connect().await;
    stuck.write_all(&[0x16, 3, 1]).await.unwrap();
    let mut client = (Client::new(&authority, None).connect(server.address).await).unwrap();
    assert_eq!(ask(&mut client, "/healthz", "").await.unwrap().0, 200);
    server.stop.send(()).unwrap();
    let begin = tokio::time::Instant::now();
    tokio::time::timeout(PATIENCE, server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(begin.elapsed() < DRAIN, "the handshake was waited for");
    let mut rest = Vec::new();
    let closed = client.read_to_end(&mut rest).await;
    assert!(
        closed.is_ok() && rest.is_empty(),
        "not closed in TLS's own words"
    );
}
