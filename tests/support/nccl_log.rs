//! Logs made up by NCCL's grammar, and by none.

use proptest::prelude::*;
use proptest::sample::{Index, select};

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "node-1", "node-2", "n1", "x-n1", "", "10.0.0.1", "ünï"
        ])
        .prop_map(String::from),
        "[a-z]{1,3}-[0-9]",
    ]
}

fn net() -> impl Strategy<Value = &'static str> {
    select(vec![
        "IB",
        "Socket",
        "AWS Libfabric",
        "IBext_v8",
        "FasTrak",
        "UCX",
        "FastSocket",
        "GPUDirectTCPX_v7",
    ])
}

/// What a process can say of itself, whatever its rank.
fn statement() -> BoxedStrategy<String> {
    let number = 0u32..20;
    prop_oneof![
        net().prop_map(|net| format!("Using network {net}")),
        net().prop_map(|net| format!("NET/{net} : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'")),
        select(vec![
            "NET/IB : No device found.",
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            "NET/IB : Using [0]mlx5_0:1/RoCE [1]={[0] mlx5_1:1/RoCE, [1] mlx5_2:1/RoCE}; OOB lo:127.0.0.1<0>",
            "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]docker0:172.17.0.1<0>",
            "Bootstrap : Using eth0:10.0.0.1<0>",
            "Bootstrap : Using [0]lo:127.0.0.1<0>",
            "NET/OFI Selected Provider is efa (found 4 nics)",
            "NET/OFI Selected Provider is tcp;ofi_rxm",
            "NET/OFI aws-ofi-nccl initialization failed",
            "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v8 (v8)",
            "NET/Plugin: No plugin found (libnccl-net.so)",
            "NET/FastSocket : Using [0]eth0:10.0.0.1<0>",
            "Connected all rings",
            "Connected all rings, use ring PXN 0 GDR 1",
            "Connected all rings, use ring PXN 0 GDR 0",
            "Connected all trees",
            "NCCL version 2.21.5+cuda12.4",
            "NCCL version 2.9.9+cuda11.3",
            "NCCL_IB_DISABLE set by environment to 1.",
            "NCCL_NET set by environment to Socket.",
            "NCCL_P2P_DISABLE set by environment to 1",
            "NCCL_SOCKET_IFNAME set by environment to eth0",
            "FI_PROVIDER set by environment to tcp",
            "init.cc:1402 -> 6",
            "transport/net.cc:10 -> 2",
            "Channel 00/02 :    0   1   2   3",
            "Setting affinity for GPU 0 to ff",
            "nobody knows this line",
        ])
        .prop_map(String::from),
        (number.clone(), number.clone(), number.clone()).prop_map(|(a, b, c)| {
            format!("Trees [0] {a}/-1/-1->{b}->{c} [1] -1/-1/-1->{b}->{a}")
        }),
        (0u32..3, number.clone(), number.clone(), net(), select(vec!["", " [send]", " [receive]"]), any::<bool>())
            .prop_map(|(channel, from, to, net, side, gdr)| {
                let gdr = if gdr { "/GDRDMA" } else { "" };
                format!("Channel {channel:02}/0 : {from}[{}] -> {to}[{}]{side} via NET/{net}/{channel}{gdr}", from % 8, to % 8)
            }),
        (0u32..3, 0u32..5, 0u32..5, select(vec!["P2P/CUMEM", "P2P/MNNVL", "SHM/direct/direct", "COLLNET/X"]))
            .prop_map(|(channel, from, to, via)| {
                format!("Channel {channel:02}/0 : {from}[0] -> {to}[1] via {via}")
            }),
        (number.clone(), 1u32..20, 0u32..500).prop_map(|(rank, nranks, ms)| {
            format!("Init timings - ncclCommInitRank: rank {rank} nranks {nranks} total {}.{:02} (kernels 0.1)", ms / 100, ms % 100)
        }),
    ]
    .boxed()
}

