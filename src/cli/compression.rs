//! Recognises compressed files by their first bytes, so that they are refused instead of searched.

/// First bytes of each format, and the program that decompresses it to standard output.
const FORMATS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\xfd7zXZ\0", "xzcat"),
    (b"BZh", "bzcat"),
    (b"\x04\x22\x4d\x18", "lz4cat"),
];

/// The program that decompresses input beginning with these bytes; `None` if it is not compressed.
pub(super) fn unpacker(start: &[u8]) -> Option<&'static str> {
    let format = FORMATS.iter().find(|(magic, _)| start.starts_with(magic));
    format.map(|(_, cat)| *cat)
}
