//! What GPUDirect RDMA and Storage stand on: modules, drivers, IOMMU, peer-memory clients.

use crate::host::Host;
use crate::observe::{GpuDirectFacts, Reading};
use crate::source::infiniband::pci_function_dir;
use crate::source::{identity, machine, modules, nvidia, parse, rdma_port, tree};
use std::collections::BTreeMap;

/// Kernel parameters about the IOMMU.
const IOMMU_WORDS: &str = "iommu= intel_iommu= amd_iommu= iommu.passthrough= iommu.strict=";

/// Most words, clients and functions taken of each.
const MAX: usize = 64;

/// All of it. Each part fails for itself.
pub fn read(host: &Host) -> GpuDirectFacts {
    let cmdline = tree::read_text(host, "proc/cmdline");
    GpuDirectFacts {
        modules: modules::read(host),
        driver: nvidia::driver(host),
        topology_override: nvidia::parameter(host, "GrdmaPciTopoCheckOverride"),
        has_gpu_list: tree::exists(host, "proc/driver/nvidia/gpus"),
        gpus: nvidia::gpus(host),
        kernel_release: parse::word(host, "proc/sys/kernel/osrelease"),
        arch: machine::arch(host),
        // Peer-memory clients that are registered now. The directory is MLNX_OFED's (and Ubuntu's); the
        // module may be loaded and yet not be among them, after a restart of openibd.
        memory_peers: tree::list(host, "sys/kernel/mm/memory_peers")
            .map(|names| names.into_iter().take(MAX).collect()),
        iommu_active: tree::list(host, "sys/class/iommu").map(|names| !names.is_empty()),
        iommu_cmdline: iommu_words(cmdline.value().map_or("", String::as_str)),
        nvidia_fs: nvidia::filesystem(host),
        efa_p2p: efa_p2p(host),
        ofed_version: parse::word(host, modules::module_dir("mlx5_core").join("version")),
    }
}

/// The words of `/proc/cmdline` that say something about the IOMMU.
pub fn iommu_words(cmdline: &str) -> Vec<String> {
    let is_known = |word: &&str| IOMMU_WORDS.split(' ').any(|known| word.starts_with(known));
    let words = cmdline.split_ascii_whitespace().filter(is_known);
    words.filter_map(parse::clean).take(MAX).collect()
}

/// `p2p` of each EFA function (the driver of amzn-drivers only): the provider's name, or an empty
/// line where none is registered.
fn efa_p2p(host: &Host) -> BTreeMap<String, String> {
    let mut providers = BTreeMap::new();
    for name in tree::names(host, rdma_port::CLASS).iter().take(MAX) {
        let dir = rdma_port::class_dir(name);
        if tree::exists(host, dir.join("device/p2p"))
            && let Some(bdf) = identity::pci_function(host, &dir)
            && let Reading::Value(text) = tree::read_text(host, pci_function_dir(bdf).join("p2p"))
        {
            providers.insert(bdf.to_string(), parse::clean(&text).unwrap_or_default());
        }
    }
    providers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn nothing_there_is_absent_not_false() {
        let got = read(&TestTree::bare().host());
        assert_eq!(got, GpuDirectFacts::default());
        assert_eq!(got.iommu_active, Reading::Absent);
        assert_eq!(got.memory_peers, Reading::Absent);
    }

    #[test]
    fn a_node_with_most_of_it() {
        let tree = TestTree::new();
        tree.file(
            "proc/cmdline",
            "BOOT_IMAGE=/vmlinuz root=UUID=1 intel_iommu=on iommu=pt quiet secret=iommu=x",
        );
        tree.file("proc/sys/kernel/osrelease", "6.8.0-1021-aws");
        tree.file("sys/kernel/mm/memory_peers/nv_mem/version", "535.129.03");
        tree.dir("sys/class/iommu");
        tree.file("sys/module/mlx5_core/version", "24.10-1.1.4");
        for (name, bdf, p2p) in [
            ("efa_0", "0000:4f:00.0", "NVIDIA"),
            ("efa_1", "0000:50:00.0", ""),
        ] {
            let pci = tree.pci("0000:4e:01.0", bdf, ("1d0f", "efa2"), "efa");
            tree.rdma(&pci, name, &[("node_type", "7: unspecified")]);
            tree.file(&format!("{pci}/p2p"), p2p);
        }
        tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
        let got = read(&tree.host());
        assert_eq!(got.iommu_cmdline, ["intel_iommu=on", "iommu=pt"]);
        assert_eq!(got.kernel_release.as_deref(), Some("6.8.0-1021-aws"));
        assert_eq!(got.memory_peers, Reading::Value(vec!["nv_mem".into()]));
        assert_eq!(got.iommu_active, Reading::Value(false));
        assert_eq!(got.ofed_version.as_deref(), Some("24.10-1.1.4"));
        let p2p: Vec<_> = got
            .efa_p2p
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(p2p, [("0000:4f:00.0", "NVIDIA"), ("0000:50:00.0", "")]);
    }
}
