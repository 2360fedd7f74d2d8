use super::*;
use crate::observe::nccl::event::{Comm, Connection, InitSeconds, Link, Phase, Side};
use crate::observe::nccl::{Failure, Net, Transport};

fn info(text: &str) -> Event<'_> {
    message(Level::Info, text)
}

#[test]
fn connections_of_every_version() {
    use Transport::{CollNet, Mnnvl, P2p, Shm};
    let net = Transport::Net;
    for (text, from, to, over, nic, gdr) in [
        (
            "Ring 00 : 3 -> 4 via NET/IB/0/GDRDMA",
            3,
            4,
            net(Net::Ib),
            Some(0),
            true,
        ),
        (
            "Ring 00 : 3 -> 4 [send] via NET/Socket/1",
            3,
            4,
            net(Net::Socket),
            Some(1),
            false,
        ),
        (
            "Ring 01 : 7[b1000] -> 8[3b000] [receive] via NET/IB/0",
            7,
            8,
            net(Net::Ib),
            Some(0),
            false,
        ),
        (
            "Ring 00 : 2[3d000] -> 3[3e000] via direct shared memory",
            2,
            3,
            Shm,
            None,
            false,
        ),
        (
            "Channel 00 : 0[1a000] -> 1[1a000] [send] via NET/IB/0/GDRDMA/Shared",
            0,
            1,
            net(Net::Ib),
            Some(0),
            true,
        ),
        (
            "Channel 00/0 : 15[7] -> 6[6] [send] via NET/Socket/3",
            15,
            6,
            net(Net::Socket),
            Some(3),
            false,
        ),
        (
            "Channel 05/1 : 3[1] -> 0[0] [send] via NET/IB/12(2)/GDRDMA(PCI)/Shared",
            3,
            0,
            net(Net::Ib),
            Some(12),
            true,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/IBext_v8/1",
            1,
            2,
            net(Net::Ib),
            Some(1),
            false,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/AWS Libfabric/3/GDRDMA",
            1,
            2,
            net(Net::Ofi),
            Some(3),
            true,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/Libfabric/3/GDRDMA",
            1,
            2,
            net(Net::Ofi),
            Some(3),
            true,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/FasTrak/3(0)",
            1,
            2,
            net(Net::FasTrak),
            Some(3),
            false,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/GPUDirectTCPX_v7/3/GDRDMA",
            1,
            2,
            net(Net::Tcpx),
            Some(3),
            true,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/UCX/3",
            1,
            2,
            net(Net::Ucx),
            Some(3),
            false,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/Mesh/3",
            1,
            2,
            net(Net::Other),
            Some(3),
            false,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/Socket",
            1,
            2,
            net(Net::Socket),
            None,
            false,
        ),
        (
            "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/Socket`",
            1,
            2,
            net(Net::Socket),
            None,
            false,
        ),
        (
            "Channel 00/0 : 16[17000] -> 18[21000] via P2P/IPC comm 0x5609977f9470 nRanks 32",
            16,
            18,
            P2p,
            None,
            false,
        ),
        (
            "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM/read",
            1,
            0,
            P2p,
            None,
            false,
        ),
        (
            "Channel 00/0 : 1[1] -> 0[0] via P2P/MNNVL",
            1,
            0,
            Mnnvl,
            None,
            false,
        ),
        (
            "Channel 00 : 2[1] -> 0[0] via SHM/direct/direct",
            2,
            0,
            Shm,
            None,
            false,
        ),
        (
            "Channel 00/0 : 2[1] -> 0[0] [send] via COLLNET/SHARP/0",
            2,
            0,
            CollNet,
            None,
            false,
        ),
    ] {
        let Event::Connection(got) = info(text) else {
            panic!("{text}: {:?}", info(text));
        };
        assert_eq!(
            (got.from, got.to, got.over, got.nic, got.gdr),
            (from, to, over, nic, gdr),
            "{text}"
        );
    }
    let want = Connection {
        channel: 4,
        collective: true,
        from: 9,
        to: 0,
        devices: Some(("1", "0")),
        side: Some(Side::Receive),
        over: Transport::Net(Net::Ib),
        nic: Some(0),
        gdr: true,
        nranks: None,
    };
    let text = "[Rank 9] Channel 04/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA";
    assert_eq!(info(text), Event::Connection(want));
}

