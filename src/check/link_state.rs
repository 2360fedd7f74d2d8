//! Whether each port's link is up.

use super::expected::{
    Attribute, BUT_PEERS, PAST_AND_PEERS, PEERS, PeerAttribute, RailAttribute, Shortfall, Sources,
    UP, majority, most, remembered, row,
};
use super::nic_kernel::is_resetting;
use super::profile::{CLOUD_LINKS, Certainty, Profile};
use super::roles::kind::{self, layer_name};
use super::{Action, Basis, Candidate, Context, PortView, Reason, Status, Weight, dot1x, peers};
use crate::observe::remembered::LINK_LAYER;
use crate::observe::{
    Function, LinkLayer, NetdevFacts, PhysState, PortHistory, PortState, Reading,
};
use crate::units::{Millis, PortKey, span_text};
use std::time::Duration;

/// The port that remedies name until they are about one.
const SOME_PORT: &str = "mlx5_4/1";

check!(link_state, run);

const SM_CHANGED: Reason = "SubnetManagerChanged";

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let has_state = |port: &PortView<'_>| !port.is_efa() && !port.is_in_a_pod();
    let known =
        |port: &PortView<'_>| port.device.pci_id.is_some() && port.device.board_id.is_some();
    let judged = |port: &PortView<'_>| has_state(port) && !is_spare(context, port);
    let mut found = LAYER.judge(context, |port| judged(port) && known(port));
    for odd in &mut found {
        odd.status = Status::Failing;
    }
    found.extend(LAYER.judge(context, |port| judged(port) && !known(port)));
    let of_rails_up = ["NoLid", "NoUverbs", dot1x::REASON];
    let is_down = |rail: &PortView<'_>| !rail.is_active();
    found.extend(unseen_on_rails(context, &of_rails_up, is_down));
    found.extend(unseen_on_rails(context, &["NoLid"], |rail| {
        rail.is_infiniband() && rail.link.is_some_and(|link| link.lid.is_none())
    }));
    // As a pod left it, a gVNIC's interface is switched off.
    found.extend(unseen_on_rails(context, &["LinkDown"], |rail| {
        rail.is_in_a_pod() || rail.device.is_gvnic() && is_switched_off(rail)
    }));
    let is_empty = |bond: &String| context.netdev(bond).is_none_or(|of| of.lowers.is_empty());
    let is_unread = |of: &NetdevFacts| of.master.as_ref().is_some_and(is_empty);
    let legs_unread = |rail: &PortView<'_>| rail.netdev.is_none_or(is_unread);
    found.extend(unseen_on_rails(context, &["BondLegDown"], legs_unread));
    // Where nothing but the layer is unread.
    found.extend(unseen_on_rails(context, &["WrongLinkLayer"], |_| false));
    let silent = |rail: &PortView<'_>| dot1x::is_unread(context, rail);
    found.extend(unseen_on_rails(context, &[dot1x::REASON], silent));
    found.extend(unseen_on_rails(context, &["NoUverbs"], |rail| {
        let unknown = kind::may_be_gvnic(rail.device) && !rail.device.is_gvnic();
        unknown || rail.device.uverbs == Reading::NotObservable
    }));
    for port in context.ports() {
        found.extend(judge_address(context, port).or_else(|| lid_change(context, port)));
        if !has_state(port) {
            let blind = port.is_efa() && port.state().is_none();
            found.extend(blind.then(|| state_unreadable(context, port)).flatten());
            continue;
        }
        let judged = judge_port(context, port);
        found.extend(judged.iter().flat_map(|of| still_not_up(context, port, of)));
        found.extend(judged);
        found.extend(another_layer(context, port));
        found.extend(dot1x::judge(context, port));
        found.extend(judge_bond(context, port));
    }
    found.extend(LEGS.of_rails(context).judge_all());
    found.extend(subnet_manager_away(context));
    found.extend(unlisted_ports(context));
    found
}

/// Rails of a device that is there, which it no longer lists.
fn unlisted_ports<'a>(context: &'a Context<'_>) -> impl Iterator<Item = Candidate> + 'a {
    let after = context.policy.link_state.unknown_raise_after.0;
    context.devices().flat_map(move |device| {
        let of_device = device.port_key(0)..=device.port_key(u32::MAX);
        let is_listed = |key: &PortKey| device.ports.iter().any(|port| port.number == key.port);
        let known = context.roles.range(of_device).map(|(key, _)| key);
        let gone = known.filter(move |key| context.is_rail(key) && !is_listed(key));
        gone.map(move |key| {
            let subject = format!("{}/{}", device.name, key.port);
            let message =
                format!("state of {subject} is unknown: its device no longer lists the port");
            let found = context.candidate("StateUnreadable", (key.to_string(), subject), message);
            found.raised_after(after).with("port", key.port)
        })
    })
}

