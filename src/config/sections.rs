//! The sections of the settings that belong to the process: where it listens, what it reads and how
//! often. Thresholds are in [`crate::check::policy`], the Kubernetes part in [`crate::cluster`].

use super::Listen;
use crate::cluster::BudgetMax;
use crate::file_pattern::FilePattern;
use crate::glob::Glob;
use crate::settings_macro::{section, words};
use crate::units::Span;
use std::path::PathBuf;

section! {
    /// The process itself: where it listens, what it reads, what it logs.
    AgentSettings {
        /// Address to serve on, `ADDRESS:PORT`; without an address, all of them.
        listen: Listen = Listen::new(None, 9949),
        /// The node's name. Empty: NODE_NAME from the environment, else the host name.
        node_name: String = String::new(),
        /// Directory that holds `sys`, `proc`, `dev` and `var/log/pods`.
        host_root: PathBuf = PathBuf::from("/"),
        /// Directory for state that survives restarts; empty: none is kept.
        #[serde(with = "optional_path")]
        state_dir: Option<PathBuf> = Some(PathBuf::from("/var/lib/selvage")),
        /// File for node_exporter's textfile collector (`….prom`), written every 10 s and removed at the
        /// end: for hosts where nothing may listen but on loopback. Empty: none.
        #[serde(with = "optional_path")]
        textfile: Option<PathBuf> = None,
        /// Level of the agent's own log: error, warn, info, debug, trace.
        log_level: LogLevel = LogLevel::Info,
        /// Format of the agent's own log: text, json.
        log_format: LogFormat = LogFormat::Text,
        /// Kernel log device; a relative path is below the host root.
        kmsg: PathBuf = PathBuf::from("dev/kmsg"),
        /// How the kernel log is read: auto, device, syslog. syslog(2) needs CAP_SYSLOG but no
        /// device; auto falls back to it where the device is absent or not permitted, as in any
        /// unprivileged container. In a directory tree the file is always read.
        kmsg_source: KmsgSource = KmsgSource::Auto,
        /// Accept kernel-log records of every facility, not only the kernel's. For tests: any
        /// process on the node can then write an Xid.
        kmsg_all_facilities: bool = false,
        /// Receive LLDP on rails, to name the switch and its port at the other end. Needs CAP_NET_RAW
        /// and the host's network (docs/monitoring.md).
        lldp: bool = false,
        /// Ask what is at the other end of InfiniBand rails, through /dev/infiniband/umadN. Where the
        /// agent may not open it, nothing is asked. Opening it gives the right to
        /// reconfigure the fabric (docs/security.md).
        umad: bool = false,
        /// Where RDMA facts are read: auto, netlink, sysfs.
        rdma_source: RdmaSource = RdmaSource::Auto,
    }

    /// TLS and authentication (docs/tls.md). Unset: plain HTTP, open to every client that can reach
    /// the address. Changed files are reloaded.
    Serve {
        /// Certificate chain (PEM), leaf first; empty: plain HTTP.
        #[serde(with = "optional_path")]
        tls_cert: Option<PathBuf> = None,
        /// Its private key, unencrypted (PEM: PKCS#8, SEC1 or PKCS#1).
        #[serde(with = "optional_path")]
        tls_key: Option<PathBuf> = None,
        /// Authorities (PEM) for client certificates: /metrics, /report and / then need a client
        /// certificate or a token from token_file. Probes need neither.
        #[serde(with = "optional_path")]
        tls_client_ca: Option<PathBuf> = None,
        /// Bearer tokens, one a line: /metrics, /report and / then need one of them or a client
        /// certificate signed by tls_client_ca. Probes need neither.
        #[serde(with = "optional_path")]
        token_file: Option<PathBuf> = None,
        /// More names that clients may ask by, patterns over the `Host` without its port: a load
        /// balancer's, an alias. Always: addresses, names without a dot, the node's own, those of
        /// its search domains, `*.svc`, `*.local`, `*.internal`, and the API server's proxy.
        hosts: Vec<Glob> = Vec::new(),
    }

    /// How often each source is read. Kernel events trigger reads in between.
    Intervals {
        /// Port state.
        link: Span = Span::from_secs(1),
        /// Counters of RDMA ports.
        counters: Span = Span::from_secs(10),
        /// Statistics of Ethernet devices: pause, discards.
        ethtool: Span = Span::from_secs(15),
        /// Network devices: carrier, speed.
        netdev: Span = Span::from_secs(5),
        /// Enumeration of RDMA devices.
        devices: Span = Span::from_secs(30),
        /// GID tables.
        gids: Span = Span::from_secs(60),
        /// PCI functions: links, errors, GPUs present.
        pci: Span = Span::from_secs(60),
        /// Drivers and modules of the GPUDirect path.
        gpudirect: Span = Span::from_secs(10),
        /// DCB settings: PFC, ETS, trust.
        dcb: Span = Span::from_secs(60),
        /// 802.1X state from wpa_supplicant, where it runs.
        dot1x: Span = Span::from_secs(30),
        /// LLDP frames that were received, where `agent.lldp` is on.
        lldp: Span = Span::from_secs(5),
        /// Requests to the other end of InfiniBand rails, where `agent.umad` is on. An answer holds for
        /// three of them.
        umad: Span = Span::from_secs(60),
        /// A read that takes longer than this counts as stalled.
        deadline: Span = Span::from_secs(5),
    }

    /// Which counters are read and exported.
    Counters {
        /// RDMA devices whose port counters are never opened: patterns over name or PCI address.
        exclude: Vec<Glob> = Vec::new(),
        /// Read and export every counter, not only the default selection.
        full: bool = false,
    }

    /// Jobs on this node: NCCL's logs, and what the kernel shows of jobs that log nothing.
    NcclSettings {
        /// Follow the node's pod logs for lines that NCCL writes.
        logs: bool = true,
        /// Where the kubelet keeps pod logs; a relative path is below the host root.
        pod_logs: PathBuf = PathBuf::from("var/log/pods"),
        /// Log files of jobs outside of Kubernetes (docs/slurm.md): patterns such as
        /// `/var/log/nccl/%h.%p.log` (as NCCL_DEBUG_FILE) or `/shared/logs/slurm-%j.out` (as Slurm's
        /// --output); `*` and other letters after % match any text. Directories have no wildcards; a
        /// relative path is below the host root. At most 8 directories are followed.
        log_files: Vec<FilePattern> = Vec::new(),
        /// Where a pod's job, variables and resource requests come from: auto, api, paths. auto asks
        /// the API server and falls back to the logs' paths where that is not allowed or
        /// cluster.mode is off.
        pods: PodSource = PodSource::Auto,
        /// Look for pods with GPUs that move bytes by TCP and own no RDMA queue pair. Sees other
        /// pods' processes only with the host's PID namespace (hostPID).
        suspects: bool = true,
        /// How often to look for such pods.
        suspects_every: Span = Span::from_secs(30),
        /// Most containers to keep NCCL state for; those silent longest are dropped first.
        containers: usize = 512,
        /// Memory, in MiB, for all that pods can make the agent keep: three quarters for what their logs
        /// say, a quarter for their manifests. Beyond, the pod that takes most gives up first.
        memory_mib: usize = 16,
    }

    /// `selvage slurm health` (docs/slurm.md).
    SlurmSettings {
        /// Slurm's configuration file; empty: SLURM_CONF from the environment, else where Slurm looks.
        #[serde(with = "optional_path")]
        conf: Option<PathBuf> = None,
        /// How long the node must be unready before it is drained.
        hold: Span = Span::from_secs(30),
        /// How long it must be ready before it is resumed.
        clear: Span = Span::from_secs(300),
        /// Most nodes of a partition that selvage keeps drained at a time: a number ("3") or a share
        /// ("10%"), rounded down but at least one.
        budget_max: BudgetMax = BudgetMax::Percent(10),
    }
}

