//! What the drivers of RDMA-capable NICs print: links, cables, heat, power, firmware, queues and
//! failed starts (`drivers/net/ethernet`, `drivers/infiniband`). Everything is in the tables below:
//! what a driver says, in lower case, and what it means.

use crate::observe::kernel::{KernelEvent, Note, What};

use super::gpu::SYMBOL_FAILURES;
use super::text::{Origin, call_site, first, origin, says_any, slot, take_address, take_u32};

/// Drivers of NICs that carry RDMA or GPUDirect traffic. Other NICs are ignored.
#[rustfmt::skip]
const DRIVERS: [&str; 29] = [
    "mlx5_core", "mlx5_ib", "mlx4_core", "mlx4_en", "mlx4_ib", "bnxt_en", "bnxt_re", "ice", "irdma",
    "i40iw", "idpf", "efa", "mana", "mana_ib", "gve", "hfi1", "qib", "qede", "qedr", "qed", "cxgb4",
    "iw_cxgb4", "hns3", "hns_roce", "hns_roce_hw_v2", "ionic", "ionic_rdma", "erdma", "enic",
];

/// Phrases and what they mean; the first that fits decides.
type Phrases = &'static [(&'static str, Note)];

/// mlx5 (`mlx5/core/{health,events,cmd,en_main}.c`). Syndrome 0x10 is the firmware's heat alarm.
const MLX5: Phrases = &[
    ("port module event*cable unplugged", Note::CableUnplugged),
    ("port module event*cable plugged", Note::CablePlugged),
    ("port module event*high temperature", Note::Temperature),
    ("port module event*power", Note::Power),
    ("port module event*error", Note::ModuleFault),
    ("port module event*disabled", Note::ModuleFault),
    ("high temperature", Note::Temperature),
    ("detected insufficient power on the pcie slot", Note::Power),
    ("synd 0x10:", Note::Temperature),
    ("synd 0x*high temperature", Note::Temperature),
    ("synd 0x", Note::Syndrome),
    ("health issue observed*high temperature", Note::Temperature),
    ("health issue observed", Note::Syndrome),
    ("fatal error * detected", Note::FatalSensor),
    ("device's health compromised", Note::HeartbeatLost),
    ("fw is unable to respond", Note::HeartbeatLost),
    ("pci slot is unavailable", Note::DeviceError),
    ("pci slot 0 is unavailable", Note::DeviceError),
    ("pci channel offline", Note::DeviceError),
    ("pci link not ready", Note::DeviceError),
    ("firmware is not responsive", Note::DeviceError),
    ("handling bad device here", Note::DeviceError),
    ("driver is in error state", Note::DeviceError),
    ("health recovery failed", Note::DeviceError),
    ("health recovery flow aborted", Note::DeviceError),
    ("starting health recovery flow", Note::RecoveryStarted),
    ("health recovery succe", Note::Recovered),
    // PCI error recovery (`main.c`) and resets that the firmware asks for (`fw_reset.c`).
    ("mlx5_pci_*, disconnect", Note::DeviceError),
    ("mlx5_pci_*timed out", Note::DeviceError),
    ("mlx5_pci_*failed", Note::DeviceError),
    ("mlx5_pci_resume*device recovered", Note::Recovered),
    ("mlx5_pci_err_detected", Note::RecoveryStarted),
    ("mlx5_pci_slot_reset", Note::RecoveryStarted),
    ("mlx5_pci_resume", Note::RecoveryStarted),
    ("wait vital counter", Note::RecoveryStarted),
    ("waiting for fw ", Note::RecoveryStarted),
    ("firmware responds to pci", Note::RecoveryStarted),
    ("pci link up", Note::RecoveryStarted),
    ("fw requests reset", Note::RecoveryStarted),
    ("issuing fw reset", Note::RecoveryStarted),
    ("nic sw reset", Note::RecoveryStarted),
    ("got device reset", Note::RecoveryStarted),
    ("*reset ack failed", Note::CommandFailed),
    ("*device reset is expected", Note::RecoveryStarted),
    ("*device reset expected", Note::RecoveryStarted),
    ("*device is going to reset", Note::RecoveryStarted),
    ("sync reset unload", Note::RecoveryStarted),
    ("sync reset, got reset action", Note::RecoveryStarted),
    ("sync reset did not complete", Note::DeviceError),
    ("*sync reset timeout", Note::DeviceError),
    ("*sync reset action, state", Note::DeviceError),
    ("mlx5_sync_pci_reset failed", Note::DeviceError),
    ("fast teardown failed", Note::CommandFailed),
    ("pci sync fw update reset", Note::CommandFailed),
    (
        "*timeout. will cause a leak of a command resource",
        Note::CommandTimeout,
    ),
    ("*no done completion", Note::CommandTimeout),
    ("*timed out while waiting for a slot", Note::CommandTimeout),
    (
        "*timeout while waiting for command semaphore",
        Note::CommandTimeout,
    ),
    ("*canceled on out of queue timeout", Note::CommandTimeout),
    ("*recovered after timeout", Note::CommandTimeout),
    (
        "*command completion arrived after timeout",
        Note::CommandTimeout,
    ),
    ("command failed, status", Note::CommandFailed),
    ("failed to allocate command entry", Note::CommandFailed),
    ("tx timeout", Note::QueueTimeout),
    ("rx timeout on channel", Note::QueueTimeout),
];