fn phys_state(port: &PortView<'_>) -> PhysState {
    port.phys_state().unwrap_or(PhysState::Unknown)
}

fn is_switched_off(port: &PortView<'_>) -> bool {
    match port.port.link_layer {
        // RoCE reads Disabled for unplugged, too: only the interface knows.
        LinkLayer::Ethernet => port.netdev.and_then(|netdev| netdev.admin_up) == Some(false),
        LinkLayer::Infiniband => phys_state(port) == PhysState::Disabled,
        _ => false,
    }
}

fn state_unreadable(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let after = context.policy.link_state.unknown_raise_after.0;
    let why = match port.link.map(|link| &link.state) {
        None => "it was not read, or its last reading is too old",
        Some(Reading::Failed(_)) => "reading it fails",
        Some(Reading::Absent | Reading::NotObservable) => "the kernel does not report it",
        Some(Reading::Value(_)) if port.is_active() => "its link layer cannot be read",
        Some(Reading::Value(_)) => "the kernel gives a state without a name",
    };
    let message = format!("state of {} is unknown: {why}", port.subject);
    let found = context.of_port("StateUnreadable", port, message);
    let found = found.with("state", port.state_text());
    port.rail.then(|| found.raised_after(after))
}

fn judge_port(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let policy = &context.policy.link_state;
    // Without a link layer, nothing is asked that InfiniBand or Ethernet alone has.
    let state = match port.state() {
        Some(state) if state.is_up() && port.layer().is_some() => return None,
        Some(state) if !state.is_up() && state != PortState::Unknown => state,
        _ => return state_unreadable(context, port),
    };
    let short = short_of_up(context, port);
    let Some(proven) = short.filter(|short| short.proof) else {
        return (port.rail).then(|| unproven(context, port, state, short.is_some()));
    };
    let evidence = evidence(port, proven.because);
    let (reason, what, usual) = what_is_wrong(context, port);
    let raise_after = match may_train(context, port) {
        true => policy.training_grace.0.max(usual),
        false => usual,
    };
    let netdev = port.netdev;
    let name = netdev.and(port.port.netdev.as_deref());
    let message = format!("{} {what} ({evidence})", port.subject);
    let mut found = (context.of_port(reason, port, message))
        .raised_after(raise_after)
        .with("state", state.as_str())
        .with("phys_state", phys_state(port).as_str())
        .with("evidence", evidence)
        .with("netdev", name)
        .with("operstate", netdev.and_then(|of| of.operstate.as_deref()))
        .expecting("up", proven.because);
    if port.address().is_some_and(|at| is_resetting(context, &at)) {
        found.status = found.status.min(Status::Degraded);
    }
    if port.device.is_gvnic() && is_switched_off(port) {
        // As a pod left it: an interface that comes back out of a namespace is switched off, and the
        // next pod that gets it switches it on.
        (found.status, found.weight) = (Status::Degraded, Weight::Notice);
    }
    if reason == "LinkDown" {
        if context.profile.is_some_and(Profile::is_of_a_cloud) {
            found = found.fix(Action::CallProvider, CLOUD_LINKS);
        }
        found = dot1x::explain(port, found);
    }
    found.remedy = found.remedy.replace(SOME_PORT, &port.subject);
    Some(found)
}

/// What was said of a port stands, or goes on waiting, until what it is now is believed: being
/// down in another way is not a recovery.
fn still_not_up(context: &Context<'_>, port: &PortView<'_>, now: &Candidate) -> Vec<Candidate> {
    let others: &[Reason] = match now.reason {
        "LinkInit" => &["LinkDown", "PhysDisabled"],
        "LinkDown" | "PhysDisabled" => &["LinkInit"],
        _ => &[],
    };
    let since = port.history.and_then(|history| history.state);
    let is_young = |(_, since)| context.now.since(since) < now.timing.raise_after;
    let others = others.iter().filter(|_| since.is_some_and(is_young));
    let stand = others.map(|reason| context.unseen(reason, port.key.to_string()));
    stand.collect()
}

