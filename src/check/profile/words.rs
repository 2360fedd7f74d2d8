//! A profile in words.

use super::{Fabric, Profile, Provider, Source, Sure};
use crate::units::BitsPerSec;

impl Profile {
    /// One line for people.
    pub fn sentence(&self) -> String {
        let Some(shape) = self.shape else {
            let name = |provider: Provider| format!("{}, ", provider.as_str());
            let whose = self.provider.map_or(String::new(), name);
            let rate = (self.rate).map_or(String::new(), |rate| format!(" of {rate}"));
            let rails = match (self.rails, self.seen.unwrap_or(Fabric::None)) {
                (0, _) => "no rails".to_string(),
                (count, kind) => kind.so_many(count) + &rate,
            };
            let how = match self.is_of_a_cloud() {
                true => "; the Node's label or platform.profile tells the shape",
                false => "",
            };
            return format!("{whose}inferred: {rails}{how}");
        };
        let how = match self.source {
            Source::Set => "set",
            _ => "by profile",
        };
        let expected = match (shape.fabric, shape.rails) {
            (Fabric::None, _) => "no RDMA device expected".to_string(),
            (fabric, (count, sure)) => {
                let (at, sure) = match sure {
                    Sure::Yes | Sure::OnBus => ("", "expected"),
                    Sure::AtMost => ("up to ", "expected"),
                    Sure::No => ("", "as far as known"),
                };
                let rate = match shape.gbps {
                    (0, _) => String::new(),
                    (gbps, _) => format!(" of {}", BitsPerSec::from_gbps(u64::from(gbps))),
                };
                format!("{at}{}{rate} {sure}", fabric.so_many(count as usize))
            }
        };
        format!("{} ({how}): {expected}", shape.name)
    }
}

/// What to do about a link that is down where cables and switches are a cloud's.
pub const CLOUD_LINKS: &str = "Cable, module and switch are the provider's to look at: drain the node, have the machine replaced (redeployed, or a new instance), and give the provider's support this message and the kernel log. `ip link show` on the node shows this side. A port that is down on purpose can be left out: `rails.exclude = [\"mlx5_4/1\"]`, or `--rails-exclude mlx5_4/1`.";

/// What to do about a cable or module there.
pub const CLOUD_CABLES: &str = "Cable, module and switch are the provider's to look at: drain the node, have the machine replaced (redeployed, or a new instance), and give the provider's support this message and the kernel log.";
