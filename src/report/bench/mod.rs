//! Verdicts on benchmarks: as JSON, for people, and as a text file of metrics.

pub mod textfile;

use super::text::Style;
use super::text::writer::{Colour, Page};
use crate::check::bench::{BenchVerdict, Verdict};
use crate::check::nccl::{NcclVerdict, Network};
use crate::observe::bench::Rails;
use serde::Serialize;

/// Name and version of the form.
pub const SCHEMA: &str = "selvage.dev/bench/v1";

/// One input and what its runs come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    /// File, or `-`.
    pub name: String,
    /// Its runs, at least one: a verdict that there is none.
    pub runs: Vec<BenchVerdict>,
    /// The verdict on the NCCL log in it; none where no line is NCCL's.
    pub nccl: Option<NcclVerdict>,
}

/// All inputs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bench {
    /// What the runs are measured against.
    pub rails: Option<Rails>,
    /// In the order given.
    pub inputs: Vec<Input>,
}

impl Bench {
    /// All runs.
    pub fn runs(&self) -> impl Iterator<Item = &BenchVerdict> {
        self.inputs.iter().flat_map(|input| &input.runs)
    }

    /// The worst verdict: one bad run is enough, and what cannot be told is no line rate.
    pub fn verdict(&self) -> Verdict {
        let worst = self.runs().map(|run| run.verdict).max();
        worst.unwrap_or(Verdict::Unknown)
    }
}

/// `selvage nccl --bench -o json`: one object, one line.
pub fn json(bench: &Bench) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        verdict: Verdict,
        rails: &'a Option<Rails>,
        inputs: &'a [Input],
    }
    let document = Document {
        schema: SCHEMA,
        verdict: bench.verdict(),
        rails: &bench.rails,
        inputs: &bench.inputs,
    };
    let mut text = serde_json::to_string(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// For people.
pub fn text(bench: &Bench, style: Style) -> String {
    let mut page = Page {
        out: String::new(),
        width: style.width.clamp(40, 160),
        colour: style.colour,
    };
    let several = bench.inputs.len() > 1;
    let mut first = true;
    for input in &bench.inputs {
        for run in &input.runs {
            if !first {
                page.line("");
            }
            first = false;
            one(&mut page, run, input, bench.rails.as_ref(), several);
        }
    }
    page.out
}

fn one(page: &mut Page, run: &BenchVerdict, input: &Input, rails: Option<&Rails>, named: bool) {
    let (colour, word) = match run.verdict {
        Verdict::LineRate => (Colour::Green, "LINE RATE".to_string()),
        Verdict::Below => (Colour::Yellow, below(run)),
        Verdict::Tcp => (Colour::Red, "TCP'S NUMBER".into()),
        Verdict::WrongResults => (Colour::Red, "WRONG RESULTS".into()),
        Verdict::Unknown => (Colour::Magenta, "CANNOT TELL".into()),
    };
    let name = match input.name.as_str() {
        "-" => "standard input: ",
        name if named => &format!("{name}: "),
        _ => "",
    };
    let lead = format!("{}  ", page.paint(colour, &word));
    page.wrapped(&lead, 2, &format!("{name}{}", run.summary));
    let facts = facts(run, input, rails);
    if !facts.is_empty() {
        page.wrapped("  ", 2, &facts.join("; "));
    }
    for line in &run.evidence {
        page.wrapped(&format!("  {:>7}  ", line.line), 11, &line.text);
    }
    for note in &run.notes {
        page.wrapped("  note: ", 8, note);
    }
    for remedy in &run.remedies {
        page.wrapped("  -> ", 5, remedy);
    }
}

fn below(run: &BenchVerdict) -> String {
    match run.ratio {
        Some(ratio) => format!("{:.0} % OF LINE RATE", 100.0 * ratio),
        None => "BELOW LINE RATE".into(),
    }
}

fn facts(run: &BenchVerdict, input: &Input, rails: Option<&Rails>) -> Vec<String> {
    let mut facts = Vec::new();
    if let (Some(nranks), Some(nodes)) = (run.nranks, run.nodes) {
        let s = |n: u32| if n == 1 { "" } else { "s" };
        facts.push(format!(
            "{nranks} rank{} on {nodes} node{}",
            s(nranks),
            s(nodes)
        ));
    }
    if let Some(rails) = rails {
        let fastest = match rails.fastest {
            Some(fastest) => format!(" (the slowest; the fastest {fastest})"),
            None => String::new(),
        };
        facts.push(format!(
            "{} rail{} of {}{fastest} by {}",
            rails.count,
            if rails.count == 1 { "" } else { "s" },
            rails.rate,
            rails.from
        ));
    }
    if let Some(nccl) = &input.nccl {
        let version = nccl.nccl_version.as_deref().unwrap_or("log");
        let gdr = match nccl.gdrdma {
            _ if nccl.network == Network::Socket => "",
            Some(true) => " with GPUDirect RDMA",
            Some(false) => " without GPUDirect RDMA",
            None => "",
        };
        if nccl.network != Network::Unknown {
            let network = match nccl.network {
                Network::Socket => "tcp",
                other => other.as_str(),
            };
            facts.push(format!("NCCL {version} over {network}{gdr}"));
        }
    }
    if run.collective_inferred {
        facts.push("the benchmark is named by its figures".into());
    }
    facts
}

#[cfg(test)]
mod tests;
