//! A pod as kube's watcher holds it.

use super::facts;
use crate::observe::PodFacts;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::{Metadata, Resource};
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Annotation of a static pod's mirror: the UID that the kubelet and its log directories use.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A Pod, reduced to the facts that are kept of it. Decoding never fails on an object of an unexpected
/// shape, so that one odd pod does not hide the others.
#[derive(Debug, Clone)]
pub(super) struct PodObject {
    metadata: ObjectMeta,
    /// The UID in the path of its logs; `None` if it cannot be decoded.
    pub key: Option<String>,
    /// `None` if they cannot be decoded.
    pub facts: Option<PodFacts>,
}

impl<'de> Deserialize<'de> for PodObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pod = Value::deserialize(deserializer)?;
        let text = |pointer: &str| pod.pointer(pointer)?.as_str().map(str::to_string);
        let annotations = pod.pointer("/metadata/annotations");
        let mirror = annotations.and_then(|all| all.get(MIRROR)?.as_str());
        let uid = text("/metadata/uid");
        Ok(PodObject {
            key: mirror.map(str::to_string).or_else(|| uid.clone()),
            facts: facts::pod(&pod),
            metadata: ObjectMeta {
                uid,
                resource_version: text("/metadata/resourceVersion"),
                ..ObjectMeta::default()
            },
        })
    }
}

impl Resource for PodObject {
    const API_VERSION: &'static str = Pod::API_VERSION;
    const GROUP: &'static str = Pod::GROUP;
    const KIND: &'static str = Pod::KIND;
    const VERSION: &'static str = Pod::VERSION;
    const URL_PATH_SEGMENT: &'static str = Pod::URL_PATH_SEGMENT;
    type Scope = <Pod as Resource>::Scope;
}

impl Metadata for PodObject {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_odd_pod_has_a_key_and_a_version_and_a_mirror_the_hash_of_its_logs() {
        let object = |value: Value| serde_json::from_value::<PodObject>(value).unwrap();
        let odd = object(json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": 5}));
        assert_eq!(odd.key.as_deref(), Some("u"));
        assert_eq!(odd.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(odd.facts, None);
        let mirror = object(json!({"metadata": {"uid": "u", "annotations": {MIRROR: "hash"}}}));
        assert_eq!(mirror.key.as_deref(), Some("hash"));
        assert_eq!(object(json!({})).key, None);
    }
}
