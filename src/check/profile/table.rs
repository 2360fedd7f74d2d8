//! Machines of known shapes, as data. Numbers are "at least"; a shape that is missing or old is no
//! fault of a node: see [`super::Profile`] for what may be made of a row.
//!
//! Sources: AWS: drivers/infiniband/hw/efa, aws-ofi-nccl's platform-aws, awsome-distributed-training's
//! health checks. Azure: azurehpc-health-checks' conf files, aks-rdma-infiniband, for GB200 the page of
//! the size (learn.microsoft.com, ND-GB200-v6). GCP: cluster-toolkit's examples,
//! docs/vpc/rdma-network-profiles. OCI: oci-hpc's check_gpu_setup.py, oci-hpc-oke (MI355X: its
//! parameters by shape, which tell no rates). DGX: the user guides; GB200: NVIDIA Mission Control's.
//! What none of them says outright is [`Sure::No`] and is shown, never judged.

use super::{Fabric, Provider};

/// Whether a number is proven by a source, or hearsay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sure {
    /// Said by a source in the head of this file.
    Yes,
    /// Not confirmed: told, never judged.
    No,
    /// Most that there can be: the owner decides how many are attached, or how fast they are cabled.
    AtMost,
    /// The machine has as many NICs on the bus. The site decides how many are cabled.
    OnBus,
}

/// A machine or instance type with a known fabric.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    /// As people say it.
    pub name: &'static str,
    /// Vendor or cloud that sells the machine.
    pub provider: Provider,
    /// Patterns over the instance type, in lower case (`node.kubernetes.io/instance-type`; on EC2
    /// also DMI's product). [`Shape::name`]'s last word is among them.
    pub types: &'static [&'static str],
    /// Patterns over DMI's product name, in lower case, where that tells the shape.
    pub products: &'static [&'static str],
    /// What the rails are.
    pub fabric: Fabric,
    /// How many rails, at least.
    pub rails: (u32, Sure),
    /// Rate of each in Gb/s; 0: not known.
    pub gbps: (u32, Sure),
    /// Number of GPUs that the machine is sold with.
    pub gpus: u32,
    /// Resources that device plugins offer there, the usual one first, with the number where it
    /// counts devices. Which plugin runs is the owner's choice.
    pub resources: &'static [(&'static str, Option<u32>)],
}

const NONE: &[(&str, Option<u32>)] = &[];
const AZURE: &[(&str, Option<u32>)] = &[("rdma/ib", Some(8)), ("rdma/shared_ib", None)];
const VFS_16: &[(&str, Option<u32>)] = &[("nvidia.com/rdma-vf", Some(16))];
const VFS_8: &[(&str, Option<u32>)] = &[("nvidia.com/rdma-vf", Some(8))];

macro_rules! shapes {
    ($($provider:ident $name:literal [$($type:literal)*] [$($product:literal)*]
        $rails:literal $fabric:ident $rails_sure:ident, $gbps:literal $gbps_sure:ident, $gpus:literal $resources:expr;)*) => {
        /// All rows, the narrower pattern first.
        pub const SHAPES: &[Shape] = &[$(Shape {
            name: $name,
            provider: Provider::$provider,
            types: &[$($type),*],
            products: &[$($product),*],
            fabric: Fabric::$fabric,
            rails: ($rails, Sure::$rails_sure),
            gbps: ($gbps, Sure::$gbps_sure),
            gpus: $gpus,
            resources: $resources,
        }),*];
    };
}

