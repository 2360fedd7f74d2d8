//! One line of NCCL's log, typed. Text is borrowed from the line.

use super::failure::Failure;

/// `INFO` or `WARN`, as the line has it (src/debug.cc).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A line printed with `NCCL INFO`.
    Info,
    /// A line printed with `NCCL WARN`.
    Warn,
}

/// Who printed a line: `HOST:PID:TID [DEV]`. Missing parts are `None`; the host may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinePrefix<'a> {
    /// Host name up to its first dot.
    pub host: &'a str,
    /// Process id, in its own PID namespace.
    pub pid: Option<u32>,
    /// Thread id from the prefix; older releases print none.
    pub tid: Option<u32>,
    /// CUDA's number of the thread's GPU; 0 also for threads that chose none.
    pub device: Option<u32>,
    /// Source file or function of a WARN behind a prefix, as printed.
    pub location: &'a str,
}

/// One record of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record<'a> {
    /// Host, process and GPU from the line's prefix.
    pub who: LinePrefix<'a>,
    /// The event that the rest of the line was parsed to.
    pub event: Event<'a>,
    /// The message, as printed.
    pub text: &'a str,
}

/// When a line was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time<'a> {
    /// The line has no time.
    #[default]
    Unknown,
    /// The time in the line's frame, RFC 3339.
    Text(&'a str),
    /// When the line was read.
    At(jiff::Timestamp),
}

impl Time<'_> {
    /// The time, if it is known and valid.
    pub fn stamp(self) -> Option<jiff::Timestamp> {
        match self {
            Time::Unknown => None,
            Time::Text(text) => text.parse().ok(),
            Time::At(at) => Some(at),
        }
    }
}

/// The name or number that a text starts with, without what people and programs put behind it: a
/// backtick, ` (TCP)`, a line of another program.
pub fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
    let word = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    word.trim_end_matches('-')
}

/// A net, by the name that NCCL or its plugin gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Net {
    /// Verbs: NCCL's own `IB`, `IBext…` of NVIDIA's RDMA plugin, its `SPCX` for Spectrum-X, Google's `gIB`,
    /// RCCL's `IB-CAST`.
    Ib,
    /// NCCL's own TCP.
    Socket,
    /// The plugin aws-ofi-nccl: `AWS Libfabric`, `Libfabric`.
    Ofi,
    /// GPUDirect-TCPXO.
    FasTrak,
    /// GPUDirect-TCPX.
    Tcpx,
    /// The UCX plugin.
    Ucx,
    /// FastSocket, Google's TCP plugin.
    FastSocket,
    /// A plugin with another name.
    Other,
}

/// What the verbs plugin of HPC-X calls its net, since 2.27 of NCCL.
pub const HPCX: &str = "NCCL RDMA Plugin";

impl Net {
    /// The net with a name, as in `Using network X` and `via NET/X/0`.
    pub fn of(name: &str) -> Net {
        match first_word(name) {
            "IB" | "gIB" | "SPCX" => Net::Ib,
            "Socket" => Net::Socket,
            "OFI" => Net::Ofi,
            "FastSocket" => Net::FastSocket,
            // IBext_v8, IB-CAST, IB-ROCM.
            _ if name.starts_with("IBext") || name.starts_with("IB-") => Net::Ib,
            _ if name.starts_with(HPCX) => Net::Ib,
            _ if name.contains("Libfabric") => Net::Ofi,
            _ if name.starts_with("FasTrak") => Net::FasTrak,
            _ if name.starts_with("GPUDirectTCPX") => Net::Tcpx,
            _ if name.starts_with("UCX") => Net::Ucx,
            _ => Net::Other,
        }
    }

    /// Whether it is plain TCP: NCCL's own, or Google's.
    pub fn is_tcp(self) -> bool {
        matches!(self, Net::Socket | Net::FastSocket)
    }
}

/// Link layer of a verbs device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// InfiniBand (Omni-Path prints the same).
    Ib,
    /// RoCE (iWARP prints the same).
    Roce,
}

/// What carries a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A net: to another node, or to a container of this node.
    Net(Net),
    /// Between GPUs of a node.
    P2p,
    /// Between GPUs over NVLink, also of different nodes.
    Mnnvl,
    /// Host memory of one node.
    Shm,
    /// Reduction in the switches (SHARP).
    CollNet,
}

/// Which end of a connection the printing rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The connection is marked `[send]`.
    Send,
    /// The connection is marked `[receive]`.
    Receive,
}

/// One connection: `Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection<'a> {
    /// Number of the channel.
    pub channel: u32,
    /// It serves collectives, not send and receive, whose partners may be any ranks.
    pub collective: bool,
    /// Sending rank, as numbered in the communicator.
    pub from: u32,
    /// Rank at the receiving end.
    pub to: u32,
    /// Devices in brackets behind the ranks (bus id or NVML index), if both have one.
    pub devices: Option<(&'a str, &'a str)>,
    /// Which end the printing rank is, if the line shows it.
    pub side: Option<Side>,
    /// Transport that carries the connection.
    pub over: Transport,
    /// The net's number of the NIC.
    pub nic: Option<u32>,
    /// Whether it uses GPUDirect RDMA.
    pub gdr: bool,
    /// Number of ranks of the communicator, which RCCL appends.
    pub nranks: Option<u32>,
}

