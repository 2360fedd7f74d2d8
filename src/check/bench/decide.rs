//! Chooses verdict, reason, words and remedies.

use super::causes;
use super::topology::Topology;
use super::verdict::{BenchVerdict, LogFacts, Peak, Verdict, lowest_beyond_best};
use super::{FALL, LARGE, LINE_RATE, Limit, TOLERANCE};
use crate::check::nccl::{EvidenceLine, Fallback, NcclVerdict, Network};
use crate::observe::bench::{Collective, Rails, Run};

const NO_END: &str =
    "the run did not complete (neither Out of bounds values nor Avg bus bandwidth was printed)";

const NO_COUNT: &str = "the column #wrong does not hold a count (-3, nan)";

const WHOLE_OUTPUT: &str = "Give the whole output, apart from NCCL's lines, which cut into it: NCCL_DEBUG_FILE=/tmp/nccl.%h.%p, and that file as a second part of the input (cat).";

/// What to do, by reason code.
fn remedy(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "WrongResults" => {
            "Take the node out of use and find the one that computes or moves data wrongly: run pairs of nodes, then each alone; check Xids (selvage check), memory errors (nvidia-smi -q -d ECC), NCCL's version, and GPUDirect with an IOMMU or ACS on."
        }
        "SeparateRuns" => {
            "Build nccl-tests with MPI=1 and start it by mpirun or srun --mpi=pmix: only then do processes join into one communicator."
        }
        "TestFailed" => "selvage nccl on its log (NCCL_DEBUG=INFO) names what failed.",
        "NodesNotShown" => {
            "Give the header of the output too (# Rank … on HOST …), or NCCL's log (NCCL_DEBUG=INFO)."
        }
        "RanksUnclear" => {
            "Give NCCL's log too (NCCL_DEBUG=INFO): it names the number of ranks. If --collective names another benchmark than the one that ran, correct it."
        }
        "OneNode" => "Run it on two or more nodes, one rank for each GPU.",
        "TcpInLog" => {
            "selvage nccl on this log says what led to TCP; remove what asks for it (NCCL_NET=Socket, NCCL_IB_DISABLE=1), and give the pod its RDMA devices."
        }
        "OnlySmallSizes" | "NoRows" => "Run it up to large sizes: -b 8 -e 8G -f 2.",
        "CollectiveNotNamed" => {
            "Name it: --collective alltoall, --collective all_gather or another (its program's name without _perf); their limits differ much."
        }
        "NvlinkBetweenNodes" => "Measure the rails with NCCL_MNNVL_ENABLE=0.",
        "RailsNotKnown" => {
            "Name them: --rails 8 --rate-gbps 400, or --node-report FILE with a node's /report (curl -s http://NODE:9949/report); on a GPU node of the test neither is needed."
        }
        "NotJudged" => "Judge the rails by all_reduce, all_gather, reduce_scatter or alltoall.",
        "MoreThanTheRails" => {
            "Give the rails that these nodes have (--rails, --rate-gbps, --node-report); if NVLink joins the nodes (MNNVL), rails do not limit them."
        }
        "RailsOfAGpuNotKnown" => {
            "Run one rank for each GPU, or give the number of GPUs of a node: --gpus N."
        }
        "FallsWithSize" => {
            "What lasts longer is slower: run large sizes alone and for minutes (-b 1G -e 8G -n 200) and meanwhile watch PFC pauses, congestion marks and retransmissions (selvage check), and throttling of GPUs and NICs (nvidia-smi -q -d PERFORMANCE)."
        }
        "Unfinished" => {
            "Find what ended it: the launcher's last lines, the pod's state (OOMKilled, Evicted, a deadline), the kernel log of its nodes (selvage kmsg); then run it to its end, and give the whole output."
        }
        "ResultsUnclear" => "Run it again with -c 1, and give its output unchanged.",
        _ => return None,
    })
}

/// What is decided about a run.
pub(super) struct Decision {
    verdict: Verdict,
    reason: &'static str,
    summary: String,
    notes: Vec<String>,
    remedies: Vec<String>,
    /// The row to which bandwidth falls, with its part of line rate.
    fall: Option<(Peak, f64)>,
}

impl Decision {
    fn new(verdict: Verdict, reason: &'static str, summary: impl Into<String>) -> Self {
        Decision {
            verdict,
            reason,
            summary: summary.into(),
            notes: Vec::new(),
            remedies: remedy(reason).map(str::to_string).into_iter().collect(),
            fall: None,
        }
    }

