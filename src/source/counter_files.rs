//! One directory of counter files: which are read, in which order, and which stay closed.

use crate::host::Host;
use crate::observe::reading::Reading;
use crate::source::tree::{self, Attribute, Steady, parse_u64};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// PMA files that checks and metrics need, in the order of reading. An error counter comes first:
/// it is what a restricted function refuses, before anything else is asked of it.
pub const ESSENTIAL: &[&str] = &[
    "link_downed",
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_xmit_wait",
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_packets",
    "port_rcv_packets",
];

/// Hardware counters with index 0 of their driver. On kernels with optional counters, mlx5 answers
/// a read of index 0 with a refresh of all and starts the window (`lifespan`, 10 ms) in which the
/// others cost nothing; a read of any other refreshes without starting it.
const HW_FIRST: &[&str] = &["rx_write_requests", "vport_rx_write_requests"];

/// Most files taken of one directory.
const MAX_FILES: usize = 512;

const EINVAL: i32 = nix::errno::Errno::EINVAL as i32;

/// Rank of a PMA file; lower is read first, none of a file that is not essential.
pub fn pma_order(name: &str) -> Option<usize> {
    ESSENTIAL.iter().position(|known| *known == name)
}

/// Rank of a hardware counter's file.
pub fn hw_order(name: &str) -> Option<usize> {
    HW_FIRST.iter().position(|known| *known == name)
}

/// What one reading of a directory gave.
#[derive(Debug, Default)]
pub struct Round {
    /// Values by file name.
    pub values: BTreeMap<String, Reading<u64>>,
    /// A file answered EINVAL and the rest was left unopened.
    pub stopped: bool,
}

/// A directory of counters.
#[derive(Debug)]
pub struct CounterDir {
    path: PathBuf,
    rank: fn(&str) -> Option<usize>,
    files: Vec<CounterFile>,
    listed: bool,
    essential_only: bool,
    stop_at_einval: bool,
    steady: Steady,
    reads: u64,
}

#[derive(Debug)]
struct CounterFile {
    name: String,
    attribute: Attribute,
    /// Answered EINVAL before: not observable, and not asked again.
    closed: bool,
}

impl CounterDir {
    /// A directory below the root, not listed yet.
    pub fn new(path: PathBuf, rank: fn(&str) -> Option<usize>) -> Self {
        CounterDir {
            path,
            rank,
            files: Vec::new(),
            listed: false,
            essential_only: false,
            stop_at_einval: false,
            steady: Steady::default(),
            reads: 0,
        }
    }

    /// Takes only files that have a rank.
    pub fn set_essential_only(&mut self, yes: bool) {
        self.essential_only = yes;
        self.listed = false;
    }

    /// Whether the first EINVAL ends the round.
    pub fn stop_at_einval(&mut self, yes: bool) {
        self.stop_at_einval = yes;
    }

    /// Files read so far.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Reads every file once. A directory that is missing gives nothing, and is looked for again
    /// next time.
    pub fn read(&mut self, host: &Host, buffer: &mut Vec<u8>) -> Round {
        let mut round = Round::default();
        if !self.listed {
            self.list(host);
        }
        let keep = self.steady.look(host, &self.path);
        let mut present = false;
        for file in &mut self.files {
            if file.closed || round.stopped {
                round
                    .values
                    .insert(file.name.clone(), Reading::NotObservable);
                present = true;
                continue;
            }
            self.reads += 1;
            let value = file
                .attribute
                .read_in(host, buffer, keep)
                .and_then(|text| parse_u64(text, Path::new(&file.name)));
            if file.attribute.errno() == Some(EINVAL) {
                round.stopped = self.stop_at_einval;
                file.closed = !self.stop_at_einval;
            }
            present |= value != Reading::Absent;
            round.values.insert(file.name.clone(), value);
        }
        // All gone: the device was registered anew, perhaps with other counters.
        self.listed = present;
        round
    }

    fn list(&mut self, host: &Host) {
        let names = match tree::list(host, &self.path) {
            Reading::Value(names) => names,
            _ => Vec::new(),
        };
        self.files = order(names, self.rank, self.essential_only)
            .into_iter()
            .map(|name| CounterFile {
                attribute: Attribute::new(host, self.path.join(&name)),
                name,
                closed: false,
            })
            .collect();
    }
}

/// The names to read, in their order: ranked ones first, then by name. `lifespan` is a setting.
pub fn order(
    names: Vec<String>,
    rank: fn(&str) -> Option<usize>,
    ranked_only: bool,
) -> Vec<String> {
    let mut names: Vec<(usize, String)> = names
        .into_iter()
        .filter(|name| name != "lifespan")
        .filter_map(|name| match rank(&name) {
            Some(rank) => Some((rank, name)),
            None => (!ranked_only).then_some((usize::MAX, name)),
        })
        .collect();
    names.sort();
    names.truncate(MAX_FILES);
    names.into_iter().map(|(_, name)| name).collect()
}
