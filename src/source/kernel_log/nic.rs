//! What the drivers of RDMA-capable NICs print: links, cables, heat, power, firmware, queues and
//! failed starts (`drivers/net/ethernet`, `drivers/infiniband`).

use crate::observe::{KernelEvent, KernelEventKind, Note};

use super::phrases::{PHRASES, first, says_any};
use super::text::{MessageOrigin, call_site, origin, slot, take_address, take_u32};

/// Whether a driver is one of a NIC that carries RDMA or GPUDirect traffic.
fn is_nic(driver: &str) -> bool {
    PHRASES.drivers.contains_key(driver)
}

/// The interface or the auxiliary device in front of a message that names no address:
/// `mlx5_core ens1np0: …`, `mlx5_core.sf mlx5_core.sf.4 ens1f0s1: …`, `infiniband rdmap16s27: …`, and, of an interface without a
/// device, `ens1np0: Link up`.
pub fn named(line: &str) -> Option<MessageOrigin<'_>> {
    let (head, rest) = line.split_once(": ")?;
    let words: Vec<&str> = head.split(' ').take(4).collect();
    if words.iter().any(|word| take_address(word).is_some()) {
        return None;
    }
    // RDMA devices speak for themselves. Their names are numbered after the driver (`bnxt_re0`, `efa_0`);
    // of others only what ib_core says of links is known, and EFA's command layer by udev's names.
    let driver = match (head.split(['.', ' ']).next()?, &words[..]) {
        ("infiniband", [_, name]) => {
            let driver = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
            let efa = match name.starts_with("rdmap") {
                true => "efa",
                false => "ib_core",
            };
            Some(driver).filter(|driver| is_nic(driver)).unwrap_or(efa)
        }
        (driver, _) => driver,
    };
    let (driver, name) = match words[..] {
        [_, name] | [_, _, name] if is_nic(driver) => (driver, name),
        [name] if is_interface(name) && matches!(rest, "Link up" | "Link down") => {
            ("mlx5_core", name)
        }
        _ => return None,
    };
    Some(MessageOrigin {
        driver,
        address: None,
        name: Some(name),
        rest: rest.trim_start(),
    })
}

/// What ends trouble: a driver's first words when it starts a device, after a probe or a reset, that an AMD
/// GPU was reset, and that a NIC has cooled down.
pub fn relief(line: &str, dictionary: Option<&str>) -> Option<KernelEvent> {
    let origin = origin(line)?;
    let address = origin.address.as_deref();
    let loaded = PHRASES.loaded.get(origin.driver);
    // A dead device answers every read with ones.
    let is_alive = !origin.rest.contains(": 65535.65535.");
    let says =
        |phrases: &Vec<String>| is_alive && says_any(&origin.rest.to_ascii_lowercase(), phrases);
    let note = match origin.driver {
        _ if loaded.is_some_and(says) => Note::Loaded,
        "amdgpu" if is_reset(origin.rest) => Note::Loaded,
        driver => (is_nic(driver) && has_cooled(&origin)).then_some(Note::Cooled)?,
    };
    Some(event(note, origin.driver, address, dictionary, line))
}

/// Whether it came out of a reset, or its driver let it go, as before it is loaded again.
fn is_reset(gpu: &str) -> bool {
    gpu.contains("GPU reset(") && gpu.ends_with(") succeeded!")
        || gpu.ends_with("finishing device.")
}

fn has_cooled(origin: &MessageOrigin<'_>) -> bool {
    says_any(&origin.rest.to_ascii_lowercase(), &PHRASES.cooled)
}

/// Whether a word can be the name of a port's interface: not of one that joins others.
fn is_interface(word: &str) -> bool {
    const JOINED: [&str; 6] = ["bond", "team", "br", "veth", "virbr", "docker"];
    let numbered = word.bytes().any(|b| b.is_ascii_digit());
    let small = word.starts_with(|c: char| c.is_ascii_lowercase()) && word.len() <= 15;
    numbered && small && !JOINED.iter().any(|joined| word.starts_with(joined))
}