const MLX4: Phrases = &[
    ("*internal error detected", Note::FatalSensor),
    ("*timed out (go bit not cleared)", Note::CommandTimeout),
    ("*failed: fw status", Note::CommandFailed),
    ("*device is going to be reset", Note::DeviceError),
    ("*failed to reset hca", Note::DeviceError),
    ("communication channel *timed out", Note::CommandTimeout),
    ("mlx4_pci_err_detected", Note::RecoveryStarted),
    ("mlx4_pci_slot_reset", Note::RecoveryStarted),
    ("mlx4_pci_resume", Note::RecoveryStarted),
    ("device was reset successfully", Note::Recovered),
];

/// `bnxt_en/{bnxt,bnxt_hwrm}.c`.
const BNXT: Phrases = &[
    ("*error (timeout:", Note::CommandTimeout),
    ("*abandoning msg {", Note::CommandTimeout),
    ("*timedout (", Note::CommandTimeout),
    ("*resp cmpl intr err msg", Note::CommandFailed),
    ("*hwrm req_type", Note::CommandFailed),
    ("*firmware not responding", Note::HeartbeatLost),
    ("*detected firmware fatal condition", Note::FatalSensor),
    ("*firmware fatal reset event", Note::FatalSensor),
    ("*firmware non-fatal reset event", Note::DeviceError),
    ("*firmware reset aborted", Note::DeviceError),
    ("pci i/o error detected", Note::RecoveryStarted),
    ("pci slot reset", Note::RecoveryStarted),
    ("pci slot resume", Note::Recovered),
];

/// `ionic_dev.c`, `ionic_lif.c`, `ionic_main.c`.
const IONIC: Phrases = &[
    ("fw heartbeat stalled", Note::HeartbeatLost),
    ("fw heartbeat restored", Note::Recovered),
    ("fw stopped", Note::HeartbeatLost),
    ("surprise fw stop", Note::HeartbeatLost),
    ("fw down: stopping lifs", Note::HeartbeatLost),
    ("fw up: lifs restarted", Note::Recovered),
    ("fw up: lifs restart failed", Note::DeviceError),
    ("devcmd *timeout after", Note::CommandTimeout),
    ("dev_cmd *timed out", Note::CommandTimeout),
];

/// `gve_main.c`, `gve_adminq.c`.
const GVE: Phrases = &[
    ("aq commands timed out", Note::CommandTimeout),
    ("timeout on tx queue", Note::QueueTimeout),
    ("unrecoverable platform error", Note::FatalSensor),
    ("reset failed!", Note::DeviceError),
    ("device requested reset", Note::RecoveryStarted),
];

/// `ice_main.c`, `ice_controlq.c`.
const ICE: Phrases = &[
    ("*unrecoverable device error", Note::DeviceError),
    ("*device is unrecoverable", Note::DeviceError),
    ("*device is in unrecoverable state", Note::DeviceError),
    ("*unload and reload the driver", Note::DeviceError),
    ("rebuild failed", Note::DeviceError),
    ("control send queue writeback timeout", Note::CommandTimeout),
    ("*module's power requirements exceed", Note::Power),
    ("*unsupported module type was detected", Note::ModuleFault),
];

