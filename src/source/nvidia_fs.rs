//! `/proc/driver/nvidia-fs` (gds-nvidia-fs, src/nvfs-stat.c).

use crate::host::Host;
use crate::observe::gpudirect::NvidiaFs;
use crate::observe::reading::Reading;
use crate::source::modules::module_dir;
use crate::source::{parse, tree};
use crate::units::Bdf;
use std::collections::BTreeMap;

const DIR: &str = "proc/driver/nvidia-fs";

/// Keys that count errors on any line of the statistics.
const ERRORS: &[&str] = &["err", "io_state_err", "pg-cache-fail", "pg-cache-eio"];

/// Most bridges with ACS taken.
const MAX_BRIDGES: usize = 1024;

/// The module's statistics; absent where the module is not loaded. Statistics that cannot be read
/// leave the version and the bridges.
pub fn read(host: &Host) -> Reading<NvidiaFs> {
    let stats = tree::read_text(host, format!("{DIR}/stats"));
    let module_version = parse::word(host, module_dir("nvidia_fs").join("version"));
    let text = match (&stats, &module_version) {
        (Reading::Value(text), _) => text.as_str(),
        (_, Some(_)) => "",
        _ => return stats.map(|_| NvidiaFs::default()),
    };
    let bridges = tree::read_text(host, format!("{DIR}/bridges"));
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
    bridges
        .take(MAX_BRIDGES)
        .map(|bdf| bdf.to_string())
        .collect()
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
            if (name == "Error" || ERRORS.contains(&key))
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
        assert_eq!(read(&tree.host()), Reading::Absent);
        tree.file("proc/driver/nvidia-fs/stats", PLAIN);
        tree.file(
            "proc/driver/nvidia-fs/bridges",
            "0000:15:01.0\njunk\n0000:16:00.0",
        );
        let got = read(&tree.host());
        let got = got.value().unwrap();
        assert_eq!(got.version.as_deref(), Some("2.25.7"));
        assert_eq!(got.acs_bridges, ["0000:15:01.0", "0000:16:00.0"]);
        tree.file("sys/module/nvidia_fs/version", "2.28.4");
        tree.errno(13, "proc/driver/nvidia-fs/stats");
        let got = read(&tree.host());
        let got = got.value().unwrap();
        assert_eq!(got.version.as_deref(), Some("2.28.4"));
        assert!(got.errors.is_empty());
    }
}
