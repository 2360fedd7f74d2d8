//! Memory as an oracle: bytes that are allocated now, and the most that were, counted by the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's own; only sizes are counted beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; all memory came from there.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Slack of [`counts`], in bytes.
const SLACK: usize = 64 << 10;

/// Whether what the agent counts by is of the size of what is held: not below half of it, lest the largest
/// holder go unnoticed.
#[allow(dead_code, reason = "each target uses what it needs")]
pub fn counts(counted: usize, held: usize) -> bool {
    (held.saturating_sub(SLACK) / 2..=2 * held + SLACK).contains(&counted)
}

/// What `run` gives, the bytes that stay allocated for it, and the most that were allocated meanwhile.
#[allow(dead_code, reason = "each target uses what it needs")]
pub fn of<T>(run: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = run();
    let held = HELD.load(Ordering::Relaxed).saturating_sub(before);
    (result, held, MOST.load(Ordering::Relaxed) - before)
}
