//! GPUs that are on the bus and dead by their driver's own words, where NVIDIA's printed no Xid; and rails
//! that are off the bus and dead by theirs.

use super::without_driver::guessed_rails;
use crate::check::nic_kernel::failure;
use crate::check::profile::Profile;
use crate::check::xid_codes::{Disposition, Overrides, xid_ruling};
use crate::check::{Candidate, Context, ReasonDoc, driver_reload, expected::is_driven};
use crate::observe::kernel_log::{Seen, XidLog};
use crate::observe::{Note, PciFacts, Reading, gives_away};
use crate::units::{Bdf, DeviceKey};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// NVIDIA's driver says that it was loaded once it has probed every GPU, and before any can be opened
/// (`nv.c`, `nvidia_init_module`): what a probe prints this long before belongs to that load.
const PROBING: Duration = Duration::from_secs(30);

/// An Xid this near to the words without one says the same, if the GPU's place on the bus is what failed.
const NEAR: Duration = Duration::from_secs(60);

pub(super) fn gpus(context: &Context<'_>) -> Vec<Candidate> {
    let pci = context.pci();
    let mut found: Vec<Candidate> = Vec::new();
    for (address, log) in &context.history.kernel.devices {
        let slot = address.split('.').next().unwrap_or(address);
        let words = [Note::Driver, Note::GpuLost].into_iter();
        let Some((note, said)) = words
            .filter_map(|note| Some((note, log.notes.get(&note)?)))
            .filter(|(_, said)| is_of_gpu(&said.text))
            .max_by_key(|(_, said)| said.last)
        else {
            continue;
        };
        let gpu = pci.and_then(|pci| pci.gpus.iter().find(|gpu| gpu.slot() == slot));
        // AMD's for the display, or in the processor, are none of the node's.
        if gpu.is_none() && pci.is_some() && said.text.starts_with("amdgpu ") {
            continue;
        }
        let loaded = log.notes.get(&Note::Loaded);
        let loaded = loaded.is_some_and(|loaded| loaded.last >= said.last);
        if slot.is_empty()
            || loaded
            || is_over(context, slot, (note, said))
            || excused(context, gpu, said)
        {
            continue;
        }
        let subject = gpu.map_or_else(|| slot.to_string(), |gpu| gpu.to_string());
        if found.iter().any(|other| other.subject == subject) {
            continue;
        }
        let message = format!("{}: {}", context.gpu_name(&subject), said.text);
        let mut failed =
            context.candidate("GpuInitFailed", (format!("{slot} log"), subject), message);
        if note == Note::GpuLost {
            let off_bus = ReasonDoc::of("GpuFellOff");
            failed = failed.fix(off_bus.action, off_bus.remedy());
        }
        found.push(failed.with("address", slot).with("count", said.count));
    }
    found
}

/// NICs that nothing saw this boot but the kernel log, whose firmware failed, and that are off the bus now, where
/// rails are missing.
pub(super) fn nics(context: &Context<'_>) -> Vec<Candidate> {
    let Some(pci) = context.pci().filter(|_| !context.fewer_rails_are_excused()) else {
        return Vec::new();
    };
    let drivers: BTreeSet<&str> = context.rails().map(|rail| &*rail.device.driver).collect();
    let seen = &context.history.devices;
    let failed = context.history.kernel.devices.iter();
    let failed = failed.filter_map(|(address, log)| Some((address, failure(log)?)));
    let dead = failed.filter(|(address, said)| {
        let is_rails = drivers.iter().any(|driver| said.text.starts_with(driver));
        is_rails
            && is_off_bus(context, pci, address)
            && !seen.contains_key(&DeviceKey((*address).clone()))
    });
    let dead: Vec<(&String, &Seen)> = dead.collect();
    let are_rails = fewer_by(context, pci, dead.len());
    let dead = dead.into_iter().filter(|_| are_rails);
    let found = dead.map(|(address, said)| {
        let message = format!("{address} is not on the PCI bus, and failed: {}", said.text);
        let about = (format!("{address} log"), address.as_str());
        let found = context.candidate("NicFellOff", about, message);
        (found.with("address", address.as_str())).with("count", said.count)
    });
    found.collect()
}

