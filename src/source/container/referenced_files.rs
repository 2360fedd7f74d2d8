//! Files that NCCL settings refer to: whether they exist.

use crate::host::Host;
use crate::observe::container::Environment;
use crate::observe::reading::Reading;
use crate::source::tree;
use std::collections::BTreeMap;

/// For each of these settings that is set, whether its file exists. An empty name counts as a missing
/// file. Relative names are left out: they depend on a working directory that is unknown here.
pub(crate) fn read(
    host: &Host,
    environment: &Environment,
    settings: &[&'static str],
) -> BTreeMap<String, Reading<()>> {
    let mut found = BTreeMap::new();
    let set = settings.iter().map(|name| (name, environment.nccl(name)));
    for (name, setting) in set.filter_map(|(name, setting)| Some((name, setting?))) {
        let reading = match setting.value.strip_prefix('/') {
            None if setting.value.is_empty() => Reading::Absent,
            None => continue,
            Some(path) if tree::is_file(host, path) => Reading::Value(()),
            Some(path) if tree::exists(host, path) => Reading::malformed("not a regular file"),
            Some(_) => Reading::Absent,
        };
        found.insert((*name).to_string(), reading);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn present_or_missing() {
        let tree = TestTree::bare();
        tree.file("etc/topo.xml", "<system/>");
        tree.dir("etc/dir");
        for (value, want) in [
            ("/etc/topo.xml", Some(Reading::Value(()))),
            ("/etc/none.xml", Some(Reading::Absent)),
            ("", Some(Reading::Absent)),
            ("topo.xml", None),
        ] {
            let mut environment = Environment::default();
            let variables = &mut environment.variables;
            variables.insert("NCCL_TOPO_FILE".into(), value.into());
            let got = read(&tree.host(), &environment, &["NCCL_TOPO_FILE", "NCCL_NONE"]);
            assert_eq!(got.get("NCCL_TOPO_FILE").cloned(), want, "{value:?}");
            assert!(!got.contains_key("NCCL_NONE"));
        }
        let mut environment = Environment::default();
        let variables = &mut environment.variables;
        variables.insert("NCCL_TOPO_FILE".into(), "/etc/dir".into());
        let got = read(&tree.host(), &environment, &["NCCL_TOPO_FILE"]);
        assert!(matches!(got["NCCL_TOPO_FILE"], Reading::Failed(_)));
    }
}