shapes! {
    Aws "AWS p4d.24xlarge" ["p4d.24xlarge"] ["p4d.24xlarge"] 4 Efa AtMost, 100 Yes, 8 &[("vpc.amazonaws.com/efa", Some(4))];
    Aws "AWS p4de.24xlarge" ["p4de.24xlarge"] ["p4de.24xlarge"] 4 Efa AtMost, 100 Yes, 8 &[("vpc.amazonaws.com/efa", Some(4))];
    Aws "AWS p5.4xlarge" ["p5.4xlarge"] ["p5.4xlarge"] 1 Efa AtMost, 100 No, 1 &[("vpc.amazonaws.com/efa", Some(1))];
    Aws "AWS p5.48xlarge" ["p5.48xlarge"] ["p5.48xlarge"] 32 Efa AtMost, 100 Yes, 8 &[("vpc.amazonaws.com/efa", Some(32))];
    Aws "AWS p5e.48xlarge" ["p5e.48xlarge"] ["p5e.48xlarge"] 32 Efa AtMost, 100 Yes, 8 &[("vpc.amazonaws.com/efa", Some(32))];
    Aws "AWS p5en.48xlarge" ["p5en.48xlarge"] ["p5en.48xlarge"] 16 Efa AtMost, 200 Yes, 8 &[("vpc.amazonaws.com/efa", Some(16))];
    Aws "AWS p6-b200.48xlarge" ["p6-b200.48xlarge"] ["p6-b200.48xlarge"] 8 Efa AtMost, 400 Yes, 8 &[("vpc.amazonaws.com/efa", Some(8))];
    Aws "AWS p6-b300.48xlarge" ["p6-b300.48xlarge"] ["p6-b300.48xlarge"] 16 Efa AtMost, 400 No, 8 &[("vpc.amazonaws.com/efa", Some(16))];
    Aws "AWS p6e-gb200.36xlarge" ["p6e-gb200.36xlarge"] ["p6e-gb200.36xlarge"] 16 Efa AtMost, 0 No, 4 &[("vpc.amazonaws.com/efa", None)];

    Azure "Azure ND40rs_v2" ["standard_nd40rs_v2"] [] 1 Infiniband Yes, 100 Yes, 8 &[("rdma/ib", Some(1)), ("rdma/shared_ib", None)];
    Azure "Azure ND96asr_v4" ["standard_nd96asr_v4" "standard_nd96asr_a100_v4"] [] 8 Infiniband Yes, 200 Yes, 8 AZURE;
    Azure "Azure ND96amsr_A100_v4" ["standard_nd96amsr_a100_v4"] [] 8 Infiniband Yes, 200 Yes, 8 AZURE;
    Azure "Azure ND96isr_H100_v5" ["standard_nd96isr_h100_v5"] [] 8 Infiniband Yes, 400 Yes, 8 AZURE;
    Azure "Azure ND96isr_H200_v5" ["standard_nd96isr_h200_v5" "standard_nd96isrf_h200_v5"] [] 8 Infiniband Yes, 400 Yes, 8 AZURE;
    Azure "Azure ND96isr_MI300X_v5" ["standard_nd96isr_mi300x_v5"] [] 8 Infiniband Yes, 400 Yes, 8 AZURE;
    Azure "Azure ND128isr_NDR_GB200_v6" ["standard_nd128isr_ndr_gb200_v6"] [] 4 Infiniband Yes, 400 Yes, 4 &[("rdma/ib", Some(4)), ("rdma/shared_ib", None)];
    Azure "Azure ND96is_H100_v5" ["standard_nd96is_h100_v5"] [] 0 None Yes, 0 No, 8 NONE;
    Azure "Azure ND96is_H200_v5" ["standard_nd96is_h200_v5"] [] 0 None Yes, 0 No, 8 NONE;
    Azure "Azure NCads_H100_v5" ["standard_nc*ads_h100_v5"] [] 0 None Yes, 0 No, 0 NONE;
    Azure "Azure NC80adis_H100_v5" ["standard_nc80adis_h100_v5"] [] 0 None Yes, 0 No, 2 NONE;

    Gcp "GCP a3-highgpu-8g" ["a3-highgpu-8g"] [] 4 Gvnic AtMost, 0 No, 8 NONE;
    Gcp "GCP a3-megagpu-8g" ["a3-megagpu-8g"] [] 8 Gvnic AtMost, 0 No, 8 NONE;
    Gcp "GCP a3-ultragpu-8g" ["a3-ultragpu-8g"] [] 8 Roce AtMost, 400 No, 8 NONE;
    Gcp "GCP a4-highgpu-8g" ["a4-highgpu-8g"] [] 8 Roce AtMost, 400 No, 8 NONE;
    Gcp "GCP a4x-highgpu-4g" ["a4x-highgpu-4g"] [] 4 Roce AtMost, 400 No, 4 NONE;
    Gcp "GCP a4x-maxgpu-4g-metal" ["a4x-maxgpu-4g-metal" "a4x-maxgpu-4g-metal-nolssd"] [] 8 Roce No, 400 No, 4 NONE;

    Oci "OCI BM.GPU4.8" ["bm.gpu4.8"] [] 16 Roce Yes, 100 Yes, 8 VFS_16;
    Oci "OCI BM.GPU.B4.8" ["bm.gpu.b4.8"] [] 16 Roce Yes, 100 Yes, 8 VFS_16;
    Oci "OCI BM.GPU.A100-v2.8" ["bm.gpu.a100-v2.8"] [] 16 Roce Yes, 100 Yes, 8 VFS_16;
    Oci "OCI BM.GPU.H100.8" ["bm.gpu.h100.8"] [] 16 Roce Yes, 200 Yes, 8 VFS_16;
    Oci "OCI BM.GPU.H200.8" ["bm.gpu.h200.8"] [] 8 Roce Yes, 400 Yes, 8 VFS_8;
    Oci "OCI BM.GPU.B200.8" ["bm.gpu.b200.8"] [] 8 Roce Yes, 400 Yes, 8 VFS_8;
    Oci "OCI BM.GPU.B300.8" ["bm.gpu.b300.8"] [] 16 Roce No, 400 No, 8 VFS_16;
    Oci "OCI BM.GPU.GB200-v3.4" ["bm.gpu.gb200-v3.4"] [] 8 Roce Yes, 400 Yes, 4 NONE;
    Oci "OCI BM.GPU.GB200.4" ["bm.gpu.gb200.4" "bm.gpu.gb200-v2.4"] [] 4 Infiniband Yes, 400 Yes, 4 NONE;
    Oci "OCI BM.GPU.GB300.4" ["bm.gpu.gb300.4"] [] 8 Roce No, 400 No, 4 NONE;
    Oci "OCI BM.GPU.MI300X.8" ["bm.gpu.mi300x.8"] [] 8 Roce Yes, 400 Yes, 8 VFS_8;
    Oci "OCI BM.GPU.MI355X-v1.8" ["bm.gpu.mi355x-v1.8"] [] 8 Roce Yes, 400 Yes, 8 VFS_8;
    Oci "OCI BM.GPU.MI355X.8" ["bm.gpu.mi355x.8"] [] 8 Roce Yes, 400 No, 8 NONE;

    Nvidia "DGX A100" ["dgxa100" "dgx-a100"] ["dgxa100*" "*dgx a100*"] 8 Mellanox OnBus, 200 AtMost, 8 NONE;
    Nvidia "DGX H100" ["dgxh100" "dgx-h100"] ["dgxh100*" "*dgx h100*"] 8 Mellanox OnBus, 400 AtMost, 8 NONE;
    Nvidia "DGX H200" ["dgxh200" "dgx-h200"] ["dgxh200*" "*dgx h200*"] 8 Mellanox OnBus, 400 AtMost, 8 NONE;
    Nvidia "DGX B200" ["dgxb200" "dgx-b200"] ["dgxb200*" "*dgx b200*"] 8 Mellanox OnBus, 400 AtMost, 8 NONE;
    Nvidia "DGX GB200" ["dgxgb200" "dgx-gb200"] [] 4 Mellanox OnBus, 400 AtMost, 4 NONE;
}
