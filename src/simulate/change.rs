//! Events of a simulated node as data: scenarios and tests are lists of these.

use super::spec::{ModuleSpec, ProcessSpec};
use crate::observe::PodFacts;
use crate::units::Bdf;
use serde::Deserialize;

/// One thing that happens. What happens to a port happens to the first one of its device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// A link falls or comes back, with everything that a kernel shows of it: state, physical state,
    /// carrier and its edge, `link_downed`, and for Ethernet the driver's line in the kernel log.
    Link {
        /// Name of the RDMA device, such as `mlx5_0`.
        device: String,
        /// Whether it comes up.
        up: bool,
    },
    /// The link trains to another rate, which sysfs (`200 Gb/sec (2X NDR)`) and the interface show.
    Rate {
        /// Name of the RDMA device, such as `mlx5_0`.
        device: String,
        /// New text of `rate`.
        rate: String,
        /// Speed of the interface in Mb/s.
        speed: u64,
    },
    /// A counter of `counters/`, or else of `hw_counters/`, rises.
    Counter {
        /// Name of the RDMA device, such as `mlx5_0`.
        device: String,
        /// Name of the counter's file in sysfs.
        name: String,
        /// What is added to the present value.
        add: u64,
    },
    /// A statistic of `ethtool -S` rises.
    Ethtool {
        /// Name of the network interface, such as `ibp24s0`.
        netdev: String,
        /// Name of the statistic.
        name: String,
        /// What is added to the present value.
        add: u64,
    },
    /// Carrier of an interface and the number of edges that led there.
    Carrier {
        /// Name of the network interface, such as `ibp24s0`.
        netdev: String,
        /// Whether there is carrier in the end.
        up: bool,
        /// Edges added to `carrier_changes`.
        edges: u64,
    },
    /// Every active port carries traffic for this long, at the given share of its rate.
    Traffic {
        /// Duration in milliseconds.
        millis: u64,
        /// Percent of the rate.
        percent: u64,
    },
    /// A module is loaded.
    LoadModule(ModuleSpec),
    /// A module is unloaded.
    UnloadModule(String),
    /// Clients registered with ib_core's peer-memory interface; `None`: no such interface.
    MemoryPeers(Option<Vec<String>>),
    /// A record is added to the kernel log.
    Kmsg {
        /// Facility times 8 plus level.
        priority: u32,
        /// Time since boot; 0 means now, or a second after the last record where no clock is set.
        #[serde(default)]
        micros: u64,
        /// Text of the record.
        text: String,
        /// PCI function that a `dev_*` line names in its dictionary.
        #[serde(default)]
        device: Option<Bdf>,
    },
    /// A record too large to be read is added to the kernel log: its reader loses it.
    KmsgTooLarge,
    /// A pod starts, with an empty log.
    #[serde(skip)]
    PodStarts(Box<PodFacts>),
    /// A pod's container prints lines.
    PodPrints {
        /// UID of the pod.
        uid: String,
        /// Lines without their newlines.
        lines: Vec<String>,
    },
    /// A process of a pod starts.
    #[serde(skip)]
    ProcessStarts(ProcessSpec),
    /// A process's network namespace receives and sends by TCP.
    Tcp {
        /// Process id that the log line names.
        pid: u32,
        /// Bytes in each direction.
        bytes: u64,
    },
    /// A pod with this UID ends; its logs and processes are removed.
    PodEnds(String),
    /// A device plugin goes away: pods cannot get its resource any more. For the cluster alone.
    PluginStops(String),
    /// An RDMA device vanishes.
    RemoveDevice(String),
    /// Config space of a PCI function reads all ones, or answers again.
    ConfigDead {
        /// Address of the PCI function, such as `0000:18:00.0`.
        pci: Bdf,
        /// Whether it reads all ones.
        dead: bool,
    },
    /// A PCIe link trains to another speed and width.
    PcieLink {
        /// Address of the PCI function, such as `0000:18:00.0`.
        pci: Bdf,
        /// Speed as sysfs prints it, such as `16.0 GT/s PCIe`.
        speed: String,
        /// Number of PCIe lanes that the link trained to.
        width: u32,
    },
    /// AER totals rise: correctable, nonfatal, fatal.
    Aer {
        /// Address of the PCI function, such as `0000:18:00.0`.
        pci: Bdf,
        /// What is added to the present value.
        add: [u64; 3],
    },
    /// A path answers with an errno, to agents that start from now on.
    Refuse {
        /// Path below the root.
        path: String,
        /// Number of the errno.
        errno: i32,
    },
    /// Error counts of nvidia-fs rise.
    NvidiaFsErrors(u64),
    /// Several events at one moment.
    All(Vec<Change>),
}
