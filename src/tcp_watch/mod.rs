//! Watches pods that hold GPUs: what their network namespaces move by TCP, and which queue pairs
//! their processes own. A look blocks.
//!
//! What it costs, by the look: one cgroup file a process, four files a pod, one RES_GET a device
//! (the core's own numbers, no firmware). Queue pairs are listed only when a pod moves more than the
//! threshold by TCP, or where there are few, and the list is used again while no device's numbers
//! change and its owners live.

mod queue_pairs;
mod rates;
mod rdma_view;

pub(crate) use rdma_view::Netlink;

use rates::Rates;
use rdma_view::RdmaView;

use crate::glob::{self, Glob};
use crate::host::Host;
use crate::observe::{
    GpuPod, NetCounters, NodeRdma, PodFacts, PodQps, PodTraffic, Reading, TrafficLook,
    is_gpu_resource,
};
use crate::source::pod_processes::{self, PodPids, net};
use crate::source::{device_checkpoint, rdma_port, rdma_traffic, tree};
use crate::units::Millis;
use queue_pairs::{Busy, Listing};
use std::collections::{BTreeMap, BTreeSet};

/// Most pods watched; a node has 110 pods as a rule, and few of them hold GPUs.
const MAX_PODS: usize = 128;

/// Most network namespaces of one pod whose counters are added up.
const MAX_NAMESPACES: usize = 4;

/// Pods that hold GPUs: from the API server, and from the kubelet's checkpoint for pods that the
/// API server did not list. `names` gives namespace and name of a UID that only the checkpoint has.
pub(crate) fn gpu_pods(
    facts: &[PodFacts],
    checkpoint: Option<&device_checkpoint::Allocations>,
    names: &BTreeMap<String, (String, String)>,
) -> BTreeMap<String, GpuPod> {
    let mut pods = BTreeMap::new();
    for pod in facts {
        let gpu_pod = GpuPod {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            job: pod.job.clone(),
            gpus: pod.containers.values().map(|c| c.gpus).sum(),
            host_network: Some(pod.host_network),
            alone: false,
        };
        pods.insert(pod.uid.clone(), gpu_pod);
    }
    for (uid, containers) in checkpoint.into_iter().flatten() {
        let resources = containers.values().flatten();
        let gpus = resources.filter(|(resource, _)| is_gpu_resource(resource));
        let (namespace, name) = names.get(uid).cloned().unwrap_or_default();
        // The API server is more current: a pod that it counts without GPUs has ended.
        pods.entry(uid.clone()).or_insert_with(|| GpuPod {
            namespace,
            name,
            gpus: gpus.map(|(_, count)| count).sum(),
            ..GpuPod::default()
        });
    }
    pods.retain(|_, pod| pod.gpus > 0);
    pods
}

/// Traffic by the UID of pods.
type TrafficByPod = BTreeMap<String, PodTraffic>;

/// State from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct TcpWatch<V> {
    view: V,
    exclude: Vec<Glob>,
    traffic: Rates<NetCounters>,
    moved: Rates<u64>,
    restricted: BTreeSet<String>,
    listing: Option<Listing>,
}

impl<V: RdmaView + Default> TcpWatch<V> {
    /// Queue pairs come from `view`. `exclude`: devices whose PMA counters are never opened.
    pub(crate) fn new(view: V, exclude: Vec<Glob>) -> Self {
        TcpWatch {
            view,
            exclude,
            ..TcpWatch::default()
        }
    }

    /// Looks once. `threshold`, in bytes a second, decides whether queue pairs are needed.
    pub(crate) fn look(
        &mut self,
        host: &Host,
        gpu_pods: &BTreeMap<String, GpuPod>,
        threshold: u64,
        now: Millis,
    ) -> TrafficLook {
        let wanted: BTreeSet<String> = gpu_pods.keys().take(MAX_PODS).cloned().collect();
        self.traffic.keep(|uid| wanted.contains(uid));
        if wanted.is_empty() {
            self.listing = None;
            self.moved.keep(|_| false);
            return TrafficLook::default();
        }
        let (walk, blind) = match pod_processes::walk(host, &wanted) {
            Reading::Value(walk) => {
                let blind = (walk.in_pods == 0 && walk.denied > 0)
                    .then(|| "cgroups of processes may not be read".to_string());
                (walk, blind)
            }
            other => (Default::default(), Some(format!("/proc: {other:?}"))),
        };
        let node_namespace = net::namespace(host, 1);
        // The kubelet's checkpoint keeps pods that ended: one without processes, where other pods
        // have some, has ended.
        let ended = |pod: &GpuPod| pod.host_network.is_none() && !walk.pods.is_empty();
        let mut pods = BTreeMap::new();
        for uid in &wanted {
            let pod = gpu_pods.get(uid).cloned().unwrap_or_default();
            let pids = walk.pods.get(uid).cloned().unwrap_or_default();
            if pids.count == 0 && ended(&pod) {
                continue;
            }
            let mut traffic = self.traffic_of(host, uid, pod, &pids, node_namespace, now);
            traffic.unreadable = traffic.unreadable.or_else(|| blind.clone());
            pods.insert(uid.clone(), traffic);
        }
        let node = self.queue_pairs(host, &mut pods, threshold, now);
        self.rdma_rates(host, &mut pods, now);
        TrafficLook { node, pods }
    }

