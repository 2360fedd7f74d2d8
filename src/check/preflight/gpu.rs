//! GPUDirect: NIC to GPU memory, storage to GPU memory.

use super::{Checked, Item, ItemStatus, PodFabric, PodView, plugins::OTHER_IMAGE};
use crate::check::gpudirect::{Path, judge_path};
use crate::observe::Reading;

/// Judges whether NICs reach GPU memory. `/proc/modules`, `/sys/module` and `/proc/driver/nvidia` are
/// the node's own, in a container too.
pub(super) fn gpudirect(context: &PodView<'_>) -> Checked {
    let why = match (context.gpus, context.fabric) {
        (Some(0), _) => "this container has no GPU",
        (None, _) => "whether there are GPUs cannot be read",
        (Some(_), PodFabric::Verbs | PodFabric::Efa) => "",
        _ => "this container has no RDMA device",
    };
    Item::skipped(why).when(!why.is_empty())?;
    let level = context.nccl("NCCL_NET_GDR_LEVEL");
    if let Some(level) = level.filter(|level| ["LOC", "0"].contains(&level.value)) {
        let message = format!("{level} keeps NICs from GPU memory: data goes through host memory");
        return Ok(Item::degraded("GdrDisabled", message).fix("NCCL_NET_GDR_LEVEL: unset it"));
    }
    let selected = Some(context.selected()).filter(|ports| !ports.is_empty());
    let ports = selected.unwrap_or_else(|| context.ports());
    Item::skipped("no device can be used").when(ports.is_empty())?;
    let devices: Vec<_> = ports.iter().map(|(device, _)| &device.device).collect();
    let verdict = judge_path(&context.facts.gpudirect, &devices);
    let why = verdict.why.join("; ");
    Ok(match verdict.path {
        Path::Dmabuf if context.nccl_number("NCCL_DMABUF_ENABLE") == Some(0) => {
            let message = format!("NCCL_DMABUF_ENABLE=0, and DMA-BUF is the path here ({why})");
            Item::degraded("GdrDisabled", message).fix("NCCL_DMABUF_ENABLE: unset it")
        }
        Path::Dmabuf => Item::ok(format!("dmabuf ({why})")),
        Path::Peermem => Item::ok(format!("peermem ({why})")),
        Path::None => Item::degraded(
            "NoGpuDirect",
            format!("{why}: RDMA works, and data goes through host memory"),
        ),
        Path::Unknown => Item::unknown("GpuDirectUnreadable", why),
    })
}

/// The setting that asks for GPUDirect Storage, and whether it names a settings file.
fn gds_setting(context: &PodView<'_>) -> Option<(String, bool)> {
    let environment = &context.facts.environment;
    let path = environment.get("CUFILE_ENV_PATH_JSON").unwrap_or_default();
    if !path.is_empty() {
        return Some((format!("CUFILE_ENV_PATH_JSON={path}"), true));
    }
    let enabled = ["enabled", "true", "1", "yes", "on"].contains(&environment.get("NVIDIA_GDS")?);
    enabled.then(|| ("NVIDIA_GDS is set".into(), false))
}

/// Judges GPUDirect Storage: cuFile's settings, then the driver. The settings file belongs to the
/// training image.
pub(super) fn gds(context: &PodView<'_>) -> Checked {
    let storage = &context.facts.storage;
    let nothing = "nothing asks for it (CUFILE_ENV_PATH_JSON, NVIDIA_GDS)";
    let (setting, names_file) = gds_setting(context).ok_or_else(|| Item::skipped(nothing))?;
    Item::skipped(OTHER_IMAGE).when(!context.facts.has_loader)?;
    match &storage.compat_mode {
        Reading::Absent if names_file => {
            let message =
                format!("{setting}: the file does not exist; cuFile uses its defaults instead");
            return Ok(Item::degraded("CufileMissing", message));
        }
        Reading::Failed(fault) => {
            let message = format!("{}: {}", storage.path, fault.detail);
            return Ok(Item::failing("CufileBroken", message)
                .fix(format!("{}: correct the JSON", storage.path)));
        }
        _ => {}
    }
    let gpudirect = &context.facts.gpudirect;
    let is_loaded = match (&gpudirect.nvidia_fs, &gpudirect.modules) {
        (Reading::Value(_), _) => Some(true),
        (_, Reading::Value(modules)) => Some(modules.contains_key("nvidia_fs")),
        _ => None,
    };
    let (lacking, remedy) = match (is_loaded, &storage.nodes) {
        (Some(false), _) => (
            "the node's nvidia-fs module is not loaded",
            "load nvidia-fs on the node (GPU operator: gds.enabled=true)",
        ),
        (_, Reading::Value(0) | Reading::Absent) => (
            "this container has no /dev/nvidia-fs*",
            "env NVIDIA_GDS=enabled, for the NVIDIA container runtime to pass /dev/nvidia-fs* in",
        ),
        (None, _) => {
            let message = format!("{setting}; whether nvidia-fs is loaded cannot be read");
            return Ok(Item::unknown("GdsUnreadable", message));
        }
        (Some(true), _) => {
            let message = format!("{setting}; nvidia-fs is loaded and its nodes are here");
            return Ok(Item::ok(message));
        }
    };
    let (status, outcome) = match storage.compat_mode.value() {
        Some(false) => (
            ItemStatus::Failing,
            "and `allow_compat_mode` is false: reads will fail",
        ),
        _ => (ItemStatus::Degraded, "so that reads go through host memory"),
    };
    let message = format!("{setting}; {lacking}, {outcome}");
    Ok(Item::new(status, Some("GdsMissing"), message).fix(remedy))
}

#[cfg(test)]
mod tests;
