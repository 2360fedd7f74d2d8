//! Lines to events where one record is more than one line of a file: dictionary lines behind a raw
//! record, the GPU driver's report of a GPU lost at probe, which syslog splits in three, and entries
//! of the journal with a field a line.

use crate::observe::{KernelEvent, KernelEventKind};

use super::{decode, gpu, record, wrapper};

/// Lines after the report's first in which its verdict may still come.
pub(super) const REPORT_REACH: u8 = 8;

/// Joins lines; keeps at most one record and one report open.
#[derive(Debug, Default)]
pub struct Assembler {
    lines: wrapper::Stripper,
    /// An event whose record's dictionary may still name the device, its text and its line.
    waiting: Option<(KernelEvent, String, String)>,
    report: Option<ProbeReport>,
}

#[derive(Debug)]
struct ProbeReport {
    pci: String,
    /// The lines so far, as read.
    lines: String,
    left: u8,
}

impl Assembler {
    /// Takes the next line; `emit` gets each event with the line (or joined lines) it came from.
    pub fn feed(&mut self, line: &str, emit: &mut impl FnMut(&KernelEvent, &str)) {
        if self.waiting.is_some() {
            if record::is_dictionary_line(line) {
                self.dictionary(line);
                return;
            }
            self.finish(emit);
        }
        let Some(stripped) = self.lines.strip(line) else {
            return;
        };
        let text = &*stripped.text;
        if self.report.is_some() && self.continue_report(text, line, emit) {
            return;
        }
        match decode(text, stripped.device.as_deref()) {
            Some(event)
                if stripped.raw_record
                    && event.pci.is_none()
                    && !matches!(event.what, KernelEventKind::Xid(_)) =>
            {
                self.waiting = Some((event, text.to_owned(), line.to_owned()));
            }
            Some(event) => emit(&event, line),
            None => {
                if let Some(pci) = gpu::probe_report_start(text) {
                    let (lines, left) = (line.to_owned(), REPORT_REACH);
                    self.report = Some(ProbeReport { pci, lines, left });
                }
            }
        }
    }

    /// Emits what still waits; call at the end of input.
    pub fn finish(&mut self, emit: &mut impl FnMut(&KernelEvent, &str)) {
        if let Some((event, _, line)) = self.waiting.take() {
            emit(&event, &line);
        }
    }

    /// Decodes the waiting record again, now with the device from its dictionary.
    fn dictionary(&mut self, line: &str) {
        if let Some(device) = record::dictionary_device(line)
            && let Some((event, text, _)) = &mut self.waiting
            && let Some(located) = decode(text, Some(&device))
        {
            *event = located;
        }
    }

    /// Whether the line belongs to the open report.
    fn continue_report(
        &mut self,
        text: &str,
        line: &str,
        emit: &mut impl FnMut(&KernelEvent, &str),
    ) -> bool {
        let Some(mut report) = self.report.take() else {
            return false;
        };
        // A continuation line of one printk carries no stamp of its own, only blanks.
        let same_print = line.starts_with(' ');
        if same_print && report.lines.len() < 4096 {
            report.lines = format!("{}\n{line}", report.lines);
        }
        let verdict = text.trim_start().strip_prefix("NVRM: ");
        let verdict = verdict.is_some_and(gpu::probe_verdict);
        if verdict && let Some(mut event) = decode(text, None) {
            event.pci = Some(report.pci);
            emit(&event, if same_print { &report.lines } else { line });
            return true;
        }
        report.left -= 1;
        if report.left > 0 {
            self.report = Some(report);
        }
        same_print || text.starts_with("NVRM: (PCI ID:")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lines: &[&str]) -> Vec<(String, Option<String>, Option<String>, String)> {
        let mut out = Vec::new();
        let mut emit = |e: &KernelEvent, line: &str| {
            out.push((
                e.what.name().to_owned(),
                e.pci.clone(),
                e.device.clone(),
                line.to_owned(),
            ));
        };
        let mut a = Assembler::default();
        for line in lines {
            a.feed(line, &mut emit);
        }
        a.finish(&mut emit);
        out
    }

