//! Processes of pods: whose they are, what their network namespaces count, and which queue pairs
//! they own.

use super::node::{Node, none};
use crate::source::replay::{DeviceQueuePairs, QUEUE_PAIRS, QueuePairs};
use std::io;

/// Bytes of a TCP segment as the kernel hands it on (GRO, TSO).
const SEGMENT: u64 = 32 * 1024;

/// One process of a pod, in a network namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// PID.
    pub pid: u32,
    /// UID of its pod.
    pub pod: String,
    /// Whether it owns a connected queue pair of each device.
    pub queue_pairs: bool,
    /// Bytes that its namespace has received and sent by TCP, each.
    pub tcp: u64,
}

impl Node {
    pub(super) fn process_comes(&mut self, process: &ProcessSpec) -> io::Result<()> {
        let proc = format!("proc/{}", process.pid);
        let slice = process.pod.replace('-', "_");
        // cgroup v2 under systemd (pkg/kubelet/cm/cgroup_manager_linux.go).
        let cgroup = format!(
            "0::/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-{:064x}.scope\n",
            process.pid
        );
        let dev = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
             lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n";
        self.files
            .put("proc/1/status", "Name:\tsystemd\nNSpid:\t1\n")?;
        self.files.put(format!("{proc}/net/dev"), dev)?;
        self.spec.processes.push(process.clone());
        self.write_tcp(process)?;
        self.files.put(format!("{proc}/cgroup"), cgroup)?;
        self.write_queue_pairs()
    }

    pub(super) fn tcp(&mut self, pid: u32, bytes: u64) -> io::Result<()> {
        let mut all = self.spec.processes.iter_mut();
        let process = all.find(|process| process.pid == pid);
        let process = process.ok_or_else(|| none(&pid.to_string()))?;
        process.tcp += bytes;
        let process = process.clone();
        self.write_tcp(&process)
    }

    /// Processes end with their pod.
    pub(super) fn processes_go(&mut self, uid: &str) -> io::Result<()> {
        let (gone, left) = std::mem::take(&mut self.spec.processes)
            .into_iter()
            .partition(|process| process.pod == uid);
        let gone: Vec<ProcessSpec> = gone;
        self.spec.processes = left;
        if gone.is_empty() {
            return Ok(());
        }
        for process in gone {
            self.files.remove(format!("proc/{}", process.pid))?;
        }
        self.write_queue_pairs()
    }

    /// The files of net/ipv4/proc.c, as far as they are read. `net/dev` stays the file that it is:
    /// its inode tells namespaces apart.
    fn write_tcp(&mut self, process: &ProcessSpec) -> io::Result<()> {
        let net = format!("proc/{}/net", process.pid);
        let (bytes, segments) = (process.tcp, process.tcp / SEGMENT);
        let netstat = format!(
            "TcpExt: TCPOrigDataSent\nTcpExt: {segments}\nIpExt: InOctets OutOctets\nIpExt: {bytes} {bytes}\n"
        );
        let snmp = format!(
            "Ip: InReceives OutRequests ForwDatagrams\nIp: {segments} {segments} 0\n\
             Tcp: InSegs OutSegs RetransSegs\nTcp: {segments} {segments} 0\n\
             Udp: InDatagrams OutDatagrams\nUdp: 0 0\n"
        );
        self.files.replace(format!("{net}/netstat"), netstat)?;
        self.files.replace(format!("{net}/snmp"), snmp)
    }

    fn write_queue_pairs(&mut self) -> io::Result<()> {
        let owners = self.spec.processes.iter().filter(|one| one.queue_pairs);
        let owners: Vec<u32> = owners.map(|one| one.pid).collect();
        let devices = self.spec.rdma.iter().map(|device| DeviceQueuePairs {
            name: device.name.clone(),
            ports: u32::try_from(device.ports.len()).unwrap_or(1),
            connected: owners.clone(),
        });
        let recorded = QueuePairs {
            exclusive: Some(false),
            devices: devices.collect(),
        };
        let text = serde_json::to_vec(&recorded).map_err(io::Error::other)?;
        self.files.replace(QUEUE_PAIRS, text)
    }
}
