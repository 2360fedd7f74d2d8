//! From arguments to exit status.

use super::args::{Cli, Commands, LocalCommands};
#[cfg(feature = "demo")]
use super::demo;
use super::{
    ArgInputs, args, ask, bench, capture, check, cleanup, complain, fleet, kmsg, nccl, on_runtime,
    preflight, runtime, slurm, stop_signal,
};
use crate::agent::AgentError;
use crate::config::{self, Config, Listen, Loaded, LogFormat};
use crate::host::Host;
use crate::report::{Report, State, Style, clean_lines, metrics};
use crate::sidecar;
use crate::source::machine;
use crate::state::StateDir;
use clap::{ArgMatches, FromArgMatches};
use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, IsTerminal, Write};
use std::{os::fd::AsFd, path::Path, process::ExitCode, sync::LazyLock, time::Duration};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Exit status of wrong usage (EX_USAGE of sysexits.h).
pub const USAGE: u8 = 64;
/// Exit status when something outside failed.
pub const FAILED: u8 = 70;

/// How long to wait for a single file, such as the host name, before the sources start.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// Stack of the thread that reads the settings again, in bytes.
const SETTINGS_STACK: usize = 2 << 20;

/// Runs the command line and returns the exit status.
pub fn main() -> ExitCode {
    LazyLock::force(&crate::clock::STARTED);
    let status = args::parse(std::env::args_os().collect()).and_then(|matches| run(&matches));
    ExitCode::from(status.unwrap_or_else(|failed| failed))
}

/// The exit status; `Err` where it is that of a failure, which was complained about.
pub(super) type Exit = Result<u8, u8>;

fn run(matches: &ArgMatches) -> Exit {
    let line = Cli::from_arg_matches(matches).map_err(refuse)?;
    let (name, matches) = matches.subcommand().ok_or(USAGE)?;
    // Others warn when they load the settings.
    if !args::takes_settings(name) {
        args::unknown_variables().iter().for_each(complain);
    }
    match line.command {
        Commands::Local(command) => local(command, matches),
        Commands::Fleet(flags) => fleet::run(flags, matches),
        Commands::Slurm(program) => slurm::run(&program, matches),
        Commands::Cleanup(which) => cleanup::run(&start(matches, true)?.config, &which),
        Commands::Accept => accept(&start(matches, true)?.config),
        Commands::Config { .. } if !matches.args_present() => print(&config::to_toml_defaults()),
        Commands::Config { .. } => {
            let loaded = config::load(matches, host_name).map_err(refuse_all)?;
            loaded.warnings.iter().for_each(complain);
            print(&loaded.to_toml())
        }
        Commands::Completions { shell } => print(&args::completions(shell)),
        Commands::Man => print(&args::man_page()),
        #[cfg(feature = "demo")]
        Commands::Demo(args) => demo::demo_command(&args),
        #[cfg(feature = "demo")]
        Commands::Simulate(args) => demo::simulate_command(args),
    }
}

fn local(command: LocalCommands, matches: &ArgMatches) -> Exit {
    match command {
        LocalCommands::Agent => agent(start(matches, false)?, matches),
        LocalCommands::Check {
            output,
            asked,
            exit,
        } => {
            let config = &start(matches, true)?.config;
            let state = match asked.agent {
                Some(_) => ask_agent(config, &asked, output.style())?,
                None => sample(config, |report| check::encode(report, output.style()))?,
            };
            Ok(exit.fail_on.exit_status(state, exit.exit_codes))
        }
        LocalCommands::Metrics => metrics_command(&start(matches, true)?.config),
        LocalCommands::Kmsg(inputs) => kmsg_command(&inputs),
        LocalCommands::Nccl { inputs, bench } => match bench.bench {
            true => bench::command(&inputs, &bench, matches),
            false => nccl::command(&inputs),
        },
        LocalCommands::Capture { dir } => capture_command(&start(matches, true)?.config, &dir),
        LocalCommands::Sidecar(settings) => sidecar_command(settings),
        LocalCommands::Preflight { output, settings } => {
            preflight_command(&settings, output.style())
        }
    }
}

