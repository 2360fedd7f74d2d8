//! One line of NCCL's log, typed. Text is borrowed from the line.

use super::trouble::Trouble;

/// `INFO` or `WARN`, as the line has it (src/debug.cc).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `NCCL INFO`.
    Info,
    /// `NCCL WARN`.
    Warn,
}

/// Who printed a line: `HOST:PID:TID [DEV]`. Parts that are missing are none; HOST may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Who<'a> {
    /// gethostname up to its first dot.
    pub host: &'a str,
    /// Process, in its own PID namespace.
    pub pid: Option<u32>,
    /// Thread.
    pub tid: Option<u32>,
}

/// One record: who, how loud, what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record<'a> {
    /// Who.
    pub who: Who<'a>,
    /// How loud.
    pub level: Level,
    /// What.
    pub event: Event<'a>,
    /// The message, as printed.
    pub text: &'a str,
}

/// What carries data between nodes, by the name that NCCL or its plugin gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Net {
    /// Verbs: NCCL's own `IB`, `IBext…` of NVIDIA's RDMA plugin, `gIB`.
    Ib,
    /// NCCL's own TCP.
    Socket,
    /// aws-ofi-nccl: `AWS Libfabric`, `Libfabric`.
    Ofi,
    /// GPUDirect-TCPXO.
    FasTrak,
    /// GPUDirect-TCPX.
    Tcpx,
    /// UCX plugin.
    Ucx,
    /// Google's TCP plugin.
    FastSocket,
    /// A plugin with a name of its own.
    Other,
}

impl Net {
    /// By name, as in `Using network X` and `via NET/X/0`.
    pub fn of(name: &str) -> Net {
        if name == "IB" || name == "gIB" || name.starts_with("IBext") {
            Net::Ib
        } else if name == "Socket" {
            Net::Socket
        } else if name.contains("Libfabric") || name == "OFI" {
            Net::Ofi
        } else if name.starts_with("FasTrak") {
            Net::FasTrak
        } else if name.starts_with("GPUDirectTCPX") {
            Net::Tcpx
        } else if name.starts_with("UCX") {
            Net::Ucx
        } else if name == "FastSocket" {
            Net::FastSocket
        } else {
            Net::Other
        }
    }
}

/// What a connection goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Another node, or one that counts as such.
    Net(Net),
    /// GPU to GPU in one node.
    P2p,
    /// GPU to GPU over NVLink, between nodes too.
    Mnnvl,
    /// Host memory in one node.
    Shm,
    /// In-network reduction.
    CollNet,
}

/// The printing rank's end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `[send]`.
    Send,
    /// `[receive]`.
    Receive,
}

/// One connection: `Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection<'a> {
    /// Channel number.
    pub channel: u32,
    /// Ranks, in the communicator's own count.
    pub from: u32,
    /// …
    pub to: u32,
    /// What stands in brackets behind the ranks (bus id or NVML index), if both have it.
    pub devices: Option<(&'a str, &'a str)>,
    /// The printing rank's end, where told.
    pub side: Option<Side>,
    /// What it goes over.
    pub over: Transport,
    /// The net's own number of the NIC, of verbs.
    pub nic: Option<u32>,
    /// GPUDirect RDMA.
    pub gdr: bool,
    /// Ranks in all, which RCCL puts behind.
    pub nranks: Option<u32>,
}

/// Where in its life a communicator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// `Init START`.
    Start,
    /// Told of in between.
    Alive,
    /// `Init COMPLETE`.
    Complete,
    /// `Abort COMPLETE`.
    Aborted,
    /// `Destroy COMPLETE`.
    Destroyed,
}

/// A line about a communicator: `comm 0x.. rank 8 nranks 16 cudaDev 0 busId 7000 commId 0x.. - Init START`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comm {
    /// Pointer in the printing process.
    pub pointer: Option<u64>,
    /// Id that all ranks share (2.16+).
    pub id: Option<u64>,
    /// Rank of the printer.
    pub rank: u32,
    /// Ranks in all.
    pub nranks: u32,
    /// Nodes in all (2.20+).
    pub nodes: Option<u32>,
    /// PCI bus id of the printer's GPU.
    pub bus: Option<u64>,
    /// Where in its life.
    pub phase: Phase,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// `NCCL version 2.21.5+cuda12.4`: the version without the CUDA part.
    Version(&'a str),
    /// `NAME set by environment to V.`
    Env {
        /// Variable.
        name: &'a str,
        /// Its value, without the trailing dot.
        value: &'a str,
    },
    /// Interfaces and addresses of the bootstrap, as listed.
    Bootstrap(&'a str),
    /// A network plugin was loaded.
    PluginLoaded(&'a str),
    /// No plugin there: normal.
    NoPlugin,
    /// `Using network X`: the choice.
    Using(&'a str),
    /// A net could not be initialised.
    NetFailed(&'a str),
    /// Verbs devices as listed, from `[0]` on.
    IbDevices(&'a str),
    /// One verbs device, alone in its line.
    IbDevice(&'a str),
    /// `NET/IB : No device found.`
    IbNone,
    /// Interfaces of NCCL's own TCP, as listed.
    SocketInterfaces(&'a str),
    /// Provider that libfabric chose.
    OfiProvider(&'a str),
    /// The OFI plugin got as far as choosing a protocol.
    OfiProtocol,
    /// Google's TCP plugin is at work.
    FastSocket,
    /// A plugin tells of itself: it is there.
    PluginSpeaks(Net),
    /// A connection.
    Connection(Connection<'a>),
    /// `Channel 00/02 :    0   1`: ranks of the ring, printed by rank 0.
    RingOrder(u32),
    /// `Trees [0] 1/8/-1->0->-1`: the printer's rank.
    Trees(u32),
    /// `Connected all rings`, and whether each of them is by GPUDirect RDMA, where told.
    Rings(Option<bool>),
    /// `GPU Direct RDMA Enabled|Disabled for …` of a net that is not Socket.
    Gdr {
        /// Enabled.
        enabled: bool,
        /// `(no module)`: nv_peer_mem is missing.
        no_module: bool,
    },
    /// A communicator.
    Comm(Comm),
    /// `Init timings …: rank r nranks n total 1.08`: seconds.
    InitSeconds {
        /// Rank of the printer.
        rank: u32,
        /// Ranks in all.
        nranks: u32,
        /// Seconds from start to end.
        seconds: f64,
    },
    /// nccl-tests' table of ranks.
    TestRank {
        /// Rank.
        rank: u32,
        /// Host.
        host: &'a str,
        /// Process.
        pid: u32,
        /// Its device: number and bus id, as printed.
        device: &'a str,
    },
    /// Something is wrong.
    Trouble(Trouble),
    /// `init.cc:1402 -> 6`: an error on its way up.
    Trail {
        /// Source file.
        file: &'a str,
    },
    /// Known and of no use here.
    Plain,
    /// Not known.
    Unknown,
}
