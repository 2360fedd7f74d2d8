//! The agent as a program: what it serves while a node changes under it, a read hangs, or it is
//! killed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use selvage::simulate::{Change, Node};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Series, Server, get, node, parse};

/// Everything here takes milliseconds; a machine that is busy may need longer.
const BOUND: Duration = Duration::from_secs(60);

/// Asks until `wanted` gives something.
fn until<T>(what: &str, mut wanted: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + BOUND;
    loop {
        if let Some(found) = wanted() {
            return found;
        }
        assert!(Instant::now() < end, "no {what} within {BOUND:?}");
        support::pause();
    }
}

fn metrics(agent: &Server) -> Vec<Series> {
    let (code, body) = get(&agent.address, "/metrics");
    assert_eq!(code, 200);
    parse(&body)
}

fn value(series: &[Series], family: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let wanted = |series: &&Series| {
        series.family == family
            && labels
                .iter()
                .all(|(name, value)| series.labels.get(*name).is_some_and(|v| v == value))
    };
    series.iter().find(wanted).map(|series| series.value)
}

fn until_metric(agent: &Server, family: &str, labels: &[(&str, &str)], want: f64) {
    until(&format!("{family}{labels:?} {want}"), || {
        (value(&metrics(agent), family, labels) == Some(want)).then_some(())
    });
}

