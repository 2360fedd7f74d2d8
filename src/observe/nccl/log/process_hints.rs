//! What lines show about the process that printed them.

use super::*;
use crate::observe::nccl::event::{Transport, first_word};
use crate::observe::nccl::process::Stage;

impl NcclLog {
    /// What a failure shows about verbs in its process.
    pub(super) fn about_verbs(&mut self, place: HostPid, failure: Failure, text: &str) {
        let Some(process) = self.processes.get_mut(&place) else {
            return;
        };
        match failure {
            Failure::LibibverbsMissing => (process.ib_none, process.ib_tried) = (true, true),
            Failure::OpenDevice => process.ib_tried = true,
            // Which plugin it was matters: NCCL_IB_DISABLE is meant for one of verbs.
            Failure::PluginInit => {
                let mut others = "OFI ofi fabric libefa libhwloc tcpx FasTrak".split(' ');
                process.plugin_failed |= others.any(|name| text.contains(name));
            }
            // The job fails: it falls back to nothing.
            Failure::NetworkMissing => {
                process.chosen = None;
                process.net_missing = true;
            }
            Failure::IbError | Failure::Memlock if text.contains("NET/OFI") => process.ofi = true,
            Failure::IbError
            | Failure::PortDown
            | Failure::DeviceFatal
            | Failure::QueuePair
            | Failure::GidIndex
            | Failure::Dmabuf => process.ib_at_work = true,
            Failure::Memlock => process.ib_at_work |= text.contains("ibv_"),
            // What devices are good for is asked before a network is chosen.
            _ => {
                let early = "Unable to|No IP|Ip address|real path|data_direct";
                let is_early = early.split('|').any(|words| text.contains(words));
                process.ib_at_work |= text.starts_with("NET/IB") && !is_early;
                process.ib_tried |= text.starts_with("NET/IB") && is_early;
                process.ofi |= text.starts_with("NET/OFI Unable to register memory");
            }
        }
        self.roce_hint |= text.contains("localGid");
    }

    /// A function passes an error on to its caller. What transport/net.cc calls (up to 2.18 by
    /// include/net.h) is the chosen net; the choice itself tries others.
    pub(super) fn traced(&mut self, place: HostPid, record: &Record<'_>, file: &str, number: u64) {
        if file.ends_with("init.cc") {
            self.init_failed(place, record.who.tid);
        }
        let process = self.processes.get_mut(&place);
        let Some((process, tid)) = process.zip(record.who.tid) else {
            return;
        };
        let is_ib = file.contains("net_ib") || file.contains("ib_plugin.c");
        let is_socket = file.contains("net_socket").then_some(Net::Socket);
        let own = if is_ib { Some(Net::Ib) } else { is_socket };
        let thread = process.thread(tid);
        let before = thread.and_then(|thread| std::mem::replace(&mut thread.error_in, own));
        let by_net = file.ends_with("transport/net.cc") || file.ends_with("include/net.h");
        if let Some(net) = before.filter(|_| by_net) {
            process.ib_at_work |= net == Net::Ib;
            process.socket_begun |= net == Net::Socket;
            self.show(EvidenceKind::Plugin(net), record.text, number);
        }
    }

    /// Whether a plugin of verbs found no device, as the process said before: NCCL then calls that a failed start
    /// (`ncclNetPluginInit` in src/plugin/net.cc).
    pub(super) fn lacks_verbs(&self, plugin: &str, place: HostPid) -> bool {
        let printer = self.processes.get(&place);
        Net::of(plugin) == Net::Ib && printer.is_some_and(|printer| printer.ib_lacking)
    }

    /// A script or launcher printed a setting.
    pub(super) fn printed(&mut self, name: &str, value: &str, text: &str, number: u64) {
        let name = match name {
            "NCCL_NET" => {
                self.printed_socket = value.eq_ignore_ascii_case("socket");
                "NCCL_NET"
            }
            "NCCL_NET_PLUGIN" => "NCCL_NET_PLUGIN",
            _ => {
                self.printed_ib_off = value == "1";
                "NCCL_IB_DISABLE"
            }
        };
        (self.env.entry(name.to_string())).or_insert_with(|| start(value, 128).into());
        self.show(EvidenceKind::Env(name), text, number);
    }

    pub(super) fn env(&mut self, place: HostPid, name: &str, value: &str, text: &str, number: u64) {
        let Some(process) = self.processes.get_mut(&place) else {
            return;
        };
        // `Plugin name set by env to` and levels (`ncclGetLevel` in src/graph/paths.cc) need no ENV in NCCL_DEBUG_SUBSYS.
        process.env_shown |= text.contains("set by environment to") && !name.ends_with("_LEVEL");
        let word = first_word(value);
        let is_set = !matches!(word, "0" | "" | "false");
        match name {
            "NCCL_IB_DISABLE" => {
                process.ib_disabled |= is_set;
                process.ib_allowed = word == "0";
                process.ib_tried |= !process.starts_gin;
            }
            "NCCL_NET" => process.asks_socket = word.eq_ignore_ascii_case("socket"),
            "NCCL_SHM_DISABLE" => process.shm_off |= is_set,
            // Read where verbs are not disabled, before their devices are listed.
            "NCCL_IB_HCA" if !process.starts_gin => {
                (process.ib_tried, process.ib_searched) = (true, true);
            }
            "FI_PROVIDER" => process.ofi_asked = true,
            _ => {}
        }
        let mut deciding = ["NCCL_IB_DISABLE", "NCCL_NET", "FI_PROVIDER"].into_iter();
        if let Some(name) = deciding.find(|deciding| is_set && *deciding == name) {
            self.show(EvidenceKind::Env(name), text, number);
        }
        if self.env.len() < MAX_NAMES || self.env.contains_key(name) {
            self.env
                .insert(start(name, 64).into(), start(value, 128).into());
        }
    }
}

