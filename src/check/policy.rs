//! Every threshold that judging uses, with where it comes from. The defaults fit an 8-rail H100
//! node and a node without any fabric alike: nothing is expected that is not seen.
//! What no standard and no peer names is marked as heuristic.

use super::Timing;
use crate::settings_macro::section;
use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A count that is too much within a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Judged when the increase is above this.
    pub more_than: u64,
    /// Window over which events are counted.
    pub within: Span,
}

/// `more_than` within `secs` seconds.
const fn limit(more_than: u64, secs: u64) -> Limit {
    let within = Span::from_secs(secs);
    Limit { more_than, within }
}

/// The policy, and its sections for checks, each of which also says how long to look before believing.
macro_rules! policy {
    (
        $(#[doc = $policy_doc:literal])* $policy:ident { $($others:tt)* }
        $($(#[doc = $doc:literal])* $field:ident: $name:ident, raise $raise:expr, clear $clear:expr, { $($rest:tt)* })*
    ) => {
        section! {
            $(
                $(#[doc = $doc])*
                $name {
                    /// A finding is raised once it has stood this long.
                    raise_after: Span = Span::from_secs($raise),
                    /// A finding is cleared once its cause has been gone this long.
                    clear_after: Span = Span::from_secs($clear),
                    $($rest)*
                }
            )*

            $(#[doc = $policy_doc])*
            $policy {
                $($others)*
                $($(#[doc = $doc])* $field: $name,)*
            }
        }

        $(impl $name {
            /// The waiting times in the form that the debouncer takes.
            pub fn timing(&self) -> Timing {
                Timing { raise_after: self.raise_after.0, clear_after: self.clear_after.0 }
            }
        })*
    };
}

/// Whether something is wanted, refused, or to be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum GpuDirectExpectation {
    /// Wanted where GPUs, their driver and rails are all there.
    #[default]
    Auto,
    /// Its absence is always judged.
    Required,
    /// The operator does not want GPUDirect judged on this node.
    Off,
}

/// Whether the Ethernet fabric is lossless (PFC) by design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum LosslessExpectation {
    /// Judged by what the port's DCB settings say.
    #[default]
    Auto,
    /// PFC must be on, and the RoCE priority among its priorities.
    Lossless,
    /// Drops are by design (Spectrum-X adaptive routing, OCI, Falcon): not judged.
    Lossy,
}

/// What to do about a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The fault is over: clears what the same GPU raised.
    Clear,
    /// Counted; no effect on the node.
    Ignore,
    /// The code is unknown: shown, without effect on the verdict.
    #[default]
    Report,
    /// A program's fault: shown, the node is fine.
    App,
    /// The node works with less.
    Degraded,
    /// The GPU is unusable until an operator acts.
    Fatal,
}

/// The operator's word on one Xid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XidOverride {
    /// How findings for this Xid weigh: ignore, app, degraded or fatal.
    pub action: Disposition,
    /// Only from this many on (default 1) …
    #[serde(default = "one")]
    pub count: u32,
    /// … within this long; none: since boot.
    #[serde(default)]
    pub within: Option<Span>,
}

fn one() -> u32 {
    1
}

/// What a job's fallback does to the node's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEffect {
    /// Nothing: a finding, metrics and an Event tell of it.
    Notice,
    /// The node is degraded while the job runs.
    Degraded,
}

section! {
    /// Jobs: what their NCCL uses between nodes. A job's fault is not the node's: none of this
    /// taints.
    Nccl {
        /// A communicator whose init began and has not ended after this long hangs, if others of
        /// its process or node got on.
        init_hang_after: Span = Span::from_secs(300),
        /// What a job that fell back to TCP does to the node's verdict: notice, degraded.
        fallback: JobEffect = JobEffect::Notice,
        /// This many jobs in a row that fell back here are a finding about the node; 0: never. Heuristic.
        jobs_in_a_row: u32 = 3,
        /// A pod with GPUs and no RC queue pair whose network namespace moves more than this many
        /// bytes a second by TCP, each way added up, is a suspect. Heuristic: a tenth of a 10 Gb/s
        /// link.
        suspect_bytes_per_second: u64 = 125_000_000,
        /// … for this long.
        suspect_after: Span = Span::from_secs(120),
    }

    /// What this node should have. Nothing set: only what was seen can be missed.
    Expect {
        /// At least this many rails.
        rails: Option<u32> = None,
        /// At least this many GPUs.
        gpus: Option<u32> = None,
        /// Each rail at least this fast, in Gb/s.
        rate_gbps: Option<f64> = None,
        /// GPUDirect Storage (nvidia-fs) must be there.
        gds: bool = false,
        /// Which GPUDirect RDMA path the node must offer.
        gpudirect: GpuDirectExpectation = GpuDirectExpectation::Auto,
        /// Whether the Ethernet fabric is lossless.
        lossless: LosslessExpectation = LosslessExpectation::Auto,
    }
}

policy! {
    /// Everything that judging may be told.
    Policy {
        /// What this node should have.
        expect: Expect,
        /// Checks (by id) that are not run at all.
        mute: BTreeSet<String> = BTreeSet::new(),
        /// A fact older than this, whose source is stalled or failing, is unknown.
        stale_after: Span = Span::from_secs(30),
        /// Jobs: what their NCCL uses between nodes.
        nccl: Nccl,
    }

    // Peers poll this each 1-60 s and latch; here a fall must stand a moment, since a retraining link
    // is back within a second or two. Waits are heuristic.
    /// Port state.
    link_state: LinkState, raise 3, clear 10, {
        /// INIT is right for seconds after a link came up, until the subnet manager has swept.
        /// Heuristic.
        init_raise_after: Span = Span::from_secs(20),
        /// Wait before every rail in INIT counts: a standby subnet manager takes over after 40 s, and
        /// sweeps (OpenSM, POLLING_TIMEOUT and its retries).
        subnet_manager_failover: Span = Span::from_secs(90),
        /// Grace for a rail that was not up yet this boot: NDR optics train for up to three minutes
        /// (ConnectX-7 firmware notes, issue 3439438).
        training_grace: Span = Span::from_secs(180),
        /// A rail that was not up yet is given more time while another one came up within this long, up
        /// to the grace after the agent's start. Heuristic.
        others_train: Span = Span::from_secs(60),
        /// A port that 802.1X does not authorize must stay so this long; twice as long while its
        /// attempt has not failed. hostap waits 60 s for an answer and 60 s before it tries again.
        unauthorized_raise_after: Span = Span::from_secs(60),
        /// A LID or subnet manager that changed is shown this long. Heuristic.
        lid_change_stands_for: Span = Span::from_secs(3600),
        /// An active rail without LID or uverbs device must stay so this long: a subnet manager that
        /// starts leaves LID 0 for seconds.
        address_raise_after: Span = Span::from_secs(30),
        /// A state that cannot be read must stay so this long: a driver reload reads so. Heuristic.
        unknown_raise_after: Span = Span::from_secs(10),
    }

    // 5 in 24 h (azurehpc NHC) and 3 in 12 h of 25 s each (gpud) miss quick flaps; the counters here
    // see every edge, so the windows are shorter. Heuristic.
    /// Port edges.
    link_flap: LinkFlap, raise 0, clear 60, {
        /// More flaps than this make the rail degraded: 3 and up within 10 min.
        degraded: Limit = limit(2, 600),
        /// More flaps than this make it failing: 5 and up within 1 h.
        failing: Limit = limit(4, 3600),
    }

    // No table by product name: peers, the port's own past, or `expect.rate_gbps`.
    /// Port speed.
    link_rate: LinkRate, raise 10, clear 10, {
        /// Judged when the rate is below this share of the reference (a bond's or driver's rounding
        /// must not count). Heuristic.
        below: f64 = 0.99,
    }

    // Rates since a baseline, never absolute values.
    /// Errors on the wire.
    link_errors: LinkErrors, raise 0, clear 15, {
        /// Symbol errors: 120/h is a bit error rate of 1e-12 at 40 Gb/s (IBTA, as NVSentinel uses);
        /// links with FEC show 0 when healthy.
        symbol: Limit = limit(120, 3600),
        /// `link_error_recovery`: 5/min (NVSentinel).
        recovery: Limit = limit(5, 60),
        /// Packets received with errors: 10/s (NVSentinel).
        receive: Limit = limit(600, 60),
        /// `local_link_integrity_errors`: any; the counter ends at 15.
        integrity: Limit = limit(0, 3600),
        /// `excessive_buffer_overrun_errors`: any; the counter ends at 15.
        overrun: Limit = limit(0, 3600),
        /// P_Key and raw-filter violations: 100 (infiniband-diags error_thresholds).
        constraint: Limit = limit(100, 3600),
        /// Ethernet frames with a bad checksum, and RoCE packets with a bad ICRC. Heuristic.
        checksum: Limit = limit(60, 3600),
        /// EFA admin commands that the firmware never answered: any (NVSentinel).
        admin_commands_lost: Limit = limit(0, 3600),
        /// Errors within this long after a link edge are the training's own, and are left out.
        /// Heuristic.
        settle: Span = Span::from_secs(300),
        /// Share of corrected bits: so long it is measured, at least half of it.
        ratio_within: Span = Span::from_secs(600),
    }

    /// Counters that stick.
    counter_saturated: CounterSaturated, raise 0, clear 0, {}

    // A lossless fabric shows next to none; a lossy one shows some, always.
    /// Losses as the transport sees them.
    retransmission: Retransmission, raise 0, clear 15, {
        /// Packets lost or sent again, as sender or receiver tells: 10/s over 1 min. Alone it decides
        /// where the fabric is lossless (`expect.lossless`, InfiniBand, PFC on). Heuristic.
        loss: Limit = limit(600, 60),
        /// Share of the packets sent in `loss.within`: decides where the fabric may lose some by design,
        /// and where there is little traffic … Heuristic.
        loss_share: f64 = 0.001,
        /// … once more than this many are lost. Heuristic.
        loss_share_from: u64 = 4,
        /// Packets out of order: also adaptive routing, so a notice only. Heuristic.
        out_of_order: Limit = limit(60_000, 60),
        /// Acknowledge timeouts: 1/s (NVSentinel). Also a remote process that died.
        timeout: Limit = limit(60, 60),
        /// Retries exhausted: a queue pair, and with it a job, died. Here or at the other end.
        retries_exceeded: Limit = limit(0, 600),
        /// EFA packets sent again: 1000, refilled at 1/s (EKS node monitoring agent).
        efa_retransmitted: Limit = limit(1000, 900),
        /// EFA remotes that do not answer or are impaired: 100 (EKS node monitoring agent).
        efa_remote: Limit = limit(100, 60),
        /// EFA packets dropped on receive: 100/s (NVSentinel).
        efa_dropped: Limit = limit(6000, 60),
    }

    // The pause ladder is the operators' usual one; no standard names it.
    /// Pause, drops, congestion notifications.
    congestion: Congestion, raise 0, clear 15, {
        /// Share of time paused that is pressure …
        pressure: f64 = 0.10,
        /// … when it stands this long.
        pressure_raise_after: Span = Span::from_secs(60),
        /// Share of time paused that is a storm …
        storm: f64 = 0.50,
        /// … when it stands this long.
        storm_raise_after: Span = Span::from_secs(10),
        /// The NIC's own storm events (mlx5 stall detection, bnxt continuous pause).
        storm_events: Limit = limit(0, 600),
        /// Packets dropped on a priority that has PFC: none by design; a few while settings change.
        /// Heuristic.
        lossless_discards: Limit = limit(10, 60),
        /// Packets dropped for lack of buffer on a port without PFC, or by an InfiniBand port: 100/s
        /// (NVSentinel, port_xmit_discards).
        discards: Limit = limit(6000, 60),
        /// Congestion notifications a minute worth a notice. Normal at some rate. Heuristic.
        notifications: Limit = limit(600_000, 60),
        /// Congestion notifications that the sender ignored: control is off or set wrong.
        notifications_ignored: Limit = limit(0, 600),
    }

    // Addresses come seconds after the link. Waits are heuristic.
    /// RoCE addresses.
    gid_table: GidTable, raise 30, clear 10, {}

    // An interface is set up within a minute of its link.
    /// Size of RDMA packets.
    mtu: Mtu, raise 60, clear 10, {}

    // Interfaces are set up within a minute of their link.
    /// ARP and reverse-path settings of RoCE rails.
    ip_routing: IpRouting, raise 60, clear 10, {}

    // A subnet manager sweeps each 10 s and may hand out keys after the LID.
    /// P_Keys of InfiniBand rails.
    partition: Partition, raise 30, clear 10, {}

    // Longer than the 30 s between two LLDPDUs: where two senders share a port, what it reaches seems
    // to change with each.
    /// Switches at the other end of rails, by LLDP or umad.
    neighbor: Neighbor, raise 60, clear 10, {}

    // With DCBX a switch port hands its settings out within one LLDP round (30 s) of the link, and
    // they go with it.
    /// PFC, trust and ETS of RoCE rails.
    flow_control: FlowControl, raise 60, clear 10, {}

    // Read each minute or so; a retraining link is seen narrow for a moment. Waits are heuristic.
    /// PCIe links of NICs and GPUs.
    pcie_link: PcieLink, raise 5, clear 60, {
        /// Uncorrected, fatal errors: any.
        fatal: Limit = limit(0, 3600),
        /// Uncorrected errors that left the link sound: any.
        nonfatal: Limit = limit(0, 3600),
        /// Corrected errors worth a notice. Heuristic.
        correctable: Limit = limit(1000, 3600),
    }

    /// Rails and GPUs that are gone.
    device_missing: DeviceMissing, raise 0, clear 0, {
        /// A rail whose function is still on the bus may be back within this long: a firmware reset
        /// (mlx5 waits 60 s for it). It makes the node unready, and does not taint it earlier.
        reset_takes: Span = Span::from_secs(90),
        /// Where every rail is gone at once a driver is reloaded (a MOFED or DOCA container is given
        /// 300 s to unload the old one): the node is unknown before this long.
        reload_takes: Span = Span::from_secs(300),
        /// Enumerations in a row that must miss a device: NVSentinel needed 3 against driver reloads.
        missed: u32 = 3,
        /// And that long it must be out of sight: a driver reload takes seconds for a device. Heuristic.
        gone_after: Span = Span::from_secs(15),
        /// Config space that reads all ones must do so this long: a reset reads so for a moment, and
        /// the bus is read again after 4 s.
        dead_raise_after: Span = Span::from_secs(5),
        /// Devices appear late while a node boots (EFA: 15 s), so expected numbers wait.
        expected_raise_after: Span = Span::from_secs(30),
        /// A GPU without a driver next to GPUs with one must stay so this long: they are probed one
        /// after the other. Heuristic.
        undriven_raise_after: Span = Span::from_secs(60),
        /// With no GPU bound, or no rail driven, a driver is given this long to come: a driver
        /// container's probe begins after a minute and allows 20 (gpu-operator, values.yaml).
        driver_grace: Span = Span::from_secs(1500),
    }

    // A device plugin that restarts is back within a minute or two, and its number with the next
    // status that the kubelet sends; EFA devices come late at boot. Heuristic.
    /// What the Node promises to pods, against what is there.
    promised: Promised, raise 300, clear 30, {}

    // Drivers load one after the other while a node boots. Waits are heuristic.
    /// The path from NIC to GPU memory.
    gpudirect: GpuDirect, raise 30, clear 0, {}

    /// GPUDirect Storage.
    gds: Gds, raise 30, clear 0, {
        /// nvidia-fs errors, all kinds: any.
        errors: Limit = limit(0, 600),
    }

    /// GPU errors in the kernel log.
    xid: Xid, raise 0, clear 0, {
        /// The operator's word by code, above the table and above Xid 154.
        overrides: BTreeMap<u32, XidOverride> = BTreeMap::new(),
        /// After the driver took its verdict back (154 to `None`), or was reloaded, this long
        /// without another Xid of that GPU clears it. Heuristic.
        quiet: Span = Span::from_secs(60),
        /// Codes that follow from another (43, 45, 94, 95) within this long belong to it. Heuristic.
        sympathy: Span = Span::from_secs(5),
        /// Degraded Xids stand this long after the last one. Heuristic.
        degraded_for: Span = Span::from_secs(3600),
        /// Fatal Xids stand this long after the last one; not set: until the driver takes its
        /// verdict back (154 to `None`) or was reloaded, or a reboot. A reset of a GPU tells
        /// nothing in the log. Also of what the driver asks for.
        fatal_for: Option<Span> = None,
        /// One code, not of hardware for sure, on this many GPUs at once is the job's, not the GPUs'.
        /// Heuristic.
        storm_gpus: u32 = 4,
        /// At once: within this long. Heuristic.
        storm_within: Span = Span::from_secs(30),
    }

    /// NIC events in the kernel log.
    nic_kernel: NicKernel, raise 0, clear 0, {
        /// An event without a line that takes it back stands this long. Heuristic.
        stands_for: Span = Span::from_secs(600),
        /// A NIC may be away this long after its driver announced a reset or a recovery: firmware
        /// resets take up to a minute (mlx5/core/lib/tout.c).
        reset_takes: Span = Span::from_secs(90),
    }

    /// NVSwitch errors in the kernel log.
    sxid: Sxid, raise 0, clear 0, {
        /// A non-fatal SXid is reported for this long after the last one. Heuristic.
        nonfatal_for: Span = Span::from_secs(3600),
        /// A fatal SXid stands this long after the last one; not set: until NVIDIA's driver was
        /// reloaded, or a reboot.
        fatal_for: Option<Span> = None,
    }

    /// The agent's own eyes.
    source_health: SourceHealth, raise 5, clear 5, {
        /// A source that fails must do so this long before it is reported. Heuristic.
        failing_raise_after: Span = Span::from_secs(30),
        /// Lost kernel-log records are reported for this long. Heuristic.
        lost_for: Span = Span::from_secs(3600),
    }
}

impl Policy {
    /// Values that are wrong, as (key within the policy, sentence); empty when it is sound.
    pub fn complaints(&self) -> Vec<(String, String)> {
        let mut complaints = Vec::new();
        let mut complain = |key: &str, message: String| complaints.push((key.into(), message));
        for (name, value) in [
            ("link_rate.below", self.link_rate.below),
            ("retransmission.loss_share", self.retransmission.loss_share),
            ("congestion.pressure", self.congestion.pressure),
            ("congestion.storm", self.congestion.storm),
        ] {
            if !(value > 0.0 && value <= 1.0) {
                complain(name, format!("{value} is not a share between 0 and 1"));
            }
        }
        if self.congestion.storm < self.congestion.pressure {
            complain("congestion.storm", "below congestion.pressure".into());
        }
        if let Some(rate) = self.expect.rate_gbps
            && !(rate > 0.0 && rate.is_finite())
        {
            complain("expect.rate_gbps", format!("{rate} is not a rate"));
        }
        if self.device_missing.missed == 0 {
            complain("device_missing.missed", "must be at least 1".into());
        }
        for (code, own) in &self.xid.overrides {
            let key = |field| format!("xid.overrides.{code}.{field}");
            if own.count == 0 {
                complain(&key("count"), "must be at least 1".into());
            }
            if matches!(own.action, Disposition::Clear | Disposition::Report) {
                let message = "must be ignore, app, degraded or fatal";
                complain(&key("action"), message.into());
            }
        }
        complaints
    }
}

#[cfg(test)]
mod tests;
