//! Finds a shared library as the loader does (ld.so(8)): `LD_LIBRARY_PATH`, `/etc/ld.so.cache`, the
//! default directories. The RUNPATH of the program that loads it is unknown here. Of the libraries
//! that a library itself needs, only the network's own are searched: a process that runs NCCL
//! already has the others (CUDA's, the C library's).

use crate::host::Host;
use crate::observe::{Environment, Library, Reading};
use crate::source::{machine, tree};
use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::string_table::StringTable;
use elf::{ElfBytes, abi};
use std::{collections::BTreeMap, path::Path};

/// Bytes of the cache that are read at most; images have some hundred KiB.
const MAX_CACHE: usize = 8 << 20;

/// Starts the cache's present format (sysdeps/generic/dl-cache.h).
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// Sizes of the cache's header and of one entry, in bytes.
const CACHE_HEADER: usize = 48;
const CACHE_ENTRY: usize = 24;

/// Bytes of a library that are read at most.
const MAX_LIBRARY: usize = 32 << 20;

/// Bytes of a 64-bit ELF header.
const HEADER: usize = 64;

/// Prefixes of the libraries that a network plugin needs.
const NETWORK: &str = "libfabric.so libibverbs.so libmlx5.so librdmacm.so libefa.so libucp.so libuct.so \
    libucs.so libsharp libnl-";

/// Directories that the loader searches last.
const DEFAULT: &str = "/lib64 /usr/lib64 /lib/x86_64-linux-gnu /usr/lib/x86_64-linux-gnu \
    /lib/aarch64-linux-gnu /usr/lib/aarch64-linux-gnu /lib /usr/lib";
/// The cache that the loader searches, and loaders themselves.
const LOADERS: &str = "etc/ld.so.cache lib64/ld-linux-x86-64.so.2 lib/ld-linux-aarch64.so.1 \
    lib/ld-musl-x86_64.so.1 lib/ld-musl-aarch64.so.1";

/// Searches for each of `names`.
pub(crate) fn find(
    host: &Host,
    environment: &Environment,
    names: &[String],
) -> BTreeMap<String, Library> {
    let own = environment.get("LD_LIBRARY_PATH").unwrap_or_default();
    let cache = tree::read_bytes(host, "etc/ld.so.cache", MAX_CACHE);
    let search = Search {
        host,
        own: absolute(own.split([':', ';']).map(str::to_string)),
        cache: cache.value().map(|c| parse_cache(c)).unwrap_or_default(),
        arch: machine::arch(host),
    };
    let found = |name: &String| (name.clone(), search.library(name));
    names.iter().map(found).collect()
}

fn absolute(directories: impl Iterator<Item = String>) -> Vec<String> {
    directories.filter(|path| path.starts_with('/')).collect()
}

/// Whether the image has a dynamic loader: one that holds nothing but a static program is not the
/// image that NCCL will run in.
pub(crate) fn has_loader(host: &Host) -> bool {
    let mut loaders = LOADERS.split(' ');
    loaders.any(|path| tree::exists(host, path))
}

struct Search<'a> {
    host: &'a Host,
    /// Directories of `LD_LIBRARY_PATH`, in order.
    own: Vec<String>,
    /// Paths by library name, from `/etc/ld.so.cache`.
    cache: BTreeMap<String, Vec<String>>,
    arch: Option<String>,
}