/// A phase in the life of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The line ends in `Init START`.
    Start,
    /// Any line between start and end.
    Alive,
    /// The line ends in `Init COMPLETE`.
    Complete,
    /// The line ends in `Abort COMPLETE`.
    Aborted,
    /// The line ends in `Destroy COMPLETE`.
    Destroyed,
}

/// A line about a communicator: `comm 0x.. rank 8 nranks 16 cudaDev 0 busId 7000 commId 0x.. - Init START`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comm {
    /// The id that all ranks share (2.16+).
    pub id: Option<u64>,
    /// Rank of the printing process.
    pub rank: u32,
    /// Number of ranks in the communicator.
    pub nranks: u32,
    /// Number of nodes (2.20+).
    pub nodes: Option<u32>,
    /// It reaches other nodes over NVLink (MNNVL).
    pub mnnvl: bool,
    /// It was split from another one, which may be wider (2.18+).
    pub split: bool,
    /// PCI bus id of the printing process's GPU.
    pub bus: Option<u64>,
    /// The number of that GPU, where CUDA's is that of NVML or NVML's is not printed.
    pub gpu: Option<u32>,
    /// Its phase by this line.
    pub phase: Phase,
}

/// How long an init took, by a line of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InitSeconds {
    /// Rank of the printing process.
    pub rank: u32,
    /// Number of ranks in the communicator.
    pub nranks: u32,
    /// Duration of init in seconds.
    pub seconds: f64,
}

/// An entry of nccl-tests' list of ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestRank<'a> {
    /// Rank of the process.
    pub rank: u32,
    /// Host name as the line prints it.
    pub host: &'a str,
    /// Process id as the line prints it.
    pub pid: u32,
    /// Device number and bus id, as printed.
    pub device: &'a str,
}

/// The meaning of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// `NCCL version 2.21.5+cuda12.4`: the version without the CUDA part.
    Version(&'a str),
    /// `NAME set by environment to V.`
    Env {
        /// Name of the variable.
        name: &'a str,
        /// Its value, without the trailing dot.
        value: &'a str,
    },
    /// Interfaces and addresses of the bootstrap, as printed.
    Bootstrap(&'a str),
    /// A network plugin was loaded.
    PluginLoaded(&'a str),
    /// No plugin was found, which is normal.
    NoPlugin,
    /// A plugin was requested by this name, and its library was not found.
    PluginNotFound(&'a str),
    /// `Using network X`: the network was chosen.
    Using(&'a str),
    /// A net failed to initialise.
    NetFailed(&'a str),
    /// The list of verbs devices, from `[0]` on.
    IbDevices(&'a str),
    /// A verbs device, alone on its line.
    IbDevice(&'a str),
    /// A queue pair of verbs, by the link layer of its address.
    IbQueuePair(Link),
    /// `NET/IB : No device found.`
    IbNone,
    /// Interfaces of NCCL's own TCP, as printed.
    SocketInterfaces(&'a str),
    /// The provider that libfabric chose.
    OfiProvider(&'a str),
    /// The OFI plugin chose a protocol.
    OfiProtocol,
    /// FastSocket, Google's TCP plugin, is in use.
    FastSocket,
    /// A plugin prints a line of its own, so it is loaded.
    PluginSpeaks(Net),
    /// A connection was made.
    Connection(Connection<'a>),
    /// `Channel 00/02 :    0   1`: the number of ranks of the ring, printed by rank 0.
    RingOrder(u32),
    /// `MNNVL 1 cliqueId 7ffe cliqueSize 72 cliqueRank 0`: how many of the communicator's ranks NVLink joins with
    /// the printing one (2.21+, src/mnnvl.cc).
    Clique(u32),
    /// `Trees [0] 1/8/-1->0->-1`: the rank of the printing process.
    Trees(u32),
    /// `Connected all rings`, and whether all of them use GPUDirect RDMA, if the line shows it.
    Rings(Option<bool>),
    /// `GPU Direct RDMA Enabled|Disabled for …` for a net other than Socket.
    Gdr {
        /// Whether it is enabled.
        enabled: bool,
        /// `(no module)`: nv_peer_mem is missing.
        no_module: bool,
    },
    /// A line about a communicator.
    Comm(Comm),
    /// `Init timings …: rank r nranks n total 1.08`
    InitSeconds(InitSeconds),
    /// An entry of nccl-tests' list of ranks.
    TestRank(TestRank<'a>),
    /// A warning or error that has a known meaning.
    Failure(Failure),
    /// The same, with the RDMA device that the line names: by its name, or by its own GID.
    DeviceFailure(Failure, &'a str),
    /// `init.cc:1402 -> 6`: an error that a function passes to its caller.
    ErrorTrace {
        /// Source file of the function.
        file: &'a str,
    },
    /// A known line that says nothing about the network.
    Plain,
    /// No parser rule recognises the line.
    Unknown,
}
