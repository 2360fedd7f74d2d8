//! The NVIDIA drivers' own files: `/proc/driver/nvidia` and `/proc/driver/nvidia-fs`.

use crate::host::Host;
use crate::observe::{NvidiaDriver, NvidiaFs, NvidiaGpu, Reading};
use crate::source::{modules, parse, tree};
use crate::units::Bdf;
use std::collections::BTreeMap;

const DIR: &str = "proc/driver/nvidia";

const MAX_GPUS: usize = 128;

/// Version and flavour. The module's own version serves where the driver's file is missing or odd.
pub fn driver(host: &Host) -> Reading<NvidiaDriver> {
    let dir = modules::module_dir("nvidia");
    let module_version = parse::word(host, dir.join("version")).and_then(|v| version(&v));
    let taint = parse::word(host, dir.join("taint"));
    let told = tree::read_text(host, format!("{DIR}/version"));
    let line = told.value().and_then(|text| text.lines().next());
    match line.and_then(version).or(module_version) {
        Some(version) => Reading::Value(NvidiaDriver {
            version,
            open: is_open(line.unwrap_or_default(), taint.as_deref()),
        }),
        None => told.and_then(|_| Reading::malformed(format!("{DIR}/version: no version in it"))),
    }
}

/// Whether the open module is loaded. Some open builds print the proprietary line, so that only
/// the words "Open Kernel Module" decide at once; else the module's taint does: `P` is a
/// proprietary licence, out of tree without it is open.
fn is_open(line: &str, taint: Option<&str>) -> Option<bool> {
    if line.contains("Open Kernel Module") {
        return Some(true);
    }
    match taint? {
        taint if taint.contains('P') => Some(false),
        taint => taint.contains(['O', 'E']).then_some(true),
    }
}

/// The first word that looks like a driver version: `535.129.03`, `390.48`.
fn version(line: &str) -> Option<String> {
    let is_version = |word: &&str| {
        let lengths: Vec<usize> = word.split('.').map(str::len).collect();
        let digits = word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        digits && matches!(lengths[..], [3 | 4, 2 | 3] | [3 | 4, 2 | 3, 2])
    };
    let mut words = line.split_ascii_whitespace();
    words.find(is_version).map(Into::into)
}

/// A number among the parameters of the loaded driver.
pub fn parameter(host: &Host, name: &str) -> Reading<u64> {
    let path = format!("{DIR}/params");
    tree::read_text(host, &path).and_then(|text| match parse::field(&text, ':', name) {
        Some(value) => tree::parse_u64(value, || path.into()),
        None => Reading::Absent,
    })
}

/// GPUs that the driver lists. A directory stays after its GPU fell off the bus.
pub fn gpus(host: &Host) -> Vec<NvidiaGpu> {
    let gpu = |name: String| {
        let text = tree::read_text(host, format!("{DIR}/gpus/{name}/information"));
        parse_gpu(&name, text.value().map_or("", String::as_str))
    };
    let names = tree::names(host, format!("{DIR}/gpus")).into_iter();
    names.take(MAX_GPUS).map(gpu).collect()
}

/// `information`: `Name: \t value` lines. Before the GPU is initialised, the UUID is of question
/// marks.
fn parse_gpu(directory: &str, text: &str) -> NvidiaGpu {
    let field = |name: &str| parse::field(text, ':', name).and_then(parse::clean);
    NvidiaGpu {
        pci: directory.to_ascii_lowercase(),
        model: field("Model"),
        uuid: field("GPU UUID").filter(|uuid| !uuid.contains('?')),
    }
}

/// nvidia-fs (gds-nvidia-fs, src/nvfs-stat.c).
const FS_DIR: &str = "proc/driver/nvidia-fs";

/// Keys that count errors on any line of the statistics.
const FS_ERRORS: &[&str] = &["err", "io_state_err", "pg-cache-fail", "pg-cache-eio"];

/// Most bridges with ACS taken.
const MAX_BRIDGES: usize = 1024;

