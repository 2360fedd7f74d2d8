//! What a shared library asks of the loader: its dynamic section (elf(5)).

/// The libraries that a library needs, and where it says to look for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// `DT_RUNPATH`, else `DT_RPATH`, as written: `$ORIGIN` is the library's own directory.
    pub runpath: Option<String>,
}

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Bounds of what is followed.
const MAX_SEGMENTS: usize = 64;
const MAX_ENTRIES: usize = 1024;
const MAX_NAME: usize = 4096;

/// Reads it; none where the file is cut short, or lies.
pub fn parse(file: &[u8]) -> Option<Dynamic> {
    let table = usize::try_from(number(file, 32, 8)?).ok()?;
    let size = usize::try_from(number(file, 54, 2)?).ok()?;
    let count = usize::try_from(number(file, 56, 2)?).ok()?;
    let segments: Vec<Segment> = (0..count.min(MAX_SEGMENTS))
        .filter_map(|n| segment(file, table.checked_add(n.checked_mul(size)?)?))
        .collect();
    let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
    let start = usize::try_from(dynamic.offset).ok()?;
    let mut strings = None;
    let mut needed = Vec::new();
    let (mut rpath, mut runpath) = (None, None);
    for n in 0..MAX_ENTRIES {
        let at = start.checked_add(n * 16)?;
        let value = number(file, at.checked_add(8)?, 8)?;
        match number(file, at, 8)? {
            0 => break,
            DT_NEEDED => needed.push(value),
            DT_STRTAB => strings = Some(value),
            DT_RPATH => rpath = Some(value),
            DT_RUNPATH => runpath = Some(value),
            _ => {}
        }
    }
    // The table's address is that in memory; segments say where it is in the file.
    let strings = strings?;
    let load = segments.iter().find(|segment| {
        segment.kind == PT_LOAD
            && segment.address <= strings
            && strings - segment.address < segment.length
    })?;
    let strings = load.offset.checked_add(strings - load.address)?;
    let text = |at: u64| -> Option<String> {
        let start = usize::try_from(strings.checked_add(at)?).ok()?;
        let rest = file.get(start..)?;
        let rest = rest.get(..rest.len().min(MAX_NAME))?;
        let end = memchr::memchr(0, rest)?;
        Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
    };
    Some(Dynamic {
        needed: needed.into_iter().map(text).collect::<Option<_>>()?,
        runpath: match runpath.or(rpath) {
            Some(at) => Some(text(at)?),
            None => None,
        },
    })
}

struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    length: u64,
}

fn segment(file: &[u8], at: usize) -> Option<Segment> {
    Some(Segment {
        kind: number(file, at, 4)?,
        offset: number(file, at.checked_add(8)?, 8)?,
        address: number(file, at.checked_add(16)?, 8)?,
        length: number(file, at.checked_add(32)?, 8)?,
    })
}

/// A little-endian number of at most 8 bytes.
fn number(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(bytes)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |n, byte| n << 8 | u64::from(*byte)),
    )
}

/// A library of no more than its dynamic section, for tests.
pub fn library(machine: u16, needed: &[&str], runpath: Option<&str>) -> Vec<u8> {
    let mut strings = vec![0];
    let mut entries: Vec<(u64, u64)> = Vec::new();
    let tagged = needed
        .iter()
        .map(|name| (DT_NEEDED, *name))
        .chain(runpath.map(|path| (DT_RUNPATH, path)));
    for (tag, text) in tagged {
        entries.push((tag, strings.len() as u64));
        strings.extend(text.bytes());
        strings.push(0);
    }
    const BASE: u64 = 0x1000;
    let dynamic = 64 + 2 * 56;
    let table = dynamic + (entries.len() + 2) * 16;
    entries.push((DT_STRTAB, BASE + table as u64));
    entries.push((0, 0));
    let mut file = super::elf::head(machine);
    file.splice(32..40, 64u64.to_le_bytes());
    file.splice(54..56, 56u16.to_le_bytes());
    file.splice(56..58, 2u16.to_le_bytes());
    let total = (table + strings.len()) as u64;
    for (kind, offset, address, length) in [
        (PT_LOAD, 0, BASE, total),
        (PT_DYNAMIC, dynamic as u64, BASE + dynamic as u64, 0),
    ] {
        for word in [kind, offset, address, address, length, length, 0] {
            file.extend(word.to_le_bytes());
        }
    }
    for (tag, value) in entries {
        file.extend(tag.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file.extend(strings);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_library_needs() {
        let file = library(62, &["libfabric.so.1", "libc.so.6"], Some("$ORIGIN/../lib"));
        let got = parse(&file).unwrap();
        assert_eq!(got.needed, ["libfabric.so.1", "libc.so.6"]);
        assert_eq!(got.runpath.as_deref(), Some("$ORIGIN/../lib"));
        assert_eq!(parse(&library(62, &[], None)), Some(Dynamic::default()));
        for cut in 0..file.len() {
            let got = parse(&file[..cut]);
            assert!(got.is_none(), "{cut}: {got:?}");
        }
    }

    #[test]
    fn a_real_library() {
        let host = crate::host::Host::new("/");
        let path = "lib/x86_64-linux-gnu/libm.so.6";
        if let crate::observe::reading::Reading::Value(file) =
            crate::source::tree::read_bytes(&host, path, 16 << 20)
        {
            let got = parse(&file).expect("a dynamic section");
            assert!(got.needed.iter().any(|name| name == "libc.so.6"), "{got:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(mut file in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..300, byte in any::<u8>()) {
            parse(&file);
            file = library(62, &["liba.so"], Some("/x"));
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
            parse(&file);
        }
    }
}
