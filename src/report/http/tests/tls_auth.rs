//! Real handshakes over loopback: who gets what, and what a change of the files does.

use super::super::tls_auth::TlsFiles;
use super::*;
use crate::report::testing::empty;
use pki::{Authority, Client, Leaf, ask};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio_rustls::rustls::version;

#[path = "../../../../tests/support/pki.rs"]
pub(super) mod pki;

/// Files as Kubernetes lays a Secret out: each a link through `..data`, which is swapped.
pub(super) struct Secret {
    dir: TempDir,
    versions: std::cell::Cell<u32>,
}

impl Secret {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let secret = Secret {
            dir: tempfile::tempdir().unwrap(),
            versions: Default::default(),
        };
        secret.swap(files);
        for (name, _) in files {
            let link = Path::new("..data").join(name);
            std::os::unix::fs::symlink(link, secret.path(name)).unwrap();
        }
        secret
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn swap(&self, files: &[(&str, &str)]) {
        self.versions.set(self.versions.get() + 1);
        let version = format!("..{}", self.versions.get());
        std::fs::create_dir(self.path(&version)).unwrap();
        for (name, text) in files {
            std::fs::write(self.path(&version).join(name), text).unwrap();
        }
        std::os::unix::fs::symlink(version, self.path("..new")).unwrap();
        std::fs::rename(self.path("..new"), self.path("..data")).unwrap();
    }

    /// Settings for those of the four files that are there.
    fn files(&self) -> TlsFiles {
        let file = |name| Some(self.path(name)).filter(|path| path.exists());
        TlsFiles {
            tls_cert: file("tls.crt"),
            tls_key: file("tls.key"),
            tls_client_ca: file("ca.crt"),
            token_file: file("token"),
        }
    }
}