/// The reason for a port that should be up and is not, in words, and how long it must be so.
fn what_is_wrong(context: &Context<'_>, port: &PortView<'_>) -> (Reason, &'static str, Duration) {
    let policy = &context.policy.link_state;
    match phys_state(port) {
        _ if waits_for_manager(port) => (
            "LinkInit",
            "is trained but not configured: no subnet manager has brought it up",
            match all_in_init(context, port) {
                true => policy.subnet_manager_failover.0,
                false => policy.init_raise_after.0,
            },
        ),
        _ if is_switched_off(port) => ("PhysDisabled", "is switched off", policy.raise_after.0),
        phys => {
            let what = match phys {
                PhysState::Polling => "has no link: it is polling for a link partner",
                PhysState::Training => "has no link: it keeps training",
                _ => "has no link",
            };
            ("LinkDown", what, policy.raise_after.0)
        }
    }
}

/// When a port could begin to train: its device appeared after the agent's start, or the node booted.
pub(super) fn trains_since(context: &Context<'_>, port: &PortView<'_>) -> Millis {
    let device = context.history.devices.get(&port.key.device);
    let appeared = device.and_then(|device| device.appeared.last());
    appeared.copied().unwrap_or(Millis(0))
}

/// Whether the link may still be training: it was not up yet, or only for moments, shortly after the
/// boot or after its device appeared, or while others of the node come up one by one.
fn may_train(context: &Context<'_>, port: &PortView<'_>) -> bool {
    let since = trains_since(context, port);
    let policy = &context.policy.link_state;
    let started = context.history.started.unwrap_or(context.now);
    let begun = context.now.since(since).min(context.now.since(started));
    let young = context.now.since(since) < policy.training_grace.0;
    let rose = |rail: &PortView<'_>| rose_within(context, rail, policy.others_train.0);
    let others = || context.rails().any(rose);
    let settled = |history: &PortHistory| history.longest_up >= policy.clear_after.0;
    let blinks = || young && !port.history.is_some_and(settled);
    let grace = || young || (begun < policy.training_grace.0 && others());
    port.rail && if port.was_up() { blinks() } else { grace() }
}

/// Whether a rail was seen to come up of late.
fn rose_within(context: &Context<'_>, rail: &PortView<'_>, within: Duration) -> bool {
    let rose = rail.history.filter(|history| history.moved);
    let state = rose.and_then(|history| history.state);
    rail.is_active() && state.is_some_and(|(_, since)| context.now.since(since) < within)
}

/// Whether a rail came up too short ago to prove anything: a link that trains may fall again.
pub(crate) fn rails_settle(context: &Context<'_>) -> bool {
    let within = context.policy.link_state.clear_after.0;
    (context.rails()).any(|rail| !rail.is_efa() && rose_within(context, rail, within))
}

/// An InfiniBand rail that a subnet manager should bring up: not one that has no link and had none this boot.
pub(crate) fn needs_manager(rail: &PortView<'_>) -> bool {
    rail.is_infiniband() && (rail.was_up() || rail.state() != Some(PortState::Down))
}

fn waits_for_manager(rail: &PortView<'_>) -> bool {
    matches!(rail.state(), Some(PortState::Init | PortState::Armed))
}

/// Whether a subnet manager's failover explains it: every InfiniBand rail waits for one, or has just
/// been brought up again.
fn all_in_init(context: &Context<'_>, port: &PortView<'_>) -> bool {
    let swept_within = context.policy.link_state.init_raise_after.0;
    let waits =
        |rail: &PortView<'_>| waits_for_manager(rail) || rose_within(context, rail, swept_within);
    let mut rails = context.rails().filter(|rail| needs_manager(rail));
    port.rail && port.is_infiniband() && rails.all(waits)
}

/// All InfiniBand rails that were up wait for a subnet manager: one event, told at once.
fn subnet_manager_away(context: &Context<'_>) -> Option<Candidate> {
    let waiting = context.rails().filter(|rail| waits_for_manager(rail));
    let waiting: Vec<&PortView<'_>> = waiting.collect();
    let first = waiting.first()?;
    let were_up = waiting.iter().all(|rail| rail.was_up());
    if waiting.len() < 2 || !were_up || !all_in_init(context, first) {
        return None;
    }
    let message = format!(
        "{} rails are waiting for the subnet manager at once: it is failing over, or is down",
        waiting.len()
    );
    let mut found = context.candidate("LinkInit", ("subnet manager", "subnet manager"), message);
    (found.status, found.weight) = (Status::Degraded, Weight::Notice);
    Some(found.with("rails", waiting.len()))
}

