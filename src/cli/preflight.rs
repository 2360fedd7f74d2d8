//! `selvage preflight`: looks from inside a container, and ends.

mod arguments;

pub use arguments::{FailOn, Settings, command};

use crate::check::preflight::{
    self as items, FILES, Item, Options, libraries_wanted, master_to_ask, slot_asked,
};
use crate::host::Host;
use crate::observe::container::{ContainerFacts, Environment, MasterFacts, SeenDevice};
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::readiness;
use crate::report::{self, State};
use crate::source::container::{
    cufile, environment, interfaces, libraries, limits, master, named, nodes, shm,
};
use crate::source::{gpudirect, infiniband};
use crate::thread::spawn_with_stack;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Stack of a thread that reads: the system's resolver wants more than a file does.
const STACK: usize = 512 * 1024;

/// Most threads for the devices of one container.
const THREADS: usize = 32;

/// Time beyond `--timeout` for a resolver that keeps its own.
const GRACE: Duration = Duration::from_secs(2);

/// Copies this program into a directory, for another image to run: a static program needs nothing
/// else.
///
/// # Errors
/// What reading or writing answered.
pub fn copy_to(dir: &Path) -> io::Result<PathBuf> {
    let target = dir.join("selvage");
    let beside = dir.join(".selvage.new");
    // Whole under its name or not at all; and a name that a running program has is no hindrance.
    std::fs::copy(std::env::current_exe()?, &beside)?;
    std::fs::rename(&beside, &target)?;
    Ok(target)
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The verdict.
    pub state: State,
    /// Every item.
    pub items: Vec<Item>,
}

impl Outcome {
    /// As text or JSON.
    pub fn told(&self, output: super::check::Output) -> String {
        match output {
            super::check::Output::Json => report::preflight::json(self.state, &self.items),
            super::check::Output::Text(style) => {
                report::preflight::text(self.state, &self.items, style)
            }
        }
    }
}

/// Looks and judges.
pub fn run(
    settings: &Settings,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Outcome {
    let variables: Vec<_> = variables.into_iter().collect();
    let facts = gather(settings, variables);
    let options = Options {
        gpus: settings.gpus,
    };
    let items = items::judge(&facts, options);
    Outcome {
        state: readiness::preflight::fold(&items),
        items,
    }
}

/// One read on a thread of its own, to be given up.
struct Asked<T>(Receiver<T>);

fn ask<T: Send + 'static>(name: &str, question: impl FnOnce() -> T + Send + 'static) -> Asked<T> {
    let (tx, rx) = channel();
    spawn_with_stack(name, STACK, move || {
        let _ = tx.send(question());
    });
    Asked(rx)
}

/// When everything has to have answered.
#[derive(Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    #[expect(
        clippy::disallowed_methods,
        reason = "one look, with a limit of its own"
    )]
    fn now() -> Instant {
        Instant::now()
    }

    fn after(time: Duration) -> Self {
        Deadline(Self::now() + time)
    }

    /// The answer; none if it does not come in time.
    fn wait<T>(self, asked: &Asked<T>) -> Option<T> {
        let left = self.0.saturating_duration_since(Self::now());
        asked.0.recv_timeout(left).ok()
    }

    /// Answers of each of so many, in order; none where one does not come in time.
    fn each<T>(self, asked: &Asked<(usize, T)>, many: usize) -> Vec<Option<T>> {
        let mut answers: Vec<Option<T>> = (0..many).map(|_| None).collect();
        let mut left = many;
        while left > 0
            && let Some((at, answer)) = self.wait(asked)
        {
            if let Some(place) = answers.get_mut(at) {
                *place = Some(answer);
            }
            left -= 1;
        }
        answers
    }

    /// The same of a reading.
    fn reading<T>(self, what: &str, asked: &Asked<Reading<T>>) -> Reading<T> {
        self.wait(asked).unwrap_or_else(|| stalled(what))
    }
}

fn stalled<T>(what: &str) -> Reading<T> {
    Reading::Failed(Fault {
        kind: FaultKind::Stalled,
        detail: format!("{what}: no answer in time"),
    })
}