/// Whether a NIC left the bus: a virtual function that did has its card there, as has a card's second port, which
/// other rails are, too.
fn is_off_bus(context: &Context<'_>, pci: &PciFacts, address: &str) -> bool {
    let (functions, bare, sriov) = (pci.functions.keys(), pci.bare.keys(), pci.sriov.keys());
    let mut known = functions.chain(bare).chain(sriov);
    let bus = address.rsplit_once(':').map_or(address, |(bus, _)| bus);
    if known.clone().all(|own| !own.starts_with(bus)) {
        return true;
    }
    let function = |address: &str| address.parse::<Bdf>().ok().map(|address| address.function);
    let mut rails = (context.rails()).filter(|rail| rail.device.function.is_whole());
    let is_port = |own: Bdf| Some(own.function) == function(address);
    known.all(|own| own != address) && rails.any(|rail| rail.device.pci.is_some_and(is_port))
}

/// Whether rails are missing that these NICs may be: fewer than the machine's shape has, or else than would be as
/// many for each GPU.
fn fewer_by(context: &Context<'_>, pci: &PciFacts, dead: usize) -> bool {
    let rails = rails_of_most(context) + guessed_rails(context);
    let gpus = pci.gpus.len();
    let fits =
        |rails: usize| rails > 0 && (rails.is_multiple_of(gpus) || gpus.is_multiple_of(rails));
    match context.profile.and_then(Profile::rails_on_bus) {
        Some(of_shape) => rails < of_shape,
        None => gpus > 0 && !fits(rails) && fits(rails + dead),
    }
}

/// How many rails are of the model that most are of: another one may stand in for a rail that is gone.
fn rails_of_most(context: &Context<'_>) -> usize {
    let mut models: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for rail in context.rails() {
        *models.entry(rail.device.pci_id.as_deref()).or_default() += 1;
    }
    models.into_values().max().unwrap_or(0)
}

/// Whether NVIDIA's driver says it, or AMD's of a GPU that did not come out of its reset.
fn is_of_gpu(text: &str) -> bool {
    let of_amd = ["reset", "GPU Recovery", "lost from bus"];
    let amd = text.starts_with("amdgpu ") && of_amd.iter().any(|words| text.contains(words));
    amd || text.starts_with("NVRM: ") || text.starts_with("nvidia")
}

/// Whether the driver was loaded again since, took its verdict on the GPU back, or printed an Xid for
/// the same fault, which is judged as such.
fn is_over(context: &Context<'_>, slot: &str, (note, said): (Note, &Seen)) -> bool {
    let says = |words| said.text.contains(words);
    let probed = note == Note::Driver && !says(" RmInitAdapter") && !says("rm_init_adapter");
    let before = if probed { PROBING } else { Duration::ZERO };
    if driver_reload::loaded(context).is_some_and(|loaded| loaded.since(said.last) > before) {
        return true;
    }
    context.history.kernel.gpus.get(slot).is_some_and(|gpu| {
        // Of the table alone: the operator's override decides what the Xid itself does.
        let says_it = |(code, xid): (&u32, &XidLog)| {
            let ruling = xid_ruling(*code, &xid.detail, &Overrides::new());
            let is_fatal = ruling.disposition == Disposition::Fatal && ruling.class == "pcie";
            is_fatal && xid.seen.last.apart(said.last) <= NEAR
        };
        gpu.cleared.is_some_and(|cleared| cleared > said.last)
            || (note == Note::GpuLost && gpu.xids.iter().any(says_it))
    })
}

/// Whether the GPU was given away, does not answer (a finding of its own), or was probed later all the
/// same. An adapter that cannot be initialised stays bound.
fn excused(context: &Context<'_>, gpu: Option<&Bdf>, said: &Seen) -> bool {
    let (Some(pci), Some(gpu)) = (context.pci(), gpu.map(ToString::to_string)) else {
        return false;
    };
    let function = pci.functions.get(&gpu);
    let away = function.and_then(|function| function.driver.as_deref());
    let dead = function.is_some_and(|function| function.config_dead == Reading::Value(true));
    let listed = (context.gpudirect()).is_some_and(|facts| facts.lists(&gpu));
    // syslog splits the report on a probe: its last line stands for it.
    let words = ["probe", "NVIDIA GPU", "is not responding to commands"];
    let probing = words.iter().any(|words| said.text.contains(words));
    gives_away(away) || dead || (probing && listed && is_driven(pci, &gpu))
}

#[cfg(test)]
mod tests {
    use super::super::CHECK;
    use crate::check::testing::{Node, gpu, listed};
    use crate::observe::{KernelEvent, KernelEventKind, Note, RecoveryAction, Xid};

    fn slot() -> String {
        gpu(0).trim_end_matches(".0").to_string()
    }

    fn said(note: Note, text: &str) -> KernelEvent {
        KernelEvent::new(KernelEventKind::Note(note), text).of_slot(Some(slot()))
    }

