//! The NVIDIA driver's own files: `/proc/driver/nvidia`.

use crate::host::Host;
use crate::observe::gpudirect::{NvidiaDriver, NvidiaGpu};
use crate::observe::reading::Reading;
use crate::source::modules::module_dir;
use crate::source::{parse, tree};

const DIR: &str = "proc/driver/nvidia";

const MAX_GPUS: usize = 128;

/// Version and flavour. The module's own version serves where the driver's file is missing or odd.
pub fn driver(host: &Host) -> Reading<NvidiaDriver> {
    let dir = module_dir("nvidia");
    let module_version = parse::word(host, dir.join("version")).and_then(|v| version(&v));
    let taint = parse::word(host, dir.join("taint"));
    let told = tree::read_text(host, format!("{DIR}/version"));
    let line = told.value().and_then(|text| text.lines().next());
    let found = line.and_then(version).or(module_version);
    match found {
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
}
