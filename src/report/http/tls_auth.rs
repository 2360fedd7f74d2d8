//! TLS and authentication in front of the routes, from files that are reloaded when they change. A
//! broken file stops the start; later the last good one stays in use.

use super::auth::{self, Tokens};
use super::tls::{self, Fault, Identity};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::header::HeaderMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

/// Longest file taken, in bytes.
const MAX: u64 = 1 << 20;

/// Where it is read from; each by the setting of the same name in `[serve]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Certificate chain (PEM). None: plain HTTP.
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM).
    pub tls_key: Option<PathBuf>,
    /// Authorities of client certificates (PEM).
    pub tls_client_ca: Option<PathBuf>,
    /// Bearer tokens, one a line.
    pub token_file: Option<PathBuf>,
}

/// Who may request what, and over which transport. The default: everything, over plain HTTP.
#[derive(Default)]
pub struct TlsAuth {
    parts: Mutex<Parts>,
    now: RwLock<Access>,
    failures: AtomicU64,
}

/// What holds for a request or a handshake that begins now.
#[derive(Clone, Default)]
pub(super) struct Access {
    /// None: plain HTTP.
    pub(super) tls: Option<Arc<ServerConfig>>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    tokens: Option<Arc<Tokens>>,
    expires: Option<i64>,
}

impl Access {
    /// The answer to a request that may not be answered; `chain` is the client's certificate, which
    /// held by the authorities of its handshake. A token or a certificate: either is enough.
    pub(super) fn refusal(
        &self,
        headers: &HeaderMap,
        chain: &[CertificateDer<'_>],
    ) -> Option<Response<Full<Bytes>>> {
        let (tokens, clients) = (self.tokens.as_deref(), self.clients.as_deref());
        let permitted = (tokens.is_none() && clients.is_none())
            || tokens.is_some_and(|tokens| tokens.permit(headers))
            || clients.is_some_and(|clients| tls::holds(clients, chain));
        (!permitted).then(|| auth::refusal(tokens.is_some(), clients.is_some()))
    }
}

impl TlsAuth {
    /// Reads the files.
    ///
    /// # Errors
    /// One sentence for each thing that is wrong with them.
    pub fn open(files: Files) -> Result<Self, Vec<String>> {
        let is_tls = files.tls_cert.is_some() && files.tls_key.is_some();
        let wants_tls = [&files.tls_cert, &files.tls_key, &files.tls_client_ca];
        if !is_tls && wants_tls.iter().any(|file| file.is_some()) {
            return Err(vec![
                "serve.tls_cert and serve.tls_key: one is missing".into(),
            ]);
        }
        let mut parts = Parts::new(files);
        let (_, mut faults) = parts.refresh();
        let access = parts.access().unwrap_or_else(|fault| {
            faults.push(fault);
            Access::default()
        });
        // Never open, and never plain, for want of what was asked for.
        match faults.is_empty() {
            true => Ok(TlsAuth {
                parts: Mutex::new(parts),
                now: RwLock::new(access),
                failures: AtomicU64::new(0),
            }),
            false => Err(faults),
        }
    }

    /// Reloads files that have changed, and logs it. Blocks as long as reading does.
    pub fn reload(&self) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<_> = parts.faults();
        let (changed, mut faults) = parts.refresh();
        if changed {
            match parts.access() {
                Ok(access) => {
                    let expires = access.expires.map(moment);
                    *self.now.write().unwrap_or_else(PoisonError::into_inner) = access;
                    tracing::info!(certificate_until = expires, "TLS and token files reloaded");
                }
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        for fault in faults.iter().filter(|fault| !known.contains(fault)) {
            tracing::warn!(
                "TLS or token file not reloaded, the last good one stays in use: {fault}"
            );
        }
        if faults.is_empty() && !known.is_empty() {
            tracing::info!("TLS and token files are valid again");
        }
    }

    /// Counts a failed reload.
    pub fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether any file is configured.
    pub fn has_files(&self) -> bool {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.has_files()
    }

    /// Whether it is TLS that is served.
    pub fn is_tls(&self) -> bool {
        self.access().tls.is_some()
    }

    /// Whether tokens are asked for.
    pub fn has_tokens(&self) -> bool {
        self.access().tokens.is_some()
    }

    /// First end of validity in the served chain, in seconds of Unix time.
    pub fn certificate_expires(&self) -> Option<i64> {
        self.access().expires
    }

    /// Attempts to reload that failed.
    pub fn reload_failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn access(&self) -> Access {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.clone()
    }
}

/// For the log.
fn moment(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |at| at.to_string())
}

/// What is read together, each part for itself: a broken token file holds up no new certificate.
#[derive(Default)]
struct Parts {
    identity: Part<Identity>,
    clients: Part<Arc<dyn ClientCertVerifier>>,
    tokens: Part<Tokens>,
}

impl Parts {
    fn new(files: Files) -> Self {
        Parts {
            identity: Part::new([
                ("serve.tls_cert", files.tls_cert),
                ("serve.tls_key", files.tls_key),
            ]),
            clients: Part::new([("serve.tls_client_ca", files.tls_client_ca)]),
            tokens: Part::new([("serve.token_file", files.token_file)]),
        }
    }

