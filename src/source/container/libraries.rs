//! Finding a shared library as the loader does (ld.so(8)): `LD_LIBRARY_PATH`, `/etc/ld.so.cache`,
//! the default directories. The RUNPATH of whoever loads it is not known here. Of what a library
//! itself needs, only the network's own libraries are looked for: others (CUDA's, the C library's)
//! are in a process that runs NCCL already, wherever it has them from.

use super::{dynamic, elf};
use crate::host::Host;
use crate::observe::container::{Environment, Library};
use crate::observe::reading::Reading;
use crate::source::{machine, tree};
use std::collections::BTreeMap;
use std::path::Path;

/// Most bytes of the cache read; images have some hundred KiB.
const MAX_CACHE: usize = 8 << 20;

/// Most directories of `LD_LIBRARY_PATH`, and of one RUNPATH, looked into.
const MAX_DIRECTORIES: usize = 2048;

/// Begins the cache's present format (sysdeps/generic/dl-cache.h).
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// The cache's header and one entry, in bytes.
const CACHE_HEADER: usize = 48;
const CACHE_ENTRY: usize = 24;

/// Most bytes read of a library.
const MAX_LIBRARY: usize = 32 << 20;

/// Beginnings of the libraries that a plugin brings along or misses.
const NETWORK: &[&str] = &[
    "libfabric.so",
    "libibverbs.so",
    "libmlx5.so",
    "librdmacm.so",
    "libefa.so",
    "libucp.so",
    "libuct.so",
    "libucs.so",
    "libsharp",
    "libnl-",
];

/// Directories that the loader looks into at the end.
const DEFAULT: &[&str] = &[
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib",
    "/usr/lib",
];

/// What the loader would find for each of `names`.
pub fn find(host: &Host, environment: &Environment, names: &[String]) -> BTreeMap<String, Library> {
    let cache = tree::read_bytes(host, "etc/ld.so.cache", MAX_CACHE);
    let own = environment.get("LD_LIBRARY_PATH").unwrap_or_default();
    let mut own = own
        .split([':', ';'])
        .filter(|directory| directory.starts_with('/'));
    let search = Search {
        host,
        own: own.by_ref().take(MAX_DIRECTORIES).map(Into::into).collect(),
        cut: own.next().is_some(),
        cache: cache
            .value()
            .map(|bytes| parse_cache(bytes))
            .unwrap_or_default(),
        arch: machine::arch(host),
    };
    names
        .iter()
        .map(|name| (name.clone(), search.library(name)))
        .collect()
}

/// Whether there is a dynamic loader here: an image that holds nothing but a static program is not
/// the one that NCCL will run in.
pub fn has_loader(host: &Host) -> bool {
    [
        "etc/ld.so.cache",
        "lib64/ld-linux-x86-64.so.2",
        "lib/ld-linux-aarch64.so.1",
        "lib/ld-musl-x86_64.so.1",
        "lib/ld-musl-aarch64.so.1",
    ]
    .iter()
    .any(|path| tree::exists(host, path))
}

struct Search<'a> {
    host: &'a Host,
    /// Of `LD_LIBRARY_PATH`.
    own: Vec<String>,
    /// Whether it has more directories than are looked into.
    cut: bool,
    cache: BTreeMap<String, Vec<String>>,
    arch: Option<String>,
}

