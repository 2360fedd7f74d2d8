//! Kernel modules: `/sys/module/<name>` and `/proc/modules`.

use crate::host::Host;
use crate::observe::{MODULES_OF_INTEREST, Module, Reading};
use crate::source::{parse, tree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Directory of a module below the root.
pub fn module_dir(name: &str) -> PathBuf {
    Path::new("sys/module").join(name)
}

/// Loaded modules among those of interest. A built-in one has a directory too, without
/// `initstate`; `/proc/modules` serves where `/sys/module` is missing.
pub fn read(host: &Host) -> Reading<BTreeMap<String, Module>> {
    let listed = tree::read_text(host, "proc/modules").map(|text| parse(&text));
    let directory = tree::exists(host, "sys/module");
    if !directory && listed.value().is_none() {
        return listed;
    }
    let mut listed = listed.into_value().unwrap_or_default();
    let mut modules = BTreeMap::new();
    for name in MODULES_OF_INTEREST.split(' ') {
        let dir = module_dir(name);
        let mut module = listed.remove(name);
        if tree::exists(host, &dir) {
            let module = module.get_or_insert_with(Module::default);
            let read = |file: &str| parse::word(host, dir.join(file));
            module.version = read("version");
            module.taint = read("taint").or(module.taint.take());
            module.state = read("initstate").or(module.state.take());
        }
        if let Some(module) = module {
            modules.insert((*name).to_string(), module);
        }
    }
    Reading::Value(modules)
}

/// `/proc/modules` (kernel/module/procfs.c): name, size, references, users, state, address, and
/// taint letters in brackets.
pub fn parse(text: &str) -> BTreeMap<String, Module> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(String, Module)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let name = words.first().filter(|_| words.len() >= 5)?;
    let state = words.get(4).map(|state| match *state {
        "Loading" => "coming".to_string(),
        "Unloading" => "going".to_string(),
        other => other.to_lowercase(),
    });
    let last = words.get(5..).and_then(<[&str]>::last);
    let taint = last.and_then(|word| word.strip_prefix('(')?.strip_suffix(')'));
    let module = Module {
        version: None,
        taint: taint.map(Into::into),
        state,
    };
    Some(((*name).to_string(), module))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    const LISTED: &str = "\
nvidia_peermem 16384 0 - Live 0xffffffffc1a2b000 (POE)
nvidia 62779392 1 nvidia_peermem, Live 0xffffffffc1a2b000 (POE)
gdrdrv 24576 0 - Loading 0x0000000000000000
ext4 1000 1 - Live 0x0
torn 12";

    #[test]
    fn listed_modules() {
        let tree = TestTree::bare();
        assert_eq!(read(&tree.host()), Reading::Absent);
        tree.file("proc/modules", LISTED);
        let Reading::Value(got) = read(&tree.host()) else {
            panic!("not read");
        };
        assert_eq!(
            got.keys().collect::<Vec<_>>(),
            ["gdrdrv", "nvidia", "nvidia_peermem"]
        );
        assert_eq!(got["nvidia"].taint.as_deref(), Some("POE"));
        assert_eq!(got["nvidia"].state.as_deref(), Some("live"));
        assert_eq!(got["gdrdrv"].state.as_deref(), Some("coming"));
        assert_eq!(got["gdrdrv"].taint, None);
    }

    #[test]
    fn module_directories() {
        let tree = TestTree::new();
        tree.files(
            "sys/module/nvidia_fs",
            &[
                ("version", "2.28.4"),
                ("taint", "OE"),
                ("initstate", "live"),
            ],
        );
        tree.dir("sys/module/ib_core/parameters");
        tree.dir("sys/module/ext4");
        let Reading::Value(got) = read(&tree.host()) else {
            panic!("not read");
        };
        assert_eq!(got.keys().collect::<Vec<_>>(), ["ib_core", "nvidia_fs"]);
        assert_eq!(got["nvidia_fs"].version.as_deref(), Some("2.28.4"));
        assert_eq!(got["nvidia_fs"].taint.as_deref(), Some("OE"));
        assert_eq!(got["ib_core"], Module::default());
    }

    #[test]
    fn none_loaded_is_a_value() {
        let tree = TestTree::bare();
        tree.file("proc/modules", "");
        assert_eq!(read(&tree.host()), Reading::Value(BTreeMap::new()));
    }
}