/// The module's statistics; absent where the module is not loaded. Statistics that cannot be read
/// leave the version and the bridges.
pub fn filesystem(host: &Host) -> Reading<NvidiaFs> {
    let stats = tree::read_text(host, format!("{FS_DIR}/stats"));
    let module_version = parse::word(host, modules::module_dir("nvidia_fs").join("version"));
    let text = match (&stats, &module_version) {
        (Reading::Value(text), _) => text.as_str(),
        (_, Some(_)) => "",
        _ => return stats.map(|_| NvidiaFs::default()),
    };
    let bridges = tree::read_text(host, format!("{FS_DIR}/bridges"));
    Reading::Value(NvidiaFs {
        version: module_version.or_else(|| driver_version(text)),
        errors: parse_errors(text),
        acs_bridges: parse_bridges(bridges.value().map_or("", String::as_str)),
    })
}

/// `NVFS Driver(version: 2.25.7)`.
fn driver_version(stats: &str) -> Option<String> {
    let mut lines = stats.lines();
    let rest = lines.find_map(|line| line.strip_prefix("NVFS Driver(version:"))?;
    parse::clean(rest.trim_end().trim_end_matches(')'))
}

/// Bridges with ACS on, one PCI address a line.
fn parse_bridges(text: &str) -> Vec<String> {
    let words = text.split_ascii_whitespace();
    let bridges = words.filter_map(|word| word.parse::<Bdf>().ok());
    let bridges = bridges.take(MAX_BRIDGES);
    bridges.map(|bdf| bdf.to_string()).collect()
}

