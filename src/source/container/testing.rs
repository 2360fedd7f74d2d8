//! ELF files for tests, here and in tests/preflight.

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RUNPATH: u64 = 29;

/// The header of a shared library for a machine such as 62 (x86-64) or 183 (AArch64).
pub fn head(machine: u16) -> Vec<u8> {
    let mut head = vec![0; 64];
    head.splice(..7, *b"\x7fELF\x02\x01\x01");
    head.splice(16..18, 3u16.to_le_bytes());
    head.splice(18..20, machine.to_le_bytes());
    head.splice(20..24, 1u32.to_le_bytes());
    head
}

/// A library that consists of its dynamic section.
pub fn library(machine: u16, needed: &[&str], runpath: Option<&str>) -> Vec<u8> {
    const BASE: u64 = 0x1000;
    let mut strings = vec![0];
    let mut entries: Vec<(u64, u64)> = Vec::new();
    let tagged = needed.iter().map(|name| (DT_NEEDED, *name));
    for (tag, text) in tagged.chain(runpath.map(|path| (DT_RUNPATH, path))) {
        entries.push((tag, strings.len() as u64));
        strings.extend(text.bytes());
        strings.push(0);
    }
    let dynamic = 64 + 2 * 56;
    let table = dynamic + (entries.len() + 2) * 16;
    entries.push((DT_STRTAB, BASE + table as u64));
    entries.push((0, 0));
    let mut file = head(machine);
    file.splice(32..40, 64u64.to_le_bytes());
    file.splice(54..56, 56u16.to_le_bytes());
    file.splice(56..58, 2u16.to_le_bytes());
    let total = (table + strings.len()) as u64;
    for (kind, offset, length) in [
        (PT_LOAD, 0, total),
        (PT_DYNAMIC, dynamic as u64, (table - dynamic) as u64),
    ] {
        file.extend(kind.to_le_bytes());
        file.extend(4u32.to_le_bytes());
        for word in [offset, BASE + offset, BASE + offset, length, length, 8] {
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
