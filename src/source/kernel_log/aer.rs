//! PCIe error reports (`drivers/pci/pcie/aer.c`, `dpc.c`, `drivers/acpi/apei/ghes.c`).
//!
//! One report prints several lines; the heading lines are events, the lines that name the device's
//! ids, bits and TLP header are not.

use crate::observe::{KernelEvent, KernelEventKind, Note};

use super::text::{MessageOrigin, is_digits, last_address, slot, take_0x, take_address};

/// Decodes a message of some device, or one without a device's prefix.
pub fn decode(origin: Option<&MessageOrigin<'_>>, message: &str) -> Option<KernelEvent> {
    let origin = origin.filter(|origin| origin.driver != "AER");
    let rest = origin.map_or(message, |origin| origin.rest).trim_start();
    let aer = rest.strip_prefix("AER: ");
    let body = aer.unwrap_or(rest).trim_start();
    let bus_error = (body.strip_prefix("PCIe Bus Error: severity="))
        .or_else(|| body.strip_prefix("CXL Bus Error: severity="));
    let note = match bus_error {
        Some(severity) => severity_note(severity),
        None => contained(body).or_else(|| received(aer.map(|_| body)?))?,
    };
    let mut event = KernelEvent::new(KernelEventKind::Note(note), message);
    let speaker = origin.and_then(|origin| Some((origin.driver, origin.address.clone()?)));
    // The port reports for the device that erred, and names it last.
    let erred = bus_error.map_or_else(|| last_address(body), |_| None);
    let (address, device) = match (speaker, erred) {
        (Some((driver, port)), erred) if erred.as_ref().is_none_or(|e| slot(e) == slot(&port)) => {
            let address = erred.unwrap_or(port);
            let device = format!("{driver} {address}");
            (address, device)
        }
        (_, Some(erred)) => (erred.clone(), erred),
        (_, None) => return Some(event),
    };
    event.pci = Some(slot(&address));
    event.device = Some(device);
    Some(event)
}

/// `{1}[Hardware Error]:   section_type: PCIe error`: firmware-first reporting; without a number where
/// the firmware kept it over the reboot.
pub fn firmware_first(line: &str) -> Option<KernelEvent> {
    let (number, body) = line.split_once(REPORTED)?;
    (number.is_empty() || is_numbered(number)).then_some(())?;
    let section = body.trim_start().strip_prefix("section_type: PCIe error");
    section.map(|_| KernelEvent::new(KernelEventKind::Note(Note::AerCorrectable), line))
}

const REPORTED: &str = "[Hardware Error]:";

fn is_numbered(number: &str) -> bool {
    let digits = number.strip_prefix('{').and_then(|n| n.strip_suffix('}'));
    digits.is_some_and(is_digits)
}

/// A report of the firmware's (`drivers/firmware/efi/cper.c`), whose severity, kind and device are lines
/// of their own: `Error 0, type: fatal`, `section_type: PCIe error`, `device_id: 0000:3b:00.0`.
#[derive(Debug, Default)]
pub struct FirmwareReport {
    severity: String,
    is_pcie: bool,
}

impl FirmwareReport {
    /// Takes a line; gives the event where it names the device of an uncorrected PCIe error. Of what the
    /// firmware kept over a reboot, which has no number, nothing is made: it is of the boot before.
    pub fn feed(&mut self, line: &str) -> Option<KernelEvent> {
        let (number, body) = line.split_once(REPORTED)?;
        let body = body.trim();
        if !is_numbered(number) {
            return None;
        }
        if let Some(kind) = body.strip_prefix("section_type: ") {
            self.is_pcie = kind == "PCIe error";
        } else if let Some((_, severity)) = body.split_once(", type: ") {
            (self.severity, self.is_pcie) = (severity.to_string(), false);
        } else if let Some(device) = body.strip_prefix("device_id: ")
            && std::mem::take(&mut self.is_pcie)
            && let severity @ ("fatal" | "recoverable") = &*self.severity
        {
            let text = format!("{number}{REPORTED} {severity} PCIe error of {device}");
            let (device, _) = take_address(device)?;
            let note = match severity {
                "fatal" => Note::AerFatal,
                _ => Note::AerUncorrected,
            };
            let mut event = KernelEvent::new(KernelEventKind::Note(note), &text);
            event.pci = Some(slot(&device));
            event.device = Some(device);
            return Some(event);
        }
        None
    }
}