#[test]
fn what_is_cut_inside_a_name_tells_no_net() {
    for text in [
        "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/Soc",
        "Channel 00/0 : 1[0] -> 2[0] [receive] via NET/",
        "Channel 00/0 : 1[0] -> 2[0] [receive] via",
        "Channel 00/0 : 1[0] -> 2[",
        "Channel 00/0 :",
        "Channel",
        "Channel 99999999999/0 : 1[0] -> 2[0] [receive] via NET/IB/0",
    ] {
        assert!(!matches!(info(text), Event::Connection(_)), "{text}");
    }
}

#[test]
fn orders_of_rings_are_no_connections() {
    assert_eq!(info("Channel 00/02 :    0   1"), Event::RingOrder(2));
    assert_eq!(info("Channel 00/16 :  0 3 2 1"), Event::RingOrder(4));
    assert_eq!(
        info("Trees [0] 1/8/-1->5->-1 [1] -1/-1/-1->5->4"),
        Event::Trees(5)
    );
    assert_eq!(info("Connected all rings"), Event::Rings(None));
    assert_eq!(
        info("Connected all rings, use ring PXN 0 GDR 1"),
        Event::Rings(Some(true))
    );
    assert_eq!(
        info("Connected all rings, use ring PXN 1 GDR 0"),
        Event::Rings(Some(false))
    );
    assert_eq!(info("Connected all trees"), Event::Plain);
}

#[test]
fn communicators_of_every_version() {
    let comm = |id, rank, nranks, nodes, phase| {
        Event::Comm(Comm {
            id,
            rank,
            nranks,
            nodes,
            bus: None,
            gpu: None,
            mnnvl: false,
            split: false,
            phase,
        })
    };
    for (text, want) in [
        ("rank 0 nranks 8", comm(None, 0, 8, None, Phase::Alive)),
        (
            "comm 0x7f132415ad20 rank 1 nranks 8",
            comm(None, 1, 8, None, Phase::Alive),
        ),
        (
            "comm 0x7f rank 1 nranks 8 - COMPLETE",
            comm(None, 1, 8, None, Phase::Complete),
        ),
        (
            "comm 0x7f rank 5 nranks 16 cudaDev 5 busId 89000 - Init COMPLETE",
            comm(None, 5, 16, None, Phase::Complete),
        ),
        (
            "comm 0x7f rank 8 nranks 16 cudaDev 0 nvmlDev 0 busId 7000 commId 0xa03f81dc1a49efab - Init START",
            comm(Some(0xa03f_81dc_1a49_efab), 8, 16, None, Phase::Start),
        ),
        (
            "ncclCommInitRankConfig comm 0xaa rank 7 nranks 8 cudaDev 3 nvmlDev 3 busId 1901000 commId 0x2f - Init START",
            comm(Some(0x2f), 7, 8, None, Phase::Start),
        ),
        (
            "[Rank 7] ncclCommSplit comm 0xaa rank 7 nranks 8 cudaDev 3 nvmlDev 3 busId 1901000 parent 0x1 childCount 1 color 2 key 3- Init START",
            comm(None, 7, 8, None, Phase::Start),
        ),
        (
            "comm 0x8 rank 6 nRanks 16 nNodes 2 localRanks 8 localRank 6 MNNVL 0",
            comm(None, 6, 16, Some(2), Phase::Alive),
        ),
        (
            "comm 0x5 rank 1 nranks 4 cudaDev 1 busId 41000 - Abort COMPLETE",
            comm(None, 1, 4, None, Phase::Aborted),
        ),
        (
            "comm 0x5 rank 1 nranks 4 cudaDev 1 busId 41000 - Destroy COMPLETE",
            comm(None, 1, 4, None, Phase::Destroyed),
        ),
        (
            "comm 0x5 rank 1 nranks 4 cudaDev 1 busId 41000 used 1234 bytes - Init COMPLETE",
            comm(None, 1, 4, None, Phase::Complete),
        ),
    ] {
        let Event::Comm(got) = info(text) else {
            panic!("{text}");
        };
        assert_eq!(
            Event::Comm(Comm {
                bus: None,
                gpu: None,
                split: false,
                ..got
            }),
            want,
            "{text}"
        );
        assert_eq!(got.split, text.contains(" parent "), "{text}");
        let bus = text.split_once(" busId ").map(|(_, rest)| {
            let end = rest.find(' ').unwrap_or(rest.len());
            u64::from_str_radix(&rest[..end], 16).unwrap()
        });
        assert_eq!(got.bus, bus, "{text}");
    }
    for (devices, want) in [
        ("cudaDev 3 nvmlDev 3", Some(3)),
        ("cudaDev 0 nvmlDev 0", Some(0)),
        // CUDA_VISIBLE_DEVICES reorders, or hides what is before.
        ("cudaDev 3 nvmlDev 1", None),
        ("cudaDev 0 nvmlDev 5", None),
        ("cudaDev 3", Some(3)),
        ("cudaDev 0", None),
    ] {
        let text = format!("comm 0x5 rank 9 nranks 16 {devices} busId 41000 - Init COMPLETE");
        let Event::Comm(got) = info(&text) else {
            panic!("{text}");
        };
        assert_eq!(got.gpu, want, "{text}");
    }
    let timings = "Init timings - ncclCommInitRank: rank 6 nranks 16 total 1.08 (kernels 0.50, bootstrap 0.22)";
    assert_eq!(
        info(timings),
        Event::InitSeconds(InitSeconds {
            rank: 6,
            nranks: 16,
            seconds: 1.08
        })
    );
    for odd in [
        "comm 0x5 rank 9 nranks 4",
        "comm 0x5 rank x nranks 4",
        "the comm 0x5 rank 1 nranks 4",
    ] {
        assert!(!matches!(info(odd), Event::Comm(_)), "{odd}");
    }
}

