//! GPUs and NICs that the machines of known shapes are made of. PCI ids by pci.ids; rates as mlx5
//! and efa print them.

use crate::simulate::build::{BF3, CX6, CX7, Mlx5, VF};

/// A GPU model.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) id: (u16, u16),
    pub(super) class: u32,
    pub(super) model: &'static str,
    pub(super) driver: Driver,
    /// Below a Grace CPU.
    pub(super) grace: bool,
}

/// What drives GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver {
    /// NVIDIA's open kernel module of this version.
    Open(&'static str),
    /// The proprietary one, with nvidia_peermem.
    Proprietary(&'static str),
    /// AMD's.
    Amdgpu,
}

const fn nvidia(device: u16, model: &'static str, driver: Driver) -> Gpu {
    Gpu {
        id: (0x10de, device),
        class: 0x03_0200,
        model,
        driver,
        grace: false,
    }
}

const OPEN: Driver = Driver::Open("570.124.06");
const CLOSED: Driver = Driver::Proprietary("550.90.12");

// The open module knows no GPU before Turing, and is the only one for Blackwell; between them the
// owner chooses, and here both come.
pub(super) const V100: Gpu = nvidia(0x1db5, "Tesla V100-SXM2-32GB", CLOSED);
pub(super) const A100_40: Gpu = nvidia(0x20b0, "NVIDIA A100-SXM4-40GB", OPEN);
pub(super) const A100_80: Gpu = nvidia(0x20b2, "NVIDIA A100-SXM4-80GB", CLOSED);
pub(super) const H100: Gpu = nvidia(0x2330, "NVIDIA H100 80GB HBM3", OPEN);
pub(super) const H100_CLOSED: Gpu = nvidia(0x2330, "NVIDIA H100 80GB HBM3", CLOSED);
pub(super) const H100_NVL: Gpu = nvidia(0x2321, "NVIDIA H100 NVL", OPEN);
pub(super) const H200: Gpu = nvidia(0x2335, "NVIDIA H200", OPEN);
pub(super) const B200: Gpu = nvidia(0x2901, "NVIDIA B200", OPEN);
pub(super) const B300: Gpu = nvidia(0x3182, "NVIDIA B300 SXM6 AC", OPEN);
pub(super) const GB200: Gpu = Gpu {
    grace: true,
    ..nvidia(0x2941, "NVIDIA GB200", OPEN)
};
pub(super) const GB300: Gpu = Gpu {
    grace: true,
    ..nvidia(0x31c2, "NVIDIA GB300", OPEN)
};
pub(super) const MI300X: Gpu = Gpu {
    id: (0x1002, 0x74a1),
    class: 0x12_0000,
    model: "AMD Instinct MI300X",
    driver: Driver::Amdgpu,
    grace: false,
};
pub(super) const MI355X: Gpu = Gpu {
    id: (0x1002, 0x75a3),
    model: "AMD Instinct MI355X",
    ..MI300X
};

/// What rails are made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Nic {
    /// An EFA function of this device id.
    Efa(u16),
    /// Google's virtual NIC.
    Gvnic,
    /// An mlx5 function.
    Mlx5(Mlx5),
    /// An ionic function, of which the files tell no type and no board here.
    Ionic(Mlx5),
    /// None at all.
    None,
}

pub(super) const CONNECTX5: Mlx5 = Mlx5 {
    device: 0x1017,
    hca_type: "MT4119",
    board_id: "MT_0000000008",
    firmware: "16.35.4030",
    ..CX6
};
pub(super) const CONNECTX6_DX: Mlx5 = Mlx5 {
    device: 0x101d,
    hca_type: "MT4125",
    board_id: "MT_0000000359",
    ..CX6
};
pub(super) const CONNECTX8: Mlx5 = Mlx5 {
    device: 0x1023,
    hca_type: "MT4131",
    board_id: "MT_0000001222",
    firmware: "40.44.1036",
    ..CX7
};

pub(super) const CX5_RAIL: Nic = Nic::Mlx5(CONNECTX5);
pub(super) const CX6_RAIL: Nic = Nic::Mlx5(CX6);
pub(super) const CX7_RAIL: Nic = Nic::Mlx5(CX7);
pub(super) const CX8_RAIL: Nic = Nic::Mlx5(CONNECTX8);
/// Virtual functions of ConnectX-5 and -6; later ones share [`VF`]'s id.
pub(super) const CX5_VF: Nic = Nic::Mlx5(Mlx5 {
    device: 0x1018,
    hca_type: "MT4120",
    ..CONNECTX5
});
pub(super) const CX6_VF: Nic = Nic::Mlx5(Mlx5 {
    device: 0x101c,
    hca_type: "MT4124",
    ..CX6
});
pub(super) const CX7_VF: Nic = Nic::Mlx5(VF);
/// AMD's Pensando: what differs from an mlx5 function is put right where it is added.
pub(super) const IONIC_RAIL: Nic = Nic::Ionic(Mlx5 {
    device: 0x1002,
    hca_type: "",
    board_id: "",
    firmware: "1.117.1-a-63",
    ..CX7
});

/// A port that is no rail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Other {
    /// Its number among the machine's devices.
    pub(super) number: u32,
    pub(super) nic: Mlx5,
    pub(super) gbps: u32,
    pub(super) place: Use,
}

/// What a port is used for that is no rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The tenant's network; the first of them carries the default route.
    Front,
    /// InfiniBand to storage.
    Storage,
    /// A second port that nobody cabled.
    Uncabled,
}

/// The second board of [`CONNECTX5`], at the front of OCI's A100 machines.
pub(super) const CONNECTX5_FRONT: Mlx5 = Mlx5 {
    board_id: "MT_0000000080",
    ..CONNECTX5
};

/// A port of the tenant's network.
pub(super) const fn front(number: u32, nic: Mlx5, gbps: u32) -> Other {
    other(number, nic, gbps, Use::Front)
}

/// A port to storage.
pub(super) const fn storage(number: u32, nic: Mlx5, gbps: u32) -> Other {
    other(number, nic, gbps, Use::Storage)
}

/// A port without a cable.
pub(super) const fn uncabled(number: u32, nic: Mlx5, gbps: u32) -> Other {
    other(number, nic, gbps, Use::Uncabled)
}

const fn other(number: u32, nic: Mlx5, gbps: u32, place: Use) -> Other {
    Other {
        number,
        nic,
        gbps,
        place,
    }
}

/// BlueField-3 of the tenant's network.
pub(super) const BLUEFIELD3: Mlx5 = BF3;

/// `rate` of a port.
pub(super) fn rate(gbps: u32, efa: bool) -> &'static str {
    match (gbps, efa) {
        (50, _) => "50 Gb/sec (1X HDR)",
        (100, _) => "100 Gb/sec (4X EDR)",
        (200, _) => "200 Gb/sec (4X HDR)",
        // EFA's text, as far as known, names lanes that InfiniBand has not.
        (400, true) => "400 Gb/sec (8X HDR)",
        (400, false) => "400 Gb/sec (4X NDR)",
        _ => "800 Gb/sec (4X XDR)",
    }
}
