//! Names of pods by UID, from the directories of their logs: `<namespace>_<name>_<uid>`
//! (kubernetes pkg/kubelet/kuberuntime, BuildPodLogsDirectory).

use crate::host::Host;
use crate::observe::reading::Reading;
use crate::source::tree;
use std::collections::BTreeMap;
use std::path::Path;

/// Namespace and name by UID; empty where the directory cannot be read. A relative path is below
/// the host root.
pub fn read(host: &Host, pod_logs: &Path) -> BTreeMap<String, (String, String)> {
    match tree::list(host, pod_logs) {
        Reading::Value(names) => names.iter().filter_map(|name| parse(name)).collect(),
        _ => BTreeMap::new(),
    }
}

/// Neither a namespace nor a name nor a UID has an underscore.
fn parse(directory: &str) -> Option<(String, (String, String))> {
    let mut parts = directory.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && ![namespace, name, uid].contains(&"");
    whole.then(|| (uid.into(), (namespace.into(), name.into())))
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
