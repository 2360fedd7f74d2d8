//! Which verdict, why, and what to do.

use super::causes::{self, few_rails};
use super::shape::Shape;
use super::tell::gigabytes;
use super::verdict::{BenchVerdict, LogFacts, Verdict, lowest_beyond};
use super::{FALL, LARGE, LINE_RATE, Limit, TCP_AT_MOST, TCP_BELOW, TOLERANCE, named, ranks};
use crate::check::nccl::{EvidenceLine, Fallback, NcclVerdict, Network};
use crate::observe::bench::{Collective, Rails, Run};

fn tell(
    out: &mut BenchVerdict,
    verdict: Verdict,
    reason: &'static str,
    summary: String,
    remedies: &[&str],
) {
    out.verdict = verdict;
    out.reason = reason;
    out.summary = summary;
    out.remedies = remedies.iter().map(|text| (*text).to_string()).collect();
}

fn cannot(out: &mut BenchVerdict, reason: &'static str, summary: String, remedies: &[&str]) {
    tell(out, Verdict::Unknown, reason, summary, remedies);
}

/// What the rails would let it reach is not known.
fn without_limit(out: &mut BenchVerdict) {
    (out.expected_bytes_per_second, out.ceiling_bytes_per_second) = (None, None);
    out.ratio = None;
}

/// What is told of a run without its end.
const NO_END: &str =
    "the run did not come to its end (no line Out of bounds values, none Avg bus bandwidth)";

/// What is told where the column of wrong elements holds no count.
const NO_COUNT: &str = "the column #wrong holds what is no count (-3, nan)";

/// What to do where lines were cut.
const APART: &str = "Give the whole output, apart from NCCL's lines, which cut into it: NCCL_DEBUG_FILE=/tmp/nccl.%h.%p, and that file as a second part of the input (cat).";

/// What to do where nobody says who ran where.
const WHERE: &str = "Give the head of the output too (# Rank … on HOST …), or NCCL's log; if all nodes are full, --gpus N and --collective NAME do.";

/// All that is known of a run.
pub(super) struct Ask<'a> {
    pub run: &'a Run,
    pub rails: Option<&'a Rails>,
    pub nccl: Option<&'a NcclVerdict>,
    pub facts: &'a LogFacts,
    pub shape: Option<&'a Shape>,
    pub collective: Option<Collective>,
    pub limit: Option<Limit>,
    /// That nodes are full is taken for granted: nothing says who ran where.
    pub assumed: bool,
}