    fn unknown(reason: &'static str, summary: impl Into<String>) -> Self {
        Decision::new(Verdict::Unknown, reason, summary)
    }

    pub(super) fn apply(self, out: &mut BenchVerdict) {
        (out.verdict, out.reason, out.summary) = (self.verdict, self.reason, self.summary);
        (out.notes, out.remedies) = (self.notes, self.remedies);
        if let Some((low, ratio)) = self.fall {
            let (gb, size) = (gigabytes(low.bytes_per_second), low.size_bytes);
            let text = format!("busbw {gb} at {size} bytes, the better side");
            out.evidence.push(EvidenceLine {
                line: low.line,
                text,
            });
            out.ratio = Some(ratio);
        }
    }
}

/// Everything known about a run.
pub(super) struct Case<'a> {
    pub run: &'a Run,
    pub rails: Option<&'a Rails>,
    pub nccl: Option<&'a NcclVerdict>,
    /// The same, if it proves TCP between nodes.
    pub tcp: Option<&'a NcclVerdict>,
    pub facts: &'a LogFacts,
    pub topology: Option<&'a Topology>,
    /// Why the list of ranks is in doubt.
    pub unclear: Option<String>,
    pub collective: Option<Collective>,
    pub limit: Option<Limit>,
    /// Best bus bandwidth of large messages.
    pub best: Option<f64>,
}

