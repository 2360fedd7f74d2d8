use super::*;
use crate::observe::PodJob;
use serde_json::json;

fn worker() -> Value {
    json!({
        "metadata": {
            "name": "train-worker-1", "namespace": "ml", "uid": "u-1", "resourceVersion": "7",
            "creationTimestamp": null,
            "labels": {
                "training.kubeflow.org/job-name": "train",
                "training.kubeflow.org/replica-index": "1",
            },
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "o-0"},
                {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "uid": "o", "controller": true},
            ],
            "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {}}}],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [
                {
                    "name": "main",
                    "env": [
                        {"name": "NCCL_NET", "value": "Socket"},
                        {"name": "NCCL_NET", "value": "IB"},
                        {"name": "NCCL_SOCKET_IFNAME", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                        {"name": "NCCL_DEBUG"},
                        {"name": "AWS_SECRET_ACCESS_KEY", "value": "s3cret"},
                        {"name": "FI_PROVIDER", "value": "x".repeat(5000)},
                    ],
                    "resources": {
                        "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"},
                        "limits": {"nvidia.com/gpu": 8, "rdma/hca_shared_devices_a": "1k", "hugepages-2Mi": "1Gi"},
                    },
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                },
                {"name": "plain", "resources": {"limits": {"example.com/fpga": "0"}}},
            ],
            "initContainers": [
                {"name": "copy", "restartPolicy": null},
                {"name": "selvage-sidecar", "restartPolicy": "Always", "securityContext": {"privileged": true}},
            ],
        },
        "status": {"phase": "Running"},
    })
}

fn facts(value: &Value) -> PodFacts {
    pod(value).unwrap()
}

#[test]
fn a_worker() {
    let facts = facts(&worker());
    let job = PodJob {
        kind: "PyTorchJob".into(),
        name: "train".into(),
    };
    assert_eq!((facts.job.as_ref(), facts.gang), (Some(&job), Some(true)));
    assert_eq!(
        (
            facts.name.as_str(),
            facts.namespace.as_str(),
            facts.uid.as_str()
        ),
        ("train-worker-1", "ml", "u-1")
    );
    assert!(!facts.finished && !facts.host_network);
    let names: Vec<&String> = facts.containers.keys().collect();
    assert_eq!(names, ["main", "plain", "selvage-sidecar"]);
    let main = &facts.containers["main"];
    assert_eq!(main.gpus, 8);
    assert_eq!(
        main.rdma,
        BTreeMap::from([("rdma/hca_shared_devices_a".to_string(), 1000)])
    );
    assert!(!main.privileged && !main.other_devices);
    // The last one of a name counts; from elsewhere is not known; secrets are not kept.
    assert_eq!(
        main.env.keys().collect::<Vec<_>>(),
        ["FI_PROVIDER", "NCCL_NET"]
    );
    assert_eq!(main.env["NCCL_NET"], "IB");
    assert_eq!(main.env["FI_PROVIDER"].len(), VALUE_MAX);
    let sidecar = &facts.containers["selvage-sidecar"];
    assert!(sidecar.privileged);
    assert_eq!(facts.containers["plain"], PodContainer::default());
}

/// As a kubelet reports a pod of two containers and a native sidecar.
#[test]
fn states_of_containers() {
    let mut pod = worker();
    pod["spec"]["initContainers"] = json!([
        {"name": "copy"},
        {"name": "tcpxo-daemon", "restartPolicy": "Always", "image": "registry.example/mirror:v1"},
    ]);
    pod["spec"]["containers"][1]["image"] =
        json!("us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.9");
    pod["status"] = json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "initContainerStatuses": [
            {"name": "copy", "ready": true, "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-20T10:00:00Z"}}},
            {"name": "tcpxo-daemon", "ready": false, "restartCount": 7, "started": false,
             "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
             "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}},
        ],
        "containerStatuses": [
            {"name": "main", "ready": true, "state": {"running": {"startedAt": "2026-11-20T10:00:00Z"}}},
            {"name": "plain", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
            {"name": "stranger", "state": {"running": {}}},
        ],
    });
    let got = facts(&pod);
    let is = |name: &str| {
        (
            got.containers[name].tcp_daemon,
            got.containers[name].state.clone(),
        )
    };
    let waiting = ContainerState::Waiting("CrashLoopBackOff".into());
    let ended = ContainerState::Ended("OOMKilled, exit 137".into());
    assert_eq!(is("main"), (false, Some(ContainerState::Running)));
    assert_eq!(is("tcpxo-daemon"), (true, Some(waiting)), "by its name");
    assert_eq!(is("plain"), (true, Some(ended)), "by its image");
    assert_eq!(got.containers.len(), 3);

    for (state, want) in [
        (json!(null), None),
        (json!({}), None),
        (
            json!({"running": null, "waiting": {}}),
            Some(ContainerState::Waiting(String::new())),
        ),
        (
            json!({"terminated": {"reason": null}}),
            Some(ContainerState::Ended(String::new())),
        ),
        (
            json!({"waiting": {"reason": "x".repeat(500)}}),
            Some(ContainerState::Waiting(cut("x".repeat(500), REASON_MAX))),
        ),
    ] {
        pod["status"]["containerStatuses"] = json!([{"name": "main", "state": state}]);
        assert_eq!(facts(&pod).containers["main"].state, want, "{state}");
    }
    pod["status"] = json!({"containerStatuses": null, "initContainerStatuses": null});
    assert_eq!(facts(&pod).containers["main"].state, None);
}

