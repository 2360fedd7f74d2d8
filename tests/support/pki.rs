//! Certificates for tests, and a client that speaks TLS. Used by the unit tests as well.
#![allow(dead_code, missing_docs, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

/// Longest time that any step may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, both PEM.
pub struct Leaf {
    pub chain: String,
    pub key: String,
}

impl Leaf {
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.chain.as_bytes()).expect("a certificate")
    }
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// For `localhost`, valid from 2020 to the begin of that year.
    pub fn issue(&self, until: i32) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        Leaf {
            chain: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// Somebody who asks over TLS.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    pub trusts: &'a Authority,
    pub shows: Option<&'a Leaf>,
    pub version: &'static SupportedProtocolVersion,
}

impl<'a> Client<'a> {
    pub fn new(trusts: &'a Authority, shows: Option<&'a Leaf>) -> Self {
        Client {
            trusts,
            shows,
            version: &version::TLS13,
        }
    }

    pub async fn connect(&self, address: impl ToSocketAddrs) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusts.0.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        let config = match self.shows {
            None => builder.with_no_client_auth(),
            Some(leaf) => {
                let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
                builder
                    .with_client_auth_cert(vec![leaf.der()], key)
                    .unwrap()
            }
        };
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        within(connecting).await
    }

    /// One request on a connection of its own: status code and body.
    pub async fn get(
        &self,
        address: impl ToSocketAddrs,
        path: &str,
        token: &str,
    ) -> io::Result<(u16, String)> {
        let mut stream = self.connect(address).await?;
        let (code, answer) = ask(&mut stream, path, token).await?;
        // Told in TLS's own words, so that nobody can cut an answer short unseen.
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await?;
        let mut rest = Vec::new();
        within(stream.read_to_end(&mut rest)).await?;
        Ok((code, answer))
    }
}

/// One request on a connection that goes on; status code, and head with body.
pub async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    path: &str,
    token: &str,
) -> io::Result<(u16, String)> {
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        match within(stream.read(&mut chunk)).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => answer.extend_from_slice(chunk.get(..n).unwrap_or_default()),
        }
        let text = String::from_utf8_lossy(&answer).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let (_, length) = head.split_once("content-length: ").expect("a length");
        let length: usize = length.lines().next().unwrap().parse().expect("a length");
        if body.len() >= length {
            let code = head.split(' ').nth(1).unwrap().parse().expect("a status");
            return Ok((code, text));
        }
    }
}

async fn within<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, step)
        .await
        .expect("nothing came of it")
}
