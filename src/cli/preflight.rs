//! `selvage preflight`: looks from inside a container, and ends.

mod arguments;
mod asking;

pub use arguments::{FailOn, Settings, command};

use crate::blocking::spawn_with_stack;
use crate::check::preflight::{
    self as items, FILES, Item, Options, libraries_wanted, master_to_ask, slot_asked,
};
use crate::host::Host;
use crate::observe::container::{ContainerFacts, Environment, MasterFacts, SeenDevice};
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::Reading;
use crate::readiness;
use crate::report::{self, State};
use crate::source::container::{
    cufile, environment, interfaces, libraries, limits, master, named, nodes, shm,
};
use crate::source::{gpudirect, infiniband};
use asking::{Asked, Deadline, Lost, STACK, ask, on_each, stalled};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Time beyond `--timeout` for a resolver that keeps its own.
const GRACE: Duration = Duration::from_secs(2);

/// Most time that NCCL's own files get.
const CONF: Duration = Duration::from_secs(5);

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

/// Reads everything at once, each part on a thread of its own: one that hangs costs its own item.
fn gather(settings: &Settings, variables: Vec<(OsString, OsString)>) -> ContainerFacts {
    let host = Host::new(&settings.root);
    let files = Deadline::after(settings.timeout);
    let network = Deadline::after(settings.timeout + GRACE);
    let part = |name: &'static str| {
        let host = host.clone();
        (name, host)
    };
    // NCCL's files may hang on a file system that does: nobody else waits for them but who asks for
    // what they name.
    let environment = environment::of_process(variables);
    let conf: Vec<_> = environment::conf_files(&environment)
        .into_iter()
        .map(|file| {
            let ((name, of), own) = (part("settings"), file.clone());
            (ask(name, move || environment::read_file(&of, &own)), file)
        })
        .collect();
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
    let patience = Deadline::after((settings.timeout / 2).min(CONF));
    let conf = conf
        .into_iter()
        .map(|(asked, file)| (patience.reading(&file, &asked), file));
    let environment = environment::with_files(environment, conf.collect());
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
            Some(asked) => network.last(&asked).unwrap_or_else(|lost| MasterFacts {
                addresses: match lost {
                    Lost::Late => stalled("the resolver"),
                    Lost::Unasked => Reading::NotObservable,
                },
                ..MasterFacts::default()
            }),
        },
        environment,
    }
}

/// Devices, opened and looked at on threads of their own: one that hangs costs itself, and of
/// more than [`asking::THREADS`] those that come after it on its thread.
fn look(
    host: &Host,
    devices: Vec<RdmaDevice>,
    slot: Option<u32>,
    deadline: Deadline,
) -> Vec<SeenDevice> {
    let of = host.clone();
    let opened = on_each("uverbs", STACK, devices.clone(), move |device| {
        nodes::open_uverbs(&of, &device)
    });
    let of = host.clone();
    let seen = on_each("ports", STACK, devices.clone(), move |device| {
        nodes::look(&of, device, Reading::Absent, slot)
    });
    let opened = deadline.each(&opened, devices.len());
    let seen = deadline.each(&seen, devices.len());
    devices
        .into_iter()
        .zip(opened.into_iter().zip(seen))
        .map(|(device, (node, seen))| {
            let lost = |lost: Lost, what: &str| match lost {
                Lost::Late => stalled(what),
                Lost::Unasked => Reading::NotObservable,
            };
            let node = node.unwrap_or_else(|why| lost(why, "opening its uverbs node"));
            match seen {
                Ok(seen) => SeenDevice { node, ..seen },
                Err(why) => SeenDevice {
                    node: match node {
                        Reading::Value(()) => lost(why, "reading its ports"),
                        other => other,
                    },
                    ports: Vec::new(),
                    device,
                },
            }
        })
        .collect()
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
    let (tx, rx) = channel();
    spawn_with_stack("master", STACK, move || {
        master::ask(&name, port, timeout, |facts| {
            let _ = tx.send(facts);
        });
    });
    Some(Asked(rx))
}
