//! Counters of ports by files: PMA (`ports/N/counters`) and hardware (`hw_counters`).
//!
//! On mlx5 each PMA file costs a firmware command, so that a caller may ask for the useful ones
//! only. A physical function that lacks the right to its port's registers (a BlueField host in
//! restricted mode) answers EINVAL and logs a failed ACCESS_REG each time: at the first such answer
//! the port's files stay closed until the device is registered again.

use crate::host::Host;
use crate::observe::counters::counted;
use crate::observe::{
    Counts, Function, PMA_WORDS, PmaSkip, PortCounters, RdmaDevice, RdmaPort, Reading,
};
use crate::source::{rdma_port, tree};
use nix::libc;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

/// PMA files that checks and metrics need, in the order of reading. An error counter comes first:
/// it is what a restricted function refuses, before anything else is asked of it.
static PMA_ESSENTIAL: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("counters/essential_pma.txt").lines().collect());

/// Hardware counters with index 0 of their driver. On kernels with optional counters, mlx5 answers
/// a read of index 0 with a refresh of all and starts the window (`lifespan`, 10 ms) in which the
/// others cost nothing; a read of any other refreshes without starting it.
const HW_FIRST: &[&str] = &["rx_write_requests", "vport_rx_write_requests"];

/// Hardware counters that checks and metrics need, of all drivers, one a line. Where RDMA netlink
/// reports them, all come in one answer; as files each is a system call or three.
static HW_ESSENTIAL: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("counters/essential_hw.txt").lines().collect());

/// What stands for all counters of a directory that cannot be listed.
const ALL: &str = "*";

/// Longest text of a counter.
const MAX_TEXT: usize = 4096;

/// Most files taken of one directory.
const MAX_FILES: usize = 512;

/// Rank of a PMA file; lower is read first, none of a file that is not essential.
fn pma_order(name: &str) -> Option<usize> {
    PMA_ESSENTIAL.iter().position(|known| *known == name)
}

/// Rank of a hardware counter's file; none of one that nothing needs. mlx5 in switchdev mode puts a
/// prefix before some names of the device-wide ones.
fn hw_order(name: &str) -> Option<usize> {
    let plain = name.strip_prefix("vport_").unwrap_or(name);
    let first = HW_FIRST.iter().position(|known| *known == name);
    let needed = || HW_ESSENTIAL.contains(plain);
    first.or_else(|| needed().then_some(HW_FIRST.len()))
}

/// Values by port and name, as RDMA netlink's STAT_GET gave them.
pub type HwByPort = BTreeMap<u32, BTreeMap<String, u64>>;

/// Reads the counters of one device again and again.
#[derive(Debug)]
pub struct CounterReader {
    ports: Vec<PortReader>,
    device_hw: Option<CounterDir>,
    may_be_restricted: bool,
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
    /// (`PMA_ESSENTIAL` and `HW_ESSENTIAL`). Nothing is opened yet.
    pub fn new(
        device: &RdmaDevice,
        essential_only: bool,
        skip: impl Fn(u32) -> Option<PmaSkip>,
    ) -> CounterReader {
        let counter_dir = |path, rank| CounterDir {
            dir: tree::Directory::new(path),
            rank,
            essential_only,
            order: Vec::new(),
            closed: BTreeSet::new(),
        };
        let port = |port: &RdmaPort| {
            let dir = rdma_port::port_dir(&device.name, port.number);
            PortReader {
                number: port.number,
                skip: skip(port.number),
                pma: counter_dir(dir.join("counters"), pma_order),
                hw: counter_dir(dir.join("hw_counters"), hw_order),
                was_readable: false,
                bad_rounds: 0,
            }
        };
        let ports: Vec<PortReader> = device.ports.iter().map(port).collect();
        let excluded = |port: &PortReader| port.skip == Some(PmaSkip::Excluded);
        let all_excluded = !ports.is_empty() && ports.iter().all(excluded);
        let device_hw = rdma_port::class_dir(&device.name).join("hw_counters");
        CounterReader {
            ports,
            device_hw: (!all_excluded).then(|| counter_dir(device_hw, hw_order)),
            // A VF never had that right: there, one file's EINVAL says nothing about the others.
            may_be_restricted: device.function == Function::Physical,
        }
    }

