//! Any bytes as what a client sends, in pieces, to the agent's server over a stream in memory: it ends by its
//! own time limits, every answer is HTTP, and memory is bounded. The first two bytes say how the rest is cut
//! up and where the client comes from.
#![no_main]

#[path = "../memory.rs"]
mod memory;

use libfuzzer_sys::fuzz_target;
use selvage::observe::Snapshot;
use selvage::report::http::{Peer, HttpLimits, ServeState, serve_stream};
use selvage::report::metrics::AgentStats;
use selvage::report::{Report, State};
use selvage::units::Millis;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// A report is made for one request at a time, and an answer that is not read stays in the stream's buffer.
const MOST: usize = 2 << 20;
/// By the paused clock: several times the limit on a header.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

fn report() -> Report {
    Report {
        generation: 1,
        node: "gpu-17".into(),
        snapshot: Snapshot::default(),
        stale_after: Duration::from_secs(30),
        roles: BTreeMap::new(),
        state: State::Unknown,
        since: Millis(0),
        reasons: Vec::new(),
        findings: Vec::new(),
        xids: Vec::new(),
        gpudirect: Default::default(),
        totals: Arc::default(),
        full_window: false,
        muted: Vec::new(),
        tainting: Default::default(),
        taint_muted: false,
        jobs: Arc::default(),
        profile: Default::default(),
        resources: Vec::new(),
        history: Arc::default(),
    }
}

async fn talk(bytes: &[u8], piece: usize, address: IpAddr) -> Vec<u8> {
    let state = Arc::new(ServeState {
        reports: watch::channel(Arc::new(report())).1,
        cluster: watch::channel(None).1,
        rendered: Default::default(),
        stats: AgentStats::default,
        detail: Default::default(),
        limits: HttpLimits::default(),
        guard: Arc::default(),
        hosts: Default::default(),
    });
    let (ours, theirs) = duplex(4096);
    let chain = Vec::new();
    let serving = serve_stream(theirs, state, Peer { address, chain });
    let (mut from, mut to) = split(ours);
    let sending = async {
        for piece in bytes.chunks(piece) {
            // It may have hung up.
            if to.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        let _ = to.shutdown().await;
    };
    let mut answers = Vec::new();
    let reading = async {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            // Beyond the start only the length counts.
            let room = (16usize << 10).saturating_sub(answers.len());
            answers.extend_from_slice(&buffer[..count.min(room)]);
        }
    };
    tokio::join!(serving, sending, reading);
    answers
}

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([size, from], sent)) = bytes.split_first_chunk() else {
        return;
    };
    let address = match from % 2 {
        0 => IpAddr::from([127, 0, 0, 1]),
        _ => IpAddr::from([10, 2, 3, 4]),
    };
    let talk = talk(sent, usize::from(*size) * 8 + 1, address);
    let talk = async { tokio::time::timeout(ENDS_WITHIN, talk).await };
    let (answers, _, most) = memory::of(|| RUNTIME.with(|runtime| runtime.block_on(talk)));
    let answers = answers.expect("the connection does not end");
    assert!(
        answers.is_empty()
            || answers.starts_with(b"HTTP/1.1 ")
            || answers.starts_with(b"HTTP/1.0 ")
    );
    assert!(most <= MOST, "{most} bytes");
});
