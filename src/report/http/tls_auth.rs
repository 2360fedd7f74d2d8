//! TLS and authentication in front of the routes, from files that are reloaded when they change. A
//! broken file stops the start; later the last good one stays in use.

use super::Answer;
use super::auth::{self, Tokens};
use super::tls::{self, ServerIdentity, TlsFault};
use crate::files::read_regular;
use hyper::header::HeaderMap;
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
pub struct TlsFiles {
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
pub struct TlsAuth {
    parts: Mutex<AuthParts>,
    now: RwLock<Access>,
    failures: AtomicU64,
}

/// What holds for a request or a handshake that begins now.
#[derive(Clone, Default)]
pub struct Access {
    /// None: plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    tokens: Option<Arc<Tokens>>,
    /// First end of validity in the served chain, in seconds of Unix time.
    pub expires: Option<i64>,
}

impl Access {
    /// Whether tokens are asked for.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Whether it is not open to everybody in plain: TLS is served, or tokens are asked for.
    pub(super) fn is_guarded(&self) -> bool {
        self.tls.is_some() || self.tokens.is_some()
    }

    /// The answer to a request that may not be answered; `chain` is the client's certificate, which
    /// held by the authorities of its handshake. A token or a certificate: either is enough.
    pub(super) fn refusal(
        &self,
        headers: &HeaderMap,
        chain: &[CertificateDer<'_>],
    ) -> Option<Answer> {
        let (tokens, clients) = (self.tokens.as_deref(), self.clients.as_deref());
        let permitted = (tokens.is_none() && clients.is_none())
            || tokens.is_some_and(|tokens| tokens.permit(headers))
            || clients.is_some_and(|clients| tls::holds(clients, chain));
        (!permitted).then(|| auth::refusal(tokens.is_some(), clients.is_some()))
    }
}

impl Default for TlsAuth {
    fn default() -> Self {
        TlsAuth::new(AuthParts::new(TlsFiles::default()), Access::default())
    }
}

impl TlsAuth {
    fn new(parts: AuthParts, access: Access) -> Self {
        TlsAuth {
            parts: Mutex::new(parts),
            now: RwLock::new(access),
            failures: AtomicU64::new(0),
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// One sentence for each thing that is wrong with them.
    pub fn open(files: TlsFiles) -> Result<Self, Vec<String>> {
        let is_tls = files.tls_cert.is_some() && files.tls_key.is_some();
        let wants_tls = [&files.tls_cert, &files.tls_key, &files.tls_client_ca];
        if !is_tls && wants_tls.iter().any(|file| file.is_some()) {
            return Err(vec![
                "serve.tls_cert and serve.tls_key: one is missing".into(),
            ]);
        }
        let mut parts = AuthParts::new(files);
        let (_, mut faults) = parts.refresh();
        let access = parts.access().unwrap_or_else(|fault| {
            faults.push(fault);
            Access::default()
        });
        // Never open, and never plain, for want of what was asked for.
        match faults.is_empty() {
            true => Ok(TlsAuth::new(parts, access)),
            false => Err(faults),
        }
    }

    /// Reloads files that have changed, and logs it. Blocks as long as reading does.
    pub fn reload(&self) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parts.faults();
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
            self.count_failure();
        }
        for fault in faults.iter().filter(|fault| !known.contains(fault)) {
            tracing::warn!(%fault, "TLS or token file not reloaded; the last good one stays in use");
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
        parts.identity.files.is_some() || parts.tokens.files.is_some()
    }

    /// Attempts to reload that failed.
    pub fn reload_failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// What holds now.
    pub fn access(&self) -> Access {
        (self.now.read().unwrap_or_else(PoisonError::into_inner)).clone()
    }
}

/// For the log.
fn moment(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |at| at.to_string())
}

/// What is read together, each part on its own: a broken token file must not hold up a new
/// certificate.
struct AuthParts {
    identity: AuthPart<ServerIdentity, 2>,
    clients: AuthPart<Arc<dyn ClientCertVerifier>, 1>,
    tokens: AuthPart<Tokens, 1>,
}

impl AuthParts {
    fn new(files: TlsFiles) -> Self {
        let pair = files.tls_cert.zip(files.tls_key);
        let pair = pair.map(|(cert, key)| [("serve.tls_cert", cert), ("serve.tls_key", key)]);
        let clients = files.tls_client_ca;
        let tokens = files.token_file;
        AuthParts {
            identity: AuthPart::new(pair),
            clients: AuthPart::new(clients.map(|path| [("serve.tls_client_ca", path)])),
            tokens: AuthPart::new(tokens.map(|path| [("serve.token_file", path)])),
        }
    }

    /// Whether anything changed, and what is wrong.
    fn refresh(&mut self) -> (bool, Vec<String>) {
        let tokens = |text: &[u8]| Tokens::parse(text).map_err(|fault| (0, fault));
        let identity = (self.identity).refresh(|[chain, key]| tls::identity(chain, key));
        let clients = self.clients.refresh(|[pem]| tls::client_verifier(pem));
        let tokens = self.tokens.refresh(|[text]| tokens(text));
        (identity || clients || tokens, self.faults())
    }

    fn faults(&self) -> Vec<String> {
        let (identity, clients, tokens) = (&self.identity, &self.clients, &self.tokens);
        let all = [&identity.fault, &clients.fault, &tokens.fault];
        all.into_iter().flatten().cloned().collect()
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
struct AuthPart<T, const N: usize> {
    /// Setting and path of each; `None` where they are not set.
    files: Option<[(&'static str, PathBuf); N]>,
    /// What the value was made of.
    read: Option<[Vec<u8>; N]>,
    value: Option<Arc<T>>,
    fault: Option<String>,
}

impl<T, const N: usize> AuthPart<T, N> {
    fn new(files: Option<[(&'static str, PathBuf); N]>) -> Self {
        AuthPart {
            files,
            read: None,
            value: None,
            fault: None,
        }
    }

    /// Reads the files and rebuilds the value when they have changed. Returns whether it did.
    fn refresh(&mut self, make: impl FnOnce(&[Vec<u8>; N]) -> Result<T, TlsFault>) -> bool {
        let Some(files) = &self.files else {
            return false;
        };
        let made = read(files).and_then(|read| match self.read.as_ref() == Some(&read) {
            true => Ok(None),
            false => Ok(Some((make(&read)?, read))),
        });
        let made = made.map_err(|(at, fault)| match files.get(at) {
            Some((setting, path)) => format!("{setting}: {}: {fault}", path.display()),
            None => fault,
        });
        self.fault = made.as_ref().err().cloned();
        let Ok(Some((value, read))) = made else {
            return false;
        };
        self.read = Some(read);
        self.value = Some(Arc::new(value));
        true
    }
}

fn read<const N: usize>(files: &[(&'static str, PathBuf); N]) -> Result<[Vec<u8>; N], TlsFault> {
    let mut all = [const { Vec::new() }; N];
    for (at, ((_, path), bytes)) in files.iter().zip(&mut all).enumerate() {
        *bytes =
            read_regular(path, MAX).map_err(|error| (at, format!("cannot be read: {error}")))?;
    }
    Ok(all)
}
