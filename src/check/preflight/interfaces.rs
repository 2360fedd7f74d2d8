//! Network interfaces that NCCL uses for its bootstrap, and for data over TCP.

use super::nccl_list::{MAX_INTERFACES, NcclList};
use super::{Checked, Item, ItemStatus, PodView, known, list};
use crate::observe::{Interface, Variable};
use std::net::{IpAddr, Ipv6Addr};

/// NCCL's own order without a setting; it uses the first group that has any interface
/// (`ncclFindInterfaces`, src/misc/socket.cc; `NCCL_COMM_ID` is not considered).
const GROUPS: &[&str] = &["ib", "^docker,lo,virbr", "docker", "lo", "virbr"];

/// The interfaces, or the item for interfaces that could not be listed.
pub(super) fn interfaces<'a>(context: &PodView<'a>) -> Result<&'a Vec<Interface>, Item> {
    let unreadable = "the interfaces and their addresses cannot be read";
    let interfaces = &context.facts.interfaces;
    known(interfaces, "InterfacesUnreadable", unreadable)
}

/// Whether an interface connects only this machine's own containers.
pub(super) fn is_local(name: &str) -> bool {
    (["lo", "docker", "virbr"].iter()).any(|prefix| name.starts_with(prefix))
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

fn names<'a>(interfaces: &[(&'a str, IpAddr)]) -> Vec<&'a str> {
    interfaces.iter().map(|(name, _)| *name).collect()
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

/// Judges the interfaces that NCCL takes.
pub(super) fn socket_ifname(context: &PodView<'_>) -> Checked {
    let all = interfaces(context)?;
    let choice = Choice::new(context, all);
    let (Ok(item) | Err(item)) = choice.judge(context, all);
    Ok(item.with("selected", choice.names()))
}

impl<'a> Choice<'a> {
    fn new(context: &PodView<'_>, all: &'a [Interface]) -> Self {
        let family = context.nccl("NCCL_SOCKET_FAMILY");
        let family = family.map(|setting| setting.value);
        let address = |one: &'a Interface| Some((one.name.as_str(), address(one, family)?));
        let mut usable: Vec<(&str, IpAddr)> = all.iter().filter_map(address).collect();
        // NCCL goes by addresses, and getifaddrs(3) returns IPv4 addresses of all interfaces first.
        usable.sort_by_key(|(_, address)| address.is_ipv6());
        let take = |list: &NcclList| -> Vec<(&'a str, IpAddr)> {
            let taken = usable.iter().filter(|(name, _)| list.selects(name, None));
            taken.copied().collect()
        };
        let parse = |text: &str| NcclList::parse(text, MAX_INTERFACES);
        // A single character counts as unset.
        let is_set = |setting: &Variable<'_>| setting.value.len() > 1;
        let setting = context.nccl("NCCL_SOCKET_IFNAME").filter(is_set);
        let list = setting.map(|setting| parse(setting.value));
        let own = || {
            let mut groups = GROUPS.iter().map(|group| take(&parse(group)));
            groups.find(|taken| !taken.is_empty()).unwrap_or_default()
        };
        Choice {
            taken: list.as_ref().map_or_else(own, take),
            lead: setting.map_or("not set: NCCL's own choice".into(), |set| set.to_string()),
            list,
            usable,
        }
    }

    fn names(&self) -> Vec<&'a str> {
        names(&self.taken)
    }

    fn shown(&self) -> String {
        let shown = self.taken.iter().map(|(name, at)| format!("{name} ({at})"));
        format!("{}: {}", self.lead, list(&shown.collect::<Vec<_>>()))
    }

    /// A remedy that names usable interfaces that are not taken and that other nodes may reach.
    fn others(&self, without: &str, or: &str) -> String {
        let mut others = names(&self.usable);
        others.retain(|name| !is_local(name) && !self.names().contains(name));
        match others.is_empty() {
            true => without.into(),
            false => format!("NCCL_SOCKET_IFNAME: {}{or}", others.join(",")),
        }
    }

    /// NCCL finds no interface, and ends.
    fn nothing(&self, all: &[Interface]) -> Item {
        let named = self.list.as_ref().filter(|list| !list.excludes);
        let named = named.and_then(|list| all.iter().find(|one| list.selects(&one.name, None)));
        let why = match named {
            Some(interface) if !interface.running => format!("{} is down", interface.name),
            Some(interface) => format!("{} has no address", interface.name),
            None => format!("there are {}", list(&names(&self.usable))),
        };
        let ends = "NCCL ends (`no socket interface found`)";
        let message = format!("{} selects no interface: {why}. {ends}", self.lead);
        let without = "NCCL_SOCKET_IFNAME: an interface of this pod that is up and has an address";
        Item::failing("NoInterface", message).fix(self.others(without, " or unset it"))
    }

    fn judge(&self, context: &PodView<'_>, all: &[Interface]) -> Checked {
        let (name, at) = self.taken.first().ok_or_else(|| self.nothing(all))?;
        let status = match (context.is_many_nodes(), self.list.is_some()) {
            (true, _) => ItemStatus::Failing,
            (false, true) => ItemStatus::Degraded,
            (false, false) => ItemStatus::Unknown,
        };
        let message = format!("{}, which no other node reaches", self.shown());
        let without = "the pod has no other interface with an address: check its network (CNI, `hostNetwork`)";
        let are_local = self.taken.iter().all(|(name, _)| is_local(name));
        Item::new(status, Some("LocalInterface"), message)
            .fix(self.others(without, ""))
            .when(are_local && !context.is_one_node())?;
        // The bootstrap uses the first interface.
        let is_link_local = match at {
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
            IpAddr::V4(v4) => v4.is_link_local(),
        };
        let message = format!("{}: {name} has only the link-local address {at}", self.lead);
        Item::degraded("LinkLocalAddress", message)
            .when(is_link_local && context.is_many_nodes())?;
        Ok(match self.list.as_ref().filter(|list| !list.excludes) {
            Some(list) => self.judge_names(context, list),
            None => Item::ok(self.shown()),
        })
    }

    /// NCCL ignores names that no usable interface has. One list may serve a whole fleet, but a blank
    /// is a mistake, and over TCP each missing interface costs bandwidth.
    fn judge_names(&self, context: &PodView<'_>, names: &NcclList) -> Item {
        let unmatched = names.unmatched(self.usable.iter().map(|(name, _)| (*name, None)));
        // In quotes, which makes blanks visible.
        let ignored: Vec<String> = unmatched.iter().map(|name| format!("{name:?}")).collect();
        let (shown, ignored_names) = (self.shown(), list(&ignored));
        let message = format!("{shown}; nothing usable is called {ignored_names}");
        let message = match (names.with_blanks(), &context.tcp) {
            _ if ignored.is_empty() => return Item::ok(self.shown()),
            (Some(_), _) => format!("{message}: a blank counts as part of the name"),
            (None, Some(_)) => message,
            (None, None) => return Item::ok(format!("{message}, which NCCL ignores")),
        };
        let taken = self.names().join(",");
        Item::degraded("InterfacePartly", message).fix(format!("NCCL_SOCKET_IFNAME: {taken}"))
    }
}

#[cfg(test)]
pub(super) mod tests;
