//! Network interfaces for sockets: NCCL's and Gloo's.

use super::context::Context;
use super::item::{Item, ItemStatus};
use super::nccl_list::{MAX_INTERFACES, NcclList};
use super::wording::{any_of, list, quoted};
use crate::observe::container::{Interface, Setting};
use crate::observe::reading::Reading;
use std::net::{IpAddr, Ipv6Addr};

/// NCCL's own order without a setting; it uses the first group that has any interface
/// (`ncclFindInterfaces`, src/misc/socket.cc; `NCCL_COMM_ID` is not considered).
const GROUPS: &[&str] = &["ib", "^docker,lo,virbr", "docker", "lo", "virbr"];

const GLOO: &str = "GLOO_SOCKET_IFNAME";

/// The interfaces, or the item for interfaces that could not be listed.
pub(super) fn interfaces<'a>(context: &Context<'a>) -> Result<&'a [Interface], Item> {
    let why = match &context.facts.interfaces {
        Reading::Value(interfaces) => return Ok(interfaces),
        Reading::Failed(fault) => &fault.detail,
        _ => "the interfaces and their addresses cannot be read",
    };
    Err(Item::unknown("InterfacesUnreadable", why))
}

/// Entries of a comma-separated list that are not known, and whether these are all.
pub(super) fn unknown_entries(value: &str, known: impl Fn(&str) -> bool) -> (Vec<String>, bool) {
    let entries = value.split(',').filter(|entry| !entry.is_empty());
    let unknown = entries.clone().filter(|entry| !known(entry));
    let unknown: Vec<String> = unknown.map(Into::into).collect();
    let are_all = unknown.len() == entries.count();
    (unknown, are_all)
}

/// A remedy that offers those of the names that other nodes may reach.
pub(super) fn offer(variable: &str, names: &[String]) -> String {
    let names: Vec<String> = names
        .iter()
        .filter(|name| !is_local(name))
        .cloned()
        .collect();
    match names.is_empty() {
        true => format!(
            "{variable}: unset it; no interface in here but the loopback has an address (the pod's network: CNI, `hostNetwork`)"
        ),
        false => format!("{variable}: unset it, or {}", any_of(&names)),
    }
}

/// Interfaces that connect only this machine's own containers.
fn is_local(name: &str) -> bool {
    let prefixes = ["lo", "docker", "virbr"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
        IpAddr::V4(v4) => v4.is_link_local(),
    }
}

/// The address that NCCL would use of an interface: the first of the family, except `::1`; `None` if
/// the interface is not running.
fn address(interface: &Interface, family: Option<&str>) -> Option<IpAddr> {
    let fits = |address: &&IpAddr| match family {
        Some("AF_INET") => address.is_ipv4(),
        Some("AF_INET6") => address.is_ipv6(),
        _ => true,
    };
    let addresses = interface.addresses.iter().filter(fits).copied();
    let addresses = addresses.filter(|address| *address != Ipv6Addr::LOCALHOST);
    let first = addresses.min_by_key(IpAddr::is_ipv6);
    first.filter(|_| interface.running)
}

