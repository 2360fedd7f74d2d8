//! Every metric family that the agent can export: the one table that the encoder, `docs/metrics.md`
//! and the tests read.

use std::fmt::Write;

/// Counter or gauge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, but for resets.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// How much is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Detail {
    /// What alerts and dashboards need: at most 600 series on a node with 18 ports.
    #[default]
    Default,
    /// Everything that was read: at most 2,000.
    Full,
}

/// One metric family.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Full name.
    pub name: &'static str,
    /// Help text.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// Label names in the order of their values.
    pub labels: &'static [&'static str],
    /// From which detail on it is exported.
    pub detail: Detail,
}

macro_rules! catalogue {
    ($($id:ident: $kind:ident $detail:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Family = Family {
                name: $name,
                help: $help,
                kind: Kind::$kind,
                labels: &[$($label),*],
                detail: Detail::$detail,
            };
        )*
        /// All families, in the order of the exposition.
        pub const CATALOGUE: &[Family] = &[$($id),*];
    };
}

catalogue! {
    BUILD_INFO: Gauge Default "selvage_build_info" ["version"]
        "Always 1; the version is in the label.";
    FABRIC_READY: Gauge Default "selvage_fabric_ready" []
        "1 while the verdict on this node is ready, else 0 (degraded, unready and unknown too).";
    FABRIC_STATE: Gauge Default "selvage_fabric_state" ["state"]
        "1 for the verdict that stands on this node, 0 for the other three.";
    FABRIC_STATE_TRANSITIONS: Counter Default "selvage_fabric_state_transitions_total" ["to"]
        "Changes of verdict since the agent started, by the state entered.";
    FABRIC_STATE_SINCE: Gauge Default "selvage_fabric_state_since_timestamp_seconds" []
        "Since when the verdict stands, in Unix time; at the earliest since the agent started.";
    FULL_WINDOW: Gauge Default "selvage_full_window" []
        "1 once the first full observation window has been seen; until then the verdict is a guess.";
    RAILS: Gauge Default "selvage_rails" []
        "Ports that are compute fabric.";
    GPUS: Gauge Default "selvage_gpus" []
        "GPUs found on the PCI bus.";
    PROFILE_INFO: Gauge Default "selvage_profile_info" ["profile", "source"]
        "Always 1; which shape of machine this is taken for, and how that is known: set, instance_type, dmi, pci, inferred.";
    RESOURCE_ALLOCATABLE: Gauge Default "selvage_resource_allocatable" ["resource"]
        "What pods can have of a resource for RDMA or GPUs, as the Node tells; none without the API server.";
    RESOURCE_CAPACITY: Gauge Default "selvage_resource_capacity" ["resource"]
        "What device plugins registered of it, healthy or not.";
    RESOURCE_DEVICES: Gauge Default "selvage_resource_devices" ["resource"]
        "Devices that the kernel has of it; none where they cannot be counted: slots of shared devices, pools of virtual functions.";
    CHECK_FINDINGS: Gauge Default "selvage_check_findings" ["check", "status"]
        "Findings that stand, by check and status (failing, degraded, unknown; notice where it does not move the verdict); a check without findings has no series.";
    FINDING: Gauge Default "selvage_finding" ["check", "subject", "reason", "status"]
        "1 for each finding, only while it stands; the 64 worst. Status notice: it does not move the verdict.";

    PORT_INFO: Gauge Default "selvage_port_info" ["device", "port", "pci", "netdev", "link_layer", "driver", "firmware", "rail"]
        "Always 1; what a port is. Rail is empty until its role is known.";
    PORT_UP: Gauge Default "selvage_port_up" ["device", "port"]
        "1 while the port is active, 0 in every other known state.";
    PORT_STATE_ID: Gauge Default "selvage_port_state_id" ["device", "port"]
        "Logical state as the kernel numbers it: 1 down, 2 init, 3 armed, 4 active, 5 active_defer.";
    PORT_PHYSICAL_STATE_ID: Gauge Default "selvage_port_physical_state_id" ["device", "port"]
        "Physical state as the kernel numbers it: 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery.";
    PORT_RATE: Gauge Default "selvage_port_rate_bytes_per_second" ["device", "port"]
        "Signalling rate of an active port; the kernel's rate says nothing while a port is not active.";
    PORT_RECEIVE_BYTES: Counter Default "selvage_port_receive_bytes_total" ["device", "port"]
        "RDMA bytes received (the kernel's 4-byte words already multiplied).";
    PORT_TRANSMIT_BYTES: Counter Default "selvage_port_transmit_bytes_total" ["device", "port"]
        "RDMA bytes sent (the kernel's 4-byte words already multiplied).";
    PORT_RECEIVE_PACKETS: Counter Default "selvage_port_receive_packets_total" ["device", "port"]
        "RDMA packets received.";
    PORT_TRANSMIT_PACKETS: Counter Default "selvage_port_transmit_packets_total" ["device", "port"]
        "RDMA packets sent.";
    PORT_COUNTER: Counter Default "selvage_port_counter_total" ["device", "port", "counter"]
        "Port counters (PMA) but those of traffic, by the kernel's file name. Error counters stick at their maximum.";
    PORT_HW_COUNTER: Counter Default "selvage_port_hw_counter_total" ["device", "port", "counter"]
        "Hardware counters by the driver's name; the default selection by driver is in the documentation.";
    PORT_HW_GAUGE: Gauge Full "selvage_port_hw_gauge" ["device", "port", "counter"]
        "Values among the hardware counters that rise and fall, by the driver's name.";
    PORT_COUNTER_SATURATED: Gauge Default "selvage_port_counter_saturated" ["device", "port", "counter"]
        "1 for each exported port counter that is stuck at its maximum, only while it is: it can tell of no new error.";
    PORT_LINK_TRANSITIONS: Counter Default "selvage_port_link_transitions_total" ["device", "port"]
        "Link edges (up or down, each counts one) since the agent started, those between two polls included where the kernel counts them.";

    PFC_PAUSE_FRAMES: Counter Default "selvage_pfc_pause_frames_total" ["netdev", "priority", "direction"]
        "PFC pause frames: received means that the fabric slows this host, transmitted that this host slows others.";
    PFC_PAUSE_SECONDS: Counter Default "selvage_pfc_pause_seconds_total" ["netdev", "priority", "direction"]
        "Time paused by PFC, by the direction of the pause frames.";
    PFC_DISCARDS: Counter Default "selvage_pfc_discards_total" ["netdev", "priority"]
        "Packets dropped on receive for lack of buffer, by priority.";
    PFC_ENABLED: Gauge Default "selvage_pfc_enabled" ["netdev", "priority"]
        "1 where PFC is on for a priority. By default only priorities with PFC on some network device of this node.";
    GLOBAL_PAUSE_FRAMES: Counter Full "selvage_global_pause_frames_total" ["netdev", "direction"]
        "802.3x pause frames, which stop every priority at once.";
    ETHTOOL: Counter Full "selvage_netdev_statistic_total" ["netdev", "statistic"]
        "Other ethtool statistics of interest (discards, storm events, physical-layer errors), by the driver's name.";
    CARRIER_CHANGES: Counter Full "selvage_netdev_carrier_changes_total" ["netdev"]
        "Edges of carrier since the interface was registered.";

    PCIE_LINK: Gauge Default "selvage_pcie_link_bytes_per_second" ["pci"]
        "Raw PCIe bandwidth one way as trained now (transfers a second, times lanes, over 8) of GPUs and RDMA functions.";
    PCIE_LINK_MAX: Gauge Full "selvage_pcie_link_max_bytes_per_second" ["pci"]
        "The same of the best link that the device itself can train.";
    PCIE_LINK_WIDTH: Gauge Full "selvage_pcie_link_width" ["pci"]
        "PCIe lanes in use.";
    PCIE_AER: Counter Full "selvage_pcie_aer_errors_total" ["pci", "severity"]
        "PCIe errors since boot by severity: correctable, nonfatal, fatal.";

    GPU_XID: Counter Default "selvage_gpu_xid_total" ["pci", "xid", "class"]
        "Xid errors of the NVIDIA driver in the kernel log, by GPU slot and code.";
    NIC_KERNEL_EVENTS: Counter Default "selvage_nic_kernel_events_total" ["pci", "event"]
        "Kernel-log events of NICs, by slot.";
    KERNEL_MODULE_LOADED: Gauge Default "selvage_kernel_module_loaded" ["module"]
        "1 where the module is in the kernel, 0 where it is not.";
    GPUDIRECT_PATH: Gauge Default "selvage_gpudirect_path" ["path"]
        "1 for the path that GPUDirect RDMA can take here, 0 for the others.";
    GDS_READY: Gauge Default "selvage_gds_ready" []
        "1 where the GPUDirect Storage module runs.";
    GDS_ERRORS: Counter Full "selvage_gds_errors_total" ["operation"]
        "Error counts of the nvidia-fs statistics file.";

    SOURCE_UP: Gauge Default "selvage_source_up" ["source"]
        "1 while the last read of every subject of this source ended well; none where the kernel lacks the source.";
    SOURCE_DURATION: Gauge Default "selvage_source_duration_seconds" ["source"]
        "How long the last read took, of the slowest subject.";
    SOURCE_STALLED: Gauge Default "selvage_source_stalled" ["source"]
        "Subjects of this source whose read is out beyond its deadline.";
    KMSG_LOST: Counter Default "selvage_kmsg_records_lost_total" []
        "Kernel-log records that were overwritten before they were read.";
    REPORT_GENERATION: Counter Default "selvage_report_generations_total" []
        "Evaluations since the agent started.";

    NCCL_JOB_INFO: Gauge Default "selvage_nccl_job_info" ["namespace", "pod", "container", "job", "nccl_version"]
        "Always 1; which job a container in which NCCL speaks is a part of, and NCCL's version; a label is empty where it is not known.";
    NCCL_TCP_FALLBACK: Gauge Default "selvage_nccl_tcp_fallback" ["namespace", "pod", "container"]
        "1 where NCCL moves data between nodes by TCP and nothing asks for that; 0 where it does not, or a setting asks for it; no series where its lines do not tell.";
    NCCL_NETWORK: Gauge Default "selvage_nccl_network" ["namespace", "pod", "container", "network"]
        "Always 1; what data between nodes goes over: ib, roce, ib_or_roce, ofi, fastrak, tcpx, ucx, socket, none (a job of one node), unknown.";
    NCCL_CHANNELS: Gauge Default "selvage_nccl_channels" ["namespace", "pod", "container", "transport"]
        "Connections that NCCL has told of, by transport.";
    NCCL_GPUDIRECT: Gauge Default "selvage_nccl_gpudirect_rdma" ["namespace", "pod", "container"]
        "1 where connections between nodes use GPUDirect RDMA, 0 where none does; no series where none is in view.";
    NCCL_WARNINGS: Counter Default "selvage_nccl_warnings_total" ["namespace", "pod", "container", "cause"]
        "Lines about trouble that NCCL printed, by cause.";
    NCCL_INIT_SECONDS: Gauge Default "selvage_nccl_init_seconds" ["namespace", "pod", "container"]
        "The longest init of a communicator.";
    NCCL_INIT_HANGS: Gauge Default "selvage_nccl_init_hangs" ["namespace", "pod", "container"]
        "1 while the init of a communicator takes longer than it may.";
    NCCL_CONTAINERS: Gauge Default "selvage_nccl_containers" []
        "Containers whose logs hold NCCL's lines; the 24 worst have series of their own.";
    NCCL_LOG_BYTES: Counter Default "selvage_nccl_log_bytes_total" []
        "Bytes of containers' logs read.";
    NCCL_LOG_DROPPED: Counter Default "selvage_nccl_log_lines_dropped_total" []
        "Lines of interest that could not be looked at: too long, or a sidecar's and torn.";
    NCCL_LOG_LOST: Counter Default "selvage_nccl_log_bytes_lost_total" []
        "Bytes of containers' logs that were gone before they could be read, as far as known.";
    NCCL_SUSPECT: Gauge Default "selvage_nccl_suspect" ["namespace", "pod", "job"]
        "1 for a pod that holds GPUs, moves many bytes by TCP and owns no RDMA queue pair; 0 for one that is cleared or idle; no series where it cannot be told.";
    NODE_WRITES: Counter Default "selvage_node_writes_total" ["result"]
        "Requests that write to the node's object or tell an event, by result: ok, conflict, denied, throttled, timeout, error; dry_run counts what would have been written.";
    NODE_API_UP: Gauge Default "selvage_node_api_up" []
        "1 while the API server answers; none where there is no cluster to tell.";
    NODE_PENDING: Gauge Default "selvage_node_pending" ["what"]
        "1 for what the node's object should carry and does not (labels, condition, taint), only while it is so; in a dry run, what would be written.";
    NODE_TAINT_APPLIED: Gauge Default "selvage_node_taint_applied" []
        "1 while the node carries our taint; none until the node's object was seen.";
    NODE_TAINT_WITHHELD: Gauge Default "selvage_node_taint_withheld" ["reason"]
        "1 while the taint is wanted and not put, by reason: budget, not_in_group, api, muted, mode, dry_run.";
    NODE_BUDGET: Gauge Default "selvage_node_taint_budget" ["what"]
        "The group's budget as this node last saw it, only where the taint was wanted: claimed, limit, nodes.";

    REPORT_AGE: Gauge Default "selvage_report_age_seconds" []
        "Age of the last evaluation at the time of the scrape.";
    PROCESS_RESIDENT: Gauge Default "process_resident_memory_bytes" []
        "Resident memory of the agent.";
    PROCESS_CPU: Counter Default "process_cpu_seconds_total" []
        "CPU time of the agent, user and system.";
    TLS_CERTIFICATE_EXPIRY: Gauge Default "selvage_tls_certificate_expiry_timestamp_seconds" []
        "When the first certificate of the served chain ends to be valid, in Unix time; none without TLS.";
    SERVE_RELOAD_FAILURES: Counter Default "selvage_serve_reload_failures_total" []
        "Attempts to take in certificate, key, client authorities or tokens anew that failed, one every 10 s while it lasts; none where no such file is set.";
}

/// The catalogue and the default selections of counters as Markdown: `docs/metrics.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         Generated from `src/report/catalogue.rs`; a test holds it equal (`UPDATE_GOLDEN=1 cargo test` rewrites it).\n\n\
         A value that could not be observed has no series: absent is not zero. Series of ports that\n\
         are gone are gone with the next scrape. *full* means: only with `counters.full`.\n\n\
         `promtool check metrics` complains of three names, which are meant: `selvage_port_counter_total`,\n\
         `selvage_port_hw_counter_total` and `selvage_port_counter_saturated` hold the word *counter*, as\n\
         the kernel's directories do.\n\n\
         | metric | type | labels | detail | meaning |\n|---|---|---|---|---|\n",
    );
    for family in CATALOGUE {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let detail = match family.detail {
            Detail::Default => "default",
            Detail::Full => "full",
        };
        let labels = family
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect::<Vec<_>>()
            .join(" ");
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| `{}` | {kind} | {labels} | {detail} | {} |",
            family.name, family.help
        );
    }
    out.push_str(&super::default_counters::markdown());
    out
}