impl Search<'_> {
    /// A library, and of the network's libraries those that it needs.
    fn library(&self, name: &str) -> Library {
        let found = self.file(name, &[]);
        let Library::Usable { path } = &found else {
            return found;
        };
        let file = tree::read_bytes(self.host, path.trim_start_matches('/'), MAX_LIBRARY);
        let Some(dynamic) = file.value().and_then(|file| dynamic::parse(file)) else {
            return found;
        };
        let origin = Path::new(path).parent().map(Path::display);
        let origin = origin.map_or(String::new(), |origin| origin.to_string());
        let runpath: Vec<String> = dynamic
            .runpath
            .iter()
            .flat_map(|runpath| runpath.split(':'))
            .map(|directory| {
                directory
                    .replace("$ORIGIN", &origin)
                    .replace("${ORIGIN}", &origin)
            })
            .filter(|directory| directory.starts_with('/'))
            .take(MAX_DIRECTORIES)
            .collect();
        let missing = dynamic.needed.iter().find_map(|needed| {
            let network = NETWORK.iter().any(|known| needed.starts_with(known));
            match self.file(needed, &runpath) {
                Library::Usable { .. } => None,
                Library::Unusable { path, why } if network => {
                    Some(format!("it needs {needed}, and {path}: {why}"))
                }
                Library::Unknown { .. } => None,
                _ if network => Some(format!(
                    "it needs {needed}, which is nowhere where the loader looks"
                )),
                _ => None,
            }
        });
        match missing {
            Some(why) => Library::Unusable {
                path: path.clone(),
                why,
            },
            None => found,
        }
    }

    /// A file of this name that the loader would take; `more`: directories between the process'
    /// own and the cache.
    fn file(&self, name: &str, more: &[String]) -> Library {
        let mut candidates: Vec<String> = Vec::new();
        if name.contains('/') {
            candidates.push(name.to_string());
        } else {
            let below = |directory: &str| format!("{}/{name}", directory.trim_end_matches('/'));
            candidates.extend(self.own.iter().chain(more).map(|d| below(d)));
            candidates.extend(self.cache.get(name).into_iter().flatten().cloned());
            candidates.extend(DEFAULT.iter().map(|d| below(d)));
        }
        let mut refused = None;
        for path in candidates {
            let relative = path.trim_start_matches('/');
            if relative.is_empty() || !tree::exists(self.host, relative) {
                continue;
            }
            let why = match head_of(self.host, relative) {
                Ok(head) => elf::objection(&head, self.arch.as_deref()),
                Err(why) => Some(why),
            };
            match why {
                None => return Library::Usable { path },
                // The loader goes on where a library is of another machine, and gives up where it
                // is broken; the first one found is the one to mend.
                Some(why) => {
                    refused.get_or_insert(Library::Unusable { path, why });
                }
            }
        }
        if self.cut && !name.contains('/') {
            return Library::Unknown {
                why: format!(
                    "{name} is not in the first {MAX_DIRECTORIES} directories of LD_LIBRARY_PATH, which has more"
                ),
            };
        }
        refused.unwrap_or(Library::Missing {
            directories: self.own.len() + more.len() + DEFAULT.len(),
        })
    }
}

fn head_of(host: &Host, path: &str) -> Result<Vec<u8>, String> {
    if !tree::is_file(host, path) {
        // Links below another root point out of it, and still are the container's own.
        return Err("no regular file behind the name".into());
    }
    match tree::read_bytes(host, Path::new(path), elf::HEADER) {
        Reading::Value(head) => Ok(head),
        Reading::Failed(fault) => Err(fault.detail),
        _ => Err("cannot be read".into()),
    }
}

