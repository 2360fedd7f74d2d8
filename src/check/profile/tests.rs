use super::*;
use crate::check::testing::Node;
use crate::observe::PciFacts;

fn shape(text: &str) -> Option<&'static str> {
    by_type(text).map(|shape| shape.name)
}

#[test]
fn types_are_known_by_their_names() {
    for (text, want) in [
        ("p5.48xlarge", Some("AWS p5.48xlarge")),
        ("p5e.48xlarge", Some("AWS p5e.48xlarge")),
        ("p5en.48xlarge", Some("AWS p5en.48xlarge")),
        ("p5.4xlarge", Some("AWS p5.4xlarge")),
        ("Standard_ND96isr_H100_v5", Some("Azure ND96isr_H100_v5")),
        ("Standard_ND96is_H100_v5", Some("Azure ND96is_H100_v5")),
        ("Standard_ND96isrf_H200_v5", Some("Azure ND96isr_H200_v5")),
        ("Standard_NC40ads_H100_v5", Some("Azure NCads_H100_v5")),
        ("Standard_NC80adis_H100_v5", Some("Azure NC80adis_H100_v5")),
        (
            "Standard_ND96isr_MI300X_v5",
            Some("Azure ND96isr_MI300X_v5"),
        ),
        (
            "Standard_ND128isr_NDR_GB200_v6",
            Some("Azure ND128isr_NDR_GB200_v6"),
        ),
        ("BM.GPU.MI355X.8", Some("OCI BM.GPU.MI355X.8")),
        ("BM.GPU.MI355X-v1.8", Some("OCI BM.GPU.MI355X-v1.8")),
        ("Standard_D4s_v5", None),
        ("a3-megagpu-8g", Some("GCP a3-megagpu-8g")),
        ("a3-highgpu-1g", Some("GCP without GPU fabric")),
        ("ml.p5.48xlarge", Some("AWS p5.48xlarge")),
        ("ml.BM.GPU.H100.8", None),
        ("BM.GPU.H100-NC.8", Some("OCI without a cluster network")),
        ("BM.GPU.H100-v9.8", None),
        ("g5.48xlarge", Some("AWS G sizes with one EFA")),
        ("g5.xlarge", None),
        ("p6e-gb300.36xlarge", None),
        (
            "Standard_ND128isr_GB300_v6",
            Some("Azure ND128isr_GB300_v6"),
        ),
        ("b300-8x", Some("CoreWeave")),
        ("BM.GPU.H100.8", Some("OCI BM.GPU.H100.8")),
        ("BM.GPU.GB200-v3.4", Some("OCI BM.GPU.GB200-v3.4")),
        ("BM.GPU.GB200-v2.4", Some("OCI BM.GPU.GB200.4")),
        (" DGXH100 ", Some("DGX H100")),
        ("k3s", None),
        ("", None),
        ("*", None),
    ] {
        assert_eq!(shape(text), want, "{text}");
    }
}

#[test]
fn no_type_fits_two_rows() {
    for of in shapes() {
        for text in of.types.iter().filter(|text| !text.contains('*')) {
            let fits = |shape: &&Shape| shape.types.iter().any(|p| glob::matches(p, text));
            assert_eq!(shapes().iter().filter(fits).count(), 1, "{text}");
            assert_eq!(by_type(text), Some(of));
        }
        let none = of.fabric == Fabric::None;
        assert_eq!(of.rails.0 == 0, none, "{}", of.name);
        let more = of.resources.iter().any(|(_, n)| *n > of.rails.0);
        assert!(!more, "{}: more of a resource than rails", of.name);
    }
}

fn machine(vendor: &str, product: &str, asset_tag: &str) -> MachineFacts {
    let told = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
    MachineFacts {
        vendor: told(vendor),
        product: told(product),
        asset_tag: told(asset_tag),
    }
}

/// Profile of a node with eight GPUs and these NICs' drivers.
fn found(word: &str, label: &str, machine: MachineFacts, drivers: &[(&str, usize)]) -> Profile {
    let mut node = Node::roce();
    let mut pci: PciFacts = node.snapshot.pci.as_ref().unwrap().value.clone();
    pci.machine = machine;
    node.set_pci(pci);
    if !drivers.is_empty() {
        let like = node.devices[0].clone();
        let all = drivers
            .iter()
            .flat_map(|(driver, n)| std::iter::repeat_n(*driver, *n));
        node.devices = all
            .map(|driver| RdmaDevice {
                driver: driver.into(),
                ..like.clone()
            })
            .collect();
    }
    node.tick(1);
    let offer = NodeResources {
        instance_type: Some(label.to_string()).filter(|label| !label.is_empty()),
        ..NodeResources::default()
    };
    let settings = PlatformSettings {
        profile: word.into(),
        ..PlatformSettings::default()
    };
    let roles = (&node.roles, &RoleOverrides::default());
    find(&settings, Some(&offer), &node.snapshot, roles)
}

