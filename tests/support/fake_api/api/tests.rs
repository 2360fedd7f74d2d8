//! What the agent leans on, and that nothing sent makes the server fall over.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn asked(method: &str, uri: &str, content: &str, body: Value) -> Asked {
    Asked {
        method: method.into(),
        uri: uri.into(),
        content: content.into(),
        body,
        ..Asked::default()
    }
}

fn get(uri: &str) -> Asked {
    asked("GET", uri, "", Value::Null)
}

fn two_nodes() -> Objects {
    let mut objects = Objects::default();
    for (name, kind) in [("a", "roce"), ("b", "none")] {
        let labels = json!({"selvage.dev/fabric": "ready", "selvage.dev/fabric-kind": kind});
        objects.create_node(name, labels, Value::Null, json!({"nvidia.com/gpu": "8"}));
    }
    objects
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    let name = |item: &'_ Value| item["metadata"]["name"].as_str().unwrap().len();
    items
        .iter()
        .map(|item| {
            assert!(name(item) > 0);
            item["metadata"]["name"].as_str().unwrap()
        })
        .collect()
}

#[test]
fn lists_select() {
    let mut objects = two_nodes();
    for (query, want) in [
        ("", vec!["a", "b"]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        (
            "labelSelector=selvage.dev%2Ffabric%2Cselvage.dev%2Ffabric-kind%21%3Dnone",
            vec!["a"],
        ),
        (
            "labelSelector=selvage.dev/fabric,selvage.dev/fabric-kind!=none",
            vec!["a"],
        ),
        ("labelSelector=selvage.dev/fabric-kind=none", vec!["b"]),
        ("labelSelector=%21selvage.dev/fabric", vec![]),
    ] {
        let (code, list) = objects.answer(&get(&format!("/api/v1/nodes?{query}")));
        assert_eq!((code, names(&list)), (200, want), "{query}");
    }
}

#[test]
fn a_lease_is_written_by_who_read_it_last() {
    let mut objects = Objects::default();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/selvage/leases";
    let lease = json!({"metadata": {"name": "x"}});
    let (code, first) = objects.answer(&asked("POST", leases, "", lease.clone()));
    assert_eq!(code, 201);
    assert_eq!(objects.answer(&asked("POST", leases, "", lease)).0, 409);
    let one = format!("{leases}/x");
    let put = |body: &Value| asked("PUT", &one, "", body.clone());
    assert_eq!(objects.answer(&put(&first)).0, 200);
    assert_eq!(objects.answer(&put(&first)).0, 409, "it has moved on");
    assert_eq!(objects.answer(&get(&format!("{leases}/y"))).0, 404);
}

#[test]
fn labels_that_are_no_longer_applied_go() {
    let mut objects = two_nodes();
    let apply = |labels: Value| {
        asked(
            "PATCH",
            "/api/v1/nodes/a?force=true&fieldManager=selvage",
            "application/apply-patch+yaml",
            json!({"metadata": {"labels": labels}}),
        )
    };
    assert_eq!(objects.answer(&apply(json!({"x": "1", "y": "1"}))).0, 200);
    let (_, node) = objects.answer(&apply(json!({"y": "2"})));
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["x"], &labels["y"]), (&Value::Null, &json!("2")));
    assert_eq!(labels["selvage.dev/fabric"], "ready", "others' stay");
}

#[test]
fn a_patch_whose_test_fails_changes_nothing() {
    let mut objects = two_nodes();
    let patch = |value: &str| {
        let operations = json!([
            {"op": "test", "path": "/metadata/name", "value": value},
            {"op": "add", "path": "/spec/taints", "value": []},
        ]);
        asked(
            "PATCH",
            "/api/v1/nodes/a",
            "application/json-patch+json",
            operations,
        )
    };
    assert_eq!(objects.answer(&patch("b")).0, 422);
    assert_eq!(objects.node("a").unwrap()["spec"]["taints"], Value::Null);
    assert_eq!(objects.answer(&patch("a")).0, 200);
}

#[test]
fn a_watch_tells_of_its_own_and_of_what_it_missed() {
    let mut objects = two_nodes();
    let pod = |uid: &str, node: &str| json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}});
    objects.put_pod(pod("1", "a"));
    let uri = "/api/v1/pods?watch=true&allowWatchBookmarks=true&fieldSelector=spec.nodeName%3Da";
    let mut lines = objects
        .watch(&get(&format!("{uri}&resourceVersion=100")))
        .unwrap();
    objects.put_pod(pod("2", "b"));
    assert!(objects.delete_pod("1") && !objects.delete_pod("1"));
    let mut told = Vec::new();
    while let Ok(line) = lines.try_recv() {
        let event: Value = serde_json::from_slice(&line).unwrap();
        told.push(event["type"].as_str().unwrap().to_string());
    }
    assert_eq!(told, ["ADDED", "DELETED"]);
    objects.forget_the_past();
    let mut late = objects
        .watch(&get(&format!("{uri}&resourceVersion=100")))
        .unwrap();
    let line = late.try_recv().unwrap();
    assert!(
        line.starts_with(b"{\"object\":")
            && line
                .windows(4)
                .any(|part| part == b" 410" || part == b":410")
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/$]{0,8}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        proptest::sample::select(vec![
            "metadata",
            "name",
            "labels",
            "status",
            "conditions",
            "type",
            "op",
            "path",
            "value",
            "namespace",
            "resourceVersion",
            "$patch",
            "managedFields",
        ])
        .prop_map(String::from),
        "[a-z]{0,4}",
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_sent_is_answered(
        method in proptest::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE"]),
        path in proptest::sample::select(vec![
            "/api/v1/nodes", "/api/v1/nodes/a", "/api/v1/nodes/a/status", "/api/v1/pods",
            "/api/v1/namespaces/x/events", "/api/v1/namespaces/x/events/e",
            "/apis/coordination.k8s.io/v1/namespaces/selvage/leases",
            "/apis/coordination.k8s.io/v1/namespaces/selvage/leases/x", "", "/", "//",
        ]),
        query in "(\\?(limit=1&?|continue=[0-9]{1,20}&?|force=true&?|fieldManager=selvage&?|fieldSelector=spec.nodeName%3Da&?){0,4})?",
        content in proptest::sample::select(vec![
            "application/apply-patch+yaml", "application/json-patch+json",
            "application/merge-patch+json", "application/strategic-merge-patch+json", "",
        ]),
        bodies in prop::collection::vec(any_json(), 1..4),
    ) {
        let mut objects = two_nodes();
        for body in bodies {
            let request = asked(method, &format!("{path}{query}"), content, body.clone());
            let (code, _) = objects.answer(&request);
            prop_assert!((200..600).contains(&code));
            objects.put_pod(body);
        }
    }
}
