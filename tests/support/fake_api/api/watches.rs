//! Open watches, and the changes that new ones have missed.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Lines of JSON that a watch receives.
pub type Lines = UnboundedReceiver<Bytes>;

/// Changes kept for watches that resume from an earlier version.
const KEPT: usize = 2000;

/// Watches of one kind of object, with its recent changes.
#[derive(Debug, Default)]
pub struct Watches {
    /// The one object or node that a watch selects (`None`: all), and its channel.
    open: Vec<(Option<String>, UnboundedSender<Bytes>)>,
    /// Version, owner and event of each change.
    changes: Vec<(u64, String, Value)>,
    /// Older versions are answered with 410.
    kept_from: u64,
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}

impl Watches {
    /// Keeps a change and sends it; `whose` is what watches select by.
    pub(super) fn note(&mut self, version: u64, whose: &str, kind: &str, object: &Value) {
        let event = json!({"type": kind, "object": object});
        let told = line(&event);
        self.open.retain(|(wanted, watch)| match wanted {
            Some(wanted) if wanted != whose => !watch.is_closed(),
            _ => watch.send(told.clone()).is_ok(),
        });
        if self.changes.len() >= KEPT {
            let old = self.changes.remove(0);
            self.kept_from = self.kept_from.max(old.0 + 1);
        }
        self.changes.push((version, whose.to_string(), event));
    }

    /// A new watch, which first receives what it missed.
    pub(super) fn open(&mut self, wanted: Option<&str>, since: u64) -> Lines {
        let (tx, rx) = unbounded_channel();
        if since < self.kept_from {
            let (_, gone) = super::status(410, Value::Null);
            let _ = tx.send(line(&json!({"type": "ERROR", "object": gone})));
            return rx;
        }
        let missed = self
            .changes
            .iter()
            .filter(|(at, whose, _)| *at > since && wanted.is_none_or(|wanted| wanted == whose));
        for (_, _, event) in missed {
            let _ = tx.send(line(event));
        }
        self.open.push((wanted.map(str::to_string), tx));
        rx
    }

    /// Sends this line to every watch, word for word.
    pub fn tell(&mut self, text: &str) {
        let line = Bytes::from(format!("{text}\n"));
        self.open
            .retain(|(_, watch)| watch.send(line.clone()).is_ok());
    }

    /// Ends all watches.
    pub fn end(&mut self) {
        self.open.clear();
    }

    /// Forgets everything before this version and ends all watches.
    pub fn forget(&mut self, before: u64) {
        self.changes.clear();
        self.kept_from = before;
        self.end();
    }

    /// Number of open watches.
    pub fn count(&mut self) -> usize {
        self.open.retain(|(_, watch)| !watch.is_closed());
        self.open.len()
    }
}
