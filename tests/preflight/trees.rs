//! Containers as directory trees: each item wrong by itself, and nothing else with it.

use super::rows::ROWS;
use super::{Said, preflight};
use crate::support::{node, scratch};
use selvage::simulate::Node;
use std::path::Path;

/// A job of two nodes with eight GPUs each.
pub const JOB: &[(&str, &str)] = &[
    ("RANK", "9"),
    ("WORLD_SIZE", "16"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "8"),
];

pub struct Container {
    dir: tempfile::TempDir,
    _node: Node,
}

impl Container {
    /// A simulated node as a container sees it.
    pub fn on(preset: &str) -> Self {
        let (dir, node) = node(preset);
        let container = Container { dir, _node: node };
        container.file(
            "proc/self/limits",
            "Limit Soft Hard Units\nMax locked memory  8388608  8388608  bytes\n",
        );
        container.status("0000000000004000", 0);
        container.file("proc/self/uid_map", "0 0 4294967295\n");
        container.file("proc/sys/kernel/arch", "x86_64\n");
        container.file("selvage/shm", "68719476736 68719476736\n");
        container.file(
            "selvage/addresses",
            "lo 127.0.0.1\neno1 10.0.0.5\nenp24s0np0 10.0.1.10\n",
        );
        container.file("lib64/ld-linux-x86-64.so.2", "");
        container.library("usr/lib64/libibverbs.so.1");
        container
    }

    pub fn roce() -> Self {
        Container::on("h100_roce")
    }

    pub fn path(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path)
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn library(&self, path: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, crate::elf_file::head(62)).unwrap();
    }

    pub fn status(&self, capabilities: &str, uid: u32) {
        self.file(
            "proc/self/status",
            &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{capabilities}\nCapBnd:\t0000000000004000\n"),
        );
    }

    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }

    pub fn errno(&self, errno: i32, path: &str) {
        let file = self.path(".selvage-errno");
        let old = std::fs::read_to_string(&file).unwrap_or_default();
        std::fs::write(&file, format!("{old}{errno} {path}\n")).unwrap();
    }

    pub fn root(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }

    fn look(&self, variables: &[(&str, &str)]) -> Said {
        let mut all = JOB.to_vec();
        all.extend(variables);
        // A busy machine, or an emulated one, takes its time.
        let args = ["-o", "json", "--timeout", "1m", "--host-root", self.root()];
        Said::of(&preflight(&all, &args).output().unwrap())
    }
}

#[test]
fn good_containers_are_ready() {
    for preset in ["h100_roce", "h100_ib", "azure_ndh200"] {
        let container = Container::on(preset);
        container.file("selvage/addresses", "eth0 10.0.0.5\neno1 10.0.0.5\n");
        // Azure's front-end NIC is a device of InfiniBand's class, too.
        let hca: &[(&str, &str)] = match preset {
            "azure_ndh200" => &[("NCCL_IB_HCA", "mlx5_ib")],
            _ => &[],
        };
        let said = container.look(hca);
        // A fixture may lack the interface that has these addresses.
        let wrong: Vec<String> = said
            .wrong()
            .into_iter()
            .filter(|wrong| !wrong.starts_with("socket_ifname"))
            .collect();
        assert!(wrong.is_empty(), "{preset}: {wrong:?}");
    }
    let said = Container::roce().look(&[]);
    assert_eq!(said.code, 0, "{:?}", said.wrong());
    assert_eq!(said.json["state"], "ready");
    assert_eq!(said.json["schema"], "selvage.dev/preflight/v1");
    assert_eq!(said.json["reasons"], serde_json::json!([]));
    assert_eq!(said.item("gid_index")["evidence"]["index"]["mlx5_0:1"], 3);
}

#[test]
fn each_item_wrong_by_itself() {
    for (what, bend, variables, want) in ROWS {
        let container = Container::roce();
        bend(&container);
        let said = container.look(variables);
        assert_eq!(said.wrong(), *want, "{what}");
        let code = match want[0].split(' ').nth(1) {
            Some("failing") => 2,
            Some("degraded") => 1,
            _ => 3,
        };
        assert_eq!(said.code, code, "{what}");
        let item = said.item(want[0].split(' ').next().unwrap());
        if code != 3 {
            assert!(!item["remedy"].as_str().unwrap().is_empty(), "{what}");
        }
    }
}

#[test]
fn every_item_is_made_wrong() {
    for name in selvage::check::preflight::names() {
        assert!(
            ROWS.iter()
                .any(|(_, _, _, want)| want.iter().any(|w| w.starts_with(&format!("{name} ")))),
            "no row makes {name} wrong"
        );
    }
}