impl Search<'_> {
    /// A library together with the network libraries that it needs.
    fn library(&self, name: &str) -> Library {
        let (found, file) = self.file(name, &[]);
        let (Library::Usable { path }, Some(dynamic)) = (&found, dynamic(&file)) else {
            return found;
        };
        let origin = Path::new(path).parent().unwrap_or(Path::new("/"));
        let origin = origin.to_string_lossy();
        let runpath = dynamic.runpath.unwrap_or_default();
        let runpath = runpath.replace("$ORIGIN", &origin);
        let runpath = runpath.replace("${ORIGIN}", &origin);
        let runpath = absolute(runpath.split(':').map(str::to_string));
        let is_network =
            |needed: &&String| NETWORK.split(' ').any(|known| needed.starts_with(known));
        for needed in dynamic.needed.iter().filter(is_network) {
            let why = match self.file(needed, &runpath).0 {
                Library::Usable { .. } => continue,
                Library::Unusable { path, why } => format!("it needs {needed}, and {path}: {why}"),
                Library::Missing => {
                    format!("it needs {needed}, which is not where the loader looks")
                }
            };
            let path = path.clone();
            return Library::Unusable { path, why };
        }
        found
    }

    /// A file of this name that the loader would accept, with its contents; `runpath` is searched
    /// between the process' own directories and the cache.
    fn file(&self, name: &str, runpath: &[String]) -> (Library, Vec<u8>) {
        let mut candidates = vec![name.to_string()];
        if !name.contains('/') {
            let below = |directory: &str| format!("{}/{name}", directory.trim_end_matches('/'));
            candidates = self.own.iter().chain(runpath).map(|d| below(d)).collect();
            candidates.extend(self.cache.get(name).into_iter().flatten().cloned());
            candidates.extend(DEFAULT.split(' ').map(below));
        }
        let mut rejected = Library::Missing;
        for path in candidates {
            let why = match tree::read_regular(self.host, &path, MAX_LIBRARY) {
                Reading::Absent => continue,
                Reading::Value(file) => match objection(&file, self.arch.as_deref()) {
                    None => return (Library::Usable { path }, file),
                    Some(why) => why,
                },
                Reading::Failed(fault) => fault.detail,
                Reading::NotObservable => "cannot be read".into(),
            };
            // The loader skips a library of another machine and stops at a broken one: report the
            // first that it would meet.
            if rejected == Library::Missing {
                rejected = Library::Unusable { path, why };
            }
        }
        (rejected, Vec::new())
    }
}

/// Why the loader rejects a file, judged by its ELF header; `None` if nothing speaks against it.
pub fn objection(file: &[u8], arch: Option<&str>) -> Option<String> {
    let head = file.get(..HEADER);
    let (ident, tail) = match head.and_then(|head| head.split_at_checked(abi::EI_NIDENT)) {
        _ if file.is_empty() => return Some("the file is empty".into()),
        _ if !file.starts_with(&abi::ELFMAGIC) => return Some("not an ELF file".into()),
        None => return Some("truncated".into()),
        Some(parts) => parts,
    };
    let header = parse_ident::<AnyEndian>(ident);
    let header = match header.and_then(|ident| FileHeader::parse_tail(ident, tail)) {
        Ok(header) => header,
        Err(error) => return Some(error.to_string()),
    };
    // All machines with these NICs and GPUs are 64-bit and little-endian.
    let wanted = match arch {
        Some("x86_64") => abi::EM_X86_64,
        Some("aarch64") => abi::EM_AARCH64,
        _ => header.e_machine,
    };
    let built_for = || elf::to_str::e_machine_to_human_str(header.e_machine);
    Some(match header.e_machine {
        _ if header.class != Class::ELF64 => "a 32-bit library".into(),
        _ if header.endianness != AnyEndian::Little => "a big-endian library".into(),
        _ if header.e_type != abi::ET_DYN => "not a shared library".into(),
        machine if machine == wanted => return None,
        _ => format!("built for {}", built_for().unwrap_or("another machine")),
    })
}

/// What a library asks of the loader.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// Libraries of `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// `DT_RUNPATH`, else `DT_RPATH`, as written: `$ORIGIN` is the library's own directory.
    pub runpath: Option<String>,
}

