//! Things that can happen to a simulated node, as data: plays and tests are lists of these.

use super::pod::PodSpec;
use super::process::ProcessSpec;
use super::spec::{ModuleSpec, RdmaSpec};
use crate::units::Bdf;

/// One thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A link falls or comes back, with all that a kernel shows of it: state, physical state,
    /// carrier and its edge, `link_downed`, and for Ethernet the driver's line in the kernel log.
    Link {
        /// RDMA device.
        device: String,
        /// Port.
        port: u32,
        /// Up or down.
        up: bool,
    },
    /// Port state and physical state alone, by number.
    PortState {
        /// RDMA device.
        device: String,
        /// Port.
        port: u32,
        /// State.
        state: u32,
        /// Physical state.
        phys: u32,
    },
    /// The link's rate, as sysfs tells it (`200 Gb/sec (2X NDR)`), and its interface's speed.
    Rate {
        /// RDMA device.
        device: String,
        /// Port.
        port: u32,
        /// Text.
        rate: String,
        /// Mb/s.
        speed: u64,
    },
    /// A counter of `counters/` rises.
    Counter {
        /// RDMA device.
        device: String,
        /// Port.
        port: u32,
        /// File name.
        name: String,
        /// By how much.
        add: u64,
    },
    /// A counter of `hw_counters/` rises.
    HwCounter {
        /// RDMA device.
        device: String,
        /// Port.
        port: u32,
        /// File name.
        name: String,
        /// By how much.
        add: u64,
    },
    /// A statistic of `ethtool -S` rises.
    Ethtool {
        /// Interface.
        netdev: String,
        /// Statistic.
        name: String,
        /// By how much.
        add: u64,
    },
    /// Carrier of an interface and the number of edges that led there.
    Carrier {
        /// Interface.
        netdev: String,
        /// Carrier.
        up: bool,
        /// Edges added to `carrier_changes`.
        edges: u64,
    },
    /// An interface is set up or down by its administrator.
    AdminUp {
        /// Interface.
        netdev: String,
        /// Up or down.
        up: bool,
    },
    /// PFC is switched on for these priorities (bitmap).
    Pfc {
        /// Interface.
        netdev: String,
        /// Bitmap.
        enabled: u8,
    },
    /// Every active port carries traffic for this long, at the given share of its rate.
    Traffic {
        /// Milliseconds.
        millis: u64,
        /// Percent of the rate.
        percent: u64,
    },
    /// A module is loaded.
    LoadModule(ModuleSpec),
    /// A module is unloaded.
    UnloadModule(String),
    /// Clients registered with ib_core's peer-memory interface; none: no such interface.
    MemoryPeers(Option<Vec<String>>),
    /// A record is added to the kernel log, at `micros` since boot (0: a second after the last).
    Kmsg {
        /// Facility times 8 plus level.
        priority: u32,
        /// Time.
        micros: u64,
        /// Text.
        text: String,
        /// PCI function that a `dev_*` line names in its dictionary.
        device: Option<Bdf>,
    },
    /// A record is added to the kernel log that is too large to be read: its reader loses it.
    KmsgTooLarge,
    /// A pod comes, with an empty log.
    PodComes(Box<PodSpec>),
    /// A pod's container prints lines, now.
    PodSays {
        /// UID of the pod.
        uid: String,
        /// How often the container was restarted.
        restart: u32,
        /// Lines.
        lines: Vec<String>,
    },
    /// A process of a pod begins.
    ProcessComes(ProcessSpec),
    /// A process's network namespace receives and sends by TCP.
    Tcp {
        /// PID.
        pid: u32,
        /// Bytes, each way.
        bytes: u64,
    },
    /// A pod goes, and its logs and processes with it.
    PodGoes(String),
    /// A device plugin goes away: nothing is left to pods of its resource. Told to the API server.
    PluginGoes(String),
    /// An RDMA device vanishes.
    RemoveDevice(String),
    /// An RDMA device appears.
    AddDevice(Box<RdmaSpec>),
    /// An RDMA device gets another name.
    RenameDevice(String, String),
    /// Config space of a PCI function reads all ones, or answers again.
    ConfigDead {
        /// Function.
        pci: Bdf,
        /// Dead or alive.
        dead: bool,
    },
    /// A PCIe link trains to another speed and width.
    PcieLink {
        /// Function.
        pci: Bdf,
        /// Text, such as `16.0 GT/s PCIe`.
        speed: String,
        /// Lanes.
        width: u32,
    },
    /// AER totals rise: correctable, nonfatal, fatal.
    Aer {
        /// Function.
        pci: Bdf,
        /// By how much.
        add: [u64; 3],
    },
    /// A path answers with an errno, to agents that start from now on.
    Refuse {
        /// Path below the root.
        path: String,
        /// Errno.
        errno: i32,
    },
    /// Error counts of nvidia-fs rise.
    NvidiaFsErrors(u64),
    /// The machine starts anew: another boot id, an empty kernel log, counters at zero.
    Reboot {
        /// New boot id.
        boot_id: String,
    },
    /// Several at one moment.
    All(Vec<Event>),
}

/// What one rail goes through between successive samples of the `flapping` preset: three falls,
/// each over before the next sample, so that only counters and carrier edges tell.
pub fn flapping() -> Vec<Event> {
    let (device, netdev) = ("mlx5_4".to_string(), "ibp79s0".to_string());
    let flap = Event::All(vec![
        Event::Counter {
            device: device.clone(),
            port: 1,
            name: "link_downed".into(),
            add: 1,
        },
        Event::Counter {
            device,
            port: 1,
            name: "link_error_recovery".into(),
            add: 1,
        },
        Event::Carrier {
            netdev,
            up: true,
            edges: 2,
        },
    ]);
    vec![flap.clone(), flap.clone(), flap]
}
