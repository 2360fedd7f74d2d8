//! The daemon that jobs need beside them on Google's A3 Mega, by the pods that the API server has.

use crate::agent::{Rig, rig_of, until, value};
use crate::fake_api::FakeApi;
use serde_json::{Value, json};

/// A worker of a gang, on all GPUs.
fn worker(daemon: Option<Value>) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": "train-worker-0", "namespace": "ml", "uid": "u-1",
            "labels": {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/replica-index": "1"},
            "ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "uid": "o", "controller": true}],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "job", "image": "registry.example/job:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "job", "state": {"running": {"startedAt": "2026-11-20T10:00:00Z"}}}],
        },
    });
    if let Some(state) = daemon {
        pod["spec"]["initContainers"] = json!([{
            "name": "tcpxo-daemon",
            "image": "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.9",
            "restartPolicy": "Always",
        }]);
        pod["status"]["initContainerStatuses"] = json!([{"name": "tcpxo-daemon", "state": state}]);
    }
    pod
}

fn report(rig: &Rig) -> Value {
    let (_, body) = crate::support::get(&rig.agent.address, "/report");
    serde_json::from_str(&body).unwrap()
}

/// Reasons of what is said of the pod's daemon, before it is believed.
fn troubles(rig: &Rig) -> Vec<String> {
    let report = report(rig);
    let troubles = report["nccl"]["daemon_troubles"].as_array().unwrap().iter();
    let text = |of: &Value| of["reason"].as_str().unwrap().to_string();
    troubles.map(text).collect()
}

fn finding(rig: &Rig) -> Option<Value> {
    let report = report(rig);
    let mut found = report["findings"].as_array().unwrap().iter();
    found.find(|found| found["check"] == "nccl_jobs").cloned()
}

fn start(preset: &str, label: &str) -> Rig {
    let api = FakeApi::new(
        json!({"node.kubernetes.io/instance-type": label}),
        Value::Null,
    );
    let rig = rig_of(preset, api, &["--set=hysteresis.hold=0s"]);
    rig.api.change(|node| {
        node["status"]["allocatable"] = json!({"nvidia.com/gpu": "8"});
        node["status"]["capacity"] = json!({"nvidia.com/gpu": "8"});
    });
    rig
}

#[test]
fn a_worker_on_a3_mega_needs_its_daemon() {
    let rig = start("gcp_a3_mega", "a3-megagpu-8g");
    rig.api.put_pod(worker(None));
    until("TcpxoDaemonMissing", || {
        finding(&rig).is_some_and(|found| found["reason"] == "TcpxoDaemonMissing")
    });
    let found = finding(&rig).unwrap();
    assert_eq!(found["subject"], "ml/train-worker-0");
    assert_eq!(found["weight"], "notice");

    let crashing = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    rig.api.put_pod(worker(Some(crashing)));
    until("TcpxoDaemonDown", || troubles(&rig) == ["TcpxoDaemonDown"]);
    until("not missing any more", || finding(&rig).is_none());

    rig.api.put_pod(worker(Some(json!({"running": {}}))));
    until("no trouble", || {
        troubles(&rig).is_empty() && report(&rig)["platform"]["tcp_daemons"] == 1
    });
    let ready = value(&rig.agent, "selvage_fabric_state", &[("state", "ready")]);
    assert_eq!(ready, Some(1.0), "a pod's fault is not the node's");
}

#[test]
fn elsewhere_nobody_needs_one() {
    let rig = start("h100_roce", "BM.GPU.H200.8");
    rig.api.put_pod(worker(None));
    let profile = [
        ("profile", "OCI BM.GPU.H200.8"),
        ("source", "instance_type"),
    ];
    until("the profile", || {
        value(&rig.agent, "selvage_profile_info", &profile) == Some(1.0)
    });
    until("ready", || {
        value(&rig.agent, "selvage_fabric_state", &[("state", "ready")]) == Some(1.0)
    });
    assert_eq!(troubles(&rig), [""; 0]);
    assert_eq!(finding(&rig), None);
}