/// What NCCL makes of `NCCL_SOCKET_IFNAME`.
struct Choice<'a> {
    /// The setting as a list; `None` if NCCL chooses.
    list: Option<NcclList>,
    /// The setting, or that there is none.
    lead: String,
    /// Interfaces with the address that NCCL would use, in its order.
    usable: Vec<(&'a str, IpAddr)>,
    taken: Vec<(&'a str, IpAddr)>,
}

/// Judges the interfaces that NCCL uses for its bootstrap, and for data over TCP.
pub(super) fn socket_ifname(context: &Context<'_>) -> Item {
    let all = match interfaces(context) {
        Ok(all) => all,
        Err(item) => return item,
    };
    let choice = choose(context, all);
    let item = match choice.taken.first() {
        None => choice.nothing(all),
        Some(first) => (choice.only_local(context))
            .or_else(|| choice.link_local(context, first))
            .or_else(|| choice.partly(context))
            .unwrap_or_else(|| Item::ok(format!("{}: {}", choice.lead, choice.shown()))),
    };
    item.with("selected", choice.names())
}

fn choose<'a>(context: &Context<'_>, all: &'a [Interface]) -> Choice<'a> {
    let family = context
        .nccl("NCCL_SOCKET_FAMILY")
        .map(|setting| setting.value);
    let usable = all
        .iter()
        .filter_map(|one| Some((one.name.as_str(), address(one, family)?)));
    let mut usable: Vec<(&str, IpAddr)> = usable.collect();
    // NCCL goes by addresses, and getifaddrs(3) returns IPv4 addresses of all interfaces first.
    usable.sort_by_key(|(_, address)| address.is_ipv6());
    let take = |list: &NcclList| -> Vec<(&'a str, IpAddr)> {
        let taken = usable.iter().filter(|(name, _)| list.selects(name, None));
        taken.copied().collect()
    };
    let parse = |text: &str| NcclList::parse(text, MAX_INTERFACES);
    // A single character counts as unset.
    let is_set = |setting: &Setting<'_>| setting.value.len() > 1;
    let setting = context.nccl("NCCL_SOCKET_IFNAME").filter(is_set);
    let list = setting.map(|setting| parse(setting.value));
    let own = || {
        let mut groups = GROUPS.iter().map(|group| take(&parse(group)));
        groups.find(|taken| !taken.is_empty()).unwrap_or_default()
    };
    let lead = setting.map(|setting| setting.to_string());
    Choice {
        taken: list.as_ref().map_or_else(own, take),
        lead: lead.unwrap_or_else(|| "not set: NCCL's own choice".into()),
        list,
        usable,
    }
}

impl Choice<'_> {
    fn names(&self) -> Vec<String> {
        self.taken.iter().map(|(name, _)| (*name).into()).collect()
    }

    fn shown(&self) -> String {
        let shown = self.taken.iter().map(|(name, at)| format!("{name} ({at})"));
        list(&shown.collect::<Vec<_>>())
    }

    /// Usable interfaces that are not taken and that other nodes may reach.
    fn others(&self) -> Vec<&str> {
        let names = self.usable.iter().map(|(name, _)| *name);
        let taken = self.names();
        names
            .filter(|name| !is_local(name) && !taken.iter().any(|taken| taken == name))
            .collect()
    }

    /// NCCL finds no interface, and ends.
    fn nothing(&self, all: &[Interface]) -> Item {
        let named = self.list.as_ref().filter(|list| !list.excludes);
        let named = named.and_then(|list| all.iter().find(|one| list.selects(&one.name, None)));
        let why = match named {
            Some(interface) if !interface.running => format!("{} is down", interface.name),
            Some(interface) => format!("{} has no address", interface.name),
            None => {
                let names = self.usable.iter().map(|(name, _)| (*name).to_string());
                format!("there are {}", list(&names.collect::<Vec<_>>()))
            }
        };
        let message = format!(
            "{} selects no interface: {why}. NCCL ends (`no socket interface found`)",
            self.lead
        );
        let others = self.others();
        Item::failing("NoInterface", message).fix(match others.is_empty() {
            true => {
                "NCCL_SOCKET_IFNAME: an interface of this pod that is up and has an address".into()
            }
            false => format!("NCCL_SOCKET_IFNAME: {} or unset it", others.join(",")),
        })
    }

    /// No other node reaches the interfaces.
    fn only_local(&self, context: &Context<'_>) -> Option<Item> {
        if context.is_one_node() || !self.taken.iter().all(|(name, _)| is_local(name)) {
            return None;
        }
        let status = match (context.is_many_nodes(), self.list.is_some()) {
            (true, _) => ItemStatus::Failing,
            (false, true) => ItemStatus::Degraded,
            (false, false) => ItemStatus::Unknown,
        };
        let message = format!(
            "{}: {}, which no other node reaches",
            self.lead,
            self.shown()
        );
        let others = self.others();
        let remedy = match others.is_empty() {
            true => "the pod has no other interface with an address: check its network (CNI, `hostNetwork`)".into(),
            false => format!("NCCL_SOCKET_IFNAME: {}", others.join(",")),
        };
        Some(Item::new(status, Some("LocalInterface"), message).fix(remedy))
    }

    /// The bootstrap uses the first interface.
    fn link_local(&self, context: &Context<'_>, (name, at): &(&str, IpAddr)) -> Option<Item> {
        (is_link_local(*at) && context.is_many_nodes()).then(|| {
            let message = format!("{}: {name} has only the link-local address {at}", self.lead);
            Item::degraded("LinkLocalAddress", message)
                .fix("give the interface an address, or NCCL_SOCKET_IFNAME: another one")
        })
    }

    /// NCCL ignores names that no usable interface has. One list may serve a whole fleet, but a blank
    /// is a mistake, and over TCP each missing interface costs bandwidth.
    fn partly(&self, context: &Context<'_>) -> Option<Item> {
        let list = self.list.as_ref().filter(|list| !list.excludes)?;
        let unmatched = list.entries.iter().filter(|entry| {
            !self
                .usable
                .iter()
                .any(|(name, _)| list.matches(entry, name, None))
        });
        let ignored: Vec<String> = unmatched.map(|entry| entry.name.clone()).collect();
        if ignored.is_empty() {
            return None;
        }
        let names = quoted(&ignored);
        let message = format!(
            "{}: {}; nothing usable is called {names}",
            self.lead,
            self.shown()
        );
        let is_blank = ignored.iter().any(|name| name.trim() != name);
        let item = match (is_blank, context.tcp.is_some()) {
            (true, _) => Item::degraded(
                "InterfacePartly",
                format!("{message}: a blank counts as part of the name"),
            ),
            (false, true) => Item::degraded("InterfacePartly", message),
            (false, false) => return Some(Item::ok(format!("{message}, which NCCL ignores"))),
        };
        Some(item.fix(format!("NCCL_SOCKET_IFNAME: {}", self.names().join(","))))
    }
}

