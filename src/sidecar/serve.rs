//! The sidecar's HTTP endpoints: metrics and liveness.

use crate::check::nccl::NcclVerdict;
use crate::observe::ContainerKey;
use crate::report::metrics::{self, nccl};
use crate::report::{Detail, Exposition, http, series};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use std::{collections::BTreeMap, sync::Arc};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The state that is served.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SidecarPage {
    /// Labels, empty where the environment does not set them, with each container's verdict.
    pub(super) containers: BTreeMap<ContainerKey, NcclVerdict>,
    /// Bytes of log files read.
    pub(super) bytes: u64,
    /// Why the directory or a file cannot be read.
    pub(super) fault: Option<String>,
}

impl SidecarPage {
    fn metrics(&self) -> String {
        let mut out = Exposition::new(Detail::Default);
        for (key, verdict) in &self.containers {
            nccl::container(&mut out, key, None, verdict);
        }
        series! { out
            "selvage_build_info" [crate::units::VERSION, crate::units::REVISION] true;
            "selvage_nccl_log_bytes_total" [] self.bytes;
            "selvage_source_up" ["nccl_files"] self.fault.is_none();
        }
        metrics::agent(&mut out, &crate::clock::process_stats());
        out.into_text()
    }
}

impl http::Answers for watch::Receiver<Arc<SidecarPage>> {
    fn answer(&self, request: &Request<Incoming>, _: &http::Peer) -> http::Answer {
        if let Some(refusal) = http::not_a_read(request.method()) {
            return refusal;
        }
        match request.uri().path() {
            "/metrics" => {
                let page = Arc::clone(&self.borrow());
                http::exposition::answer(page.metrics(), request.headers())
            }
            "/healthz" | "/readyz" => http::plain(StatusCode::OK, "ok\n"),
            _ => http::plain(StatusCode::NOT_FOUND, "not found\n"),
        }
    }

    fn limits(&self) -> http::HttpLimits {
        http::HttpLimits {
            connections: 16,
            ..http::HttpLimits::default()
        }
    }
}

/// Serves for as long as the runtime lives.
pub(super) fn start(listener: TcpListener, page: watch::Receiver<Arc<SidecarPage>>) {
    let serving = http::serve(listener, Arc::new(page), std::future::pending());
    tokio::spawn(serving);
}