/// `efa_com.c`.
const EFA: Phrases = &[
    (
        "*didn't send any completion for admin cmd",
        Note::CommandTimeout,
    ),
    (
        "*didn't send a completion for the admin cmd",
        Note::CommandTimeout,
    ),
    ("*completion (polling) timeout", Note::CommandTimeout),
    ("*completion timeout", Note::CommandTimeout),
    ("*reading register timed out", Note::CommandTimeout),
    ("*reading reg failed for timeout", Note::CommandTimeout),
    ("*admin queue is closed", Note::DeviceError),
    ("*device isn't ready, abort com init", Note::DeviceError),
    ("*failed to submit command", Note::CommandFailed),
    ("*failed to process command", Note::CommandFailed),
];

/// Too hot, in the ways drivers put it. Reading a sensor is not an alarm.
const HEAT: Phrases = &[
    ("*over temperature", Note::Temperature),
    ("*overtemperature", Note::Temperature),
    ("*overheat", Note::Temperature),
    ("*over heated", Note::Temperature),
    ("*temperature too high", Note::Temperature),
    ("*temperature threshold", Note::Temperature),
    ("*thermal threshold", Note::Temperature),
];

/// What PCI's core prints of a device that no longer answers (`drivers/pci/pci.c`).
const PCI_CORE: &[&str] = &[
    "unable to change power state*device inaccessible",
    "can't change power state*config space inaccessible",
    "refused to change power state",
    "not ready *giving up",
];

/// What most drivers but mlx5 say alike.
const ANY: Phrases = &[
    ("*tx timeout", Note::QueueTimeout),
    ("*tx_timeout", Note::QueueTimeout),
    ("*transmit timeout", Note::QueueTimeout),
    ("*firmware recovery mode detected", Note::DeviceError),
    ("*control queue timeout", Note::CommandTimeout),
    ("*adminq timeout", Note::CommandTimeout),
    ("*mailbox timed out", Note::CommandTimeout),
    ("*hwc: request timed out", Note::CommandTimeout),
    ("*hwc: failed hw_channel req", Note::CommandFailed),
];

/// A NIC's driver that does not start.
const START_FAILURES: &[&str] = &[
    "*mlx5_init_one failed",
    "*mlx5_load_one failed",
    "*init_one failed with",
    "*load_one failed with",
    "*mlx5_pci_init failed with",
    "handle_hca_cap*failed",
    "set_hca_c*failed",
    "*enable hca failed",
    "*init hca failed",
    "*init_hca failed",
    "query hca failed",
    "failed to set issi",
    "query board id failed",
    "failed to set hca defaults",
    "failed to alloc irqs",
    "failed to create eqs",
    "*failed to boot",
    "*failed to allocate boot pages",
    "*failed to allocate init pages",
    "*sw objs init failed",
    "*failed initializing command interface",
    "*command interface, aborting",
    "*initializing state, aborting",
    "missing registers bar, aborting",
    "couldn't get pci resources, aborting",
    "cannot *, aborting",
    "failed *, aborting",
    "*failed to init device",
    "*safe mode",
    "*probe failed",
    "*failed to load firmware",
];

/// A driver of GPUs or NICs that does not start, in the kernel's words.
const PROBE_FAILURES: &[&str] = &[
    "probe of *failed with error",
    "probe with driver *failed with error",
    "direct firmware load for *failed",
    "error requesting bars",
];

/// The interface or the auxiliary device in front of a message that names no address:
/// `mlx5_core ens1np0: …`, `mlx5_core.sf mlx5_core.sf.4 ens1f0s1: …`, and, of an interface without a
/// device, `ens1np0: Link up`.
pub fn named(line: &str) -> Option<Origin<'_>> {
    let (head, rest) = line.split_once(": ")?;
    let mut words = head.split(' ');
    if words.clone().any(|word| take_address(word).is_some()) {
        return None;
    }
    let first = words.next()?;
    let name = words.next();
    let driver = first.split_once('.').map_or(first, |(base, _)| base);
    let of = |driver, name| Origin {
        driver,
        address: None,
        name: Some(name),
        rest: rest.trim_start(),
    };
    match name {
        Some(name) if DRIVERS.contains(&driver) => match (words.next(), words.next()) {
            (None, _) => Some(of(driver, name)),
            (Some(interface), None) => Some(of(driver, interface)),
            _ => None,
        },
        None if is_interface(first) && matches!(rest, "Link up" | "Link down") => {
            Some(of("mlx5_core", first))
        }
        _ => None,
    }
}

