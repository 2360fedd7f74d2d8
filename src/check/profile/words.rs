//! A profile in words: how GPUDirect RDMA is had on a fabric, too, and what does not exist there, so that it is
//! not searched for. A test over every shape holds that against the checks.

use super::{Certainty, Fabric, Profile, ProfileSource, Provider};
use crate::units::BitsPerSec;

impl Profile {
    /// What does not exist on this machine.
    pub fn lacks(&self) -> &'static [&'static str] {
        match (self.fabric(), self.provider) {
            // `isr` sizes have it, `is` sizes of the same machine do not.
            (Some(Fabric::None), Some(Provider::Azure)) => &["InfiniBand", "RDMA devices"],
            (Some(fabric), _) => &fabric.facts().lacks,
            (None, _) => &[],
        }
    }

    /// Whether the shape's accelerators are not NVIDIA's.
    fn has_others_gpus(&self) -> bool {
        const OTHERS: [&str; 5] = ["MI2", "MI3", "trn", "inf", "HPC"];
        (self.shape).is_some_and(|shape| OTHERS.iter().any(|name| shape.name.contains(name)))
    }

    /// What holds of machines of a known shape, in one line; none of others.
    pub fn there(&self) -> Option<String> {
        let fabric = self.shape?.fabric;
        // What other drivers take is not judged, and not told.
        let takes = (fabric.facts().gpudirect)
            .filter(|_| !self.has_others_gpus())
            .map(|takes| format!("GPUDirect RDMA by {takes}"));
        let lacks = match self.lacks() {
            [] => None,
            lacks => Some(format!("no {}", lacks.join(", no "))),
        };
        let parts: Vec<String> = takes.into_iter().chain(lacks).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// One line for people.
    pub fn sentence(&self) -> String {
        let Some(shape) = self.shape else {
            let name = |provider: Provider| format!("{}, ", provider.as_str());
            let whose = self.provider.map_or(String::new(), name);
            let rate = (self.rate).map_or(String::new(), |rate| format!(" of {rate}"));
            let rails = match (self.rails, self.seen.unwrap_or(Fabric::None)) {
                (0, _) => "no rails".to_string(),
                (count, kind) => kind.counted_rails(count) + &rate,
            };
            let how = match self.is_of_a_cloud() {
                true => "; the Node's label or platform.profile tells the shape",
                false => "",
            };
            return format!("{whose}inferred: {rails}{how}");
        };
        let how = match self.source {
            ProfileSource::Set => "set",
            _ => "by profile",
        };
        let expected = match (shape.fabric, shape.rails) {
            (Fabric::None, _) => "no RDMA device expected".to_string(),
            (fabric, (count, sure)) => {
                let (at, sure) = match sure {
                    Certainty::Yes | Certainty::OnBus => ("", "expected"),
                    Certainty::AtMost => ("up to ", "expected"),
                    Certainty::No => ("", "as far as known"),
                };
                let rate = match shape.gbps {
                    (0, _) => String::new(),
                    (gbps, _) => format!(" of {}", BitsPerSec::from_gbps(u64::from(gbps))),
                };
                format!("{at}{}{rate} {sure}", fabric.counted_rails(count as usize))
            }
        };
        format!("{} ({how}): {expected}", shape.name)
    }
}

/// What to do about a link that is down where cables and switches are a cloud's.
pub const CLOUD_LINKS: &str = "Cable, module and switch are the provider's to look at: drain the node, have the machine replaced (redeployed, or a new instance), and give the provider's support this message and the kernel log. `ip link show` on the node shows this side. A port that is down on purpose can be left out: `rails.exclude = [\"mlx5_4/1\"]`, or `--rails-exclude mlx5_4/1`.";

/// What to do about a cable or module there.
pub const CLOUD_CABLES: &str = "Cable, module and switch are the provider's to look at: drain the node, have the machine replaced (redeployed, or a new instance), and give the provider's support this message and the kernel log.";

#[cfg(test)]
mod tests {
    use super::super::shapes;
    use super::*;

    fn of(shape: &'static super::super::Shape) -> Profile {
        Profile {
            shape: Some(shape),
            provider: Some(shape.provider),
            source: ProfileSource::Set,
            ..Profile::default()
        }
    }

    #[test]
    fn every_shape_says_what_gpudirect_takes_and_what_is_not_there() {
        for shape in shapes() {
            let profile = of(shape);
            let (takes, lacks) = (shape.fabric.facts().gpudirect, profile.lacks());
            let rdma = !lacks.contains(&"RDMA devices");
            assert_eq!(
                takes.is_none(),
                shape.fabric == Fabric::None,
                "{}",
                shape.name
            );
            assert_eq!(
                rdma,
                shape.rails.0 > 0 && shape.gpudirect_tcp.is_none(),
                "{}",
                shape.name
            );
            // What is not there is not asked for either.
            let modules = &shape.fabric.facts().modules;
            assert!(
                !modules.iter().any(|module| lacks.contains(module)),
                "{}",
                shape.name
            );
            let azure = shape.provider == Provider::Azure;
            let without = shape.fabric == Fabric::None;
            assert_eq!(
                lacks.contains(&"InfiniBand"),
                azure && without,
                "{}",
                shape.name
            );
            let told = profile.there().is_some();
            let something = !profile.has_others_gpus() || !lacks.is_empty();
            assert_eq!(told, something, "{}", shape.name);
        }
        let with_daemon = shapes()
            .iter()
            .filter(|shape| shape.gpudirect_tcp.is_some());
        let gvnic = shapes()
            .iter()
            .filter(|shape| shape.fabric == Fabric::Gvnic);
        assert!(with_daemon.eq(gvnic));
    }

    #[test]
    fn one_line_for_people() {
        let there = |word: &str| super::super::by_type(word).and_then(|shape| of(shape).there());
        for (word, want) in [
            (
                "p5.48xlarge",
                "GPUDirect RDMA by DMA-BUF with NVIDIA's open kernel modules, or the efa driver's own peer memory; no link layer, no link state, no port counters, no PFC, no GIDs but one, no nvidia_peermem",
            ),
            (
                "a3-megagpu-8g",
                "GPUDirect RDMA by no module: the daemon alongside the job imports DMA-BUF (/dev/dmabuf_import_helper); no RDMA devices, no GID tables, no PFC, no nvidia_peermem",
            ),
            ("Standard_ND96is_H100_v5", "no InfiniBand, no RDMA devices"),
            (
                "BM.GPU.H100.8",
                "GPUDirect RDMA by DMA-BUF with NVIDIA's open kernel modules, or nvidia_peermem",
            ),
        ] {
            assert_eq!(there(word).as_deref(), Some(want), "{word}");
        }
        assert_eq!(Profile::default().there(), None);
    }
}
