//! Communicators of a log: their ranks, and which of them belong to an earlier run.

use super::*;
use std::cell::LazyCell;

impl NcclLog {
    pub(super) fn comm(
        &mut self,
        comm: &Comm,
        record: &Record<'_>,
        place: HostPid,
        number: u64,
        time: Time<'_>,
    ) {
        let nranks = comm.nranks;
        let own = |id| GroupKey { id, nranks };
        // A line without an id belongs to the thread's communicator, if that has the same size; an
        // abort may come from another thread than the init.
        let key = (comm.id.map(own))
            .or_else(|| self.group_of(place, record.who.tid, nranks))
            .or_else(|| self.seated_as(comm, place))
            .unwrap_or(own(0));
        self.make_group(key);
        self.adopt(comm, key, place, record.who.tid);
        self.renew(comm, key, place);
        self.mnnvl |= comm.mnnvl;
        let room = self.seat(key, comm.rank);
        let group = self.groups.entry(key).or_default();
        group.last_line = self.records;
        group.nodes = group.nodes.max(comm.nodes);
        // A split's line without an id may be counted among its parent's, if that has the same size.
        group.split |= comm.split && (comm.id.is_some() || key.id == 0);
        let known = group.seats.get(&comm.rank).copied();
        if let Some(before) = known.filter(|seat| seat.place != place) {
            group.mixed = true;
            if group.left.len() < MAX_NAMES {
                group.left.insert(before.place.host);
            }
        }
        if known.is_some() || room {
            let known = known.filter(|seat| seat.place == place);
            let mut seat = known.unwrap_or_default();
            seat.place = place;
            seat.bus = comm.bus.or(seat.bus);
            seat.gpu = comm.gpu.or(seat.gpu).or(by_prefix(record));
            seat.enter(comm.phase, time);
            self.seated += usize::from(group.seats.insert(comm.rank, seat).is_none());
            self.longest_init(comm.nranks, seat.seconds);
        }
        let process = self.processes.get_mut(&place);
        let sits = process.is_some_and(|process| process.sits(comm.nranks, comm.rank));
        if sits || comm.nodes.is_some() {
            self.supersede(key, comm.rank, place);
        }
        if let Some(group) = self.groups.get_mut(&key).filter(|_| sits) {
            group.superseded = false;
        }
        self.bind(place, record.who.tid, key);
        if comm.nodes.is_some() || comm.phase == Phase::Start {
            self.show(EvidenceKind::Span, record.text, number);
        }
        if comm.phase == Phase::Complete {
            self.show(EvidenceKind::Complete, record.text, number);
        }
    }

    /// Gives a communicator what lines without its id said of one of its ranks: the line that starts an
    /// init, which has the id, may be before the log.
    fn adopt(&mut self, comm: &Comm, key: GroupKey, place: HostPid, tid: Option<u32>) {
        let (rank, nameless) = (comm.rank, GroupKey { id: 0, ..key });
        let begins = comm.phase == Phase::Start || comm.id.is_none();
        if begins || self.group_of(place, tid, key.nranks) != Some(nameless) {
            return;
        }
        let Some(from) = self.groups.get_mut(&nameless) else {
            return;
        };
        let own = from.seats.get(&rank).filter(|seat| seat.place == place);
        let Some(seat) = own.copied() else { return };
        from.seats.remove(&rank);
        let nodes = from.nodes;
        let from = (from.seats.is_empty())
            .then(|| self.groups.remove(&nameless))
            .flatten();
        let into = self.groups.entry(key).or_default();
        into.nodes = into.nodes.max(nodes);
        if let Some(from) = from {
            into.channels.merge(&from.channels);
        }
        if into.seats.insert(rank, seat).is_some() {
            self.seated -= 1;
        }
    }

    /// Forgets what an earlier run left of this host, and the connections of all, where the rank's GPU has
    /// another process, or the process began again.
    fn renew(&mut self, comm: &Comm, key: GroupKey, place: HostPid) {
        let began_again = self.processes.get(&place).map_or(0, |of| of.began_again);
        let group = self.groups.entry(key).or_default();
        let last = group.last_line;
        let own = group.seats.get(&comm.rank).filter(|seat| seat.complete);
        let again = own.is_some_and(|seat| match seat.place == place {
            true => began_again > last,
            false => seat.place.host == place.host && seat.bus.is_some() && seat.bus == comm.bus,
        });
        if again && !self.shared_names {
            let own = group.places().filter(|of| of.host == place.host);
            self.seated -= retire(&mut self.processes, own, last);
            group.seats.retain(|_, seat| seat.place.host != place.host);
            group.channels = ChannelCounts::default();
        }
    }

