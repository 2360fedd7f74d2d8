//! Counters of ports by files: PMA (`ports/N/counters`) and hardware (`hw_counters`).
//!
//! On mlx5 each PMA file costs a firmware command, so that a caller may ask for the useful ones
//! only. A physical function that lacks the right to its port's registers (a BlueField host in
//! restricted mode) answers EINVAL and logs a failed ACCESS_REG each time: at the first such answer
//! the port's files are closed for good.

use crate::host::Host;
use crate::observe::counters::{PMA_WORDS, PmaSkip, PortCounters, counted};
use crate::observe::rdma::{Function, RdmaDevice, Via};
use crate::observe::reading::Reading;
use crate::source::counter_files::{CounterDir, hw_order, pma_order};
use crate::source::infiniband::class_dir;
use crate::source::rdma_port::port_dir;
use std::collections::BTreeMap;

/// Values by port and name, as RDMA netlink's STAT_GET told them.
pub type HwByPort = BTreeMap<u32, BTreeMap<String, u64>>;

/// Reads the counters of one device again and again, descriptors kept open.
#[derive(Debug)]
pub struct CounterReader {
    ports: Vec<PortReader>,
    device_hw: Option<CounterDir>,
    may_be_restricted: bool,
    newly_restricted: Vec<u32>,
    buffer: Vec<u8>,
    reads: u64,
}

#[derive(Debug)]
struct PortReader {
    number: u32,
    skip: Option<PmaSkip>,
    pma: CounterDir,
    hw: CounterDir,
    /// Rounds in which every PMA file answered without EINVAL.
    good_rounds: u32,
    /// Rounds in a row that ended in EINVAL.
    bad_rounds: u32,
}

impl CounterReader {
    /// A reader of all ports of `device`. `skip` tells which ports' PMA files must stay closed; of
    /// an excluded port nothing is opened at all, of a restricted one the hardware counters are.
    /// Nothing is opened yet.
    pub fn new(device: &RdmaDevice, skip: impl Fn(u32) -> Option<PmaSkip>) -> CounterReader {
        let ports: Vec<PortReader> = device
            .ports
            .iter()
            .map(|port| {
                let dir = port_dir(&device.name, port.number);
                PortReader {
                    number: port.number,
                    skip: skip(port.number),
                    pma: CounterDir::new(dir.join("counters"), pma_order),
                    hw: CounterDir::new(dir.join("hw_counters"), hw_order),
                    good_rounds: 0,
                    bad_rounds: 0,
                }
            })
            .collect();
        let excluded = !ports.is_empty()
            && ports
                .iter()
                .all(|port| port.skip == Some(PmaSkip::Excluded));
        CounterReader {
            ports,
            device_hw: (!excluded)
                .then(|| CounterDir::new(class_dir(&device.name).join("hw_counters"), hw_order)),
            // A VF never had that right: there, one file's EINVAL says nothing about the others.
            may_be_restricted: device.function == Function::Physical,
            newly_restricted: Vec::new(),
            buffer: Vec::with_capacity(4096),
            reads: 0,
        }
    }

    /// Leaves all files closed but those that checks and metrics need
    /// ([`crate::source::counter_files::ESSENTIAL`] and `HW_ESSENTIAL`).
    pub fn essential_only(mut self, yes: bool) -> Self {
        for port in &mut self.ports {
            port.pma.set_essential_only(yes);
            port.hw.set_essential_only(yes);
        }
        if let Some(device_hw) = &mut self.device_hw {
            device_hw.set_essential_only(yes);
        }
        self
    }

    /// Reads every port. Ports that `hw_from_netlink` has are not read from `hw_counters` files;
    /// the device-wide directory always is, since netlink cannot tell it.
    pub fn read(
        &mut self,
        host: &Host,
        hw_from_netlink: Option<HwByPort>,
    ) -> Vec<(u32, PortCounters)> {
        let mut from_netlink = hw_from_netlink.unwrap_or_default();
        let mut all = Vec::with_capacity(self.ports.len());
        for port in &mut self.ports {
            let mut counters = PortCounters::default();
            port.read_pma(
                host,
                &mut self.buffer,
                self.may_be_restricted,
                &mut counters,
            );
            if counters.pma_skipped == Some(PmaSkip::Restricted)
                && port.skip != counters.pma_skipped
            {
                port.skip = counters.pma_skipped;
                self.newly_restricted.push(port.number);
            }
            if let Some(values) = from_netlink.remove(&port.number) {
                counters.hw_via = Some(Via::Netlink);
                counters.hw = values
                    .into_iter()
                    .filter(|(name, _)| name != "lifespan")
                    .map(|(name, value)| (name, counted(value)))
                    .collect();
            } else if port.skip != Some(PmaSkip::Excluded) {
                counters.hw = port.hw.read(host, &mut self.buffer).values;
                counters.hw_via = (!counters.hw.is_empty()).then_some(Via::Sysfs);
            }
            all.push((port.number, counters));
        }
        if let (Some(dir), Some((_, first))) = (&mut self.device_hw, all.first_mut()) {
            first.device_hw = dir.read(host, &mut self.buffer).values;
        }
        self.reads = self.files_read();
        all
    }

    /// Ports whose PMA files answered EINVAL for the first time since this was last asked: to be
    /// remembered, and given back by the `skip` of the next [`CounterReader::new`].
    pub fn newly_restricted(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.newly_restricted)
    }

    /// Files read so far.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    fn files_read(&self) -> u64 {
        self.ports
            .iter()
            .flat_map(|port| [&port.pma, &port.hw])
            .chain(&self.device_hw)
            .map(CounterDir::reads)
            .sum()
    }
}

impl PortReader {
    fn read_pma(
        &mut self,
        host: &Host,
        buffer: &mut Vec<u8>,
        may_be_restricted: bool,
        counters: &mut PortCounters,
    ) {
        if let Some(skip) = self.skip {
            counters.pma_skipped = Some(skip);
            return;
        }
        self.pma.stop_at_einval(may_be_restricted);
        let round = self.pma.read(host, buffer);
        if round.stopped {
            self.bad_rounds += 1;
            // A port that was readable before may be resetting or going away: that is believed
            // when it happens twice in a row.
            if self.good_rounds == 0 || self.bad_rounds > 1 {
                counters.pma_skipped = Some(PmaSkip::Restricted);
                return;
            }
        } else if !round.values.is_empty() {
            self.good_rounds = self.good_rounds.saturating_add(1);
            self.bad_rounds = 0;
        }
        counters.pma = round.values;
        for name in PMA_WORDS {
            if let Some(Reading::Value(words)) = counters.pma.get_mut(name) {
                *words = words.saturating_mul(4);
            }
        }
    }
}

#[cfg(test)]
mod tests;
