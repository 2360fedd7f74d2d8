//! What a history keeps over a restart of the agent.

use super::{History, SeenDevice, SeenGpu};
use crate::observe::fabric::SeenFabric;
use crate::observe::kernel_log::KernelLog;
use crate::units::{BitsPerSec, DeviceKey, Millis, PortKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is worth keeping over a restart of the agent, for the same boot only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Boot that it belongs to.
    pub boot_id: Option<String>,
    /// Ports that were active, with the best rate seen.
    pub ports: BTreeMap<PortKey, Option<BitsPerSec>>,
    /// Devices by key, with name and ports.
    pub devices: BTreeMap<DeviceKey, (String, Vec<u32>)>,
    /// What the devices are.
    #[serde(default)]
    pub fabric: BTreeMap<DeviceKey, SeenFabric>,
    /// GPUs by address.
    pub gpus: Vec<String>,
    /// What the kernel log said: the log itself is not read twice.
    #[serde(default)]
    pub kernel: KernelLog,
}

impl History {
    /// A history that starts from what an earlier run remembered. A memory of another boot is
    /// dropped at the first sample.
    pub fn restore(memory: Memory) -> Self {
        let mut history = History {
            boot_id: memory.boot_id,
            fabric: memory.fabric,
            kernel: memory.kernel.restored(),
            ..History::default()
        };
        for (key, best_rate) in memory.ports {
            let port = history.ports.entry(key).or_default();
            port.ever_active = true;
            port.best_rate = best_rate;
        }
        for (key, (name, ports)) in memory.devices {
            history.devices.insert(
                key,
                SeenDevice {
                    name,
                    ports,
                    missed: 0,
                    last_seen: Millis(0),
                },
            );
        }
        for gpu in memory.gpus {
            history.gpus.insert(
                gpu,
                SeenGpu {
                    missed: 0,
                    last_seen: Millis(0),
                },
            );
        }
        history
    }

    /// What to keep for the next run.
    pub fn memory(&self) -> Memory {
        Memory {
            boot_id: self.boot_id.clone(),
            ports: self
                .ports
                .iter()
                .filter(|(_, port)| port.ever_active)
                .map(|(key, port)| (key.clone(), port.best_rate))
                .collect(),
            devices: self
                .devices
                .iter()
                .map(|(key, seen)| (key.clone(), (seen.name.clone(), seen.ports.clone())))
                .collect(),
            fabric: super::fabric::to_keep(&self.fabric),
            gpus: self.gpus.keys().cloned().collect(),
            kernel: self.kernel.to_keep(),
        }
    }
}
