//! One directory of counter files: which are read, in which order, and which stay closed.

use crate::host::Host;
use crate::observe::counters::{Counts, counted};
use crate::observe::reading::Reading;
use crate::source::tree;
use std::collections::BTreeSet;
use std::path::PathBuf;

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
    "port_rcv_constraint_errors",
    "port_xmit_constraint_errors",
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

/// Hardware counters that checks and metrics need, of all drivers. Where RDMA netlink tells them,
/// all come in one answer; as files each is a system call or three.
pub const HW_ESSENTIAL: &[&str] = &[
    "RxECNMrkd",
    "cmds_err",
    "cnpHandled",
    "cnpIgnored",
    "cnpSent",
    "completer_retry_err",
    "duplicate_request",
    "impaired_remote_conn_events",
    "implied_nak_seq_err",
    "ip4InDiscards",
    "ip4InOctets",
    "ip4InPkts",
    "ip4OutOctets",
    "ip4OutPkts",
    "ip6InDiscards",
    "ip6InOctets",
    "ip6InPkts",
    "ip6OutOctets",
    "ip6OutPkts",
    "link_downed",
    "local_ack_timeout_err",
    "max_retry_exceeded",
    "missing_resp",
    "no_completion_cmds",
    "np_cnp_sent",
    "oos_drop_count",
    "out_of_buffer",
    "out_of_seq_request",
    "out_of_sequence",
    "packet_seq_err",
    "rcvd_pkts",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "rdma_read_wr_err",
    "rdma_write_wr_err",
    "received_cnps",
    "req_transport_retries_exceeded",
    "requester_oos_nak",
    "requester_retries_exceeded",
    "requester_rnr_nak",
    "requester_timeout",
    "responder_oos",
    "retrans_pkts",
    "retrans_timeout_events",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_bytes",
    "rx_cnp_pkts",
    "rx_drops",
    "rx_icrc_encapsulated",
    "rx_out_of_buffer",
    "rx_packets",
    "rx_pkts",
    "rx_roce_discards",
    "send_err",
    "sent_cnps",
    "sent_pkts",
    "seq_err_naks_rcvd",
    "tcpRetransSegs",
    "to_retransmits",
    "total_fatal_error",
    "tx_bytes",
    "tx_cnp_pkts",
    "tx_packets",
    "tx_pkts",
    "tx_roce_discards",
    "unrecoverable_err",
    "unresponsive_remote_events",
];

/// Longest text of a counter.
const MAX_TEXT: usize = 4096;

/// Most files taken of one directory.
const MAX_FILES: usize = 512;

const EINVAL: i32 = nix::errno::Errno::EINVAL as i32;

/// Rank of a PMA file; lower is read first, none of a file that is not essential.
pub fn pma_order(name: &str) -> Option<usize> {
    ESSENTIAL.iter().position(|known| *known == name)
}

/// Rank of a hardware counter's file; none of one that nothing needs. mlx5 in switchdev mode puts a
/// prefix before some names of the device-wide ones.
pub fn hw_order(name: &str) -> Option<usize> {
    let plain = name.strip_prefix("vport_").unwrap_or(name);
    HW_FIRST
        .iter()
        .position(|known| *known == name)
        .or_else(|| HW_ESSENTIAL.contains(&plain).then_some(HW_FIRST.len()))
}

/// What one reading of a directory gave.
#[derive(Debug, Default)]
pub struct Round {
    /// Values by file name.
    pub values: Counts,
    /// A file answered EINVAL and the rest was left unopened.
    pub stopped: bool,
}

/// A directory of counters that is read again and again.
#[derive(Debug)]
pub struct CounterDir {
    path: PathBuf,
    rank: fn(&str) -> Option<usize>,
    essential_only: bool,
    /// File names in the order of reading; empty until they have been listed.
    files: Vec<String>,
    /// Files that answered EINVAL: not observable, and not opened again.
    closed: BTreeSet<String>,
}

