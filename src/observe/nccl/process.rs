//! One process that prints NCCL's lines.

use super::event::Net;
use super::tally::Tally;

/// Threads of a process whose communicator is kept: an application has one a communicator at work.
const MAX_THREADS: usize = 64;

/// Of these, those that may have connections before their communicator is known.
const MAX_PENDING: usize = 4;

/// How far the last init that a process tells of has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stage {
    /// Ranks look for each other.
    #[default]
    Bootstrap,
    /// A network is chosen.
    Network,
    /// The topology is worked out.
    Topology,
    /// Connections are made.
    Channels,
    /// Rings are connected.
    Rings,
}

impl Stage {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Bootstrap => "bootstrap",
            Stage::Network => "choice of network",
            Stage::Topology => "topology",
            Stage::Channels => "channels",
            Stage::Rings => "rings",
        }
    }
}

/// What a process has told of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// Its host, by number.
    pub host: u32,
    /// When it last printed, by line.
    pub last_line: u64,
    /// The net that it chose last.
    pub chosen: Option<Net>,
    /// An attempt at verbs is in view.
    pub ib_tried: bool,
    /// Verbs devices were found: InfiniBand, RoCE, of unknown kind.
    pub ib_found: bool,
    /// Verbs found no device.
    pub ib_none: bool,
    /// A verbs operation was told of: verbs are in use.
    pub ib_at_work: bool,
    /// A verbs plugin was loaded.
    pub ib_plugin: bool,
    /// NCCL_IB_DISABLE is set.
    pub ib_disabled: bool,
    /// NCCL_NET asks for sockets.
    pub asks_socket: bool,
    /// P2P or SHM is switched off: the net then serves inside a node too.
    pub local_off: bool,
    /// NCCL's own TCP was initialised after verbs were given up.
    pub socket_begun: bool,
    /// Interfaces of NCCL's own TCP were listed; to 2.4.7 the bootstrap does so in every run.
    pub socket_listed: bool,
    /// There is no plugin.
    pub no_plugin: bool,
    /// Its first lines are in view.
    pub begun: bool,
    /// Google's TCP plugin.
    pub fast_socket: bool,
    /// aws-ofi-nccl got a provider.
    pub ofi: bool,
    /// The provider moves bytes by TCP.
    pub ofi_tcp: bool,
    /// FI_PROVIDER is set.
    pub ofi_asked: bool,
    /// aws-ofi-nccl could not start.
    pub ofi_failed: bool,
    /// Another plugin spoke.
    pub speaks: Option<Net>,
    /// How far its init is.
    pub stage: Stage,
    /// What its last ring line said of GPUDirect RDMA.
    pub rings_gdr: Option<bool>,
    /// Threads, and the communicator that each works on.
    pub threads: Vec<Thread>,
    /// Ranks that it is known as: (ranks in all, rank).
    pub ranks: Vec<(u32, u32)>,
}

/// One thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its communicator, by key, once a line named it.
    pub group: Option<super::group::GroupKey>,
    /// Connections before that.
    pub pending: Option<Box<Tally>>,
}

impl Process {
    /// It is this rank of so many. Whether that is new.
    pub fn sits(&mut self, nranks: u32, rank: u32) -> bool {
        let new = !self.ranks.contains(&(nranks, rank));
        if new && self.ranks.len() < MAX_THREADS {
            self.ranks.push((nranks, rank));
        }
        new
    }

    /// The tally for connections of a thread whose communicator is not known yet; none if it is, or
    /// if too many threads have such.
    pub fn pending(&mut self, tid: u32) -> Option<&mut Tally> {
        let open = self
            .threads
            .iter()
            .filter(|thread| thread.pending.is_some());
        let full = open.count() >= MAX_PENDING;
        let thread = self.thread(tid).filter(|thread| thread.group.is_none())?;
        if full && thread.pending.is_none() {
            return None;
        }
        let new = || Box::new(Tally::pending());
        Some(thread.pending.get_or_insert_with(new))
    }

    /// The thread of this number. Beyond so many the one longest known is forgotten.
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

    /// TCP was chosen in full view and nothing else was tried: NCCL_NET=Socket leaves no other trace.
    pub fn only_socket_tried(&self) -> bool {
        let tried = self.ib_tried || self.ib_plugin || self.ofi || self.ofi_failed;
        self.begun && self.socket_listed && self.chosen == Some(Net::Socket) && !tried
    }

    /// The net that its lines tell of, best evidence first.
    pub fn net(&self) -> Option<Net> {
        if let Some(chosen) = self.chosen {
            return Some(chosen);
        }
        if self.fast_socket {
            return Some(Net::FastSocket);
        }
        if let Some(net) = self.speaks {
            return Some(net);
        }
        if self.ib_found || self.ib_at_work {
            return Some(Net::Ib);
        }
        if self.ofi && !self.ofi_failed {
            return Some(Net::Ofi);
        }
        // To 2.5 no line tells of the choice: with no plugin and no verbs only TCP is left.
        let left = self.socket_listed && self.no_plugin && (self.ib_none || self.ib_disabled);
        (self.socket_begun || left).then_some(Net::Socket)
    }
}
