//! What kubelets do to Node objects meanwhile: each writes its status now and then, so that the
//! object's version moves under the agents.

use crate::fleet::name;
use kube::api::{Patch, PatchParams};
use selvage::cluster::node::{NodeObject, resource};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Writes until dropped.
pub struct Kubelets {
    stop: Arc<AtomicBool>,
    patches: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Kubelets {
    /// Each of `count` nodes once in `every`.
    pub fn start(kubeconfig: std::path::PathBuf, count: usize, every: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let patches = Arc::new(AtomicU64::new(0));
        let (stopped, patched) = (Arc::clone(&stop), Arc::clone(&patches));
        let pause = every / u32::try_from(count).expect("a count");
        let thread = std::thread::spawn(move || {
            crate::block_on(async {
                let client = crate::cluster::client(&kubeconfig).await;
                let nodes = kube::Api::<NodeObject>::all_with(client, &resource());
                let mut ticks = tokio::time::interval(pause);
                for tick in 0usize.. {
                    ticks.tick().await;
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second());
                    let patch = json!({"status": {"conditions": [{
                        "type": "Ready", "status": "True", "reason": "KubeletReady",
                        "message": format!("tick {tick}"),
                        "lastHeartbeatTime": now.expect("a time").to_string(),
                    }]}});
                    // The server may be away.
                    let params = PatchParams::default();
                    let node = name(tick % count);
                    let answer = nodes
                        .patch_status(&node, &params, &Patch::Strategic(patch))
                        .await;
                    patched.fetch_add(u64::from(answer.is_ok()), Ordering::Relaxed);
                }
            });
        });
        Kubelets {
            stop,
            patches,
            thread: Some(thread),
        }
    }

    pub fn patches(&self) -> u64 {
        self.patches.load(Ordering::Relaxed)
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