impl CounterDir {
    /// A directory below the root, not listed yet. `essential_only` takes only files that have a rank.
    pub fn new(path: PathBuf, rank: fn(&str) -> Option<usize>, essential_only: bool) -> Self {
        CounterDir {
            path,
            rank,
            essential_only,
            files: Vec::new(),
            closed: BTreeSet::new(),
        }
    }

    /// Reads every file once, up to the first EINVAL where `stop_at_einval`. A missing directory
    /// gives no values and is listed again next time.
    pub fn read(&mut self, host: &Host, stop_at_einval: bool) -> Round {
        let mut round = Round::default();
        if self.files.is_empty() {
            let names = tree::list(host, &self.path).value().cloned();
            self.files = order(names.unwrap_or_default(), self.rank, self.essential_only);
        }
        let mut present = false;
        for name in &self.files {
            let mut value = Reading::NotObservable;
            if !round.stopped && !self.closed.contains(name) {
                let path = self.path.join(name);
                let answer = tree::read_raw(host, &path, MAX_TEXT);
                if let Err(error) = &answer
                    && error.raw_os_error() == Some(EINVAL)
                {
                    round.stopped = stop_at_einval;
                    if !stop_at_einval {
                        self.closed.insert(name.clone());
                    }
                }
                value = match answer {
                    Ok(bytes) => tree::parse_u64(&String::from_utf8_lossy(&bytes), &path),
                    Err(error) => tree::classify(&error, &host.path(&path)),
                }
                .and_then(counted);
            }
            present |= value != Reading::Absent;
            round.values.insert(name.clone(), value);
        }
        if !present {
            // The device was registered again, perhaps with other counters.
            self.files.clear();
            round.values.clear();
        }
        round
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::default_counters;
    use std::path::Path;

    /// Names of hardware counters that the checks' code spells out, tests left aside.
    fn named_by_checks() -> Vec<String> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check");
        let mut names = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "source text")]
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_string_lossy();
            if !name.ends_with(".rs") || name.ends_with("_tests.rs") {
                continue;
            }
            #[expect(clippy::disallowed_methods, reason = "source text")]
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for literal in code.split('"').skip(1).step_by(2) {
                let counter = ["hw.", "dev."]
                    .iter()
                    .find_map(|prefix| literal.strip_prefix(prefix));
                let is_name = |name: &&str| {
                    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                };
                names.extend(counter.filter(is_name).map(str::to_string));
            }
        }
        names
    }

    #[test]
    fn all_that_is_needed_is_read() {
        let by_checks = named_by_checks();
        assert!(by_checks.len() > 20, "the scan saw only {by_checks:?}");
        let exported = default_counters::HW
            .iter()
            .flat_map(|hw| hw.errors.iter().chain(hw.congestion))
            .map(|name| name.to_string());
        let unread: Vec<String> = by_checks
            .into_iter()
            .chain(exported)
            .filter(|name| hw_order(name).is_none())
            .collect();
        assert!(unread.is_empty(), "not in HW_ESSENTIAL: {unread:?}");
        let pma = default_counters::PMA_TRAFFIC
            .iter()
            .chain(default_counters::PMA_INFINIBAND)
            .chain(default_counters::PMA_ETHERNET);
        let unread: Vec<&&str> = pma.filter(|name| pma_order(name).is_none()).collect();
        assert!(unread.is_empty(), "not in ESSENTIAL: {unread:?}");
    }

    #[test]
    fn the_first_counter_is_read_first_and_settings_are_not() {
        let names = [
            "out_of_buffer",
            "np_ecn_marked_roce_packets",
            "lifespan",
            "rx_write_requests",
        ];
        let given = || names.map(str::to_string).to_vec();
        let needed = order(given(), hw_order, true);
        assert_eq!(needed, ["rx_write_requests", "out_of_buffer"]);
        assert_eq!(order(given(), hw_order, false).len(), 3);
    }
}
