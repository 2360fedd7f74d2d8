//! What lines tell of the process that printed them.

use super::*;

impl NcclLog {
    /// What a trouble tells of verbs in the process that has it.
    pub(super) fn about_verbs(&mut self, place: Place, trouble: Trouble, text: &str) {
        let Some(process) = self.processes.get_mut(&(place.host, place.process)) else {
            return;
        };
        match trouble {
            Trouble::LibibverbsMissing => process.ib_tried = true,
            Trouble::OpenDevice => process.ib_tried = true,
            Trouble::PluginInit => process.ofi_failed |= text.contains("OFI"),
            Trouble::IbError
            | Trouble::PortDown
            | Trouble::DeviceFatal
            | Trouble::QueuePair
            | Trouble::GidIndex
            | Trouble::Dmabuf => process.ib_at_work = true,
            Trouble::Memlock => process.ib_at_work |= text.contains("ibv_"),
            _ => {}
        }
        self.roce_hint |= text.contains("localGid");
    }

    pub(super) fn env(&mut self, place: Place, name: &str, value: &str, text: &str, number: u64) {
        let Some(process) = self.processes.get_mut(&(place.host, place.process)) else {
            return;
        };
        let is_set = !matches!(value, "0" | "" | "false");
        let shows = match name {
            "NCCL_IB_DISABLE" | "NCCL_IBEXT_DISABLE" => {
                process.ib_disabled |= is_set;
                process.ib_tried = true;
                Some("NCCL_IB_DISABLE")
            }
            "NCCL_NET" => {
                process.asks_socket = value.eq_ignore_ascii_case("socket");
                Some("NCCL_NET")
            }
            "NCCL_P2P_DISABLE" | "NCCL_SHM_DISABLE" => {
                process.local_off |= is_set;
                None
            }
            "NCCL_P2P_LEVEL" => {
                process.local_off |= value.eq_ignore_ascii_case("LOC");
                None
            }
            "FI_PROVIDER" => {
                process.ofi_asked = true;
                Some("FI_PROVIDER")
            }
            _ => None,
        };
        if let (Some(shows), true) = (shows, is_set) {
            self.show(Shows::Env(shows), text, number);
        }
        if self.env.len() < MAX_NAMES || self.env.contains_key(name) {
            self.env.insert(cut(name, 64), cut(value, 128));
        }
    }
}