    #[test]
    fn a_reset_of_amds_that_failed() {
        use crate::source::kernel_log::{decode, silent};
        let want = format!("{} GpuInitFailed Failing Verdict", gpu(0));
        let mut node = Node::infiniband();
        for (words, fails) in [
            ("Direct firmware load for amdgpu/x.bin failed", false),
            ("amdgpu: GPU Recovery Failed: -62", true),
            ("amdgpu: GPU reset(2) succeeded!", false),
            ("amdgpu: GPU reset(3) failed", true),
            ("amdgpu: finishing device.", false),
            (
                "amdgpu: ASIC reset failed with error, -62 for drm dev",
                true,
            ),
        ] {
            let text = format!("amdgpu {}: {words}", gpu(0));
            let event = decode(&text, None).or_else(|| silent(&text, None));
            node.tick(1);
            node.history.push_event(node.now, false, &event.unwrap());
            assert_eq!(node.told(&CHECK).contains(&want), fails, "{words}");
        }
        let display = decode("amdgpu 0000:c1:00.0: amdgpu: GPU reset(1) failed", None);
        let before = node.told(&CHECK);
        node.history.push_event(node.now, false, &display.unwrap());
        assert_eq!(node.told(&CHECK), before, "no GPU of the node");
    }

    #[test]
    fn words_without_an_xid() {
        let want = format!("{} GpuInitFailed Failing Verdict", gpu(0));
        let adapter = said(
            Note::Driver,
            "NVRM: GPU x: RmInitAdapter failed! (0x24:0x72:1568)",
        );
        let lost = said(Note::GpuLost, "NVRM: GPU x: GPU has fallen off the bus.");
        // Of a GPU that was probed after all.
        let split = said(
            Note::Driver,
            "NVRM: fallen off the bus and is not responding to commands.",
        );
        let loaded = KernelEvent::new(KernelEventKind::DriverLoaded, "NVRM: loading");
        let [xid, of_a_program, of_memory] = [79, 31, 48].map(|code| {
            let xid = Xid {
                code,
                ..Xid::default()
            };
            KernelEvent::new(KernelEventKind::Xid(xid), "NVRM: Xid").of_slot(Some(slot()))
        });
        let probe = said(
            Note::Driver,
            "NVRM: request_mem_region failed for 64M @ 0x0",
        );
        let mut taken_back = Xid::default();
        taken_back.detail.recovery = Some((RecoveryAction::None, RecoveryAction::None));
        let taken_back =
            KernelEvent::new(KernelEventKind::Xid(taken_back), "NVRM: Xid").of_slot(Some(slot()));
        let nic = said(Note::Driver, "mlx5_core x: probe failed");
        let mut undriven = Node::infiniband();
        for i in 0..8 {
            let driver = (i != 0).then(|| "nvidia".to_string());
            undriven.bend_pci(&gpu(i), |function| function.driver = driver);
        }
        let without_log = format!("{} GpuNotDriven Failing Verdict", gpu(0));
        assert_eq!(undriven.told(&CHECK), [without_log]);
        undriven.history.push_event(undriven.now, false, &adapter);
        assert_eq!(undriven.told(&CHECK).join(" "), want, "the log says why");
        for (driver, fails) in [(Some("nvidia"), false), (None, true)] {
            let mut node = Node::infiniband();
            node.bend_gpudirect(|facts| facts.gpus = vec![listed(gpu(0))]);
            node.bend_pci(&gpu(0), |function| function.driver = driver.map(Into::into));
            node.history.push_event(node.now, false, &split);
            assert_eq!(node.told(&CHECK).contains(&want), fails, "{driver:?}");
        }
        for (events, fails) in [
            (vec![&adapter], true),
            (vec![&lost], true),
            // The driver prints that it was loaded after it probed, and before a GPU is opened.
            (vec![&probe, &loaded], true),
            (vec![&adapter, &loaded], false),
            (vec![&lost, &loaded], false),
            (vec![&lost, &xid], false),
            (vec![&of_a_program, &lost], true),
            (vec![&of_memory, &lost], true),
            (vec![&adapter, &xid], true),
            (vec![&adapter, &taken_back], false),
            (vec![&nic], false),
        ] {
            let mut node = Node::infiniband();
            for event in &events {
                node.history.push_event(node.now, false, event);
                node.tick(1);
            }
            let found = node.told(&CHECK).contains(&want);
            assert_eq!(found, fails, "{events:?}");
            node.tick(60);
            node.history.push_event(node.now, false, &loaded);
            assert!(!node.told(&CHECK).contains(&want), "{events:?}");
        }
    }
}