    /// An error trace of an init: those of the thread, or else of the process, that did not end.
    pub(super) fn init_failed(&mut self, place: HostPid, tid: Option<u32>) {
        let process = self.processes.get_mut(&place);
        let thread = (process.zip(tid)).and_then(|(process, tid)| process.thread(tid));
        let of_thread = thread.and_then(|thread| thread.group);
        let groups = (self.groups.iter_mut())
            .filter(|(key, _)| of_thread.is_none_or(|of_thread| of_thread == **key));
        for seat in groups.flat_map(|(_, group)| group.seats.values_mut()) {
            let failed = seat.place == place && seat.start && !seat.complete;
            (seat.ended, seat.aborted) = (seat.ended || failed, seat.aborted || failed);
        }
    }

    /// How long an init took, by a line of its own.
    pub(super) fn init_took(&mut self, place: HostPid, tid: Option<u32>, init: InitSeconds) {
        let key = self.group_of(place, tid, init.nranks);
        let group = key.and_then(|key| self.groups.get_mut(&key));
        if let Some(seat) = group.and_then(|group| group.seats.get_mut(&init.rank)) {
            seat.seconds = Some(init.seconds);
        }
        self.longest_init(init.nranks, Some(init.seconds));
    }

    /// Communicators of one rank have nothing to wait for.
    fn longest_init(&mut self, nranks: u32, seconds: Option<f64>) {
        if let Some(seconds) = seconds.filter(|_| nranks > 1) {
            self.init_seconds = Some(self.init_seconds.unwrap_or(0.0).max(seconds));
        }
    }

    /// A process that appears as a rank replaces those of this host that had the rank before, or the GPU,
    /// unless both are in some other communicator, too.
    fn supersede(&mut self, key: GroupKey, rank: u32, place: HostPid) {
        let own = self.groups.get(&key);
        let bus = own.and_then(|group| group.seats.get(&rank)?.bus);
        let nodes = own.and_then(|group| group.nodes);
        let is_wide = nodes > Some(1);
        let began_again = self.processes.get(&place).map_or(0, |of| of.began_again);
        // Few lines need it.
        let joined = LazyCell::new(|| {
            let joined = self.groups.iter().filter(|(_, group)| group.holds(place));
            let joined = joined.map(|(key, group)| (*key, group.places().collect()));
            joined.collect::<Vec<(GroupKey, BTreeSet<HostPid>)>>()
        });
        let is_older = |(other, older): &(&GroupKey, &Group)| {
            let (other, resized) = (**other, other.nranks != key.nranks);
            // A communicator of another size is of an earlier run only if the process is not in it; a wider
            // one that works on other GPUs, with more or fewer ranks a node, goes on. Those of one rank say
            // nothing about others.
            let alone = other.nranks < 2 || key.nranks < 2;
            let shape = ranks_of_a_node(other, older.nodes);
            let reshaped = shape.is_some() && shape != ranks_of_a_node(key, nodes);
            let narrower = reshaped && key.nranks < other.nranks;
            let goes_on = || narrower && older.works_on_others(place.host, bus);
            let apart = resized && (alone || older.holds(place) || goes_on());
            if other == key || older.superseded || apart {
                return false;
            }
            // Pids are used again: for a rank, the two communicators alone prove nothing.
            let together = |before, by_rank: bool| {
                let counts = |of: GroupKey| !by_rank || of != key && of != other;
                let mut places = joined.iter().filter(|(of, _)| counts(*of));
                places.any(|(_, places)| places.contains(&before))
            };
            // A job within the node may share the GPUs with one that spans nodes.
            let by_bus = bus.is_some() && (is_wide || !resized || older.nodes == Some(1));
            older.seats.iter().any(|(number, seat)| {
                let by_rank = *number == rank;
                if seat.place == place {
                    return !resized && older.last_line < began_again;
                }
                let same = by_rank || by_bus && seat.bus == bus;
                let replaced = same && seat.place.host == place.host;
                replaced && seat.place.process != place.process && !together(seat.place, by_rank)
            })
        };
        let older = self.groups.iter().filter(is_older);
        let older: Vec<GroupKey> = older.map(|(key, _)| *key).collect();
        for group in older {
            let Some(group) = self.groups.get_mut(&group) else {
                continue;
            };
            group.superseded = true;
            retire(&mut self.processes, group.places(), group.last_line);
        }
        if let Some(process) = self.processes.get_mut(&place) {
            process.stale = false;
        }
    }