/// Why the item does not apply.
pub(super) fn gloo_ifname_skip(context: &Context<'_>) -> Option<&'static str> {
    let is_unset = context.facts.environment.get(GLOO).is_none();
    is_unset.then_some("not set: Gloo uses the address of the host name")
}

/// Judges `GLOO_SOCKET_IFNAME`: whole names, separated by commas. Gloo ends at the first that has no
/// address (PyTorch, ProcessGroupGloo).
pub(super) fn gloo_ifname(context: &Context<'_>) -> Item {
    let value = context.facts.environment.get(GLOO).unwrap_or_default();
    let all = match interfaces(context) {
        Ok(all) => all,
        Err(item) => return item,
    };
    let usable = all
        .iter()
        .filter(|interface| !interface.addresses.is_empty());
    let usable: Vec<String> = usable.map(|interface| interface.name.clone()).collect();
    let (missing, are_all) =
        unknown_entries(value, |name| usable.iter().any(|known| known == name));
    let item = if are_all || !missing.is_empty() {
        let missing = list(&missing);
        let message = format!(
            "{GLOO}={value}: no interface with an address is called {missing}; Gloo needs whole names, and ends"
        );
        Item::failing("NoInterface", message)
    } else if context.is_many_nodes() && value.split(',').all(is_local) {
        Item::failing(
            "LocalInterface",
            format!("{GLOO}={value}, which no other node reaches"),
        )
    } else {
        return Item::ok(format!("{GLOO}={value}"));
    };
    item.fix(offer(GLOO, &usable))
}

#[cfg(test)]
mod tests;
