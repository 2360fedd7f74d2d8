//! What kind of machine this is: architecture, virtual or not.

use crate::host::Host;
use crate::observe::MachineFacts;
use crate::source::{parse, tree};
use crate::units::Millis;

/// First bytes of `/proc/cpuinfo` that are read: the first processor is enough, and on a big
/// machine the whole costs milliseconds.
const CPUINFO: usize = 8192;

/// Products that only exist as virtual machines (`/sys/class/dmi/id`).
const VIRTUAL: &str = "KVM|QEMU|Virtual Machine|VMware|VirtualBox|HVM domU|Bochs|OpenStack";

/// Vendors that rent both virtual and bare machines.
const CLOUDS: &str = "Amazon EC2|Google|Google Compute Engine";

/// Name of the machine: of a directory tree, the one that was saved with it.
pub fn host_name(host: &Host) -> Option<String> {
    if !host.is_live() {
        return tree::read_text(host, "proc/sys/kernel/hostname").into_value();
    }
    let name = nix::sys::utsname::uname().ok()?;
    Some(name.nodename().to_string_lossy().into_owned())
}

/// `/proc/sys/kernel/random/boot_id`.
pub fn boot_id(host: &Host) -> Option<String> {
    let text = tree::read_text(host, "proc/sys/kernel/random/boot_id");
    text.into_value().filter(|text| !text.is_empty())
}

/// `/proc/uptime`: how long the machine has been up, time in suspend included. The stamps of its
/// kernel log count from the same moment.
pub fn uptime(host: &Host) -> Option<Millis> {
    let text = tree::read_text(host, "proc/uptime").into_value()?;
    let seconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    // Beyond a century it is nonsense.
    let is_sane = (0.0..4e9).contains(&seconds);
    is_sane.then_some(Millis((seconds * 1000.0) as u64))
}

/// Whether the machine is a guest. Its PCI topology is then the hypervisor's invention.
pub fn is_virtual(host: &Host) -> bool {
    let facts = facts(host);
    let vendor = facts.vendor.unwrap_or_default();
    let product = facts.product.unwrap_or_default();
    judge(&cpuinfo(host), &vendor, &product)
}

/// The `hypervisor` flag exists on x86 only; elsewhere, and where it is hidden, the product tells.
fn judge(cpuinfo: &str, vendor: &str, product: &str) -> bool {
    let flags = parse::field(cpuinfo, ':', "flags");
    if flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")) {
        return true;
    }
    let is_of = |known: &str| vendor.contains(known) || product.contains(known);
    let known = |list: &str| list.split('|').any(is_of);
    // Clouds say in the product's name that a machine is bare; x86 without the flag is.
    known(VIRTUAL) || (known(CLOUDS) && flags.is_none() && !product.contains("metal"))
}

/// What the firmware calls the machine.
pub fn facts(host: &Host) -> MachineFacts {
    let dmi = |file: &str| parse::word(host, format!("sys/class/dmi/id/{file}"));
    MachineFacts {
        vendor: dmi("sys_vendor"),
        product: dmi("product_name"),
        asset_tag: dmi("chassis_asset_tag"),
    }
}

/// Machine architecture as the kernel calls it: `/proc/sys/kernel/arch` (since 6.1), else by the
/// shape of `/proc/cpuinfo`.
pub fn arch(host: &Host) -> Option<String> {
    if let Some(arch) = parse::word(host, "proc/sys/kernel/arch") {
        return Some(arch);
    }
    let cpuinfo = cpuinfo(host);
    if parse::field(&cpuinfo, ':', "CPU implementer").is_some() {
        Some("aarch64".into())
    } else if parse::field(&cpuinfo, ':', "vendor_id").is_some() {
        Some("x86_64".into())
    } else {
        host.is_live().then(|| std::env::consts::ARCH.into())
    }
}

fn cpuinfo(host: &Host) -> String {
    let bytes = tree::read_bytes(host, "proc/cpuinfo", CPUINFO).into_value();
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn guests_and_bare_machines() {
        const X86: &str = "vendor_id\t: GenuineIntel\nflags\t\t: fpu vme de\n";
        const GUEST: &str = "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor de\n";
        const ARM: &str = "Features\t: fp asimd\nCPU implementer\t: 0x41\n";
        for (cpuinfo, vendor, product, want) in [
            (X86, "NVIDIA", "DGXH100", false),
            (GUEST, "NVIDIA", "DGXH100", true),
            (X86, "QEMU", "Standard PC (Q35 + ICH9, 2009)", true),
            (X86, "Amazon EC2", "p5.48xlarge", false),
            (ARM, "Amazon EC2", "p6e-gb200.36xlarge", true),
            (ARM, "Amazon EC2", "g5g.metal", false),
            ("", "Microsoft Corporation", "Virtual Machine", true),
            ("", "Google", "Google Compute Engine", true),
            ("", "", "", false),
            ("flags: hypervisor_like\n", "", "", false),
        ] {
            assert_eq!(judge(cpuinfo, vendor, product), want, "{vendor} {product}");
        }
    }

    #[test]
    fn architectures() {
        let tree = TestTree::new();
        assert_eq!(arch(&tree.host()), None);
        tree.file("proc/cpuinfo", "processor: 0\nCPU implementer\t: 0x41");
        assert_eq!(arch(&tree.host()).as_deref(), Some("aarch64"));
        tree.file("proc/sys/kernel/arch", "x86_64");
        assert_eq!(arch(&tree.host()).as_deref(), Some("x86_64"));
    }
}
