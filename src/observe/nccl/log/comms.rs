//! Communicators of a log: who sits in them, and which belong to an earlier run.

use super::*;

impl NcclLog {
    pub(super) fn comm(
        &mut self,
        comm: &Comm,
        record: &Record<'_>,
        place: Place,
        number: u64,
        time: Time<'_>,
    ) {
        let key = match comm.id {
            Some(id) => GroupKey {
                id,
                nranks: comm.nranks,
            },
            // Lines without an id belong to what the thread is at, if that is of the same size.
            None => self
                .group_of(place, record.who.tid, comm.nranks)
                .unwrap_or(GroupKey {
                    id: 0,
                    nranks: comm.nranks,
                }),
        };
        self.make_group(key);
        self.mnnvl |= comm.mnnvl;
        let room = self.seat(key, comm.rank);
        let group = self.groups.entry(key).or_default();
        group.last_line = number;
        group.nodes = group.nodes.max(comm.nodes);
        let known = group.seats.get(&comm.rank).copied();
        if let Some(before) = known.filter(|seat| seat.place != place) {
            group.mixed = true;
            if group.left.len() < MAX_NAMES {
                group.left.insert(before.place.host);
            }
        }
        if known.is_some() || room {
            let mut seat = known.filter(|seat| seat.place == place).unwrap_or(Seat {
                place,
                bus: None,
                started: None,
                start: false,
                complete: false,
                ended: false,
                aborted: false,
                seconds: None,
            });
            seat.bus = comm.bus.or(seat.bus);
            match comm.phase {
                Phase::Start => {
                    seat.started = time.stamp();
                    seat.start = true;
                    (seat.complete, seat.ended, seat.aborted) = (false, false, false);
                }
                Phase::Alive => {}
                Phase::Complete => {
                    seat.complete = true;
                    if let (None, Some(from), Some(to)) = (seat.seconds, seat.started, time.stamp())
                    {
                        let seconds = to.duration_since(from).as_secs_f64();
                        seat.seconds = (seconds >= 0.0).then_some(seconds);
                    }
                }
                Phase::Aborted => (seat.ended, seat.aborted) = (true, true),
                Phase::Destroyed => seat.ended = true,
            }
            if comm.nranks > 1
                && let Some(seconds) = seat.seconds
            {
                self.init_seconds = Some(self.init_seconds.unwrap_or(0.0).max(seconds));
            }
            group.seats.insert(comm.rank, seat);
        }
        let process = self.processes.get_mut(&(place.host, place.process));
        if process.is_some_and(|process| process.sits(comm.nranks, comm.rank)) {
            self.supersede(key, comm.rank, place);
            if let Some(group) = self.groups.get_mut(&key) {
                group.superseded = false;
            }
        }
        self.bind(place, record.who.tid, key);
        if comm.nodes.is_some() || comm.phase == Phase::Start {
            self.show(Shows::Span, record.text, number);
        }
        if comm.phase == Phase::Complete {
            self.show(Shows::Complete, record.text, number);
        }
    }

    /// A process that is new in a rank takes the place of those that had it on this host.
    pub(super) fn supersede(&mut self, key: GroupKey, rank: u32, place: Place) {
        for (other, older) in &mut self.groups {
            if *other == key || older.superseded {
                continue;
            }
            // One of another size is an earlier run's only if the process had no part in it.
            let part = other.nranks != key.nranks
                && (other.nranks < 2
                    || key.nranks < 2
                    || older.seats.values().any(|seat| seat.place == place));
            let same = older.seats.get(&rank);
            older.superseded = !part
                && same.is_some_and(|seat| {
                    seat.place.host == place.host && seat.place.process != place.process
                });
            if older.superseded {
                for seat in older.seats.values() {
                    let at = (seat.place.host, seat.place.process);
                    if let Some(process) = self.processes.get_mut(&at) {
                        process.stale = true;
                    }
                }
            }
        }
        if let Some(process) = self.processes.get_mut(&(place.host, place.process)) {
            process.stale = false;
        }
    }

    /// Processes but those of earlier runs.
    pub fn live(&self) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(|process| !process.stale)
    }

    /// The communicator that a thread is at, if it has so many ranks.
    pub(super) fn group_of(
        &mut self,
        place: Place,
        tid: Option<u32>,
        nranks: u32,
    ) -> Option<GroupKey> {
        let process = self.processes.get_mut(&(place.host, place.process))?;
        let key = process.thread(tid?)?.group?;
        (key.nranks == nranks).then_some(key)
    }

    /// From here on a thread's connections are this communicator's, and those it made before.
    pub(super) fn bind(&mut self, place: Place, tid: Option<u32>, key: GroupKey) {
        let thread = self
            .processes
            .get_mut(&(place.host, place.process))
            .zip(tid)
            .and_then(|(process, tid)| process.thread(tid));
        let Some(thread) = thread else { return };
        thread.group = Some(key);
        let pending = thread.pending.take();
        if let (Some(pending), Some(group)) = (pending, self.groups.get_mut(&key)) {
            group.tally.merge(&pending);
        }
    }

    pub(super) fn make_group(&mut self, key: GroupKey) {
        if self.groups.len() >= self.limits.groups && !self.groups.contains_key(&key) {
            self.drop_group(None);
        }
    }

    /// Drops the group that is least worth keeping: the widest communicator is what a job is judged by.
    pub(super) fn drop_group(&mut self, but: Option<GroupKey>) {
        let least = self
            .groups
            .iter()
            .filter(|(key, _)| Some(**key) != but)
            .min_by_key(|(key, group)| (!group.superseded, key.nranks, group.last_line));
        if let Some(key) = least.map(|(key, _)| *key) {
            self.groups.remove(&key);
        }
    }

    /// Whether there is room for a rank in a group. The groups share four times what one may have.
    pub(super) fn seat(&mut self, key: GroupKey, rank: u32) -> bool {
        let Some(group) = self.groups.get(&key) else {
            return true;
        };
        if group.seats.contains_key(&rank) {
            return true;
        }
        if group.seats.len() >= self.limits.seats {
            return false;
        }
        let seated: usize = self.groups.values().map(|group| group.seats.len()).sum();
        if seated >= self.limits.seats.saturating_mul(4) {
            self.drop_group(Some(key));
        }
        true
    }
}
