//! `selvage slurm health`, which slurmd runs as its HealthCheckProgram: drains this node when the agent's
//! verdict says so, and takes back what it drained.

use super::{Exit, USAGE, ask, complain, fail, on_runtime, print, refuse, refuse_all};
use crate::config::{self, Config, SlurmSettings};
use crate::report::text::clean;
use crate::slurm::{MARK, SlurmAction, SlurmNode, allowed, parse_nodes, wanted};
use clap::{ArgMatches, Subcommand};
use nix::fcntl::OFlag;
use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::{io, os::unix::fs::OpenOptionsExt, path::Path, process::Stdio, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process;
use tokio::time::{Instant, timeout_at};

/// slurmd waits for the program, and a controller that is gone makes scontrol wait for 9 s.
const LIMIT: Duration = Duration::from_millis(750);

/// Extra time for giving the lock back.
const UNLOCK: Duration = Duration::from_millis(150);

/// Longest answer of a program in bytes: about 20,000 nodes.
const LONGEST: u64 = 64 << 20;

/// slurmd runs the program without a PATH.
const PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/opt/slurm/bin";

/// The reservation that stands for the right to drain: slurmctld makes one of a name only. It is on the
/// node to be drained, takes it from no running job, and expires where its maker died.
const LOCK: &str = "selvage-drain";

/// What Slurm runs.
#[derive(Debug, Subcommand)]
pub(super) enum Program {
    /// Drain or resume this node by the agent's verdict: slurmd's HealthCheckProgram
    #[command(after_help = "\
The node is SLURMD_NODENAME, which slurmd sets. Exit status: 0, also when nothing is to be
done; 64 wrong usage; 70 when the agent or slurmctld does not answer within 0.75 s")]
    Health(ask::AgentArgs),
}

/// Runs it.
pub(super) fn run(Program::Health(asked): &Program, matches: &ArgMatches) -> Exit {
    let (_, matches) = matches.subcommand().ok_or(USAGE)?;
    let deadline = Instant::now() + LIMIT;
    let config = config::load(matches, |_| None).map_err(refuse_all)?.config;
    let node = std::env::var("SLURMD_NODENAME").unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match node.as_str() {
        "" => Err(refuse(
            "SLURMD_NODENAME is not set: slurmd sets it; by hand, set it to the node's name in slurm.conf",
        )),
        name if name.chars().all(is_plain) => Ok(()),
        odd => Err(refuse(format_args!(
            "SLURMD_NODENAME={odd:?} is not the name of a node"
        ))),
    }?;
    let slurm = SlurmClient {
        settings: &config.slurm,
        node: &node,
        deadline,
        is_old: &Cell::new(false),
    };
    let done = on_runtime(health(&config, asked, &slurm)).map_err(fail)?;
    let done = done.map_err(|why| fail(format_args!("{node}: {why}")))?;
    print(&format!("{node}: {done}\n"))
}

/// Does what the verdict asks for, as far as Slurm's nodes allow it; says what was done.
async fn health(
    config: &Config,
    asked: &ask::AgentArgs,
    slurm: &SlurmClient<'_>,
) -> Result<String, String> {
    // kube logs what is complained about as an error.
    let _silent = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new());
    let answer = timeout_at(slurm.deadline, ask::report(config, asked, None)).await;
    let (verdict, _) = answer.map_err(|_| "the agent did not answer in time".to_string())??;
    let (action, why) = wanted(&verdict, &config.slurm);
    match &action {
        SlurmAction::Nothing => Ok(format!("nothing to do: {why}")),
        SlurmAction::Drain(reason) => match only_call(slurm.node)? {
            Some(_held) => slurm.drain(&action, reason).await,
            None => Ok("nothing to do: another call of this node is draining it".into()),
        },
        SlurmAction::Resume => slurm.resume(&action).await,
    }
}

