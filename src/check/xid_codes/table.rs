//! The table of Xid codes, ascending.
//!
//! Dispositions follow NVIDIA's catalog for Ampere and newer where it speaks. Application faults
//! (13, 31, 43, 45, 68, 69) never touch the node: 45 alone once flagged 77 healthy nodes elsewhere.

use super::{Disposition, XidClass, XidCode};

use Disposition::{App, Degraded, Fatal, Ignore, Report};
use XidClass::{C2c, Driver, Gpu, Memory, Nvlink, Pcie, Power};

pub const LOOK_UP: &str = "Look the code up in NVIDIA's Xid catalog for this driver version.";
pub const RESET: &str =
    "Drain the GPU's jobs and reset the GPU; if it comes back, have it examined.";
pub const REBOOT: &str = "Drain the node and reboot it.";
pub const FABRIC: &str = "Reset the GPUs and the fabric manager; if it comes back, have the links \
                          and switches examined.";
const POWER_CYCLE: &str =
    "Drain the node and power it off and on; if it comes back, have GPU and slot examined.";
const PROGRAM: &str = "Nothing on the node; look at the program that ran.";
const NOTHING: &str = "Nothing.";
const REMAP: &str = "Reset the GPU at the next chance so that the spare memory row takes over.";
const EXAMINE: &str = "Have the GPU examined.";
const CABLES: &str = "Check the GPU's power cables and the power supplies.";
const FOLLOW: &str = "Do what the message names; it is the driver's own verdict.";
const WATCH: &str = "Watch for repeats; update driver and firmware if it comes back.";

/// The row of a code.
#[must_use]
pub fn lookup(code: u32) -> Option<&'static XidCode> {
    let at = CODES.binary_search_by_key(&code, |row| row.code).ok()?;
    CODES.get(at)
}

const fn row(
    code: u32,
    class: XidClass,
    disposition: Disposition,
    meaning: &'static str,
    remedy: &'static str,
) -> XidCode {
    XidCode {
        code,
        class,
        disposition,
        meaning,
        remedy,
    }
}

