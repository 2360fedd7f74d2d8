//! Who is told of changes.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Lines that a watch is told.
pub type Lines = UnboundedReceiver<Bytes>;

/// Changes that are kept for those who go on from an earlier version.
const KEPT: usize = 2000;

/// Watches of one kind of object, and what they missed.
#[derive(Debug, Default)]
pub struct Watches {
    /// The one object or node that is looked at (none: all), and where to tell.
    open: Vec<(Option<String>, UnboundedSender<Bytes>)>,
    /// What happened, with its version and of whom.
    changes: Vec<(u64, String, Value)>,
    /// What is older is forgotten.
    kept_from: u64,
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}

impl Watches {
    /// Keeps a change and tells it; `whose` is what watches select by.
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

    /// A new watch, told first what it missed.
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

    /// Every watch is told this, word for word.
    pub fn tell(&mut self, text: &str) {
        let line = Bytes::from(format!("{text}\n"));
        self.open
            .retain(|(_, watch)| watch.send(line.clone()).is_ok());
    }

    /// All watches end.
    pub fn end(&mut self) {
        self.open.clear();
    }

    /// All is forgotten that happened before this version. Watches end.
    pub fn forget(&mut self, before: u64) {
        self.changes.clear();
        self.kept_from = before;
        self.end();
    }

    /// How many watch now.
    pub fn count(&mut self) -> usize {
        self.open.retain(|(_, watch)| !watch.is_closed());
        self.open.len()
    }
}
