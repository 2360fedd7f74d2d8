//! The state of one process that prints NCCL's lines.

use super::{channel_counts::ChannelCounts, event::Net};
use crate::settings_macro::words;
use std::collections::BTreeSet;

/// Most threads that are kept of a process: an application has one for each communicator in use.
const MAX_THREADS: usize = 64;

/// Most threads whose connections are kept before their communicator is known.
const MAX_PENDING: usize = 4;

words! {
    /// How far the last init of a process has come, in words.
    #[derive(Default)]
    Stage {
        /// Ranks are finding each other.
        #[default]
        Bootstrap = "bootstrap",
        /// A network has been chosen.
        Network = "choice of network",
        /// The topology has been computed.
        Topology = "topology",
        /// Connections are being made.
        Channels = "channels",
        /// All rings are connected.
        Rings = "rings",
    }
}

/// What the lines of a process show about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// Another process replaced it in its communicator: it belongs to an earlier run.
    pub stale: bool,
    /// When it printed its last line, in lines of the log: several files have numbers of their own.
    pub last_line: u64,
    /// Number of its lines.
    pub lines: u64,
    /// The net that it chose last.
    pub chosen: Option<Net>,
    /// It was assigned a network, and has not printed yet that it uses it.
    pub starts_gin: bool,
    /// Whether the process tried the InfiniBand plugin.
    pub ib_tried: bool,
    /// It looked for verbs devices.
    pub ib_searched: bool,
    /// It found verbs devices.
    pub ib_found: bool,
    /// It found no verbs device, or could not use verbs at all.
    pub ib_none: bool,
    /// It said why verbs cannot be used: no device, or none that it can open, or no library.
    pub ib_lacking: bool,
    /// NCCL 2.28 or later could not start verbs: where no other line says why, they are disabled.
    pub ib_refused: bool,
    /// Lines of verbs at work, such as a failed operation: they are in use.
    pub ib_at_work: bool,
    /// It loaded a verbs plugin.
    pub ib_plugin: bool,
    /// Whether its log says that NCCL_IB_DISABLE is set.
    pub ib_disabled: bool,
    /// Its log says that NCCL_IB_DISABLE is 0.
    pub ib_allowed: bool,
    /// NCCL_NET asks for sockets.
    pub asks_socket: bool,
    /// Shared memory is off, so that ranks of one node use the net where P2P is not possible.
    pub shm_off: bool,
    /// NCCL's own TCP was initialised after verbs were not available.
    pub socket_begun: bool,
    /// Interfaces of NCCL's own TCP were printed; up to 2.4.7 the bootstrap does so in every run.
    pub socket_listed: bool,
    /// The network that NCCL_NET names is missing.
    pub net_missing: bool,
    /// It found no network plugin.
    pub no_plugin: bool,
    /// A setting names a plugin, and it was not found.
    pub plugin_not_found: bool,
    /// It loaded a network plugin.
    pub plugin_loaded: bool,
    /// The log has its first lines.
    pub begun: bool,
    /// It uses FastSocket, Google's TCP plugin.
    pub fast_socket: bool,
    /// aws-ofi-nccl found a provider.
    pub ofi: bool,
    /// That provider uses TCP.
    pub ofi_tcp: bool,
    /// Whether its log says that FI_PROVIDER is set.
    pub ofi_asked: bool,
    /// aws-ofi-nccl printed lines.
    pub ofi_spoke: bool,
    /// A network plugin other than one of verbs could not start.
    pub plugin_failed: bool,
    /// Another plugin printed lines.
    pub speaks: Option<Net>,
    /// Its last init failed.
    pub init_failed: bool,
    /// How far its last init has come.
    pub stage: Stage,
    /// A ring line shows a connection over the net without GPUDirect RDMA.
    pub rings_lack_gdr: bool,
    /// It printed a variable that is set, so that others would be printed, too.
    pub env_shown: bool,
    /// Threads of the process that printed lines, up to a bound.
    pub threads: Vec<Thread>,
    /// Its ranks: number of ranks of the communicator, and rank.
    pub ranks: Vec<(u32, u32)>,
    /// Nets of its connections, and whether they use GPUDirect RDMA.
    pub nets: BTreeSet<(Net, bool)>,
    /// It has a connection over a net between GPUs of one bus id, which are of two hosts.
    pub joins_hosts: bool,
    /// The line with which it began after it had ranks: its pid was reused, or a second copy of NCCL was loaded.
    pub began_again: u64,
    /// Its ranks before that line.
    pub ranks_before: Vec<(u32, u32)>,
    /// Nets before that line, until it has one of these ranks again.
    pub nets_before: BTreeSet<(Net, bool)>,
}

