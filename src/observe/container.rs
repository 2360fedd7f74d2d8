//! What one container can see of the fabric from inside, without privileges.

use super::gpudirect::GpuDirectFacts;
use super::rdma::{Gid, GidTable, PortState, RdmaDevice};
use super::reading::Reading;
use crate::units::BitsPerSec;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// All of it, read once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerFacts {
    /// Variables about the fabric and the job.
    pub environment: Environment,
    /// RDMA devices in this container's `/sys`, with what of their ports was read.
    pub rdma: Reading<Vec<SeenDevice>>,
    /// Network interfaces of this network namespace.
    pub interfaces: Reading<Vec<Interface>>,
    /// Names in `/sys/class/net` with their drivers, such as `mlx5_core` or `gve`; none for virtual
    /// ones. Known also where the addresses are not.
    pub links: Reading<BTreeMap<String, Option<String>>>,
    /// Locked memory, capabilities, user namespace.
    pub privileges: Privileges,
    /// `/dev/shm`.
    pub shm: Reading<SharedMemory>,
    /// GPUs: `/dev/nvidiaN` nodes, or what the driver lists where there are none.
    pub gpus: Reading<u32>,
    /// What GPUDirect stands on.
    pub gpudirect: GpuDirectFacts,
    /// GPUDirect Storage from in here.
    pub storage: StorageFacts,
    /// Files that settings of NCCL name, by the setting, as far as they could be looked for.
    pub named_files: BTreeMap<String, Reading<()>>,
    /// Libraries that were looked for, by name.
    pub libraries: BTreeMap<String, Library>,
    /// Whether this image holds shared libraries at all: a static tool's image does not.
    pub has_loader: bool,
    /// The job's master.
    pub master: MasterFacts,
}

/// Settings of the job, from the process environment and from NCCL's own files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Variables of the process; bytes that are not UTF-8 are replaced.
    pub variables: BTreeMap<String, String>,
    /// `NAME=value` lines of NCCL's files: value and file. A variable of the process wins over
    /// them, the user's file over `/etc/nccl.conf` (NCCL, src/misc/param.cc).
    pub nccl_files: BTreeMap<String, (String, String)>,
    /// Files of NCCL's that are there and were not read, each with why.
    pub unread: Vec<String>,
}

impl Environment {
    /// A variable of the process.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A setting as NCCL sees it, with where it comes from.
    pub fn nccl(&self, name: &str) -> Option<Setting<'_>> {
        let from_file = || {
            let (value, file) = self.nccl_files.get(name)?;
            Some(Setting {
                value,
                file: Some(file),
            })
        };
        self.get(name)
            .map(|value| Setting { value, file: None })
            .or_else(from_file)
    }
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting<'a> {
    /// As it was given.
    pub value: &'a str,
    /// The file it stands in; none: the environment.
    pub file: Option<&'a str>,
}

/// An RDMA device in this container's `/sys`.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenDevice {
    /// As enumerated.
    pub device: RdmaDevice,
    /// `/dev/infiniband/uverbsN` opened for reading and writing: absent where there is no node.
    pub node: Reading<()>,
    /// Ports, in the device's order.
    pub ports: Vec<SeenPort>,
}

/// One port of such a device.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenPort {
    /// Number, from 1.
    pub number: u32,
    /// `ports/N/state`.
    pub state: Reading<PortState>,
    /// Its rate, where it is known.
    pub rate: Option<BitsPerSec>,
    /// GID table, of which the first slots are read.
    pub gids: Reading<GidTable>,
    /// The slot that a setting names: none where it is empty, absent beyond the table's end, not
    /// observable where no setting names one.
    pub asked: Reading<Option<Gid>>,
}

/// One network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// IFF_RUNNING: up, and with a link.
    pub running: bool,
    /// Its addresses, in the order in which getifaddrs(3) gives them.
    pub addresses: Vec<IpAddr>,
}

/// What lets a process pin memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Privileges {
    /// Soft RLIMIT_MEMLOCK in bytes; none: unlimited.
    pub memlock: Reading<Option<u64>>,
    /// The machine's memory in bytes: `MemTotal` of `/proc/meminfo`, the node's own in a container.
    pub memory: Reading<u64>,
    /// `CapEff` of `/proc/self/status`.
    pub effective: Reading<u64>,
    /// `CapBnd`.
    pub bounding: Reading<u64>,
    /// Effective user id.
    pub uid: Reading<u32>,
    /// Whether this is the machine's first user namespace: elsewhere capabilities lift no limit of
    /// the RDMA core (drivers/infiniband/core/umem.c asks `capable`, not `ns_capable`).
    pub first_user_namespace: Reading<bool>,
}

/// A file system at `/dev/shm`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SharedMemory {
    /// Bytes in all.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Whether it is a tmpfs.
    pub tmpfs: bool,
}

/// GPUDirect Storage from in here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StorageFacts {
    /// The file that cuFile would read: `CUFILE_ENV_PATH_JSON`, or `/etc/cufile.json`.
    pub path: String,
    /// What of it matters.
    pub cufile: Reading<CuFile>,
    /// How many `/dev/nvidia-fsN` there are.
    pub nodes: Reading<u32>,
}

/// `cufile.json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CuFile {
    /// `properties.allow_compat_mode`: reads go through host memory where GDS cannot.
    pub allow_compat_mode: Option<bool>,
}

/// What a search for a shared library by the loader's rules came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "found")]
pub enum Library {
    /// A file that this machine's loader would take.
    Usable {
        /// Where.
        path: String,
    },
    /// A file that it would not take.
    Unusable {
        /// Where.
        path: String,
        /// Why not.
        why: String,
    },
    /// In none of the directories.
    Missing {
        /// Directories looked into.
        directories: usize,
    },
    /// A directory or file could not be read.
    Unknown {
        /// Why.
        why: String,
    },
}

/// `MASTER_ADDR` and `MASTER_PORT`, asked from here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MasterFacts {
    /// Addresses that the name has; absent: the resolver knows none.
    pub addresses: Reading<Vec<IpAddr>>,
    /// What connecting came to.
    pub connection: Connection,
}

/// What came of connecting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Connection {
    /// It was not tried.
    #[default]
    NotTried,
    /// Somebody listens.
    Connected,
    /// The host answers that nobody listens.
    Refused,
    /// No answer within the time.
    TimedOut,
    /// The kernel says that it cannot be reached.
    Failed(String),
}
