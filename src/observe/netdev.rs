//! The Ethernet side of a port: link, PFC and pause, buffer drops, DCB settings.

use super::{counters::alike, reading::Reading};
use crate::settings_macro::words;
use crate::units::Bdf;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `/sys/class/net/<if>` and rtnetlink.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetdevFacts {
    /// Interface index; absent when the interface is gone.
    pub ifindex: Option<u32>,
    /// Carrier; reading it while the interface is administratively down gives EINVAL.
    pub carrier: Reading<bool>,
    /// RFC 2863 operstate text: `up`, `down`, `lowerlayerdown` …
    pub operstate: Option<String>,
    /// IFF_UP: the administrator wants it up.
    pub admin_up: Option<bool>,
    /// Speed in Mb/s; not observable while the link is down (`-1`, EINVAL).
    pub speed_mbps: Reading<u64>,
    /// Largest packet that it sends, in bytes.
    pub mtu: Option<u32>,
    /// Edges of carrier since the interface was registered: every flap adds 2, however short.
    pub carrier_changes: Reading<u64>,
    /// Bond or bridge above it.
    pub master: Option<String>,
    /// Interfaces below it (of a bond).
    pub lowers: Vec<String>,
    /// PCI function behind it.
    pub pci: Option<Bdf>,
    /// Driver of the device below it.
    pub driver: Option<String>,
    /// Whether the default route of the main table goes out here.
    pub default_route: bool,
    /// The default route of a virtual switch of which this is a port.
    pub ovs_route: Option<OvsRoute>,
    /// How the kernel answers ARP here.
    pub ipv4: Ipv4Facts,
}

/// IPv4 on an interface: subnets, and the settings in force, which are the greater of those for all
/// interfaces and its own (Documentation/networking/ip-sysctl.rst).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ipv4Facts {
    /// Subnets with more than two addresses that a route without gateway leads into: `10.9.0.0/24`.
    pub subnets: Vec<String>,
    /// Test of the way back: 1 strict, 2 loose.
    pub rp_filter: Option<u32>,
    /// 0: any interface answers for any address of this host.
    pub arp_ignore: Option<u32>,
    /// 0: requests may name another interface's address.
    pub arp_announce: Option<u32>,
    /// 1: the interface answers that replies would leave by.
    pub arp_filter: Option<u32>,
    /// Addresses in its subnets with a routing rule of their own. `None` where rules cannot be asked
    /// for, or make no difference to the settings above.
    pub ruled: Option<usize>,
}

/// A default route on a port of Open vSwitch's own (`br-ex` of OVN-Kubernetes), seen from another
/// port of the same datapath.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OvsRoute {
    /// The switch's own port with the route.
    pub port: String,
    /// Whether it is known to leave through here. Else it may leave through any port.
    pub sure: bool,
}

/// Statistics of interest out of `ethtool -S`, by neutral names. Missing keys are not observable,
/// never zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EthtoolFacts {
    /// Driver as ETHTOOL_GDRVINFO names it; chooses the name map.
    pub driver: String,
    /// By neutral name where several drivers have it, else by the vendor's: discards, storm events, PCIe
    /// back-pressure, physical-layer errors. Directions as seen from this host: `rx` pause means that
    /// the fabric slows us, `tx` pause means that we cannot drain and slow others.
    ///
    /// | name | of priority 3 |
    /// |---|---|
    /// | `prio3.rx_pause_frames`, `prio3.tx_pause_frames` | pause frames |
    /// | `prio3.rx_pause_micros` | microseconds paused by the peer |
    /// | `prio3.tx_pause_micros` | microseconds for which we paused the peer |
    /// | `prio3.rx_discards` | packets dropped on receive for lack of buffer |
    /// | `prio3.rx_packets`, `prio3.rx_bytes`, `prio3.tx_bytes` | packets, bytes |
    /// | `global.rx_pause_frames`, `global.tx_pause_frames` | 802.3x pause frames, of no priority |
    pub counts: BTreeMap<String, u64>,
}

impl EthtoolFacts {
    /// Whether they differ from another sample in volumes at most.
    pub fn is_like(&self, other: &EthtoolFacts) -> bool {
        self.driver == other.driver && alike(&self.counts, &other.counts)
    }

    /// The priorities of which the driver shows pause frames, as bits.
    pub fn shown_pause(&self) -> u8 {
        let priority = |name: &String| -> Option<u8> {
            let (priority, count) = name.strip_prefix("prio")?.split_once('.')?;
            let of_pause = matches!(count, "rx_pause_frames" | "tx_pause_frames");
            of_pause.then(|| priority.parse().ok()).flatten()
        };
        let priorities = self.counts.keys().filter_map(priority);
        priorities.fold(0, |bits, priority| bits | priority_bit(priority))
    }
}

/// The bit of a priority; none of one above 7.
pub fn priority_bit(priority: u8) -> u8 {
    1u8.checked_shl(u32::from(priority)).unwrap_or(0)
}

/// What DCB_CMD_IEEE_GET tells (net/dcb/dcbnl.c). On mlx5 `pfc_en` is the transmit bitmap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct DcbFacts {
    /// PFC-enabled priorities, bit n for priority n.
    pub pfc_enabled: Option<u8>,
    /// Bandwidth share in percent by traffic class.
    pub ets_tc_bandwidth: Option<[u8; 8]>,
    /// Traffic class of each priority.
    pub ets_prio_tc: Option<[u8; 8]>,
    /// DSCP to priority, from the APP table (selector 5).
    pub dscp_to_priority: BTreeMap<u8, u8>,
    /// What packets are classified by.
    pub trust: Option<Trust>,
}

words! {
    /// Trust state of a port.
    Trust {
        /// By the VLAN tag's priority bits.
        Pcp = "pcp",
        /// By the IP header's DSCP.
        Dscp = "dscp",
    }
}
