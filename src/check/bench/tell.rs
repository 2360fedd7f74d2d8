//! Words and lines that a verdict rests on.

use super::decide::Ask;
use super::verdict::{BenchVerdict, Verdict};
use crate::check::nccl::EvidenceLine;
use crate::observe::bench::Collective;

impl Ask<'_> {
    /// How a sentence about the run begins: `all_reduce: 2.10 GB/s of 400 GB/s (0.5 %), `.
    pub(super) fn lead(&self, out: &BenchVerdict) -> String {
        let name = self.collective.map_or("the benchmark", Collective::as_str);
        match self.figure(out) {
            figure if figure.is_empty() => format!("{name}: "),
            figure => format!("{name}:{figure}, "),
        }
    }

    /// ` 2.10 GB/s of 400 GB/s (0.5 %)`, as far as known.
    fn figure(&self, out: &BenchVerdict) -> String {
        let Some(best) = out.bus_bandwidth_bytes_per_second else {
            return String::new();
        };
        let unit = gigabytes(best);
        match (out.expected_bytes_per_second, out.ratio) {
            (Some(expected), Some(ratio)) => {
                let percent = 100.0 * ratio;
                let digits = usize::from(percent < 10.0);
                let least = if self.limit.is_some_and(|limit| limit.least) {
                    "at least "
                } else {
                    ""
                };
                format!(
                    " {unit} of {least}{} ({percent:.digits$} %)",
                    gigabytes(expected)
                )
            }
            _ => format!(" {unit}"),
        }
    }

    pub fn evidence(&self, out: &mut BenchVerdict) {
        let best = out.bus_bandwidth_bytes_per_second;
        let peaks = [
            (out.out_of_place, "out of place"),
            (out.in_place, "in place"),
        ];
        let peak = peaks
            .into_iter()
            .filter_map(|(peak, side)| Some((peak?, side)))
            .find(|(peak, _)| Some(peak.bytes_per_second) == best);
        if let Some((peak, side)) = peak {
            let text = format!(
                "busbw {} {side} at {} bytes",
                gigabytes(peak.bytes_per_second),
                peak.size_bytes
            );
            out.evidence.push(EvidenceLine {
                line: peak.line,
                text,
            });
        }
        if let Some((line, text)) = &self.run.failure {
            let (line, text) = (*line, text.clone());
            out.evidence.push(EvidenceLine { line, text });
        }
        out.evidence.sort_by_key(|line| line.line);
        // Why a run is good needs no log.
        if let (Verdict::Tcp | Verdict::Below, Some(nccl)) = (out.verdict, self.nccl) {
            out.evidence.extend(nccl.evidence.iter().take(6).cloned());
            out.evidence.sort_by_key(|line| line.line);
        }
    }
}

/// As people read it: 1 GB is 1e9 bytes, as in the table.
pub(super) fn gigabytes(bytes: f64) -> String {
    let gb = bytes / 1e9;
    if gb >= 100.0 {
        format!("{gb:.0} GB/s")
    } else if gb >= 10.0 {
        format!("{:.1} GB/s", gb)
    } else {
        format!("{gb:.2} GB/s")
    }
}
