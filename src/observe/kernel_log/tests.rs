use super::super::history::{History, Memory};
use super::super::snapshot::Snapshot;
use super::*;

fn xid(code: u32, slot: &str) -> KernelEvent {
    with_detail(code, slot, XidDetail::default())
}

fn with_detail(code: u32, slot: &str, detail: XidDetail) -> KernelEvent {
    let what = KernelEventKind::Xid(Xid {
        code,
        detail,
        ..Xid::default()
    });
    KernelEvent::new(what, "NVRM: Xid …").of_slot(Some(slot.into()))
}

fn seen(history: &History, address: &str, note: Note) -> bool {
    let device = history.kernel.devices.get(address);
    device.is_some_and(|device| device.notes.contains_key(&note))
}

fn boot(id: &str, at: u64) -> Snapshot {
    Snapshot {
        boot_id: Some(id.into()),
        at: Millis::from_secs(at),
        ..Snapshot::default()
    }
}

#[test]
fn floods_are_folded_and_counted() {
    let mut history = History::default();
    for i in 0..800_000u64 {
        history.push_event(Millis(i), false, &xid(95, "0000:17:00"));
    }
    let log = &history.kernel.gpus["0000:17:00"].xids[&95];
    assert_eq!(log.seen.count, 800_000);
    assert_eq!(log.seen.times.len(), MAX_TIMES);
    assert_eq!(log.seen.since(Millis(799_990)), 10);
    assert_eq!(history.totals.xids["0000:17:00"][&95], 800_000);
}

#[test]
fn devices_and_codes_are_bounded() {
    let mut history = History::default();
    for slot in 0..MAX_DEVICES + 72 {
        for code in 0..300 {
            history.push_event(Millis(1), false, &xid(code, &format!("{slot}")));
        }
    }
    assert_eq!(history.kernel.gpus.len(), MAX_DEVICES);
    assert!(
        history
            .kernel
            .gpus
            .values()
            .all(|gpu| gpu.xids.len() == MAX_CODES)
    );
}

#[test]
fn edges_of_many_functions_do_not_crowd_out_a_fault() {
    let slot = |i: u32| format!("0000:{:02x}:{:02x}", i / 32, i % 32);
    let event = |note, i| {
        KernelEvent::new(KernelEventKind::Note(note), "mlx5_core said so").of_slot(Some(slot(i)))
    };
    let mut history = History::default();
    history.push_event(Millis(0), false, &event(Note::Temperature, 0));
    for i in 1..1000 {
        let at = Millis(u64::from(i));
        let note = [Note::LinkUp, Note::Loaded, Note::Cooled][i as usize % 3];
        history.push_event(at, false, &event(note, i));
    }
    history.push_event(Millis(2000), false, &event(Note::Power, 5000));
    assert!(seen(&history, &slot(5000), Note::Power));
    assert!(
        seen(&history, &slot(0), Note::Temperature),
        "what stands stays"
    );
    assert_eq!(history.kernel.devices.len(), MAX_DEVICES);
    assert!(history.totals.nic_events.len() <= MAX_DEVICES);
}

#[test]
fn faults_of_many_functions_make_room_for_a_later_one() {
    let slot = |i: u32| format!("0000:{:02x}:{:02x}", i / 32, i % 32);
    let mut history = History::default();
    let event = KernelEvent::new(KernelEventKind::Note(Note::HeartbeatLost), "compromised");
    let event = event.of_slot(Some(slot(5000)));
    history.push_event(Millis(0), false, &event);
    for i in 0..1000 {
        let event = KernelEvent::new(KernelEventKind::Note(Note::Driver), "probe failed");
        let event = event.of_slot(Some(slot(i)));
        history.push_event(Millis(u64::from(i)), false, &event);
        assert!(seen(&history, &slot(i), Note::Driver), "{i}");
    }
    assert!(seen(&history, &slot(999 - 500), Note::Driver));
    assert!(
        seen(&history, &slot(5000), Note::HeartbeatLost),
        "a NIC that failed stays"
    );
    assert_eq!(history.kernel.devices.len(), MAX_DEVICES);
}