/// mlx5's first words when it starts a device, after a probe or a reset.
pub fn loaded(line: &str, dictionary: Option<&str>) -> Option<KernelEvent> {
    let origin = origin(line).filter(|origin| origin.driver == "mlx5_core")?;
    let started = origin.rest.starts_with("firmware version: ");
    started.then(|| {
        event(
            Note::Loaded,
            origin.driver,
            origin.address.as_deref(),
            dictionary,
            line,
        )
    })
}

/// Whether a word can be the name of a port's interface: not of one that joins others.
fn is_interface(word: &str) -> bool {
    const JOINED: [&str; 6] = ["bond", "team", "br", "veth", "virbr", "docker"];
    let numbered = word.bytes().any(|b| b.is_ascii_digit());
    let small = word.starts_with(|c: char| c.is_ascii_lowercase()) && word.len() <= 15;
    numbered && small && !JOINED.iter().any(|joined| word.starts_with(joined))
}

/// Decodes a message that carries a driver's prefix.
pub fn decode(origin: &Origin<'_>, dictionary: Option<&str>, message: &str) -> Option<KernelEvent> {
    let mut event = decode_unnamed(origin, dictionary, message)?;
    event.name = (origin.name.map(str::to_owned)).filter(|_| event.device.is_none());
    Some(event)
}

fn decode_unnamed(
    origin: &Origin<'_>,
    dictionary: Option<&str>,
    message: &str,
) -> Option<KernelEvent> {
    let body = without_site(origin.rest).to_ascii_lowercase();
    if let Some(note) = ib_core_link(origin.rest) {
        return Some(event(
            note,
            origin.driver,
            origin.address.as_deref(),
            dictionary,
            message,
        ));
    }
    let driver = origin.driver;
    let nic = DRIVERS.contains(&driver);
    if start_failure(driver, nic, &body) {
        // The device is the one that the text names: `nvidia: probe of 0000:3b:00.0 failed`.
        let named = without_site(origin.rest)
            .strip_prefix("probe of ")
            .and_then(take_address);
        let address = named.map(|(address, _)| address).or(origin.address.clone());
        return Some(event(
            Note::Driver,
            driver,
            address.as_deref(),
            dictionary,
            message,
        ));
    }
    let own: &[Phrases] = match driver {
        "mlx5_core" | "mlx5_ib" | "" => &[MLX5],
        "mlx4_core" | "mlx4_en" | "mlx4_ib" => &[HEAT, MLX4, ANY],
        "bnxt_en" | "bnxt_re" => &[HEAT, BNXT, ANY],
        "efa" => &[HEAT, EFA, ANY],
        "ice" => &[HEAT, ICE, ANY],
        "ionic" => &[HEAT, IONIC, ANY],
        "gve" => &[HEAT, GVE, ANY],
        _ if nic => &[HEAT, ANY],
        _ => return None,
    };
    let common = || {
        let stuck = origin.rest.starts_with("NETDEV WATCHDOG");
        let watchdog = stuck.then_some(Note::QueueTimeout);
        watchdog.or_else(|| link(&body)).filter(|_| nic)
    };
    let note = common()
        .or_else(|| own.iter().find_map(|phrases| first(phrases, &body)))
        .or_else(|| mlx5_command(driver, without_site(origin.rest)))?;
    Some(event(
        note,
        driver,
        origin.address.as_deref(),
        dictionary,
        message,
    ))
}

/// An event of a device: the one that the text names, or else of the record's dictionary.
fn event(
    note: Note,
    driver: &str,
    address: Option<&str>,
    dictionary: Option<&str>,
    message: &str,
) -> KernelEvent {
    let mut event = KernelEvent::new(What::Note(note), message);
    let dictionary = || take_address(dictionary?).map(|(address, _)| address);
    if let Some(address) = address.map(str::to_owned).or_else(dictionary) {
        event.pci = Some(slot(&address));
        event.device = Some(format!("{driver} {address}").trim_start().to_owned());
    }
    event
}