    /// Processes, without those of earlier runs, and without those that are alone in their communicators where
    /// others are not.
    pub fn live(&self) -> impl Iterator<Item = &Process> {
        let wider = self.groups.keys().any(|key| key.nranks > 1);
        let counts = move |process: &&Process| {
            let mut ranks = process.ranks.iter();
            !process.stale && (!wider || ranks.len() == 0 || ranks.any(|(of, _)| *of > 1))
        };
        self.processes.values().filter(counts)
    }

    /// Nets of the connections of this run, each with and without GPUDirect RDMA.
    pub fn nets(&self) -> BTreeSet<(Net, bool)> {
        let nets = self.live().map(|of| of.nets.iter().chain(&of.nets_before));
        nets.flatten().copied().collect()
    }

    /// The communicator that a thread works on, if it has this number of ranks.
    fn group_of(&mut self, place: HostPid, tid: Option<u32>, nranks: u32) -> Option<GroupKey> {
        let process = self.processes.get_mut(&place)?;
        let key = process.thread(tid?)?.group?;
        (key.nranks == nranks).then_some(key)
    }

    /// The latest communicator of this size in which the process is this rank.
    fn seated_as(&self, comm: &Comm, place: HostPid) -> Option<GroupKey> {
        let fits = |(key, group): &(&GroupKey, &Group)| {
            let seat = group.seats.get(&comm.rank);
            key.nranks == comm.nranks && seat.is_some_and(|seat| seat.place == place)
        };
        let groups = self.groups.iter().filter(fits);
        let latest = groups.max_by_key(|(_, group)| group.last_line);
        latest.map(|(key, _)| *key)
    }

    /// Assigns a thread's connections, also those it made before, to a communicator.
    fn bind(&mut self, place: HostPid, tid: Option<u32>, key: GroupKey) {
        let process = self.processes.get_mut(&place);
        let thread = (process.zip(tid)).and_then(|(process, tid)| process.thread(tid));
        let Some(thread) = thread else { return };
        thread.group = Some(key);
        let pending = thread.pending.take();
        if let (Some(pending), Some(group)) = (pending, self.groups.get_mut(&key)) {
            group.channels.merge(&pending);
        }
    }

    fn make_group(&mut self, key: GroupKey) {
        if self.groups.len() >= self.limits.groups && !self.groups.contains_key(&key) {
            self.drop_group(None);
        }
    }

    /// Drops the least valuable group; a job is judged by its widest communicator.
    fn drop_group(&mut self, but: Option<GroupKey>) {
        let others = self.groups.iter().filter(|(key, _)| Some(**key) != but);
        let value =
            |key: &GroupKey, group: &Group| (!group.superseded, key.nranks, group.last_line);
        let least = others.min_by_key(|(key, group)| value(key, group));
        let least = least.map(|(key, _)| *key);
        if let Some(group) = least.and_then(|key| self.groups.remove(&key)) {
            self.seated -= group.seats.len();
        }
    }

    /// Whether a group has room for a rank. All groups together may have four times the ranks of one.
    fn seat(&mut self, key: GroupKey, rank: u32) -> bool {
        let Some(group) = self.groups.get(&key) else {
            return true;
        };
        if group.seats.contains_key(&rank) {
            return true;
        }
        if group.seats.len() >= self.limits.seats {
            return false;
        }
        if self.seated >= self.limits.seats.saturating_mul(4) {
            self.drop_group(Some(key));
        }
        true
    }
}

/// A rank's GPU, where only the prefix has its number, as up to 2.3; 0 may stand for none.
fn by_prefix(record: &Record<'_>) -> Option<u32> {
    let device = record.who.device.filter(|number| *number > 0);
    device.filter(|_| !record.text.contains(" cudaDev "))
}

/// How many ranks each node of a communicator has.
fn ranks_of_a_node(key: GroupKey, nodes: Option<u32>) -> Option<f64> {
    Some(f64::from(key.nranks) / f64::from(nodes?))
}

/// Marks these processes as stale, except those that began again after `last_line`. Returns how many were
/// given, which is the number of seats freed.
fn retire(
    processes: &mut BTreeMap<HostPid, Process>,
    places: impl Iterator<Item = HostPid>,
    last_line: u64,
) -> usize {
    let retire = |place| {
        if let Some(process) = processes.get_mut(&place) {
            process.stale |= process.began_again <= last_line;
        }
    };
    places.map(retire).count()
}
