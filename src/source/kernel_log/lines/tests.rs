use super::*;
use proptest::prelude::*;

fn lines(text: &str) -> SyslogLines<'_> {
    SyslogLines::parse(text.as_bytes()).unwrap()
}

/// All messages: facility, stamp, text.
fn told(text: &str) -> Vec<(u32, u64, String)> {
    let messages = lines(text).messages(0, 0);
    let told = |m: SyslogMessage| (m.priority >> 3, m.ts_us, m.text);
    messages.into_iter().map(told).collect()
}

fn texts(text: &str) -> Vec<String> {
    told(text).into_iter().map(|(_, _, text)| text).collect()
}

#[test]
fn prefixes() {
    for (line, want) in [
        ("<5>[    0.000000] a", Some((0, 0, "a"))),
        (
            "<3>[ 2789.887411] NVRM: x",
            Some((0, 2_789_887_411, "NVRM: x")),
        ),
        ("<4>[12345678.000001] a", Some((0, 12_345_678_000_001, "a"))),
        // CONFIG_PRINTK_CALLER.
        ("<6>[    1.000002][    T1] a", Some((0, 1_000_002, "a"))),
        ("<6>[    1.000002][T12345] a", Some((0, 1_000_002, "a"))),
        ("<6>[    1.000002][   C10] a", Some((0, 1_000_002, "a"))),
        // The text's own.
        ("<6>[    1.000002] [T1] a", Some((0, 1_000_002, "[T1] a"))),
        ("<6>[    1.000002] ", Some((0, 1_000_002, ""))),
        (
            "<6>[    1.000002]   indented",
            Some((0, 1_000_002, "  indented")),
        ),
        // User space, by /dev/kmsg and of a daemon.
        ("<12>[    1.000002] a", Some((1, 1_000_002, "a"))),
        ("<30>[    1.000002] a", Some((3, 1_000_002, "a"))),
        // Torn, or something else.
        ("", None),
        ("[    1.000002] a", None),
        ("6>[    1.000002] a", None),
        ("<6>[    1.00000] a", None),
        ("<6>[    1.000002]a", None),
        ("<6>[    1.000002][T1", None),
        ("<6>[    -1.000002] a", None),
        ("<6>[ ", None),
        ("<+6>[    1.000002] a", None),
        ("<>[    1.000002] a", None),
        ("<99999999999>[    1.000002] a", None),
        ("<6>[99999999999999999999.000002] a", None),
        ("<6>[18446744073709551615.000002] a", None),
    ] {
        let got = told(&format!("<6>[    0.000000] sound\n{line}\n"));
        let got: Vec<_> = got.iter().skip(1).map(|(f, t, s)| (*f, *t, &**s)).collect();
        assert_eq!(got, Vec::from_iter(want), "{line:?}");
    }
}

#[test]
fn a_log_without_stamps_is_refused() {
    for text in ["<6>a\n<6>b\n", "<6>a\n", "torn\n<30>a [    1.000002] b\n"] {
        assert_eq!(
            SyslogLines::parse(text.as_bytes()).err(),
            Some(Unstamped),
            "{text:?}"
        );
    }
    // Nothing, and what says nothing either way.
    for text in ["", "\n", "torn\n", "\0\u{fffd}\n", "no end"] {
        assert!(
            SyslogLines::parse(text.as_bytes())
                .unwrap()
                .lines
                .is_empty(),
            "{text:?}"
        );
    }
    // One line that is torn does not make the log one without stamps.
    assert_eq!(
        texts("<6>[    1.000002] a\n<6>[    1.0\n<6>[    1.000003] b\n"),
        ["a", "b"]
    );
}

#[test]
fn torn_ends_and_junk_are_passed_over() {
    let text = b"GPU has fallen off\n<6>[    1.000001] a\n\xff\xfe\0<6>\n<6>[    1.000002] b\xff\n<6>[    1.000003] c";
    let lines = SyslogLines::parse(text).unwrap();
    let messages = lines.messages(0, 0);
    let texts: Vec<&str> = messages.iter().map(|m| &*m.text).collect();
    assert_eq!(texts, ["a", "b\u{fffd}"]);
}

#[test]
fn lines_of_one_record_are_one_message() {
    let probe = "<3>[    5.000001] NVRM: The NVIDIA GPU 0000:17:00.0\n\
                 <3>[    5.000001] NVRM: (PCI ID: 10de:2330) installed in this system has\n\
                 <3>[    5.000001] NVRM: fallen off the bus and is not responding to commands.\n";
    let got = texts(probe);
    assert_eq!(got.len(), 1);
    let event = decode(&got[0], None).unwrap();
    assert_eq!(event.pci.as_deref(), Some("0000:17:00"));
    // Other stamp, other level, other speaker: another record.
    for other in ["<3>[    5.000002] b", "<4>[    5.000001] b"] {
        assert_eq!(
            texts(&format!("<3>[    5.000001] a\n{other}\n")),
            ["a", "b"]
        );
    }
    let callers = "<3>[    5.000001][    T1] a\n<3>[    5.000001][    T2] b\n";
    assert_eq!(texts(callers), ["a", "b"]);
}

#[test]
fn a_message_in_the_devices_form_reads_the_same() {
    let text = "<3>[    5.000001] NVRM: \\ caf\u{e9}\n<3>[    5.000001] b\n";
    let messages = lines(text).messages(0, 0);
    let raw = raw_record(
        messages[0].priority,
        (7, messages[0].ts_us),
        &messages[0].text,
    );
    assert_eq!(raw.lines().count(), 1);
    let record = super::super::record::parse(&raw).unwrap();
    assert_eq!(
        (record.facility, record.seq, record.ts_us),
        (0, 7, 5_000_001)
    );
    assert_eq!(record.text, messages[0].text);
}

