//! Who an RDMA device is: PCI address, driver, kind of function. Pure but for [`pci_function`];
//! [`super::infiniband`] reads.

use super::tree;
use crate::host::Host;
use crate::observe::{Function, is_guid_set};
use crate::units::{Bdf, DeviceKey};
use std::path::{Component, Path};

/// Where a device hangs in `/sys/devices`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciPlace {
    /// The host bridge's directory, `pciDDDD:BB`.
    pub host_bridge: Option<String>,
    /// Ports and switches from the root down, without the function itself.
    pub bridges: Vec<Bdf>,
    /// PCI function, or that of the nearest parent that is one.
    pub pci: Option<Bdf>,
    /// Name of the auxiliary device below the PCI function (mlx5 sub-functions).
    pub aux: Option<String>,
    /// Below `/sys/devices/virtual`: no hardware.
    pub software: bool,
}

/// Reads a device directory's path, such as
/// `sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0` or `…/0000:08:00.0/mlx5_core.sf.2`. Only what
/// hangs below the last host bridge counts (VMD puts one inside another's tree).
pub fn place(path: &Path) -> PciPlace {
    let mut place = PciPlace::default();
    for component in path.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let name = name.to_string_lossy();
        if let Ok(bdf) = name.parse() {
            place.bridges.extend(place.pci.replace(bdf));
            place.aux = None;
        } else if name.starts_with("pci") && name.contains(':') {
            place = PciPlace {
                host_bridge: Some(name.into_owned()),
                ..PciPlace::default()
            };
        } else if place.pci.is_some() {
            place.aux = Some(name.into_owned());
        } else if name == "virtual" {
            place.software = true;
        }
    }
    place
}

/// The PCI function behind a device's directory in a class, by its `device` link.
pub fn pci_function(host: &Host, class_dir: &Path) -> Option<Bdf> {
    place(&tree::canonical(host, class_dir.join("device"))?).pci
}

/// What the kernel's files tell about the driver; each may be missing.
#[derive(Debug, Clone, Default)]
pub struct DriverSigns {
    /// Name behind `device/driver`, or `DRIVER=` of its uevent.
    pub bound: Option<String>,
    /// The device has a `device` link.
    pub has_device: bool,
    /// Its path is below `/sys/devices/virtual`.
    pub software: bool,
    /// It has a `parent` file that names a network device (rxe.c `parent_show`).
    pub parent_is_netdev: bool,
    /// The number in `node_type`, such as `1: CA` (1: channel adapter, 4: RNIC).
    pub node_type: Option<u32>,
    /// Content of `hca_type`, such as `MT4129`.
    pub hca_type: Option<String>,
}

/// Driver's name out of its signs; `unknown` where nothing tells.
pub fn driver(signs: &DriverSigns) -> String {
    // Before 5.11 rxe took the parent of its network device as its own, so that this comes first.
    if signs.parent_is_netdev {
        return "rdma_rxe".into();
    }
    if let Some(bound) = &signs.bound {
        return bound.clone();
    }
    if !signs.has_device {
        match signs.node_type {
            Some(4) => return "siw".into(),
            Some(1) if signs.software => return "rdma_rxe".into(),
            _ => {}
        }
    }
    // mlx4 and mlx5 print the PCI device id in decimal; Connect-IB (4113) is the first of mlx5.
    let hca_type = signs.hca_type.as_deref();
    match hca_type.and_then(|hca| hca.strip_prefix("MT")?.parse::<u32>().ok()) {
        Some(4096..=4112) => "mlx4_core".into(),
        Some(4113..) => "mlx5_core".into(),
        _ => "unknown".into(),
    }
}

/// Whether a driver is soft RDMA.
pub fn is_software(driver: &str) -> bool {
    matches!(driver, "rdma_rxe" | "siw")
}

/// PCI ids of virtual functions (drivers' id tables): mlx4, mlx5, bnxt_en, iavf, mana. EFA has no
/// such id: its function is all there is.
const VIRTUAL_IDS: &str = include_str!("identity/virtual_ids.txt");

/// Kind of function. `physfn`: the PCI function has that link, so its PF is on this host.
pub fn function(place: &PciPlace, driver: &str, physfn: bool, pci_id: Option<&str>) -> Function {
    if is_software(driver) || (place.software && place.pci.is_none()) {
        return Function::Software;
    }
    if place.aux.is_some() {
        return Function::SubFunction;
    }
    if physfn {
        return Function::VirtualOfHost;
    }
    let mut virtual_ids = VIRTUAL_IDS.split_ascii_whitespace();
    match virtual_ids.any(|id| Some(id) == pci_id) {
        true => Function::VirtualInGuest,
        false => Function::Physical,
    }
}