/// A rail that is down, and nothing shows for sure that it should be up.
fn unproven(context: &Context<'_>, port: &PortView<'_>, state: PortState, weak: bool) -> Candidate {
    let subject = &port.subject;
    if phys_state(port) == PhysState::LinkUp {
        return unconfigured(context, port, state);
    }
    let message = match weak && has_counted(port) {
        true => format!("{subject} is down, and was up once by its counters"),
        false => format!("{subject} is down and was never up this boot"),
    };
    if !weak {
        let found = context.of_port("NeverUp", port, message);
        return found.with("state", port.state_text());
    }
    let alike = peers::among(context, port, |other| Some(other.is_active()));
    let (up, of) = (alike.iter().filter(|up| **up).count(), alike.len());
    let message = format!("{message}; {up} of {of} rails of its kind are up");
    let found = context.of_port("LinkUnproven", port, message);
    found.with("up", up).with("alike", of)
}

/// A rail that is trained, so cabled to something that lives, but was never configured, and nothing
/// else says that it should be.
fn unconfigured(context: &Context<'_>, port: &PortView<'_>, state: PortState) -> Candidate {
    let up = may_be_up(context, port);
    let message = format!(
        "{} is trained, so its cable is good, but was never configured this boot: no subnet manager has brought it up",
        port.subject
    );
    let mut candidate = (context.of_port("LinkInit", port, message))
        .raised_after(context.policy.link_state.init_raise_after.0)
        .with("state", state.as_str())
        .with("phys_state", PhysState::LinkUp.as_str());
    candidate.status = Status::Unknown;
    // With as many up as are expected it is a spare.
    if (context.policy.expect.rails).is_some_and(|rails| up >= rails as usize) {
        candidate.weight = Weight::Notice;
    }
    candidate
}

/// Whether a link is up: 1, or 0.
pub const LINK_UP: Attribute = Attribute::new(UP, &[(BUT_PEERS, "LinkDown"), (PEERS, "LinkDown")]);

/// How many rails count as up where this port is judged. One whose state cannot be read may be up. One that
/// fell, or is gone, has findings of its own, and makes no rail of a spare that was never up.
fn may_be_up(context: &Context<'_>, port: &PortView<'_>) -> usize {
    let is_known = |rail: &PortView<'_>| rail.was_up() || remembered(context, rail, UP) == Some(1);
    let never_up = !is_known(port);
    let counts = |rail: &&PortView<'_>| {
        rail.is_active() || rail.state().is_none() || never_up && is_known(rail)
    };
    let all = (context.roles.keys()).filter(|key| context.is_rail(key));
    let gone = all.count().saturating_sub(context.rails().count());
    context.rails().filter(counts).count() + if never_up { gone } else { 0 }
}

/// What shows that a port that is down should be up. With as many up as are configured, or as every
/// machine of the shape has, the others are spares; with too few of those alike up nothing is proven.
fn short_of_up(context: &Context<'_>, port: &PortView<'_>) -> Option<Shortfall> {
    let up = context.rails().filter(|rail| rail.is_active()).count();
    let may_be_up = may_be_up(context, port);
    let should = |rails: usize| u64::from(may_be_up < rails);
    let shape = context.profile.and_then(Profile::sure_rails);
    let mut sources = Sources {
        remembered: port.was_up().then_some(1),
        ..Sources::default()
    };
    if port.rail {
        let alike = peers::among(context, port, |other| Some(other.is_active()));
        let proof = majority(&alike) == Some(true);
        let is_unused = || peers::is_second(context, port) || all_use_another_port(context, port);
        // A single second port may be cabled for something else, two show that they are meant to be used.
        let few_up = alike.iter().filter(|up| **up).count() < 2;
        let hint = proof || has_counted(port) || up > 0 && !(few_up && is_unused());
        sources.configured = context.policy.expect.rails.map(|n| should(n as usize));
        sources.shape = shape.map(|rails| (should(rails), Certainty::Yes));
        sources.remembered = sources.remembered.or(remembered(context, port, UP));
        sources.peers = (hint && shape.is_none()).then_some((1, proof));
    }
    LINK_UP.shortfall(0, 1.0, &sources)
}