/// Error counts by `Line/key`, such as `Reads/err`. With rw_stats_enabled the same line name comes
/// twice, the second time with bandwidths; of an `Error` line all keys count.
pub fn parse_errors(text: &str) -> BTreeMap<String, u64> {
    let mut errors = BTreeMap::new();
    for (name, rest) in text.lines().filter_map(|line| line.split_once(':')) {
        let name = name.trim();
        if name.is_empty() || name.starts_with("GPU") || name.contains('(') {
            continue;
        }
        let words = rest.split_ascii_whitespace();
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            if (name == "Error" || FS_ERRORS.contains(&key))
                && let Ok(value) = value.parse()
            {
                errors.insert(format!("{name}/{key}"), value);
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    const PROPRIETARY: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)";
    const OPEN: &str = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06  Release Build  (abuild@host)  Thu Jul 11 12:00:00 UTC 2024";
    const OPEN_IN_DISGUISE: &str =
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  515.65.01  Wed Jul 20 14:00:58 UTC 2022";

    #[test]
    fn flavours() {
        for (line, taint, version, open) in [
            (PROPRIETARY, Some("POE"), "535.129.03", Some(false)),
            (PROPRIETARY, None, "535.129.03", None),
            (OPEN, None, "555.42.06", Some(true)),
            (OPEN, Some("OE"), "555.42.06", Some(true)),
            (OPEN_IN_DISGUISE, Some("OE"), "515.65.01", Some(true)),
            (OPEN_IN_DISGUISE, Some(""), "515.65.01", None),
        ] {
            let tree = TestTree::new();
            tree.file("proc/driver/nvidia/version", line);
            if let Some(taint) = taint {
                tree.file("sys/module/nvidia/taint", taint);
            }
            let want = NvidiaDriver {
                version: version.into(),
                open,
            };
            assert_eq!(
                driver(&tree.host()),
                Reading::Value(want),
                "{line} {taint:?}"
            );
        }
    }

    #[test]
    fn missing_and_odd_versions() {
        let tree = TestTree::new();
        assert_eq!(driver(&tree.host()), Reading::Absent);
        tree.file(
            "proc/driver/nvidia/version",
            "collect2: error: ld returned 1",
        );
        assert!(matches!(driver(&tree.host()), Reading::Failed(_)));
        tree.file("sys/module/nvidia/version", "550.54.15");
        let got = driver(&tree.host());
        assert_eq!(got.value().unwrap().version, "550.54.15");
        assert_eq!(got.value().unwrap().open, None);
    }

    #[test]
    fn listed_gpus() {
        let tree = TestTree::new();
        assert!(gpus(&tree.host()).is_empty());
        let dir = "proc/driver/nvidia/gpus";
        tree.file(
            &format!("{dir}/0000:18:00.0/information"),
            "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-11111111-2222-3333-4444-555555555555\nBus Location: \t 0000:18:00.0",
        );
        tree.file(
            &format!("{dir}/0000:2A:00.0/information"),
            "GPU UUID: \t GPU-????????-????-????-????-????????????",
        );
        tree.dir(&format!("{dir}/0000:3a:00.0"));
        let got = gpus(&tree.host());
        assert_eq!(got.len(), 3);
        assert_eq!(got[0].model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
        assert_eq!(
            got[0].uuid.as_deref(),
            Some("GPU-11111111-2222-3333-4444-555555555555")
        );
        assert_eq!((got[1].pci.as_str(), &got[1].uuid), ("0000:2a:00.0", &None));
        assert_eq!((&got[2].model, &got[2].uuid), (&None, &None));
    }

    const PLAIN: &str = "\
GDS Version: 1.14.0.31 
NVFS statistics(ver: 4.0)
NVFS Driver(version: 2.25.7)
Mellanox PeerDirect Supported: True
IO stats: Disabled, peer IO stats: Disabled
Logging level: info

Active Shadow-Buffer (MiB): 0
Active Process: 0
Reads\t\t\t\t: err=1 io_state_err=2
Sparse Reads\t\t\t: n=0 io=0 holes=0 pages=0 
Writes\t\t\t\t: err=0 io_state_err=0 pg-cache=9 pg-cache-fail=3 pg-cache-eio=0
Mmap\t\t\t\t: n=1 ok=1 err=4 munmap=2
Bar1-map\t\t\t: n=1 ok=1 err=0 free=1 callbacks=0 active=0 delay-frees=0
Error\t\t\t\t: cpu-gpu-pages=5 sg-ext=0 dma-map=6 dma-ref=0
Ops\t\t\t\t: Read=0 Write=0 BatchIO=0
GPU 0000:01:00.0  uuid:fb1e6550-2a78-d767-1f0d-7512eb8c552d : Registered_MiB=0 err=7 Cache_MiB=0
";

    const DETAILED: &str = "\
Batches\t: n=10 ok=9 err=1 Avg-Submit-Latency(usec)=3
Reads\t: n=100 ok=99 err=1 readMiB=400 io_state_err=0
Reads\t: Bandwidth(MiB/s)=1200 Avg-Latency(usec)=88
Writes\t: n=5 ok=5 err=0 writeMiB=20 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0
Writes\t: Bandwidth(MiB/s)=100 Avg-Latency(usec)=9
Error\t: cpu-gpu-pages=x sg-ext= dma-map=18446744073709551615 dma-ref=-1
";

    #[test]
    fn errors_of_both_shapes() {
        let got = parse_errors(PLAIN);
        for (name, want) in [
            ("Reads/err", 1),
            ("Reads/io_state_err", 2),
            ("Writes/pg-cache-fail", 3),
            ("Mmap/err", 4),
            ("Error/cpu-gpu-pages", 5),
            ("Error/dma-map", 6),
        ] {
            assert_eq!(got.get(name), Some(&want), "{name}");
        }
        assert_eq!(got.len(), 12);
        assert!(
            !got.contains_key("Writes/pg-cache"),
            "a fallback, not an error"
        );
        let got = parse_errors(DETAILED);
        assert_eq!(got["Batches/err"], 1);
        assert_eq!(got["Reads/err"], 1);
        assert_eq!(got["Error/dma-map"], u64::MAX);
        assert!(!got.contains_key("Error/sg-ext"));
        assert!(parse_errors("\u{0}::=\n: err=1").is_empty());
    }

    #[test]
    fn module_and_files() {
        let tree = TestTree::new();
        assert_eq!(filesystem(&tree.host()), Reading::Absent);
        tree.file("proc/driver/nvidia-fs/stats", PLAIN);
        tree.file(
            "proc/driver/nvidia-fs/bridges",
            "0000:15:01.0\njunk\n0000:16:00.0",
        );
        let got = filesystem(&tree.host());
        let got = got.value().unwrap();
        assert_eq!(got.version.as_deref(), Some("2.25.7"));
        assert_eq!(got.acs_bridges, ["0000:15:01.0", "0000:16:00.0"]);
        tree.file("sys/module/nvidia_fs/version", "2.28.4");
        tree.errno(13, "proc/driver/nvidia-fs/stats");
        let got = filesystem(&tree.host());
        let got = got.value().unwrap();
        assert_eq!(got.version.as_deref(), Some("2.28.4"));
        assert!(got.errors.is_empty());
    }
}
