//! Trees of files for tests, with the real kernel's links.

use crate::host::{ERRNO_FILE, Host, recording::Recording};
use std::{path::PathBuf, sync::Arc};

/// A temporary root.
pub(crate) struct TestTree {
    dir: tempfile::TempDir,
}

impl TestTree {
    /// With an empty `sys/class`.
    pub fn new() -> Self {
        let tree = TestTree::bare();
        tree.dir("sys/class");
        tree
    }

    /// Nothing at all.
    pub fn bare() -> Self {
        TestTree {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn host(&self) -> Host {
        Host::new(self.dir.path())
    }

    /// A host that counts the files it opens.
    pub fn recorded_host(&self) -> (Host, Arc<Recording>) {
        let recording = Arc::<Recording>::default();
        (self.host().recorded_by(Arc::clone(&recording)), recording)
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn dir(&self, path: &str) {
        std::fs::create_dir_all(self.path(path)).unwrap();
    }

    pub fn bytes(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// A file with a line feed at its end.
    pub fn file(&self, path: &str, text: &str) {
        self.bytes(path, format!("{text}\n").as_bytes());
    }

    pub fn files(&self, dir: &str, files: &[(&str, &str)]) {
        for (name, text) in files {
            self.file(&format!("{dir}/{name}"), text);
        }
    }

    pub fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        if std::fs::symlink_metadata(&path).unwrap().is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }

    /// `path` answers with an errno from the next [`TestTree::host`] on.
    pub fn errno(&self, errno: i32, path: &str) {
        let file = self.path(ERRNO_FILE);
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        let mut text = std::fs::read_to_string(&file).unwrap_or_default();
        text.push_str(&format!("{errno} {path}\n"));
        std::fs::write(file, text).unwrap();
    }

    /// A PCI function below a root port, with the links of `/sys/bus/pci`. Gives its directory.
    pub fn pci(&self, port: &str, bdf: &str, id: (&str, &str), driver: &str) -> String {
        let bus = bdf.split('.').next().unwrap().rsplit_once(':').unwrap().0;
        let host_bridge = port.split('.').next().unwrap().rsplit_once(':').unwrap().0;
        let below = format!("devices/pci{host_bridge}/{port}/{bdf}");
        let dir = format!("sys/{below}");
        self.files(
            &dir,
            &[
                ("vendor", &format!("0x{}", id.0)),
                ("device", &format!("0x{}", id.1)),
                ("class", "0x020700"),
                ("numa_node", "0"),
            ],
        );
        self.link(
            &format!("{dir}/driver"),
            &format!("../../../../bus/pci/drivers/{driver}"),
        );
        self.link(
            &format!("sys/bus/pci/devices/{bdf}"),
            &format!("../../../{below}"),
        );
        assert!(!bus.is_empty());
        dir
    }

    /// An RDMA device below a directory of `sys/devices`, with its class link.
    pub fn rdma(&self, parent: &str, name: &str, files: &[(&str, &str)]) -> String {
        let dir = format!("{parent}/infiniband/{name}");
        self.files(&dir, files);
        self.link(&format!("{dir}/device"), "../..");
        self.link(
            &format!("sys/class/infiniband/{name}"),
            &format!("../../{}", dir.strip_prefix("sys/").unwrap()),
        );
        dir
    }

    /// A ConnectX-7 on InfiniBand, one active port with counters.
    pub fn mlx5(&self, name: &str, port: &str, bdf: &str) -> String {
        let pci = self.pci(port, bdf, ("15b3", "1021"), "mlx5_core");
        let dir = self.rdma(
            &pci,
            name,
            &[
                ("node_type", "1: CA"),
                ("node_guid", "b83f:d203:0012:3456"),
                ("sys_image_guid", "b83f:d203:0012:3456"),
                ("fw_ver", "28.41.1000"),
                ("board_id", "MT_0000000838"),
                ("hca_type", "MT4129"),
                ("ports/1/state", "4: ACTIVE"),
                ("ports/1/phys_state", "5: LinkUp"),
                ("ports/1/rate", "400 Gb/sec (4X NDR)"),
                ("ports/1/lid", "0x2a"),
                ("ports/1/sm_lid", "0x1"),
                ("ports/1/pkeys/0", "0x7fff"),
                ("ports/1/link_layer", "InfiniBand"),
                ("ports/1/counters/port_xmit_data", "1000"),
                ("ports/1/counters/port_rcv_data", "2000"),
                ("ports/1/counters/symbol_error", "0"),
                ("ports/1/counters/link_downed", "3"),
                ("ports/1/counters/VL15_dropped", "7"),
                ("ports/1/hw_counters/out_of_sequence", "11"),
                ("ports/1/hw_counters/rx_write_requests", "12"),
                ("ports/1/hw_counters/lifespan", "12"),
            ],
        );
        self.files(
            &pci,
            &[("net/ibs1/dev_port", "0"), ("net/ibs1/dev_id", "0x0")],
        );
        dir
    }
}
