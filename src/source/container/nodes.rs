//! Device nodes: `/dev/infiniband/uverbsN`, `/dev/nvidiaN`, `/dev/nvidia-fsN`.

use crate::host::Host;
use crate::observe::{Fault, RdmaDevice, RdmaPort, Reading, SeenDevice, SeenPort, true_rate};
use crate::source::netdev::class_dir;
use crate::source::{gids, link_text, parse, rdma_port, tree};
use crate::units::BitsPerSec;
use nix::fcntl::OFlag;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a device's uverbs node as libibverbs does, and closes it; absent if this container has no
/// such node. May hang in the driver of a stuck device.
fn open_uverbs(host: &Host, device: &RdmaDevice) -> Reading<()> {
    let Reading::Value(name) = &device.uverbs else {
        // Without its module the class does not exist.
        return match tree::list(host, Path::new("sys/class/infiniband_verbs")) {
            Reading::Absent => Reading::Absent,
            _ => device.uverbs.clone().map(|_| ()),
        };
    };
    let shown = Path::new("/dev/infiniband").join(name);
    let path = host.path(Path::new("dev/infiniband").join(name));
    let open = || -> std::io::Result<bool> {
        host.check_errno(&path)?;
        let flags = OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let mut options = std::fs::File::options();
        options.read(true).write(true).custom_flags(flags.bits());
        let file = options.open(&path)?;
        Ok(!host.is_live() || file.metadata()?.file_type().is_char_device())
    };
    match open() {
        Ok(true) => Reading::Value(()),
        Ok(false) => Reading::malformed(format!("{}: not a character device", shown.display())),
        // A refused open is a fault whatever the errno, because the device was asked.
        Err(error) => match tree::classify(&error, &shown) {
            Reading::NotObservable => Reading::Failed(Fault::other(error.to_string())),
            other => other,
        },
    }
}

/// A device as this container sees it; `slot`: the GID slot that a setting selects.
pub(crate) fn read(host: &Host, device: RdmaDevice, slot: Option<u32>) -> SeenDevice {
    let name = &device.name;
    let node = open_uverbs(host, &device);
    let ports = device.ports.iter().map(|port| SeenPort {
        number: port.number,
        link_layer: port.link_layer,
        state: rdma_port::state(host, name, port.number),
        rate: rate(host, &device, port),
        gids: gids::read(host, &device, port.number),
        asked: slot.map_or(Reading::NotObservable, |slot| {
            gids::read_slot(host, name, port.number, slot)
        }),
    });
    SeenDevice {
        ports: ports.collect(),
        node,
        device,
    }
}

/// A port's rate; for a RoCE port without one of its own, that of its network device.
fn rate(host: &Host, device: &RdmaDevice, port: &RdmaPort) -> Option<BitsPerSec> {
    let path = rdma_port::port_dir(&device.name, port.number).join("rate");
    let own = link_text::parse_rate(tree::read_text(host, path).value()?)?.rate;
    let netdev = port.netdev.as_ref();
    let speed = netdev.and_then(|name| parse::decimal::<u64>(host, class_dir(name).join("speed")));
    true_rate(port.link_layer, &device.driver, own, speed)
}

/// GPUs that this container was given: `/dev/nvidiaN`; without such a node those that the driver
/// lists (a privileged container, or another kind of node). Of AMD `/dev/dri/renderDN`, with `/dev/kfd`
/// (ROCm's documentation on containers).
pub(crate) fn gpus(host: &Host) -> Reading<u32> {
    let nodes = count(host, "dev", "nvidia");
    match (&nodes, tree::list(host, "proc/driver/nvidia/gpus")) {
        (Reading::Value(1..), _) => nodes,
        (_, Reading::Value(names)) => Reading::Value(names.len().try_into().unwrap_or(u32::MAX)),
        _ if tree::exists(host, "dev/kfd") => count(host, "dev/dri", "renderD"),
        _ => nodes,
    }
}

/// Number of `/dev/nvidia-fsN` nodes.
pub(crate) fn nvidia_fs(host: &Host) -> Reading<u32> {
    count(host, "dev", "nvidia-fs")
}

/// Entries of a directory that consist of a name and a number.
fn count(host: &Host, dir: &str, stem: &str) -> Reading<u32> {
    tree::list(host, dir).map(|names| {
        let numbers = names.iter().filter_map(|name| name.strip_prefix(stem));
        u32::try_from(numbers.filter(|n| n.parse::<u32>().is_ok()).count()).unwrap_or(u32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::FaultKind;
    use crate::source::infiniband::enumerate;
    use crate::source::testtree::TestTree;

    fn tree() -> TestTree {
        let tree = TestTree::new();
        tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
        tree.file("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
        tree
    }

    fn device(tree: &TestTree) -> RdmaDevice {
        enumerate(&tree.host()).value().unwrap()[0].clone()
    }

    #[test]
    fn a_node_is_there_or_not_or_denied() {
        let tree = tree();
        let open = |tree: &TestTree| open_uverbs(&tree.host(), &device(tree));
        assert_eq!(open(&tree), Reading::Absent);
        tree.file("dev/infiniband/uverbs0", "");
        assert_eq!(open(&tree), Reading::Value(()));
        tree.errno(1, "dev/infiniband/uverbs0");
        assert!(matches!(open(&tree), Reading::Failed(fault) if fault.kind == FaultKind::Denied));
        tree.remove("sys/class/infiniband_verbs");
        assert_eq!(open(&tree), Reading::Absent);
    }

    #[test]
    fn ports_as_seen() {
        let tree = tree();
        let host = tree.host();
        let seen = read(&host, device(&tree), Some(3));
        assert_eq!(
            seen.ports[0].state,
            Reading::Value(crate::observe::PortState::Active)
        );
        assert_eq!(seen.ports[0].rate, Some(BitsPerSec::from_gbps(400)));
        assert_eq!(seen.ports[0].gids, Reading::Absent);
        assert_eq!(seen.ports[0].asked, Reading::Absent);
    }

    #[test]
    fn gpus_by_node_then_by_driver() {
        let tree = TestTree::bare();
        assert_eq!(gpus(&tree.host()), Reading::Absent);
        tree.dir("proc/driver/nvidia/gpus/0000:1b:00.0");
        assert_eq!(gpus(&tree.host()), Reading::Value(1));
        for node in [
            "nvidia0",
            "nvidia1",
            "nvidiactl",
            "nvidia-uvm",
            "nvidia-fs0",
        ] {
            tree.file(&format!("dev/{node}"), "");
        }
        assert_eq!(gpus(&tree.host()), Reading::Value(2));
        assert_eq!(nvidia_fs(&tree.host()), Reading::Value(1));
        let tree = TestTree::bare();
        for node in ["kfd", "dri/card1", "dri/renderD128", "dri/renderD136"] {
            tree.file(&format!("dev/{node}"), "");
        }
        assert_eq!(gpus(&tree.host()), Reading::Value(2), "AMD's");
    }
}