#[test]
fn platforms_without_verbs_are_no_failures() {
    // EFA: its plugin, and no link state.
    let container = Container::on("efa_p5");
    container.file("selvage/addresses", "eth0 10.0.0.5\n");
    let efa: &[(&str, &str)] = &[
        ("FI_PROVIDER", "efa"),
        ("NCCL_IB_DISABLE", "1"),
        ("LD_LIBRARY_PATH", "/opt/amazon/ofi-nccl/lib"),
    ];
    let said = container.look(efa);
    assert_eq!(said.told("net_plugin"), "failing PluginMissing");
    container.library("opt/amazon/ofi-nccl/lib/libnccl-net.so");
    let said = container.look(efa);
    assert_eq!(said.told("net_plugin"), "ok");
    assert_eq!(said.told("uverbs"), "ok");
    for item in ["rdma_ports", "ib_hca", "gid_index", "libibverbs"] {
        assert_eq!(said.told(item), "skipped", "{item}");
    }
    assert_eq!(said.told("nccl_network"), "ok");

    // A3 High: interfaces for rails, a plugin, and nothing in /sys/class/infiniband.
    let container = Container::roce();
    container.remove("sys/class/infiniband");
    container.remove("sys/class/infiniband_verbs");
    let tcpx: &[(&str, &str)] = &[
        ("NCCL_GPUDIRECTTCPX_CTRL_DEV", "eno1"),
        ("LD_LIBRARY_PATH", "/usr/local/tcpx/lib64"),
    ];
    container.library("usr/local/tcpx/lib64/libnccl-net.so");
    let said = container.look(tcpx);
    assert_eq!(said.wrong(), Vec::<String>::new());
    assert_eq!(said.code, 0);
}

#[test]
fn a_node_without_a_fabric_is_unknown_and_a_job_of_one_node_is_not() {
    let dir = scratch();
    let args = ["-o", "json", "--host-root", dir.path().to_str().unwrap()];
    let said = Said::of(&preflight(&[], &args).output().unwrap());
    assert_eq!((said.code, &said.json["state"]), (3, &"unknown".into()));
    let container = Container::roce();
    container.remove("sys/class/infiniband");
    let said = container.look(&[("WORLD_SIZE", "8"), ("RANK", "1")]);
    assert_eq!(said.wrong(), Vec::<String>::new());
    assert_eq!(said.code, 0);
}

#[test]
fn a_copy_runs_elsewhere() {
    let dir = scratch();
    let to = dir.path().to_str().unwrap();
    for _ in 0..2 {
        let done = preflight(&[], &["--copy-to", to]).output().unwrap();
        assert_eq!(done.status.code(), Some(0));
    }
    let copy = dir.path().join("selvage");
    let container = Container::roce();
    let done = std::process::Command::new(&copy)
        .args(["preflight", "--timeout", "1m", "--host-root"])
        .arg(container.root())
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(
        done.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&done.stdout)
    );
    let done = preflight(&[], &["--copy-to", "/nonexistent"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(70));
}

#[test]
fn wrong_usage() {
    for args in [
        &["--timeout", "soon"][..],
        &["--timeout", "1ms"],
        &["--timeout", "0s"],
        &["--timeout", "2h"],
        &["--fail-on", "never"],
        &["--gpus", "-1"],
        &["--gpus", "many"],
        &["-o", "yaml"],
        &["--host-root", "/nonexistent"],
        &["extra"],
    ] {
        let done = preflight(&[], args).output().unwrap();
        assert_eq!(done.status.code(), Some(64), "{args:?}");
        assert!(
            !done.stderr.is_empty() && done.stdout.is_empty(),
            "{args:?}"
        );
    }
}

#[test]
fn settings_of_any_bytes_end_in_an_answer() {
    use std::os::unix::ffi::OsStrExt;
    let container = Container::roce();
    let odd = std::ffi::OsStr::from_bytes(b"\xff,\xc3\x28:\x80=^,,:::\x1b[31m");
    let mut command = preflight(JOB, &["-o", "json", "--host-root", container.root()]);
    for name in [
        "NCCL_IB_HCA",
        "NCCL_SOCKET_IFNAME",
        "NCCL_IB_GID_INDEX",
        "NCCL_NET",
        "NCCL_NET_PLUGIN",
        "GLOO_SOCKET_IFNAME",
        "UCX_NET_DEVICES",
        "UCX_TLS",
        "OMPI_MCA_btl_tcp_if_include",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "CUFILE_ENV_PATH_JSON",
        "LD_LIBRARY_PATH",
        "NCCL_CONF_FILE",
        "HOME",
    ] {
        command.env(name, odd);
    }
    let said = Said::of(&command.output().unwrap());
    assert_eq!(said.code, 2);
    let mut text = preflight(&[], &["--host-root", container.root()]);
    text.env("NCCL_IB_HCA", odd);
    let text = text.output().unwrap();
    assert!(!text.stdout.contains(&0x1b), "nothing steers the terminal");
}

#[test]
fn files_that_are_no_files_hang_nobody() {
    let container = Container::roce();
    let fifo = container.path("etc/nccl.conf");
    std::fs::create_dir_all(fifo.parent().unwrap()).unwrap();
    make_fifo(&fifo);
    make_fifo(&container.path("etc/cufile.json"));
    make_fifo(&container.path("usr/lib64/libnccl-net.so"));
    // A state that never answers: opening a FIFO waits for a writer.
    let state = container.path("sys/class/infiniband/mlx5_2/ports/1/state");
    std::fs::remove_file(&state).unwrap();
    make_fifo(&state);
    let mut all = JOB.to_vec();
    all.push(("CUFILE_ENV_PATH_JSON", "/etc/cufile.json"));
    let args = [
        "-o",
        "json",
        "--timeout",
        "15s",
        "--host-root",
        container.root(),
    ];
    let started = std::time::Instant::now();
    let said = Said::of(&preflight(&all, &args).output().unwrap());
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    assert_eq!(said.told("uverbs"), "failing UverbsStalled");
    assert_eq!(said.told("gds"), "failing CufileBroken");
    assert_eq!(said.told("net_plugin"), "degraded PluginMissing");
}

fn make_fifo(path: &Path) {
    let _ = std::fs::remove_file(path);
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
}
