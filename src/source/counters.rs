//! Counters of ports by files: PMA (`ports/N/counters`) and hardware (`hw_counters`).
//!
//! On mlx5 each PMA file costs a firmware command, so that a caller may ask for the useful ones
//! only. A physical function that lacks the right to its port's registers (a BlueField host in
//! restricted mode) answers EINVAL and logs a failed ACCESS_REG each time: at the first such answer
//! the port's files stay closed for good.

use crate::host::Host;
use crate::observe::counters::{PMA_WORDS, PmaSkip, PortCounters, counted};
use crate::observe::rdma::{Function, RdmaDevice, Via};
use crate::observe::reading::Reading;
use crate::source::counter_files::{CounterDir, hw_order, pma_order};
use crate::source::rdma_port::class_dir;
use crate::source::rdma_port::port_dir;
use std::collections::BTreeMap;

/// Values by port and name, as RDMA netlink's STAT_GET gave them.
pub type HwByPort = BTreeMap<u32, BTreeMap<String, u64>>;

/// Reads the counters of one device again and again.
#[derive(Debug)]
pub struct CounterReader {
    ports: Vec<PortReader>,
    device_hw: Option<CounterDir>,
    may_be_restricted: bool,
    newly_restricted: Vec<u32>,
}

#[derive(Debug)]
struct PortReader {
    number: u32,
    skip: Option<PmaSkip>,
    pma: CounterDir,
    hw: CounterDir,
    /// Whether every PMA file answered without EINVAL in some earlier round.
    was_readable: bool,
    /// Rounds in a row that ended in EINVAL.
    bad_rounds: u32,
}

impl CounterReader {
    /// A reader of all ports of `device`. `skip` says which ports' PMA files must stay closed; of
    /// an excluded port nothing is opened at all, of a restricted one the hardware counters are.
    /// `essential_only` leaves all files closed but those that checks and metrics need
    /// ([`crate::source::counter_files::ESSENTIAL`] and `HW_ESSENTIAL`). Nothing is opened yet.
    pub fn new(
        device: &RdmaDevice,
        essential_only: bool,
        skip: impl Fn(u32) -> Option<PmaSkip>,
    ) -> CounterReader {
        let ports: Vec<PortReader> = (device.ports.iter())
            .map(|port| {
                let dir = port_dir(&device.name, port.number);
                PortReader {
                    number: port.number,
                    skip: skip(port.number),
                    pma: CounterDir::new(dir.join("counters"), pma_order, essential_only),
                    hw: CounterDir::new(dir.join("hw_counters"), hw_order, essential_only),
                    was_readable: false,
                    bad_rounds: 0,
                }
            })
            .collect();
        let excluded = |port: &PortReader| port.skip == Some(PmaSkip::Excluded);
        let all_excluded = !ports.is_empty() && ports.iter().all(excluded);
        let device_hw = class_dir(&device.name).join("hw_counters");
        CounterReader {
            ports,
            device_hw: (!all_excluded)
                .then(|| CounterDir::new(device_hw, hw_order, essential_only)),
            // A VF never had that right: there, one file's EINVAL says nothing about the others.
            may_be_restricted: device.function == Function::Physical,
            newly_restricted: Vec::new(),
        }
    }

    /// Reads every port. Ports that `hw_from_netlink` has are not read from `hw_counters` files;
    /// the device-wide directory always is, since netlink does not have it.
    pub fn read(
        &mut self,
        host: &Host,
        hw_from_netlink: Option<HwByPort>,
    ) -> Vec<(u32, PortCounters)> {
        let mut from_netlink = hw_from_netlink.unwrap_or_default();
        let mut all = Vec::with_capacity(self.ports.len());
        for port in &mut self.ports {
            let mut counters = PortCounters::default();
            port.read_pma(host, self.may_be_restricted, &mut counters);
            if counters.pma_skipped == Some(PmaSkip::Restricted)
                && port.skip != counters.pma_skipped
            {
                port.skip = counters.pma_skipped;
                self.newly_restricted.push(port.number);
            }
            if let Some(values) = from_netlink.remove(&port.number) {
                counters.hw_via = Some(Via::Netlink);
                counters.hw = (values.into_iter())
                    .filter(|(name, _)| name != "lifespan")
                    .map(|(name, value)| (name, counted(value)))
                    .collect();
            } else if port.skip != Some(PmaSkip::Excluded) {
                counters.hw = port.hw.read(host, false).values;
                counters.hw_via = (!counters.hw.is_empty()).then_some(Via::Sysfs);
            }
            all.push((port.number, counters));
        }
        if let (Some(dir), Some((_, first))) = (&mut self.device_hw, all.first_mut()) {
            first.device_hw = dir.read(host, false).values;
        }
        all
    }

    /// Ports whose PMA files answered EINVAL for the first time since the last call: to be
    /// remembered, and passed as `skip` to the next [`CounterReader::new`].
    pub fn newly_restricted(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.newly_restricted)
    }
}

impl PortReader {
    fn read_pma(&mut self, host: &Host, may_be_restricted: bool, counters: &mut PortCounters) {
        if let Some(skip) = self.skip {
            counters.pma_skipped = Some(skip);
            return;
        }
        let round = self.pma.read(host, may_be_restricted);
        if round.stopped {
            self.bad_rounds += 1;
            // A port that was readable before may be resetting or going away: the refusal is
            // believed when it happens twice in a row.
            if !self.was_readable || self.bad_rounds > 1 {
                counters.pma_skipped = Some(PmaSkip::Restricted);
                return;
            }
        } else if !round.values.is_empty() {
            self.was_readable = true;
            self.bad_rounds = 0;
        }
        counters.pma = round.values;
        for name in PMA_WORDS {
            if let Some(Reading::Value(words)) = counters.pma.get_mut(*name) {
                *words = words.saturating_mul(4);
            }
        }
    }
}

#[cfg(test)]
mod tests;
