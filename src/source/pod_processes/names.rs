//! Names of pods by UID, from the directories of their logs: `<namespace>_<name>_<uid>`
//! (kubernetes pkg/kubelet/kuberuntime, BuildPodLogsDirectory).

use crate::host::Host;
use crate::source::pod_logs::pod_dir;
use crate::source::tree;
use std::collections::BTreeMap;
use std::path::Path;

/// Namespace and name by UID; empty where the directory cannot be read. A relative path is below
/// the host root.
pub fn read(host: &Host, pod_logs: &Path) -> BTreeMap<String, (String, String)> {
    let listed = tree::list(host, pod_logs);
    let pods = listed
        .value()
        .into_iter()
        .flatten()
        .filter_map(|name| pod_dir(name));
    pods.map(|pod| (pod.uid.into(), (pod.namespace.into(), pod.pod.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn names_by_uid() {
        let tree = TestTree::new();
        let logs = Path::new("var/log/pods");
        assert!(read(&tree.host(), logs).is_empty());
        for name in [
            "ml_train-0_0a1b-2c",
            "kube-system_etcd_0123abcd",
            "junk",
            "a__b",
            "a_b_c_d",
        ] {
            tree.dir(&format!("var/log/pods/{name}"));
        }
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        let want = [
            ("0a1b-2c".to_string(), pair("ml", "train-0")),
            ("0123abcd".to_string(), pair("kube-system", "etcd")),
        ];
        assert_eq!(read(&tree.host(), logs), want.into());
    }
}
