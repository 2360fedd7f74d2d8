//! Facts about the fabric as an unprivileged training container sees it.

use super::{Gid, GidTable, GpuDirectFacts, LinkLayer, PortState, RdmaDevice, Reading};
use crate::units::BitsPerSec;
use std::{collections::BTreeMap, fmt, net::IpAddr};

/// Everything that `selvage preflight` reads, once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerFacts {
    /// Variables about the fabric and the job.
    pub environment: Environment,
    /// RDMA devices in this container's `/sys`, with the state of their ports.
    pub rdma: Reading<Vec<SeenDevice>>,
    /// Network interfaces of this network namespace.
    pub interfaces: Reading<Vec<Interface>>,
    /// Names in `/sys/class/net` with their drivers, such as `mlx5_core` or `gve`; `None` for
    /// virtual interfaces. Available even where the addresses are not.
    pub links: Reading<BTreeMap<String, Option<String>>>,
    /// What decides whether this process may pin memory.
    pub privileges: Privileges,
    /// Size of the file system at `/dev/shm`.
    pub shm: Reading<SharedMemory>,
    /// Number of GPUs: `/dev/nvidiaN` nodes, or what the driver lists if there are none.
    pub gpus: Reading<u32>,
    /// Kernel modules and driver features that GPUDirect needs.
    pub gpudirect: GpuDirectFacts,
    /// GPUDirect Storage as this container sees it.
    pub storage: StorageFacts,
    /// Whether the files that NCCL settings refer to exist, by setting.
    pub referenced_files: BTreeMap<String, Reading<()>>,
    /// Result of each library search, by library name.
    pub libraries: BTreeMap<String, Library>,
    /// Whether this image has a dynamic loader: a static tool's image has none.
    pub has_loader: bool,
    /// Whether the job's master resolves and answers.
    pub master: MasterFacts,
}

/// Settings of the job, from the process environment and from NCCL's own files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Variables of the process; bytes that are not UTF-8 are replaced.
    pub variables: BTreeMap<String, String>,
    /// `NAME=value` lines of NCCL's own files, as value and file. The process environment takes
    /// precedence over them, the user's file over `/etc/nccl.conf` (NCCL, src/misc/param.cc).
    pub nccl_files: BTreeMap<String, (String, String)>,
    /// Error messages for NCCL files that exist but could not be read.
    pub unread: Vec<String>,
}

impl Environment {
    /// A variable of the process; `None` if it is unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A setting as NCCL sees it, with its origin.
    pub fn nccl(&self, name: &'static str) -> Option<Variable<'_>> {
        let (value, file) = match (self.get(name), self.nccl_files.get(name)) {
            (Some(value), _) => (value, None),
            (None, Some((value, file))) => (value.as_str(), Some(file.as_str())),
            (None, None) => return None,
        };
        Some(Variable { name, value, file })
    }
}

/// One NCCL setting. It is displayed as `NCCL_NET=Socket (in /etc/nccl.conf)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Name of the variable.
    pub name: &'static str,
    /// The value exactly as written.
    pub value: &'a str,
    /// The file that sets it; `None` for the process environment.
    pub file: Option<&'a str>,
}

impl fmt::Display for Variable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)?;
        self.file.map_or(Ok(()), |file| write!(f, " (in {file})"))
    }
}

/// An RDMA device in this container's `/sys`.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenDevice {
    /// The device as sysfs lists it.
    pub device: RdmaDevice,
    /// Result of opening `/dev/infiniband/uverbsN` read-write; absent if the node does not exist.
    pub node: Reading<()>,
    /// Ports in the device's own order.
    pub ports: Vec<SeenPort>,
}

impl SeenDevice {
    /// Whether this container can open the device.
    pub fn is_open(&self) -> bool {
        self.node == Reading::Value(())
    }
}

/// One port of an RDMA device.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenPort {
    /// Port number, counted from 1.
    pub number: u32,
    /// What the port speaks.
    pub link_layer: LinkLayer,
    /// Contents of `ports/N/state`.
    pub state: Reading<PortState>,
    /// The port's rate; `None` if it cannot be determined.
    pub rate: Option<BitsPerSec>,
    /// The GID table, of which only the first slots are read.
    pub gids: Reading<GidTable>,
    /// The GID slot that a setting selects: `None` if the slot is empty, absent beyond the end of
    /// the table, not observable if no setting selects one.
    pub asked: Reading<Option<Gid>>,
}

impl SeenPort {
    /// Whether the port's state is ACTIVE.
    pub fn is_active(&self) -> bool {
        self.state == Reading::Value(PortState::Active)
    }
}

/// One network interface of the container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Kernel name, such as `eth0`.
    pub name: String,
    /// IFF_RUNNING: up, and with a link.
    pub running: bool,
    /// Addresses in the order of getifaddrs(3).
    pub addresses: Vec<IpAddr>,
}

/// What decides whether a process may pin memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Privileges {
    /// Soft RLIMIT_MEMLOCK in bytes; `None` if unlimited.
    pub memlock: Reading<Option<u64>>,
    /// The node's memory in bytes: `MemTotal` of `/proc/meminfo`, the same inside a container.
    pub memory: Reading<u64>,
    /// Effective capabilities: `CapEff` of `/proc/self/status`.
    pub effective: Reading<u64>,
    /// Capability bounding set: `CapBnd` of `/proc/self/status`.
    pub bounding: Reading<u64>,
    /// Effective user id of this process.
    pub uid: Reading<u32>,
    /// Whether this is the initial user namespace: in any other, capabilities do not lift the RDMA
    /// core's limit (drivers/infiniband/core/umem.c checks `capable`, not `ns_capable`).
    pub first_user_namespace: Reading<bool>,
}

/// The file system at `/dev/shm`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedMemory {
    /// Total size in bytes.
    pub size: u64,
    /// Bytes that are still free.
    pub free: u64,
}

/// GPUDirect Storage as this container sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StorageFacts {
    /// The file that cuFile would read: `CUFILE_ENV_PATH_JSON`, or `/etc/cufile.json`.
    pub path: String,
    /// `properties.allow_compat_mode` of that file, true unless set: reads then go through host
    /// memory where GDS is unavailable.
    pub compat_mode: Reading<bool>,
    /// Number of `/dev/nvidia-fsN` nodes.
    pub nodes: Reading<u32>,
}

/// Result of searching for a shared library by the loader's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Library {
    /// A file that this machine's loader would accept.
    Usable {
        /// Full path of the file.
        path: String,
    },
    /// A file that the loader would reject.
    Unusable {
        /// Full path of the file.
        path: String,
        /// Reason for the rejection.
        why: String,
    },
    /// Not in any of the loader's directories.
    Missing,
}

/// What `MASTER_ADDR` and `MASTER_PORT` lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MasterFacts {
    /// Addresses that the name resolves to; absent if resolution was not attempted.
    pub addresses: Reading<Vec<IpAddr>>,
    /// Result of connecting to the port.
    pub connection: Attempt,
}

/// Result of connecting to the master.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Attempt {
    /// No attempt was made.
    #[default]
    NotTried,
    /// A process is listening.
    Connected,
    /// The host answered that the port is closed.
    Refused,
    /// There was no answer within the timeout.
    TimedOut,
    /// The kernel reported an error, such as a missing route.
    Failed(String),
}