/// The settings in force, adapted to a directory tree that stands in for a host.
pub(super) fn load_on_tree(matches: &ArgMatches) -> Result<Box<Loaded>, Vec<String>> {
    // On the heap: the stack may be limited to little.
    let mut loaded = config::load(matches, host_name).map(Box::new)?;
    let agent = &mut loaded.config.agent;
    let root = &agent.host_root;
    if !root.is_dir() {
        let missing = format!("--host-root {}: no such directory", root.display());
        let warnings = loaded.warnings.iter().map(ToString::to_string);
        return Err(warnings.chain([missing]).collect());
    }
    // State saved on this machine does not belong to the tree of another one.
    let default = Config::default().agent.state_dir;
    if agent.state_dir == default && !Host::new(root).is_live() {
        agent.state_dir = None;
    }
    Ok(loaded)
}

/// The settings of a command that reads this node, whose log it starts; `quiet` limits that to warnings and
/// errors.
fn start(matches: &ArgMatches, quiet: bool) -> Result<Box<Loaded>, u8> {
    let loaded = load_on_tree(matches).map_err(refuse_all)?;
    init_log(&loaded.config, quiet);
    for warning in &loaded.warnings {
        tracing::warn!(%warning, "unknown environment variable ignored");
    }
    Ok(loaded)
}

fn metrics_command(config: &Config) -> Exit {
    let detail = crate::agent::metrics_detail(config);
    let encode = |report: &Report| {
        let stats = metrics::AgentStats {
            now: Some(report.snapshot.at),
            ..crate::clock::process_stats()
        };
        metrics::encode(report, None, &stats, detail)
    };
    sample(config, encode).map(|_| 0)
}

/// Leaves the request in the state directory; the agent on this node, if there is one, grants it.
fn accept(config: &Config) -> Exit {
    let state = StateDir::new(config.agent.state_dir.as_deref());
    let accepted = crate::blocking::ask_within("accept", READ_TIMEOUT, move || state.accept());
    let accepted = accepted.ok_or_else(|| fail("the state directory does not answer"))?;
    let dir = config.agent.state_dir.clone().unwrap_or_default();
    accepted.map_err(|error| fail(format_args!("agent.state_dir {dir:?}: {error}")))?;
    print(
        "The agent forgets its remembered best values within a minute; findings with other evidence stay.\n",
    )
}

pub(super) fn host_name(root: &Path) -> Option<String> {
    let root = root.to_path_buf();
    let name = move || machine::host_name(&Host::new(root));
    crate::blocking::ask_within("host-name", READ_TIMEOUT, name).flatten()
}

fn capture_command(config: &Config, dir: &Path) -> Exit {
    let host = Host::new(&config.agent.host_root);
    let (own, state) = (host.clone(), config.agent.state_dir.clone());
    let asked = crate::blocking::ask_within("saved", READ_TIMEOUT, move || {
        let boot_id = machine::boot_id(&own);
        let saved = StateDir::new(state.as_deref()).load();
        saved.restricted_of(boot_id.as_deref())
    });
    let captured = capture::capture(&host, dir, config.clone(), asked.unwrap_or_default());
    let summary = on_runtime(captured).map_err(fail)?.map_err(fail)?;
    summary.troubles.iter().for_each(complain);
    let left_out = match summary.left_out {
        0 => String::new(),
        left_out => format!(", {left_out} left out for size"),
    };
    print(&format!(
        "{} files ({} bytes), {} links, {} paths that answered with an error{left_out}\n\
         It contains the host's name, kernel command line, addresses and kernel log: review it before \
         you share it.\n",
        summary.files, summary.bytes, summary.links, summary.errnos
    ))
}

/// Complains about something outside that failed; gives the exit status.
pub(super) fn fail(error: impl std::fmt::Display) -> u8 {
    complain(error);
    FAILED
}