fn comm(rank: u32, nranks: u32, id: Option<u32>, nodes: Option<u32>, phase: &str) -> String {
    let id = id.map_or(String::new(), |id| format!(" commId 0x{id:x}"));
    let nodes = nodes.map_or(String::new(), |nodes| format!(" nNodes {nodes}"));
    format!(
        "comm 0x5{rank:03x} rank {rank} nranks {nranks}{nodes} cudaDev 0 nvmlDev 0 busId {rank:x}7000{id} - {phase}"
    )
}

const PHASES: [&str; 4] = [
    "Init START",
    "Init COMPLETE",
    "Abort COMPLETE",
    "Destroy COMPLETE",
];

fn message() -> BoxedStrategy<String> {
    let comm = (
        0u32..20,
        1u32..20,
        prop::option::of(0u32..4),
        prop::option::of(1u32..3),
        select(PHASES.to_vec()),
    )
        .prop_map(|(rank, nranks, id, nodes, phase)| comm(rank, nranks, id, nodes, phase));
    prop_oneof![6 => statement(), 3 => comm].boxed()
}

fn warning() -> impl Strategy<Value = &'static str> {
    select(vec![
        "Call to connect returned Connection refused",
        "transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error",
        "NET/IB: Got completion from peer 10.0.0.1<1> with status=12 opcode=0",
        "Call to ibv_reg_mr failed with error Cannot allocate memory",
        "Error while creating shared memory segment /dev/shm/nccl-x (size 1)",
        "Mismatched NCCL version detected",
        "something else",
    ])
}

/// One NCCL line of a process.
fn record(host: &str, pid: u32, tid: u32, said: &Said) -> String {
    match said {
        Said::Info(text) => format!("{host}:{pid}:{tid} [0] NCCL INFO {text}"),
        Said::Warn(text) => format!("{host}:{pid}:{tid} [0] misc/socket.cc:49 NCCL WARN {text}"),
    }
}

#[derive(Debug, Clone)]
enum Said {
    Info(String),
    Warn(String),
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        8 => message().prop_map(Said::Info),
        1 => warning().prop_map(|text| Said::Warn(text.into())),
    ]
}

/// A line of a log, with its end, or several that belong together.
fn line() -> BoxedStrategy<Vec<u8>> {
    let record = (host(), 0u32..6, 0u32..6, said())
        .prop_map(|(host, pid, tid, said)| record(&host, pid, tid, &said));
    let cri = "2024-05-01T12:00:00.123456789Z";
    let text = record.boxed();
    prop_oneof![
        12 => text.clone().prop_map(|text| format!("{text}\n")),
        2 => (text.clone(), any::<bool>()).prop_map(move |(text, err)| {
            format!("{cri} {} F {text}\n", if err { "stderr" } else { "stdout" })
        }),
        3 => (text.clone(), any::<Index>(), any::<bool>(), any::<bool>()).prop_map(move |(text, at, err, noise)| {
            let at = at.index(text.len() + 1);
            let (head, tail) = text.as_bytes().split_at(at);
            let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
            let stream = if err { "stderr" } else { "stdout" };
            let between = if noise { format!("{cri} stdout F step 3\n") } else { String::new() };
            format!("{cri} {stream} P {head}\n{between}{cri} {stream} F {tail}\n")
        }),
        2 => (text.clone(), any::<bool>()).prop_map(move |(text, whole)| {
            let log = if whole { format!("{text}\n") } else { text };
            format!("{}\n", serde_json::json!({"log": log, "stream": "stdout", "time": cri}))
        }),
        2 => text.clone().prop_map(|text| format!("\u{1b}[36m(Worker pid=3, ip=10.0.0.2)\u{1b}[0m {text}\n")),
        2 => (text.clone(), text.clone()).prop_map(|(a, b)| format!("[1,3]<stdout>:{a}{b}\r\n")),
        2 => (text.clone(), 5usize..50).prop_map(|(text, end)| {
            // A terminal's width tore it.
            let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= end).unwrap_or(text.len());
            format!("{}\n{}\n", &text[..end], &text[end..])
        }),
        2 => select(vec![
            "host:1:2 [7] NCCL\n INFO Using network IB\n",
            "host:1:2 [7] NCCL I\nNFO Using network IB\n",
            "] NCCL \n",
            "NCCL version 2.18.1+cuda12.1\n",
            "#  Rank  0 Group  0 Pid 103 on node-1 device  0 [0x07] NVIDIA H100\n",
            "#  Rank  1 Pid 104 on node-2 device  0 [0x07] NVIDIA H100\n",
            "export NCCL_NET=Socket\n",
            "-x NCCL_IB_DISABLE=1\n",
            "RuntimeError: x is neither AF_INET nor\n",
            "Rank 0Pid 3 on h device 1\n",
            "{\"log\":\"h:1:2 [0] NCCL\\u0020INFO Using network IB\\n\",\"stream\":\"stdout\"}\n",
            "{\"log\":\"half of it\",\"stream\":\"stdout\",\"time\":\"2024-05-01T12:00:00Z\"}\n",
            "2024-05-01T12:00:00.123456789Z stdout P \n",
            "step 1 loss 2.1\n",
            "\n",
        ]).prop_map(String::from),
        1 => (text, 65_000usize..66_500, any::<bool>()).prop_map(|(text, long, front)| {
            let filling = "x".repeat(long);
            if front { format!("{filling}{text}\n") } else { format!("{text}{filling}\n") }
        }),
    ]
    .prop_map(String::into_bytes)
    .boxed()
}

