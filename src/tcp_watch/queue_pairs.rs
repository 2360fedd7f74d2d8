//! The list of queue pairs by pod: when it is taken, and how long it is valid.

use super::rdma_view::{RdmaView, Usage};
use crate::host::Host;
use crate::observe::{OwnedQps, PodQps, Reading};
use crate::source::netlink::rdma::queue_pairs::{QpKind, QpOwner, QueuePair};
use crate::source::pod_processes::{owner_of, same_pid_namespace};
use crate::units::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Up to this many queue pairs are listed whenever their number changes: milliseconds of firmware.
const FEW: u64 = 256;

/// How long a list is valid in which all busy pods own queue pairs, while no number changes.
const CLEARING_FOR: Duration = Duration::from_secs(600);

/// How long one is valid in which a busy pod owns none: equal numbers may hide one created for one
/// destroyed, and suspicion must rest on current facts.
const SUSPECTING_FOR: Duration = Duration::from_secs(60);

/// Most owners whose pod is looked up.
const MAX_OWNERS: usize = 8192;

/// Pods of tasks, as far as looked up.
type Pods = BTreeMap<u32, Reading<Option<String>>>;

/// Pods above the threshold.
pub(super) type Busy = BTreeSet<String>;

/// Whether queue pairs have to be listed at all.
pub(super) fn needed(devices: &[Usage], busy: &Busy, any_process: bool) -> bool {
    let used: Vec<u64> = (devices.iter().filter(|d| d.has_users()).map(|d| d.qps)).collect();
    !busy.is_empty() || (any_process && !used.is_empty() && used.iter().sum::<u64>() <= FEW)
}

/// Queue pairs by pod, as listed once.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// When it was taken.
    pub at: Millis,
    devices: Vec<Usage>,
    by_pod: BTreeMap<String, OwnedQps>,
    owners: BTreeSet<u32>,
    /// Queue pairs that may move bytes and whose pod is unknown.
    hidden: u32,
    failed: Option<String>,
}

impl Listing {
    /// Lists them, and finds the pod of each owner.
    pub fn take(host: &Host, view: &mut impl RdmaView, devices: &[Usage], now: Millis) -> Listing {
        let mut listing = Listing {
            at: now,
            devices: devices.to_vec(),
            failed: match same_pid_namespace(host) {
                Some(true) => None,
                Some(false) => Some("the agent has a PID namespace of its own (no hostPID)".into()),
                None => Some("whether PIDs are the node's is unknown".into()),
            },
            ..Listing::default()
        };
        if listing.failed.is_some() {
            return listing;
        }
        let mut pods = Pods::new();
        for device in devices.iter().filter(|device| device.has_users()) {
            match view.queue_pairs(device) {
                Ok(qps) => {
                    (qps.into_iter()).for_each(|qp| listing.add(host, &mut pods, device, &qp));
                }
                Err(why) => listing.failed = Some(format!("{}: {why}", device.name)),
            }
        }
        listing
    }

    fn add(&mut self, host: &Host, pods: &mut Pods, device: &Usage, qp: &QueuePair) {
        let kind = qp.kind;
        if kind == QpKind::Management {
            return;
        }
        let connected = kind != QpKind::Datagram;
        let found = match &qp.owner {
            QpOwner::Kernel => return,
            QpOwner::Hidden => Reading::Absent,
            QpOwner::Task(pid) => match pods.get(pid) {
                None if pods.len() >= MAX_OWNERS => Reading::Absent,
                _ => {
                    self.owners.insert(*pid);
                    let owner = || owner_of(host, *pid);
                    pods.entry(*pid).or_insert_with(owner).clone()
                }
            },
        };
        let pod = match found {
            Reading::Value(Some(uid)) => uid,
            Reading::Value(None) => return,
            _ => {
                self.hidden = self.hidden.saturating_add(u32::from(connected));
                return;
            }
        };
        let owned = self.by_pod.entry(pod).or_default();
        let count = match kind {
            QpKind::Rc => &mut owned.rc,
            _ if connected => &mut owned.other,
            _ => &mut owned.datagram,
        };
        *count = count.saturating_add(1);
        if connected {
            owned.ready = owned.ready.saturating_add(u32::from(qp.ready));
            if !owned.devices.contains(&device.name) {
                owned.devices.push(device.name.clone());
            }
        }
    }

    /// Number of ports of a device.
    pub fn ports(&self, name: &str) -> u32 {
        let device = self.devices.iter().find(|device| device.name == name);
        device.map_or(1, |device| device.ports)
    }

    /// A pod's queue pairs. Where some have no visible owner, a pod without others may own them.
    pub fn of(&self, uid: &str) -> PodQps {
        match self.by_pod.get(uid) {
            Some(owned) if owned.rc + owned.other > 0 => PodQps::Known(owned.clone()),
            _ if let Some(why) = &self.failed => PodQps::Unknown(why.clone()),
            _ if self.hidden > 0 => PodQps::Unknown(format!(
                "{} queue pairs belong to no visible process of this node",
                self.hidden
            )),
            owned => PodQps::Known(owned.cloned().unwrap_or_default()),
        }
    }

    /// Whether it is still valid.
    pub fn is_usable(&self, host: &Host, devices: &[Usage], busy: &Busy, now: Millis) -> bool {
        let owns = |uid: &String| matches!(self.of(uid), PodQps::Known(o) if o.rc + o.other > 0);
        let limit = match self.failed.is_none() && busy.iter().all(owns) {
            true => CLEARING_FOR,
            false => SUSPECTING_FOR,
        };
        now.since(self.at) < limit
            && self.devices == devices
            && (self.owners.iter()).all(|pid| owner_of(host, *pid) != Reading::Absent)
    }
}
