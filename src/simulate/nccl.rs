//! What NCCL prints of a job (`NCCL_DEBUG=INFO`), as data: the ranks of a gang on one node. The
//! grammar is that of 2.22 and later.

use super::event::Event;
use super::pod::PodSpec;
use std::time::Duration;

/// What carries data between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// InfiniBand, by NCCL's own verbs.
    Ib {
        /// Names of the devices.
        devices: &'static [&'static str],
        /// `IB` or `RoCE`.
        layer: &'static str,
        /// With GPUDirect RDMA.
        gdr: bool,
    },
    /// libfabric over EFA, with GPUDirect RDMA.
    Ofi,
    /// No RDMA device is in the container: TCP, and nobody asked for that.
    FallenBack,
    /// `NCCL_IB_DISABLE=1`: TCP, as asked.
    Sockets,
}

/// InfiniBand rails of a DGX H100.
pub const IB_RAILS: &[&str] = &[
    "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
];
/// RoCE rails.
pub const ROCE_RAILS: &[&str] = &[
    "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7",
];

/// A part of a gang, on one node.
#[derive(Debug, Clone, Copy)]
pub struct Gang {
    /// NCCL's version.
    pub version: &'static str,
    /// Ranks on each node; at least one.
    pub ranks: u32,
    /// Nodes of the gang; at least one.
    pub nodes: u32,
    /// Which of them this is.
    pub index: u32,
    /// What carries data.
    pub carrier: Carrier,
    /// Init never ends: another node of the gang does not come.
    pub hangs: bool,
}

impl Gang {
    /// What the pod's processes print, and when after their start.
    pub fn lines(&self, pod: &PodSpec) -> Vec<(Duration, Event)> {
        let at = Duration::from_millis;
        let says = |lines: Vec<String>| Event::PodSays {
            uid: pod.uid.clone(),
            restart: 0,
            lines,
        };
        let mut parts = vec![
            (at(0), says(self.each(pod, |_| self.before()))),
            (at(600), says(self.each(pod, |rank| self.start(pod, rank)))),
        ];
        if !self.hangs {
            parts.push((at(1500), says(self.each(pod, |rank| self.channels(rank)))));
            parts.push((at(2300), says(self.each(pod, |rank| self.end(pod, rank)))));
        }
        parts
    }

    fn each(&self, pod: &PodSpec, lines: impl Fn(u32) -> Vec<String>) -> Vec<String> {
        let of = |rank: u32| {
            let (pid, thread) = (112 + rank, 340 + rank * 3);
            let said = lines(rank).into_iter();
            said.map(move |line| format!("{}:{pid}:{thread} [{rank}] NCCL INFO {line}", pod.name))
        };
        (0..self.ranks).flat_map(of).collect()
    }

    fn address(&self) -> String {
        format!("10.0.1.{}", 10 + self.index)
    }

    fn before(&self) -> Vec<String> {
        let address = self.address();
        let mut lines = vec![
            format!("Bootstrap : Using eno1:{address}<0>"),
            "cudaDriverVersion 12040".into(),
            format!("NCCL version {}", self.version),
        ];
        let internal =
            "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.".into();
        match self.carrier {
            Carrier::Ib { devices, layer, .. } => {
                let listed: Vec<String> = devices
                    .iter()
                    .enumerate()
                    .map(|(n, device)| format!("[{n}]{device}:1/{layer}"))
                    .collect();
                lines.push(internal);
                lines.push(format!(
                    "NET/IB : Using {} [RO]; OOB eno1:{address}<0>",
                    listed.join(" ")
                ));
                lines.push("Using network IB".into());
            }
            Carrier::Ofi => lines.extend([
                "NET/OFI Initializing aws-ofi-nccl 1.13.2-aws".to_string(),
                "NET/OFI Using transport protocol RDMA (platform set)".into(),
                "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)".into(),
                "NET/Plugin: Loaded net plugin Libfabric (v9)".into(),
                "Using network Libfabric".into(),
            ]),
            Carrier::FallenBack => lines.extend([
                internal,
                "NET/IB : No device found.".into(),
                format!("NET/Socket : Using [0]eno1:{address}<0>"),
                "Using network Socket".into(),
            ]),
            Carrier::Sockets => lines.extend([
                internal,
                "NCCL_IB_DISABLE set by environment to 1.".into(),
                format!("NET/Socket : Using [0]eno1:{address}<0>"),
                "Using network Socket".into(),
            ]),
        }
        lines
    }