pub(super) fn tls(leaf: &Leaf) -> [(&'static str, &str); 2] {
    [("tls.crt", &leaf.chain), ("tls.key", &leaf.key)]
}

pub(super) async fn serve_secret(secret: &Secret, limits: HttpLimits) -> (Server, Arc<TlsAuth>) {
    let guard = Arc::new(TlsAuth::open(secret.files()).unwrap());
    let server = start_guarded(empty(), limits, Arc::clone(&guard)).await;
    (server, guard)
}

#[tokio::test]
async fn tls_by_either_version_and_only_for_who_trusts_it() {
    let (authority, other) = (Authority::new("a"), Authority::new("b"));
    let secret = Secret::new(&tls(&authority.issue(2100)));
    let (server, guard) = serve_secret(&secret, HttpLimits::default()).await;
    assert_eq!(guard.access().expires, Some(4_102_444_800));
    for version in [&version::TLS12, &version::TLS13] {
        let client = Client {
            version,
            ..Client::new(&authority, None)
        };
        let (code, answer) = client.get(server.address, "/metrics", "").await.unwrap();
        assert_eq!(code, 200);
        assert!(answer.contains("selvage_fabric_ready 0"), "{answer}");
    }
    // This client will not have it; the next is served all the same.
    let stranger = Client::new(&other, None);
    assert!(stranger.get(server.address, "/healthz", "").await.is_err());
    let client = Client::new(&authority, None);
    let answer = client.get(server.address, "/healthz", "").await;
    assert_eq!(answer.unwrap().0, 200);
}

#[tokio::test]
async fn who_may_ask_what() {
    let (authority, clients, other) = (
        Authority::new("server"),
        Authority::new("clients"),
        Authority::new("other"),
    );
    let (server, ca) = (authority.issue(2100), clients.pem());
    let good = clients.issue(2100);
    let (late, strange) = (clients.issue(2021), other.issue(2100));
    let with = |more: &[(&'static str, &'static str)]| {
        let files = tls(&server).map(|(name, text)| (name, text.to_string()));
        let more = more.iter().map(|(name, text)| {
            let text = if *text == "CA" { ca.as_str() } else { text };
            (*name, text.to_string())
        });
        let files: Vec<_> = files.into_iter().chain(more).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
        Secret::new(&files)
    };
    let open = with(&[]);
    let token = with(&[("token", "sesame\nolder\n")]);
    let cert = with(&[("ca.crt", "CA")]);
    let both = with(&[("ca.crt", "CA"), ("token", "sesame\n")]);
    // None: no answer at all.
    for (name, secret, shows, said, want) in [
        ("open", &open, None, "", Some(200)),
        ("open", &open, Some(&good), "any", Some(200)),
        ("token", &token, None, "", Some(401)),
        ("token", &token, None, "sesam", Some(401)),
        ("token", &token, None, "sesame", Some(200)),
        ("token", &token, None, "older", Some(200)),
        ("token", &token, Some(&good), "", Some(401)),
        ("cert", &cert, None, "", Some(403)),
        ("cert", &cert, None, "sesame", Some(403)),
        ("cert", &cert, Some(&good), "", Some(200)),
        ("cert", &cert, Some(&late), "", None),
        ("cert", &cert, Some(&strange), "", None),
        ("both", &both, None, "", Some(401)),
        ("both", &both, None, "no", Some(401)),
        ("both", &both, None, "sesame", Some(200)),
        ("both", &both, Some(&good), "", Some(200)),
        ("both", &both, Some(&good), "no", Some(200)),
    ] {
        let (server, _) = serve_secret(secret, HttpLimits::default()).await;
        let client = Client::new(&authority, shows);
        let case = format!("{name} {} {said:?}", shows.is_some());
        for path in ["/metrics", "/report", "/", "/metrics?x=/healthz"] {
            let answer = client.get(server.address, path, said).await;
            let code = answer.as_ref().ok().map(|(code, _)| *code);
            assert_eq!(code, want, "{case} {path}: {answer:?}");
            if let Ok((code @ (401 | 403), answer)) = answer {
                let challenged = answer.contains("www-authenticate: bearer realm=\"selvage\"");
                assert_eq!(challenged, code == 401, "{answer}");
                assert!(!answer.contains("selvage_") && !answer.contains("schema"));
            }
        }
        // The probes show nothing and are answered.
        let probe = Client::new(&authority, None);
        for (path, want) in [("/healthz", 200), ("/readyz", 503), ("/nope", 404)] {
            let answer = probe.get(server.address, path, "").await.unwrap();
            assert_eq!(answer.0, want, "{case} {path}");
        }
    }
}

#[tokio::test]
async fn tokens_without_tls() {
    let secret = Secret::new(&[("token", "sesame")]);
    let (server, guard) = serve_secret(&secret, HttpLimits::default()).await;
    assert!(guard.access().tls.is_none());
    for (path, token, want) in [
        ("/metrics", "", 401),
        ("/metrics", "sesame", 200),
        ("/healthz", "", 200),
    ] {
        let mut stream = server.connect().await;
        let answer = ask(&mut stream, path, token).await.unwrap();
        assert_eq!(answer.0, want, "{path} {token:?}");
    }
}

#[tokio::test]
async fn a_swapped_certificate_is_for_new_connections() {
    let authority = Authority::new("a");
    let (old, new) = (authority.issue(2100), authority.issue(2101));
    let secret = Secret::new(&tls(&old));
    let (server, guard) = serve_secret(&secret, HttpLimits::default()).await;
    let client = Client::new(&authority, None);
    let mut before = client.connect(server.address).await.unwrap();
    assert_eq!(before.get_ref().1.peer_certificates().unwrap(), [old.der()]);
    guard.reload();
    secret.swap(&tls(&new));
    guard.reload();
    let after = client.connect(server.address).await.unwrap();
    assert_eq!(after.get_ref().1.peer_certificates().unwrap(), [new.der()]);
    assert_eq!(guard.access().expires, Some(4_133_980_800));
    assert_eq!(ask(&mut before, "/metrics", "").await.unwrap().0, 200);
    assert_eq!(guard.reload_failures(), 0);
}

#[tokio::test]
async fn who_is_no_longer_trusted_loses_a_standing_connection() {
    let (authority, next) = (Authority::new("a"), Authority::new("b"));
    let server = authority.issue(2100);
    let client = authority.issue(2100);
    let [cert, key] = tls(&server);
    let (ca, next) = (authority.pem(), next.pem());
    let secret = Secret::new(&[cert, key, ("ca.crt", &ca), ("token", "one")]);
    let (server, guard) = serve_secret(&secret, HttpLimits::default()).await;
    let mut shown = (Client::new(&authority, Some(&client))
        .connect(server.address)
        .await)
        .unwrap();
    let mut told = (Client::new(&authority, None).connect(server.address).await).unwrap();
    assert_eq!(ask(&mut shown, "/metrics", "").await.unwrap().0, 200);
    assert_eq!(ask(&mut told, "/metrics", "one").await.unwrap().0, 200);
    secret.swap(&[cert, key, ("ca.crt", &next), ("token", "two")]);
    guard.reload();
    assert_eq!(ask(&mut shown, "/metrics", "").await.unwrap().0, 401);
    assert_eq!(ask(&mut told, "/metrics", "one").await.unwrap().0, 401);
    assert_eq!(ask(&mut told, "/metrics", "two").await.unwrap().0, 200);
    assert_eq!(ask(&mut shown, "/healthz", "").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_broken_file_keeps_the_last_good_and_holds_up_no_other() {
    let authority = Authority::new("a");
    let (old, new) = (authority.issue(2100), authority.issue(2101));
    let [cert, key] = tls(&old);
    let secret = Secret::new(&[cert, key, ("token", "one")]);
    let (server, guard) = serve_secret(&secret, HttpLimits::default()).await;
    let client = Client::new(&authority, None);
    let mut failures = 0;
    let token = ("token", "one");
    for broken in [
        vec![("tls.crt", "rubbish"), key, token],
        vec![("tls.crt", new.chain.as_str()), key, token],
        vec![cert, ("tls.key", ""), token],
        vec![cert, token],
        vec![cert, key, ("token", "")],
        vec![],
    ] {
        secret.swap(&broken);
        guard.reload();
        failures += 1;
        assert_eq!(guard.reload_failures(), failures);
        let answer = client.get(server.address, "/metrics", "one").await;
        assert_eq!(answer.unwrap().0, 200);
        let open = client.get(server.address, "/metrics", "").await;
        assert_eq!(open.unwrap().0, 401);
    }
    // The certificate comes in although the token file is broken.
    let [cert, key] = tls(&new);
    secret.swap(&[cert, key, ("token", "\u{fc}")]);
    guard.reload();
    let stream = client.connect(server.address).await.unwrap();
    assert_eq!(stream.get_ref().1.peer_certificates().unwrap(), [new.der()]);
    secret.swap(&[cert, key, ("token", "two")]);
    guard.reload();
    assert_eq!(guard.reload_failures(), failures + 1);
    let answer = client.get(server.address, "/metrics", "two").await;
    assert_eq!(answer.unwrap().0, 200);
}

#[test]
fn what_stops_the_start() {
    let (authority, other) = (Authority::new("a"), Authority::new("b"));
    let (leaf, stranger) = (authority.issue(2100), other.issue(2100));
    let [cert, key] = tls(&leaf);
    let broken = leaf.chain.replacen("\nMII", "\n!!!", 1);
    let half = leaf.key.split("-----END").next().unwrap();
    let rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let long = "#".repeat((1 << 20) + 1);
    for (files, want) in [
        (vec![("tls.crt", ""), key], "tls.crt: no certificate (PEM)"),
        (
            vec![("tls.crt", &broken), key],
            "tls.crt: not PEM: its base64",
        ),
        (
            vec![("tls.crt", rubbish), key],
            "tls.crt: unusable certificate",
        ),
        (vec![("tls.crt", &leaf.key), key], "tls.crt: no certificate"),
        (
            vec![cert, ("tls.key", &leaf.chain)],
            "tls.key: no unencrypted private key",
        ),
        (
            vec![cert, ("tls.key", locked)],
            "tls.key: no unencrypted private key",
        ),
        (
            vec![cert, ("tls.key", half)],
            "tls.key: not PEM: a section has no end",
        ),
        (
            vec![cert, ("tls.key", &stranger.key)],
            "tls.key: it is not the certificate's key",
        ),
        (vec![cert, key, ("ca.crt", "")], "ca.crt: no certificate"),
        (
            vec![cert, key, ("ca.crt", rubbish)],
            "ca.crt: unusable certificate 1",
        ),
        (vec![cert, key, ("token", "\n")], "serve.token_file: "),
        (
            vec![("token", &long)],
            "token: cannot be read: it is longer than 1 MiB",
        ),
        (vec![cert], "one is missing"),
        (vec![key], "one is missing"),
        (vec![("ca.crt", leaf.chain.as_str())], "one is missing"),
    ] {
        let secret = Secret::new(&files);
        let faults = TlsAuth::open(secret.files()).err().unwrap_or_default();
        assert_eq!(faults.len(), 1, "{want}: {faults:?}");
        assert!(faults[0].contains(want), "{want}: {faults:?}");
        assert!(!faults[0].contains("MIG"), "a key is quoted: {faults:?}");
    }
    // All that is wrong at once; a pipe and a directory hold nothing up.
    let secret = Secret::new(&[cert, key, ("token", "x")]);
    let pipe = secret.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let files = TlsFiles {
        tls_cert: Some(secret.path("nonesuch")),
        tls_client_ca: Some(pipe),
        token_file: Some(secret.path("")),
        ..secret.files()
    };
    let faults = TlsAuth::open(files).err().unwrap_or_default();
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[0].starts_with("serve.tls_cert: /"), "{faults:?}");
    assert!(
        faults[0].contains("cannot be read: No such file"),
        "{faults:?}"
    );
}
