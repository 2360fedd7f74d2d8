//! Packed files, known by their first bytes: there is no line to be found in them.

/// Ways of packing logs: first bytes, and what unpacks them to standard output.
const PACKED: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\xfd7zXZ\0", "xzcat"),
    (b"BZh", "bzcat"),
    (b"\x04\x22\x4d\x18", "lz4cat"),
];

/// The program that unpacks what begins so; none: it is not packed.
pub(super) fn unpacker(start: &[u8]) -> Option<&'static str> {
    let packed = PACKED.iter().find(|(magic, _)| start.starts_with(magic));
    packed.map(|(_, cat)| *cat)
}