impl Case<'_> {
    fn name(&self) -> &'static str {
        self.collective.map_or("the benchmark", Collective::as_str)
    }

    /// The beginning of a summary: `all_reduce: 2.10 GB/s of 400 GB/s (0.5 %)`.
    fn figures(&self) -> String {
        let name = self.name();
        let Some(best) = self.best else {
            return name.into();
        };
        let best_text = gigabytes(best);
        let Some(limit) = self.limit else {
            return format!("{name}: {best_text}");
        };
        let percent = 100.0 * best / limit.expected;
        let digits = usize::from(percent < 10.0);
        let least = if limit.least { "at least " } else { "" };
        let expected = gigabytes(limit.expected);
        format!("{name}: {best_text} of {least}{expected} ({percent:.digits$} %)")
    }

    /// The figures and what follows from them.
    fn sentence(&self, rest: &str) -> String {
        let mark = if self.best.is_some() { "," } else { ":" };
        format!("{}{mark} {rest}", self.figures())
    }

    pub fn decide(&self) -> Decision {
        let name = self.name();
        if let Some(wrong) = self.run.wrong().filter(|wrong| *wrong > 0) {
            let summary = format!("{name}: {wrong} wrong results, whatever the speed");
            return Decision::new(Verdict::WrongResults, "WrongResults", summary);
        }
        if self.run.separate {
            let why = "rank numbers appear twice: each process ran a test of its own";
            return Decision::unknown("SeparateRuns", format!("{name}: {why}"));
        }
        if let (Some((_, text)), None, None) = (&self.run.failure, self.best, self.tcp) {
            let summary = format!("{name} failed before a large size was measured: {text}");
            return Decision::unknown("TestFailed", summary);
        }
        let Some(topology) = self.topology else {
            let why = self.sentence("nothing shows which rank ran on which node");
            return Decision::unknown("NodesNotShown", why);
        };
        if let Some(why) = &self.unclear {
            let rest = format!("how many ranks ran on each node is not clear: {why}");
            let mut decision = Decision::unknown("RanksUnclear", self.sentence(&rest));
            decision.remedies.insert(0, WHOLE_OUTPUT.into());
            return decision;
        }
        if topology.nodes.len() < 2 {
            let (n, s) = (topology.nranks, if topology.nranks == 1 { "" } else { "s" });
            let rest = format!(
                "inside one node ({n} rank{s}): NVLink, PCIe and memory are measured, no rail is used"
            );
            return Decision::unknown("OneNode", self.sentence(&rest));
        }
        match (self.tcp, self.best) {
            (Some(nccl), _) => self.tcp_in_log(nccl),
            (None, Some(best)) => self.compare(topology, best),
            (None, None) => self.without_large_sizes(),
        }
    }

    fn tcp_in_log(&self, nccl: &NcclVerdict) -> Decision {
        let summary = self.sentence("NCCL's log shows TCP between nodes");
        let mut decision = Decision::new(Verdict::Tcp, "TcpInLog", summary);
        if !nccl.remedies.is_empty() {
            decision.remedies = nccl.remedies.iter().take(4).cloned().collect();
        }
        if nccl.tcp_fallback == Fallback::Configured {
            decision.notes.push("a setting asks for TCP".into());
        }
        decision
    }

    fn without_large_sizes(&self) -> Decision {
        let (name, torn) = (self.name(), self.run.torn_rows > 0);
        let Some(most) = self.run.rows.iter().map(|row| row.size).max() else {
            let why = if torn {
                "no row of the table is whole"
            } else {
                "the table has no rows"
            };
            let mut decision = Decision::unknown("NoRows", format!("{name}: {why}"));
            if torn {
                decision.remedies = vec![WHOLE_OUTPUT.into()];
            }
            return decision;
        };
        let summary = format!(
            "{name}: the largest size is {most} bytes; bandwidth is judged from {LARGE} bytes on"
        );
        Decision::unknown("OnlySmallSizes", summary)
    }

    /// Compares the best bandwidth with the limit, as far as there is one.
    fn compare(&self, topology: &Topology, best: f64) -> Decision {
        let unknown = |reason, rest: &str| Decision::unknown(reason, self.sentence(rest));
        if self.collective.is_none() {
            return unknown("CollectiveNotNamed", "and nothing names the benchmark");
        }
        if self.facts.mnnvl {
            let rest = "NVLink joins these nodes (MNNVL): rails do not limit them";
            return unknown("NvlinkBetweenNodes", rest);
        }
        let Some(rails) = self.rails else {
            return unknown(
                "RailsNotKnown",
                "what the nodes' rails can carry is not known",
            );
        };
        let Some(limit) = self.limit else {
            let rest = "the rails alone set no limit for this benchmark";
            return unknown("NotJudged", rest);
        };
        // SHARP: every node sends and receives the data once.
        let in_network = limit.expected * 2.0 * (1.0 - 1.0 / f64::from(topology.nranks));
        let most = match self.collective {
            Some(Collective::AllReduce) => limit.ceiling.max(in_network),
            _ => limit.ceiling,
        };
        if best > most * TOLERANCE && !limit.least {
            let rest = format!(
                "more than {} rails of {} can carry",
                rails.count, rails.rate
            );
            return unknown("MoreThanTheRails", &rest);
        }
        if best / limit.expected < LINE_RATE {
            return self.below(topology, rails, limit, best);
        }
        let node_rate = rails.rate.bytes_per_sec() * f64::from(rails.count);
        if limit.least && best < node_rate * LINE_RATE {
            let rest = format!(
                "a node has fewer ranks ({}) than rails ({}), and how many rails a GPU has is not known",
                topology.fewest_ranks(),
                rails.count
            );
            return unknown("RailsOfAGpuNotKnown", &rest);
        }
        self.line_rate(limit, best)
    }

    fn below(&self, topology: &Topology, rails: &Rails, limit: Limit, best: f64) -> Decision {
        let (notes, remedies) =
            causes::of_low_bandwidth(self.nccl, self.facts, topology, rails, limit, best);
        Decision {
            notes,
            remedies,
            ..Decision::new(Verdict::Below, "BelowLineRate", self.figures())
        }
    }

    /// The best message size is at line rate; the others, and the end of the run, must not spoil it.
    fn line_rate(&self, limit: Limit, best: f64) -> Decision {
        let low = lowest_beyond_best(self.run)
            .filter(|low| low.bytes_per_second < best * FALL)
            .filter(|low| low.bytes_per_second < limit.expected * LINE_RATE);
        if let Some(low) = low {
            let gb = gigabytes(low.bytes_per_second);
            let rest = format!("but it falls to {gb} at {} bytes", low.size_bytes);
            return Decision {
                fall: Some((low, low.bytes_per_second / limit.expected)),
                ..Decision::new(Verdict::Below, "FallsWithSize", self.sentence(&rest))
            };
        }
        let failure = self.run.failure.as_ref().map(|(_, text)| text);
        let mut decision = if !self.run.is_over() {
            let last = self.run.rows.last().map_or(0, |row| row.size);
            let cause = failure.map_or(String::new(), |text| format!(": {text}"));
            let rest = format!("but {NO_END}; its last size is {last} bytes{cause}");
            Decision::unknown("Unfinished", self.sentence(&rest))
        } else if let Some(text) = failure {
            let rest = format!("but the test failed: {text}");
            Decision::unknown("TestFailed", self.sentence(&rest))
        } else if self.run.uncounted > 0 {
            let rest = format!("but whether the results are right is not known: {NO_COUNT}");
            Decision::unknown("ResultsUnclear", self.sentence(&rest))
        } else {
            Decision::new(Verdict::LineRate, "LineRate", self.figures())
        };
        decision.notes = self.notes_on_line_rate(limit, best);
        decision
    }

    /// What a good bandwidth does not prove.
    fn notes_on_line_rate(&self, limit: Limit, best: f64) -> Vec<String> {
        let mut notes = Vec::new();
        let least = best / limit.ceiling;
        if limit.ceiling > limit.expected * TOLERANCE && !self.facts.ring && least < LINE_RATE {
            let sharp = self.facts.in_network && self.collective == Some(Collective::AllReduce);
            let how = if sharp {
                "reduction in the switches (SHARP) and algorithms that know nodes (Tree, NVLSTree)"
            } else {
                "algorithms that know nodes (Tree, NVLSTree, PAT)"
            };
            let percent = 100.0 * least;
            notes.push(format!(
                "with so few nodes {how} send less over the rails than a ring does: this proves only {percent:.0} % of the rails; NCCL_ALGO=Ring proves all"
            ));
        }
        if best > limit.expected * TOLERANCE && notes.is_empty() {
            notes.push("more than a ring can carry: Tree, NVLSTree or reduction in the switches (SHARP, up to twice) send less over the rails".into());
        }
        let verbs = [Network::Ib, Network::Roce, Network::IbOrRoce];
        let without_gdr = |nccl: &&NcclVerdict| nccl.gdrdma == Some(false);
        if self
            .nccl
            .filter(without_gdr)
            .is_some_and(|nccl| verbs.contains(&nccl.network))
        {
            notes.push("reached without GPUDirect RDMA".into());
        }
        notes
    }

    /// Notes that go with any verdict whose reason does not already say the same.
    pub(super) fn general_notes(&self, reason: &str) -> Vec<String> {
        let (run, mut notes) = (self.run, Vec::new());
        if run.checked == Some(false) && run.wrong().is_none() && !run.rows.is_empty() {
            notes.push(
                "results were not checked (-c 0), so they may be wrong; run it once with -c 1"
                    .into(),
            );
        }
        if run.uncounted > 0 && reason != "ResultsUnclear" {
            notes.push(NO_COUNT.into());
        }
        if run.torn_rows > 0 {
            notes.push(format!(
                "{} of the table's rows are left out: cut by other lines, or their figures disagree",
                run.torn_rows
            ));
        }
        if !run.is_over() && !run.rows.is_empty() && reason != "Unfinished" {
            notes.push(format!("{NO_END}: larger sizes may be missing"));
        }
        notes
    }

    /// Adds the lines that the verdict rests on.
    pub(super) fn add_evidence(&self, out: &mut BenchVerdict) {
        let peaks = [
            (out.out_of_place, "out of place"),
            (out.in_place, "in place"),
        ];
        let best = peaks.iter().find_map(|(peak, side)| {
            let peak = (*peak)?;
            (Some(peak.bytes_per_second) == self.best).then_some((peak, side))
        });
        out.evidence.extend(best.map(|(peak, side)| {
            let (gb, size) = (gigabytes(peak.bytes_per_second), peak.size_bytes);
            EvidenceLine {
                line: peak.line,
                text: format!("busbw {gb} {side} at {size} bytes"),
            }
        }));
        let failure = self.run.failure.clone();
        out.evidence
            .extend(failure.map(|(line, text)| EvidenceLine { line, text }));
        // A good result needs no explanation from the log.
        if let (Verdict::Tcp | Verdict::Below, Some(nccl)) = (out.verdict, self.nccl) {
            out.evidence.extend(nccl.evidence.iter().take(6).cloned());
        }
        out.evidence.sort_by_key(|line| line.line);
    }
}

/// GB/s for people: 1 GB is 1e9 bytes, as in the table.
fn gigabytes(bytes: f64) -> String {
    let gb = bytes / 1e9;
    let digits = if gb >= 100.0 {
        0
    } else {
        1 + usize::from(gb < 10.0)
    };
    format!("{gb:.digits$} GB/s")
}