#[test]
fn devices_of_unknown_kind() {
    type Edit = fn(&mut Value);
    let cases: &[(&str, Edit, bool)] = &[
        ("as it is", |_| {}, false),
        (
            "claims of the pod",
            |pod| pod["spec"]["resourceClaims"] = json!([{"name": "nic"}]),
            true,
        ),
        (
            "claims of the container",
            |pod| pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "nic"}]),
            true,
        ),
        (
            "a resource of some name",
            |pod| {
                pod["spec"]["containers"][0]["resources"]["limits"]["intel.com/mlnx"] = json!("1")
            },
            true,
        ),
        (
            "a share of a GPU",
            |pod| {
                pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] =
                    json!("1")
            },
            false,
        ),
        (
            "networks",
            |pod| pod["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/networks": "roce"}),
            true,
        ),
    ];
    for (case, edit, want) in cases {
        let mut pod = worker();
        edit(&mut pod);
        assert_eq!(
            facts(&pod).containers["main"].other_devices,
            *want,
            "{case}"
        );
    }
}

#[test]
fn a_bare_pod_is_known_and_what_is_no_pod_is_not() {
    let bare = json!({"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "spec": {"containers": []}});
    assert_eq!(facts(&bare).containers.len(), 0);
    let nulls = json!({
        "metadata": {"name": "a", "namespace": "b", "uid": "c", "labels": null, "annotations": null, "ownerReferences": null},
        "spec": {"hostNetwork": null, "containers": [{"name": "m", "env": null, "resources": null, "securityContext": null}], "initContainers": null},
        "status": null,
    });
    assert_eq!(facts(&nulls).containers["m"], PodContainer::default());
    for text in [
        "{}",
        "null",
        "5",
        "[]",
        r#"{"metadata":{},"spec":{"containers":[]}}"#,
        r#"{"metadata":{"name":"a","namespace":"b","uid":7},"spec":{"containers":[]}}"#,
        r#"{"metadata":{"name":"a","namespace":"b","uid":"c"},"spec":{"containers":"x"}}"#,
    ] {
        let value = serde_json::from_str(text).unwrap();
        assert_eq!(pod(&value), None, "{text}");
    }
    let odd_label = json!({
        "metadata": {"name": "a", "namespace": "b", "uid": "c", "labels": {"a": {}}},
        "spec": {"containers": []},
    });
    assert!(pod(&odd_label).is_some());
}

#[test]
fn a_pod_takes_a_bounded_place() {
    let variables: Vec<Value> = (0..5000)
        .map(|n| json!({"name": format!("NCCL_{n}"), "value": "y".repeat(900)}))
        .collect();
    let containers: Vec<Value> = (0..100)
        .map(|n| json!({"name": format!("c{n}"), "env": variables[..70]}))
        .collect();
    let mut hostile = worker();
    hostile["spec"]["containers"] = json!(containers);
    hostile["spec"]["containers"][0]["env"] = json!(variables);
    let facts = facts(&hostile);
    assert_eq!(facts.containers.len(), CONTAINERS);
    let kept = format!("{facts:?}").len();
    assert!(kept < CONTAINERS * VARIABLES * (VALUE_MAX + 30), "{kept}");
}

#[test]
fn quantities() {
    for (quantity, want) in [
        (json!("8"), Some(8)),
        (json!(8), Some(8)),
        (json!("1k"), Some(1000)),
        (json!("2Ki"), Some(2048)),
        (json!("8000m"), Some(8)),
        (json!("0"), Some(0)),
        (json!("-1"), None),
        (json!("1.5"), None),
        (json!(""), None),
        (json!("k"), None),
        (json!("99999999999999999999"), None),
        (json!("18446744073709551615G"), Some(u64::MAX)),
        (json!(null), None),
        (json!(-3), None),
    ] {
        assert_eq!(count(&quantity), want, "{quantity}");
    }
}