impl Process {
    /// Whether a line is of GIN or RMA, which look for verbs and plugins once the network is chosen: from 2.29.7 on
    /// between `Assigned NET plugin` and `Using network` (`commAlloc` in src/init.cc).
    pub(super) fn is_of_gin(&mut self, record: &Record<'_>) -> bool {
        use Failure::{Ifname, LibibverbsMissing, OpenDevice, Other, PluginInit};
        let text = record.text;
        match record.event {
            Event::Using(_) => {
                self.starts_gin = record.who.pid.is_some() && text.contains("Assigned NET plugin");
            }
            Event::Comm(_) | Event::Connection(_) => self.starts_gin = false,
            // NCCL prints none of these while GIN starts: the process began again.
            Event::Version(_) | Event::Bootstrap(_) | Event::NetFailed(_) => {
                self.starts_gin = false;
            }
            _ => {}
        }
        self.starts_gin
            && match record.event {
                Event::IbNone => true,
                Event::Failure(LibibverbsMissing | OpenDevice | PluginInit | Ifname) => true,
                Event::Failure(Other) => text.starts_with("NET/IB"),
                Event::Failure(_) | Event::DeviceFailure(..) => false,
                _ => text.starts_with("NET/OFI "),
            }
    }

    /// What an event shows about the process that printed it.
    pub(super) fn apply(&mut self, event: &Event<'_>) {
        self.ib_searched |= matches!(event, Event::IbDevices(_) | Event::IbNone);
        match *event {
            Event::Bootstrap(list) => self.begin(list),
            Event::PluginLoaded(name) => {
                self.plugin_loaded = true;
                self.ib_plugin |= Net::of(name) == Net::Ib;
                self.fast_socket |= Net::of(name) == Net::FastSocket;
            }
            Event::NoPlugin => self.no_plugin = true,
            Event::PluginNotFound(_) => (self.no_plugin, self.plugin_not_found) = (true, true),
            Event::Using(name) => {
                self.chosen = Some(Net::of(name));
                // It printed lines, and NCCL went on to the last resort.
                let spoke = self.ofi_spoke || matches!(self.speaks, Some(Net::FasTrak | Net::Tcpx));
                self.plugin_failed |= spoke && self.chosen == Some(Net::Socket);
                self.stage = self.stage.max(Stage::Network);
            }
            Event::NetFailed(name) => match Net::of(name) {
                Net::Ib => (self.ib_none, self.ib_refused) = (self.ib_tried, !self.ib_tried),
                Net::Socket => {}
                _ => self.plugin_failed = true,
            },
            Event::IbDevices(_) => {
                (self.ib_found, self.ib_tried, self.ib_none) = (true, true, false);
                self.ib_refused = false;
            }
            Event::IbDevice(_) => (self.ib_found, self.ib_tried) = (true, true),
            Event::IbNone => (self.ib_none, self.ib_tried, self.ib_lacking) = (true, true, true),
            Event::Failure(Failure::LibibverbsMissing | Failure::OpenDevice) => {
                self.ib_lacking = true;
            }
            Event::SocketInterfaces(_) => {
                // Up to 2.4.7 the bootstrap prints this in every run, before verbs are tried.
                self.socket_begun |= self.ib_none || self.ib_disabled || self.ib_refused;
                self.socket_listed = true;
            }
            Event::OfiProvider(provider) => {
                self.ofi = true;
                let base = provider.split(';').next().unwrap_or(provider);
                self.ofi_tcp = matches!(base, "tcp" | "sockets" | "udp" | "net");
            }
            Event::OfiProtocol => self.ofi = true,
            Event::FastSocket => self.fast_socket = true,
            Event::IbQueuePair(_) | Event::PluginSpeaks(Net::Ib) => self.ib_at_work = true,
            Event::PluginSpeaks(Net::Socket) => self.socket_begun = true,
            Event::PluginSpeaks(net) => self.speaks = Some(net),
            Event::ErrorTrace { file } => self.init_failed |= file.ends_with("init.cc"),
            Event::Comm(comm) => self.init_failed &= comm.phase != Phase::Start,
            Event::Connection(connection) => self.connected(&connection),
            Event::RingOrder(_) | Event::Trees(_) => self.stage = self.stage.max(Stage::Topology),
            Event::Rings(gdr) => {
                self.stage = self.stage.max(Stage::Rings);
                self.rings_lack_gdr |= gdr == Some(false);
            }
            _ => {}
        }
    }

    fn connected(&mut self, connection: &Connection<'_>) {
        self.stage = self.stage.max(Stage::Channels);
        let net = match connection.over {
            Transport::Net(net) => net,
            // Switches reduce for verbs alone, by the net that was chosen.
            Transport::CollNet if self.net().is_none_or(|net| net == Net::Ib) => Net::Ib,
            _ => return,
        };
        self.nets.insert((net, connection.gdr && !net.is_tcp()));
        // The numbers of GPUs are shorter than bus ids.
        let same = (connection.devices).is_some_and(|(a, b)| a == b && a.len() > 3);
        self.joins_hosts |= same && connection.from != connection.to;
    }
}