words! {
    /// Least severe level that the agent's own log shows.
    LogLevel {
        /// Failures that need an operator.
        Error = "error",
        /// Failures that the agent works around.
        Warn = "warn",
        /// Start, shutdown and changes of state.
        Info = "info",
        /// Details for finding faults in the agent.
        Debug = "debug",
        /// Every detail, also of single reads.
        Trace = "trace",
    }

    /// Format of the agent's own log.
    LogFormat {
        /// One line of text an event.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }

    /// How the kernel log is read.
    KmsgSource {
        /// The device, or syslog(2) where it is absent or not permitted.
        Auto = "auto",
        /// The device, without a fallback.
        Device = "device",
        /// syslog(2), also where the device could be opened.
        Syslog = "syslog",
    }

    /// Where RDMA facts are read.
    RdmaSource {
        /// RDMA netlink where the kernel answers, files elsewhere.
        Auto = "auto",
        /// RDMA netlink, without a fallback.
        Netlink = "netlink",
        /// Only files under /sys.
        Sysfs = "sysfs",
    }

    /// Where facts about pods come from.
    PodSource {
        /// The API server if it allows reading pods, else the logs' paths.
        Auto = "auto",
        /// The API server, without a fallback.
        Api = "api",
        /// Only the paths of the logs.
        Paths = "paths",
    }
}

impl NcclSettings {
    /// Bytes for what pods' logs say, and for their manifests.
    pub fn memory(&self) -> (usize, usize) {
        let quarter = self.memory_mib.max(1).saturating_mul(1 << 18);
        (quarter.saturating_mul(3), quarter)
    }
}

/// An optional path in the settings: empty text means none.
mod optional_path {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::path::{Path, PathBuf};

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&path.as_deref().unwrap_or(Path::new("")).display())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let text = String::deserialize(from)?;
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }
}
