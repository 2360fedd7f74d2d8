//! Machines of known shapes, as data. Numbers are "at least"; a shape that is missing or old is no
//! fault of a node: see [`super::Profile`] for what may be made of a row.
//!
//! The source of each row is in `tests/shapes/published.txt`, and no row may be surer than that. What
//! no source says outright, and a rate that a cloud only specifies, is [`Sure::No`]: shown, never judged.

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
    /// Instance types, in lower case (`node.kubernetes.io/instance-type`, without SageMaker's `ml.`; on
    /// EC2 and of a DGX also DMI's product). Whole names but where all sizes of a family are alike:
    /// an unknown suffix is an unknown machine.
    pub types: &'static [&'static str],
    /// What the rails are.
    pub fabric: Fabric,
    /// How many rails, at least.
    pub rails: (u32, Sure),
    /// Rate of each in Gb/s; 0: not known.
    pub gbps: (u32, Sure),
    /// Number of GPUs that every machine of this shape has; 0 where no source is sure of it.
    pub gpus: u32,
    /// Resources that device plugins offer there, the usual one first, with the number where it
    /// counts devices. Which plugin runs is the owner's choice.
    pub resources: &'static [(&'static str, Option<u32>)],
}

const NONE: &[(&str, Option<u32>)] = &[];
const EFA: &[(&str, Option<u32>)] = &[("vpc.amazonaws.com/efa", None)];
const EFA_1: &[(&str, Option<u32>)] = &[("vpc.amazonaws.com/efa", Some(1))];
const EFA_2: &[(&str, Option<u32>)] = &[("vpc.amazonaws.com/efa", Some(2))];
const EFA_4: &[(&str, Option<u32>)] = &[("vpc.amazonaws.com/efa", Some(4))];
const EFA_8: &[(&str, Option<u32>)] = &[("vpc.amazonaws.com/efa", Some(8))];
const EFA_16: &[(&str, Option<u32>)] = &[("vpc.amazonaws.com/efa", Some(16))];
const EFA_32: &[(&str, Option<u32>)] = &[("vpc.amazonaws.com/efa", Some(32))];
const IB_4: &[(&str, Option<u32>)] = &[("rdma/ib", Some(4)), ("rdma/shared_ib", None)];
const IB_8: &[(&str, Option<u32>)] = &[("rdma/ib", Some(8)), ("rdma/shared_ib", None)];
/// CoreWeave's `rdma/ib` is a yes or no, not a count.
const YES_NO: &[(&str, Option<u32>)] = &[("rdma/ib", None)];
const VFS_16: &[(&str, Option<u32>)] = &[("nvidia.com/rdma-vf", Some(16))];
const VFS_8: &[(&str, Option<u32>)] = &[("nvidia.com/rdma-vf", Some(8))];

macro_rules! shapes {
    ($($provider:ident $name:literal [$($type:literal)*]
        $rails:literal $fabric:ident $rails_sure:ident, $gbps:literal $gbps_sure:ident, $gpus:literal $resources:expr;)*) => {
        /// All rows, the narrower pattern first.
        pub const SHAPES: &[Shape] = &[$(Shape {
            name: $name,
            provider: Provider::$provider,
            types: &[$($type),*],
            fabric: Fabric::$fabric,
            rails: ($rails, Sure::$rails_sure),
            gbps: ($gbps, Sure::$gbps_sure),
            gpus: $gpus,
            resources: $resources,
        }),*];
    };
}

