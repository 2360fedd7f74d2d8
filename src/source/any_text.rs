//! Whatever a file holds, no parser panics.

use super::{
    gids, gpudirect, identity, link_text, modules, nvidia, parse, pci_text, routes, topology, tree,
};
use proptest::prelude::*;
use std::path::Path;

/// Random text, and text made of the pieces that the parsers look for.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("4: ACTIVE".to_string()),
        Just(" Gb/sec (".to_string()),
        Just("16.0 GT/s PCIe".to_string()),
        Just("TOTAL_ERR_COR ".to_string()),
        Just("Error : dma-map=".to_string()),
        Just("pci0000:00/0000:00:01.0/".to_string()),
        Just("00000000".to_string()),
        Just("18446744073709551616".to_string()),
        Just("\n".to_string()),
        Just("\t".to_string()),
        Just("é:=.(".to_string()),
        "[ -~]{0,6}",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn texts(text in text(), other in text()) {
        let _ = link_text::parse_state(&text);
        let _ = link_text::parse_phys_state(&text);
        let _ = link_text::parse_rate(&text);
        let _ = pci_text::parse_link(&text, &other);
        let _ = pci_text::parse_aer(&text);
        let _ = gids::parse_gid(&text);
        let _ = gpudirect::iommu_words(&text);
        let _ = modules::parse(&text);
        let _ = nvidia::parse_errors(&text);
        let _ = routes::parse_v4(&text);
        let _ = routes::parse_v6(&text);
        let _ = parse::uevent(&text, "DRIVER");
        let _ = tree::parse_u64(&text, || "x".into());
        let (nic, gpu) = (identity::place(Path::new(&text)), identity::place(Path::new(&other)));
        let _ = topology::distance(&(nic, None), &(gpu, Some(0)));
        if let Some(word) = parse::clean(&text) {
            prop_assert!(word.chars().count() <= 128 && !word.chars().any(char::is_control));
        }
    }

    #[test]
    fn config_space(bytes in prop::collection::vec(any::<u8>(), 0..4200)) {
        let _ = pci_text::acs_redirect(&bytes);
    }

    /// A chain of capabilities that leads anywhere.
    #[test]
    fn config_chains(headers in prop::collection::vec(any::<u32>(), 960)) {
        let mut config = vec![0u8; 256];
        config.extend(headers.iter().flat_map(|header| (header & 0xfff0_001f).to_le_bytes()));
        let _ = pci_text::acs_redirect(&config);
    }
}
