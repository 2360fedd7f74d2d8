//! Questions on threads of their own, to be given up.

use crate::blocking::spawn_with_stack;
use crate::observe::reading::{Fault, FaultKind, Reading};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Stack of a thread that reads: the system's resolver wants more than a file does.
pub(super) const STACK: usize = 512 * 1024;

/// Most threads for the devices of one container.
pub(super) const THREADS: usize = 32;

/// One read on a thread of its own, to be given up.
pub(super) struct Asked<T>(pub(super) Receiver<T>);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// It did not come in time.
    Late,
    /// There could be no thread to ask.
    Unasked,
}

pub(super) fn ask<T: Send + 'static>(
    name: &str,
    question: impl FnOnce() -> T + Send + 'static,
) -> Asked<T> {
    let (tx, rx) = channel();
    spawn_with_stack(name, STACK, move || {
        let _ = tx.send(question());
    });
    Asked(rx)
}

/// When everything has to have answered.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    #[expect(
        clippy::disallowed_methods,
        reason = "one look, with a limit of its own"
    )]
    fn now() -> Instant {
        Instant::now()
    }

    pub(super) fn after(time: Duration) -> Self {
        Deadline(Self::now() + time)
    }

    /// The answer, or why there is none.
    pub(super) fn wait<T>(self, asked: &Asked<T>) -> Result<T, Lost> {
        let left = self.0.saturating_duration_since(Self::now());
        asked.0.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => Lost::Late,
            // Who was to answer is gone without a word.
            RecvTimeoutError::Disconnected => Lost::Unasked,
        })
    }

    /// The last of several answers, each of which says more than the one before.
    pub(super) fn last<T>(self, asked: &Asked<T>) -> Result<T, Lost> {
        let mut last = self.wait(asked)?;
        while let Ok(better) = self.wait(asked) {
            last = better;
        }
        Ok(last)
    }

    /// Answers of each of so many, in order.
    pub(super) fn each<T>(
        self,
        asked: &Asked<(usize, Option<T>)>,
        many: usize,
    ) -> Vec<Result<T, Lost>> {
        let mut answers: Vec<Result<T, Lost>> = (0..many).map(|_| Err(Lost::Late)).collect();
        let mut left = many;
        while left > 0
            && let Ok((at, answer)) = self.wait(asked)
        {
            if let Some(place) = answers.get_mut(at) {
                *place = answer.ok_or(Lost::Unasked);
            }
            left -= 1;
        }
        answers
    }

    /// The same of a reading.
    pub(super) fn reading<T>(self, what: &str, asked: &Asked<Reading<T>>) -> Reading<T> {
        self.wait(asked).unwrap_or_else(|lost| match lost {
            Lost::Late => stalled(what),
            Lost::Unasked => Reading::Failed(Fault {
                kind: FaultKind::Other,
                detail: format!("{what}: {UNASKED}"),
            }),
        })
    }
}

/// What is told where there could be no thread.
const UNASKED: &str = "no thread could be started to ask (the container's limit of processes)";

pub(super) fn stalled<T>(what: &str) -> Reading<T> {
    Reading::Failed(Fault {
        kind: FaultKind::Stalled,
        detail: format!("{what}: no answer in time"),
    })
}

/// Asks `question` of each, with its place among them; no answer where there could be no thread.
pub(super) fn on_each<T: Send + 'static, U: Send + 'static>(
    name: &str,
    stack: usize,
    all: Vec<T>,
    question: impl Fn(T) -> U + Clone + Send + 'static,
) -> Asked<(usize, Option<U>)> {
    let mut shares: Vec<Vec<(usize, T)>> = Vec::new();
    for (at, one) in all.into_iter().enumerate() {
        match shares.get_mut(at % THREADS) {
            Some(share) => share.push((at, one)),
            None => shares.push(vec![(at, one)]),
        }
    }
    let (tx, rx) = channel();
    for share in shares {
        let places: Vec<usize> = share.iter().map(|(at, _)| *at).collect();
        let (answers, question) = (tx.clone(), question.clone());
        let started = spawn_with_stack(name, stack, move || {
            for (at, one) in share {
                let _ = answers.send((at, Some(question(one))));
            }
        });
        if !started {
            for at in places {
                let _ = tx.send((at, None));
            }
        }
    }
    Asked(rx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_hangs_costs_itself() {
        let (tx, rx) = channel::<()>();
        let rx = std::sync::Arc::new(std::sync::Mutex::new(rx));
        let asked = on_each(
            "test",
            STACK,
            (0..THREADS + 8).collect(),
            move |n: usize| {
                if n == 3 {
                    let _ = rx.lock().unwrap().recv();
                }
                n * 2
            },
        );
        let deadline = Deadline::after(Duration::from_millis(300));
        let got = deadline.each(&asked, THREADS + 8);
        for (n, answer) in got.iter().enumerate() {
            let hung = n % THREADS == 3;
            let want = if hung { Err(Lost::Late) } else { Ok(n * 2) };
            assert_eq!(*answer, want, "{n}");
        }
        drop(tx);
    }

    #[test]
    fn without_a_thread_nothing_is_called_stuck() {
        // No machine has such a stack to give.
        let asked = on_each("test", usize::MAX / 4, vec![1, 2], |n: usize| n);
        let deadline = Deadline::after(Duration::from_secs(60));
        assert_eq!(deadline.each(&asked, 2), [Err(Lost::Unasked); 2]);
        let (tx, rx) = channel();
        drop(tx);
        let got: Reading<()> = deadline.reading("it", &Asked(rx));
        assert!(matches!(got, Reading::Failed(fault) if fault.kind == FaultKind::Other));
    }

    #[test]
    fn of_several_answers_the_last_counts() {
        let deadline = Deadline::after(Duration::from_millis(50));
        let (tx, rx) = channel();
        let asked = Asked(rx);
        tx.send(1).unwrap();
        assert_eq!(
            deadline.last(&asked),
            Ok(1),
            "and the next one is not waited for"
        );
        tx.send(2).unwrap();
        tx.send(3).unwrap();
        assert_eq!(deadline.last(&asked), Ok(3));
        drop(tx);
        assert_eq!(deadline.last(&asked), Err(Lost::Unasked));
    }

    #[test]
    fn what_hangs_is_given_up() {
        let deadline = Deadline::after(Duration::from_millis(50));
        let (tx, rx) = channel::<()>();
        let asked: Asked<Reading<()>> = ask("test", move || {
            let _ = rx.recv();
            Reading::Value(())
        });
        let got = deadline.reading("it", &asked);
        assert!(matches!(got, Reading::Failed(fault) if fault.kind == FaultKind::Stalled));
        drop(tx);
    }
}
