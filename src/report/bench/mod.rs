//! Benchmark verdicts as JSON, as text for people, and as metrics in a text file.

pub mod textfile;

use super::text::{Colour, Page, Style, count};
use crate::check::bench::{BenchVerdict, Grade};
use crate::check::nccl::{NcclVerdict, Network};
use crate::observe::bench::Rails;
use serde::Serialize;

/// Name and version of the JSON schema.
pub const SCHEMA: &str = "selvage.dev/bench/v1";

/// One input and the verdicts on its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchInput {
    /// File name, or `-` for standard input.
    pub name: String,
    /// The verdict on each run; one that says `NoTable` if there is none.
    pub runs: Vec<BenchVerdict>,
    /// The verdict on NCCL's log in the same input, if it has lines of NCCL's.
    pub nccl: Option<NcclVerdict>,
}

/// The verdicts on all inputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bench {
    schema: &'static str,
    /// The worst verdict. Unknown is worse than line rate.
    pub verdict: Grade,
    /// The rails that the runs are measured against.
    pub rails: Option<Rails>,
    /// The inputs, in the order given.
    pub inputs: Vec<BenchInput>,
}

impl Bench {
    /// The verdicts, and the worst of them.
    pub fn new(rails: Option<Rails>, inputs: Vec<BenchInput>) -> Self {
        let runs = inputs.iter().flat_map(|input| &input.runs);
        Bench {
            schema: SCHEMA,
            verdict: runs.map(|run| run.verdict).max().unwrap_or_default(),
            rails,
            inputs,
        }
    }
}

/// `selvage nccl --bench -o json`: one object, one line.
pub fn json(bench: &Bench) -> String {
    serde_json::to_string(bench).unwrap_or_default() + "\n"
}

/// `selvage nccl --bench` as text for people.
pub fn text(bench: &Bench, style: Style) -> String {
    let mut page = Page::new(style, 160);
    let several = bench.inputs.len() > 1;
    for input in &bench.inputs {
        for run in &input.runs {
            if !page.out.is_empty() {
                page.line("");
            }
            print(&mut page, run, input, bench.rails.as_ref(), several);
        }
    }
    page.out
}

fn print(page: &mut Page, run: &BenchVerdict, of: &BenchInput, rails: Option<&Rails>, named: bool) {
    let share = |ratio| format!("{:.0} % OF LINE RATE", 100.0 * ratio);
    let below = run.ratio.map_or("BELOW LINE RATE".into(), share);
    let (colour, word) = match run.verdict {
        Grade::LineRate => (Colour::Green, "LINE RATE".to_string()),
        Grade::Below => (Colour::Yellow, below),
        Grade::Tcp => (Colour::Red, "TCP'S NUMBER".into()),
        Grade::WrongResults => (Colour::Red, "WRONG RESULTS".into()),
        Grade::Unknown => (Colour::Magenta, "CANNOT TELL".into()),
    };
    let name = match of.name.as_str() {
        "-" => "standard input: ",
        name if named => &format!("{name}: "),
        _ => "",
    };
    let ranks = run.nranks.zip(run.nodes);
    let ranks =
        ranks.map(|(ranks, nodes)| format!("{} on {}", count(ranks, "rank"), count(nodes, "node")));
    let network = of.nccl.as_ref().and_then(network);
    let facts = [ranks, rails.map(rails_text), network];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    page.verdict((colour, &word), &format!("{name}{}", run.summary), &facts);
    page.grounds(&run.evidence, &run.notes, &run.remedies);
}

fn rails_text(rails: &Rails) -> String {
    let shown = |fastest| format!(" (the slowest; the fastest {fastest})");
    let fastest = rails.fastest.map_or(String::new(), shown);
    let number = count(rails.count, "rail");
    format!("{number} of {}{fastest} by {}", rails.rate, rails.from)
}

/// Version and network, if the log shows a network.
fn network(nccl: &NcclVerdict) -> Option<String> {
    let (network, gdr) = match (nccl.network, nccl.gdrdma) {
        (Network::Unknown, _) => return None,
        (Network::Socket, _) => ("tcp", ""),
        (other, Some(true)) => (other.as_str(), " with GPUDirect RDMA"),
        (other, Some(false)) => (other.as_str(), " without GPUDirect RDMA"),
        (other, None) => (other.as_str(), ""),
    };
    let version = nccl.nccl_version.as_deref().unwrap_or("log");
    Some(format!("NCCL {version} over {network}{gdr}"))
}

#[cfg(test)]
mod tests;
