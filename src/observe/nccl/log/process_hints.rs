//! What lines show about the process that printed them.

use super::*;
use crate::observe::nccl::process::Stage;

impl NcclLog {
    /// What a failure shows about verbs in its process.
    pub(super) fn about_verbs(&mut self, place: Place, failure: Failure, text: &str) {
        let Some(process) = self.processes.get_mut(&(place.host, place.process)) else {
            return;
        };
        match failure {
            Failure::LibibverbsMissing | Failure::OpenDevice => process.ib_tried = true,
            Failure::PluginInit => process.ofi_failed |= text.contains("OFI"),
            Failure::IbError
            | Failure::PortDown
            | Failure::DeviceFatal
            | Failure::QueuePair
            | Failure::GidIndex
            | Failure::Dmabuf => process.ib_at_work = true,
            Failure::Memlock => process.ib_at_work |= text.contains("ibv_"),
            _ => {}
        }
        self.roce_hint |= text.contains("localGid");
    }

    pub(super) fn env(&mut self, place: Place, name: &str, value: &str, text: &str, number: u64) {
        let Some(process) = self.processes.get_mut(&(place.host, place.process)) else {
            return;
        };
        let is_set = !matches!(value, "0" | "" | "false");
        let mut kind = None;
        match name {
            "NCCL_IB_DISABLE" | "NCCL_IBEXT_DISABLE" => {
                process.ib_disabled |= is_set;
                process.ib_tried = true;
                kind = Some("NCCL_IB_DISABLE");
            }
            "NCCL_NET" => {
                process.asks_socket = value.eq_ignore_ascii_case("socket");
                kind = Some("NCCL_NET");
            }
            "NCCL_P2P_DISABLE" | "NCCL_SHM_DISABLE" => process.local_off |= is_set,
            "NCCL_P2P_LEVEL" => process.local_off |= value.eq_ignore_ascii_case("LOC"),
            "FI_PROVIDER" => {
                process.ofi_asked = true;
                kind = Some("FI_PROVIDER");
            }
            _ => {}
        }
        if let (Some(name), true) = (kind, is_set) {
            self.show(EvidenceKind::Env(name), text, number);
        }
        if self.env.len() < MAX_NAMES || self.env.contains_key(name) {
            self.env.insert(cut(name, 64), cut(value, 128));
        }
    }
}

impl Process {
    /// What an event shows about the process that printed it.
    pub(super) fn apply(&mut self, event: &Event<'_>) {
        match *event {
            Event::Bootstrap(_) => {
                self.stage = Stage::Bootstrap;
                self.begun = true;
            }
            Event::PluginLoaded(name) => {
                self.ib_plugin |= Net::of(name) == Net::Ib || name.contains("RDMA Plugin");
                self.fast_socket |= Net::of(name) == Net::FastSocket;
            }
            Event::NoPlugin => self.no_plugin = true,
            Event::Using(name) => {
                self.chosen = Some(Net::of(name));
                self.stage = self.stage.max(Stage::Network);
            }
            Event::NetFailed(name) => match Net::of(name) {
                Net::Ib => self.ib_tried = true,
                Net::Ofi => self.ofi_failed = true,
                _ => {}
            },
            Event::IbDevices(_) => {
                (self.ib_found, self.ib_tried, self.ib_none) = (true, true, false);
            }
            Event::IbDevice(_) => (self.ib_found, self.ib_tried) = (true, true),
            Event::IbNone => (self.ib_none, self.ib_tried) = (true, true),
            Event::SocketInterfaces(_) => {
                // Up to 2.4.7 the bootstrap prints this in every run, before verbs are tried.
                self.socket_begun |= self.ib_none || self.ib_disabled;
                self.socket_listed = true;
            }
            Event::OfiProvider(provider) => {
                self.ofi = true;
                let base = provider.split(';').next().unwrap_or(provider);
                self.ofi_tcp = matches!(base, "tcp" | "sockets" | "udp" | "net");
            }
            Event::OfiProtocol => self.ofi = true,
            Event::FastSocket => self.fast_socket = true,
            Event::PluginSpeaks(net) => self.speaks = Some(net),
            Event::Connection(_) => self.stage = self.stage.max(Stage::Channels),
            Event::RingOrder(_) | Event::Trees(_) => self.stage = self.stage.max(Stage::Topology),
            Event::Rings(gdr) => {
                self.stage = self.stage.max(Stage::Rings);
                self.rings_gdr = gdr.or(self.rings_gdr);
            }
            _ => {}
        }
    }
}