#[test]
fn the_first_that_tells_decides() {
    let azure = || {
        let tag = "7783-7084-3265-9085-8269-3286-77";
        machine("Microsoft Corporation", "Virtual Machine", tag)
    };
    let ec2 = || machine("Amazon EC2", "p5.48xlarge", "Amazon EC2");
    let gcp = || machine("Google", "Google Compute Engine", "");
    let dgx = || machine("NVIDIA", "NVIDIA DGX H100", "");
    let hyper_v = || machine("Microsoft Corporation", "Virtual Machine", "None");
    let none: &[(&str, usize)] = &[];
    for (word, label, machine, drivers, want) in [
        (
            "auto",
            "",
            machine("", "", ""),
            none,
            ("inferred", "inferred"),
        ),
        ("auto", "", ec2(), none, ("AWS p5.48xlarge", "dmi")),
        (
            "auto",
            "p5en.48xlarge",
            ec2(),
            none,
            ("AWS p5en.48xlarge", "instance_type"),
        ),
        (
            "p4d.24xlarge",
            "p5en.48xlarge",
            ec2(),
            none,
            ("AWS p4d.24xlarge", "set"),
        ),
        // A label that says nothing leaves it to the firmware.
        ("auto", "k3s", dgx(), none, ("DGX H100", "dmi")),
        ("none", "p5.48xlarge", ec2(), none, ("AWS", "inferred")),
        ("auto", "", azure(), none, ("Azure", "inferred")),
        ("auto", "", hyper_v(), none, ("inferred", "inferred")),
        (
            "auto",
            "",
            machine("", "", "OracleCloud.com"),
            none,
            ("OCI", "inferred"),
        ),
        (
            "auto",
            "p9.metal",
            machine("Amazon EC2", "p9.metal", ""),
            none,
            ("AWS", "inferred"),
        ),
        (
            "auto",
            "",
            gcp(),
            &[("gve", 9)],
            ("GCP a3-megagpu-8g", "pci"),
        ),
        (
            "auto",
            "",
            gcp(),
            &[("gve", 5)],
            ("GCP a3-highgpu-8g", "pci"),
        ),
        // One is missing: not a smaller machine, and nothing that is known.
        ("auto", "", gcp(), &[("gve", 8)], ("GCP", "inferred")),
        (
            "auto",
            "",
            gcp(),
            &[("gve", 2), ("mlx5_core", 8)],
            ("GCP", "inferred"),
        ),
        // The product's name of another maker's machine says nothing.
        (
            "auto",
            "",
            machine("Acme", "DGXH100", ""),
            none,
            ("inferred", "inferred"),
        ),
    ] {
        let profile = found(word, label, machine, drivers);
        let got = (profile.name(), profile.source.as_str());
        assert_eq!(got, want, "{word} {label}");
    }
}

#[test]
fn sentences() {
    let said = |word: &str| found(word, "", MachineFacts::default(), &[]).sentence();
    for (word, want) in [
        (
            "p5.48xlarge",
            "AWS p5.48xlarge (set): up to 32 EFA devices of 100 Gb/s expected",
        ),
        (
            "a3-megagpu-8g",
            "GCP a3-megagpu-8g (set): up to 8 gVNIC rails expected",
        ),
        (
            "Standard_ND96is_H100_v5",
            "Azure ND96is_H100_v5 (set): no RDMA device expected",
        ),
        (
            "BM.GPU.B300.8",
            "OCI BM.GPU.B300.8 (set): 16 RoCE rails of 400 Gb/s as far as known",
        ),
        ("auto", "inferred: 8 RoCE rails of 400 Gb/s"),
    ] {
        assert_eq!(said(word), want);
    }
}

#[test]
fn rails_that_a_shape_says_and_that_all_have_up() {
    for (word, says, up) in [
        ("p5.48xlarge", true, None),
        ("Standard_ND96isr_H100_v5", true, Some(8)),
        ("Standard_ND96is_H100_v5", false, None),
        ("BM.GPU.B300.8", false, None),
        ("auto", false, None),
    ] {
        let profile = found(word, "", MachineFacts::default(), &[]);
        let got = (profile.says_rails(), profile.sure_rails());
        assert_eq!(got, (says, up), "{word}");
    }
}

#[test]
fn settings_are_checked() {
    let wrong = |profile: &str, resource: &str| {
        let settings = PlatformSettings {
            profile: profile.into(),
            resource: resource.into(),
        };
        let keys = settings.complaints().into_iter().map(|(key, _)| key);
        keys.collect::<Vec<_>>()
    };
    assert_eq!(wrong("auto", ""), [""; 0]);
    assert_eq!(wrong("none", "rdma/ib"), [""; 0]);
    assert_eq!(wrong("BM.GPU.H100.8", ""), [""; 0]);
    assert_eq!(
        wrong("p5.48xlrge", "efa"),
        ["platform.profile", "platform.resource"]
    );
}
