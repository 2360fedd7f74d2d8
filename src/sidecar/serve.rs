//! What the sidecar serves: its metrics, and that it lives.

use crate::check::nccl::NcclVerdict;
use crate::observe::pod::ContainerKey;
use crate::report::catalogue::{self as cat, Detail};
use crate::report::http::tls_auth::TlsAuth;
use crate::report::http::{self, Answers, Limits, METRICS_TYPE};
use crate::report::metrics::{Exposition, encode_process, nccl};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Method, Response, StatusCode};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// One container as it is scraped.
#[derive(Debug, Clone, PartialEq)]
pub struct Scrape {
    /// Labels; empty where nothing tells them, so that the scraper's own stand.
    pub namespace: String,
    /// …
    pub pod: String,
    /// …
    pub container: String,
    /// The verdict.
    pub verdict: NcclVerdict,
}

/// What is served now.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Page {
    pub containers: Vec<Scrape>,
    pub bytes: u64,
    pub fault: Option<String>,
}

impl Page {
    /// Prometheus text.
    pub fn metrics(&self) -> String {
        let keys: Vec<ContainerKey> = self
            .containers
            .iter()
            .map(|scrape| ContainerKey {
                namespace: scrape.namespace.clone(),
                pod: scrape.pod.clone(),
                uid: String::new(),
                container: scrape.container.clone(),
            })
            .collect();
        let told: Vec<nccl::Told<'_>> = keys
            .iter()
            .zip(&self.containers)
            .map(|(key, scrape)| nccl::Told {
                job: None,
                key,
                verdict: &scrape.verdict,
            })
            .collect();
        let mut sheet = Exposition::new(Detail::Default);
        sheet.add(&cat::BUILD_INFO, [([env!("CARGO_PKG_VERSION")], 1.0)]);
        nccl::containers(&mut sheet, &told);
        sheet.one(&cat::NCCL_LOG_BYTES, Some(self.bytes as f64));
        let up = if self.fault.is_none() { 1.0 } else { 0.0 };
        sheet.add(&cat::SOURCE_UP, [(["nccl_files"], up)]);
        encode_process(&mut sheet, &crate::clock::process_stats());
        sheet.into_text()
    }
}

struct Serve {
    page: watch::Receiver<Arc<Page>>,
    guard: TlsAuth,
}

impl Answers for Serve {
    fn answer(
        &self,
        method: &Method,
        path: &str,
        _: &HeaderMap,
        _: &[CertificateDer<'_>],
    ) -> Response<Full<Bytes>> {
        if let Some(refusal) = http::not_a_read(method) {
            return refusal;
        }
        match path {
            "/metrics" => {
                let page = Arc::clone(&self.page.borrow());
                http::respond(StatusCode::OK, METRICS_TYPE, page.metrics().into())
            }
            "/healthz" | "/readyz" => http::plain(StatusCode::OK, "ok\n"),
            _ => http::plain(StatusCode::NOT_FOUND, "not found\n"),
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            connections: 16,
            ..Limits::default()
        }
    }

    fn guard(&self) -> &TlsAuth {
        &self.guard
    }
}

/// Serves until told to stop.
pub(super) fn start(
    listener: TcpListener,
    page: watch::Receiver<Arc<Page>>,
    mut stop: watch::Receiver<bool>,
) {
    let state = Arc::new(Serve {
        page,
        guard: TlsAuth::default(),
    });
    tokio::spawn(async move {
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        http::serve(listener, state, stopped).await;
    });
}