shapes! {
    Aws "AWS p3dn.24xlarge" ["p3dn.24xlarge"] 1 Efa AtMost, 0 No, 8 EFA_1;
    Aws "AWS p4d.24xlarge" ["p4d.24xlarge"] 4 Efa AtMost, 100 No, 8 EFA_4;
    Aws "AWS p4de.24xlarge" ["p4de.24xlarge"] 4 Efa AtMost, 100 No, 8 EFA_4;
    Aws "AWS p5.4xlarge" ["p5.4xlarge"] 1 Efa AtMost, 100 No, 1 EFA_1;
    Aws "AWS p5.48xlarge" ["p5.48xlarge"] 32 Efa AtMost, 100 No, 8 EFA_32;
    Aws "AWS p5e.48xlarge" ["p5e.48xlarge"] 32 Efa AtMost, 100 No, 8 EFA_32;
    Aws "AWS p5en.48xlarge" ["p5en.48xlarge"] 16 Efa AtMost, 200 No, 8 EFA_16;
    Aws "AWS p6-b200.48xlarge" ["p6-b200.48xlarge"] 8 Efa AtMost, 400 No, 8 EFA_8;
    Aws "AWS p6-b300.48xlarge" ["p6-b300.48xlarge"] 16 Efa AtMost, 400 No, 8 EFA_16;
    Aws "AWS p6e-gb200.36xlarge" ["p6e-gb200.36xlarge"] 16 Efa AtMost, 0 No, 4 EFA;
    Aws "AWS p6e-gb300r.36xlarge" ["p6e-gb300r.36xlarge"] 8 Roce No, 0 No, 4 EFA_2;
    Aws "AWS G sizes with one EFA" ["g4dn.8xlarge" "g4dn.12xlarge" "g4dn.16xlarge" "g4dn.metal"
        "g5.8xlarge" "g5.12xlarge" "g5.16xlarge" "g5.24xlarge" "g5.48xlarge"
        "g6.8xlarge" "g6.12xlarge" "g6.16xlarge" "g6.24xlarge" "g6.48xlarge" "gr6.8xlarge"
        "g6e.8xlarge" "g6e.12xlarge" "g6e.16xlarge" "g7.8xlarge" "g7.12xlarge" "g7.24xlarge"
        "g7e.8xlarge" "g7e.12xlarge"] 1 Efa No, 0 No, 0 EFA_1;
    Aws "AWS G sizes with two EFAs" ["g6e.24xlarge" "g7.48xlarge" "g7e.24xlarge"] 2 Efa No, 0 No, 0 EFA_2;
    Aws "AWS G sizes with four EFAs" ["g6e.48xlarge" "g7e.48xlarge"] 4 Efa No, 0 No, 0 EFA_4;
    Aws "AWS inf1.24xlarge, dl2q.24xlarge" ["inf1.24xlarge" "dl2q.24xlarge"] 1 Efa No, 0 No, 0 EFA_1;
    Aws "AWS trn1.32xlarge" ["trn1.32xlarge"] 8 Efa No, 0 No, 0 EFA_8;
    Aws "AWS trn1n.32xlarge, trn2.48xlarge" ["trn1n.32xlarge" "trn2.48xlarge"] 16 Efa No, 0 No, 0 EFA_16;

    Azure "Azure ND40rs_v2" ["standard_nd40rs_v2"] 1 Infiniband Yes, 100 Yes, 8 &[("rdma/ib", Some(1)), ("rdma/shared_ib", None)];
    Azure "Azure ND96asr_v4" ["standard_nd96asr_v4" "standard_nd96asr_a100_v4"] 8 Infiniband Yes, 200 Yes, 8 IB_8;
    Azure "Azure ND96amsr_A100_v4" ["standard_nd96amsr_a100_v4"] 8 Infiniband Yes, 200 Yes, 8 IB_8;
    Azure "Azure ND96isr_H100_v5" ["standard_nd96isr_h100_v5"] 8 Infiniband Yes, 400 Yes, 8 IB_8;
    Azure "Azure ND96isr_H200_v5" ["standard_nd96isr_h200_v5" "standard_nd96isrf_h200_v5"] 8 Infiniband Yes, 400 Yes, 8 IB_8;
    Azure "Azure ND96isr_MI300X_v5" ["standard_nd96isr_mi300x_v5"] 8 Infiniband Yes, 400 Yes, 8 IB_8;
    Azure "Azure ND96asr_MI200_v4" ["standard_nd96asr_mi200_v4"] 8 Infiniband No, 200 No, 0 NONE;
    Azure "Azure ND128isr_NDR_GB200_v6" ["standard_nd128isr_ndr_gb200_v6"] 4 Infiniband Yes, 400 No, 4 IB_4;
    Azure "Azure ND128isr_GB300_v6" ["standard_nd128isr_gb300_v6"] 4 Infiniband Yes, 0 No, 4 IB_4;
    Azure "Azure NC24rs_v3" ["standard_nc24rs_v3"] 1 Infiniband No, 0 No, 0 NONE;
    Azure "Azure ND96is_H100_v5" ["standard_nd96is_h100_v5"] 0 None Yes, 0 No, 0 NONE;
    Azure "Azure ND96is_H200_v5" ["standard_nd96is_h200_v5"] 0 None Yes, 0 No, 0 NONE;
    Azure "Azure ND96is_MI300X_v5" ["standard_nd96is_mi300x_v5"] 0 None Yes, 0 No, 0 NONE;
    Azure "Azure NCads_H100_v5" ["standard_nc40ads_h100_v5" "standard_ncc40ads_h100_v5"] 0 None Yes, 0 No, 0 NONE;
    Azure "Azure NC80adis_H100_v5" ["standard_nc80adis_h100_v5"] 0 None Yes, 0 No, 0 NONE;
    Azure "Azure NCads_A100_v4" ["standard_nc24ads_a100_v4" "standard_nc48ads_a100_v4" "standard_nc96ads_a100_v4"] 0 None Yes, 0 No, 0 NONE;
    Azure "Azure NC, NV and NG" ["standard_nc*_rtxpro6000bse_v6" "standard_nv*" "standard_ng*"] 0 None Yes, 0 No, 0 NONE;

    Gcp "GCP a3-highgpu-8g" ["a3-highgpu-8g"] 4 Gvnic AtMost, 0 No, 8 NONE;
    Gcp "GCP a3-megagpu-8g" ["a3-megagpu-8g"] 8 Gvnic AtMost, 0 No, 8 NONE;
    Gcp "GCP a3-ultragpu-8g" ["a3-ultragpu-8g"] 8 Roce AtMost, 400 No, 8 NONE;
    Gcp "GCP a4-highgpu-8g" ["a4-highgpu-8g"] 8 Roce AtMost, 400 No, 8 NONE;
    Gcp "GCP a4x-highgpu-4g" ["a4x-highgpu-4g"] 4 Roce AtMost, 400 No, 4 NONE;
    Gcp "GCP a4x-maxgpu-4g-metal" ["a4x-maxgpu-4g-metal" "a4x-maxgpu-4g-metal-nolssd"] 8 Roce No, 400 No, 4 NONE;
    Gcp "GCP without GPU fabric" ["a3-edgegpu-8g" "a3-highgpu-1g" "a3-highgpu-2g" "a3-highgpu-4g" "a2-*" "g2-*" "g4-standard-*"] 0 None Yes, 0 No, 0 NONE;

    Oci "OCI BM.GPU4.8" ["bm.gpu4.8"] 16 Roce Yes, 100 Yes, 8 VFS_16;
    Oci "OCI BM.GPU.B4.8" ["bm.gpu.b4.8"] 16 Roce Yes, 100 Yes, 8 VFS_16;
    Oci "OCI BM.GPU.A100-v2.8" ["bm.gpu.a100-v2.8"] 16 Roce Yes, 100 Yes, 8 VFS_16;
    Oci "OCI BM.GPU.H100.8" ["bm.gpu.h100.8"] 16 Roce Yes, 200 Yes, 8 VFS_16;
    Oci "OCI BM.GPU.H200.8" ["bm.gpu.h200.8"] 8 Roce Yes, 400 Yes, 8 VFS_8;
    Oci "OCI BM.GPU.B200.8" ["bm.gpu.b200.8"] 8 Roce Yes, 400 Yes, 8 VFS_8;
    Oci "OCI BM.GPU.B300.8" ["bm.gpu.b300.8"] 16 Roce No, 400 No, 8 VFS_16;
    Oci "OCI BM.GPU.GB200-v3.4" ["bm.gpu.gb200-v3.4"] 8 Roce Yes, 400 Yes, 4 NONE;
    Oci "OCI BM.GPU.GB200.4" ["bm.gpu.gb200.4" "bm.gpu.gb200-v2.4"] 4 Infiniband Yes, 400 Yes, 4 NONE;
    Oci "OCI BM.GPU.GB300.4" ["bm.gpu.gb300.4"] 8 Roce No, 400 No, 4 NONE;
    Oci "OCI BM.GPU.MI300X.8" ["bm.gpu.mi300x.8"] 8 Roce Yes, 400 Yes, 8 VFS_8;
    Oci "OCI BM.GPU.MI355X-v1.8" ["bm.gpu.mi355x-v1.8" "bm.gpu.mi355x-v0.8"] 8 Roce Yes, 400 Yes, 8 VFS_8;
    Oci "OCI BM.GPU.MI355X.8" ["bm.gpu.mi355x.8"] 8 Roce Yes, 400 No, 8 NONE;
    Oci "OCI BM.GPU.RTXPRO.8" ["bm.gpu.rtxpro.8"] 8 Roce No, 0 No, 0 NONE;
    Oci "OCI BM.GPU.L40S.4" ["bm.gpu.l40s.4"] 2 Roce No, 0 No, 0 NONE;
    Oci "OCI without a cluster network" ["bm.gpu.h100-nc.8" "bm.gpu.h200-nc.8" "bm.gpu.l40s-nc.4"
        "bm.gpu.a10.4" "bm.gpu3.8" "bm.gpu2.2" "vm.gpu*"] 0 None No, 0 No, 0 NONE;
    Oci "OCI HPC shapes" ["bm.optimized3.36" "bm.hpc.e5.144"] 1 Roce No, 100 No, 0 NONE;

    Nvidia "DGX A100" ["dgxa100" "dgx-a100"] 8 Mellanox OnBus, 200 AtMost, 8 NONE;
    Nvidia "DGX H100" ["dgxh100" "dgx-h100"] 8 Mellanox OnBus, 400 AtMost, 8 NONE;
    Nvidia "DGX H200" ["dgxh200" "dgx-h200"] 8 Mellanox OnBus, 400 AtMost, 8 NONE;
    Nvidia "DGX B200" ["dgxb200" "dgx-b200"] 8 Mellanox OnBus, 400 AtMost, 8 NONE;
    Nvidia "DGX B300" ["dgxb300" "dgx-b300"] 8 Mellanox No, 800 No, 0 NONE;
    Nvidia "DGX GB200" ["dgxgb200" "dgx-gb200"] 4 Mellanox OnBus, 400 AtMost, 0 NONE;
    Nvidia "DGX GB300" ["dgxgb300" "dgx-gb300"] 4 Mellanox No, 800 No, 0 NONE;

    CoreWeave "CoreWeave" ["gd-8xh100ib-i128" "gd-8xh200ib-i128" "gd-8xa100-i128" "b200-8x" "b300-8x"] 8 Infiniband No, 0 No, 0 YES_NO;
    CoreWeave "CoreWeave" ["gb200-4x" "gb300-4x"] 4 Infiniband No, 0 No, 0 YES_NO;
    CoreWeave "CoreWeave gb300-4x-e" ["gb300-4x-e"] 4 Roce No, 0 No, 0 YES_NO;
    Nebius "Nebius" ["gpu-h100-sxm" "gpu-h200-sxm" "gpu-b200-sxm" "gpu-b300-sxm"] 8 Infiniband No, 0 No, 0 NONE;
}