/// Paths by soname.
pub fn parse_cache(bytes: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // An old header may stand in front; offsets count from the new one.
    let Some(start) = memchr::memmem::find(bytes, MAGIC) else {
        return paths;
    };
    let bytes = bytes.get(start..).unwrap_or_default();
    let word = |at: usize| -> Option<usize> {
        let word = bytes.get(at..at.checked_add(4)?)?;
        usize::try_from(u32::from_le_bytes(word.try_into().ok()?)).ok()
    };
    let text = |at: usize| -> Option<String> {
        let rest = bytes.get(at..)?;
        let rest = rest.get(..rest.len().min(4096))?;
        let end = memchr::memchr(0, rest)?;
        Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
    };
    let count = word(MAGIC.len()).unwrap_or(0);
    let most = bytes.len().saturating_sub(CACHE_HEADER) / CACHE_ENTRY;
    for entry in 0..count.min(most) {
        let at = CACHE_HEADER + entry * CACHE_ENTRY;
        if let (Some(key), Some(value)) = (word(at + 4), word(at + 8))
            && let (Some(key), Some(value)) = (text(key), text(value))
        {
            paths.entry(key).or_default().push(value);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;
    use proptest::prelude::*;

    fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut table = Vec::new();
        let base = CACHE_HEADER + entries.len() * CACHE_ENTRY;
        for (key, value) in entries {
            table.extend(3i32.to_le_bytes());
            for text in [key, value] {
                table.extend(u32::try_from(base + strings.len()).unwrap().to_le_bytes());
                strings.extend(text.bytes());
                strings.push(0);
            }
            table.extend([0; 12]);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
        bytes.resize(CACHE_HEADER, 0);
        bytes.extend(table);
        bytes.extend(strings);
        bytes
    }

    fn with(variables: &[(&str, &str)]) -> Environment {
        Environment {
            variables: variables
                .iter()
                .map(|(n, v)| ((*n).to_string(), (*v).to_string()))
                .collect(),
            ..Environment::default()
        }
    }

    fn found(tree: &TestTree, environment: &Environment, name: &str) -> Library {
        let names = [name.to_string()];
        find(&tree.host(), environment, &names)
            .remove(name)
            .unwrap()
    }

    #[test]
    fn where_the_loader_looks() {
        let tree = TestTree::bare();
        tree.file("proc/sys/kernel/arch", "x86_64");
        let none = Environment::default();
        let missing = |library| matches!(library, Library::Missing { .. });
        assert!(missing(found(&tree, &none, "libnccl-net.so")));
        tree.bytes("opt/ofi/lib/libnccl-net.so", &elf::head(62));
        assert!(missing(found(&tree, &none, "libnccl-net.so")));
        let at = |path: &str| Library::Usable { path: path.into() };
        assert_eq!(
            found(
                &tree,
                &with(&[("LD_LIBRARY_PATH", ":/nowhere:/opt/ofi/lib/")]),
                "libnccl-net.so"
            ),
            at("/opt/ofi/lib/libnccl-net.so")
        );
        tree.bytes(
            "etc/ld.so.cache",
            &cache(&[
                ("libx.so", "/x"),
                ("libnccl-net.so", "/opt/ofi/lib/libnccl-net.so"),
            ]),
        );
        assert_eq!(
            found(&tree, &none, "libnccl-net.so"),
            at("/opt/ofi/lib/libnccl-net.so")
        );
        assert_eq!(
            found(&tree, &none, "/opt/ofi/lib/libnccl-net.so"),
            at("/opt/ofi/lib/libnccl-net.so")
        );
        tree.bytes("usr/lib64/liby.so", &elf::head(62));
        assert_eq!(found(&tree, &none, "liby.so"), at("/usr/lib64/liby.so"));
    }

    #[test]
    fn a_long_list_of_directories() {
        let tree = TestTree::bare();
        tree.file("proc/sys/kernel/arch", "x86_64");
        tree.bytes("opt/far/libx.so", &elf::head(62));
        for (before, want) in [(70, "usable"), (MAX_DIRECTORIES, "unknown")] {
            let path = format!("{}/opt/far", "/nowhere:".repeat(before));
            let environment = with(&[("LD_LIBRARY_PATH", &path)]);
            let got = match found(&tree, &environment, "libx.so") {
                Library::Usable { .. } => "usable",
                Library::Unknown { .. } => "unknown",
                other => panic!("{other:?}"),
            };
            assert_eq!(got, want, "{before}");
        }
    }

    #[test]
    fn what_it_refuses() {
        let tree = TestTree::bare();
        let none = Environment::default();
        tree.file("usr/lib/liba.so", "INPUT(libb.so)");
        tree.link("usr/lib/libl.so", "libgone.so");
        tree.dir("usr/lib/libd.so");
        for (name, want) in [
            ("liba.so", "no ELF file"),
            ("libl.so", "no regular file behind the name"),
            ("libd.so", "no regular file behind the name"),
        ] {
            match found(&tree, &none, name) {
                Library::Unusable { why, .. } => assert_eq!(why, want, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
        // Another directory has a good one.
        tree.bytes("opt/liba.so", &elf::head(62));
        assert!(matches!(
            found(&tree, &with(&[("LD_LIBRARY_PATH", "/opt")]), "liba.so"),
            Library::Usable { .. }
        ));
    }

    #[test]
    fn what_a_plugin_needs() {
        let tree = TestTree::bare();
        let path = "opt/ofi/lib/libnccl-net.so";
        let environment = with(&[("LD_LIBRARY_PATH", "/opt/ofi/lib")]);
        let needs = |needed: &[&str], runpath| {
            tree.bytes(path, &dynamic::library(62, needed, runpath));
            found(&tree, &environment, "libnccl-net.so")
        };
        let usable = |library| matches!(library, Library::Usable { .. });
        // CUDA's libraries are in the process already.
        assert!(usable(needs(&["libcudart.so.12", "libc.so.6"], None)));
        match needs(&["libfabric.so.1"], None) {
            Library::Unusable { path, why } => {
                assert_eq!(path, "/opt/ofi/lib/libnccl-net.so");
                assert!(why.contains("libfabric.so.1"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        tree.bytes("opt/efa/lib/libfabric.so.1", &elf::head(62));
        assert!(!usable(needs(&["libfabric.so.1"], None)));
        assert!(usable(needs(
            &["libfabric.so.1"],
            Some("/x:$ORIGIN/../../efa/lib")
        )));
        tree.bytes("opt/efa/lib/libfabric.so.1", b"");
        assert!(!usable(needs(&["libfabric.so.1"], Some("/opt/efa/lib"))));
    }

    #[test]
    fn the_cache_of_this_machine() {
        let host = Host::new("/");
        if let Reading::Value(bytes) = tree::read_bytes(&host, "etc/ld.so.cache", MAX_CACHE) {
            let paths = parse_cache(&bytes);
            assert!(paths.contains_key("libc.so.6"), "{} names", paths.len());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_cache(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), count in any::<u32>()) {
            parse_cache(&bytes);
            let mut head = MAGIC.to_vec();
            head.extend(count.to_le_bytes());
            head.append(&mut bytes);
            parse_cache(&head);
        }
    }
}
