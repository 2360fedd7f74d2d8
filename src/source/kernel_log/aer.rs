//! PCIe error reports (`drivers/pci/pcie/aer.c`, `dpc.c`, `drivers/acpi/apei/ghes.c`).
//!
//! One report prints several lines; the heading lines are events, the lines that name the device's
//! ids, bits and TLP header are not.

use crate::observe::kernel::{AerSeverity, Detail, EventKind, KernelEvent};

use super::device::{Origin, label};
use super::text::Bdf;

/// Decodes a message of some device; `rest` is without the device prefix.
pub fn decode(origin: Option<&Origin<'_>>, rest: &str, message: &str) -> Option<KernelEvent> {
    let rest = rest.trim_start();
    let aer = rest.strip_prefix("AER: ");
    let body = aer.unwrap_or(rest).trim_start();
    let severity = if let Some(s) = after_bus_error(body) {
        severity(s)
    } else if body.starts_with("DPC: containment event") {
        AerSeverity::Unknown
    } else {
        received(body, aer.is_some())?
    };
    let mut event = KernelEvent::new(EventKind::PcieAer, message);
    let speaker = origin.and_then(|o| Some((o.driver, o.bdf?)));
    // The port reports for the device that erred, and names it last.
    let erred = after_bus_error(body).map_or_else(|| Bdf::last_in(body), |_| None);
    let mut reporter = None;
    match (speaker, erred) {
        (Some((driver, port)), Some(bdf)) if !port.same_slot(bdf) => {
            event.pci = Some(bdf.slot());
            event.device = Some(bdf.to_string());
            reporter = Some(label(driver, port));
        }
        (Some((driver, port)), _) => {
            event.pci = Some(port.slot());
            event.device = Some(label(driver, erred.unwrap_or(port)));
        }
        (None, Some(bdf)) => {
            event.pci = Some(bdf.slot());
            event.device = Some(bdf.to_string());
        }
        (None, None) => {}
    }
    event.detail = Detail::Aer { severity, reporter };
    Some(event)
}

/// `{1}[Hardware Error]:   section_type: PCIe error`: firmware-first reporting.
pub fn firmware_first(message: &str) -> Option<KernelEvent> {
    let (_, body) = message.split_once("[Hardware Error]:")?;
    let section = body.trim_start().strip_prefix("section_type: ")?;
    section.starts_with("PCIe error").then(|| {
        let mut event = KernelEvent::new(EventKind::PcieAer, message);
        event.detail = Detail::Aer {
            severity: AerSeverity::Unknown,
            reporter: None,
        };
        event
    })
}

fn after_bus_error(body: &str) -> Option<&str> {
    body.strip_prefix("PCIe Bus Error: severity=")
        .or_else(|| body.strip_prefix("CXL Bus Error: severity="))
}

/// `[Multiple ]Correctable error message received from …`, `Corrected error received: …`;
/// a recovery that failed.
fn received(body: &str, aer: bool) -> Option<AerSeverity> {
    if !aer {
        return None;
    }
    let what = body.strip_prefix("Multiple ").unwrap_or(body);
    if what.starts_with("device recovery failed") {
        return Some(AerSeverity::Unknown);
    }
    let graded = what.starts_with("Correct") || what.starts_with("Uncorrect");
    let said = what.contains("error received") || what.contains("error message received");
    (graded && said).then(|| severity(what))
}

/// The severity's words; a word that was cut proves nothing.
fn severity(s: &str) -> AerSeverity {
    if s.starts_with("Correct") {
        AerSeverity::Correctable
    } else if !s.starts_with("Uncorrect") {
        AerSeverity::Unknown
    } else if s.contains("(Fatal)") {
        AerSeverity::Fatal
    } else if s.contains("(Non-") {
        AerSeverity::NonFatal
    } else {
        AerSeverity::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::origin;
    use super::*;

    fn decode_line(s: &str) -> Option<KernelEvent> {
        let o = origin(s);
        decode(o.as_ref(), o.map_or(s, |o| o.rest), s)
    }

    #[test]
    fn reports() {
        use AerSeverity::{Correctable, Fatal, NonFatal, Unknown};
        let rows: [(&str, Option<&str>, Option<&str>, AerSeverity); 9] = [
            (
                "pcieport 0000:16:01.0: AER: Correctable error message received from 0000:17:00.1",
                Some("0000:17:00"),
                Some("0000:17:00.1"),
                Correctable,
            ),
            (
                "pcieport 0000:00:1c.5: AER: Multiple Corrected error received: 0000:00:1c.5",
                Some("0000:00:1c"),
                Some("pcieport 0000:00:1c.5"),
                Correctable,
            ),
            (
                "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: id=0008",
                Some("0000:00:01"),
                Some("pcieport 0000:00:01.0"),
                Fatal,
            ),
            (
                "pcieport 0000:00:01.0: AER: Uncorrectable (Non-Fatal) error message received from 0000:03:00.0",
                Some("0000:03:00"),
                Some("0000:03:00.0"),
                NonFatal,
            ),
            (
                "mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fata",
                Some("0000:01:00"),
                Some("mlx5_core 0000:01:00.0"),
                NonFatal,
            ),
            (
                "nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fata",
                Some("0000:3b:00"),
                Some("nvidia 0000:3b:00.0"),
                Unknown,
            ),
            (
                "PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
                None,
                None,
                Fatal,
            ),
            (
                "pcieport 0000:16:01.0: DPC: containment event, status:0x1f01 source:0x0000",
                Some("0000:16:01"),
                Some("pcieport 0000:16:01.0"),
                Unknown,
            ),
            (
                "pcieport 0000:16:01.0: AER: device recovery failed",
                Some("0000:16:01"),
                Some("pcieport 0000:16:01.0"),
                Unknown,
            ),
        ];
        for (line, pci, device, severity) in rows {
            let e = decode_line(line).unwrap_or_else(|| panic!("no event: {line}"));
            assert_eq!(e.pci.as_deref(), pci, "{line}");
            assert_eq!(e.device.as_deref(), device, "{line}");
            let Detail::Aer { severity: got, .. } = e.detail else {
                panic!("{line}")
            };
            assert_eq!(got, severity, "{line}");
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
}
