//! Names of our labels, taints and annotations.

use super::ClusterSettings;

/// Type of the condition.
pub const CONDITION: &str = "FabricReady";
/// Field manager of every write.
pub const FIELD_MANAGER: &str = "selvage";
/// Labels, without prefix. Those of earlier versions stay listed, so that they are cleaned up.
pub const LABELS: [&str; 6] = [FABRIC, FABRIC_KIND, RAILS, RAIL_GBPS, GPUDIRECT, GDS];
/// Label of the verdict.
pub const FABRIC: &str = "fabric";
/// Label of the kind of network.
pub const FABRIC_KIND: &str = "fabric-kind";
/// Label of the number of rails.
pub const RAILS: &str = "rails";
/// Label of the lowest rail's rate, in Gbit/s.
pub const RAIL_GBPS: &str = "rail-gbps";
/// Label of GPUDirect RDMA's path.
pub const GPUDIRECT: &str = "gpudirect";
/// Label of GPUDirect Storage.
pub const GDS: &str = "gds";

/// Name of the taint of an unready node.
const TAINT: &str = "fabric-unready";
/// Name of the taint that a node joins with.
const STARTUP: &str = "agent-not-ready";
/// The same taint for cluster-autoscaler, which ignores taints that begin so when it simulates a new node,
/// without needing a flag. Independent of our configured prefix.
const AUTOSCALER_STARTUP: &str =
    "startup-taint.cluster-autoscaler.kubernetes.io/selvage-agent-not-ready";

/// Annotation by which an operator mutes checks and the taint.
pub const MUTE: &str = "mute";
/// Annotation by which an operator accepts the machine as it is: `selvage accept` from afar.
pub const ACCEPT: &str = "accept";
/// Annotation of the budget's Lease that holds the ledger.
pub const LEDGER: &str = "ledger";

/// Full names, under the configured prefix.
impl ClusterSettings {
    /// Our name under the prefix.
    pub fn own(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Key of our taint.
    pub fn taint(&self) -> String {
        self.own(TAINT)
    }

    /// Whether it is the key of the taint that a node joins with, under this prefix or a former one:
    /// the provisioner may still use that.
    pub fn is_startup_taint(&self, key: &str) -> bool {
        key == AUTOSCALER_STARTUP || self.without_prefix(key) == Some(STARTUP)
    }

    /// Whether it is the key of our taint, under this prefix or a former one.
    pub fn is_own_taint(&self, key: &str) -> bool {
        self.without_prefix(key) == Some(TAINT)
    }

    /// Whether a label is one of ours, under this prefix or a former one.
    pub fn is_own_label(&self, key: &str) -> bool {
        (self.without_prefix(key)).is_some_and(|name| LABELS.contains(&name))
    }

    /// The name behind this prefix or a former one.
    fn without_prefix<'a>(&self, key: &'a str) -> Option<&'a str> {
        let mut prefixes = [&self.prefix].into_iter().chain(&self.former_prefixes);
        prefixes.find_map(|prefix| key.strip_prefix(prefix.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_the_listed_ones_only() {
        let names = ClusterSettings {
            former_prefixes: vec!["old.example/".into()],
            ..ClusterSettings::default()
        };
        for (key, ours) in [
            ("selvage.dev/fabric", true),
            ("old.example/rails", true),
            ("selvage.dev/team", false),
            ("other/fabric", false),
            ("fabric", false),
        ] {
            assert_eq!(names.is_own_label(key), ours, "{key}");
        }
        for (key, startup, unready) in [
            ("selvage.dev/agent-not-ready", true, false),
            ("old.example/agent-not-ready", true, false),
            ("other/agent-not-ready", false, false),
            (AUTOSCALER_STARTUP, true, false),
            (
                "startup-taint.cluster-autoscaler.kubernetes.io/agent-not-ready",
                false,
                false,
            ),
            ("agent-not-ready", false, false),
            ("selvage.dev/fabric-unready", false, true),
            ("old.example/fabric-unready", false, true),
            ("other/fabric-unready", false, false),
        ] {
            assert_eq!(names.is_startup_taint(key), startup, "{key}");
            assert_eq!(names.is_own_taint(key), unready, "{key}");
        }
    }
}
