//! Containers for tests.

use super::{Item, ItemStatus, judge};
use crate::observe::{
    ContainerFacts, Fault, FaultKind, Gid, GidKind, GidTable, Interface, Library, LinkLayer,
    Module, NvidiaDriver, PortState, Privileges, RdmaDevice, RdmaPort, Reading, SeenDevice,
    SeenPort, SharedMemory,
};
use crate::units::BitsPerSec;

/// A container in which a job of 8 GPUs over RoCE has all it needs.
pub(super) fn good() -> ContainerFacts {
    let mut facts = ContainerFacts {
        rdma: Reading::Value(
            (0..8)
                .map(|i| device(&format!("mlx5_{i}"), LinkLayer::Ethernet))
                .collect(),
        ),
        interfaces: Reading::Value(vec![
            interface("lo", &["127.0.0.1", "::1"]),
            interface("eth0", &["10.0.0.5", "fe80::1"]),
            interface("net1", &["10.9.0.1"]),
        ]),
        privileges: Privileges {
            memlock: Reading::Value(Some(8 << 20)),
            memory: Reading::Value(2 << 40),
            effective: Reading::Value(1 << 14),
            bounding: Reading::Value(1 << 14),
            uid: Reading::Value(0),
            first_user_namespace: Reading::Value(true),
        },
        shm: Reading::Value(SharedMemory {
            size: 64 << 30,
            free: 64 << 30,
        }),
        gpus: Reading::Value(8),
        has_loader: true,
        ..ContainerFacts::default()
    };
    facts.gpudirect.driver = Reading::Value(NvidiaDriver {
        version: "570.86.15".into(),
        open: Some(true),
    });
    facts.gpudirect.kernel_release = Some("6.8.0".into());
    facts.gpudirect.modules = Reading::Value([("nvidia".to_string(), Module::default())].into());
    facts.libraries.insert(
        "libibverbs.so.1".into(),
        Library::Usable {
            path: "/usr/lib/libibverbs.so.1".into(),
        },
    );
    facts
        .libraries
        .insert("libnccl-net.so".into(), Library::Missing);
    set(
        &mut facts,
        &[
            ("WORLD_SIZE", "16"),
            ("LOCAL_WORLD_SIZE", "8"),
            ("RANK", "3"),
        ],
    );
    facts
}

pub(super) fn set(facts: &mut ContainerFacts, variables: &[(&str, &str)]) {
    for (name, value) in variables {
        let all = &mut facts.environment.variables;
        all.insert((*name).to_string(), (*value).to_string());
    }
}

pub(super) fn with(variables: &[(&str, &str)]) -> ContainerFacts {
    let mut facts = good();
    set(&mut facts, variables);
    facts
}

pub(super) fn interface(name: &str, addresses: &[&str]) -> Interface {
    Interface {
        name: name.into(),
        running: true,
        addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
    }
}

pub(super) fn gid(index: u32, text: &str, kind: GidKind) -> Gid {
    Gid {
        index,
        gid: text.into(),
        kind: Some(kind),
        netdev: Some("net1".into()),
    }
}

pub(super) const LOCAL: &str = "fe80:0000:0000:0000:a088:c2ff:fe40:0100";
pub(super) const V4: &str = "0000:0000:0000:0000:0000:ffff:0a09:0001";

/// The usual table of an mlx5 port with one IPv4 address: 10.9.0.1.
pub(super) fn gids() -> GidTable {
    GidTable {
        gids: vec![
            gid(0, LOCAL, GidKind::IbOrRoceV1),
            gid(1, LOCAL, GidKind::RoceV2),
            gid(2, V4, GidKind::IbOrRoceV1),
            gid(3, V4, GidKind::RoceV2),
        ],
        complete: true,
    }
}

pub(super) fn device(name: &str, link_layer: LinkLayer) -> SeenDevice {
    let mut device = RdmaDevice::at("0000:19:00.0");
    device.name = name.into();
    device.driver = match link_layer {
        LinkLayer::Unspecified => "efa".into(),
        _ => "mlx5_core".into(),
    };
    device.ports = vec![RdmaPort {
        number: 1,
        link_layer,
        netdev: None,
    }];
    SeenDevice {
        device,
        node: Reading::Value(()),
        ports: vec![SeenPort {
            number: 1,
            link_layer,
            state: Reading::Value(PortState::Active),
            rate: Some(BitsPerSec::from_gbps(400)),
            gids: Reading::Value(gids()),
            asked: Reading::NotObservable,
        }],
    }
}

pub(super) fn devices(facts: &mut ContainerFacts) -> &mut Vec<SeenDevice> {
    match &mut facts.rdma {
        Reading::Value(devices) => devices,
        other => panic!("no devices: {other:?}"),
    }
}

pub(super) fn fault<T>(kind: FaultKind) -> Reading<T> {
    Reading::Failed(Fault {
        kind,
        detail: "the system's words".into(),
    })
}

pub(super) fn item(facts: &ContainerFacts, name: &str) -> Item {
    let mut items = judge(facts, None);
    items.retain(|item| item.item == name);
    items.pop().expect("such an item")
}

/// Status and reason of one item. What is wrong names what to change, what is not ok says why.
pub(super) fn verdict(facts: &ContainerFacts, name: &str) -> String {
    let item = item(facts, name);
    assert!(!item.message.is_empty(), "{name}");
    if item.status >= ItemStatus::Degraded {
        assert!(!item.remedy.is_empty(), "{name}: no remedy: {item:?}");
        assert!(item.reason.is_some(), "{name}: {item:?}");
    }
    match item.reason {
        Some(reason) => format!("{} {reason}", item.status.as_str()),
        None => item.status.as_str().to_string(),
    }
}

/// A good container with these variables and no others.
pub(super) fn only(variables: &[(&str, &str)]) -> ContainerFacts {
    let mut facts = good();
    facts.environment.variables.clear();
    set(&mut facts, variables);
    facts
}