/// All rows, by code.
#[rustfmt::skip]
pub const CODES: &[XidCode] = &[
    row(8, XidClass::App, App, "channel stood idle too long and was stopped", PROGRAM),
    row(11, XidClass::App, App, "bad command stream", PROGRAM),
    row(13, XidClass::App, App, "graphics engine exception, usually an access out of bounds", PROGRAM),
    row(25, XidClass::App, App, "bad command stream", PROGRAM),
    row(31, XidClass::App, App, "memory access to an address that is not mapped", PROGRAM),
    row(32, XidClass::App, App, "command stream could not be read", PROGRAM),
    row(37, Driver, Ignore, "firmware notice", NOTHING),
    row(38, Driver, Ignore, "firmware notice", NOTHING),
    row(43, XidClass::App, App, "a program's channel was reset", PROGRAM),
    row(44, Driver, Ignore, "context switch notice", NOTHING),
    row(45, XidClass::App, Ignore, "channels torn down after a program's end or another Xid", NOTHING),
    row(46, Gpu, Fatal, "GPU stopped processing", RESET),
    row(48, Memory, Fatal, "memory error that could not be corrected", RESET),
    row(54, Power, Fatal, "auxiliary power is not connected", CABLES),
    row(61, Driver, Degraded, "internal controller breakpoint or warning", WATCH),
    row(62, Gpu, Fatal, "internal controller halted", RESET),
    row(63, Memory, Degraded, "a memory row is marked to be remapped", REMAP),
    row(64, Memory, Fatal, "a memory row could not be remapped", EXAMINE),
    row(65, Driver, Degraded, "video processor exception", WATCH),
    row(68, XidClass::App, App, "video decoder exception", PROGRAM),
    row(69, XidClass::App, App, "graphics engine class error", PROGRAM),
    row(74, Nvlink, Fatal, "NVLink error", FABRIC),
    row(78, Driver, Degraded, "virtual GPU did not start", "Update driver and virtual GPU manager together."),
    row(79, Pcie, Fatal, "GPU has fallen off the bus", POWER_CYCLE),
    row(80, XidClass::App, App, "corrupted data sent to the GPU", PROGRAM),
    row(81, Gpu, Degraded, "display subsystem error", EXAMINE),
    row(92, Memory, Degraded, "many corrected memory errors", WATCH),
    row(93, Gpu, Ignore, "information memory is worn", NOTHING),
    row(94, Memory, Degraded, "memory error contained to one program", REMAP),
    row(95, Memory, Fatal, "memory error not contained", RESET),
    row(109, Gpu, Degraded, "context switch timed out", WATCH),
    row(110, Gpu, Fatal, "security fault", RESET),
    row(119, Driver, Fatal, "GPU system processor does not answer", RESET),
    row(120, Driver, Fatal, "GPU system processor error", RESET),
    row(121, C2c, Degraded, "corrected errors between Grace and GPU", WATCH),
    row(123, Driver, Degraded, "power management unit error", WATCH),
    row(136, Nvlink, Fatal, "NVLink training failed", FABRIC),
    row(137, XidClass::App, App, "peer GPU's memory accessed without right", PROGRAM),
    row(140, Memory, Fatal, "memory error that was not recovered", RESET),
    row(141, Driver, Ignore, "fast path notice", NOTHING),
    row(142, Gpu, Degraded, "video encoder error", WATCH),
    row(143, Gpu, Fatal, "GPU did not initialise", RESET),
    row(144, Nvlink, Degraded, "NVLink 5: SAW unit", FABRIC),
    row(145, Nvlink, Degraded, "NVLink 5: RLW unit", FABRIC),
    row(146, Nvlink, Degraded, "NVLink 5: TLW unit", FABRIC),
    row(147, Nvlink, Degraded, "NVLink 5: TREX unit", FABRIC),
    row(148, Nvlink, Degraded, "NVLink 5: power unit", FABRIC),
    row(149, Nvlink, Degraded, "NVLink 5: NETIR, the link itself", FABRIC),
    row(150, Nvlink, Degraded, "NVLink 5: management unit", FABRIC),
    row(151, Driver, Fatal, "key rotation failed (confidential computing)", "Restart the virtual machine."),
    row(152, Driver, Ignore, "memory management unit notice", NOTHING),
    row(154, Gpu, Report, "the driver's recovery verdict", FOLLOW),
    row(155, Nvlink, Degraded, "NVLink taken down by software", FABRIC),
    row(156, Memory, Degraded, "a GPU resource was retired", REMAP),
    row(157, Memory, Degraded, "a GPU resource could not be retired", REMAP),
    row(158, Gpu, Fatal, "GPU timed out for good", RESET),
    row(159, C2c, Degraded, "error between Grace and GPU", WATCH),
    row(160, Driver, Ignore, "channel retirement notice", NOTHING),
    row(161, Driver, Ignore, "channel retirement notice", NOTHING),
    row(162, Power, Ignore, "power smoothing on again", NOTHING),
    row(163, Power, Ignore, "power smoothing off", NOTHING),
    row(164, Power, Ignore, "power smoothing hardware is nearly used up", NOTHING),
    row(165, Power, Ignore, "power smoothing hardware is used up", NOTHING),
    row(166, Nvlink, Degraded, "NVLink secure mode error", FABRIC),
    row(167, Pcie, Fatal, "PCIe timed out for good", POWER_CYCLE),
    row(168, Memory, Degraded, "errors in protected memory, error correction is off", "Turn error correction on, or reboot the node."),
    row(169, Gpu, Fatal, "security processor halted", RESET),
    row(170, Nvlink, Degraded, "NVLink secure mode error", FABRIC),
    row(171, Memory, Ignore, "detail of Xid 48: DRAM", "See Xid 48 of the same GPU."),
    row(172, Memory, Ignore, "detail of Xid 48: SRAM", "See Xid 48 of the same GPU."),
    row(173, C2c, Fatal, "link between Grace and GPU failed for good", RESET),
    row(175, Memory, Degraded, "memory subsystem error", WATCH),
    row(176, Pcie, Ignore, "corrected PCIe errors", NOTHING),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_ascend_so_that_lookup_finds_them() {
        assert!(CODES.windows(2).all(|w| w[0].code < w[1].code));
        assert!(CODES.iter().all(|r| lookup(r.code) == Some(r)));
        assert_eq!(lookup(0), None);
        assert_eq!(lookup(7), None);
    }

    #[test]
    fn application_codes_never_touch_the_node() {
        for code in [13, 31, 43, 45, 68, 69] {
            let d = lookup(code).unwrap().disposition;
            assert!(matches!(d, App | Ignore), "{code}");
        }
    }

    #[test]
    fn codes_that_take_a_gpu_away() {
        for code in [
            46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 158, 167,
        ] {
            assert_eq!(lookup(code).unwrap().disposition, Fatal, "{code}");
        }
    }
}