/// Decodes a message that carries a driver's prefix.
pub fn decode(
    origin: &MessageOrigin<'_>,
    dictionary: Option<&str>,
    message: &str,
) -> Option<KernelEvent> {
    let body = without_site(origin.rest).to_ascii_lowercase();
    let driver = origin.driver;
    let of = |note, address: Option<&str>| {
        let mut event = event(note, driver, address, dictionary, message);
        event.name = (origin.name.map(str::to_owned)).filter(|_| event.device.is_none());
        event
    };
    if let Some(note) = ib_core_link(origin.rest) {
        return Some(of(note, origin.address.as_deref()));
    }
    // mlx5's oldest lines name no driver, only the address.
    let nameless = driver.is_empty() && origin.address.is_some();
    let nic = is_nic(driver) || nameless;
    if start_failure(driver, nic, &body) {
        // The device is the one that the text names: `nvidia: probe of 0000:3b:00.0 failed`.
        let probed = without_site(origin.rest).strip_prefix("probe of ");
        let named = probed.and_then(take_address);
        let address = named.map(|(address, _)| address).or(origin.address.clone());
        let is_file = nic && says_any(&body, &PHRASES.firmware_files);
        let note = if is_file {
            Note::FirmwareFile
        } else {
            Note::Driver
        };
        return Some(of(note, address.as_deref()));
    }
    // Of one of bnxt's thresholds: a milder one may still be passed.
    if body.contains("gone below the ") {
        return None;
    }
    // Some lines name only one of mlx5's functions: `mlx5_port_module_event: `.
    let is_mlx5 = driver.is_empty() || driver.starts_with("mlx5_");
    let of_mlx5 = || PHRASES.drivers.get("mlx5_core").filter(|_| is_mlx5);
    let lists = PHRASES.drivers.get(driver).or_else(of_mlx5)?;
    let own = |list| first(PHRASES.notes.get(list)?, &body);
    let common = || {
        let stuck = origin.rest.starts_with("NETDEV WATCHDOG");
        let watchdog = stuck.then_some(Note::QueueTimeout);
        watchdog.or_else(|| link(&body)).filter(|_| nic)
    };
    let note = common()
        .or_else(|| lists.iter().find_map(own))
        .or_else(|| mlx5_command(driver, without_site(origin.rest)))?;
    Some(of(note, origin.address.as_deref()))
}

/// An event of a device: the one that the text names, or else of the record's dictionary.
fn event(
    note: Note,
    driver: &str,
    address: Option<&str>,
    dictionary: Option<&str>,
    message: &str,
) -> KernelEvent {
    let mut event = KernelEvent::new(KernelEventKind::Note(note), message);
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
    const WORDS: &str = "INFO|WARN|WARNING|ERR|ERROR|mlx5_pcie_event";
    let is_word = |(word, _): &(&str, &str)| WORDS.split('|').any(|known| known == *word);
    if let Some((_, rest)) = body.split_once(": ").filter(is_word) {
        body = rest;
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
    is_nic(driver).then(|| KernelEvent {
        name: Some(name.trim_end().to_owned()),
        ..event(Note::QueueTimeout, driver, None, dictionary, line)
    })
}

/// Probe, module loading and firmware loading that failed, of NICs and their auxiliary drivers
/// (`mlx5_core.rdma`, `ice.roce`) and of NVIDIA's modules.
fn start_failure(driver: &str, nic: bool, body: &str) -> bool {
    let base = driver.split_once('.').map(|(base, _)| base);
    let nic = nic || base.is_some_and(is_nic);
    let module = driver.starts_with("nvidia-nv");
    let gpu = matches!(driver, "nvidia" | "nvidia_uvm" | "nvidia-uvm" | "amdgpu");
    if !(nic || module || gpu) {
        return false;
    }
    says_any(body, &PHRASES.probe_failures)
        || says_any(body, &PHRASES.firmware_files)
        || says_any(body, &PHRASES.symbol_failures)
        || (nic && says_any(body, &PHRASES.start_failures))
        || (module && body.contains("failed") && !body.contains("taint"))
}