/// A thread and the communicator that it works on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    /// Thread id as the lines' prefix has it.
    pub tid: u32,
    /// Its communicator, once a line names it.
    pub group: Option<super::group::GroupKey>,
    /// The net in whose code its last error trace was.
    pub error_in: Option<Net>,
    /// Connections made before that.
    pub pending: Option<Box<ChannelCounts>>,
}

impl Process {
    /// Begins. A process prints its address once (`bootstrapNetInit` in src/bootstrap.cc), unlike the name of a
    /// net's device.
    pub(super) fn begin(&mut self, list: &str) {
        (self.stage, self.begun) = (Stage::Bootstrap, true);
        if !self.ranks.is_empty() && list.contains('<') {
            self.began_again = self.last_line;
            self.ranks_before = std::mem::take(&mut self.ranks);
            self.nets_before.append(&mut self.nets);
            (self.ib_searched, self.joins_hosts, self.ib_refused) = (false, false, false);
            (self.ib_disabled, self.ib_allowed, self.asks_socket) = (false, false, false);
        }
    }

    /// Records a rank of the process. Returns whether it is new.
    pub fn sits(&mut self, nranks: u32, rank: u32) -> bool {
        // The run is like the one before.
        if self.ranks_before.contains(&(nranks, rank)) {
            self.nets_before.clear();
        }
        let new = self.ranks.len() < MAX_THREADS && !self.ranks.contains(&(nranks, rank));
        self.ranks.extend(new.then_some((nranks, rank)));
        new
    }

    /// Counts of connections of a thread whose communicator is not known yet. `None` if it is known, or
    /// too many threads have such counts.
    pub fn pending(&mut self, tid: u32) -> Option<&mut ChannelCounts> {
        let open = self.threads.iter().filter(|of| of.pending.is_some());
        let full = open.count() >= MAX_PENDING;
        let thread = self.thread(tid).filter(|thread| thread.group.is_none())?;
        if full && thread.pending.is_none() {
            return None;
        }
        let new = || Box::new(ChannelCounts::pending());
        Some(thread.pending.get_or_insert_with(new))
    }

    /// The thread with this id; if there are too many threads, the oldest is dropped.
    pub fn thread(&mut self, tid: u32) -> Option<&mut Thread> {
        let known = self.threads.iter().rposition(|thread| thread.tid == tid);
        let at = known.unwrap_or_else(|| {
            if self.threads.len() >= MAX_THREADS {
                self.threads.remove(0);
            }
            self.threads.push(Thread {
                tid,
                ..Thread::default()
            });
            self.threads.len() - 1
        });
        self.threads.get_mut(at)
    }

    /// Bytes of memory that it holds, roughly.
    pub(super) fn held(&self) -> usize {
        let pending = self.threads.iter().filter_map(|of| of.pending.as_ref());
        let pending = pending.map(|counts| size_of::<ChannelCounts>() + counts.held());
        let ranks = 8 * (self.ranks.capacity() + self.ranks_before.capacity());
        let threads = self.threads.capacity() * size_of::<Thread>() + ranks;
        2 * size_of::<Self>() + threads + pending.sum::<usize>()
    }

    /// Whether it tried verbs in vain. Since 2.27 they are initialised also where NCCL_NET then selects
    /// sockets, and plugins are loaded before.
    pub fn ib_failed(&self) -> bool {
        let refused = self.ib_refused && self.env_shown && !self.ib_disabled;
        self.ib_tried && (!self.ib_found || self.ib_none) || refused
    }

    /// Whether the log shows that NCCL_NET=Socket made the choice, which leaves no other trace: nothing
    /// else was tried in vain. The first net that initialises wins, so verbs with devices were passed over.
    pub fn only_socket_tried(&self) -> bool {
        let tried = self.ib_failed() || self.ofi || self.plugin_failed;
        // From 2.23 on the first lines are hidden with INIT and NET alone; ranks are shown with INIT.
        let begun = self.begun || self.ib_refused && !self.ranks.is_empty();
        let shown = begun && self.socket_listed || self.ib_found;
        shown && self.chosen == Some(Net::Socket) && !tried
    }

    /// The net that it uses, by the best evidence.
    pub fn net(&self) -> Option<Net> {
        if self.net_missing {
            return self.chosen;
        }
        let by_lines = [
            (self.fast_socket, Net::FastSocket),
            (self.speaks.is_some(), self.speaks.unwrap_or(Net::Other)),
            (self.ib_found || self.ib_at_work, Net::Ib),
            (self.ofi && !self.plugin_failed, Net::Ofi),
        ];
        let shown = by_lines.into_iter().find(|(shown, _)| *shown);
        let net = self.chosen.or(shown.map(|(_, net)| net));
        // Up to 2.5 the choice is not printed: without plugin and verbs only TCP is left.
        let left = self.socket_listed && self.no_plugin && (self.ib_none || self.ib_disabled);
        net.or((self.socket_begun || left).then_some(Net::Socket))
    }
}