#[test]
fn what_a_user_named_is_no_line_of_the_kernel() {
    // mount(2) in a user namespace: the path is the caller's, with its line breaks.
    for forged in [
        "<3>[    5.000001] overlayfs: failed to resolve '/x\n\
         <3>[    5.000001] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.': -2\n",
        // A process name has 15 bytes.
        "<6>[    5.000001] NVRM:\n<6>[    5.000001] NVRM: Xid 79,[7]: segfault at 0\n",
        "<6>[    5.000001] \n<6>[    5.000001] NVRM: Xid (PCI:0000:17:00): 79, x\n",
    ] {
        let got = texts(forged);
        assert_eq!(got.len(), 1, "{got:?}");
        assert_eq!(decode(&got[0], None), None, "{got:?}");
    }
}

#[test]
fn reports_of_several_devices_within_a_microsecond_all_count() {
    let burst = "<3>[    5.000001] NVRM: Xid (PCI:0000:17:00): 79, x\n\
                 <3>[    5.000001] NVRM: Xid (PCI:0000:3b:00): 79, x\n\
                 <3>[    5.000001] NVRM: Xid (PCI:0000:3b:00): 79, x\n";
    let codes = texts(burst).iter().filter_map(|t| decode(t, None)).count();
    assert_eq!(codes, 3);
    let uuid_first = "<3>[    5.000001] NVRM: GPU at PCI:0000:17:00: GPU-abc\n\
                      <3>[    5.000001] NVRM: Xid (PCI:0000:17:00): 79, x\n";
    assert_eq!(texts(uuid_first).len(), 2);
}

/// The place behind a line of a text.
fn place(text: &str, line: usize) -> Position {
    let part: Vec<&str> = text.lines().take(line).collect();
    let part = part.join("\n") + "\n";
    let messages = lines(&part).messages(0, 0);
    messages.last().unwrap().place
}

#[test]
fn a_place_is_found_again() {
    let a = "<6>[    1.000001] a";
    let b = "<6>[    1.000001] b";
    let c = "<6>[    2.000001] a";
    // Stamps need not rise: the processors' clocks are read before the ring is.
    let early = "<6>[    1.000000] e";
    let log = [a, b, c, early, c].join("\n") + "\n";
    for (until, now, all, want) in [
        (1, vec![a, b, c], false, Some(1)),
        (2, vec![a, b, c], false, Some(2)),
        (3, vec![a, b, c], true, Some(3)),
        // The ring went on, and dropped older lines.
        (2, vec![b, c, c], false, Some(1)),
        (2, vec![b], false, Some(1)),
        (4, vec![c, early, c], false, Some(2)),
        // The second of two equal lines, the first still there.
        (5, vec![c, early, c, a], false, Some(3)),
        // The first has gone: certain only where nothing was left out of the text.
        (5, vec![early, c, a], false, None),
        (5, vec![early, c, a], true, Some(2)),
        // Gone: overwritten or cleared.
        (2, vec![c, early], true, None),
        (2, vec![a], true, None),
        (2, vec![], true, None),
    ] {
        let place = place(&log, until);
        let now = now
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>();
        assert_eq!(
            lines(&now).after(&place, all),
            want,
            "{until} {now:?} {all}"
        );
    }
}

#[test]
fn a_place_of_the_device_is_found_by_its_stamp() {
    let log = "<6>[    1.000001] a\n<6>[    2.000001] b\n<6>[    2.000003] c\n";
    for (ts_us, want) in [
        (2_000_001, Some(2)),
        (2_000_002, Some(2)),
        (9_000_000, Some(3)),
        (1_000_000, None),
    ] {
        let place = Position::numbered(7, ts_us);
        assert_eq!(lines(log).after(&place, true), want, "{ts_us}");
    }
    let nothing = Position::default();
    assert_eq!(lines(log).after(&nothing, true), Some(0));
    assert_eq!(lines(log).after(&nothing, false), None);
}

#[test]
fn marks_stay_the_same_from_build_to_build() {
    let place = place("<6>[    1.000001] a\n<6>[    1.000001] a\n", 2);
    let want = LineMark {
        hash: 0xa8d2_9dab_1092_c958,
        count: 2,
    };
    assert_eq!(place.last_line, Some(want));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), from in 0usize..9, floor in any::<u64>()) {
        let place = Position::marked(LineMark { hash: 1, count: 0 }, 0);
        if let Ok(lines) = SyslogLines::parse(&bytes) {
            let _ = lines.messages(from, floor);
            let _ = lines.after(&place, true);
        }
    }

    #[test]
    fn no_near_line_panics(text in "(<[0-9]{0,12}>?\\[? {0,3}[0-9]{0,21}\\.?[0-9]{0,7}\\]?(\\[[TC ]?[0-9]{0,4}\\]?)? ?(NVRM: )?.{0,6}\n?){0,8}") {
        if let Ok(lines) = SyslogLines::parse(text.as_bytes()) {
            let messages = lines.messages(0, 0);
            // What was just read is behind its own end.
            if let Some(last) = messages.last() {
                prop_assert_eq!(lines.after(&last.place, true), Some(lines.lines.len()));
            }
        }
    }
}
