//! What stands in a machine of each known shape, beyond what the table of shapes says (numbers of
//! rails, rates, GPUs).
//!
//! Device numbers of OCI's and NVIDIA's machines by oci-hpc's check_gpu_setup.py and the DGX user
//! guide, where these give them. Not told by any source, and plausible here: the numbers on DGX A100
//! (as NCCL_IB_HCA is set there) and B200 (as on H100); MI355X's GPU id, firmware and front; which NIC carries OCI's front (the numbers that the rails leave free)
//! and at what rate; GPUs' driver versions; the rates of `assumed`.

use super::parts::*;
use crate::check::profile::{SHAPES, Shape, by_type};
use crate::simulate::build::{CX6, CX7};
use crate::simulate::presets::STORAGE;
use std::ops::RangeInclusive;

/// How GPUs and NICs hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// So many PCIe switches, GPUs and rails spread among them.
    Switches(u8),
    /// A guest that sees functions without bridges.
    Guest,
    /// Each function below a root port of its own, GPUs and NICs in different domains.
    Grace,
}

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    /// Instance type, or DMI's product name of a DGX.
    pub(super) name: &'static str,
    pub(super) body: Body,
    pub(super) gpu: Gpu,
    pub(super) nic: Nic,
    /// Gb/s where the table of shapes does not know it.
    pub(super) assumed: u32,
    /// GPUs, where the table of shapes leaves it to the size.
    pub(super) gpus: u32,
    /// Numbers of the rails' devices; further ones follow the highest number there is.
    pub(super) rails: &'static [RangeInclusive<u32>],
    pub(super) others: &'static [Other],
    /// With the VF of Azure's accelerated networking as an RDMA device.
    pub(super) accelerated: bool,
}

impl Machine {
    /// Its row in the table of shapes.
    pub(super) fn shape(&self) -> Option<&'static Shape> {
        by_type(self.name)
    }

    const fn of(name: &'static str, body: Body, gpu: Gpu, nic: Nic) -> Machine {
        Machine {
            name,
            body,
            gpu,
            nic,
            assumed: 0,
            gpus: 0,
            rails: &[],
            others: &[],
            accelerated: false,
        }
    }

    const fn rails(self, rails: &'static [RangeInclusive<u32>]) -> Machine {
        Machine { rails, ..self }
    }

    const fn others(self, others: &'static [Other]) -> Machine {
        Machine { others, ..self }
    }

    const fn assumed(self, assumed: u32) -> Machine {
        Machine { assumed, ..self }
    }
}

/// The machine of a shape.
pub(super) fn machine_of(shape: &Shape) -> Option<&'static Machine> {
    let is = |machine: &&Machine| machine.shape().is_some_and(|of| of.name == shape.name);
    MACHINES.iter().find(is)
}

/// Shapes in their order, each with the name of its machine.
pub(super) fn in_order() -> impl Iterator<Item = (&'static Shape, &'static Machine)> {
    SHAPES
        .iter()
        .filter_map(|shape| Some((shape, machine_of(shape)?)))
}

use Body::{Grace, Guest, Switches};

const NO_RAILS: Nic = Nic::None;
const DGX: &[RangeInclusive<u32>] = &[0..=0, 3..=6, 9..=11];
const A100_FRONT: Other = front(0, CONNECTX5_FRONT, 50);

const fn at(number: u32, like: Other) -> Other {
    Other { number, ..like }
}

const fn of(name: &'static str, body: Body, gpu: Gpu, nic: Nic) -> Machine {
    Machine::of(name, body, gpu, nic)
}