/// A port that cut off what erred below it: `DPC: containment event, status:0x1f05 source:0x1800`, before Linux
/// 5.1 without the first colon. Only software triggers it (status) without an error. Where the firmware
/// handles it, a line of EDR's comes first.
fn contained(body: &str) -> Option<Note> {
    if body.starts_with("EDR: EDR event received") {
        return Some(Note::AerCorrectable);
    }
    let event = body.strip_prefix("DPC")?.trim_start_matches([':', ' ']);
    let (status, _) = take_0x(event.strip_prefix("containment event, status:")?)?;
    match status & 1 == 1 && status & 0x66 != 0x26 {
        true => Some(Note::AerFatal),
        false => Some(Note::AerCorrectable),
    }
}

/// `[Multiple ]Correctable error message received from …`, `Corrected error received: …`.
fn received(body: &str) -> Option<Note> {
    let what = body.strip_prefix("Multiple ").unwrap_or(body);
    let graded = what.starts_with("Correct") || what.starts_with("Uncorrect");
    let received = what.contains("error received") || what.contains("error message received");
    (graded && received).then(|| severity_note(what))
}

/// By the severity's words; a word that was cut proves nothing.
fn severity_note(s: &str) -> Note {
    match s.starts_with("Uncorrect") {
        true if s.contains("(Fatal)") => Note::AerFatal,
        true if s.contains("(Non-") => Note::AerUncorrected,
        _ => Note::AerCorrectable,
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::origin;
    use super::*;

    fn decode_line(s: &str) -> Option<KernelEvent> {
        decode(origin(s).as_ref(), s)
    }

    #[test]
    fn reports() {
        use Note::{AerCorrectable, AerFatal, AerUncorrected};
        let rows: [(&str, Option<&str>, Option<&str>, Note); 15] = [
            (
                "pcieport 0000:16:01.0: AER: Correctable error message received from 0000:17:00.1",
                Some("0000:17:00"),
                Some("0000:17:00.1"),
                AerCorrectable,
            ),
            (
                "pcieport 0000:00:1c.5: AER: Multiple Corrected error received: 0000:00:1c.5",
                Some("0000:00:1c"),
                Some("pcieport 0000:00:1c.5"),
                AerCorrectable,
            ),
            (
                "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: id=0008",
                Some("0000:00:01"),
                Some("pcieport 0000:00:01.0"),
                AerFatal,
            ),
            (
                "pcieport 0000:00:01.0: AER: Uncorrectable (Non-Fatal) error message received from 0000:03:00.0",
                Some("0000:03:00"),
                Some("0000:03:00.0"),
                AerUncorrected,
            ),
            (
                "mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fata",
                Some("0000:01:00"),
                Some("mlx5_core 0000:01:00.0"),
                AerUncorrected,
            ),
            (
                "nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fata",
                Some("0000:3b:00"),
                Some("nvidia 0000:3b:00.0"),
                AerCorrectable,
            ),
            (
                "PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
                None,
                None,
                AerFatal,
            ),
            (
                "pcieport 0000:16:01.0: DPC: containment event, status:0x1f01 source:0x0000",
                Some("0000:16:01"),
                Some("pcieport 0000:16:01.0"),
                AerFatal,
            ),
            (
                "pcieport 0000:17:00.0: DPC: containment event, status:0x1f05, ERR_FATAL received from 0000:18:00.0",
                Some("0000:18:00"),
                Some("0000:18:00.0"),
                AerFatal,
            ),
            (
                "pcieport 0001:17:00.0: DPC: containment event, status:0x1f05 source:0x1800",
                Some("0001:17:00"),
                Some("pcieport 0001:17:00.0"),
                AerFatal,
            ),
            (
                "pcieport 0000:17:00.0: DPC: containment event, status:0x1f07: RP PIO error detected",
                Some("0000:17:00"),
                Some("pcieport 0000:17:00.0"),
                AerFatal,
            ),
            (
                "pcieport 0000:17:00.0: DPC: containment event, status:0x1f27: software trigger detected",
                Some("0000:17:00"),
                Some("pcieport 0000:17:00.0"),
                AerCorrectable,
            ),
            (
                "pcieport 0000:17:00.0: DPC: containment event, status:0x1f27 source:0x1800",
                Some("0000:17:00"),
                Some("pcieport 0000:17:00.0"),
                AerCorrectable,
            ),
            (
                "dpc 0000:00:03.2:pcie008: DPC containment event, status:0x1f01 source:0x0000",
                Some("0000:00:03"),
                Some("dpc 0000:00:03.2"),
                AerFatal,
            ),
            (
                "pcieport 0000:16:01.0: EDR: EDR event received",
                Some("0000:16:01"),
                Some("pcieport 0000:16:01.0"),
                AerCorrectable,
            ),
        ];
        for (line, pci, device, note) in rows {
            let e = decode_line(line).unwrap_or_else(|| panic!("no event: {line}"));
            assert_eq!(e.pci.as_deref(), pci, "{line}");
            assert_eq!(e.device.as_deref(), device, "{line}");
            assert_eq!(e.what, KernelEventKind::Note(note), "{line}");
        }
    }

    #[test]
    fn detail_lines_are_no_events() {
        for line in [
            "mlx5_core 0000:01:00.0:   device [15b3:1021] error status/mask=00000001/0000e000",
            "mlx5_core 0000:01:00.0:    [ 0] RxErr                  (First)",
            "mlx5_core 0000:01:00.0: AER:   TLP Header: 40000001 0000000f",
            "pcieport 0000:00:01.0: AER: Error of this Agent(0000:00:01.0) is reported first",
            "pcieport 0000:00:01.0: AER: can't find device of ID0008",
            "pcieport 0000:00:01.0: AER: device recovery successful",
            "pcieport 0000:00:01.0: AER: enabled with IRQ 27",
            "pcieport 0000:00:01.0: AER: found no error details for 0000:00:1c.5",
            "pcieport 0000:00:03.0: DPC: ERR_FATAL detected",
            "dpc 0000:00:03.2:pcie008: DPC ERR_FATAL detected, remove downstream devices",
            "pcieport 0000:00:03.0: Refused to change power state from D0 to D3hot",
        ] {
            assert_eq!(decode_line(line), None, "{line}");
        }
        assert_eq!(
            firmware_first("{1}[Hardware Error]: event severity: corrected"),
            None
        );
        assert!(firmware_first("{1}[Hardware Error]:   section_type: PCIe error").is_some());
    }

    #[test]
    fn the_firmwares_report_names_severity_and_device_on_lines_of_their_own() {
        for (number, severity, kind, uncorrected) in [
            ("{1}", "fatal", "PCIe error", true),
            ("{12}", "recoverable", "PCIe error", true),
            ("{1}", "corrected", "PCIe error", false),
            ("{1}", "fatal", "memory error", false),
            // Kept over the reboot.
            ("", "fatal", "PCIe error", false),
        ] {
            let mut report = FirmwareReport::default();
            let lines = [
                format!("event severity: {severity}"),
                format!(" Error 0, type: {severity}"),
                format!("  section_type: {kind}"),
                "  port_type: 0, PCIe end point".into(),
                "  device_id: 0000:3b:00.0".into(),
                "  vendor_id: 0x15b3, device_id: 0x1021".into(),
                // Of the next section nothing is known yet.
                "  device_id: 0000:3c:00.0".into(),
            ];
            let lines = lines.map(|line| format!("{number}[Hardware Error]: {line}"));
            let events: Vec<_> = lines.iter().filter_map(|line| report.feed(line)).collect();
            assert_eq!(
                events.len(),
                usize::from(uncorrected),
                "{number} {severity} {kind}"
            );
            for event in events {
                assert_eq!(event.device.as_deref(), Some("0000:3b:00.0"));
                let note = match severity {
                    "fatal" => Note::AerFatal,
                    _ => Note::AerUncorrected,
                };
                assert_eq!(event.what, KernelEventKind::Note(note));
                assert!(
                    event
                        .text
                        .ends_with(&format!("{severity} PCIe error of 0000:3b:00.0"))
                );
            }
        }
    }
}