#[test]
fn networks_plugins_and_devices() {
    for (text, want) in [
        ("Using network Socket", Event::Using("Socket")),
        ("Using network AWS Libfabric", Event::Using("AWS Libfabric")),
        ("Using network Socket   │", Event::Using("Socket")),
        // What people and other programs put around a name.
        ("Using network Socket <--- why?", Event::Using("Socket")),
        ("Using network Socket`", Event::Using("Socket")),
        ("Using network **Socket**", Event::Using("Socket")),
        ("Using network Socket (TCP)", Event::Using("Socket")),
        ("Using network Socket…", Event::Using("Socket")),
        ("Using network Socket</pre>", Event::Using("Socket")),
        ("Using network Socket pod=x", Event::Using("Socket")),
        (
            "Using network Socket[rank3]:[W1128 10:00:00 a.cpp:1]",
            Event::Using("Socket"),
        ),
        ("Using network IB!", Event::Using("IB")),
        (
            "Using network AWS Libfabric`",
            Event::Using("AWS Libfabric"),
        ),
        ("Using network Soc`", Event::Unknown),
        ("Using network ***", Event::Unknown),
        (
            "Failed to initialize NET plugin IB`",
            Event::NetFailed("IB"),
        ),
        (
            "NET/IB: Dev 0 Port 1 qpn 1345 mtu 5 LID 17",
            Event::IbQueuePair(Link::Ib),
        ),
        (
            "NET/IB: Dev 0 Port 1 qpn 1345 mtu 3 GID 3 (80FE/ABCDEF)",
            Event::IbQueuePair(Link::Roce),
        ),
        (
            "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 177 mtu 5 query_ece={supported=1, vendor_id=0x15b3, options=0x0, comp_mask=0x0} GID 3 (0/10A00FFFF0000) fifoRkey=0x1 fifoLkey=0x1",
            Event::IbQueuePair(Link::Roce),
        ),
        (
            "NET/IB: ncclIbSenderQpsCreate: NCCL Dev 0 IbDev 0 Port 1 qp_num 177 mtu 5 LID 3 subnet-prefix 1  FLID 0 ctsFifoRkey=0x1 ctsFifoLkey=0x1",
            Event::IbQueuePair(Link::Ib),
        ),
        (
            "NET/IB : There are mismatched physical devices between local (mlx5_0) and remote (mlx5_1). To disable this warning, set NCCL_IB_WARN_RAIL_LOCAL=0",
            Event::PluginSpeaks(Net::Ib),
        ),
        ("Using internal Network IB", Event::Using("IB")),
        ("Assigned NET plugin Socket to comm", Event::Using("Socket")),
        ("Initialized NET plugin IB", Event::Using("IB")),
        ("Failed to initialize NET plugin IB", Event::NetFailed("IB")),
        ("Using internal network plugin.", Event::NoPlugin),
        ("Using non-device net plugin version 0", Event::Plain),
        (
            "Using NCCL_NET_DEVICE_UNPACK net plugin version 7",
            Event::PluginSpeaks(Net::Tcpx),
        ),
        ("NET/IB : No device found.", Event::IbNone),
        ("NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>", Event::Plain),
        (
            "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            Event::IbDevices("[0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"),
        ),
        (
            "NET/IB: [0] mlx5_1:1/IB",
            Event::IbDevices("[0] mlx5_1:1/IB"),
        ),
        (
            "NET/IB : Made virtual device [0] name=rocep1s0f1 speed=200000 ndevs=1",
            Event::IbDevice("rocep1s0f1"),
        ),
        (
            "NET/Socket : Using [0]eth0:10.0.0.1<0>",
            Event::SocketInterfaces("[0]eth0:10.0.0.1<0>"),
        ),
        (
            "NET/Socket: Using 4 threads and 2 sockets per thread",
            Event::Plain,
        ),
        (
            "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
            Event::PluginSpeaks(Net::Socket),
        ),
        (
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            Event::Gdr {
                enabled: true,
                no_module: false,
            },
        ),
        (
            "NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1' (no module)",
            Event::Gdr {
                enabled: false,
                no_module: true,
            },
        ),
        (
            "NET/OFI Selected Provider is efa",
            Event::OfiProvider("efa"),
        ),
        (
            "NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)",
            Event::OfiProvider("efa"),
        ),
        ("NET/OFI Using transport protocol RDMA", Event::OfiProtocol),
        (
            "NET/OFI No eligible providers were found",
            Event::Failure(Failure::PluginInit),
        ),
        ("NET/OFI Initializing aws-ofi-nccl 1.11.0-aws", Event::Plain),
        ("NET/FastSocket plugin initialized", Event::FastSocket),
        (
            "NET/FasTrak: plugin version",
            Event::PluginSpeaks(Net::FasTrak),
        ),
        (
            "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v10 (v10)",
            Event::PluginLoaded("NCCL RDMA Plugin v10"),
        ),
        (
            "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.",
            Event::Plain,
        ),
        (
            "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
            Event::NoPlugin,
        ),
        // The name is cut.
        ("NET/Plugin: Could not find: libnccl-n", Event::NoPlugin),
        (
            "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
            Event::NoPlugin,
        ),
        (
            "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory",
            Event::NoPlugin,
        ),
        (
            "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation",
            Event::NoPlugin,
        ),
        (
            "NET/Plugin : No plugin found, using internal implementation",
            Event::NoPlugin,
        ),
        // NCCL_NET_PLUGIN=none is the usual way to use no plugin.
        (
            "NET/Plugin : Plugin load (libnccl-net-none.so) returned 2 : libnccl-net-none.so: cannot open shared object file: No such file or directory",
            Event::NoPlugin,
        ),
        (
            "NET/Plugin: Could not find: none libnccl-net-none.so. Using internal network plugin.",
            Event::NoPlugin,
        ),
        (
            "NET/Plugin: Could not find: aws-ofi libnccl-net-aws-ofi.so. Using internal network plugin.",
            Event::PluginNotFound("aws-ofi"),
        ),
        (
            "NET/Plugin: Could not find: /opt/x/libmine.so",
            Event::PluginNotFound("/opt/x/libmine.so"),
        ),
        (
            "NET/Plugin : No plugin found (libnccl-net-ofi.so), using internal implementation",
            Event::PluginNotFound("libnccl-net-ofi.so"),
        ),
        (
            "NET/Plugin : Plugin load (libnccl-net-ofi.so) returned 2 : libnccl-net-ofi.so: cannot open shared object file: No such file or directory",
            Event::PluginNotFound("libnccl-net-ofi.so"),
        ),
        (
            "Plugin name set by env to libnccl-net-ofi.so",
            Event::Env {
                name: "NCCL_NET_PLUGIN",
                value: "libnccl-net-ofi.so",
            },
        ),
        // The file is there; what it needs is not.
        (
            "NET/Plugin : dlerror=libfabric.so.1: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation",
            Event::Failure(Failure::PluginInit),
        ),
        (
            "NET/Plugin: libhwloc.so.15: cannot open shared object file: No such file or directory",
            Event::Failure(Failure::PluginInit),
        ),
        (
            "NET/Plugin: libnccl-net.so: /opt/x/libnccl-net.so: undefined symbol: fi_getinfo",
            Event::Failure(Failure::PluginInit),
        ),
        ("P2P plugin IBext_v8", Event::PluginLoaded("IBext_v8")),
        ("P2P plugin v8 IBext_v8", Event::PluginLoaded("IBext_v8")),
        (
            "Bootstrap : Using eth0:10.0.0.1<0>",
            Event::Bootstrap("eth0:10.0.0.1<0>"),
        ),
        (
            "Bootstrap: Using eth0:10.0.0.1<0>",
            Event::Bootstrap("eth0:10.0.0.1<0>"),
        ),
        (
            "NCCL_IB_DISABLE set by environment to 1.",
            Event::Env {
                name: "NCCL_IB_DISABLE",
                value: "1",
            },
        ),
        (
            "NCCL_SOCKET_IFNAME set by environment to net1",
            Event::Env {
                name: "NCCL_SOCKET_IFNAME",
                value: "net1",
            },
        ),
        (
            "Comm config netName reset to NCCL_NET=Socket",
            Event::Env {
                name: "NCCL_NET",
                value: "Socket",
            },
        ),
        ("NCCL version 2.28.9+cuda13.0", Event::Version("2.28.9")),
        ("RCCL version : 2.21.5-HEAD:abc", Event::Version("2.21.5")),
        ("init.cc:1402 -> 6", Event::ErrorTrace { file: "init.cc" }),
        (
            "init.cc:1402 (ncclCommInitRankFunc) -> 6",
            Event::ErrorTrace { file: "init.cc" },
        ),
        (
            "group.cc:75 -> 6 [Async thread]",
            Event::ErrorTrace { file: "group.cc" },
        ),
        ("DMA-BUF is available on GPU device 3", Event::Plain),
        (
            "6 coll channels, 8 p2p channels, 1 p2p channels per peer",
            Event::Plain,
        ),
        ("a sentence of a patched build", Event::Unknown),
    ] {
        assert_eq!(info(text), want, "{text}");
    }
}

#[test]
fn warnings_by_their_words() {
    use Failure::*;
    for (text, want) in [
        ("Failed to open libibverbs.so[.1]", LibibverbsMissing),
        ("NET/IB : Unable to open device mlx5_0", OpenDevice),
        ("Call to ibv_open_device failed", OpenDevice),
        ("Call to ibv_create_qp failed", Memlock),
        (
            "Call to ibv_create_cq failed with error Cannot allocate memory",
            Memlock,
        ),
        (
            "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            Memlock,
        ),
        (
            "Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
            Dmabuf,
        ),
        (
            "Call to ibv_modify_qp failed with error No such device",
            GidIndex,
        ),
        (
            "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3",
            GidIndex,
        ),
        ("IB : Unable to open GID index 3", GidIndex),
        (
            "NET/IB : Got completion from peer 10.0.0.1<33057> with status=12 opcode=0 len=0 vendor err 129 (Send)",
            IbError,
        ),
        ("NET/IB : mlx5_1:1 Got async event : port error", PortDown),
        (
            "NET/IB : mlx5_1:1 async fatal event on QP (0x7309dc4bb338): invalid request local work queue error",
            IbError,
        ),
        (
            "NET/IB : mlx5_1:1 Got async event : local catastrophic error",
            DeviceFatal,
        ),
        (
            "Call to posix_fallocate failed : No space left on device",
            Shm,
        ),
        (
            "Error while creating shared memory segment /dev/shm/nccl-WU88OF (size 9637888)",
            Shm,
        ),
        ("Call to ibv_poll_cq() failed with error Unknown", IbError),
        (
            "NET/IB: Device 1 marked as failed. Initiating recovery? No (send comm=0x7f)",
            IbError,
        ),
        (
            "NET/IB: Fatal error. Detected 2 failed devices out of 2 devices on the send communicator",
            IbError,
        ),
        (
            "ibv_post_send() failed with error Cannot allocate memory, Bad WR 0x7, First WR 0x7",
            IbError,
        ),
        ("NET/OFI aws-ofi-nccl initialization failed", PluginInit),
        ("NET/OFI Only EFA provider is supported", PluginInit),
        ("Error: network IB not found.", NetworkMissing),
        ("Failed to initialize any NET plugin", NetworkMissing),
        ("Bootstrap : no socket interface found", Ifname),
        (
            "Net : connecting to address  with family 33621 is neither AF_INET(2) nor AF_INET6(10)",
            Ifname,
        ),
        ("socketFinalizeAccept: wrong magic 1 != 2", StrayClient),
        (
            "Mismatched NCCL version detected : rank 0 22105 rank 1 22304",
            VersionMismatch,
        ),
        (
            "Net : Connect to 10.0.0.1<40000> failed : Connection refused",
            ConnectRefused,
        ),
        (
            "socketProgress: Connection closed by remote peer n2<42830>",
            PeerReset,
        ),
        (
            "Call to recv from 10.0.0.1<1> failed : Connection reset by peer",
            PeerReset,
        ),
        ("Proxy Call to rank 3 failed (Connect)", Secondary),
        (
            "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",
            DuplicateGpu,
        ),
        ("Missing \"iommu=pt\" from kernel command line", Iommu),
        ("Cuda failure 'out of memory'", Cuda),
        ("something new", Other),
    ] {
        let got = match message(Level::Warn, text) {
            Event::DeviceFailure(failure, _) => Event::Failure(failure),
            other => other,
        };
        assert_eq!(got, Event::Failure(want), "{text}");
    }
    for text in [
        "NET/IB : mlx5_0:1 Got async event : client reregistration",
        "NET/IB : mlx5_0:1 Got async event : GID table change",
        "NUMA auto balancing enabled which can lead to variability",
        "Call to bind failed: Address already in use from ras/rasnet",
    ] {
        let want = match text.starts_with("NET/IB") {
            true => Event::PluginSpeaks(Net::Ib),
            false => Event::Plain,
        };
        assert_eq!(message(Level::Warn, text), want, "{text}");
    }
}

#[test]
fn lines_without_the_mark() {
    let row =
        "#  Rank  0 Group  0 Pid 1034070 on gpu03-vm device  0 [0000:11:00] NVIDIA H100 80GB HBM3";
    assert_eq!(
        test_rank(row),
        Some(Event::TestRank(TestRank {
            rank: 0,
            host: "gpu03-vm",
            pid: 1_034_070,
            device: "0 [0000:11:00]",
        }))
    );
    let old = "#   Rank  1 Pid  25383 on nccl-tests device  1 [0xc2] NVIDIA RTX A6000";
    assert_eq!(
        test_rank(old),
        Some(Event::TestRank(TestRank {
            rank: 1,
            host: "nccl-tests",
            pid: 25383,
            device: "1 [0xc2]",
        }))
    );
    for odd in ["Rank 0 Pid x on h device 0", "Rank", "Pid 5 on"] {
        assert_eq!(test_rank(odd), None, "{odd}");
    }
    for (line, want) in [
        ("NCCL_IB_DISABLE=1", Some(("NCCL_IB_DISABLE", "1"))),
        (
            "+ mpirun -x NCCL_NET=Socket -np 2",
            Some(("NCCL_NET", "Socket")),
        ),
        ("export NCCL_NET=\"Socket\"", Some(("NCCL_NET", "Socket"))),
        ("# NCCL_NET=Socket is slow", None),
        ("MY_NCCL_NET=Socket", None),
        ("NCCL_NET_PLUGIN=none", Some(("NCCL_NET_PLUGIN", "none"))),
        ("#export NCCL_NET=Socket", None),
        (
            "root@n1:/work# NCCL_NET=Socket ./run",
            Some(("NCCL_NET", "Socket")),
        ),
        (
            "{'NCCL_DEBUG': 'INFO', 'NCCL_IB_DISABLE': '1'}",
            Some(("NCCL_IB_DISABLE", "1")),
        ),
        // Launchers, log shippers and shells before it.
        (
            "[2024-05-10 10:10:10,123] [INFO] [launch.py:142:main] 0 NCCL_NET=Socket",
            Some(("NCCL_NET", "Socket")),
        ),
        (
            "[1,0]<stdout>:NCCL_NET=Socket",
            Some(("NCCL_NET", "Socket")),
        ),
        (
            "[pod/x/y] NCCL_IB_DISABLE=1",
            Some(("NCCL_IB_DISABLE", "1")),
        ),
        (
            "2024-05-01T12:00:00Z NCCL_NET=Socket",
            Some(("NCCL_NET", "Socket")),
        ),
        ("i 12:00:00 NCCL_NET=Socket", Some(("NCCL_NET", "Socket"))),
        ("0: NCCL_NET=Socket", Some(("NCCL_NET", "Socket"))),
        ("++ NCCL_NET=Socket", Some(("NCCL_NET", "Socket"))),
        (
            "mpirun -genv NCCL_NET=Socket ./x",
            Some(("NCCL_NET", "Socket")),
        ),
        (
            "mpirun -genv NCCL_NET Socket ./x",
            Some(("NCCL_NET", "Socket")),
        ),
        ("sudo NCCL_NET=Socket ./x", Some(("NCCL_NET", "Socket"))),
        ("cd x && NCCL_NET=Socket ./x", Some(("NCCL_NET", "Socket"))),
        (
            "ulimit -l; NCCL_NET=Socket ./x",
            Some(("NCCL_NET", "Socket")),
        ),
        ("ENV NCCL_NET=Socket", Some(("NCCL_NET", "Socket"))),
        (
            "ENV NCCL_NET_PLUGIN none",
            Some(("NCCL_NET_PLUGIN", "none")),
        ),
        ("set NCCL_IB_DISABLE=1", Some(("NCCL_IB_DISABLE", "1"))),
        // Sentences.
        ("NCCL_IB_DISABLE=1 works fine but is slow", None),
        (
            "UserWarning: set NCCL_IB_DISABLE=1 to disable InfiniBand",
            None,
        ),
        ("please set NCCL_IB_DISABLE=1", None),
        ("If you use RTX 4090: NCCL_IB_DISABLE=1 must be set", None),
        ("1) NCCL_IB_DISABLE=1", None),
        ("the NCCL_IB_DISABLE 1", None),
        (
            "NCCL_NET_GDR_LEVEL=2 NCCL_NET: Socket",
            Some(("NCCL_NET", "Socket")),
        ),
    ] {
        let got = assignments(line).next().map(|event| match event {
            Event::Env { name, value } => (name, value),
            other => panic!("{other:?}"),
        });
        assert_eq!(got, want, "{line}");
    }
}

#[test]
fn errors_name_the_rail() {
    use Failure::{DeviceFatal, GidIndex, IbError, PortDown};
    for (text, failure, device) in [
        // 2.4 to 2.9.
        (
            "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
            IbError,
            None,
        ),
        // 2.10 to 2.17.
        (
            "NET/IB : Got completion from peer 10.0.0.2<3> with error 12, opcode 0, len 0, vendor err 129",
            IbError,
            None,
        ),
        // 2.18, 2.19: RoCE only.
        (
            "NET/IB : Got completion from peer 10.0.0.2<3> with error 12, opcode 0, len 0, vendor err 129 (Send) localGid ::ffff:10.1.1.1 remoteGid ::ffff:10.1.1.2",
            IbError,
            Some("::ffff:10.1.1.1"),
        ),
        // 2.20, 2.21, and the RDMA plugin (ib_plugin.c).
        (
            "NET/IB : Got completion from peer 10.0.0.2<3> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fd00:1:9000::22 remoteGidsfd00:1:9000::1f",
            IbError,
            Some("fd00:1:9000::22"),
        ),
        // 2.22 to 2.28.3.
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_5",
            IbError,
            Some("mlx5_5"),
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=13 opcode=0 len=0 vendor err 1 (Send) localGid ::ffff:10.1.1.1 remoteGids::ffff:10.1.1.2 hca mlx5_bond_0",
            IbError,
            Some("mlx5_bond_0"),
        ),
        // 2.28.7, then 2.29.
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) reqSize=8 vendor_err=129 req_type=Send hca rocep1s0",
            IbError,
            Some("rocep1s0"),
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129  hca mlx5_5",
            IbError,
            Some("mlx5_5"),
        ),
        (
            "NET/IB/GIN: Got completion from peer 10.0.0.2<3> with status=12 opcode=0 len=0 vendor err 129 (Put) hca mlx5_5",
            IbError,
            Some("mlx5_5"),
        ),
        // Flushed operations only follow another error.
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=5 opcode=0 len=0 vendor err 249 (Send) hca mlx5_5",
            IbError,
            None,
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_SEND(0) vendor_err=249  hca mlx5_5",
            IbError,
            None,
        ),
        (
            "NET/IB : mlx5_1:1 Got async event : port error",
            PortDown,
            Some("mlx5_1"),
        ),
        (
            "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)",
            PortDown,
            Some("mlx5_1"),
        ),
        (
            "NET/IB : mlx5_1:1 async fatal event on QP (0x7f): local work queue catastrophic error",
            IbError,
            Some("mlx5_1"),
        ),
        (
            "NET/IB : mlx5_1:1 Got async event : local catastrophic error",
            DeviceFatal,
            Some("mlx5_1"),
        ),
        (
            "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.1.1.1, remote GID ::ffff:10.1.1.2",
            GidIndex,
            Some("mlx5_2"),
        ),
        (
            "Call to ibv_modify_qp failed with 22 Invalid argument, on dev N/A:-1, curr state INIT",
            GidIndex,
            None,
        ),
        (
            "NET/OFI Request 0x7f completed with error. RC: 113. Error: 15 (unreachable)",
            IbError,
            None,
        ),
    ] {
        let want = match device {
            Some(device) => Event::DeviceFailure(failure, device),
            None => Event::Failure(failure),
        };
        assert_eq!(message(Level::Warn, text), want, "{text}");
    }
    for benign in [
        "P_Key change(12)",
        "client reregistration(17)",
        "last WQE reached(16)",
    ] {
        let text = format!("NET/IB : mlx5_1:1 Got non-fatal async event: {benign}");
        let want = Event::PluginSpeaks(Net::Ib);
        assert_eq!(message(Level::Warn, &text), want, "{text}");
    }
}

#[test]
fn errors_of_ucx_name_the_rail() {
    for (line, device) in [
        (
            "[w-0:17:0:17] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_5:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)",
            Some("mlx5_5"),
        ),
        (
            "[1715.1] [w-0:17:0] ib_mlx5_log.c:177 UCX  ERROR Remote access error on mlx5_bond_0:1/RoCE (synd 0x13 vend 0x88 hw_synd 0/0)",
            Some("mlx5_bond_0"),
        ),
        (
            "the syndrome (synd 0x15 vend 0x81 hw_synd 0/0) is on page 3: see there",
            None,
        ),
        ("hw_synd alone", None),
    ] {
        let want = device.map(|device| Event::DeviceFailure(Failure::IbError, device));
        assert_eq!(ucx(line), want, "{line}");
    }
}
