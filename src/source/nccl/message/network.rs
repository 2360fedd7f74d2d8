//! Bootstrap, plugins, NICs and the choice of a network (src/bootstrap.cc, src/plugin/net.cc,
//! src/transport/net_ib, net_socket.cc; aws-ofi-nccl; the other plugins' own lines).

use crate::observe::nccl::event::HPCX;
use crate::observe::nccl::{Event, Failure, Net, event};

/// A start of messages, and what the rest of such a message says.
type Rule = (&'static str, for<'a> fn(&'a str) -> Option<Event<'a>>);

const RULES: &[Rule] = &[
    ("Using network ", using),
    ("Using internal Network ", using),
    ("Using internal network ", using),
    ("Using NCCL_NET_DEVICE_UNPACK", |_| {
        Some(Event::PluginSpeaks(Net::Tcpx))
    }),
    ("NET/", net),
    // 2.27 can bootstrap over the net plugin: `Using NAME:N`, no address there.
    ("Bootstrap", |rest| {
        let rest = rest.trim_start_matches([' ', ':']);
        rest.strip_prefix("Using ").map(Event::Bootstrap)
    }),
    // 2.3.
    ("NET : Using interface ", |list| {
        Some(Event::Bootstrap(list))
    }),
    ("Net/IB", |rest| {
        rest.contains("returned 0 devices").then_some(Event::IbNone)
    }),
    // 2.27+: printed for each communicator.
    ("Assigned NET plugin ", |rest| {
        using(rest.split(" to comm").next()?)
    }),
    ("Initialized NET plugin ", using),
    ("Failed to initialize NET plugin ", |name| {
        Some(Event::NetFailed(clean(name)))
    }),
    // Its interface may come first: `v8 IBext_v8`.
    ("P2P plugin v", |rest| {
        Some(Event::PluginLoaded(clean(rest.split_once(' ')?.1)))
    }),
    ("P2P plugin ", |name| Some(Event::PluginLoaded(clean(name)))),
    // It is unsupported (2.28+).
    ("External network plugin ", failed),
    ("GPU Direct RDMA ", |said| {
        gpu_direct(said).filter(|_| said.contains("abled for GPU"))
    }),
    // Up to 2.5, by the net in use.
    ("CUDA Dev ", |rest| {
        let (_, name) = rest.split_once(" NIC distance")?.0.rsplit_once(' ')?;
        Some(Event::PluginSpeaks(Net::of(name)))
    }),
    ("No network plugin found", |_| Some(Event::NoPlugin)),
    // NCCL_NET_PLUGIN, up to 2.20.
    ("Plugin name set by env to ", |value| {
        env("NCCL_NET_PLUGIN", value)
    }),
    // The only trace of NCCL_NET, since 2.28.7.
    ("Comm config netName reset to NCCL_NET=", |value| {
        env("NCCL_NET", value.trim())
    }),
];

/// What NCCL says of verbs.
const IB: &[Rule] = &[
    ("No device found", |_| Some(Event::IbNone)),
    // Since 2.24 the line follows "No device found" too, with an empty list.
    ("Using ", |list| match list.as_bytes() {
        [b'[', digit, ..] if digit.is_ascii_digit() => Some(Event::IbDevices(list)),
        _ => Some(Event::Plain),
    }),
    // Mismatched devices at the ends of a connection.
    ("There are ", |_| Some(Event::PluginSpeaks(Net::Ib))),
    ("Made virtual device ", |rest| {
        let (_, name) = rest.split_once("name=")?;
        Some(Event::IbDevice(name.split(' ').next()?))
    }),
];

/// What aws-ofi-nccl says of itself.
const OFI: &[Rule] = &[
    ("Selected provider is ", provider),
    ("Selected Provider is ", provider),
    ("Using transport protocol ", |_| Some(Event::OfiProtocol)),
    ("No eligible providers were found", failed),
    ("Libfabric provider associates ", |_| {
        Some(Event::OfiProtocol)
    }),
    ("aws-ofi-nccl initialization failed", failed),
    ("Only EFA provider is supported", failed),
    ("Could not find any optimal provider", failed),
    ("OFI fi_getinfo() call failed", failed),
    ("Unable to find a protocol that worked", failed),
    ("Failed to initialize ", |what| {
        match what.starts_with("GDRCopy") {
            true => Some(Event::Plain),
            false => failed(what),
        }
    }),
];

const PLUGIN: &[Rule] = &[
    ("Loaded net plugin ", |rest| {
        let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
        Some(Event::PluginLoaded(name))
    }),
    // The same, 2.21 to 2.27.
    ("Plugin name set by env to ", |value| {
        env("NCCL_NET_PLUGIN", value)
    }),
    // Each version of the interface is looked for, then none is left.
    ("Failed to find ", |names| {
        match names.contains("lower are not") {
            true => failed(names),
            false => Some(Event::Plain),
        }
    }),
    ("Could not find:", |names| {
        let first = names.split_ascii_whitespace().next()?;
        no_plugin(first.trim_end_matches(['.', ',']))
    }),
    ("No plugin found", |rest| {
        not_loaded(rest).or(Some(Event::NoPlugin))
    }),
    ("Using internal network plugin", |_| Some(Event::NoPlugin)),
    ("", not_loaded),
];

/// Starts of plugins' files, NCCL's and RCCL's.
const PLUGINS: [&str; 2] = ["libnccl-net", "librccl-net"];

/// What the dynamic linker says of a plugin: its file is missing, which is normal unless a setting names
/// it, or the file is there and a library or symbol that it needs is not.
fn not_loaded(said: &str) -> Option<Event<'_>> {
    const BROKEN: &str = "undefined symbol|not found (required by|invalid ELF header|wrong ELF class|\
        static TLS block";
    let file = said.split_once(": cannot open shared").map(|(before, _)| {
        let word = before.rsplit([' ', '=', '/']).next();
        word.unwrap_or_default()
    });
    let needed = file.is_some_and(|file| file.starts_with("lib") && !is_plugin(file));
    if needed || BROKEN.split('|').any(|words| said.contains(words)) {
        return Some(Event::Failure(Failure::PluginInit));
    }
    let mut words = said.split([' ', '(', ')', ':', '=', '/']);
    no_plugin(words.find(|word| is_plugin(word)).or(file)?)
}

