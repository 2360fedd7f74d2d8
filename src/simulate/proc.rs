//! `/proc`, module directories, the NVIDIA driver's files and the kernel log.

use super::files::Files;
use super::spec::{GpuSpec, KmsgRecord, ModuleSpec, NodeSpec};
use std::io;

/// Where raw kernel-log records stand: the same bytes that reads of the device would give.
const KMSG: &str = "dev/kmsg";

pub(super) fn write(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    for (path, text) in [
        ("proc/cmdline", &spec.cmdline),
        ("proc/sys/kernel/osrelease", &spec.kernel),
        ("proc/sys/kernel/arch", &spec.arch),
        ("proc/sys/kernel/hostname", &spec.hostname),
        ("proc/sys/kernel/random/boot_id", &spec.boot_id),
        ("sys/class/dmi/id/sys_vendor", &spec.dmi.0),
        ("sys/class/dmi/id/product_name", &spec.dmi.1),
    ] {
        files.put(path, format!("{text}\n"))?;
    }
    if let Some(tag) = &spec.asset_tag {
        files.put("sys/class/dmi/id/chassis_asset_tag", format!("{tag}\n"))?;
    }
    let hypervisor = if spec.hypervisor { " hypervisor" } else { "" };
    let cpu = if spec.arch == "aarch64" {
        "CPU implementer\t: 0x41".to_string()
    } else {
        format!("vendor_id\t: GenuineIntel\nflags\t\t: fpu sse2{hypervisor}")
    };
    files.put("proc/cpuinfo", format!("processor\t: 0\n{cpu}\n\n"))?;
    files.put("proc/uptime", "86400.00 8000000.00\n")?;
    files.link("proc/self", "proc/1")?;
    files.link("proc/net", "proc/self/net")?;
    for module in &spec.modules {
        write_module(files, module)?;
    }
    write_modules_list(files, spec)?;
    write_memory_peers(files, spec)?;
    write_nvidia(files, spec)?;
    write_nvidia_fs(files, spec)?;
    files.append(KMSG, "")?;
    for record in &spec.kmsg {
        append_kmsg(files, record)?;
    }
    Ok(())
}

/// `/sys/module/<name>`.
pub(super) fn write_module(files: &mut Files, module: &ModuleSpec) -> io::Result<()> {
    let dir = format!("sys/module/{}", module.name);
    if let Some(version) = &module.version {
        files.put(format!("{dir}/version"), format!("{version}\n"))?;
    }
    files.put(format!("{dir}/taint"), format!("{}\n", module.taint))?;
    files.put(format!("{dir}/refcnt"), "0\n")?;
    files.put(format!("{dir}/srcversion"), "533BB7E5866E52F63B9ACCB\n")?;
    files.put(format!("{dir}/initstate"), "live\n")
}

/// Takes `/sys/module/<name>` away.
pub(super) fn remove_module(files: &mut Files, name: &str) -> io::Result<()> {
    files.remove(format!("sys/module/{name}"))
}

/// `/proc/modules`, newest first as the kernel lists them.
pub(super) fn write_modules_list(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    let text: String = spec
        .modules
        .iter()
        .rev()
        .map(|module| {
            let taint = match module.taint.as_str() {
                "" => String::new(),
                taint => format!(" ({taint})"),
            };
            format!("{} 16384 0 - Live 0x0000000000000000{taint}\n", module.name)
        })
        .collect();
    files.replace("proc/modules", text)
}

/// `/sys/kernel/mm/memory_peers/<client>/version` (peer-memory patch of ib_core).
pub(super) fn write_memory_peers(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    const DIR: &str = "sys/kernel/mm/memory_peers";
    let Some(peers) = &spec.memory_peers else {
        return files.remove(DIR);
    };
    files.dir(DIR)?;
    for known in ["nv_mem", "nv_mem_nc"] {
        let dir = format!("{DIR}/{known}");
        if peers.iter().any(|peer| peer == known) {
            files.put(format!("{dir}/version"), "1.5\n")?;
        } else {
            files.remove(dir)?;
        }
    }
    Ok(())
}

