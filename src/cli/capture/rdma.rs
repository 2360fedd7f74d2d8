//! RDMA devices of a capture.

use super::copier::{Copied, Copier};
use super::{Skip, node};
use crate::observe::counters::PmaSkip;
use crate::observe::rdma::{Function, RdmaDevice};
use crate::source::counter_files::{hw_order, order, pma_order};
use crate::source::gids;
use crate::source::infiniband::{class_dir, pci_function_dir};
use crate::source::rdma_port::port_dir;
use crate::source::tree;
use std::path::Path;

const EINVAL: i32 = nix::errno::Errno::EINVAL as i32;

/// GID slots kept: one more than is read, so that a replay too sees where the table goes on.
const GID_SLOTS: u32 = gids::ALL_SLOTS + 1;

/// Slots whose attributes are kept though they are empty.
const WHOLE_SLOTS: u32 = 17;

/// One device with its ports.
pub fn device(copier: &mut Copier<'_>, device: &RdmaDevice, skip: Skip<'_>) {
    let dir = class_dir(&device.name);
    copier.link(&dir);
    copier.directory(&dir);
    copier.link(dir.join("device"));
    copier.directory(dir.join("device"));
    copier.files(
        &dir,
        &[
            "node_type",
            "node_guid",
            "sys_image_guid",
            "fw_ver",
            "hca_type",
            "hw_rev",
            "board_id",
            "parent",
        ],
    );
    for interface in copier.list(dir.join("device/net")) {
        let at = dir.join("device/net").join(interface);
        copier.files(at, &["dev_port", "dev_id", "phys_port_name"]);
    }
    let on_bus = device
        .pci
        .is_some_and(|bdf| tree::exists(copier.host, pci_function_dir(bdf)));
    if !on_bus {
        // A device directory that is not on the PCI bus, or a tree that was copied flat.
        node::function_files(copier, &dir.join("device"));
    }
    let mut excluded = !device.ports.is_empty();
    for port in &device.ports {
        let skip = skip(device, port.number);
        excluded &= skip == Some(PmaSkip::Excluded);
        self::port(copier, device, port.number, skip);
    }
    if !excluded {
        hw_counters(copier, &dir.join("hw_counters"));
    }
}

fn port(copier: &mut Copier<'_>, device: &RdmaDevice, number: u32, skip: Option<PmaSkip>) {
    let dir = port_dir(&device.name, number);
    copier.directory(&dir);
    copier.files(
        &dir,
        &[
            "state",
            "phys_state",
            "rate",
            "link_layer",
            "lid",
            "sm_lid",
            "cap_mask",
        ],
    );
    for slot in 0..GID_SLOTS {
        let gid = dir.join("gids").join(slot.to_string());
        let text = tree::read_text(copier.host, &gid);
        if copier.file(gid) == Copied::Missing {
            break;
        }
        if slot >= WHOLE_SLOTS
            && text
                .value()
                .is_none_or(|gid| gids::parse_gid(gid).is_none())
        {
            continue;
        }
        for attribute in ["types", "ndevs"] {
            let path = dir.join("gid_attrs").join(attribute);
            copier.file(path.join(slot.to_string()));
        }
    }
    let may_be_restricted = device.function == Function::Physical;
    pma_counters(copier, &dir.join("counters"), skip, may_be_restricted);
    if skip == Some(PmaSkip::Excluded) {
        copier.directory(dir.join("hw_counters"));
    } else {
        hw_counters(copier, &dir.join("hw_counters"));
    }
}

/// PMA files, by the reader's own rule: nothing of an excluded port is opened, and a physical
/// function is left alone at its first EINVAL. A replay meets the same answer at the same file.
fn pma_counters(
    copier: &mut Copier<'_>,
    dir: &Path,
    skip: Option<PmaSkip>,
    may_be_restricted: bool,
) {
    if skip == Some(PmaSkip::Excluded) {
        copier.directory(dir);
        return;
    }
    let mut closed = skip == Some(PmaSkip::Restricted);
    for name in order(copier.list(dir), pma_order, false) {
        let path = dir.join(name);
        if closed {
            copier.refused(&path, EINVAL);
        } else if copier.file(&path) == Copied::Errno(EINVAL) {
            closed = may_be_restricted;
        }
    }
}

fn hw_counters(copier: &mut Copier<'_>, dir: &Path) {
    for name in order(copier.list(dir), hw_order, false) {
        copier.file(dir.join(name));
    }
}
