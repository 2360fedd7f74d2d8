//! The table of Xid codes, ascending.
//!
//! Dispositions follow NVIDIA's catalog for Ampere and newer where it speaks. Application faults
//! (13, 31, 43, 45, 68, 69) never touch the node: 45 alone once flagged 77 healthy nodes elsewhere.

use super::Disposition::{self, App, Degraded, Fatal, Ignore, Report};
use crate::check::Action;

/// What the operator should do: the first step for machines, and the sentence.
pub type Remedy = (Action, &'static str);

pub const LOOK_UP: Remedy = (
    Action::None,
    "Look the code up in NVIDIA's Xid catalog for this driver version.",
);
pub const RESET: Remedy = (
    Action::ResetDevice,
    "Drain the GPU's jobs and reset the GPU; if it comes back, have it examined.",
);
pub const REBOOT: Remedy = (Action::Reboot, "Drain the node and reboot it.");
pub const FABRIC: Remedy = (
    Action::ResetDevice,
    "Reset the GPUs and the fabric manager; if it comes back, have the links \
                          and switches examined.",
);
const POWER_CYCLE: Remedy = (
    Action::PowerCycle,
    "Drain the node and power it off and on; if it comes back, have GPU and slot examined.",
);
const PROGRAM: Remedy = (
    Action::None,
    "Nothing on the node; look at the program that ran.",
);
const NOTHING: Remedy = (Action::None, "Nothing.");
const REMAP: Remedy = (
    Action::ResetDevice,
    "Reset the GPU at the next chance so that the spare memory row takes over.",
);
const EXAMINE: Remedy = (Action::CallProvider, "Have the GPU examined.");
const CABLES: Remedy = (
    Action::CallProvider,
    "Check the GPU's power cables and the power supplies.",
);
const FOLLOW: Remedy = (
    Action::None,
    "Do what the message names; it is the driver's own verdict.",
);
const WATCH: Remedy = (
    Action::None,
    "Watch for repeats; update driver and firmware if it comes back.",
);

/// Code; where the fault lies, as a metric label; what it does to the node when nothing stronger
/// speaks; what happened, in a phrase; what the operator should do.
pub type Row = (u32, &'static str, Disposition, &'static str, Remedy);

/// The row of a code.
#[must_use]
pub fn lookup(code: u32) -> Option<&'static Row> {
    let at = CODES.binary_search_by_key(&code, |row| row.0).ok()?;
    CODES.get(at)
}

