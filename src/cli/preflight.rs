//! `selvage preflight`: reads a training container from inside, judges it and exits. Environment variables
//! replace its flags.

mod bounded;

use super::check::FailOn;
use crate::check::preflight::{self, FILES, libraries_wanted, master_to_ask, slot_asked};
use crate::host::Host;
use crate::observe::{ContainerFacts, Environment, MasterFacts, RdmaDevice, SeenDevice};
use crate::readiness;
use crate::report::{self, State, Style};
use crate::source::container::{cufile, environment, interfaces, libraries, limits, master, nodes};
use crate::source::{gpudirect, infiniband};
use crate::units::Span;
use bounded::{Deadline, Missing, start};
use clap::builder::{FalseyValueParser, Resettable};
use clap::{Args, Command};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time beyond `--timeout` for a resolver that keeps a timeout of its own.
const GRACE: Duration = Duration::from_secs(2);

/// Longest wait for NCCL's own files.
const CONF: Duration = Duration::from_secs(5);

/// Settings of one run.
#[derive(Debug, Clone, Args)]
pub struct PreflightSettings {
    /// Print the report, but always exit 0
    #[arg(long, env = "SELVAGE_PREFLIGHT_WARN", value_parser = FalseyValueParser::new())]
    pub warn: bool,
    /// Exit 0 on milder verdicts: `unready` ignores degraded and unknown, `degraded` ignores unknown
    #[arg(long, env = "SELVAGE_PREFLIGHT_FAIL_ON", value_name = "VERDICT")]
    #[arg(default_value = "unknown")]
    pub fail_on: FailOn,
    /// GPUs that the job uses here, if this container cannot see them
    #[arg(long, env = "SELVAGE_PREFLIGHT_GPUS", value_name = "N", value_parser = clap::value_parser!(u32).range(..=1024))]
    pub gpus: Option<u32>,
    /// How long to wait for MASTER_ADDR and for a device that does not answer, 100ms to 1h
    #[arg(long, env = "SELVAGE_PREFLIGHT_TIMEOUT", value_name = "TIME", default_value = "5s", value_parser = timeout)]
    pub timeout: Duration,
    /// Only copy this program to DIR/selvage, for an init container of the training image
    #[arg(long, value_name = "DIR")]
    pub copy_to: Option<PathBuf>,
    /// Directory that replaces / for sys, proc, dev and etc
    #[arg(long = "host-root", env = "SELVAGE_HOST_ROOT", value_name = "DIR")]
    #[arg(default_value = "/")]
    pub root: PathBuf,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let Span(time) = text.parse()?;
    match (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        true => Ok(time),
        false => Err("not between 100ms and 1h".into()),
    }
}

/// An empty variable, as manifests write "none", counts as unset.
pub fn without_empty(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_env().and_then(std::env::var_os) {
        Some(value) if value.is_empty() => arg.env(Resettable::Reset),
        _ => arg,
    })
}

/// Copies this program into a directory, for another image to run: it is static and needs nothing
/// else. The copy appears under its name only when it is complete, and may replace a running one.
///
/// # Errors
/// The error of reading the program or writing the copy.
pub fn copy_to(dir: &Path) -> io::Result<PathBuf> {
    let (target, partial) = (dir.join("selvage"), dir.join(".selvage.new"));
    std::fs::copy(std::env::current_exe()?, &partial)?;
    std::fs::rename(&partial, &target)?;
    Ok(target)
}

/// Reads the container and judges it: the verdict, and the report as text of a style or else as JSON.
pub fn run(
    settings: &PreflightSettings,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    style: Option<Style>,
) -> (State, String) {
    let environment = Environment {
        variables: environment::of_process(variables),
        ..Environment::default()
    };
    let items = preflight::judge(&gather(settings, environment), settings.gpus);
    let state = readiness::preflight::fold(&items);
    let report = match style {
        None => report::preflight::json(state, &items),
        Some(style) => report::preflight::text(state, &items, style),
    };
    (state, report)
}

/// Reads everything at once, each part on a separate thread: a hung read costs only its own items.
fn gather(settings: &PreflightSettings, mut environment: Environment) -> ContainerFacts {
    let host = Host::new(&settings.root);
    let files = Deadline::after(settings.timeout);
    let network = Deadline::after(settings.timeout + GRACE);
    let asked = master_to_ask(&environment).filter(|_| host.is_live());
    let master = asked.map(|(name, port)| {
        let (name, timeout) = (name.to_string(), settings.timeout);
        let probe = move |_: &Host| master::probe(&name, port, timeout);
        start("master", &host, probe)
    });
    let rdma = start("rdma", &host, infiniband::enumerate);
    let interfaces = start("interfaces", &host, interfaces::read);
    let links = start("links", &host, interfaces::links);
    let privileges = start("limits", &host, limits::privileges);
    let shm = start("shm", &host, limits::shared_memory);
    let gpus = start("gpus", &host, nodes::gpus);
    let gpudirect = start("gpudirect", &host, gpudirect::read);
    add_nccl_files(&host, &mut environment, settings.timeout);
    let own = environment.clone();
    let storage = start("gds", &host, move |host| cufile::read(host, &own));
    let own = environment.clone();
    let referenced_files = start("referenced", &host, move |host| {
        environment::referenced_files(host, &own, FILES)
    });
    let own = environment.clone();
    let libraries = start("libraries", &host, move |host| {
        let found = libraries::find(host, &own, &libraries_wanted(&own));
        (libraries::has_loader(host), found)
    });
    let rdma = files
        .reading("/sys/class/infiniband", &rdma)
        .map(|devices| open(&host, devices, slot_asked(&environment), files));
    // Without an answer there may well be a loader: its items are then unknown, not skipped.
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
        referenced_files: files.wait(&referenced_files).unwrap_or_default(),
        libraries,
        has_loader,
        master: master.map_or_else(MasterFacts::default, |pending| {
            let missing = |missing: Missing| MasterFacts {
                addresses: missing.reading("the resolver"),
                ..MasterFacts::default()
            };
            network.wait(&pending).unwrap_or_else(missing)
        }),
        environment,
    }
}

/// Adds the settings of NCCL's own files. These may be on a file system that hangs, which delays
/// only the reads that depend on a setting.
fn add_nccl_files(host: &Host, environment: &mut Environment, timeout: Duration) {
    let deadline = Deadline::after((timeout / 2).min(CONF));
    let pending: Vec<_> = environment::conf_files(environment)
        .into_iter()
        .map(|file| {
            let path = file.clone();
            let read = move |host: &Host| environment::read_file(host, &path);
            (file, start("settings", host, read))
        })
        .collect();
    let read = pending.into_iter().map(|(file, pending)| {
        let lines = deadline.reading(&file, &pending);
        (file, lines)
    });
    environment::add_files(environment, read);
}

/// Opens each device's uverbs node and then reads its ports, on a thread per device.
fn open(
    host: &Host,
    devices: Vec<RdmaDevice>,
    slot: Option<u32>,
    deadline: Deadline,
) -> Vec<SeenDevice> {
    let start = |device: RdmaDevice| {
        let own = device.clone();
        let read = move |host: &Host| nodes::read(host, own, slot);
        (device, start("uverbs", host, read))
    };
    let pending: Vec<_> = devices.into_iter().map(start).collect();
    let seen = pending.into_iter().map(|(device, pending)| {
        let missing = |missing: Missing| SeenDevice {
            node: missing.reading("its uverbs node or the files of its ports"),
            ports: Vec::new(),
            device,
        };
        deadline.wait(&pending).unwrap_or_else(missing)
    });
    seen.collect()
}