fn is_plugin(file: &str) -> bool {
    PLUGINS.iter().any(|start| file.starts_with(start))
}

/// A file that was not found; only a requested one is missed, not that which is searched for where
/// NCCL_NET_PLUGIN is not set.
fn no_plugin(file: &str) -> Option<Event<'_>> {
    // The name may be cut.
    let unasked = PLUGINS.iter().any(|start| match file.strip_prefix(start) {
        Some(rest) => ".so".starts_with(rest) || rest == "-none.so",
        None => start.starts_with(file),
    });
    Some(match unasked || file == "none" {
        true => Event::NoPlugin,
        false => Event::PluginNotFound(file),
    })
}

pub(super) fn network(text: &str) -> Option<Event<'_>> {
    by_start(RULES, text)
}

fn by_start<'a>(rules: &[Rule], text: &'a str) -> Option<Event<'a>> {
    let said = |(start, event): &Rule| event(text.strip_prefix(start)?);
    rules.iter().find_map(said)
}

fn net(rest: &str) -> Option<Event<'_>> {
    let (family, said) = rest.split_once([' ', ':'])?;
    let said = said.trim_start_matches([' ', ':']);
    if let Some(gdr) = said.strip_prefix("GPU Direct RDMA ") {
        // For TCP it is always disabled, and only says that this is the chosen net (`src/graph/topo.cc`).
        return match family {
            "Socket" => Some(Event::PluginSpeaks(Net::Socket)),
            "FastSocket" => Some(Event::FastSocket),
            _ => gpu_direct(gdr),
        };
    }
    let plugin = Some(Event::PluginSpeaks(Net::of(family)));
    let family = match Net::of(family) {
        Net::Ib => "IB",
        _ => family,
    };
    match family {
        // 2.3 prints one device a line.
        "IB" if said.starts_with('[') && (said.contains("/IB") || said.contains("/RoCE")) => {
            Some(Event::IbDevices(said))
        }
        // Its name is `qp_num` since 2.30.
        "IB" if said.contains(" mtu ") && (said.contains(" qpn ") || said.contains(" qp_num ")) => {
            queue_pair(said)
        }
        "IB" => by_start(IB, said).or(plugin.filter(|_| said.contains(" qpn "))),
        "Socket" => {
            let list = said.strip_prefix("Using ")?;
            list.starts_with('[')
                .then_some(Event::SocketInterfaces(list))
        }
        "OFI" => by_start(OFI, said),
        "FastSocket" => Some(Event::FastSocket),
        "GPUDirectTCPX" | "FasTrak" => plugin,
        "Plugin" => by_start(PLUGIN, said),
        _ => None,
    }
}

/// A net's name, without what people and programs put around it.
fn clean(name: &str) -> &str {
    // The only names with spaces.
    let known = ["AWS Libfabric", HPCX].into_iter();
    let name = name.trim_start_matches(['`', '*', '"', ' ']);
    let mut known = known.filter(|known| name.starts_with(known));
    known.next().unwrap_or_else(|| event::first_word(name))
}

/// Whether a line was cut or wrapped inside the name of NCCL's own TCP: it does not show the net.
pub(super) fn is_cut(name: &str) -> bool {
    name != "Socket" && "Socket".starts_with(name)
}

fn using(name: &str) -> Option<Event<'_>> {
    match clean(name) {
        "plugin" => Some(Event::NoPlugin),
        name => (!is_cut(name)).then_some(Event::Using(name)),
    }
}

fn provider(rest: &str) -> Option<Event<'_>> {
    rest.split([',', ' ']).next().map(Event::OfiProvider)
}

/// `NCCL Dev 0 IbDev 0 Port 1 qpn 1345 mtu 5 LID 17`, or with a GID for RoCE.
fn queue_pair(said: &str) -> Option<Event<'_>> {
    let links = [(" LID ", event::Link::Ib), (" GID ", event::Link::Roce)];
    let link = links.into_iter().find(|(by, _)| said.contains(by));
    link.map(|(_, link)| Event::IbQueuePair(link))
}

fn env<'a>(name: &'static str, value: &'a str) -> Option<Event<'a>> {
    Some(Event::Env { name, value })
}

fn failed(_: &str) -> Option<Event<'_>> {
    Some(Event::Failure(Failure::PluginInit))
}

fn gpu_direct(said: &str) -> Option<Event<'_>> {
    Some(Event::Gdr {
        enabled: said.starts_with("Enabled") || said.contains(" enabled"),
        no_module: said.contains("(no module)"),
    })
}