/// The dynamic section; `None` if the file is truncated or inconsistent.
pub fn dynamic(file: &[u8]) -> Option<Dynamic> {
    let elf = ElfBytes::<AnyEndian>::minimal_parse(file).ok()?;
    let entries = elf.dynamic().ok()??.iter();
    let entries: Vec<(i64, u64)> = entries
        .map(|entry| (entry.d_tag, entry.d_val()))
        .take_while(|(tag, _)| *tag != abi::DT_NULL)
        .collect();
    let values = |wanted: i64| {
        let entries = entries.iter().filter(move |(tag, _)| *tag == wanted);
        entries.map(|(_, value)| *value)
    };
    // The string table's address is the one in memory; segments map it to the file.
    let strings = values(abi::DT_STRTAB).next()?;
    let load = elf.segments()?.iter().find(|segment| {
        let offset = strings.checked_sub(segment.p_vaddr);
        segment.p_type == abi::PT_LOAD && offset.is_some_and(|at| at < segment.p_filesz)
    })?;
    let start = load.p_offset.checked_add(strings - load.p_vaddr)?;
    let strings = StringTable::new(file.get(usize::try_from(start).ok()?..)?);
    let text = |at: u64| strings.get(usize::try_from(at).ok()?).ok();
    let runpath = values(abi::DT_RUNPATH).chain(values(abi::DT_RPATH)).next();
    // Entries may all name one long string: copies of it would take far more than the file.
    let mut room = file.len();
    let needed = values(abi::DT_NEEDED).map(|at| {
        let name = text(at)?;
        room = room.checked_sub(name.len())?;
        Some(name.to_string())
    });
    Some(Dynamic {
        needed: needed.collect::<Option<_>>()?,
        runpath: runpath.map_or(Some(None), |at| Some(Some(text(at)?.to_string())))?,
    })
}

