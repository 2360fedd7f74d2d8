//! GPUDirect: NIC to GPU memory, storage to GPU memory.

use super::Item;
use super::plugins::OTHER_IMAGE;
use super::scene::{Fabric, Scene};
use crate::check::gpudirect::{Path, judge_path};
use crate::observe::reading::Reading;

/// Whether NICs reach GPU memory. `/proc/modules`, `/sys/module` and `/proc/driver/nvidia` are the
/// node's own, in a container too.
pub(super) fn gpudirect(scene: &Scene<'_>) -> Item {
    scene.if_it_matters(path(scene))
}

fn path(scene: &Scene<'_>) -> Item {
    const ID: &str = "gpudirect";
    match scene.gpus {
        Some(0) => return Item::skipped(ID, "there is no GPU in this container"),
        None => return Item::skipped(ID, "whether there are GPUs cannot be read"),
        Some(_) => {}
    }
    match scene.fabric {
        Fabric::Verbs | Fabric::Efa => {}
        _ => return Item::skipped(ID, "there is no RDMA device"),
    }
    if let Some(asked) = scene.nccl("NCCL_NET_GDR_LEVEL")
        && ["LOC", "0"].contains(&asked.setting.value)
    {
        return Item::degraded(
            ID,
            "GdrDisabled",
            format!(
                "{} keeps NICs from GPU memory: data goes through host memory",
                asked.told()
            ),
        )
        .fix("NCCL_NET_GDR_LEVEL: unset it");
    }
    let devices: Vec<_> = match scene.selected().is_empty() {
        true => scene.ports().map(|(device, _)| &device.device).collect(),
        false => scene
            .selected()
            .iter()
            .map(|(device, _)| &device.device)
            .collect(),
    };
    if devices.is_empty() {
        return Item::skipped(ID, "no device can be used");
    }
    let verdict = judge_path(&scene.facts.gpudirect, &devices);
    let why = verdict.why.join("; ");
    let no_dmabuf = scene.nccl_number("NCCL_DMABUF_ENABLE") == Some(0);
    match verdict.path {
        Path::Dmabuf if no_dmabuf => Item::degraded(
            ID,
            "GdrDisabled",
            format!("NCCL_DMABUF_ENABLE=0, and DMA-BUF is the path here ({why})"),
        )
        .fix("NCCL_DMABUF_ENABLE: unset it"),
        Path::Dmabuf => Item::ok(ID, format!("dmabuf ({why})")),
        Path::Peermem => Item::ok(ID, format!("peermem ({why})")),
        Path::None => Item::degraded(
            ID,
            "NoGpuDirect",
            format!("{why}: RDMA works, and data goes through host memory"),
        )
        .fix("on the node: the open NVIDIA kernel module (DMA-BUF), or `modprobe nvidia-peermem`; GPU operator: driver.kernelModuleType=open or driver.rdma.enabled=true"),
        Path::Unknown => Item::unknown(ID, "GpuDirectUnreadable", why),
    }
}

/// GPUDirect Storage.
pub(super) fn gds(scene: &Scene<'_>) -> Item {
    const ID: &str = "gds";
    let environment = &scene.facts.environment;
    let storage = &scene.facts.storage;
    let asked = match (
        environment.get("CUFILE_ENV_PATH_JSON"),
        environment.get("NVIDIA_GDS"),
    ) {
        (Some(path), _) if !path.is_empty() => format!("CUFILE_ENV_PATH_JSON={path}"),
        (_, Some("enabled" | "true" | "1" | "yes" | "on")) => "NVIDIA_GDS is set".into(),
        _ => return Item::skipped(ID, "nothing asks for it (CUFILE_ENV_PATH_JSON, NVIDIA_GDS)"),
    };
    // The file is the image's, and this is another.
    if !scene.facts.has_loader {
        return Item::skipped(ID, OTHER_IMAGE);
    }
    match &storage.compat_mode {
        Reading::Absent if asked.starts_with("CUFILE") => {
            return Item::degraded(
                ID,
                "CufileMissing",
                format!("{asked}: there is no such file; cuFile takes its defaults instead"),
            )
            .fix("CUFILE_ENV_PATH_JSON: unset it, or mount the file there (`volumeMounts`, a ConfigMap)");
        }
        Reading::Failed(fault) => {
            return Item::failing(
                ID,
                "CufileBroken",
                format!("{}: {}", storage.path, fault.detail),
            )
            .fix(format!("{}: mend the JSON", storage.path));
        }
        _ => {}
    }
    // Compatibility mode is allowed unless the file forbids it.
    let compat = storage.compat_mode.value().copied().unwrap_or(true);
    let loaded = match (
        &scene.facts.gpudirect.nvidia_fs,
        &scene.facts.gpudirect.modules,
    ) {
        (Reading::Value(_), _) => Some(true),
        (_, Reading::Value(modules)) => Some(modules.contains_key("nvidia_fs")),
        _ => None,
    };
    let lacking = match (loaded, &storage.nodes) {
        (Some(false), _) => "the node's nvidia-fs module is not loaded",
        (_, Reading::Value(0) | Reading::Absent) => "this container has no /dev/nvidia-fs*",
        (None, _) => {
            return Item::unknown(
                ID,
                "GdsUnreadable",
                format!("{asked}; whether nvidia-fs is loaded cannot be read"),
            );
        }
        (Some(true), _) => {
            return Item::ok(
                ID,
                format!("{asked}; nvidia-fs is loaded and its nodes are here"),
            );
        }
    };
    let remedy = if loaded == Some(false) {
        "load nvidia-fs on the node (GPU operator: gds.enabled=true)"
    } else {
        "env NVIDIA_GDS=enabled, for the NVIDIA container runtime to hand /dev/nvidia-fs* in"
    };
    match compat {
        true => Item::degraded(
            ID,
            "GdsMissing",
            format!("{asked}, and {lacking}: reads go through host memory"),
        )
        .fix(remedy),
        false => Item::failing(
            ID,
            "GdsMissing",
            format!("{asked}, {lacking}, and `allow_compat_mode` is false: reads will fail"),
        )
        .fix(remedy),
    }
}

#[cfg(test)]
mod tests;
