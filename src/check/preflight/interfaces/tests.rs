use super::super::testing::*;
use crate::observe::{ContainerFacts, Reading};

pub(in crate::check::preflight) fn on(
    names: &[(&str, &[&str])],
    variables: &[(&str, &str)],
) -> ContainerFacts {
    let mut facts = with(variables);
    let all = names
        .iter()
        .map(|(name, addresses)| interface(name, addresses));
    facts.interfaces = Reading::Value(all.collect());
    facts
}

pub(in crate::check::preflight) const POD: &[(&str, &[&str])] = &[
    ("lo", &["127.0.0.1", "::1"]),
    ("eth0", &["10.244.0.5", "fe80::5"]),
    ("net1", &["10.9.0.1"]),
    ("net10", &["fe80::10"]),
    ("docker0", &["172.17.0.1"]),
    ("bare0", &[]),
];

fn selected(facts: &ContainerFacts) -> String {
    let item = item(facts, "socket_ifname");
    let names = item.evidence["selected"].as_array().unwrap().clone();
    let names: Vec<String> = names.iter().map(|n| n.as_str().unwrap().into()).collect();
    names.join(",")
}

#[test]
fn what_nccl_takes() {
    for (value, want, answer) in [
        ("eth0", "eth0", "ok"),
        ("eth", "eth0", "ok"),
        ("net1", "net1,net10", "ok"),
        ("=net1", "net1", "ok"),
        ("=net10", "net10", "degraded LinkLocalAddress"),
        ("^lo,docker", "eth0,net1,net10", "ok"),
        ("^eth", "lo,net1,docker0,net10", "ok"),
        ("^=net1", "lo,eth0,docker0,net10", "ok"),
        ("eth9", "", "failing NoInterface"),
        ("eth9,net1", "net1,net10", "ok"),
        ("eth0, net1", "eth0", "degraded InterfacePartly"),
        (" eth0", "", "failing NoInterface"),
        ("bare0", "", "failing NoInterface"),
        ("lo", "lo", "failing LocalInterface"),
        ("docker0,lo", "lo,docker0", "failing LocalInterface"),
        // One character, or none, counts as unset: NCCL's own choice.
        ("^", "eth0,net1,net10", "ok"),
        ("e", "eth0,net1,net10", "ok"),
        ("", "eth0,net1,net10", "ok"),
        // Two characters that name nothing do not.
        ("^=", "", "failing NoInterface"),
    ] {
        let facts = on(POD, &[("NCCL_SOCKET_IFNAME", value)]);
        assert_eq!(selected(&facts), want, "{value:?}");
        assert_eq!(verdict(&facts, "socket_ifname"), answer, "{value:?}");
    }
}

#[test]
fn what_nccl_takes_of_itself() {
    for (names, want, answer) in [
        // Interfaces of IPoIB come first.
        (
            &[
                ("eth0", &["10.0.0.1"][..]),
                ("ib0", &["10.1.0.1"]),
                ("ib1", &["10.1.0.2"]),
            ][..],
            "ib0,ib1",
            "ok",
        ),
        (
            &[
                ("lo", &["127.0.0.1"]),
                ("eth0", &["10.0.0.1"]),
                ("docker0", &["172.17.0.1"]),
            ],
            "eth0",
            "ok",
        ),
        (
            &[("lo", &["127.0.0.1"]), ("docker0", &["172.17.0.1"])],
            "docker0",
            "failing LocalInterface",
        ),
        (&[("lo", &["127.0.0.1"])], "lo", "failing LocalInterface"),
        (
            &[("virbr0", &["192.168.122.1"])],
            "virbr0",
            "failing LocalInterface",
        ),
        // IPv4 comes before IPv6, whichever interface has it.
        (
            &[("rail0", &["fe80::a"]), ("eth0", &["fe80::b", "10.9.0.5"])],
            "eth0,rail0",
            "ok",
        ),
        (
            &[("rail0", &["fe80::a"]), ("eth0", &["2001:db8::5"])],
            "rail0,eth0",
            "degraded LinkLocalAddress",
        ),
        (&[("lo", &["::1"])], "", "failing NoInterface"),
        (&[], "", "failing NoInterface"),
    ] {
        let facts = on(names, &[]);
        assert_eq!(selected(&facts), want, "{names:?}");
        assert_eq!(verdict(&facts, "socket_ifname"), answer, "{names:?}");
    }
}

#[test]
fn families_and_links() {
    let facts = on(POD, &[("NCCL_SOCKET_FAMILY", "AF_INET6")]);
    assert_eq!(selected(&facts), "eth0,net10");
    let facts = on(POD, &[("NCCL_SOCKET_FAMILY", "AF_INET")]);
    assert_eq!(selected(&facts), "eth0,net1");
    let mut facts = on(POD, &[("NCCL_SOCKET_IFNAME", "net1")]);
    if let Reading::Value(all) = &mut facts.interfaces {
        all[2].running = false;
        all[3].running = false;
    }
    let item = item(&facts, "socket_ifname");
    assert_eq!(item.reason, Some("NoInterface"));
    assert!(item.message.contains("net1 is down"), "{}", item.message);
    assert!(item.remedy.contains("eth0"), "{}", item.remedy);
}

#[test]
fn one_node_may_use_what_is_local() {
    let facts = on(POD, &[("NCCL_SOCKET_IFNAME", "lo"), ("WORLD_SIZE", "8")]);
    assert_eq!(verdict(&facts, "socket_ifname"), "ok");
    // Where nothing tells how many nodes there are.
    let mut facts = on(&[("lo", &["127.0.0.1"])], &[]);
    facts.environment.variables.clear();
    assert_eq!(verdict(&facts, "socket_ifname"), "unknown LocalInterface");
    set(&mut facts, &[("NCCL_SOCKET_IFNAME", "lo")]);
    assert_eq!(verdict(&facts, "socket_ifname"), "degraded LocalInterface");
}

#[test]
fn interfaces_that_cannot_be_listed() {
    let mut facts = with(&[
        ("GLOO_SOCKET_IFNAME", "eth0"),
        ("UCX_NET_DEVICES", "eth0"),
        ("OMPI_MCA_btl_tcp_if_include", "eth0"),
    ]);
    facts.interfaces = fault(crate::observe::FaultKind::Other);
    for item in ["socket_ifname", "gloo_ifname", "ucx_devices", "mpi_ifname"] {
        assert_eq!(
            verdict(&facts, item),
            "unknown InterfacesUnreadable",
            "{item}"
        );
    }
}

#[test]
fn names_that_are_passed_over_are_told() {
    let facts = on(POD, &[("NCCL_SOCKET_IFNAME", "eth0,eth7")]);
    let got = item(&facts, "socket_ifname");
    assert!(
        got.message.contains("nothing usable is called \"eth7\""),
        "{}",
        got.message
    );
    // Where TCP carries the data, one interface less is less.
    let facts = on(
        POD,
        &[("NCCL_SOCKET_IFNAME", "eth0,eth7"), ("NCCL_NET", "Socket")],
    );
    assert_eq!(verdict(&facts, "socket_ifname"), "degraded InterfacePartly");
    assert_eq!(
        item(&facts, "socket_ifname").remedy,
        "NCCL_SOCKET_IFNAME: eth0"
    );
    let facts = on(POD, &[("NCCL_SOCKET_IFNAME", "eth0, net1")]);
    let got = item(&facts, "socket_ifname");
    assert!(got.message.contains("\" net1\""), "{}", got.message);
}