/// Complains about all that is wrong with the usage; gives the exit status.
pub(super) fn refuse_all<T: std::fmt::Display>(complaints: Vec<T>) -> u8 {
    complaints.iter().for_each(complain);
    USAGE
}

/// Complains about wrong usage; gives the exit status.
pub(super) fn refuse(error: impl std::fmt::Display) -> u8 {
    complain(error);
    USAGE
}

/// Colour only on a terminal and without NO_COLOR.
pub(super) fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|text| text.parse().ok());
    Style {
        width: columns.unwrap_or_else(|| if terminal { textwrap::termwidth() } else { 80 }),
        colour: terminal && std::env::var_os("NO_COLOR").is_none(),
    }
}

/// Prints to standard output.
pub(super) fn print(text: &str) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A closed pipe (`| head`) is not a failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(fail(error)),
        _ => Ok(0),
    }
}

fn kmsg_command(inputs: &ArgInputs) -> Exit {
    let json = inputs.output.style().is_none();
    let summary = kmsg::run(&inputs.files, json, &mut io::stdout().lock()).map_err(fail)?;
    summary.troubles.iter().for_each(complain);
    if !summary.troubles.is_empty() {
        return Err(FAILED);
    }
    if summary.events == 0 && !json {
        complain(format_args!("no events in {} lines", summary.lines));
    }
    Ok(0)
}

/// Prints the report of the running agent; gives its verdict, unknown where it does not answer.
fn ask_agent(config: &Config, asked: &ask::AgentArgs, style: Option<Style>) -> Result<State, u8> {
    // kube logs what is complained about below.
    let _silent = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new());
    match on_runtime(ask::report(config, asked, style)).map_err(fail)? {
        Ok((verdict, body)) => print(&(clean_lines(body.trim_end()) + "\n")).map(|_| verdict.state),
        Err(why) => {
            complain(why);
            Ok(State::Unknown)
        }
    }
}

/// Reads the node once and prints what `encode` makes of the report; gives its verdict.
fn sample(config: &Config, encode: impl FnOnce(&Report) -> String) -> Result<State, u8> {
    let report = on_runtime(crate::agent::sample_once(config)).map_err(fail)?;
    print(&encode(&report))?;
    Ok(report.state)
}

/// Runs until it is asked to stop. Asked to reload, it starts again within the process, with what the
/// state directory keeps; settings that it could not run with are refused, and it goes on as it was.
fn agent(mut loaded: Box<Loaded>, matches: &ArgMatches) -> Exit {
    let signals = on_runtime(async { runtime::Signals::listen() }).flatten();
    let mut signals = signals.map_err(fail)?;
    loop {
        let (version, revision) = (crate::units::VERSION, crate::units::REVISION);
        let (config, settings) = (&loaded.config, loaded.changed());
        let node = &config.agent.node_name;
        tracing::info!(version, revision, %node, settings, "selvage agent started");
        let mut next = None;
        let shutdown = async {
            let mut wanted = signals.next().await;
            while wanted == runtime::Wanted::Reload {
                // A signal that comes meanwhile is not kept waiting.
                wanted = tokio::select! {
                    signal = signals.next() => signal,
                    settings = reload(config, matches) => match settings {
                        Ok(accepted) => {
                            next = Some(accepted);
                            return;
                        }
                        Err(complaints) => {
                            tracing::error!(
                                ?complaints,
                                "reload failed; the agent keeps its current settings"
                            );
                            signals.next().await
                        }
                    },
                };
            }
        };
        // On the heap: the stack may be limited to little.
        let running = Box::pin(crate::agent::run(config.clone(), None, shutdown, |_, _| {}));
        let status = serve(async { running.await.map_err(io::Error::other) });
        match next {
            Some(accepted) if status == 0 => loaded = accepted,
            _ => return Ok(status),
        }
    }
}