/// All rows, by code.
#[rustfmt::skip]
pub const CODES: &[Row] = &[
    (8, "app", App, "channel stood idle too long and was stopped", PROGRAM),
    (11, "app", App, "bad command stream", PROGRAM),
    (13, "app", App, "graphics engine exception, usually an access out of bounds", PROGRAM),
    (25, "app", App, "bad command stream", PROGRAM),
    (31, "app", App, "memory access to an address that is not mapped", PROGRAM),
    (32, "app", App, "command stream could not be read", PROGRAM),
    (37, "driver", Ignore, "firmware notice", NOTHING),
    (38, "driver", Ignore, "firmware notice", NOTHING),
    (43, "app", App, "a program's channel was reset", PROGRAM),
    (44, "driver", Ignore, "context switch notice", NOTHING),
    (45, "app", Ignore, "channels torn down after a program's end or another Xid", NOTHING),
    (46, "gpu", Fatal, "GPU stopped processing", RESET),
    (48, "memory", Fatal, "memory error that could not be corrected", RESET),
    (54, "power", Fatal, "auxiliary power is not connected", CABLES),
    (61, "driver", Degraded, "internal controller breakpoint or warning", WATCH),
    (62, "gpu", Fatal, "internal controller halted", RESET),
    (63, "memory", Degraded, "a memory row is marked to be remapped", REMAP),
    (64, "memory", Fatal, "a memory row could not be remapped", RESET),
    (65, "driver", Degraded, "video processor exception", WATCH),
    (68, "app", App, "video decoder exception", PROGRAM),
    (69, "app", App, "graphics engine class error", PROGRAM),
    (74, "nvlink", Fatal, "NVLink error", FABRIC),
    (78, "driver", Degraded, "virtual GPU did not start", (Action::FixConfiguration, "Update driver and virtual GPU manager together.")),
    (79, "pcie", Fatal, "GPU has fallen off the bus", POWER_CYCLE),
    (80, "app", App, "corrupted data sent to the GPU", PROGRAM),
    (81, "gpu", Degraded, "display subsystem error", EXAMINE),
    (92, "memory", Degraded, "many corrected memory errors", WATCH),
    (93, "gpu", Ignore, "information memory is worn", NOTHING),
    (94, "memory", Degraded, "memory error contained to one program", REMAP),
    (95, "memory", Fatal, "memory error not contained", RESET),
    (109, "gpu", Degraded, "context switch timed out", WATCH),
    (110, "gpu", Fatal, "security fault", RESET),
    (119, "driver", Fatal, "GPU system processor does not answer", RESET),
    (120, "driver", Fatal, "GPU system processor error", RESET),
    (121, "c2c", Degraded, "corrected errors between Grace and GPU", WATCH),
    (123, "driver", Degraded, "power management unit error", WATCH),
    (136, "nvlink", Fatal, "NVLink training failed", FABRIC),
    (137, "app", App, "peer GPU's memory accessed without right", PROGRAM),
    (140, "memory", Fatal, "memory error that was not recovered", RESET),
    (141, "driver", Ignore, "fast path notice", NOTHING),
    (142, "gpu", Degraded, "video encoder error", WATCH),
    (143, "gpu", Fatal, "GPU did not initialise", RESET),
    (144, "nvlink", Degraded, "NVLink 5: SAW unit", FABRIC),
    (145, "nvlink", Degraded, "NVLink 5: RLW unit", FABRIC),
    (146, "nvlink", Degraded, "NVLink 5: TLW unit", FABRIC),
    (147, "nvlink", Degraded, "NVLink 5: TREX unit", FABRIC),
    (148, "nvlink", Degraded, "NVLink 5: power unit", FABRIC),
    (149, "nvlink", Degraded, "NVLink 5: NETIR, the link itself", FABRIC),
    (150, "nvlink", Degraded, "NVLink 5: management unit", FABRIC),
    (151, "driver", Fatal, "key rotation failed (confidential computing)", (Action::Reboot, "Restart the virtual machine.")),
    (152, "driver", Ignore, "memory management unit notice", NOTHING),
    (154, "gpu", Report, "the driver's recovery verdict", FOLLOW),
    (155, "nvlink", Degraded, "NVLink taken down by software", FABRIC),
    (156, "memory", Degraded, "a GPU resource was retired", REMAP),
    (157, "memory", Degraded, "a GPU resource could not be retired", REMAP),
    (158, "gpu", Fatal, "GPU timed out for good", RESET),
    (159, "c2c", Degraded, "error between Grace and GPU", WATCH),
    (160, "driver", Ignore, "channel retirement notice", NOTHING),
    (161, "driver", Ignore, "channel retirement notice", NOTHING),
    (162, "power", Ignore, "power smoothing on again", NOTHING),
    (163, "power", Ignore, "power smoothing off", NOTHING),
    (164, "power", Ignore, "power smoothing hardware is nearly used up", NOTHING),
    (165, "power", Ignore, "power smoothing hardware is used up", NOTHING),
    (166, "nvlink", Degraded, "NVLink secure mode error", FABRIC),
    (167, "pcie", Fatal, "PCIe timed out for good", POWER_CYCLE),
    (168, "memory", Degraded, "errors in protected memory, error correction is off", (Action::Reboot, "Turn error correction on, or reboot the node.")),
    (169, "gpu", Fatal, "security processor halted", RESET),
    (170, "nvlink", Degraded, "NVLink secure mode error", FABRIC),
    (171, "memory", Ignore, "detail of Xid 48: DRAM", (Action::None, "See Xid 48 of the same GPU.")),
    (172, "memory", Ignore, "detail of Xid 48: SRAM", (Action::None, "See Xid 48 of the same GPU.")),
    (173, "c2c", Fatal, "link between Grace and GPU failed for good", RESET),
    (175, "memory", Degraded, "memory subsystem error", WATCH),
    (176, "pcie", Ignore, "corrected PCIe errors", NOTHING),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_ascend_so_that_lookup_finds_them() {
        assert!(CODES.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(CODES.iter().all(|r| lookup(r.0) == Some(r)));
        assert_eq!(lookup(0), None);
        assert_eq!(lookup(7), None);
    }

    #[test]
    fn application_codes_never_touch_the_node() {
        for code in [13, 31, 43, 45, 68, 69] {
            let d = lookup(code).unwrap().2;
            assert!(matches!(d, App | Ignore), "{code}");
        }
    }

    #[test]
    fn codes_that_take_a_gpu_away() {
        for code in [
            46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 158, 167,
        ] {
            assert_eq!(lookup(code).unwrap().2, Fatal, "{code}");
        }
    }
}