    fn traffic_of(
        &mut self,
        host: &Host,
        uid: &str,
        pod: GpuPod,
        pids: &PodPids,
        node_namespace: Option<u64>,
        now: Millis,
    ) -> PodTraffic {
        let mut namespaces: BTreeMap<u64, u32> = BTreeMap::new();
        for &pid in &pids.pids {
            if let Some(namespace) = net::namespace(host, pid)
                && is_still(host, pid, uid)
            {
                namespaces.entry(namespace).or_insert(pid);
            }
        }
        let seen = (!namespaces.is_empty()).then_some(&namespaces);
        let host_network = match (seen, node_namespace) {
            (Some(seen), Some(node)) => Some(seen.contains_key(&node)),
            _ => pod.host_network,
        };
        let mut traffic = PodTraffic {
            uid: uid.to_string(),
            pod,
            at: now,
            processes: pids.count,
            host_network,
            ..PodTraffic::default()
        };
        let mut sum = NetCounters::default();
        for pid in namespaces.values().take(MAX_NAMESPACES) {
            match net::read(host, *pid) {
                // The number may have become another process's while it was read.
                Reading::Value(counters) if is_still(host, *pid, uid) => sum.add(&counters),
                Reading::Value(_) => traffic.unreadable = Some(format!("process {pid} ended")),
                Reading::Failed(fault) => traffic.unreadable = Some(fault.detail),
                _ => traffic.unreadable = Some(format!("/proc/{pid}/net cannot be read")),
            }
        }
        if traffic.unreadable.is_some() || namespaces.is_empty() {
            return traffic;
        }
        let identity = namespaces.keys().copied().take(MAX_NAMESPACES).collect();
        let rates = &mut self.traffic;
        let moved = rates.step(uid, identity, now, sum, NetCounters::since);
        if let Some((from, moved)) = moved {
            traffic.from = Some(from);
            traffic.per_second = Some(moved.over(now.since(from)));
        }
        traffic
    }

    fn queue_pairs(
        &mut self,
        host: &Host,
        pods: &mut TrafficByPod,
        threshold: u64,
        now: Millis,
    ) -> NodeRdma {
        let (devices, exclusive) = match self.view.devices() {
            Ok(answers) => answers,
            Err(unknown) => {
                (pods.values_mut()).for_each(|pod| pod.qps = PodQps::Unknown(unknown.clone()));
                self.listing = None;
                return NodeRdma {
                    unknown: Some(unknown),
                    ..NodeRdma::default()
                };
            }
        };
        let busy = pods.values().filter(|pod| pod.is_above(threshold));
        let busy: Busy = busy.map(|pod| pod.uid.clone()).collect();
        let any_process = pods.values().any(|pod| pod.processes > 0);
        let kept = self.listing.take();
        self.listing = kept.filter(|listing| listing.is_usable(host, &devices, &busy, now));
        if self.listing.is_none() && queue_pairs::needed(&devices, &busy, any_process) {
            self.listing = Some(Listing::take(host, &mut self.view, &devices, now));
        }
        for (uid, pod) in pods.iter_mut() {
            let listing = self.listing.as_ref();
            pod.qps = listing.map_or(PodQps::NotListed, |listing| listing.of(uid));
        }
        NodeRdma {
            devices: devices.into_iter().map(|d| (d.name, d.qps)).collect(),
            exclusive,
            unknown: None,
            listed_at: self.listing.as_ref().map(|listing| listing.at),
        }
    }

    fn rdma_rates(&mut self, host: &Host, pods: &mut TrafficByPod, now: Millis) {
        let owned = pods.values().filter_map(|pod| match &pod.qps {
            PodQps::Known(owned) => Some(&owned.devices),
            _ => None,
        });
        let devices: BTreeSet<String> = owned.flatten().cloned().collect();
        self.moved.keep(|device| devices.contains(device));
        let mut rates: BTreeMap<String, f64> = BTreeMap::new();
        for device in devices {
            let pma = !self.restricted.contains(&device) && !self.is_excluded(host, &device);
            let ports = self.listing.as_ref().map_or(1, |l| l.ports(&device));
            let mut moved = rdma_traffic::read(host, &device, ports, pma);
            if moved == Reading::NotObservable {
                self.restricted.insert(device.clone());
                moved = rdma_traffic::read(host, &device, ports, false);
            }
            let gained = |now: &u64, then: &u64| now.checked_sub(*then);
            if let Reading::Value(bytes) = moved
                && let Some((from, gain)) =
                    (self.moved).step(&device, Vec::new(), now, bytes, gained)
            {
                #[expect(clippy::cast_precision_loss, reason = "rates need no last byte")]
                let rate = gain as f64 / now.since(from).as_secs_f64().max(0.001);
                rates.insert(device, rate);
            }
        }
        for pod in pods.values_mut() {
            if let PodQps::Known(owned) = &pod.qps {
                let known = owned.devices.iter().filter_map(|device| rates.get(device));
                pod.rdma_per_second = known.copied().reduce(|sum, rate| sum + rate);
            }
        }
    }

    fn is_excluded(&self, host: &Host, device: &str) -> bool {
        glob::any_matches(&self.exclude, device)
            || tree::link_name(host, rdma_port::class_dir(device).join("device"))
                .is_some_and(|pci| glob::any_matches(&self.exclude, &pci))
    }
}

/// Whether a PID is still a process of that pod.
fn is_still(host: &Host, pid: u32, uid: &str) -> bool {
    pod_processes::owner_of(host, pid) == Reading::Value(Some(uid.to_string()))
}

#[cfg(test)]
mod tests;
