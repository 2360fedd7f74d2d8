//! Every metric family that the agent can export, from `catalogue.toml`: the one table that the
//! encoder, `docs/metrics.md` and the tests read.

use crate::data_files::embedded;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// Type of the family, as `# TYPE` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Only rises, but for resets.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

/// How much is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// What alerts and dashboards need: at most 600 series on a node with 18 ports.
    #[default]
    Default,
    /// Everything that was read: at most 2,000.
    Full,
}

/// A metric family: its name, type, labels and help.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Full name with the prefix `selvage_`.
    pub name: &'static str,
    /// Help text, as `# HELP` and docs/metrics.md print it.
    pub help: &'static str,
    /// Type of the family, as `# TYPE` prints it.
    #[serde(rename = "type")]
    pub kind: MetricKind,
    /// Label names in the order of their values.
    #[serde(borrow, default)]
    pub labels: Vec<&'static str>,
    /// From which detail on it is exported.
    #[serde(default)]
    pub detail: Detail,
}

/// All families, by subject; the exposition is sorted by name.
pub static CATALOGUE: LazyLock<Vec<Family>> = LazyLock::new(|| table("family"));

/// Families of the text file that `selvage nccl --bench` writes.
pub static BENCHMARKS: LazyLock<Vec<Family>> = LazyLock::new(|| table("benchmark"));

fn table(name: &str) -> Vec<Family> {
    let mut tables: BTreeMap<&str, Vec<Family>> = embedded(include_str!("catalogue.toml"));
    tables.remove(name).unwrap_or_default()
}

/// The family of a name.
pub(super) fn family(name: &str) -> Option<&'static Family> {
    static BY_NAME: LazyLock<HashMap<&str, &Family>> = LazyLock::new(|| {
        let all = CATALOGUE.iter().chain(BENCHMARKS.iter());
        all.map(|family| (family.name, family)).collect()
    });
    BY_NAME.get(name).copied()
}
