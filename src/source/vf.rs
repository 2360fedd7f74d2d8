//! Virtual functions' link states, where a network device's function has any.

use crate::host::Host;
use crate::observe::{Reading, VfLinks};
use crate::source::{netdev, netlink, parse, replay};

/// Of a network device: absent without virtual functions (`device/sriov_numvfs` missing or 0), and
/// then netlink is not asked.
pub fn links(host: &Host, name: &str) -> Reading<VfLinks> {
    let file = netdev::class_dir(name).join("device/sriov_numvfs");
    if parse::decimal(host, file).unwrap_or(0u32) == 0 {
        return Reading::Absent;
    }
    match host.is_live() {
        true => netlink::vf::read(name),
        false => replay::json(host, &replay::json_path("vf_links", name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{FaultKind, VfLink};
    use crate::source::testtree::TestTree;

    #[test]
    fn only_where_there_are_functions() {
        let recorded = r#"{"states":{"0":"auto","1":"disable"}}"#;
        let value = VfLinks {
            states: [(0, VfLink::Auto), (1, VfLink::Disable)].into(),
        };
        for (case, numvfs, text, want) in [
            ("no SR-IOV", None, Some(recorded), Reading::Absent),
            ("no functions", Some("0"), Some(recorded), Reading::Absent),
            ("not recorded", Some("2"), None, Reading::Absent),
            ("recorded", Some("2"), Some(recorded), Reading::Value(value)),
        ] {
            let tree = TestTree::new();
            if let Some(numvfs) = numvfs {
                tree.files("sys/class/net/ens1/device", &[("sriov_numvfs", numvfs)]);
            }
            if let Some(text) = text {
                tree.file(&replay::json_path("vf_links", "ens1"), text);
            }
            assert_eq!(links(&tree.host(), "ens1"), want, "{case}");
        }
        let tree = TestTree::new();
        tree.files("sys/class/net/ens1/device", &[("sriov_numvfs", "2")]);
        tree.file(&replay::json_path("vf_links", "ens1"), "{\"states\":7}");
        let got = links(&tree.host(), "ens1");
        assert!(matches!(got, Reading::Failed(fault) if fault.kind == FaultKind::Malformed));
    }
}