/// Reads everything at once, each part on a thread of its own: one that hangs costs its own item.
fn gather(settings: &Settings, variables: Vec<(OsString, OsString)>) -> ContainerFacts {
    let host = Host::new(&settings.root);
    let files = Deadline::after(settings.timeout);
    let network = Deadline::after(settings.timeout + GRACE);
    let part = |name: &'static str| {
        let host = host.clone();
        (name, host)
    };
    // NCCL's files may hang too, on a file system that does.
    let kept = variables.clone();
    let (name, of) = part("settings");
    let environment = ask(name, move || environment::read(&of, kept));
    let environment = files.wait(&environment).unwrap_or_else(|| {
        let nowhere = Host::new("/nonexistent");
        environment::read(&nowhere, variables)
    });
    let asked_master = ask_master(&host, &environment, settings.timeout);
    let (name, of) = part("rdma");
    let rdma = ask(name, move || infiniband::enumerate(&of));
    let (name, of) = part("interfaces");
    let interfaces = ask(name, move || interfaces::read(&of));
    let (name, of) = part("links");
    let links = ask(name, move || interfaces::links(&of));
    let (name, of) = part("limits");
    let privileges = ask(name, move || limits::read(&of));
    let (name, of) = part("shm");
    let shm = ask(name, move || shm::read(&of));
    let (name, of) = part("gpus");
    let gpus = ask(name, move || nodes::gpus(&of));
    let (name, of) = part("gpudirect");
    let gpudirect = ask(name, move || gpudirect::read(&of));
    let (name, of) = part("gds");
    let own = environment.clone();
    let storage = ask(name, move || cufile::read(&of, &own));
    let (name, of) = part("named");
    let own = environment.clone();
    let named_files = ask(name, move || named::read(&of, &own, FILES));
    let (name, of) = part("libraries");
    let own = environment.clone();
    let libraries = ask(name, move || {
        let wanted = libraries_wanted(&own);
        (
            libraries::has_loader(&of),
            libraries::find(&of, &own, &wanted),
        )
    });
    let rdma = files
        .reading("/sys/class/infiniband", &rdma)
        .map(|devices| look(&host, devices, slot_asked(&environment), files));
    // Without an answer there may well be a loader: then its items are unknown, not skipped.
    let (has_loader, libraries) = files.wait(&libraries).unwrap_or((true, Default::default()));
    ContainerFacts {
        rdma,
        interfaces: files.reading("interfaces", &interfaces),
        links: files.reading("/sys/class/net", &links),
        privileges: files.wait(&privileges).unwrap_or_default(),
        shm: files.reading("/dev/shm", &shm),
        gpus: files.reading("/dev", &gpus),
        gpudirect: files.wait(&gpudirect).unwrap_or_default(),
        storage: files.wait(&storage).unwrap_or_default(),
        named_files: files.wait(&named_files).unwrap_or_default(),
        libraries,
        has_loader,
        master: match asked_master {
            None => MasterFacts::default(),
            Some(asked) => network.wait(&asked).unwrap_or_else(|| MasterFacts {
                addresses: stalled("the resolver"),
                ..MasterFacts::default()
            }),
        },
        environment,
    }
}

/// Devices, opened and looked at on threads of their own: one that hangs costs itself, and of
/// more than [`THREADS`] those that come after it on its thread.
fn look(
    host: &Host,
    devices: Vec<RdmaDevice>,
    slot: Option<u32>,
    deadline: Deadline,
) -> Vec<SeenDevice> {
    let of = host.clone();
    let opened = on_each("uverbs", devices.clone(), move |device| {
        nodes::open_uverbs(&of, &device)
    });
    let of = host.clone();
    let seen = on_each("ports", devices.clone(), move |device| {
        nodes::look(&of, device, Reading::Absent, slot)
    });
    let opened = deadline.each(&opened, devices.len());
    let seen = deadline.each(&seen, devices.len());
    devices
        .into_iter()
        .zip(opened.into_iter().zip(seen))
        .map(|(device, (node, seen))| {
            let node = node.unwrap_or_else(|| stalled("opening its uverbs node"));
            match seen {
                Some(seen) => SeenDevice { node, ..seen },
                None => SeenDevice {
                    node: match node {
                        Reading::Value(()) => stalled("reading its ports"),
                        other => other,
                    },
                    ports: Vec::new(),
                    device,
                },
            }
        })
        .collect()
}

/// Asks `question` of each, with its place among them.
fn on_each<T: Send + 'static, U: Send + 'static>(
    name: &str,
    all: Vec<T>,
    question: impl Fn(T) -> U + Clone + Send + 'static,
) -> Asked<(usize, U)> {
    let mut shares: Vec<Vec<(usize, T)>> = Vec::new();
    for (at, one) in all.into_iter().enumerate() {
        match shares.get_mut(at % THREADS) {
            Some(share) => share.push((at, one)),
            None => shares.push(vec![(at, one)]),
        }
    }
    let (tx, rx) = channel();
    for share in shares {
        let (tx, question) = (tx.clone(), question.clone());
        spawn_with_stack(name, STACK, move || {
            for (at, one) in share {
                let _ = tx.send((at, question(one)));
            }
        });
    }
    Asked(rx)
}

/// Asks for the master, where this is a running system and not a directory tree.
fn ask_master(
    host: &Host,
    environment: &Environment,
    timeout: Duration,
) -> Option<Asked<MasterFacts>> {
    if !host.is_live() {
        return None;
    }
    let (name, port) = master_to_ask(environment)?;
    let name = name.to_string();
    Some(ask("master", move || master::ask(&name, port, timeout)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_hangs_costs_itself() {
        let (tx, rx) = channel::<()>();
        let rx = std::sync::Arc::new(std::sync::Mutex::new(rx));
        let asked = on_each("test", (0..THREADS + 8).collect(), move |n: usize| {
            if n == 3 {
                let _ = rx.lock().unwrap().recv();
            }
            n * 2
        });
        let deadline = Deadline::after(Duration::from_millis(300));
        let got = deadline.each(&asked, THREADS + 8);
        for (n, answer) in got.iter().enumerate() {
            let hung = n % THREADS == 3;
            assert_eq!(*answer, (!hung).then_some(n * 2), "{n}");
        }
        drop(tx);
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