/// Whether counters show that a port was up since its driver was loaded, or its firmware: it moved data in both
/// directions, or its interface's carrier changed twice, and one of two changes is a rise
/// (`netif_carrier_on` in net/sched/sch_generic.c). Firmware counts on over a reboot, so that it may have been
/// before the cable was taken out for good.
fn has_counted(port: &PortView<'_>) -> bool {
    let count = |name: &str| port.counter(name)?.value();
    let moved = ["port_xmit_data", "port_rcv_data"];
    let changes = port.netdev.and_then(|of| of.carrier_changes.value());
    changes >= Some(&2) || moved.into_iter().all(|name| count(name) > Some(0))
}

/// Whether the cards of all its peer rails are cabled at another port: as a rule, one of two is used.
fn all_use_another_port(context: &Context<'_>, port: &PortView<'_>) -> bool {
    let slot = |of: &PortView<'_>| of.device.pci.map(|pci| pci.slot());
    let has_other = |of: &PortView<'_>| {
        let mut ports = context.rails();
        ports.any(|other| other.key != of.key && other.is_active() && slot(other) == slot(of))
    };
    let alike = peers::among(context, port, |of| {
        Some(slot(of).is_some() && has_other(of))
    });
    let none_up = peers::among(context, port, |of| of.is_active().then_some(())).is_empty();
    alike.len() >= 2 && none_up && alike.into_iter().all(|has_other| has_other)
}