/// What the device is known by. A software device's PCI address, if its path shows one, is that of
/// the NIC beneath it and not its own.
pub fn key(place: &PciPlace, software: bool, node_guid: Option<&str>, name: &str) -> DeviceKey {
    match (&place.pci, &place.aux) {
        (Some(pci), Some(aux)) if !software => DeviceKey(format!("{pci}/{aux}")),
        (Some(pci), None) if !software => DeviceKey(pci.to_string()),
        _ => match node_guid {
            Some(guid) if is_guid_set(guid) => DeviceKey(format!("guid:{guid}")),
            _ => DeviceKey(format!("name:{name}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let rows = [
            (
                "sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0",
                Some("0000:19:00.0"),
                None,
                false,
            ),
            (
                "../../devices/pci0000:00/0000:08:00.0/mlx5_core.sf.2",
                Some("0000:08:00.0"),
                Some("mlx5_core.sf.2"),
                false,
            ),
            (
                "sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/10000:e1:00.0",
                Some("10000:e1:00.0"),
                None,
                false,
            ),
            (
                "sys/devices/pci0008:00/0008:00:00.0/0008:01:00.0",
                Some("0008:01:00.0"),
                None,
                false,
            ),
            ("../../devices/virtual", None, None, true),
            ("sys/devices/platform/HISI00D1:00", None, None, false),
            ("", None, None, false),
        ];
        for (path, pci, aux, software) in rows {
            let got = place(Path::new(path));
            assert_eq!(got.pci.map(|b| b.to_string()).as_deref(), pci, "{path}");
            assert_eq!(got.aux.as_deref(), aux, "{path}");
            assert_eq!(got.software, software, "{path}");
        }
    }

    #[test]
    fn drivers() {
        let signs =
            |bound: Option<&str>, device, software, parent, node_type, hca: Option<&str>| {
                driver(&DriverSigns {
                    bound: bound.map(Into::into),
                    has_device: device,
                    software,
                    parent_is_netdev: parent,
                    node_type,
                    hca_type: hca.map(Into::into),
                })
            };
        assert_eq!(
            signs(Some("mlx5_core"), true, false, false, Some(1), None),
            "mlx5_core"
        );
        assert_eq!(signs(None, false, true, true, Some(1), None), "rdma_rxe");
        assert_eq!(signs(None, false, true, false, Some(1), None), "rdma_rxe");
        assert_eq!(signs(None, false, true, false, Some(4), None), "siw");
        assert_eq!(
            signs(Some("mlx5_core"), true, false, true, Some(1), None),
            "rdma_rxe",
            "rxe on a kernel that gave it its NIC's parent"
        );
        assert_eq!(
            signs(None, false, false, false, Some(1), Some("MT4129")),
            "mlx5_core"
        );
        assert_eq!(
            signs(None, false, false, false, Some(1), Some("MT4099")),
            "mlx4_core"
        );
        assert_eq!(signs(None, false, false, false, Some(7), None), "unknown");
        assert_eq!(
            signs(Some("siw_like_hw"), true, false, false, Some(4), None),
            "siw_like_hw"
        );
    }

    #[test]
    fn functions() {
        let pci = place(Path::new("sys/devices/pci0000:00/0000:08:00.0"));
        let sf = place(Path::new(
            "sys/devices/pci0000:00/0000:08:00.0/mlx5_core.sf.2",
        ));
        let rows = [
            (&pci, "mlx5_core", false, "15b3:1021", Function::Physical),
            (
                &pci,
                "mlx5_core",
                true,
                "15b3:101e",
                Function::VirtualOfHost,
            ),
            (
                &pci,
                "mlx5_core",
                false,
                "15b3:101e",
                Function::VirtualInGuest,
            ),
            (&pci, "mana", false, "1414:00ba", Function::VirtualInGuest),
            (&pci, "efa", false, "1d0f:efa2", Function::Physical),
            (&pci, "irdma", false, "8086:101e", Function::Physical),
            (&sf, "mlx5_core", false, "15b3:1021", Function::SubFunction),
            (&pci, "rdma_rxe", false, "15b3:1021", Function::Software),
        ];
        for (place, driver, physfn, id, want) in rows {
            assert_eq!(
                function(place, driver, physfn, Some(id)),
                want,
                "{driver} {id}"
            );
        }
    }

    #[test]
    fn keys() {
        let pci = place(Path::new("a/0000:08:00.0"));
        let sf = place(Path::new("a/0000:08:00.0/mlx5_core.sf.2"));
        let guid = Some("5054:00ff:fe12:3456");
        let rows = [
            (&pci, false, guid, "0000:08:00.0"),
            (&sf, false, guid, "0000:08:00.0/mlx5_core.sf.2"),
            (&pci, true, guid, "guid:5054:00ff:fe12:3456"),
            (
                &PciPlace::default(),
                false,
                Some("0000:0000:0000:0000"),
                "name:x0",
            ),
            (&PciPlace::default(), false, None, "name:x0"),
        ];
        for (place, software, guid, want) in rows {
            assert_eq!(key(place, software, guid, "x0").0, want);
        }
    }
}
