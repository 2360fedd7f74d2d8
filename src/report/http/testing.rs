//! What the fuzz targets need of the server.

use super::{Answers, Credit, Peer, Served};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

/// Serves one connection over any stream, as [`super::serve`] does over TCP.
pub async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    state: Arc<impl Answers>,
    client: Peer,
) {
    let (_stop, stopping) = watch::channel(false);
    let served = Served {
        state,
        answering: Arc::new(Mutex::new(Credit::full(Instant::now()))),
        stopping,
        tick: || (),
    };
    served.requests(stream, client).await;
}