/// The message behind mlx5's call site and a level, which warnings carry and kernels print
/// differently.
fn without_site(rest: &str) -> &str {
    let mut body = call_site(rest).unwrap_or(rest);
    for word in ["INFO: ", "WARN: ", "WARNING: ", "ERR: ", "ERROR: "] {
        body = body.strip_prefix(word).unwrap_or(body);
    }
    call_site(body).unwrap_or(body)
}

/// ib_core's own line, for any RDMA device: `Port: 1 Link ACTIVE`. INIT and ARMED are on the way.
fn ib_core_link(rest: &str) -> Option<Note> {
    let (_, rest) = take_u32(rest.strip_prefix("Port: ")?)?;
    match rest.strip_prefix(" Link ")?.trim_end() {
        "ACTIVE" => Some(Note::LinkUp),
        "DOWN" => Some(Note::LinkDown),
        _ => None,
    }
}

/// `link up`, `nic link is down`, `port 1 link down`, `eth2: link up`, hfi1's logical states.
fn link(body: &str) -> Option<Note> {
    let mut s = match body.split_once(": ") {
        // mlx4_en and hfi1 put the interface into the text.
        Some((name, rest)) if !name.contains(' ') => rest,
        _ => body,
    };
    if let Some((_, rest)) = s.strip_prefix("port ").and_then(take_u32) {
        s = rest.trim_start_matches([':', ' ']);
    }
    for word in ["nic ", "device ", "physical ", "logical "] {
        s = s.strip_prefix(word).unwrap_or(s);
    }
    let starts = ["link is ", "link ", "state changed to port_"];
    let state = starts.iter().find_map(|start| s.strip_prefix(start))?;
    match state.split(|c: char| !c.is_ascii_alphabetic()).next()? {
        "up" | "active" => Some(Note::LinkUp),
        "down" => Some(Note::LinkDown),
        _ => None,
    }
}

/// mlx5's refused firmware commands: `NAME(0x805) op_mod(0x1) failed, …`, in capitals and behind an
/// optional `cmd[N]: `.
fn mlx5_command(driver: &str, body: &str) -> Option<Note> {
    let command = match body.strip_prefix("cmd[") {
        Some(rest) => rest.split_once("]: ")?.1,
        None => body,
    };
    let (name, rest) = command.split_once("(0x")?;
    let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_name = (1..=64).contains(&name.len()) && name.chars().all(capital);
    let failed = rest.contains(") op_mod(0x") || rest.contains(") failed");
    let mlx5 = matches!(driver, "mlx5_core" | "mlx5_ib" | "");
    (mlx5 && is_name && failed).then_some(Note::CommandFailed)
}

/// `NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 8 timed out` (kernels before 6.5).
pub fn watchdog(line: &str, dictionary: Option<&str>) -> Option<KernelEvent> {
    let (name, rest) = line.strip_prefix("NETDEV WATCHDOG: ")?.split_once('(')?;
    let (driver, _) = rest.split_once(')')?;
    DRIVERS.contains(&driver).then(|| KernelEvent {
        name: Some(name.trim_end().to_owned()),
        ..event(Note::QueueTimeout, driver, None, dictionary, line)
    })
}

/// `infiniband <device>: …`: the EFA command layer also speaks in this form.
pub fn efa(line: &str, dictionary: Option<&str>) -> Option<KernelEvent> {
    let (device, body) = line.strip_prefix("infiniband ")?.split_once(": ")?;
    let note = first(EFA, &body.to_ascii_lowercase()).filter(|_| !device.contains(' '))?;
    Some(KernelEvent {
        name: Some(device.to_owned()),
        ..event(note, "efa", None, dictionary, line)
    })
}

/// Probe, module loading and firmware loading that failed, of NICs and their auxiliary drivers
/// (`mlx5_core.rdma`, `ice.roce`) and of NVIDIA's modules.
fn start_failure(driver: &str, nic: bool, body: &str) -> bool {
    let base = driver.split_once('.').map(|(base, _)| base);
    let nic = nic || base.is_some_and(|base| DRIVERS.contains(&base));
    let module = driver.starts_with("nvidia-nv");
    if !(nic || module || matches!(driver, "nvidia" | "amdgpu")) {
        return false;
    }
    says_any(body, PROBE_FAILURES)
        || says_any(body, PCI_CORE)
        || says_any(body, &SYMBOL_FAILURES)
        || (nic && says_any(body, START_FAILURES))
        || (module && body.contains("failed") && !body.contains("taint"))
}
