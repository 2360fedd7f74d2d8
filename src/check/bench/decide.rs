//! Chooses verdict, reason, words and remedies.

use super::causes::{self, LogFacts};
use super::verdict::{BenchVerdict, Grade, lowest_beyond_best};
use super::{FALL, LARGE, LINE_RATE, SpeedLimit, TOLERANCE, topology::Topology};
use crate::check::nccl::{EvidenceLine, Fallback, NcclVerdict, Network};
use crate::observe::bench::{Collective, Rails, Run};
use crate::units::count;

const NO_END: &str =
    "the run did not complete (neither Out of bounds values nor Avg bus bandwidth was printed)";

const NO_COUNT: &str = "the column #wrong does not hold a count (-3, nan)";

const WHOLE_OUTPUT: &str = "Give the whole output, apart from NCCL's lines, which cut into it: NCCL_DEBUG_FILE=/tmp/nccl.%h.%p, and that file as a second part of the input (cat).";

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
    pub limit: Option<SpeedLimit>,
    /// The verdict as far as it follows from the figures alone.
    pub measured: BenchVerdict,
}

impl Case<'_> {
    /// The verdict with its notes and the lines that it rests on.
    pub fn judge(&self) -> BenchVerdict {
        let mut verdict = self.decide();
        verdict.notes.extend(self.general_notes(verdict.reason));
        self.add_evidence(&mut verdict);
        verdict
    }

    fn verdict(&self, verdict: Grade, reason: &'static str, summary: String) -> BenchVerdict {
        BenchVerdict {
            verdict,
            reason,
            summary,
            remedies: Vec::from_iter(super::remedy(reason).map(str::to_string)),
            ..self.measured.clone()
        }
    }

    /// An undecided verdict; `rest` says why, after the figures.
    fn unknown(&self, reason: &'static str, rest: &str) -> BenchVerdict {
        self.verdict(Grade::Unknown, reason, self.sentence(rest))
    }

    fn best(&self) -> Option<f64> {
        self.measured.bus_bandwidth_bytes_per_second
    }

    fn name(&self) -> String {
        (self.measured.collective).map_or("the benchmark".into(), |name| name.as_str().into())
    }

    /// The beginning of a summary: `all_reduce: 2.10 GB/s of 400 GB/s (0.5 %)`.
    fn figures(&self) -> String {
        let name = self.name();
        match (self.best().map(gigabytes), self.limit, self.measured.ratio) {
            (Some(best), Some(limit), Some(ratio)) => {
                let percent = 100.0 * ratio;
                let digits = usize::from(percent < 10.0);
                let least = if limit.least { "at least " } else { "" };
                let expected = gigabytes(limit.expected);
                format!("{name}: {best} of {least}{expected} ({percent:.digits$} %)")
            }
            (Some(best), ..) => format!("{name}: {best}"),
            (None, ..) => name,
        }
    }

    /// The figures and what follows from them.
    fn sentence(&self, rest: &str) -> String {
        let mark = if self.best().is_some() { "," } else { ":" };
        format!("{}{mark} {rest}", self.figures())
    }

    fn decide(&self) -> BenchVerdict {
        let name = self.name();
        let cannot_tell = |reason, summary| self.verdict(Grade::Unknown, reason, summary);
        if let Some(wrong) = self.run.wrong().filter(|wrong| *wrong > 0) {
            let summary = format!("{name}: {wrong} wrong results, whatever the speed");
            return self.verdict(Grade::WrongResults, "WrongResults", summary);
        }
        if self.run.separate {
            let why = "rank numbers appear twice: each process ran a test of its own";
            return cannot_tell("SeparateRuns", format!("{name}: {why}"));
        }
        if let (Some((_, text)), None, None) = (&self.run.failure, self.best(), self.tcp) {
            let summary = format!("{name} failed before a large size was measured: {text}");
            return cannot_tell("TestFailed", summary);
        }
        let Some(topology) = self.topology else {
            let why = "nothing shows which rank ran on which node";
            return self.unknown("NodesNotShown", why);
        };
        if let Some(why) = &self.unclear {
            let rest = format!("how many ranks ran on each node is not clear: {why}");
            let mut verdict = self.unknown("RanksUnclear", &rest);
            verdict.remedies.insert(0, WHOLE_OUTPUT.into());
            return verdict;
        }
        if topology.nodes.len() < 2 {
            let ranks = count(topology.nranks, "rank");
            let rest = format!(
                "inside one node ({ranks}): NVLink, PCIe and memory are measured, no rail is used"
            );
            return self.unknown("OneNode", &rest);
        }
        match (self.tcp, self.best()) {
            (Some(nccl), _) => self.tcp_in_log(nccl),
            (None, Some(best)) => self.compare(topology, best),
            (None, None) => self.without_large_sizes(),
        }
    }

    fn tcp_in_log(&self, nccl: &NcclVerdict) -> BenchVerdict {
        let summary = self.sentence("NCCL's log shows TCP between nodes");
        let mut verdict = self.verdict(Grade::Tcp, "TcpInLog", summary);
        if !nccl.remedies.is_empty() {
            verdict.remedies = nccl.remedies.iter().take(4).cloned().collect();
        }
        if nccl.tcp_fallback == Fallback::Configured {
            verdict.notes.push("a setting asks for TCP".into());
        }
        verdict
    }

    fn without_large_sizes(&self) -> BenchVerdict {
        match self.run.rows.iter().map(|row| row.size).max() {
            Some(most) => {
                let from = format!("bandwidth is judged from {LARGE} bytes on");
                let rest = format!("the largest size is {most} bytes; {from}");
                self.unknown("OnlySmallSizes", &rest)
            }
            None if self.run.torn_rows > 0 => BenchVerdict {
                remedies: vec![WHOLE_OUTPUT.into()],
                ..self.unknown("NoRows", "no row of the table is whole")
            },
            None => self.unknown("NoRows", "the table has no rows"),
        }
    }

    /// Compares the best bandwidth with the limit, as far as there is one.
    fn compare(&self, topology: &Topology, best: f64) -> BenchVerdict {
        let collective = self.measured.collective;
        if collective.is_none() {
            return self.unknown("CollectiveNotNamed", "and nothing names the benchmark");
        }
        if self.facts.mnnvl {
            let rest = "NVLink joins these nodes (MNNVL): rails do not limit them";
            return self.unknown("NvlinkBetweenNodes", rest);
        }
        let Some(rails) = self.rails else {
            let rest = "what the nodes' rails can carry is not known";
            return self.unknown("RailsNotKnown", rest);
        };
        let Some(limit) = self.limit else {
            let rest = "the rails alone set no limit for this benchmark";
            return self.unknown("NotJudged", rest);
        };
        // SHARP: every node sends and receives the data once.
        let in_network = limit.expected * 2.0 * (1.0 - 1.0 / f64::from(topology.nranks));
        let most = match collective {
            Some(Collective::AllReduce) => limit.ceiling.max(in_network),
            _ => limit.ceiling,
        };
        let (count, rate) = (rails.count, rails.rate);
        if best > most * TOLERANCE && !limit.least {
            let rest = format!("more than {count} rails of {rate} can carry");
            return self.unknown("MoreThanTheRails", &rest);
        }
        let ratio = best / limit.expected;
        if ratio < LINE_RATE {
            let (notes, remedies) = causes::of_low_bandwidth(self, rails, ratio);
            return BenchVerdict {
                notes,
                remedies,
                ..self.verdict(Grade::Below, "BelowLineRate", self.figures())
            };
        }
        if limit.least && best < rate.bytes_per_sec() * f64::from(count) * LINE_RATE {
            let ranks = topology.fewest_ranks();
            let rest = format!(
                "a node has fewer ranks ({ranks}) than rails ({count}), and how many rails a GPU has is not known"
            );
            return self.unknown("RailsOfAGpuNotKnown", &rest);
        }
        self.line_rate(limit, best)
    }

    /// The best message size is at line rate; the others, and the end of the run, must not spoil it.
    fn line_rate(&self, limit: SpeedLimit, best: f64) -> BenchVerdict {
        let is_low = |low: f64| low < best * FALL && low < limit.expected * LINE_RATE;
        let low = lowest_beyond_best(self.run).filter(|low| is_low(low.bytes_per_second));
        if let Some(low) = low {
            let (gb, size) = (gigabytes(low.bytes_per_second), low.size_bytes);
            let summary = self.sentence(&format!("but it falls to {gb} at {size} bytes"));
            return BenchVerdict {
                ratio: Some(low.bytes_per_second / limit.expected),
                evidence: vec![EvidenceLine {
                    line: low.line,
                    text: format!("busbw {gb} at {size} bytes, the better side"),
                }],
                ..self.verdict(Grade::Below, "FallsWithSize", summary)
            };
        }
        let failure = self.run.failure.as_ref().map(|(_, text)| text);
        let less = self.rails.filter(|rails| rails.is_less);
        let verdict = if !self.run.is_over() {
            let last = self.run.rows.last().map_or(0, |row| row.size);
            let cause = failure.map_or(String::new(), |text| format!(": {text}"));
            let rest = format!("but {NO_END}; its last size is {last} bytes{cause}");
            self.unknown("Unfinished", &rest)
        } else if let Some(text) = failure {
            self.unknown("TestFailed", &format!("but the test failed: {text}"))
        } else if self.run.uncounted > 0 {
            let rest = format!("but whether the results are right is not known: {NO_COUNT}");
            self.unknown("ResultsUnclear", &rest)
        } else if let Some(trouble) = less.and_then(|rails| rails.trouble.as_ref()) {
            let rest = format!("but the node is {trouble}: what it should carry is not known");
            self.unknown("NodeNotReady", &rest)
        } else {
            self.verdict(Grade::LineRate, "LineRate", self.figures())
        };
        BenchVerdict {
            notes: self.notes_on_line_rate(limit, best),
            ..verdict
        }
    }

    /// What a good bandwidth does not prove.
    fn notes_on_line_rate(&self, limit: SpeedLimit, best: f64) -> Vec<String> {
        let mut notes = Vec::new();
        let least = best / limit.ceiling;
        if limit.ceiling > limit.expected * TOLERANCE && !self.facts.ring && least < LINE_RATE {
            let reduces = self.measured.collective == Some(Collective::AllReduce);
            let sharp =
                "reduction in the switches (SHARP) and algorithms that know nodes (Tree, NVLSTree)";
            let how = match self.facts.in_network && reduces {
                true => sharp,
                false => "algorithms that know nodes (Tree, NVLSTree, PAT)",
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
        if let Some(nccl) = self.nccl
            && nccl.gdrdma == Some(false)
            && verbs.contains(&nccl.network)
        {
            notes.push("reached without GPUDirect RDMA".into());
        }
        notes
    }

    /// Notes that go with any verdict whose reason does not already say the same.
    fn general_notes(&self, reason: &str) -> Vec<String> {
        let (run, mut notes) = (self.run, Vec::new());
        if run.checked == Some(false) && run.wrong().is_none() && !run.rows.is_empty() {
            let unchecked = "results were not checked (-c 0), so they may be wrong";
            notes.push(format!("{unchecked}; run it once with -c 1"));
        }
        if run.uncounted > 0 && reason != "ResultsUnclear" {
            notes.push(NO_COUNT.into());
        }
        if run.torn_rows > 0 {
            let rows = format!("{} of the table's rows are left out", run.torn_rows);
            notes.push(format!(
                "{rows}: cut by other lines, or their figures disagree"
            ));
        }
        if !run.is_over() && !run.rows.is_empty() && reason != "Unfinished" {
            notes.push(format!("{NO_END}: larger sizes may be missing"));
        }
        notes
    }

    /// Adds the lines that the verdict rests on.
    fn add_evidence(&self, out: &mut BenchVerdict) {
        let sides = ["out of place", "in place"].into_iter();
        let mut sides = sides.zip([out.out_of_place, out.in_place]);
        let best = sides.find_map(|(side, peak)| {
            let peak = peak.filter(|peak| Some(peak.bytes_per_second) == self.best())?;
            let (gb, size) = (gigabytes(peak.bytes_per_second), peak.size_bytes);
            Some(EvidenceLine {
                line: peak.line,
                text: format!("busbw {gb} {side} at {size} bytes"),
            })
        });
        out.evidence.extend(best);
        let failure = (self.run.failure.clone()).map(|(line, text)| EvidenceLine { line, text });
        out.evidence.extend(failure);
        // A good result needs no explanation from the log.
        if let (Grade::Tcp | Grade::Below, Some(nccl)) = (out.verdict, self.nccl) {
            out.evidence.extend(nccl.evidence.iter().take(6).cloned());
        }
        out.evidence.sort_by_key(|line| line.line);
    }
}

/// GB/s for people: 1 GB is 1e9 bytes, as in the table.
fn gigabytes(bytes: f64) -> String {
    let gb = bytes / 1e9;
    let digits = match gb {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{gb:.digits$} GB/s")
}