impl Ask<'_> {
    pub fn decide(&self, out: &mut BenchVerdict) {
        self.judge(out);
        if self.run.checked == Some(false) && out.wrong.is_none() && !self.run.rows.is_empty() {
            out.notes.push("results were not checked (-c 0): whether they are right is not known; run it once with -c 1".into());
        }
        if self.run.uncounted > 0 && out.reason != "ResultsUnclear" {
            out.notes.push(NO_COUNT.into());
        }
        match self.run.torn_rows {
            0 => {}
            rows => out.notes.push(format!(
                "{rows} of the table's measurements are left out: cut by other lines, or figures that do not belong together"
            )),
        }
        // What was proven or measured until then stands; that there is no more is told.
        if !self.run.is_over() && !self.run.rows.is_empty() && out.reason != "Unfinished" {
            out.notes
                .push(format!("{NO_END}: larger sizes may be missing"));
        }
    }

    fn judge(&self, out: &mut BenchVerdict) {
        let name = self.collective.map_or("the benchmark", Collective::as_str);
        let lead = self.lead(out);
        if let Some(wrong) = out.wrong.filter(|wrong| *wrong > 0) {
            tell(
                out,
                Verdict::WrongResults,
                "WrongResults",
                format!("{name}: {wrong} wrong results, at whatever speed"),
                &[
                    "Take the node out of use and find the one that computes or moves data wrongly: run pairs of nodes, then each alone; look at Xids (selvage check), at memory errors (nvidia-smi -q -d ECC), at NCCL's version and at GPUDirect with an IOMMU or ACS on.",
                ],
            );
            return;
        }
        if self.run.apart {
            return cannot(
                out,
                "SeparateRuns",
                format!("{name}: ranks are numbered twice: each process ran a test of its own"),
                &[
                    "Build nccl-tests with MPI=1 and start it by mpirun or srun --mpi=pmix: only then do processes join into one communicator.",
                ],
            );
        }
        if let Some((_, text)) = &self.run.failure
            && out.bus_bandwidth_bytes_per_second.is_none()
            && self.tcp_by_log().is_none()
        {
            return cannot(
                out,
                "TestFailed",
                format!("{name} failed before a large size was measured: {text}"),
                &["selvage nccl on its log (NCCL_DEBUG=INFO) names what failed."],
            );
        }
        let Some(shape) = self.shape else {
            return cannot(
                out,
                "NodesNotShown",
                format!("{lead}nothing tells which rank ran on which node"),
                &[WHERE],
            );
        };
        if let Some(why) = ranks::unclear(self.run, shape, self.nccl, self.collective)
            && self.tcp_by_log().is_none()
        {
            without_limit(out);
            if shape.holes {
                (out.nranks, out.nodes) = (None, None);
            }
            let lead = self.lead(out);
            return cannot(
                out,
                "RanksUnclear",
                format!("{lead}how many ranks ran on each node is not clear: {why}"),
                &[
                    APART,
                    "Give NCCL's log along (NCCL_DEBUG=INFO): it tells the number of ranks. If --collective names another benchmark than the one that ran, correct it.",
                ],
            );
        }
        if shape.nodes.len() < 2 {
            let s = if shape.nranks == 1 { "" } else { "s" };
            return cannot(
                out,
                "OneNode",
                format!(
                    "{lead}inside one node ({} rank{s}): NVLink, PCIe and memory are measured, no rail is used",
                    shape.nranks
                ),
                &["Run it over two nodes or more, one rank for each GPU."],
            );
        }
        if let Some(nccl) = self.tcp_by_log() {
            out.verdict = Verdict::Tcp;
            out.reason = "TcpInLog";
            out.summary = format!("{lead}NCCL's log shows TCP between nodes");
            out.remedies = nccl.remedies.iter().take(4).cloned().collect();
            if nccl.tcp_fallback == Fallback::Configured {
                out.notes.push("a setting asks for TCP".into());
            }
            if out.remedies.is_empty() {
                out.remedies.push("selvage nccl on this log says what led to TCP; take out what asks for it (NCCL_NET=Socket, NCCL_IB_DISABLE=1), give the pod its RDMA devices.".into());
            }
            return;
        }
        let Some(best) = out.bus_bandwidth_bytes_per_second else {
            let (reason, summary) = match self.run.rows.iter().map(|row| row.size).max() {
                None if self.run.torn_rows > 0 => {
                    ("NoRows", format!("{name}: no row of the table is whole"))
                }
                None => ("NoRows", format!("{name}: the table has no rows")),
                Some(most) => (
                    "OnlySmallSizes",
                    format!(
                        "{name}: the largest size is {most} bytes; bandwidth is judged from {LARGE} bytes on"
                    ),
                ),
            };
            let remedy = match self.run.torn_rows {
                0 => "Run it up to large sizes: -b 8 -e 8G -f 2.",
                _ => APART,
            };
            return cannot(out, reason, summary, &[remedy]);
        };
        let Some(collective) = self.collective else {
            return cannot(
                out,
                "CollectiveNotNamed",
                format!("{lead}and nothing names the benchmark"),
                &[
                    "Say which it is: --collective alltoall, --collective all_gather or another (its program's name without _perf); their limits differ much.",
                ],
            );
        };
        if named::excluded(self.run, collective) {
            without_limit(out);
            let lead = self.lead(out);
            return cannot(
                out,
                "OtherCollective",
                format!(
                    "{lead}but the table is of another benchmark: results in place are not checked (N/A), as alltoall and sendrecv print it"
                ),
                &["Name the one that ran: --collective alltoall, or sendrecv."],
            );
        }
        if self.facts.mnnvl {
            return cannot(
                out,
                "NvlinkBetweenNodes",
                format!("{lead}NVLink joins these nodes (MNNVL): rails are not what limits them"),
                &["Measure the rails with NCCL_MNNVL_ENABLE=0."],
            );
        }
        let Some(rails) = self.rails else {
            return cannot(
                out,
                "RailsNotKnown",
                format!("{lead}what the nodes' rails can do is not known"),
                &[
                    "Say it: --rails 8 --rate-gbps 400, or --node-report FILE with a node's /report (curl -s http://NODE:9949/report); on a GPU node of the test neither is needed.",
                ],
            );
        };
        let Some(limit) = self.limit else {
            return cannot(
                out,
                "NotJudged",
                format!("{lead}of this benchmark no limit follows from the rails alone"),
                &["Judge the rails by all_reduce, all_gather, reduce_scatter or alltoall."],
            );
        };
        self.by_number(out, collective, shape, rails, limit, best);
    }

    /// The number against the limit.
    fn by_number(
        &self,
        out: &mut BenchVerdict,
        collective: Collective,
        shape: &Shape,
        rails: &Rails,
        limit: Limit,
        best: f64,
    ) {
        let lead = self.lead(out);
        let ratio = best / limit.expected;
        let n = f64::from(shape.nranks);
        // SHARP: every node sends and receives S once.
        let in_network = limit.expected * 2.0 * (n - 1.0) / n;
        let most = match collective {
            Collective::AllReduce => limit.ceiling.max(in_network),
            _ => limit.ceiling,
        };
        if best > most * TOLERANCE && !limit.least {
            out.reason = "MoreThanTheRails";
            out.summary = format!(
                "{lead}more than {} rails of {} can carry",
                rails.count, rails.rate
            );
            out.remedies.push("Give the rails that these nodes have (--rails, --rate-gbps, --node-report); where NVLink joins the nodes (MNNVL) rails are not what limits them.".into());
            return;
        }
        let full = rails.rate.bytes_per_sec() * f64::from(rails.count);
        if limit.least && ratio >= LINE_RATE && best < full * LINE_RATE {
            out.reason = "RailsOfAGpuNotKnown";
            out.summary = format!(
                "{lead}{} ranks a node are fewer than its {} rails, and how many rails a GPU has is not known",
                shape.least(),
                rails.count
            );
            out.remedies.push(
                "Run one rank for each GPU, or say how many GPUs a node has: --gpus N.".into(),
            );
            return;
        }
        if ratio >= LINE_RATE {
            let low = lowest_beyond(self.run);
            let low = low.filter(|low| low.bytes_per_second < best * FALL);
            if let Some(low) = low.filter(|low| low.bytes_per_second < limit.expected * LINE_RATE) {
                let (gb, size) = (gigabytes(low.bytes_per_second), low.size_bytes);
                out.verdict = Verdict::Below;
                out.reason = "FallsWithSize";
                out.summary = format!("{lead}but it falls to {gb} at {size} bytes");
                out.ratio = Some(low.bytes_per_second / limit.expected);
                out.evidence.push(EvidenceLine {
                    line: low.line,
                    text: format!("busbw {gb} at {size} bytes, the better side"),
                });
                out.remedies.push("What lasts longer is slower: run large sizes alone and for minutes (-b 1G -e 8G -n 200) and look meanwhile at PFC pauses, congestion marks and retransmissions (selvage check), and at throttling of GPUs and NICs (nvidia-smi -q -d PERFORMANCE).".into());
                return;
            }
            out.verdict = Verdict::LineRate;
            out.reason = "LineRate";
            out.summary = lead.trim_end_matches([',', ' ']).to_string();
            self.praise(out, collective, limit, best);
            if !self.run.is_over() {
                self.unfinished(out, &lead);
            } else if let Some((_, text)) = &self.run.failure {
                out.verdict = Verdict::Unknown;
                out.reason = "TestFailed";
                out.summary = format!("{lead}but the test failed: {text}");
                out.remedies
                    .push("selvage nccl on its log (NCCL_DEBUG=INFO) names what failed.".into());
            } else if self.run.uncounted > 0 {
                out.verdict = Verdict::Unknown;
                out.reason = "ResultsUnclear";
                out.summary =
                    format!("{lead}but whether results are right is not known: {NO_COUNT}");
                out.remedies
                    .push("Run it again with -c 1, and give its output as it is.".into());
            }
            return;
        }
        // With a rank on each node it might be line rate, or a larger part of it.
        let gpus = rails.gpus.unwrap_or(1).max(1);
        let share = f64::from(rails.count) / f64::from(gpus);
        let by_one = match self.assumed {
            true => best / (rails.rate.bytes_per_sec() * share.max(1.0)),
            false => 0.0,
        };
        if by_one >= LINE_RATE {
            return cannot(
                out,
                "NodesNotShown",
                format!("{lead}if nodes are full, but nothing tells which rank ran on which node"),
                &[WHERE],
            );
        }
        let few = few_rails(ratio, limit, rails);
        let (notes, remedies) = causes::slow(self.nccl, self.facts, shape, rails, few);
        out.notes = notes;
        out.remedies = remedies;
        let like_tcp = ratio < TCP_BELOW
            && ratio * limit.node <= TCP_AT_MOST
            && few.is_none()
            && by_one < TCP_BELOW
            && self.run.is_over()
            && self.network_unknown();
        if like_tcp {
            out.verdict = Verdict::Tcp;
            out.reason = "TcpByNumber";
            out.summary = format!(
                "{lead}as TCP gives; by the number alone, no log beside it says which network was used"
            );
        } else {
            out.verdict = Verdict::Below;
            out.reason = "BelowLineRate";
            out.summary = lead.trim_end_matches([',', ' ']).to_string();
        }
    }

    /// A good number of a run that died under way: what would have come next is what failed.
    fn unfinished(&self, out: &mut BenchVerdict, lead: &str) {
        out.verdict = Verdict::Unknown;
        out.reason = "Unfinished";
        let last = self.run.rows.last().map_or(0, |row| row.size);
        out.summary = format!("{lead}but {NO_END}; its last size is {last} bytes");
        if let Some((_, text)) = &self.run.failure {
            out.summary.push_str(": ");
            out.summary.push_str(text);
        }
        out.remedies.push("See what ended it: the launcher's last lines, the pod's state (OOMKilled, Evicted, a deadline), the kernel log of its nodes (selvage kmsg); then run it to its end. Of a whole run give the whole output.".into());
    }

    /// What a good number does not prove.
    fn praise(&self, out: &mut BenchVerdict, collective: Collective, limit: Limit, best: f64) {
        let ratio = best / limit.expected;
        if limit.ceiling > limit.expected * TOLERANCE && !self.facts.ring {
            let least = 100.0 * best / limit.ceiling;
            let how = if self.facts.in_network && collective == Collective::AllReduce {
                "a reduction in the network (SHARP) and algorithms that know of nodes (Tree, NVLSTree) send less over the rails than a ring does"
            } else {
                "algorithms that know of nodes (Tree, NVLSTree, PAT) send less over the rails than a ring does"
            };
            if least < 100.0 * LINE_RATE {
                out.notes.push(format!(
                    "with so few nodes {how}: for sure it proves {least:.0} % of the rails; NCCL_ALGO=Ring proves all"
                ));
            }
        }
        if ratio > TOLERANCE && out.notes.is_empty() {
            out.notes.push("more than a ring can: Tree, NVLSTree or a reduction in the network (SHARP, up to twice) sends less over the rails".into());
        }
        if let Some(nccl) = self.nccl
            && nccl.gdrdma == Some(false)
            && matches!(
                nccl.network,
                Network::Ib | Network::Roce | Network::IbOrRoce
            )
        {
            out.notes
                .push("without GPUDirect RDMA, all the same".into());
        }
    }

    /// The log proves TCP between nodes.
    fn tcp_by_log(&self) -> Option<&NcclVerdict> {
        self.nccl.filter(|nccl| {
            matches!(nccl.tcp_fallback, Fallback::Yes | Fallback::Configured)
                || nccl.network == Network::Socket
        })
    }

    fn network_unknown(&self) -> bool {
        self.nccl
            .is_none_or(|nccl| matches!(nccl.network, Network::Unknown | Network::None))
    }
}