    fn comm(&self, pod: &PodSpec, rank: u32) -> String {
        let id = pod.owner.1.bytes().fold(0x5eed_u64, |sum, byte| {
            sum.wrapping_mul(131) + u64::from(byte)
        });
        format!(
            "ncclCommInitRankConfig comm 0x55d0{rank:x}a40 rank {} nranks {} cudaDev {rank} nvmlDev {rank} busId {:x}000 commId 0x{id:x}",
            self.index * self.ranks + rank,
            self.nodes * self.ranks,
            0x1b + rank * 0x10,
        )
    }

    fn start(&self, pod: &PodSpec, rank: u32) -> Vec<String> {
        vec![
            format!("{} - Init START", self.comm(pod, rank)),
            format!(
                "comm 0x55d0{rank:x}a40 rank {} nRanks {} nNodes {} localRanks {} localRank {rank} MNNVL 0",
                self.index * self.ranks + rank,
                self.nodes * self.ranks,
                self.nodes,
                self.ranks,
            ),
        ]
    }

    /// A ring a rank, each of which leaves the node beside another GPU.
    fn channels(&self, rank: u32) -> Vec<String> {
        let base = self.index * self.ranks;
        let other = |step: u32| (self.index + step) % self.nodes * self.ranks;
        let mut lines = Vec::new();
        for ring in 0..self.ranks {
            let (first, last) = (ring, (ring + self.ranks - 1) % self.ranks);
            let via = match self.carrier {
                Carrier::Ib { gdr: true, .. } => format!("NET/IB/{ring}/GDRDMA"),
                Carrier::Ib { .. } => format!("NET/IB/{ring}"),
                Carrier::Ofi => format!("NET/Libfabric/{ring}/GDRDMA"),
                Carrier::FallenBack | Carrier::Sockets => "NET/Socket/0".into(),
            };
            if rank == first {
                let from = other(self.nodes - 1) + last;
                lines.push(format!(
                    "Channel {ring:02}/0 : {from}[{last}] -> {}[{first}] [receive] via {via}",
                    base + first
                ));
            }
            if rank == last {
                let to = other(1) + first;
                lines.push(format!(
                    "Channel {ring:02}/0 : {}[{last}] -> {to}[{first}] [send] via {via}",
                    base + last
                ));
            } else {
                let next = (rank + 1) % self.ranks;
                lines.push(format!(
                    "Channel {ring:02}/0 : {}[{rank}] -> {}[{next}] via P2P/CUMEM/read",
                    base + rank,
                    base + next
                ));
            }
        }
        lines
    }

    fn end(&self, pod: &PodSpec, rank: u32) -> Vec<String> {
        let seconds = 1.9 + f64::from(rank) * 0.03 + f64::from(self.nodes) * 0.2;
        vec![
            "Connected all rings".into(),
            "Connected all trees".into(),
            format!("{} - Init COMPLETE", self.comm(pod, rank)),
            format!(
                "Init timings - ncclCommInitRankConfig: rank {} nranks {} total {seconds:.2} (kernels 0.21, alloc 0.40, bootstrap 0.62, allgathers 0.01, topo 0.38, graphs 0.02, connections 0.19, rest 0.07)",
                self.index * self.ranks + rank,
                self.nodes * self.ranks,
            ),
        ]
    }
}