    #[test]
    fn the_dictionary_names_a_device_that_the_text_does_not() {
        let record = "4,9,1,-;mlx5_core: Port module event: module 0, Cable unplugged";
        let got = run(&[
            record,
            " SUBSYSTEM=pci",
            " DEVICE=+pci:0000:5c:00.1",
            "6,10,2,-;test",
        ]);
        assert_eq!(
            got,
            vec![(
                "nic_cable_unplugged".to_owned(),
                Some("0000:5c:00".to_owned()),
                Some("mlx5_core 0000:5c:00.1".to_owned()),
                record.to_owned()
            )]
        );
        // The next record's dictionary is not ours.
        let got = run(&[record, "6,10,2,-;test", " DEVICE=+pci:0000:5c:00.1"]);
        assert_eq!((got.len(), got[0].1.clone()), (1, None));
        assert_eq!(run(&[record]).len(), 1);
    }

    #[test]
    fn a_report_split_in_three_is_one_event_with_its_gpu() {
        let stamped = [
            "Jan  3 07:39:45 n kernel: [1.1] NVRM: The NVIDIA GPU 0000:5d:00.0",
            "Jan  3 07:39:45 n kernel: [1.1] NVRM: (PCI ID: 10de:2330) installed in this system has",
            "Jan  3 07:39:45 n kernel: [1.1] NVRM: fallen off the bus and is not responding to commands.",
        ];
        let got = run(&stamped);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].0, "driver");
        assert_eq!(got[0].1.as_deref(), Some("0000:5d:00"));
        assert_eq!(got[0].3, stamped[2]);
        let dmesg = [
            "[1.1] NVRM: The NVIDIA GPU 0000:5d:00.0",
            "      NVRM: (PCI ID: 10de:2330) installed in this system has",
            "      NVRM: fallen off the bus and is not responding to commands.",
        ];
        let got = run(&dmesg);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].3, dmesg.join("\n"));
        // Far away from its first line the verdict stands alone.
        let mut far = vec![stamped[0]];
        far.extend(["[1.2] other"; 8]);
        far.push(stamped[2]);
        assert_eq!(run(&far)[0].1, None);
    }

    #[test]
    fn another_event_inside_a_report_is_not_lost() {
        let got = run(&[
            "[1.1] NVRM: The NVIDIA GPU 0000:5d:00.0",
            "[1.1] mlx5_core 0000:53:00.0 eth0: Link down",
            "[1.1] NVRM: fallen off the bus and is not responding to commands.",
        ]);
        let kinds: Vec<_> = got.iter().map(|g| g.0.as_str()).collect();
        assert_eq!(kinds, ["nic_link_down", "driver"]);
    }

    #[test]
    fn entries_of_the_journal_say_who_speaks() {
        let message = "MESSAGE=NVRM: Xid (PCI:0000:3b:00): 79, x";
        for (before, events) in [
            (&["__CURSOR=s=1", "_TRANSPORT=kernel"][..], 1),
            (&["__CURSOR=s=1", "_TRANSPORT=syslog"], 0),
            (&["SYSLOG_FACILITY=1", "_TRANSPORT=kernel"], 0),
            (&["_TRANSPORT=syslog", "", "_TRANSPORT=kernel"], 1),
            (&["_TRANSPORT=syslog", "__CURSOR=s=2"], 1),
            (&[], 1),
        ] {
            let lines = [before, &[message]].concat();
            assert_eq!(run(&lines).len(), events, "{before:?}");
        }
        // `journalctl -o json-pretty`.
        let message = "\t\"MESSAGE\" : \"NVRM: Xid (PCI:0000:3b:00): 79, x=1\",";
        let [kernel, syslog] =
            ["kernel", "syslog"].map(|of| format!("\t\"_TRANSPORT\" : \"{of}\","));
        for (before, events) in [
            (&["{", &kernel][..], 1),
            (&["{", &syslog], 0),
            (&["{", &syslog, "}", "{", &kernel], 1),
        ] {
            let lines = [before, &[message]].concat();
            assert_eq!(run(&lines).len(), events, "{before:?}");
        }
        // `dmesg -J`, of which `--decode` writes words.
        let message = r#"  "msg": "NVRM: Xid (PCI:0000:3b:00): 79, x""#;
        for (before, events) in [
            (&[r#"  "pri": 3,"#][..], 1),
            (&[r#"  "pri": 14,"#], 0),
            (&[r#"  "fac": "kern","#, r#"  "pri": "err","#], 1),
            (&[r#"  "fac": "user","#, r#"  "pri": "err","#], 0),
            (&[r#"  "fac": "user","#, " }, {", r#"  "fac": "kern","#], 1),
        ] {
            let lines = [before, &[message]].concat();
            assert_eq!(run(&lines).len(), events, "{before:?}");
        }
    }
}