/// All of them.
const MACHINES: &[Machine] = &[
    of("p4d.24xlarge", Switches(4), A100_40, Nic::Efa(0xefa1)),
    of("p4de.24xlarge", Switches(4), A100_80, Nic::Efa(0xefa1)),
    of("p5.4xlarge", Switches(1), H100, Nic::Efa(0xefa2)),
    of("p5.48xlarge", Switches(8), H100, Nic::Efa(0xefa2)),
    of("p5e.48xlarge", Switches(8), H200, Nic::Efa(0xefa2)),
    of("p5en.48xlarge", Switches(8), H200, Nic::Efa(0xefa3)),
    of("p6-b200.48xlarge", Switches(8), B200, Nic::Efa(0xefa3)),
    of("p6-b300.48xlarge", Switches(8), B300, Nic::Efa(0xefa3)),
    of("p6e-gb200.36xlarge", Switches(4), GB200, Nic::Efa(0xefa3)),
    of("Standard_ND40rs_v2", Guest, V100, CX5_VF),
    of("Standard_ND96asr_v4", Guest, A100_40, CX6_VF),
    of("Standard_ND96amsr_A100_v4", Guest, A100_80, CX6_VF),
    of("Standard_ND96isr_H100_v5", Guest, H100, CX7_VF),
    Machine {
        accelerated: true,
        ..of("Standard_ND96isr_H200_v5", Guest, H200, CX7_VF)
    },
    of("Standard_ND96isr_MI300X_v5", Guest, MI300X, CX7_VF),
    of("Standard_ND128isr_NDR_GB200_v6", Guest, GB200, CX7_VF),
    of("Standard_ND96is_H100_v5", Guest, H100, NO_RAILS),
    // Whether its accelerated networking is one, as the sister's, is not told; harmless it must be.
    Machine {
        accelerated: true,
        ..of("Standard_ND96is_H200_v5", Guest, H200, NO_RAILS)
    },
    Machine {
        gpus: 1,
        ..of("Standard_NC40ads_H100_v5", Guest, H100_NVL, NO_RAILS)
    },
    of("Standard_NC80adis_H100_v5", Guest, H100_NVL, NO_RAILS),
    of("a3-highgpu-8g", Guest, H100, Nic::Gvnic).assumed(200),
    of("a3-megagpu-8g", Guest, H100, Nic::Gvnic).assumed(200),
    of("a3-ultragpu-8g", Guest, H200, CX7_VF),
    of("a4-highgpu-8g", Guest, B200, CX7_VF),
    of("a4x-highgpu-4g", Guest, GB200, CX7_VF),
    of("a4x-maxgpu-4g-metal", Grace, GB300, CX8_RAIL).assumed(400),
    of("BM.GPU4.8", Switches(4), A100_40, CX5_RAIL)
        .rails(&[0..=3, 6..=17])
        .others(&[at(4, A100_FRONT), at(5, A100_FRONT)]),
    of("BM.GPU.B4.8", Switches(4), A100_40, CX5_RAIL)
        .rails(&[1..=12, 14..=17])
        .others(&[at(0, A100_FRONT), at(13, A100_FRONT)]),
    of("BM.GPU.A100-v2.8", Switches(4), A100_80, CX5_RAIL)
        .rails(&[1..=12, 14..=17])
        .others(&[at(0, A100_FRONT), at(13, A100_FRONT)]),
    of("BM.GPU.H100.8", Switches(8), H100_CLOSED, CX7_RAIL)
        .rails(&[0..=1, 3..=10, 12..=17])
        .others(&[front(2, CONNECTX6_DX, 100), front(11, CONNECTX6_DX, 100)]),
    of("BM.GPU.H200.8", Switches(8), H200, CX7_RAIL)
        .rails(DGX)
        .others(&[
            front(1, BLUEFIELD3, 200),
            uncabled(2, BLUEFIELD3, 200),
            front(7, BLUEFIELD3, 200),
            uncabled(8, BLUEFIELD3, 200),
        ]),
    // The front is fast here: 400 Gb/s a card, of the rails' own make.
    of("BM.GPU.B200.8", Switches(8), B200, CX7_RAIL)
        .rails(DGX)
        .others(&[
            front(1, CX7, 400),
            front(2, CX7, 400),
            front(7, CX7, 400),
            front(8, CX7, 400),
        ]),
    of("BM.GPU.B300.8", Switches(8), B300, CX8_RAIL)
        .assumed(400)
        .rails(&[0..=1, 7..=14, 16..=21])
        .others(&[
            front(2, BLUEFIELD3, 200),
            front(3, BLUEFIELD3, 200),
            front(4, BLUEFIELD3, 200),
            front(5, BLUEFIELD3, 200),
            front(6, BLUEFIELD3, 200),
            front(15, BLUEFIELD3, 200),
        ]),
    of("BM.GPU.GB200-v3.4", Grace, GB200, CX8_RAIL)
        .rails(&[0..=3, 5..=8])
        .others(&[front(4, BLUEFIELD3, 200), front(9, BLUEFIELD3, 200)]),
    of("BM.GPU.GB200.4", Grace, GB200, CX7_RAIL)
        .rails(&[0..=1, 3..=4])
        .others(&[front(2, BLUEFIELD3, 200), front(5, BLUEFIELD3, 200)]),
    of("BM.GPU.GB300.4", Grace, GB300, CX8_RAIL)
        .rails(&[0..=3, 5..=8])
        .others(&[front(4, BLUEFIELD3, 200), front(9, BLUEFIELD3, 200)]),
    of("BM.GPU.MI300X.8", Switches(8), MI300X, CX7_RAIL)
        .rails(&[0..=0, 2..=5, 7..=9])
        .others(&[front(1, CONNECTX6_DX, 100), front(6, CONNECTX6_DX, 100)]),
    of("BM.GPU.MI355X-v1.8", Switches(8), MI355X, CX7_RAIL)
        .rails(&[0..=7])
        .others(&[front(8, CONNECTX6_DX, 100), front(9, CONNECTX6_DX, 100)]),
    of("BM.GPU.MI355X.8", Switches(8), MI355X, IONIC_RAIL)
        .rails(&[0..=0, 2..=5, 7..=9])
        .others(&[front(0, CONNECTX6_DX, 100), front(1, CONNECTX6_DX, 100)]),
    of("DGXA100", Switches(4), A100_80, CX6_RAIL)
        .rails(&[0..=3, 6..=9])
        .others(&[
            storage(4, CX6, 200),
            uncabled(5, CX6, 200),
            storage(10, CX6, 200),
            uncabled(11, CX6, 200),
        ]),
    of("DGXH100", Switches(8), H100_CLOSED, CX7_RAIL)
        .rails(DGX)
        .others(DGX_STORAGE),
    of("DGXH200", Switches(8), H200, CX7_RAIL)
        .rails(DGX)
        .others(DGX_STORAGE),
    of("DGXB200", Switches(8), B200, CX7_RAIL)
        .rails(DGX)
        .others(&[
            front(1, BLUEFIELD3, 200),
            front(2, BLUEFIELD3, 200),
            front(7, BLUEFIELD3, 200),
            front(8, BLUEFIELD3, 200),
        ]),
    of("DGXGB200", Grace, GB200, CX7_RAIL)
        .rails(&[0..=1, 4..=5])
        .others(&[
            front(2, BLUEFIELD3, 200),
            uncabled(3, BLUEFIELD3, 200),
            front(6, BLUEFIELD3, 200),
            uncabled(7, BLUEFIELD3, 200),
        ]),
];

const DGX_STORAGE: &[Other] = &[
    storage(1, STORAGE, 200),
    uncabled(2, STORAGE, 200),
    storage(7, STORAGE, 200),
    uncabled(8, STORAGE, 200),
];