/// Paths by library name.
pub fn parse_cache(bytes: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // A header of the old format may precede; offsets count from the new one.
    let start = memchr::memmem::find(bytes, MAGIC).unwrap_or(bytes.len());
    let bytes = bytes.get(start..).unwrap_or_default();
    let word = |at: usize| -> Option<usize> {
        let word = bytes.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*word)).ok()
    };
    // Entries may all name one long string: copies of it would take far more time and memory than the file.
    // As the loader's own program writes it, only tails of strings are shared.
    let mut room = 2 * bytes.len();
    let mut text = |at: usize| -> Option<String> {
        let rest = bytes.get(at..).filter(|_| room > 0)?;
        let end = memchr::memchr(0, rest);
        room = room.saturating_sub(end.unwrap_or(rest.len()) + 1);
        Some(String::from_utf8_lossy(rest.get(..end?)?).into_owned())
    };
    let count = word(MAGIC.len()).unwrap_or(0);
    for at in (CACHE_HEADER..bytes.len()).step_by(CACHE_ENTRY).take(count) {
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
    use super::super::testing;
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
        let missing = |library| matches!(library, Library::Missing);
        assert!(missing(found(&tree, &none, "libnccl-net.so")));
        tree.bytes("opt/ofi/lib/libnccl-net.so", &testing::head(62));
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
        tree.bytes("usr/lib64/liby.so", &testing::head(62));
        assert_eq!(found(&tree, &none, "liby.so"), at("/usr/lib64/liby.so"));
    }

    #[test]
    fn a_long_list_of_directories() {
        let tree = TestTree::bare();
        tree.file("proc/sys/kernel/arch", "x86_64");
        tree.bytes("opt/far/libx.so", &testing::head(62));
        let path = format!("{}/opt/far", "/nowhere:".repeat(3000));
        let environment = with(&[("LD_LIBRARY_PATH", &path)]);
        let got = found(&tree, &environment, "libx.so");
        assert!(matches!(got, Library::Usable { .. }), "{got:?}");
    }

    #[test]
    fn what_the_loader_rejects() {
        let good = testing::head(62);
        assert_eq!(objection(&good, Some("x86_64")), None);
        assert_eq!(objection(&good, None), None);
        assert_eq!(objection(&testing::head(183), Some("aarch64")), None);
        let with = |at: usize, byte: u8| {
            let mut head = testing::head(62);
            head[at] = byte;
            objection(&head, Some("x86_64")).unwrap()
        };
        assert_eq!(with(4, 1), "a 32-bit library");
        assert_eq!(with(5, 2), "a big-endian library");
        assert_eq!(with(16, 2), "not a shared library");
        assert!(with(18, 183).starts_with("built for "));
        assert_eq!(objection(b"", None).unwrap(), "the file is empty");
        assert_eq!(objection(b"#!/bin/sh", None).unwrap(), "not an ELF file");
        assert_eq!(objection(b"\x7fELF", None).unwrap(), "truncated");
    }

    #[test]
    fn dynamic_sections() {
        let file = testing::library(62, &["libfabric.so.1", "libc.so.6"], Some("$ORIGIN/../lib"));
        let got = dynamic(&file).unwrap();
        assert_eq!(got.needed, ["libfabric.so.1", "libc.so.6"]);
        assert_eq!(got.runpath.as_deref(), Some("$ORIGIN/../lib"));
        assert_eq!(
            dynamic(&testing::library(62, &[], None)),
            Some(Dynamic::default())
        );
        for cut in 0..file.len() {
            let got = dynamic(&file[..cut]);
            assert!(got.is_none(), "{cut}: {got:?}");
        }
        let host = Host::new("/");
        let path = "lib/x86_64-linux-gnu/libm.so.6";
        if let Reading::Value(file) = tree::read_bytes(&host, path, MAX_LIBRARY) {
            let got = dynamic(&file).expect("a dynamic section");
            assert!(got.needed.iter().any(|name| name == "libc.so.6"), "{got:?}");
        }
    }

    /// Every entry names the same long string.
    #[test]
    fn names_take_no_more_than_the_file() {
        let long = "x".repeat(4000);
        let mut strings = vec![("a", "b"); 500];
        strings.insert(0, (&*long, "/lib"));
        let mut file = cache(&strings);
        let first = file[CACHE_HEADER + 4..CACHE_HEADER + 8].to_vec();
        for entry in 1..strings.len() {
            let at = CACHE_HEADER + entry * CACHE_ENTRY;
            file.splice(at + 8..at + 12, first.clone());
        }
        let taken: usize = parse_cache(&file).values().flatten().map(String::len).sum();
        assert!(
            taken > 0 && taken <= 3 * file.len(),
            "{taken} of {}",
            file.len()
        );

        let mut file = testing::library(62, &vec![&*long; 60], None);
        assert_eq!(dynamic(&file).unwrap().needed.len(), 60);
        let entries = 64 + 2 * 56;
        for entry in 0..60 {
            // All of them name the first string, which now ends with the last: 240,000 bytes each.
            file.splice(
                entries + entry * 16 + 8..entries + entry * 16 + 16,
                1u64.to_le_bytes(),
            );
        }
        let table = file.len() - 60 * (long.len() + 1);
        for name in 1..60 {
            file[table + name * (long.len() + 1) - 1] = b'x';
        }
        assert_eq!(dynamic(&file), None);
    }

    #[test]
    fn what_it_refuses() {
        let tree = TestTree::bare();
        let none = Environment::default();
        tree.file("usr/lib/liba.so", "INPUT(libb.so)");
        tree.link("usr/lib/libl.so", "libgone.so");
        tree.dir("usr/lib/libd.so");
        for (name, want) in [
            ("liba.so", "not an ELF file"),
            ("libl.so", "not a regular file"),
            ("libd.so", "not a regular file"),
        ] {
            match found(&tree, &none, name) {
                Library::Unusable { why, .. } => assert_eq!(why, want, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
        // Another directory has a good one.
        tree.bytes("opt/liba.so", &testing::head(62));
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
            tree.bytes(path, &testing::library(62, needed, runpath));
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
        tree.bytes("opt/efa/lib/libfabric.so.1", &testing::head(62));
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
        fn any_bytes_are_a_library(mut file in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..300, byte in any::<u8>()) {
            objection(&file, None);
            dynamic(&file);
            file = testing::library(62, &["liba.so"], Some("/x"));
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
            objection(&file, Some("x86_64"));
            dynamic(&file);
        }

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
