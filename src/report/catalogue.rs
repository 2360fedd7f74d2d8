//! Every metric family that the agent can export: the one table that the encoder, `docs/metrics.md`
//! and the tests read.

/// Type of the family, as `# TYPE` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, but for resets.
    Counter,
    /// A value that rises and falls.
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

/// A metric family: its name, type, labels and help.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Full name with the prefix `selvage_`.
    pub name: &'static str,
    /// Help text, as `# HELP` and docs/metrics.md print it.
    pub help: &'static str,
    /// Type of the family, as `# TYPE` prints it.
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
        /// All families, by subject; the exposition is sorted by name.
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
        "Unix time of the last change of verdict; the agent's start at the earliest.";
    FULL_WINDOW: Gauge Default "selvage_full_window" []
        "1 once the first full observation window is complete; until then the verdict is preliminary.";
    RAILS: Gauge Default "selvage_rails" []
        "Ports that are compute fabric.";
    GPUS: Gauge Default "selvage_gpus" []
        "GPUs found on the PCI bus.";
    PROFILE_INFO: Gauge Default "selvage_profile_info" ["profile", "source"]
        "Always 1; the machine profile in use, and where it comes from: set, instance_type, dmi, pci, inferred.";
    RESOURCE_ALLOCATABLE: Gauge Default "selvage_resource_allocatable" ["resource"]
        "Allocatable amount of an RDMA or GPU resource on the Node; no series without the API server.";
    RESOURCE_CAPACITY: Gauge Default "selvage_resource_capacity" ["resource"]
        "Amount that device plugins registered, healthy or not.";
    RESOURCE_DEVICES: Gauge Default "selvage_resource_devices" ["resource"]
        "Devices of the resource in the kernel; no series where they cannot be counted (slots of shared devices, pools of virtual functions).";
    CHECK_FINDINGS: Gauge Default "selvage_check_findings" ["check", "status"]
        "Current findings, by check and status (failing, degraded, unknown; notice where it does not move the verdict); a check without findings has no series.";
    FINDING: Gauge Default "selvage_finding" ["check", "subject", "reason", "status"]
        "1 for each current finding; the 64 worst. Status notice: it does not move the verdict.";

    PORT_INFO: Gauge Default "selvage_port_info" ["device", "port", "pci", "netdev", "link_layer", "driver", "firmware", "rail"]
        "Always 1; identity of a port. The label rail is empty until its role is known.";
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
        "Port counters (PMA) other than traffic, by the kernel's file name. Error counters stick at their maximum.";
    PORT_HW_COUNTER: Counter Default "selvage_port_hw_counter_total" ["device", "port", "counter"]
        "Hardware counters by the driver's name; the default selection by driver is in the documentation.";
    PORT_HW_GAUGE: Gauge Full "selvage_port_hw_gauge" ["device", "port", "counter"]
        "Hardware counters that are gauges, by the driver's name.";
    PORT_COUNTER_SATURATED: Gauge Default "selvage_port_counter_saturated" ["device", "port", "counter"]
        "1 for each exported port counter that is stuck at its maximum, only while it is: it cannot show further errors.";
    PORT_LINK_TRANSITIONS: Counter Default "selvage_port_link_transitions_total" ["device", "port"]
        "Link transitions (up and down each count one) since the agent started, including those between two polls where the kernel counts them.";

    PFC_PAUSE_FRAMES: Counter Default "selvage_pfc_pause_frames_total" ["netdev", "priority", "direction"]
        "PFC pause frames: received, the fabric slows this host; transmitted, this host slows others.";
    PFC_PAUSE_SECONDS: Counter Default "selvage_pfc_pause_seconds_total" ["netdev", "priority", "direction"]
        "Time paused by PFC, by the direction of the pause frames.";
    PFC_DISCARDS: Counter Default "selvage_pfc_discards_total" ["netdev", "priority"]
        "Packets dropped on receive for lack of buffers, by priority.";
    PFC_ENABLED: Gauge Default "selvage_pfc_enabled" ["netdev", "priority"]
        "1 where PFC is enabled for a priority. By default only priorities with PFC on any network device of this node.";
    GLOBAL_PAUSE_FRAMES: Counter Full "selvage_global_pause_frames_total" ["netdev", "direction"]
        "802.3x pause frames, which stop every priority at once.";
    ETHTOOL: Counter Full "selvage_netdev_statistic_total" ["netdev", "statistic"]
        "Other ethtool statistics of interest (discards, storm events, physical-layer errors), by the driver's name.";
    CARRIER_CHANGES: Counter Full "selvage_netdev_carrier_changes_total" ["netdev"]
        "Carrier transitions since the interface was registered.";

    PCIE_LINK: Gauge Default "selvage_pcie_link_bytes_per_second" ["pci"]
        "Raw PCIe bandwidth one way as trained now (transfers a second, times lanes, over 8) of GPUs and RDMA functions.";
    PCIE_LINK_MAX: Gauge Full "selvage_pcie_link_max_bytes_per_second" ["pci"]
        "Raw PCIe bandwidth one way of the best link that the device supports.";
    PCIE_LINK_WIDTH: Gauge Full "selvage_pcie_link_width" ["pci"]
        "PCIe lanes in use.";
    PCIE_AER: Counter Full "selvage_pcie_aer_errors_total" ["pci", "severity"]
        "PCIe errors since boot by severity: correctable, nonfatal, fatal.";

    GPU_XID: Counter Default "selvage_gpu_xid_total" ["pci", "xid", "class"]
        "Xid errors of the NVIDIA driver in the kernel log, by GPU slot and code.";
    NIC_KERNEL_EVENTS: Counter Default "selvage_nic_kernel_events_total" ["pci", "event"]
        "Kernel-log events of NICs, by slot.";
    KERNEL_MODULE_LOADED: Gauge Default "selvage_kernel_module_loaded" ["module"]
        "1 where the module is loaded or built in, 0 where it is not.";
    GPUDIRECT_PATH: Gauge Default "selvage_gpudirect_path" ["path"]
        "1 for the path that GPUDirect RDMA can take here, 0 for the others.";
    GDS_READY: Gauge Default "selvage_gds_ready" []
        "1 where the GPUDirect Storage module runs.";
    GDS_ERRORS: Counter Full "selvage_gds_errors_total" ["operation"]
        "Error counts of the nvidia-fs statistics file.";

    SOURCE_UP: Gauge Default "selvage_source_up" ["source"]
        "1 while the last read of every subject of this source succeeded; no series where the kernel lacks the source.";
    SOURCE_DURATION: Gauge Default "selvage_source_duration_seconds" ["source"]
        "Duration of the last read, of the slowest subject.";
    SOURCE_STALLED: Gauge Default "selvage_source_stalled" ["source"]
        "Subjects of this source whose read has exceeded its deadline.";
    KMSG_LOST: Counter Default "selvage_kmsg_records_lost_total" []
        "Kernel-log records that were overwritten before they were read.";
    REPORT_GENERATION: Counter Default "selvage_report_generations_total" []
        "Evaluations since the agent started.";

    NCCL_JOB_INFO: Gauge Default "selvage_nccl_job_info" ["namespace", "pod", "container", "job", "nccl_version"]
        "Always 1; the job of a container with NCCL log lines, and NCCL's version; unknown labels are empty.";
    NCCL_TCP_FALLBACK: Gauge Default "selvage_nccl_tcp_fallback" ["namespace", "pod", "container"]
        "1 where NCCL moves data between nodes over TCP although no setting asks for it; 0 otherwise; no series where its lines do not show it.";
    NCCL_NETWORK: Gauge Default "selvage_nccl_network" ["namespace", "pod", "container", "network"]
        "Always 1; the network that carries data between nodes: ib, roce, ib_or_roce, ofi, fastrak, tcpx, ucx, socket, none (a job of one node), unknown.";
    NCCL_CHANNELS: Gauge Default "selvage_nccl_channels" ["namespace", "pod", "container", "transport"]
        "Connections that NCCL reported, by transport.";
    NCCL_GPUDIRECT: Gauge Default "selvage_nccl_gpudirect_rdma" ["namespace", "pod", "container"]
        "1 where connections between nodes use GPUDirect RDMA, 0 where none does; no series where none was logged.";
    NCCL_WARNINGS: Counter Default "selvage_nccl_warnings_total" ["namespace", "pod", "container", "cause"]
        "NCCL log lines about a problem, by cause.";
    NCCL_INIT_SECONDS: Gauge Default "selvage_nccl_init_seconds" ["namespace", "pod", "container"]
        "Duration of the longest communicator init.";
    NCCL_INIT_HANGS: Gauge Default "selvage_nccl_init_hangs" ["namespace", "pod", "container"]
        "1 while a communicator init exceeds its time limit.";
    NCCL_CONTAINERS: Gauge Default "selvage_nccl_containers" []
        "Containers with NCCL log lines; the 24 worst have series of their own.";
    NCCL_LOG_BYTES: Counter Default "selvage_nccl_log_bytes_total" []
        "Bytes of container logs read.";
    NCCL_LOG_DROPPED: Counter Default "selvage_nccl_log_lines_dropped_total" []
        "Relevant lines that could not be parsed: too long, or torn records of a sidecar.";
    NCCL_LOG_LOST: Counter Default "selvage_nccl_log_bytes_lost_total" []
        "Bytes of container logs that were rotated away before they could be read, as far as known.";
    NCCL_SUSPECT: Gauge Default "selvage_nccl_suspect" ["namespace", "pod", "job"]
        "1 for a pod that holds GPUs, moves many bytes over TCP and owns no RDMA queue pair; 0 for one that is cleared or idle; no series where this is unknown.";
    NODE_WRITES: Counter Default "selvage_node_writes_total" ["result"]
        "Requests that write the Node or an Event, by result: ok, conflict, denied, throttled, timeout, error; dry_run counts what would have been written.";
    NODE_API_UP: Gauge Default "selvage_node_api_up" []
        "1 while the API server answers; no series outside a cluster.";
    NODE_PENDING: Gauge Default "selvage_node_pending" ["what"]
        "1 for each part of the Node (labels, condition, taint) that still has to be written, only while it has; in a dry run, what would be written.";
    NODE_TAINT_APPLIED: Gauge Default "selvage_node_taint_applied" []
        "1 while the Node carries the taint; no series until the Node was seen.";
    NODE_TAINT_WITHHELD: Gauge Default "selvage_node_taint_withheld" ["reason"]
        "1 while the taint is wanted and withheld, by reason: budget, not_in_group, api, muted, mode, dry_run.";
    NODE_BUDGET: Gauge Default "selvage_node_taint_budget" ["what"]
        "The group's taint budget as last seen, only where the taint was wanted: claimed, limit, nodes.";

    REPORT_AGE: Gauge Default "selvage_report_age_seconds" []
        "Age of the last evaluation at the time of the scrape.";
    PROCESS_RESIDENT: Gauge Default "process_resident_memory_bytes" []
        "Resident memory of the agent.";
    PROCESS_CPU: Counter Default "process_cpu_seconds_total" []
        "CPU time of the agent, user and system.";
    TLS_CERTIFICATE_EXPIRY: Gauge Default "selvage_tls_certificate_expiry_timestamp_seconds" []
        "Unix time at which the first certificate of the served chain expires; no series without TLS.";
    SERVE_RELOAD_FAILURES: Counter Default "selvage_serve_reload_failures_total" []
        "Failed reloads of certificate, key, client CA or token file, one every 10 s while the fault lasts; no series where no such file is set.";
}
