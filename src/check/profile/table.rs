//! Machines of known shapes and their fabrics, out of `table.toml`.

use super::{Fabric, Provider};
use crate::data_files::embedded;
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

/// Most NICs of a machine (EFA on p5). A resource of more devices counts slots of a shared device: the
/// shared device plugin's examples have 63, 500 and 1000.
pub const MOST_NICS: u64 = 32;

/// Whether a number is proven by a source, or hearsay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Said by a source.
    Yes,
    /// Not confirmed: told, never judged.
    #[default]
    No,
    /// Most that there can be: the owner decides how many are attached, or how fast they are cabled.
    AtMost,
    /// The machine has as many NICs on the bus. The site decides how many are cabled.
    OnBus,
}

/// A machine or instance type with a known fabric: a row of `table.toml`, where its fields are explained.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the head of table.toml has them")]
pub struct Shape {
    pub name: &'static str,
    pub provider: Provider,
    pub types: Vec<&'static str>,
    pub fabric: Fabric,
    pub rails: (u32, Certainty),
    #[serde(default)]
    pub gbps: (u32, Certainty),
    #[serde(default)]
    pub gpus: u32,
    #[serde(default)]
    pub resources: Vec<(&'static str, u32)>,
    #[serde(default)]
    pub gpudirect_tcp: Option<GpuDirectTcp>,
}

/// GPUDirect over gVNICs: NCCL's plugin hands GPU memory to a daemon alongside the job (RxDM), which
/// alone drives the interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuDirectTcp {
    /// Display name in report and page.
    pub name: &'static str,
    /// What Google's manifests call the daemon's container.
    pub container: &'static str,
    /// Its image, without the version.
    pub image: &'static str,
}

/// What holds of a fabric, in whichever cloud the machine is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FabricFacts {
    /// What rails of it are called: `RoCE rails`.
    pub rails: &'static str,
    /// What GPUDirect RDMA takes there, for people; none where there is nothing to take it over.
    pub gpudirect: Option<&'static str>,
    /// Modules by which GPUDirect RDMA works there, any of them; none where none of the node's does it.
    pub modules: Vec<&'static str>,
    /// What does not exist there.
    pub lacks: Vec<&'static str>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct ShapeTable {
    shape: Vec<Shape>,
    fabric: BTreeMap<Fabric, FabricFacts>,
}

static TABLE: LazyLock<ShapeTable> = LazyLock::new(|| embedded(include_str!("table.toml")));

/// All shapes, the narrower pattern first.
pub fn shapes() -> &'static [Shape] {
    &TABLE.shape
}

impl Fabric {
    /// What holds of it.
    pub fn facts(self) -> &'static FabricFacts {
        static NONE: LazyLock<FabricFacts> = LazyLock::new(FabricFacts::default);
        TABLE.fabric.get(&self).unwrap_or(&NONE)
    }
}