    /// Reads every port. One that is found restricted is to be remembered, and passed as `skip` to the
    /// next [`CounterReader::new`]. Ports that `from_netlink` has are not read from `hw_counters` files;
    /// the device-wide directory always is, since netlink does not have it.
    pub fn read(&mut self, host: &Host, mut from_netlink: HwByPort) -> Vec<(u32, PortCounters)> {
        let mut all = Vec::with_capacity(self.ports.len());
        for port in &mut self.ports {
            let mut counters = PortCounters::default();
            port.read_pma(host, self.may_be_restricted, &mut counters);
            if let Some(values) = from_netlink.remove(&port.number) {
                let values = values.into_iter().filter(|(name, _)| name != "lifespan");
                counters.hw = values.map(|(name, value)| (name, counted(value))).collect();
            } else if port.skip != Some(PmaSkip::Excluded) {
                counters.hw = port.hw.read(host, false).0;
            }
            all.push((port.number, counters));
        }
        if let (Some(dir), Some((_, first))) = (&mut self.device_hw, all.first_mut()) {
            first.device_hw = dir.read(host, false).0;
        }
        all
    }
}

impl PortReader {
    fn read_pma(&mut self, host: &Host, may_be_restricted: bool, counters: &mut PortCounters) {
        if let Some(skip) = self.skip {
            counters.pma_skipped = Some(skip);
            return;
        }
        let (values, stopped) = self.pma.read(host, may_be_restricted);
        if stopped {
            self.bad_rounds += 1;
            // A port that was readable before may be resetting or going away: the refusal is
            // believed when it happens twice in a row.
            if !self.was_readable || self.bad_rounds > 1 {
                self.skip = Some(PmaSkip::Restricted);
                counters.pma_skipped = self.skip;
                return;
            }
        } else if !values.is_empty() {
            self.was_readable = true;
            self.bad_rounds = 0;
        }
        counters.pma = values;
        for name in PMA_WORDS {
            if let Some(Reading::Value(words)) = counters.pma.get_mut(*name) {
                *words = words.saturating_mul(4);
            }
        }
    }
}

/// A directory of counter files that is read again and again.
#[derive(Debug)]
struct CounterDir {
    dir: tree::Directory,
    rank: fn(&str) -> Option<usize>,
    /// Only files that have a rank.
    essential_only: bool,
    /// Its files in the order of reading.
    order: Vec<String>,
    /// Files that answered EINVAL: not observable, and not opened again.
    closed: BTreeSet<String>,
}

impl CounterDir {
    /// Reads every file once, up to the first EINVAL where `stop_at_einval`: the values by file
    /// name, and whether it stopped there. A missing directory gives no values.
    fn read(&mut self, host: &Host, stop_at_einval: bool) -> (Counts, bool) {
        let mut values = Counts::new();
        let mut stopped = false;
        if !self.dir.begin(host) || self.order.is_empty() {
            self.order = match self.dir.names(host) {
                Reading::Value(names) => order(names, self.rank, self.essential_only),
                Reading::Failed(fault) => {
                    values.insert(ALL.into(), Reading::Failed(fault));
                    return (values, false);
                }
                _ => Vec::new(),
            };
        }
        for name in &self.order {
            let mut value = Reading::NotObservable;
            if !stopped && !self.closed.contains(name) {
                let answer = self.dir.read_raw(host, name, MAX_TEXT);
                let path = || self.dir.path.join(name);
                if matches!(&answer, Err(error) if error.raw_os_error() == Some(libc::EINVAL)) {
                    stopped = stop_at_einval;
                    if !stop_at_einval {
                        self.closed.insert(name.clone());
                    }
                }
                let number =
                    |bytes: Vec<u8>| tree::parse_u64(&String::from_utf8_lossy(&bytes), path);
                let answer = tree::answer(answer, || host.path(path()));
                value = answer.and_then(number).and_then(counted);
            }
            values.insert(name.clone(), value);
        }
        (values, stopped)
    }
}

/// The names to read, in their order: ranked ones first, then by name. `lifespan` is a setting.
fn order(names: Vec<String>, rank: fn(&str) -> Option<usize>, ranked_only: bool) -> Vec<String> {
    let ranked = |name: String| {
        let rank = rank(&name).or((!ranked_only).then_some(usize::MAX))?;
        Some((rank, name))
    };
    let counters = names.into_iter().filter(|name| name != "lifespan");
    let mut names: Vec<(usize, String)> = counters.filter_map(ranked).collect();
    names.sort();
    names.truncate(MAX_FILES);
    names.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