#[test]
fn a_restart_keeps_what_stands_and_a_reboot_does_not() {
    // Of a GPU, a switch and a NIC.
    let severity = Some(Severity::Fatal);
    let sxid = Sxid {
        code: 12028,
        severity,
    };
    let of_each = |bus: &str| {
        let what = [
            xid(79, &format!("0000:{bus}:00")),
            KernelEvent::new(KernelEventKind::Sxid(sxid.clone()), "SXid …")
                .of_slot(Some(format!("0000:{bus}:01"))),
            KernelEvent::new(KernelEventKind::Note(Note::Power), "mlx5_core said so")
                .of_slot(Some(format!("0000:{bus}:02"))),
        ];
        what.into_iter()
    };
    let seen = |history: &History| -> Vec<String> {
        let log = &history.kernel;
        let devices = (log.gpus.keys())
            .chain(log.switches.keys())
            .chain(log.devices.keys());
        devices.cloned().collect()
    };
    let mut history = History::default();
    history.push(&boot("a", 1));
    of_each("17").for_each(|event| history.push_event(Millis::from_secs(2), false, &event));
    let memory = history.memory();
    let text = serde_json::to_string(&memory).unwrap();
    let memory: Memory = serde_json::from_str(&text).unwrap();

    let mut same = History::restore(memory.clone());
    same.push(&boot("a", 3));
    assert_eq!(seen(&same), ["0000:17:00", "0000:17:01", "0000:17:02"]);
    assert_eq!(same.kernel.gpus["0000:17:00"].xids[&79].seen.count, 1);
    assert!(same.totals.xids.is_empty());

    // The follower may deliver what the new boot logged before the first snapshot is taken.
    let mut other = History::restore(memory);
    of_each("3d").for_each(|event| other.push_event(Millis::from_secs(1), true, &event));
    other.push(&boot("b", 3));
    assert_eq!(seen(&other), ["0000:3d:00", "0000:3d:01", "0000:3d:02"]);
    assert_eq!(other.totals.xids.len(), 1);
}

#[test]
fn functions_of_one_card_are_told_apart() {
    let mut history = History::default();
    let mut event = KernelEvent::new(KernelEventKind::Note(Note::CableUnplugged), "unplugged");
    event.pci = Some("0000:5e:00".into());
    event.device = Some("mlx5_core 0000:5e:00.1".into());
    history.push_event(Millis(1), false, &event);
    assert!(seen(&history, "0000:5e:00.1", Note::CableUnplugged));
    assert_eq!(
        history.totals.nic_events["0000:5e:00.1"]["nic_cable_unplugged"],
        1
    );
}

#[test]
fn the_worst_of_repeats_stays() {
    let with = |severity, words: &[u32]| {
        let words = words.to_vec();
        let nvlink = NvLink { severity, words };
        let detail = XidDetail {
            nvlink: Some(nvlink),
            ..XidDetail::default()
        };
        with_detail(145, "0000:17:00", detail)
    };
    let mut history = History::default();
    let nvlink = |history: &History| {
        let gpu = &history.kernel.gpus["0000:17:00"];
        gpu.xids[&145].detail.nvlink.clone()
    };
    let (fatal, nonfatal) = (Some(Severity::Fatal), Some(Severity::Nonfatal));
    history.push_event(Millis(1), false, &with(fatal, &[1, 2]));
    history.push_event(Millis(2), false, &with(nonfatal, &[4]));
    let kept = nvlink(&history).unwrap();
    assert_eq!((kept.severity, kept.words), (fatal, vec![5]));
    // A cut line has no word, and may have been fatal.
    let cut = xid(145, "0000:17:00");
    let [fatal_one, nonfatal_one] = [fatal, nonfatal].map(|word| with(word, &[4]));
    for (events, want) in [
        ([&cut, &nonfatal_one], None),
        ([&nonfatal_one, &cut], None),
        ([&cut, &fatal_one], fatal),
        ([&fatal_one, &cut], fatal),
        ([&nonfatal_one, &nonfatal_one], nonfatal),
        ([&nonfatal_one, &fatal_one], fatal),
    ] {
        let mut history = History::default();
        for event in events {
            history.push_event(Millis(1), false, event);
        }
        assert_eq!(nvlink(&history).and_then(|kept| kept.severity), want);
    }
}
