//! Finding a shared library as the loader does (ld.so(8)): `LD_LIBRARY_PATH`, `/etc/ld.so.cache`,
//! the default directories. The RUNPATH of whoever loads it is not known here.

use super::elf;
use crate::host::Host;
use crate::observe::container::{Environment, Library};
use crate::observe::reading::Reading;
use crate::source::{machine, tree};
use std::collections::BTreeMap;
use std::path::Path;

/// Most bytes of the cache read; images have some hundred KiB.
const MAX_CACHE: usize = 8 << 20;

/// Most directories of `LD_LIBRARY_PATH` looked into.
const MAX_DIRECTORIES: usize = 64;

/// Begins the cache's present format (sysdeps/generic/dl-cache.h).
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// The cache's header and one entry, in bytes.
const CACHE_HEADER: usize = 48;
const CACHE_ENTRY: usize = 24;

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
    let cache = cache.value().map(|bytes| parse_cache(bytes));
    let arch = machine::arch(host);
    names
        .iter()
        .map(|name| {
            let found = one(host, environment, cache.as_ref(), arch.as_deref(), name);
            (name.clone(), found)
        })
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

fn one(
    host: &Host,
    environment: &Environment,
    cache: Option<&BTreeMap<String, Vec<String>>>,
    arch: Option<&str>,
    name: &str,
) -> Library {
    let own = environment.get("LD_LIBRARY_PATH").unwrap_or_default();
    let directories: Vec<&str> = own
        .split([':', ';'])
        .filter(|directory| directory.starts_with('/'))
        .take(MAX_DIRECTORIES)
        .chain(DEFAULT.iter().copied())
        .collect();
    let own_count = directories.len() - DEFAULT.len();
    let mut candidates: Vec<String> = Vec::new();
    if name.contains('/') {
        candidates.push(name.to_string());
    } else {
        let (own, default) = directories.split_at(own_count);
        let below = |directory: &&str| format!("{}/{name}", directory.trim_end_matches('/'));
        candidates.extend(own.iter().map(below));
        candidates.extend(
            cache
                .and_then(|cache| cache.get(name))
                .into_iter()
                .flatten()
                .cloned(),
        );
        candidates.extend(default.iter().map(below));
    }
    let mut refused = None;
    for path in candidates {
        let relative = path.trim_start_matches('/');
        if relative.is_empty() || !tree::exists(host, relative) {
            continue;
        }
        let why = match head_of(host, relative) {
            Ok(head) => elf::objection(&head, arch),
            Err(why) => Some(why),
        };
        match why {
            None => return Library::Usable { path },
            // The loader goes on to the next directory where a library is of another machine, and
            // gives up where it is broken; the first one found is the one to mend.
            Some(why) => {
                refused.get_or_insert(Library::Unusable { path, why });
            }
        }
    }
    refused.unwrap_or(Library::Missing {
        directories: directories.len(),
    })
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
