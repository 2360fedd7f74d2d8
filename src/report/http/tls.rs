//! TLS out of PEM: the server's certificate and key, the authorities of client certificates, and
//! how a handshake is made with them. TLS 1.2 and 1.3, nothing resumed.

use std::sync::{Arc, LazyLock};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(ring::default_provider()));

/// What the server shows of itself.
pub(super) struct ServerIdentity {
    key: Arc<CertifiedKey>,
    /// First end of validity in the chain, in seconds of Unix time.
    pub(super) expires: Option<i64>,
}

/// What is wrong, and with which of the files: they count from 0.
pub(super) type TlsFault = (usize, String);

/// Certificate chain and key.
pub(super) fn identity(chain: &[u8], key: &[u8]) -> Result<ServerIdentity, TlsFault> {
    let of_chain = |message| (0, message);
    let of_key = |message| (1, message);
    let chain = certificates(chain).map_err(of_chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        of_key(match error {
            pem::Error::NoItemsFound => "no unencrypted private key (PEM) in it".into(),
            error => no_pem(&error),
        })
    })?;
    let ends = chain.iter().map(|der| super::x509::not_after(der));
    let expires = ends.min().flatten();
    let key = CertifiedKey::from_der(chain, key, &PROVIDER).map_err(|error| match error {
        Error::InconsistentKeys(_) => of_key("it is not the certificate's key".into()),
        error @ Error::InvalidCertificate(_) => of_chain(format!("unusable certificate: {error}")),
        error => of_key(format!("unusable key: {error}")),
    })?;
    let key = Arc::new(key);
    Ok(ServerIdentity { key, expires })
}

/// The judge of client certificates by these authorities. A client may show none; what it then may
/// not ask is decided by route.
pub(super) fn client_verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsFault> {
    let fault = |message| (0, message);
    let mut roots = RootCertStore::empty();
    for (at, der) in certificates(pem).map_err(fault)?.into_iter().enumerate() {
        roots
            .add(der)
            .map_err(|error| fault(format!("unusable certificate {}: {error}", at + 1)))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&PROVIDER))
        .allow_unauthenticated()
        .build()
        .map_err(|error| fault(error.to_string()))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("no certificate (PEM) in it".into()),
        Ok(found) => Ok(found),
        Err(error) => Err(no_pem(&error)),
    }
}

/// Without the library's own words, which quote the file: it may hold a key.
fn no_pem(error: &pem::Error) -> String {
    let what = match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end",
        pem::Error::IllegalSectionStart { .. } => "a section has no beginning",
        pem::Error::Base64Decode(_) => "its base64 is broken",
        _ => "it cannot be taken apart",
    };
    format!("not PEM: {what}")
}

/// What handshakes are made with.
pub(super) fn server_config(
    identity: &ServerIdentity,
    clients: Option<&Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients)),
        None => builder.with_no_client_auth(),
    };
    let resolver = SingleCertAndKey::from(Arc::clone(&identity.key));
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session would not look at the client's certificate again, and costs memory. A full
    // handshake a scrape is under a millisecond.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Whether a client's chain holds by these authorities, now: a connection may be older than them.
pub(super) fn holds(clients: &dyn ClientCertVerifier, chain: &[CertificateDer<'_>]) -> bool {
    chain.split_first().is_some_and(|(own, intermediates)| {
        (clients.verify_client_cert(own, intermediates, UnixTime::now())).is_ok()
    })
}