fn write_nvidia(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    let Some(nvidia) = &spec.nvidia else {
        return Ok(());
    };
    let version = &nvidia.version;
    let line = if nvidia.open {
        format!(
            "NVIDIA UNIX Open Kernel Module for {}  {version}  Release Build  (builder@host)  Thu Jul 11 12:00:00 UTC 2024",
            spec.arch
        )
    } else {
        format!(
            "NVIDIA UNIX {} Kernel Module  {version}  Thu Nov  2 02:06:00 UTC 2023",
            spec.arch
        )
    };
    files.put(
        "proc/driver/nvidia/version",
        format!("NVRM version: {line}\nGCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"),
    )?;
    files.put(
        "proc/driver/nvidia/params",
        "ResmanDebugLevel: 4294967295\nEnableGpuFirmware: 18\nRegistryDwords: \"\"\n",
    )?;
    files.dir("proc/driver/nvidia/gpus")?;
    for (minor, gpu) in spec.gpus.iter().enumerate() {
        write_gpu(files, &nvidia.version, minor, gpu)?;
    }
    Ok(())
}

fn write_gpu(files: &mut Files, version: &str, minor: usize, gpu: &GpuSpec) -> io::Result<()> {
    let bdf = gpu.bdf;
    files.put(
        format!("proc/driver/nvidia/gpus/{bdf}/information"),
        format!(
            "Model: \t\t {}\nIRQ:   \t\t {}\nGPU UUID: \t {}\nVideo BIOS: \t 96.00.68.00.01\nBus Type: \t PCIe\n\
             DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t {bdf}\nDevice Minor: \t {minor}\n\
             GPU Firmware: \t {version}\nGPU Excluded:\t No\n",
            gpu.model,
            200 + minor,
            gpu.uuid,
        ),
    )
}

/// `/proc/driver/nvidia-fs` (nvfs-proc.c, nvfs-stat.c).
pub(super) fn write_nvidia_fs(files: &mut Files, spec: &NodeSpec) -> io::Result<()> {
    let Some(errors) = spec.nvidia_fs else {
        return files.remove("proc/driver/nvidia-fs");
    };
    let dir = "proc/driver/nvidia-fs";
    let mut text = format!(
        "GDS Version: 1.14.0.31 \nNVFS statistics(ver: 4.0)\nNVFS Driver(version: 2.25.7)\n\
         Mellanox PeerDirect Supported: True\nIO stats: Disabled, peer IO stats: Disabled\nLogging level: info\n\n\
         Active Shadow-Buffer (MiB): 0\nActive Process: 0\nReads                : err={errors} io_state_err=0\n\
         Sparse Reads         : n=0 io=0 holes=0 pages=0 \n\
         Writes               : err=0 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\n\
         Mmap                 : n=1 ok=1 err=0 munmap=2\n\
         Bar1-map             : n=1 ok=1 err=0 free=1 callbacks=0 active=0 delay-frees=0\n\
         Error                : cpu-gpu-pages=0 sg-ext=0 dma-map=0 dma-ref=0\n\
         Ops                  : Read=0 Write=0 BatchIO=0\n"
    );
    for gpu in &spec.gpus {
        text += &format!(
            "GPU {}  uuid:{} : Registered_MiB=0 Cache_MiB=0 max_pinned_MiB=1 \n",
            gpu.bdf,
            gpu.uuid.trim_start_matches("GPU-")
        );
    }
    files.replace(format!("{dir}/stats"), text)?;
    files.replace(format!("{dir}/devcount"), "1\n")?;
    files.replace(format!("{dir}/version"), "version: 2.25\n")?;
    files.replace(format!("{dir}/modules"), "nvme: 2.25.7\n")?;
    let bridges: String = spec
        .pci
        .values()
        .filter(|pci| pci.acs)
        .map(|pci| format!("{}\n", pci.bdf))
        .collect();
    files.replace(format!("{dir}/bridges"), bridges)
}

/// Adds a record to the kernel log (Documentation/ABI/testing/dev-kmsg).
pub(super) fn append_kmsg(files: &Files, record: &KmsgRecord) -> io::Result<()> {
    files.append(KMSG, &record.raw())
}

impl KmsgRecord {
    /// The bytes of one read of `/dev/kmsg`.
    pub fn raw(&self) -> String {
        let mut text = format!(
            "{},{},{},-;{}\n",
            self.priority, self.sequence, self.micros, self.text
        );
        for (key, value) in &self.dictionary {
            text += &format!(" {key}={value}\n");
        }
        text
    }
}
