use super::*;
use std::collections::BTreeSet;

/// Each row has one machine, and it has what the row says, also with some rails more.
#[test]
fn every_shape_has_a_machine() {
    assert_eq!(shape_names().len(), SHAPES.len());
    for shape in SHAPES {
        let machine = machine_of(shape).unwrap_or_else(|| panic!("{}", shape.name));
        for more in [0, 1, 2, 4] {
            let rails = shape.rails.0 + more * u32::from(shape.rails.0 > 0);
            let case = format!("{} and {more}", shape.name);
            let spec = spec_with_rails(shape, rails).unwrap_or_else(|| panic!("{case}"));
            let devices: BTreeSet<&str> = spec.rdma.iter().map(|d| d.name.as_str()).collect();
            assert_eq!(devices.len(), spec.rdma.len(), "{case}: names twice");
            let at: BTreeSet<_> = spec.rdma.iter().map(|device| device.pci).collect();
            assert_eq!(at.len(), spec.rdma.len(), "{case}: places twice");
            let netdevs: BTreeSet<&str> = spec.netdevs.iter().map(|n| n.name.as_str()).collect();
            assert_eq!(
                netdevs.len(),
                spec.netdevs.len(),
                "{case}: interfaces twice"
            );
            let others = machine.others.len() + usize::from(machine.accelerated_networking);
            let expected = match CATALOGUE.nic(&machine.nic) {
                Some(nic) if !nic.is_gvnic() => others + rails as usize,
                _ => others,
            };
            assert_eq!(spec.rdma.len(), expected, "{case}");
            let route = spec.default_route.as_deref().unwrap_or_default();
            assert!(spec.netdev(route).is_some(), "{case}: no {route}");
            let gpu = CATALOGUE.gpu(&machine.gpu).unwrap();
            let gpus = spec
                .pci
                .values()
                .filter(|f| (f.vendor, f.device) == (gpu.vendor, gpu.device));
            assert_eq!(gpus.count() as u32, machine.gpus.max(shape.gpus), "{case}");
            for pci in spec.pci.values() {
                let above = pci.parent.map(|bdf| bdf.to_string());
                let is = above.as_ref().and_then(|above| spec.pci.get(above));
                assert_eq!(
                    is.is_some(),
                    above.is_some(),
                    "{case}: nothing above {}",
                    pci.bdf
                );
            }
        }
        let known = gbps(shape, machine) > 0 || shape.rails.0 == 0;
        assert!(known, "{}: no rate, neither known nor assumed", shape.name);
    }
}

#[test]
fn a_name_is_a_preset_or_a_type() {
    for (name, hostname) in [
        ("h100_ib", Some("dgx-1")),
        ("p6-b200.48xlarge", Some("p6-b200-48xlarge-1")),
        ("BM.GPU.B200.8", Some("bm-gpu-b200-8-1")),
        ("bm.gpu.gb200-v2.4", Some("bm-gpu-gb200-4-1")),
        ("dgx-h100", Some("dgxh100-1")),
        (
            "Standard_NC80adis_H100_v5",
            Some("standard-nc80adis-h100-v5-1"),
        ),
        ("m5.large", None),
        ("", None),
    ] {
        let spec = by_name(name);
        assert_eq!(spec.map(|s| s.hostname).as_deref(), hostname, "{name}");
    }
}

/// Every machine of the data file can be built, and names what exists.
#[test]
fn every_preset_is_built_of_known_parts() {
    for name in presets() {
        let spec = preset(name).unwrap_or_else(|| panic!("{name}"));
        assert!(!spec.netdevs.is_empty(), "{name}");
        assert!(!about(name).is_empty(), "{name}");
    }
}
