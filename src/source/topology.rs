//! How near a NIC is to a GPU, by their paths in `/sys/devices`: the classes that NCCL uses
//! (src/graph/topo.cc climbs a switch, two path elements, a step). Pure.

use crate::observe::Distance;
use crate::source::identity::PciPlace;

/// Where a function hangs, and its NUMA node.
pub type Located = (PciPlace, Option<u32>);

/// Distance of two functions. None where their NUMA nodes decide and one is unknown (-1 on guests
/// and on machines with one node): unknown is not node 0.
pub fn distance((nic, numa_nic): &Located, (gpu, numa_gpu): &Located) -> Option<Distance> {
    let pairs = nic.bridges.iter().zip(&gpu.bridges);
    let shared = pairs.take_while(|(a, b)| a == b).count();
    let same_host_bridge = nic.host_bridge.is_some() && nic.host_bridge == gpu.host_bridge;
    if shared > 0 && same_host_bridge {
        // Ports left on each side below what is shared: one at most is that switch's own
        // downstream port, more is another switch between.
        let below = |path: &PciPlace| path.bridges.len().saturating_sub(shared);
        return Some(match below(nic) <= 1 && below(gpu) <= 1 {
            true => Distance::Pix,
            false => Distance::Pxb,
        });
    }
    if same_host_bridge {
        return Some(Distance::Phb);
    }
    match (numa_nic, numa_gpu) {
        (Some(a), Some(b)) if a == b => Some(Distance::Phb),
        (Some(_), Some(_)) => Some(Distance::Sys),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::identity::place;
    use std::path::Path;

    /// `15:01.0/16:00.0` to a path below `pci0000:15`.
    fn path(root: &str, functions: &str) -> PciPlace {
        let mut path = format!("sys/devices/pci{root}");
        for function in functions.split('/') {
            path.push_str(&format!("/{}:{function}", root.split(':').next().unwrap()));
        }
        place(Path::new(&path))
    }

    #[test]
    fn paths() {
        let got = path("0000:15", "15:01.0/16:00.0/17:00.0/18:00.0");
        assert_eq!(got.host_bridge.as_deref(), Some("pci0000:15"));
        assert_eq!(got.bridges.len(), 3);
        assert_eq!(got.pci.unwrap().to_string(), "0000:18:00.0");
        let vmd = place(Path::new(
            "sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/10000:e1:00.0",
        ));
        assert_eq!(vmd.host_bridge.as_deref(), Some("pci10000:e0"));
        assert_eq!(vmd.bridges.len(), 1);
    }

    #[test]
    fn classes() {
        use Distance::*;
        let gpu = path("0000:15", "15:01.0/16:00.0/17:00.0/18:00.0");
        // Under the same switch; below one more switch; same root complex; other roots.
        let pix = path("0000:15", "15:01.0/16:00.0/17:01.0/19:00.0");
        let pxb = path("0000:15", "15:01.0/16:00.0/17:01.0/19:00.0/1a:00.0/1b:00.0");
        let phb = path("0000:15", "15:02.0/20:00.0");
        let other = path("0000:37", "37:01.0/38:00.0");
        let grace = path("0008:00", "00:00.0/01:00.0");
        let bare = path("0000:15", "15:01.0/16:00.0");
        let rows = [
            (&pix, Some(0), Some(0), Some(Pix)),
            (&pix, None, None, Some(Pix)),
            (&pxb, Some(0), Some(0), Some(Pxb)),
            (&phb, None, None, Some(Phb)),
            (&other, Some(0), Some(0), Some(Phb)),
            (&other, Some(1), Some(0), Some(Sys)),
            (&other, None, Some(0), None),
            (&grace, Some(1), Some(0), Some(Sys)),
            (&PciPlace::default(), None, None, None),
        ];
        for (nic, numa_nic, numa_gpu, want) in rows {
            let (nic, gpu) = ((nic.clone(), numa_nic), (gpu.clone(), numa_gpu));
            assert_eq!(distance(&nic, &gpu), want, "{nic:?}");
        }
        // Two functions of one card on one root port.
        let sibling = path("0000:15", "15:01.0/16:00.1");
        assert_eq!(distance(&(bare, None), &(sibling, None)), Some(Pix));
    }
}
