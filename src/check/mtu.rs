//! Whether RoCE rails carry packets of the same size.

use super::expected::{PAST_AND_PEERS, RailAttribute, row};
use super::{Candidate, Context, PortView, unseen_on_rails};

check!(mtu, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let rails = ROCE_MTU.of_rails(context);
    let mut found = rails.judge_all();
    if found.is_empty() && rails.values.iter().all(|(_, mtu)| *mtu == 0) {
        found.extend(rails.values.iter().map(|(rail, _)| {
            let message = format!("no RDMA packet fits into the MTU of {}", rail.subject);
            let found = context.of_port("MtuReduced", rail, message);
            found.with("rdma_mtu", 0)
        }));
    }
    let unread = |rail: &PortView<'_>| rail.is_roce() && mtu(context, rail).is_none();
    found.extend(unseen_on_rails(context, &["MtuReduced"], unread));
    found
}

fn mtu(_: &Context<'_>, port: &PortView<'_>) -> Option<u64> {
    let judged = port.is_roce() && port.is_active();
    let netdev = port.netdev?.mtu.filter(|_| judged)?;
    Some(rdma_mtu(&port.device.driver, netdev))
}

/// The largest RDMA packet that an interface carries.
pub const ROCE_MTU: RailAttribute = RailAttribute {
    text: |mtu| format!("{mtu} bytes"),
    verb: "has an RDMA MTU of",
    evidence: "rdma_mtu",
    ..row("mtu", mtu, &[(PAST_AND_PEERS, "MtuReduced")])
};

/// The RDMA MTU that fits into an interface's: headers take 96 bytes (iboe_get_mtu in
/// include/rdma/ib_addr.h); 0 where none fits. irdma, on Intel's NICs, asks for no room for them.
fn rdma_mtu(driver: &str, netdev: u32) -> u64 {
    let headers = match driver {
        "irdma" | "ice" | "i40e" | "idpf" => 0,
        _ => 96,
    };
    let room = netdev.saturating_sub(headers);
    let mut sizes = [4096, 2048, 1024, 512, 256].into_iter();
    sizes.find(|mtu| *mtu <= room).unwrap_or(0).into()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, key};
    use super::*;
    use crate::observe::{Function, NetdevFacts, Reading};

    fn node(mtu: impl Fn(usize) -> u32) -> Node {
        let mut node = Node::roce();
        for i in 0..8 {
            let facts = NetdevFacts {
                mtu: Some(mtu(i)),
                carrier: Reading::Value(true),
                ..NetdevFacts::default()
            };
            node.set_netdev(i, facts);
        }
        node
    }

    #[test]
    fn the_size_that_counts_is_the_rdma_packet() {
        for (driver, netdev, want) in [
            ("mlx5_core", 9000, 4096),
            ("mlx5_core", 4200, 4096),
            ("mlx5_core", 4192, 4096),
            ("mlx5_core", 4191, 2048),
            ("bnxt_en", 1500, 1024),
            ("ice", 4100, 4096),
            ("mlx5_core", 351, 0),
        ] {
            assert_eq!(rdma_mtu(driver, netdev), want, "{driver} {netdev}");
        }
    }

    #[test]
    fn an_odd_rail_is_degraded_and_another_number_of_the_same_size_is_nothing() {
        assert_eq!(
            node(|i| if i == 3 { 4200 } else { 9000 }).told(&CHECK),
            [""; 0]
        );
        assert_eq!(node(|_| 1500).told(&CHECK), [""; 0]);
        let of_none = node(|_| 300).told(&CHECK);
        assert_eq!(of_none.len(), 8);
        assert_eq!(of_none[3], "mlx5_3/1 MtuReduced Degraded Verdict");
        let told = node(|i| if i == 3 { 1500 } else { 9000 }).told(&CHECK);
        assert_eq!(told, ["mlx5_3/1 MtuReduced Degraded Verdict"]);
        // More of them do not help.
        assert_eq!(
            node(|i| if i == 3 { 9000 } else { 1500 })
                .told(&CHECK)
                .len(),
            7
        );
        let mut unread = node(|i| if i == 3 { 1500 } else { 9000 });
        unread.set_netdev(3, NetdevFacts::default());
        let found = (CHECK.run)(&unread.context().of_check(&CHECK));
        let unseen = found
            .iter()
            .filter(|of| of.unseen)
            .map(|of| of.key.as_str());
        assert_eq!(
            unseen.collect::<Vec<_>>(),
            [key(3).to_string()],
            "what was seen stands"
        );
        // With a NIC of unknown make which ports are rails is a guess; a software device has none.
        for (function, weight) in [
            (Function::Physical, "Notice"),
            (Function::Software, "Verdict"),
        ] {
            let mut unknown = node(|i| if i == 3 { 1500 } else { 9000 });
            unknown.devices[7].driver = "unknown".into();
            unknown.devices[7].function = function;
            unknown.tick(1);
            let want = format!("mlx5_3/1 MtuReduced Degraded {weight}");
            assert_eq!(unknown.told(&CHECK), [want]);
        }
        let mut infiniband = Node::infiniband();
        infiniband.set_netdev(
            0,
            NetdevFacts {
                mtu: Some(2044),
                ..NetdevFacts::default()
            },
        );
        assert_eq!(infiniband.told(&CHECK), [""; 0]);
    }
}