/// Any log: lines by the grammar, some of them with bytes changed, taken out or put in.
pub fn any_log() -> impl Strategy<Value = Vec<u8>> {
    let harm = prop::collection::vec((any::<Index>(), any::<u8>(), 0u8..3), 0..8);
    (
        prop::collection::vec(line(), 0..24),
        prop::bool::weighted(0.4),
        harm,
        any::<bool>(),
    )
        .prop_map(|(lines, harmed, harm, cut)| {
            let mut bytes = lines.concat();
            if harmed {
                for (at, byte, how) in harm {
                    if bytes.is_empty() {
                        break;
                    }
                    let at = at.index(bytes.len());
                    match how {
                        0 => bytes[at] = byte,
                        1 => drop(bytes.remove(at)),
                        _ => bytes.insert(at, byte),
                    }
                }
            }
            if cut {
                bytes.pop();
            }
            bytes
        })
}

/// The lines of two processes of one job: they sit in the same communicators, one after the other,
/// each with a rank of its own, and say what they like in between.
pub fn process_lines() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let comms = prop::collection::vec(
        (
            prop::option::of(1u32..1000),
            0u32..9,
            prop::option::of(1u32..3),
            0usize..5,
        ),
        0..4,
    );
    let words = prop_oneof![
        8 => statement().prop_map(Said::Info),
        1 => warning().prop_map(|text| Said::Warn(text.into())),
    ];
    let words = move || prop::collection::vec(prop::collection::vec(words.clone(), 0..6), 9);
    (comms, words(), words(), host(), host()).prop_map(|(comms, a, b, host_a, host_b)| {
        let of = |process: u32, host: &str, words: &[Vec<Said>]| {
            let pid = 100 + process;
            let mut lines = Vec::new();
            let mut words = words.iter();
            let mut talk = |lines: &mut Vec<String>| {
                for said in words.next().into_iter().flatten() {
                    lines.push(record(host, pid, pid, said));
                }
            };
            talk(&mut lines);
            for (at, (id, more, nodes, phases)) in comms.iter().enumerate() {
                // Sizes differ, so that which of them is the widest does not depend on the order.
                let nranks = 2 + more * 4 + at as u32;
                let rank = process;
                let id = id.map(|id| id * 8 + at as u32);
                let say = |phase: &str| {
                    record(
                        host,
                        pid,
                        pid,
                        &Said::Info(comm(rank, nranks, id, *nodes, phase)),
                    )
                };
                for phase in PHASES.iter().take(*phases) {
                    lines.push(say(phase));
                    talk(&mut lines);
                }
            }
            // A process that prints its address later is another one of the same id.
            let mut begun = false;
            lines.retain(|line| {
                begun |= line.contains(" comm 0x");
                !begun || !line.contains(" Bootstrap : ")
            });
            lines
        };
        (of(0, &host_a, &a), of(1, &host_b, &b))
    })
}
