//! What the Node promises to pods, against what the kernel has.

use crate::agent::{Rig, rig_of, until, value};
use crate::fake_api::FakeApi;
use serde_json::{Value, json};

fn finding(rig: &Rig) -> Option<(String, String)> {
    let (_, body) = crate::support::get(&rig.agent.address, "/report");
    let report: Value = serde_json::from_str(&body).unwrap();
    let found = report["findings"].as_array().unwrap().iter();
    let mut found = found.filter(|found| found["check"] == "promised");
    let found = found.next()?;
    let text = |field: &str| found[field].as_str().unwrap().to_string();
    Some((text("reason"), text("weight")))
}

fn promise(rig: &Rig, allocatable: &Value, capacity: &Value) {
    promise_in(&rig.api, allocatable, capacity);
}

fn promise_in(api: &FakeApi, allocatable: &Value, capacity: &Value) {
    api.change(|node| {
        node["status"]["allocatable"] = allocatable.clone();
        node["status"]["capacity"] = capacity.clone();
    });
}

fn is_in_state(rig: &Rig, state: &str) -> bool {
    value(&rig.agent, "selvage_fabric_state", &[("state", state)]) == Some(1.0)
}

/// A node of that instance type, whose agent believes at once what it sees.
fn at_once(preset: &str, kind: &str) -> Rig {
    let labels = json!({"node.kubernetes.io/instance-type": kind});
    let waits = [
        "--set=policy.promised.raise_after=0s",
        "--set=policy.promised.clear_after=0s",
        "--set=hysteresis.hold=0s",
    ];
    rig_of(preset, FakeApi::new(labels, Value::Null), &waits)
}

const EFA: [(&str, &str); 1] = [("resource", "vpc.amazonaws.com/efa")];

#[test]
fn a_node_that_offers_no_efa_is_told() {
    let rig = at_once("efa_p5", "p5.48xlarge");
    let gpus = json!({"nvidia.com/gpu": "8"});
    promise(&rig, &gpus, &gpus);
    let is = |reason: &str, weight: &str| finding(&rig) == Some((reason.into(), weight.into()));
    // With the DRA driver there is none: nothing to hold against the node.
    until("ResourceMissing", || is("ResourceMissing", "notice"));
    let profile = [("profile", "AWS p5.48xlarge"), ("source", "instance_type")];
    let told = value(&rig.agent, "selvage_profile_info", &profile);
    assert_eq!(told, Some(1.0));
    until("ready", || is_in_state(&rig, "ready"));

    let all = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"});
    let fewer = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "30"});
    promise(&rig, &fewer, &all);
    until("fewer", || is("ResourceFewerThanDevices", "verdict"));
    until("degraded", || is_in_state(&rig, "degraded"));
    let told = |what: &str| value(&rig.agent, &format!("selvage_resource_{what}"), &EFA);
    let numbers = ["allocatable", "capacity", "devices"].map(told);
    assert_eq!(numbers, [Some(30.0), Some(32.0), Some(32.0)]);

    promise(&rig, &all, &all);
    until("an end of it", || finding(&rig).is_none());
    until("ready", || is_in_state(&rig, "ready"));

    // A plugin that died long ago: the kubelet has taken the capacity away, and left the name.
    let none = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "0"});
    promise(&rig, &none, &none);
    until("gone", || is("ResourceFewerThanDevices", "verdict"));
    until("degraded", || is_in_state(&rig, "degraded"));
    // Without the name it never was there.
    promise(&rig, &gpus, &gpus);
    until("forgotten", || is("ResourceMissing", "notice"));
    until("ready", || is_in_state(&rig, "ready"));
}

/// A guest's functions cannot be counted; that there are none any more needs no count.
#[test]
fn a_plugin_that_dies_in_a_virtual_machine() {
    let rig = at_once("azure_ndh200", "Standard_ND96isr_H200_v5");
    let of = |count: &str| json!({"nvidia.com/gpu": "8", "rdma/ib": count});
    let is = |weight: &str| {
        finding(&rig) == Some(("ResourceFewerThanDevices".into(), weight.to_string()))
    };
    promise(&rig, &of("0"), &of("8"));
    until("gone", || is("verdict"));
    until("degraded", || is_in_state(&rig, "degraded"));
    promise(&rig, &of("7"), &of("8"));
    until("one fewer", || is("notice"));
    until("ready", || is_in_state(&rig, "ready"));
    promise(&rig, &of("8"), &of("8"));
    until("an end of it", || finding(&rig).is_none());
}

/// With the settings as they are, a plugin that restarts is no finding.
#[test]
fn a_plugin_that_restarts_is_waited_for() {
    let all = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"});
    let none = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "0"});
    // Before the agent starts: a node that was ready once stays so until the finding is raised.
    let api = FakeApi::new(json!({}), Value::Null);
    promise_in(&api, &none, &all);
    let rig = rig_of("efa_p5", api, &[]);
    until("word of it", || {
        value(&rig.agent, "selvage_resource_allocatable", &EFA) == Some(0.0)
    });
    // Not a fault yet, and not ready before it is there.
    until("unknown", || is_in_state(&rig, "unknown"));
    assert_eq!(finding(&rig), None);
    promise(&rig, &all, &all);
    until("ready", || is_in_state(&rig, "ready"));
}

/// OpenShift's SR-IOV operator: virtual functions with verbs are well, on vfio-pci they are none, and
/// a pool of more than there are is a promise that nobody keeps.
#[test]
fn pools_of_virtual_functions() {
    let at_once = ["--set=policy.promised.raise_after=0s"];
    let pool = json!({"nvidia.com/gpu": "8", "openshift.io/mlx5rdma": "8"});
    for (preset, offer, want) in [
        ("openshift_vfio", &pool, Some("VfsWithoutVerbs")),
        ("h100_roce", &pool, Some("ResourceMoreThanDevices")),
        ("openshift_vf_off", &pool, Some("VfLinkDisabled")),
        ("openshift_sriov", &pool, None),
    ] {
        let rig = rig_of(preset, FakeApi::new(json!({}), Value::Null), &at_once);
        promise(&rig, offer, offer);
        let name = [("resource", "openshift.io/mlx5rdma")];
        until("word of it", || {
            value(&rig.agent, "selvage_resource_allocatable", &name) == Some(8.0)
        });
        match want {
            Some(reason) => until(reason, || {
                finding(&rig).is_some_and(|(found, _)| found == reason)
            }),
            None => {
                until("ready", || is_in_state(&rig, "ready"));
                assert_eq!(finding(&rig), None);
            }
        }
    }
}