/// The settings as they are now, which an agent with those of `before` can go on with.
async fn reload(before: &Config, matches: &ArgMatches) -> Result<Box<Loaded>, Vec<String>> {
    let is_piped = |path: &String| path == "-";
    if matches.get_one::<String>("config").is_some_and(is_piped) {
        let why = "--config=-: standard input cannot be read a second time; restart the agent";
        return Err(vec![why.into()]);
    }
    let matches = matches.clone();
    let (answer, loaded) = tokio::sync::oneshot::channel();
    crate::blocking::spawn_with_stack("settings", SETTINGS_STACK, move || {
        let _ = answer.send(load_on_tree(&matches));
    });
    let silent = "reading the settings file timed out";
    let loaded = tokio::time::timeout(2 * READ_TIMEOUT, loaded)
        .await
        .unwrap_or_else(|_| Ok(Err(vec![silent.into()])))
        .unwrap_or_else(|_| Err(vec!["no thread could be started".into()]))?;
    crate::agent::can_follow(before, &loaded.config)
        .await
        .map_err(|error| vec![error.to_string()])?;
    let log = |config: &Config| (config.agent.log_level, config.agent.log_format);
    if log(before) != log(&loaded.config) {
        tracing::warn!("agent.log_level and agent.log_format take effect only after a restart");
    }
    Ok(loaded)
}

fn sidecar_command(settings: sidecar::SidecarSettings) -> Exit {
    let listen = match settings.listen.as_str() {
        "none" | "off" => None,
        address => {
            let listen = address.parse::<Listen>();
            let refused = |why| refuse(format_args!("--listen {address}: {why}"));
            Some(listen.map_err(refused)?.addresses())
        }
    };
    Ok(serve(async {
        sidecar::run(settings, listen, io::stdout(), stop_signal()?).await
    }))
}

fn preflight_command(settings: &preflight::PreflightSettings, style: Option<Style>) -> Exit {
    if let Some(dir) = &settings.copy_to {
        let copied = preflight::copy_to(dir);
        let path = copied.map_err(|error| fail(format_args!("{}: {error}", dir.display())))?;
        return print(&format!("{}\n", path.display()));
    }
    let root = settings.root.display();
    let missing = || refuse(format_args!("--host-root {root}: no such directory"));
    settings.root.is_dir().then_some(()).ok_or_else(missing)?;
    let (state, report) = preflight::run(settings, std::env::vars_os(), style);
    print(&report)?;
    let status = (settings.fail_on).exit_status(state, check::ExitCodes::Default);
    Ok(if settings.warn { 0 } else { status })
}

/// Runs a service until it is stopped, and returns the exit status.
pub(super) fn serve(run: impl Future<Output = io::Result<()>>) -> u8 {
    match on_runtime(run).flatten() {
        Ok(()) => 0,
        Err(error) => {
            error.to_string().lines().for_each(complain);
            match error.get_ref().and_then(|error| error.downcast_ref()) {
                // A setting names a file that cannot be used.
                Some(AgentError::Serve(_)) => USAGE,
                _ => FAILED,
            }
        }
    }
}

/// Standard error, without waiting for its reader: what does not fit into the pipe is lost.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A pipe is ready where this much fits.
        let part = line.get(..PIPE_BUF).unwrap_or(line);
        let stderr = io::stderr();
        let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut ready, PollTimeout::ZERO) {
            Ok(0) => Ok(part.len()),
            _ => stderr.lock().write(part),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the agent's own log on standard error; `quiet` limits it to warnings and errors.
pub(super) fn init_log(config: &Config, quiet: bool) {
    let most = if quiet { Level::WARN } else { Level::TRACE };
    let level = config.agent.log_level.as_str().parse();
    let level = level.unwrap_or(Level::INFO).min(most);
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Stderr)
        // A failed write is ignored: reporting it would panic.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal());
    // The client logs each failed request as an error; who asked says what it means.
    let targets = Targets::new().with_default(level);
    let targets = targets.with_target("kube_client", LevelFilter::OFF);
    match config.agent.log_format {
        LogFormat::Json => log.json().flatten_event(true).finish().with(targets).init(),
        LogFormat::Text => log.finish().with(targets).init(),
    }
}