/// Held by the one call of a node that drains: two would delete each other's reservation, and the second
/// perhaps another node's. `None` where another call holds it.
fn only_call(node: &str) -> Result<Option<File>, String> {
    let directory = std::env::var_os("RUNTIME_DIRECTORY").unwrap_or_else(|| "/run".into());
    let path = Path::new(&directory).join(format!("selvage-slurm-{node}.lock"));
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let mut options = File::options();
    let options = options.create(true).truncate(false).write(true);
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = options.custom_flags(flags.bits()).open(&path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The right to drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainLock {
    /// Nothing was sent under it.
    New,
    /// From an earlier call for this node that ran out of time. Its drain may still be on its way, which is
    /// good for this node's drain and no other's: the lock is given back only after that.
    LeftBehind,
}

/// Without [`MARK`], by which selvage knows its own drains.
const RESUMED: &str = "reason=resumed by selvage; a drain after that is not selvage's";

/// Runs Slurm's programs, all of them before the deadline.
struct SlurmClient<'a> {
    settings: &'a SlurmSettings,
    node: &'a str,
    deadline: Instant,
    /// Before Slurm 23.02: scontrol knows no JSON.
    is_old: &'a Cell<bool>,
}

impl SlurmClient<'_> {
    async fn drain(&self, action: &SlurmAction, reason: &str) -> Result<String, String> {
        if let Err(why) = self.allows(action).await? {
            return Ok(format!("not drained: {why}"));
        }
        let Some(lock) = self.lock().await? else {
            return Ok("not drained yet: another node is being drained".into());
        };
        let under_lock = self.allows(action).await;
        let drains = matches!(under_lock, Ok(Ok(())));
        if drains {
            // One that fails may still be on its way: the lock then stays.
            self.update(&["state=drain", &format!("reason={reason}")])
                .await?;
        }
        if drains || lock == DrainLock::New {
            self.unlock().await;
        }
        Ok(match under_lock? {
            Ok(()) => format!("drained: {reason}"),
            Err(why) => format!("not drained: {why}"),
        })
    }

    /// Nodes that are ready ask every time, so the first question is the cheap one.
    async fn resume(&self, action: &SlurmAction) -> Result<String, String> {
        let args = ["-a", "-o", "show", "node", self.node];
        let own = self.run("scontrol", &args).await?;
        let own = String::from_utf8_lossy(&own);
        // Later versions keep the reason of a drain that is over.
        if !(own.contains(MARK) && own.contains("DRAIN")) {
            return Ok("nothing to do: the node is ready, and not drained by selvage".into());
        }
        if let Err(why) = self.allows(action).await? {
            return Ok(format!("not resumed: {why}"));
        }
        // Unlike `resume`, this leaves DOWN as it is. Slurm keeps the reason while jobs run, also when it drains
        // the node itself later: with ours, that would be resumed.
        self.update(&["state=undrain", RESUMED]).await?;
        Ok("resumed".into())
    }

    async fn allows(&self, action: &SlurmAction) -> Result<Result<(), String>, String> {
        let nodes = self.nodes().await?;
        Ok(allowed(action, self.node, &nodes, self.settings.budget_max))
    }

    async fn nodes(&self) -> Result<Vec<SlurmNode>, String> {
        if !self.is_old.get() {
            let args = ["--json", "-a", "show", "nodes"];
            match self.run("scontrol", &args).await {
                Err(error) if error.contains("unrecognized option") => self.is_old.set(true),
                listed => return parse_nodes(&listed?, self.node),
            }
        }
        parse_nodes(&self.run("sinfo", &["--json", "-a"]).await?, self.node)
    }

    /// Takes the lock; nothing where another node has it.
    async fn lock(&self) -> Result<Option<DrainLock>, String> {
        let on_node = format!("Nodes={}", self.node);
        let reservation = format!(
            "create reservation ReservationName={LOCK} StartTime=now Duration=1 Users=root {on_node} Flags=IGNORE_JOBS,OVERLAP"
        );
        let args: Vec<&str> = reservation.split(' ').collect();
        match self.run("scontrol", &args).await {
            Ok(_) => return Ok(Some(DrainLock::New)),
            Err(error) if error.contains("Duplicate reservation name") => {}
            Err(error) => return Err(error),
        }
        let args = ["-o", "show", "reservation", LOCK];
        let shown = self.run("scontrol", &args).await.unwrap_or_default();
        let shown = String::from_utf8_lossy(&shown);
        let is_ours = shown.split_whitespace().any(|word| word == on_node);
        Ok(is_ours.then_some(DrainLock::LeftBehind))
    }

    async fn unlock(&self) {
        let client = SlurmClient {
            deadline: self.deadline + UNLOCK,
            ..*self
        };
        let lock = format!("reservation={LOCK}");
        if let Err(error) = client.run("scontrol", &["delete", &lock]).await {
            complain(format_args!(
                "the reservation {LOCK} stays until it expires: {error}"
            ));
        }
    }

    async fn update(&self, what: &[&str]) -> Result<(), String> {
        let name = format!("nodename={}", self.node);
        let args = [&["update", &name], what].concat();
        self.run("scontrol", &args).await.map(drop)
    }

    /// Runs a program, which is killed at the deadline; gives what it printed.
    async fn run(&self, program: &str, args: &[&str]) -> Result<Vec<u8>, String> {
        let late = || format!("{program}: no answer within {} ms", LIMIT.as_millis());
        if Instant::now() >= self.deadline {
            return Err(late());
        }
        let failed = |error: std::io::Error| format!("{program}: {error}");
        let mut child = self.command(program, args).spawn().map_err(failed)?;
        let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
        let answered = async {
            let (out, err, status) = tokio::join!(out, err, child.wait());
            std::io::Result::Ok((out?, err?, status?))
        };
        let answered = timeout_at(self.deadline, answered).await;
        let (out, err, status) = answered.map_err(|_| late())?.map_err(failed)?;
        if out.len() as u64 > LONGEST {
            let most = LONGEST >> 20;
            return Err(format!("{program}: the answer is longer than {most} MiB"));
        }
        if status.success() {
            return Ok(out);
        }
        let said = if err.is_empty() { out } else { err };
        let said = String::from_utf8_lossy(&said);
        let said = clean(said.lines().next().unwrap_or_default());
        Err(format!("{program}: {status}: {said}"))
    }

    fn command(&self, program: &str, args: &[&str]) -> process::Command {
        #[expect(clippy::disallowed_methods, reason = "Slurm's own programs")]
        let mut command = process::Command::new(program);
        command.args(args).env("LC_ALL", "C").kill_on_drop(true);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if std::env::var_os("PATH").is_none() {
            command.env("PATH", PATH);
        }
        if let Some(conf) = &self.settings.conf {
            command.env("SLURM_CONF", conf);
        }
        command
    }
}

/// All that a program prints, up to the bound; a program that prints more sees its pipe closed.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(LONGEST + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