/// What was believed of these reasons stands on each rail of which it cannot be read, nor whether it is
/// InfiniBand. A link that is down mends nothing: what only a rail that is up shows is unread then.
pub(super) fn unseen_on_rails(
    context: &Context<'_>,
    reasons: &[Reason],
    is_unread: impl Fn(&PortView<'_>) -> bool,
) -> Vec<Candidate> {
    let mut unseen = Vec::new();
    // What a spare had no longer counts once it is unplugged.
    let wanted = |rail: &PortView<'_>| !is_spare(context, rail);
    let is_unread = |rail: &PortView<'_>| rail.layer().is_none() || is_unread(rail);
    for rail in (context.rails()).filter(|rail| is_unread(rail) && wanted(rail)) {
        let of = |reason: &Reason| context.unseen(reason, rail.key.to_string());
        unseen.extend(reasons.iter().map(of));
    }
    unseen
}

/// Whether a port that is down is one more than are configured, or than machines of the shape have.
fn is_spare(context: &Context<'_>, port: &PortView<'_>) -> bool {
    let shape = context.profile.and_then(Profile::sure_rails);
    let counted = context.policy.expect.rails.is_some() || shape.is_some();
    let down = port.state().is_some_and(|state| !state.is_up());
    counted && down && short_of_up(context, port).is_none()
}

fn evidence(port: &PortView<'_>, because: Basis) -> &'static str {
    match because {
        Basis::Configured => "expected by configuration",
        _ if port.was_up() => "it was up earlier this boot",
        Basis::Shape => "every machine of this shape has it up",
        Basis::Remembered => "it was up before the node was restarted",
        Basis::Peers => "its peer rails are up",
    }
}

/// What an active rail needs that programs can use it: a LID, a uverbs device.
fn judge_address(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    if !port.rail || !port.is_active() {
        return None;
    }
    let policy = &context.policy.link_state;
    let say = |reason: Reason, what: &str| {
        let message = format!("{} is active but {what}", port.subject);
        (context.of_port(reason, port, message)).raised_after(policy.address_raise_after.0)
    };
    let device = port.device;
    let missing = match device.uverbs {
        Reading::Absent => true,
        // Without the class, which is the module's.
        Reading::NotObservable => uverbs_not_loaded(context),
        _ => false,
    };
    if missing && !kind::may_be_gvnic(device) {
        return Some(say("NoUverbs", "has no uverbs device").with("uverbs", "absent"));
    }
    (port.is_infiniband() && port.link?.lid == Some(0)).then(|| {
        let mut found = say("NoLid", "has no LID").with("lid", 0);
        if port.device.function != Function::Physical {
            // A virtual function may be addressed by GID alone; its flag for that is not in sysfs.
            (found.status, found.weight) = (Status::Degraded, Weight::Notice);
        }
        found
    })
}

/// The list of modules was read and has ib_core as a module, without the one that makes the devices.
fn uverbs_not_loaded(context: &Context<'_>) -> bool {
    let modules = context.gpudirect().and_then(|facts| facts.modules.value());
    modules.is_some_and(|all| all.contains_key("ib_core") && !all.contains_key("ib_uverbs"))
}

/// A LID, or a subnet manager's, that changed of late.
fn lid_change(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let (policy, link) = (&context.policy.link_state, port.link?);
    if !port.rail || !port.is_active() || !port.is_infiniband() {
        return None;
    }
    let subject = &port.subject;
    let say = |reason: Reason, message: String| context.of_port(reason, port, message);
    let history = port.history?;
    let lately = |(at, _): &(Millis, u32)| context.now.since(*at) < policy.lid_change_stands_for.0;
    let of_manager = "subnet manager's LID";
    let changes = [
        ("LidChanged", "LID", history.lid, link.lid),
        (SM_CHANGED, of_manager, history.sm_lid, link.sm_lid),
    ];
    let changed = changes.into_iter().find_map(|(reason, what, change, now)| {
        let ((at, before), now) = (change.changed.filter(lately)?, now.filter(|now| *now != 0)?);
        let ago = span_text(context.now.since(at));
        let message = format!("{subject}: the {what} changed from {before} to {now} {ago} ago");
        let found = say(reason, message).raised_after(Duration::ZERO);
        Some(found.with("was", before).with("is", now))
    });
    let orphan = || {
        let message = format!("{subject} is active but has no subnet manager (SM LID 0)");
        let none = link.sm_lid == Some(0) && port.device.function == Function::Physical;
        let found = say(SM_CHANGED, message).with("sm_lid", 0);
        none.then(|| found.raised_after(policy.address_raise_after.0))
    };
    changed.or_else(orphan)
}

/// The mode of a rail. A layer that could not be read differs from nothing.
pub const LAYER: PeerAttribute = PeerAttribute {
    of: Attribute::new("the port's mode", &[(PAST_AND_PEERS, "WrongLinkLayer")]),
    evidence: "link_layer",
    observed: |_, port| layer_name(port.port.link_layer).map(Into::into),
    alike: peers::alike_but_for_the_layer,
};

/// A port in another mode than it had: healthy on its own and useless here.
fn another_layer(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let (was, is) = (remembered(context, port, LINK_LAYER)?, port.port.link_layer);
    let mut layers = [LinkLayer::Infiniband, LinkLayer::Ethernet].into_iter();
    let was = (layers.find(|layer| *layer != is)).filter(|other| *other as u64 == was);
    let (was, is) = (layer_name(was?)?, layer_name(is)?);
    let subject = &port.subject;
    let message = format!("{subject}: the port's mode is {is}, and was {was} earlier");
    let found = (context.of_port("WrongLinkLayer", port, message)).with("link_layer", is);
    Some(found.expecting(was, Basis::Remembered))
}

/// The legs of a rail's bond: one whose function is gone has left it.
pub const LEGS: RailAttribute = RailAttribute {
    peers: most,
    verb: "is a bond with legs:",
    ..row(
        "legs",
        |context, port| Some(bond_legs(context, port).len() as u64).filter(|legs| *legs > 0),
        &[(PAST_AND_PEERS, "BondLegDown")],
    )
};

fn bond_legs<'a>(context: &Context<'a>, port: &PortView<'a>) -> &'a [String] {
    context.bond_legs(port.netdev.filter(|_| port.is_active()))
}

fn judge_bond(context: &Context<'_>, port: &PortView<'_>) -> Vec<Candidate> {
    let legs = bond_legs(context, port);
    // A leg with an RDMA port of its own is judged as that port.
    let own = |leg: &String| {
        let is = |of: &PortView<'_>| of.port.netdev.as_ref() == Some(leg);
        is(port) || !context.ports().iter().any(is)
    };
    let is_down =
        |leg: &NetdevFacts| leg.carrier == Reading::Value(false) || leg.admin_up == Some(false);
    let is_down = |leg: &&String| own(leg) && context.netdev(leg).is_some_and(is_down);
    let key = |leg: &String| format!("{} leg {leg}", port.key);
    let has_carrier = |leg: &NetdevFacts| leg.carrier.value().is_some();
    let unread = (legs.iter()).filter(|leg| !context.netdev(leg).is_some_and(has_carrier));
    let unread = unread.map(|leg| context.unseen("BondLegDown", key(leg)));
    let down = legs.iter().filter(is_down);
    down.filter(|_| legs.len() >= 2)
        .map(|leg| {
            let subject = &port.subject;
            let about = (key(leg), format!("{subject} leg {leg}"));
            let message = format!(
                "{subject}: bond leg {leg} has no carrier; the port stays up on another leg"
            );
            (context.candidate("BondLegDown", about, message))
                .weighing(port.weight())
                .with("leg", leg.as_str())
                .with("legs", legs.len())
        })
        .chain(unread)
        .collect()
}

#[cfg(test)]
mod tests;