fn report(agent: &Server) -> Value {
    let (code, body) = get(&agent.address, "/report");
    assert_eq!(code, 200);
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn a_read_that_hangs_is_told_and_delays_nobody() {
    let (dir, mut node) = node("h100_ib");
    // Opening a pipe that nobody writes blocks in the kernel, as a dead firmware's file does.
    let state = dir.path().join("sys/class/infiniband/mlx5_3/ports/1/state");
    std::fs::remove_file(&state).unwrap();
    mkfifo(&state, Mode::S_IRWXU).unwrap();
    let agent = Server::agent(
        dir.path(),
        &[
            "--set=intervals.link=100ms",
            "--set=intervals.deadline=300ms",
        ],
    );
    until_metric(&agent, "selvage_source_stalled", &[("source", "link")], 1.0);
    // Neighbours go on: a link that falls now is seen, and who asks is answered.
    let link = |device: &str, up| Change::Link {
        device: device.into(),
        up,
    };
    let labels = [("device", "mlx5_4"), ("port", "1")];
    until_metric(&agent, "selvage_port_up", &labels, 1.0);
    node.apply(&link("mlx5_4", false)).unwrap();
    until_metric(&agent, "selvage_port_up", &labels, 0.0);
    assert_eq!(get(&agent.address, "/healthz").0, 200);
    let finding = until("finding", || {
        let report = report(&agent);
        let findings = report["findings"].as_array().expect("findings").clone();
        findings
            .into_iter()
            .find(|finding| finding["reason"] == "SourceStalled")
    });
    assert_eq!(finding["subject"], "link/mlx5_3");
    assert_eq!(finding["status"], "unknown");
    let nothing = value(
        &metrics(&agent),
        "selvage_port_up",
        &[("device", "mlx5_3"), ("port", "1")],
    );
    assert_eq!(nothing, None, "no data is no value");
}

#[test]
fn the_age_of_a_report_does_not_depend_on_how_long_the_machine_has_been_up() {
    let (dir, _node) = node("h100_ib");
    for uptime in ["5.00 40.00\n", "900000000.00 1.00\n"] {
        std::fs::write(dir.path().join("proc/uptime"), uptime).unwrap();
        let agent = Server::agent(dir.path(), &[]);
        until_metric(&agent, "selvage_fabric_state", &[("state", "ready")], 1.0);
        // It may have been made this very millisecond.
        let age = until("a report that has an age", || {
            let age = value(&metrics(&agent), "selvage_report_age_seconds", &[]);
            age.filter(|age| *age > 0.0)
        });
        assert!(age < 60.0, "{age} s, up for {uptime}");
    }
}

/// The kernel's line of an Xid of the node's first GPU.
fn xid(node: &Node, code: u32) -> Change {
    let gpu = node.spec().gpus.first().expect("a GPU").bdf;
    Change::Kmsg {
        priority: 4,
        micros: 0,
        text: format!("NVRM: Xid (PCI:{gpu}): {code}, pid=1, GPU has fallen off the bus."),
        device: None,
    }
}

#[test]
fn a_kernel_event_is_counted_once_over_a_kill() {
    let (dir, mut node) = node("h100_ib");
    let state = support::scratch();
    let state_flag = format!("--set=agent.state_dir={}", state.path().display());
    let count = [("xid", "79")];
    {
        let agent = Server::agent(dir.path(), &[&state_flag]);
        until_metric(&agent, "selvage_fabric_state", &[("state", "ready")], 1.0);
        let lost = xid(&node, 79);
        node.apply(&lost).unwrap();
        until_metric(&agent, "selvage_fabric_state", &[("state", "unready")], 1.0);
        let memory = state.path().join("memory.json");
        until("state file that knows the Xid", || {
            let text = std::fs::read_to_string(&memory).ok()?;
            text.contains("79").then_some(())
        });
        // Dropped: SIGKILL, nothing is written any more.
    }
    let agent = Server::agent(dir.path(), &[&state_flag]);
    until_metric(&agent, "selvage_fabric_state", &[("state", "unready")], 1.0);
    let seen = metrics(&agent);
    assert_eq!(value(&seen, "selvage_gpu_xid_total", &count), Some(1.0));
    // And it goes on from there.
    let uncorrectable = xid(&node, 48);
    node.apply(&uncorrectable).unwrap();
    until_metric(&agent, "selvage_gpu_xid_total", &[("xid", "48")], 1.0);
    assert_eq!(
        value(&metrics(&agent), "selvage_gpu_xid_total", &count),
        Some(1.0)
    );
}

#[test]
fn what_counters_show_outlives_a_kill_and_a_boot_id_that_cannot_be_read() {
    let (dir, mut node) = node("h100_ib");
    let state = support::scratch();
    let flags = [
        format!("--set=agent.state_dir={}", state.path().display()),
        "--set=intervals.counters=200ms".into(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let errors = Change::Counter {
        device: "mlx5_3".into(),
        name: "symbol_error".into(),
        add: 5000,
    };
    {
        let agent = Server::agent(dir.path(), &flags);
        until_metric(&agent, "selvage_fabric_state", &[("state", "ready")], 1.0);
        node.apply(&errors).unwrap();
        until_metric(
            &agent,
            "selvage_fabric_state",
            &[("state", "degraded")],
            1.0,
        );
        let memory = state.path().join("memory.json");
        until("state file that knows the counter", || {
            let text = std::fs::read_to_string(&memory).ok()?;
            text.contains("symbol_error").then_some(())
        });
        // Dropped: SIGKILL, nothing is written any more.
    }
    let boot_id = dir.path().join("proc/sys/kernel/random/boot_id");
    let hidden = dir.path().join("hidden");
    std::fs::rename(&boot_id, &hidden).unwrap();
    {
        let mut agent = Server::agent(dir.path(), &flags);
        until_metric(&agent, "selvage_full_window", &[], 1.0);
        agent.terminate();
    }
    std::fs::rename(&hidden, &boot_id).unwrap();
    let agent = Server::agent(dir.path(), &flags);
    until_metric(&agent, "selvage_full_window", &[], 1.0);
    let seen = metrics(&agent);
    let degraded = [("state", "degraded")];
    assert_eq!(value(&seen, "selvage_fabric_state", &degraded), Some(1.0));
}

/// What can no longer be read when the agent starts again has not healed.
#[test]
fn findings_outlive_a_kill_and_files_that_cannot_be_read() {
    let (dir, _node) = node("h100_ib");
    let state = support::scratch();
    let flag = format!("--set=agent.state_dir={}", state.path().display());
    let port = dir.path().join("sys/class/infiniband/mlx5_4/ports/1");
    let lid = port.join("lid");
    std::fs::write(&lid, "0x0").unwrap();
    {
        let agent = Server::agent(dir.path(), &[&flag]);
        until_metric(&agent, "selvage_fabric_state", &[("state", "unready")], 1.0);
        let memory = state.path().join("memory.json");
        until("state file that knows the finding", || {
            let text = std::fs::read_to_string(&memory).ok()?;
            text.contains("NoLid").then_some(())
        });
        // Dropped: SIGKILL.
    }
    std::fs::remove_file(&lid).unwrap();
    std::fs::create_dir(&lid).unwrap();
    let agent = Server::agent(
        dir.path(),
        &[
            &flag,
            "--set=policy.link_state.clear_after=1s",
            "--set=hysteresis.hold=1s",
        ],
    );
    until_metric(&agent, "selvage_full_window", &[], 1.0);
    let is = |state: &str| {
        value(
            &metrics(&agent),
            "selvage_fabric_state",
            &[("state", state)],
        )
    };
    assert_eq!(is("unready"), Some(1.0));
    std::fs::remove_dir(&lid).unwrap();
    std::fs::write(&lid, "0x7").unwrap();
    until_metric(&agent, "selvage_fabric_state", &[("state", "ready")], 1.0);
}

/// Whether each port is a rail, by its device's name.
fn rails(agent: &Server) -> Option<HashMap<String, bool>> {
    let (code, body) = support::try_get(&agent.address, "/report").ok()?;
    assert_eq!(code, 200);
    let report: Value = serde_json::from_str(&body).expect("JSON");
    let rail = |port: &Value| {
        let device = port["device"].as_str().expect("a name").to_string();
        (device, port["rail"] == true)
    };
    Some(report["ports"].as_array()?.iter().map(rail).collect())
}

#[test]
fn sighup_reads_the_settings_again_and_systemd_is_notified() {
    let (dir, mut node) = node("h100_ib");
    let work = support::scratch();
    let [settings, socket, state] =
        ["selvage.toml", "notify", "state"].map(|name| work.path().join(name));
    let exclude = |text: &str| std::fs::write(&settings, text).unwrap();
    let systemd = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(BOUND)).unwrap();
    let told = |wanted: &str| {
        let mut message = [0; 512];
        loop {
            let length = systemd.recv(&mut message).expect(wanted);
            let message = std::str::from_utf8(&message[..length]).unwrap();
            if message.trim() == wanted {
                return;
            }
        }
    };
    exclude("[rails]\nexclude = [\"mlx5_3\"]\n");
    let mut agent = Server::agent_with(
        dir.path(),
        &[
            &format!("--config={}", settings.display()),
            &format!("--set=agent.state_dir={}", state.display()),
        ],
        &[
            ("NOTIFY_SOCKET", socket.to_str().unwrap()),
            ("WATCHDOG_USEC", "200000"),
        ],
    );
    let excluded = |device: &str| {
        until(&format!("{device} is excluded"), || {
            let rails = rails(&agent)?;
            let of_three = ["mlx5_3", "mlx5_4", "mlx5_5"];
            let right = of_three
                .iter()
                .all(|name| rails.get(*name) == Some(&(*name != device)));
            right.then_some(())
        });
    };
    for wanted in ["READY=1", "STATUS=ready", "WATCHDOG=1"] {
        told(wanted);
    }
    excluded("mlx5_3");
    let lost = xid(&node, 79);
    node.apply(&lost).unwrap();
    told("STATUS=unready: XidFatal");

    agent.signal(Signal::SIGHUP);
    told("READY=1");
    exclude("[rails]\nexclude = [\"mlx5_4\"]\n");
    agent.signal(Signal::SIGHUP);
    excluded("mlx5_4");
    until_metric(&agent, "selvage_fabric_state", &[("state", "unready")], 1.0);
    let count = [("xid", "79")];
    assert_eq!(
        value(&metrics(&agent), "selvage_gpu_xid_total", &count),
        Some(1.0)
    );

    let no_certificate = "serve.tls_cert = \"/nowhere\"\nserve.tls_key = \"/nowhere\"\n";
    for (wrong, named) in [
        ("[rails]\nexclud = 1\n", "exclud"),
        (no_certificate, "nowhere"),
    ] {
        exclude(wrong);
        agent.signal(Signal::SIGHUP);
        until("a refusal that names what is wrong", || {
            let log = agent.log();
            let mut lines = log.lines();
            lines
                .find(|line| line.contains("reload failed") && line.contains(named))
                .map(|_| ())
        });
    }
    excluded("mlx5_4");
    exclude("[rails]\nexclude = [\"mlx5_5\"]\n");
    agent.signal(Signal::SIGHUP);
    agent.terminate();
}

#[test]
fn a_device_that_goes_takes_its_series_along() {
    let (dir, mut node) = node("h100_roce");
    let agent = Server::agent(dir.path(), &["--set=intervals.devices=200ms"]);
    let labels = [("device", "mlx5_2"), ("port", "1")];
    until_metric(&agent, "selvage_port_up", &labels, 1.0);
    node.apply(&Change::RemoveDevice("mlx5_2".into())).unwrap();
    until("end of the series", || {
        let told = |series: &Series| {
            series.family != "selvage_finding"
                && series
                    .labels
                    .get("device")
                    .is_some_and(|name| name == "mlx5_2")
        };
        (!metrics(&agent).iter().any(told)).then_some(())
    });
    // The rail that is lost is still told of, when a reload of the driver is ruled out.
    let vanished = [("check", "device_missing"), ("reason", "RailVanished")];
    until("RailVanished", || {
        value(&metrics(&agent), "selvage_finding", &vanished)
    });
    until_metric(&agent, "selvage_fabric_state", &[("state", "unready")], 1.0);
}

/// Puts a pipe that nobody writes in place of a file: opening it blocks.
fn hang(path: &Path) {
    let _ = std::fs::remove_file(path);
    mkfifo(path, Mode::S_IRWXU).unwrap();
}

#[test]
fn files_that_hang_at_the_start_hold_up_neither_service_nor_end() {
    let (dir, _) = node("h100_ib");
    let state = support::scratch();
    hang(&state.path().join("memory.json"));
    for file in [
        ".selvage-errno",
        "proc/sys/kernel/random/boot_id",
        "proc/sys/kernel/hostname",
    ] {
        hang(&dir.path().join(file));
    }
    let state_flag = format!("--set=agent.state_dir={}", state.path().display());
    let mut agent = Server::agent(dir.path(), &[&state_flag, "--set=intervals.deadline=30s"]);
    assert_eq!(get(&agent.address, "/healthz").0, 200);
    assert_eq!(get(&agent.address, "/readyz").0, 503);
    assert_eq!(report(&agent)["state"], "unknown");
    agent.terminate();
    let flags = [&state_flag, "--set=intervals.deadline=300ms"];
    let agent = Server::agent(dir.path(), &flags);
    let labels = [("device", "mlx5_4"), ("port", "1")];
    until_metric(&agent, "selvage_port_up", &labels, 1.0);
    let (code, text) = support::selvage(
        dir.path(),
        &[
            "check",
            "--set=intervals.deadline=300ms",
            "--log-level=error",
        ],
    );
    assert!(text.contains("mlx5_4"), "{code} {text}");
}

#[test]
fn what_is_no_kernel_log_is_told_and_costs_nothing() {
    for target in ["/dev/null", "/dev/zero"] {
        let (dir, _) = node("h100_ib");
        let kmsg = dir.path().join("dev/kmsg");
        std::fs::remove_file(&kmsg).unwrap();
        std::os::unix::fs::symlink(target, &kmsg).unwrap();
        let agent = Server::agent(dir.path(), &[]);
        let blind = [("reason", "KernelLogBlind")];
        until("KernelLogBlind", || {
            value(&metrics(&agent), "selvage_finding", &blind)
        });
        let (_, text) = support::selvage(dir.path(), &["check"]);
        assert!(text.contains("KernelLogBlind"), "{text}");
    }
}

#[test]
fn without_a_boot_id_nothing_is_remembered_of_an_earlier_run() {
    let (dir, mut node) = node("h100_ib");
    std::fs::remove_file(dir.path().join("proc/sys/kernel/random/boot_id")).unwrap();
    let state = support::scratch();
    let flags = [
        format!("--set=agent.state_dir={}", state.path().display()),
        "--set=intervals.devices=200ms".into(),
        "--set=intervals.counters=200ms".into(),
        "--set=intervals.ethtool=200ms".into(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let labels = [("device", "mlx5_3"), ("port", "1")];
    {
        let mut agent = Server::agent(dir.path(), &flags);
        until_metric(&agent, "selvage_fabric_state", &[("state", "ready")], 1.0);
        agent.terminate();
    }
    assert!(state.path().join("memory.json").exists());
    node.apply(&Change::RemoveDevice("mlx5_3".into())).unwrap();
    let agent = Server::agent(dir.path(), &flags);
    until("first full window", || {
        (get(&agent.address, "/readyz").0 == 200).then_some(())
    });
    let seen = metrics(&agent);
    assert_eq!(value(&seen, "selvage_port_up", &labels), None);
    let vanished = [("reason", "RailVanished")];
    assert_eq!(value(&seen, "selvage_finding", &vanished), None);
}

/// Has one of the agent's tasks fail; the hook is there with debug assertions only.
fn ask_fault(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, file).unwrap();
    until("fault taken", || (!file.exists()).then_some(()));
}

#[test]
fn each_task_that_ends_is_started_again_and_counted() {
    if !cfg!(debug_assertions) {
        return;
    }
    let (dir, mut node) = node("h100_ib");
    let scratch = support::scratch();
    let hook = scratch.path().join("fault");
    let state = format!("--set=agent.state_dir={}", scratch.path().display());
    let mut agent = Server::agent_with(
        dir.path(),
        &[
            &state,
            "--set=nccl.suspects_every=1s",
            "--set=intervals.deadline=300ms",
        ],
        &[("TASK_FAULTS", &hook.display().to_string())],
    );
    until_metric(&agent, "selvage_fabric_state", &[("state", "ready")], 1.0);
    for task in ["kernel_log", "pod_logs", "tcp_watch", "state", "http"] {
        let labels = [("task", task)];
        until_metric(&agent, "selvage_task_up", &labels, 1.0);
        ask_fault(&hook, &format!("{task} panic"));
        // A connection under way may be cut with the server.
        let panics = || {
            let (_, body) = support::try_get(&agent.address, "/metrics").ok()?;
            value(&parse(&body), "selvage_task_panics_total", &labels)
        };
        until(task, || panics().filter(|panics| *panics == 1.0));
        until_metric(&agent, "selvage_task_up", &labels, 1.0);
        assert_eq!(get(&agent.address, "/healthz").0, 200, "{task}");
    }
    // A reader that hangs: the source stalls, its silence is not health, and a restart would help.
    let log = [("source", "kernel_log")];
    ask_fault(&hook, "kernel_log hang");
    until_metric(&agent, "selvage_source_stalled", &log, 1.0);
    until_metric(&agent, "selvage_source_up", &log, 0.0);
    until_metric(&agent, "selvage_task_up", &[("task", "kernel_log")], 0.0);
    until("failing probe", || {
        (get(&agent.address, "/healthz").0 == 503).then_some(())
    });
    // And it goes on where it was.
    ask_fault(&hook, "kernel_log go");
    until_metric(&agent, "selvage_source_up", &log, 1.0);
    assert_eq!(get(&agent.address, "/healthz").0, 200);
    let lost = xid(&node, 79);
    node.apply(&lost).unwrap();
    until_metric(&agent, "selvage_gpu_xid_total", &[("xid", "79")], 1.0);
    // One that panics again and again ends the process.
    for more in 1..=4 {
        ask_fault(&hook, "kernel_log panic");
        if more < 4 {
            let panics = [("task", "kernel_log")];
            until_metric(
                &agent,
                "selvage_task_panics_total",
                &panics,
                f64::from(1 + more),
            );
        }
    }
    assert_eq!(agent.end(), Some(70), "an exit status that says so");
}

/// Ends these tasks of an agent once each, and waits until they are up again. `headers` are those that
/// its metrics ask for.
fn end_each(agent: &Server, hook: &Path, headers: &str, tasks: &[&str]) {
    let told = |family: &str, task: &str| {
        let answer = support::try_get_with(&agent.address, "/metrics", headers);
        let (code, body) = answer.ok()?;
        assert_eq!(code, 200);
        value(&parse(&body), family, &[("task", task)])
    };
    let is = |family: &str, task: &str, wanted: f64| {
        until(&format!("{family} {task} {wanted}"), || {
            told(family, task).filter(|told| *told == wanted)
        });
    };
    for task in tasks {
        is("selvage_task_up", task, 1.0);
        assert_eq!(told("selvage_task_panics_total", task), Some(0.0), "{task}");
        ask_fault(hook, &format!("{task} panic"));
    }
    // Some make a sign of progress every 10 or 30 s alone, where they meet the fault.
    for task in tasks {
        is("selvage_task_panics_total", task, 1.0);
        is("selvage_task_up", task, 1.0);
    }
    assert_eq!(get(&agent.address, "/healthz").0, 200);
}

#[test]
fn each_task_of_what_is_configured_is_started_again() {
    if !cfg!(debug_assertions) {
        return;
    }
    let (dir, _) = node("h100_ib");
    let scratch = support::scratch();
    let file = |name: &str| scratch.path().join(name);
    let write = |name: &str, text: &str| {
        std::fs::write(file(name), text).unwrap();
        file(name).display().to_string()
    };
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    // Nothing listens there: the task tries again and again.
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
        clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]\n\
        users: [{name: u, user: {token: x}}]\n\
        contexts: [{name: c, context: {cluster: c, user: u}}]\n";
    let hook = file("fault");
    let flags = [
        format!("--set=cluster.kubeconfig={}", write("config", kubeconfig)),
        format!("--set=serve.token_file={}", write("token", "sesame\n")),
        format!("--set=agent.textfile={}", file("selvage.prom").display()),
        "--set=nccl.log_files=logs/*.log".to_string(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let hooked = [("TASK_FAULTS", hook.to_str().unwrap())];
    let agent = Server::agent_with(dir.path(), &flags, &hooked);
    let tasks = ["cluster", "log_files", "serve_files", "textfile"];
    end_each(&agent, &hook, "Authorization: Bearer sesame\r\n", &tasks);
}

/// The task that waits for events of the running kernel's network devices.
#[test]
fn the_subscription_to_network_events_is_made_again() {
    if !cfg!(debug_assertions) {
        return;
    }
    let scratch = support::scratch();
    let hook = scratch.path().join("fault");
    let hooked = [("TASK_FAULTS", hook.to_str().unwrap())];
    let agent = Server::agent_with(Path::new("/"), &[], &hooked);
    end_each(&agent, &hook, "", &["rtnetlink"]);
}

/// `selvage check --agent=ADDRESS`: exit status, standard output, standard error.
fn check(address: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let asked = support::program()
        .args(["check", &format!("--agent={address}")])
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (asked.status.code(), text(asked.stdout), text(asked.stderr))
}

/// What such a check says, asked again while a busy machine's agent does not answer in time.
fn answered(ask: impl Fn() -> (Option<i32>, String, String)) -> (Option<i32>, String, String) {
    until("answer in time", || {
        let said = ask();
        (!said.2.contains("no answer within")).then_some(said)
    })
}

#[test]
fn check_asks_a_running_agent() {
    let (dir, mut node) = node("h100_ib");
    let token = dir.path().join("token");
    std::fs::write(&token, "sesame\n").unwrap();
    let token = format!("--set=serve.token_file={}", token.display());
    let agent = Server::agent(
        dir.path(),
        &[
            "--set=intervals.counters=500ms",
            "--set=hysteresis.hold=0s",
            &token,
        ],
    );
    let verdict = |status: i32| {
        until("verdict of the agent", || {
            let (code, json, complaint) =
                answered(|| check(&agent.address, &["-o", "json", &token]));
            assert_eq!(complaint, "");
            let report: Value = serde_json::from_str(&json).expect("JSON");
            (code == Some(status)).then_some(report)
        })
    };
    assert_eq!(verdict(0)["state"], "ready");
    let down = Change::Link {
        device: "mlx5_4".into(),
        up: false,
    };
    node.apply(&down).unwrap();
    let report = verdict(2);
    assert_eq!(report["reasons"], serde_json::json!(["LinkDown"]));
    assert!(report["generation"].as_u64() > Some(1), "not a single look");
    let (code, text, _) = answered(|| check(&agent.address, &[&token]));
    assert_eq!(code, Some(2));
    assert!(text.starts_with("UNREADY  node-1: LinkDown"), "{text}");
    assert!(text.contains("mlx5_4/1") && text.ends_with('\n'), "{text}");
    for (args, status) in [
        (&["--fail-on=unready", "--exit-codes=slurm", &token][..], 1),
        // Not let in: nothing is known.
        (&[], 3),
        (&["--exit-codes=npd"], 2),
        (&["--fail-on=unready"], 0),
    ] {
        let (code, _, complaint) = answered(|| check(&agent.address, args));
        assert_eq!(code, Some(status), "{args:?}");
        assert_eq!(
            complaint.contains("401 Unauthorized"),
            args.last() != Some(&token.as_str())
        );
    }
}

/// [`check`] of something that answers one request with this, or not at all.
fn check_of_one_that_says(answer: Option<&str>) -> (Option<i32>, String, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            if let Some(answer) = answer {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut part = [0; 4096];
                    let length = stream.read(&mut part).unwrap_or(0);
                    // The client had no time left.
                    if length == 0 {
                        return;
                    }
                    request.extend(&part[..length]);
                }
                // The reader hangs up on what is too long.
                let _ = stream.write_all(answer.as_bytes());
            }
            // Until the client hangs up.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let said = check(&address, &[]);
        // In case it did not come to connect.
        let _ = TcpStream::connect(&address);
        said
    })
}

#[test]
fn an_agent_that_says_nothing_of_now_is_unknown() {
    let old = r#"{"schema":"selvage.dev/report/v1","time":"2026-01-01T00:00:00Z","state":"ready"}"#;
    let endless = "x".repeat(5 << 20);
    for (body, why) in [
        (None, "no answer within 1 s"),
        (
            Some(old),
            "the report is stale: it was made at 2026-01-01T00:00:00Z",
        ),
        (Some("hello"), "the answer is not a report"),
        (Some(&endless), "length limit exceeded"),
    ] {
        let answer = body.map(|body| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        });
        let ask = || check_of_one_that_says(answer.as_deref());
        let (code, printed, complaint) = match body {
            Some(_) => answered(ask),
            None => ask(),
        };
        assert_eq!((code, printed.as_str()), (Some(3), ""), "{why}");
        assert!(complaint.contains(why), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
    let (code, _, complaint) = answered(|| check(&support::free_address(), &[]));
    assert_eq!(code, Some(3));
    assert!(complaint.contains("Connection refused"), "{complaint}");
}

/// Opens connections that ask for much and read nothing, each time that the server closed one, until
/// `stop`.
fn besiege(address: &str, stop: &AtomicBool) {
    let requests = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
    let open = || {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = (&stream).write(&requests);
        Some(stream)
    };
    let mut hostile: Vec<_> = (0..1000).map(|_| open()).collect();
    while !stop.load(Ordering::Relaxed) {
        for slot in &mut hostile {
            let closed = |stream: &TcpStream| matches!(stream.peek(&mut [0]), Ok(0));
            if slot.as_ref().is_none_or(closed) {
                *slot = open();
            }
            if let Some(stream) = slot {
                // A byte at a time, so that it is not dropped as deaf.
                let _ = stream.read(&mut [0]);
            }
        }
    }
}

/// How long each of 40 probes takes beside `load`, which goes on until it is told to stop; sorted.
fn probes(address: &str, load: impl Fn(&AtomicBool) + Sync) -> Vec<Duration> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| load(&stop));
        let mut took: Vec<Duration> = (0..40)
            .map(|_| {
                let began = Instant::now();
                match support::try_get(address, "/healthz") {
                    Ok((200, _)) => began.elapsed(),
                    // From the very address of the others: now and then one is cut as they are.
                    _ => BOUND,
                }
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        took.sort();
        took
    })
}

#[test]
fn a_thousand_hostile_connections_hold_up_no_probe() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(8192), most).unwrap();
    let (dir, _) = node("ports18");
    let agent = Server::agent(dir.path(), &[]);
    until("first full window", || {
        (get(&agent.address, "/readyz").0 == 200).then_some(())
    });
    // What a busy machine takes beside a thread that merely spins is not the siege's.
    let without = probes(&agent.address, |stop| {
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let most = (without[20] * 10).clamp(Duration::from_millis(100), Duration::from_secs(1));
    let took = probes(&agent.address, |stop| besiege(&agent.address, stop));
    // The kubelet asks four times before it ends a container.
    assert!(took[20] < most, "{took:?}, {without:?} without");
    assert!(took[36] < Duration::from_secs(2), "{took:?}");
    until("an answer to the rest", || {
        support::try_get(&agent.address, "/metrics").ok()
    });
}