    /// Whether anything changed, and what is wrong.
    fn refresh(&mut self) -> (bool, Vec<String>) {
        let all = [
            self.identity.refresh(|read| match read {
                [chain, key] => tls::identity(chain, key),
                _ => Err((0, "it has no partner".into())),
            }),
            self.clients.refresh(|read| {
                let pem: &[u8] = read.first().map_or(&[], Vec::as_slice);
                tls::client_verifier(pem)
            }),
            self.tokens.refresh(|read| {
                let text: &[u8] = read.first().map_or(&[], Vec::as_slice);
                Tokens::parse(text).map_err(|fault| (0, fault))
            }),
        ];
        (all.contains(&true), self.faults())
    }

    fn faults(&self) -> Vec<String> {
        let all = [
            &self.identity.fault,
            &self.clients.fault,
            &self.tokens.fault,
        ];
        all.into_iter().flatten().cloned().collect()
    }

    fn has_files(&self) -> bool {
        !(self.identity.files.is_empty() && self.tokens.files.is_empty())
    }

    fn access(&self) -> Result<Access, String> {
        let clients = self.clients.value.as_deref().cloned();
        let identity = self.identity.value.as_deref();
        let tls = identity.map(|identity| tls::server_config(identity, clients.as_ref()));
        Ok(Access {
            tls: tls.transpose().map_err(|error| format!("TLS: {error}"))?,
            clients,
            tokens: self.tokens.value.clone(),
            expires: identity.and_then(|identity| identity.expires),
        })
    }
}

/// Some files, and the one thing that is made of them.
struct Part<T> {
    /// Setting and path.
    files: Vec<(&'static str, PathBuf)>,
    /// What the value was made of.
    read: Vec<Vec<u8>>,
    value: Option<Arc<T>>,
    fault: Option<String>,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Part::new([])
    }
}

impl<T> Part<T> {
    fn new<const N: usize>(files: [(&'static str, Option<PathBuf>); N]) -> Self {
        let set = |(setting, path): (_, Option<PathBuf>)| Some((setting, path?));
        Part {
            files: files.into_iter().filter_map(set).collect(),
            read: Vec::new(),
            value: None,
            fault: None,
        }
    }

    /// Reads the files and rebuilds the value when they have changed. Returns whether it did.
    fn refresh(&mut self, make: impl FnOnce(&[Vec<u8>]) -> Result<T, Fault>) -> bool {
        if self.files.is_empty() {
            return false;
        }
        let made = self.read().and_then(|read| {
            if self.value.is_some() && read == self.read {
                return Ok(None);
            }
            let value = make(&read).map_err(|(at, fault)| self.name(at, &fault))?;
            Ok(Some((read, value)))
        });
        self.fault = None;
        match made {
            Ok(None) => false,
            Ok(Some((read, value))) => {
                self.read = read;
                self.value = Some(Arc::new(value));
                true
            }
            Err(fault) => {
                self.fault = Some(fault);
                false
            }
        }
    }

    /// All files as they were at one moment: two of them may be swapped between two reads.
    fn read(&self) -> Result<Vec<Vec<u8>>, String> {
        let mut before = self.read_once()?;
        if self.value.is_some() && before == self.read {
            return Ok(before);
        }
        for _ in 0..3 {
            let after = self.read_once()?;
            if after == before {
                return Ok(after);
            }
            before = after;
        }
        Err(self.name(0, "changes while it is read"))
    }

    fn read_once(&self) -> Result<Vec<Vec<u8>>, String> {
        let read = |(at, (_, path)): (usize, &(_, PathBuf))| {
            contents(path).map_err(|error| self.name(at, &format!("cannot be read: {error}")))
        };
        self.files.iter().enumerate().map(read).collect()
    }

    fn name(&self, at: usize, fault: &str) -> String {
        match self.files.get(at) {
            Some((setting, path)) => format!("{setting}: {}: {fault}", path.display()),
            None => fault.into(),
        }
    }
}

fn contents(path: &PathBuf) -> io::Result<Vec<u8>> {
    // Opening a pipe must not wait for its writer.
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX {
        true => Err(io::Error::other("it is longer than 1 MiB")),
        false => Ok(bytes),
    }
}
