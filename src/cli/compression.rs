//! Recognises compressed files by their first bytes, so that they are refused instead of searched.

use std::path::Path;

pub(super) const GZIP: &[u8] = b"\x1f\x8b";

/// First bytes of each format, and the program that decompresses it to standard output.
const FORMATS: &[(&[u8], &str)] = &[
    (GZIP, "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\xfd7zXZ\0", "xzcat"),
    (b"BZh", "bzcat"),
    (b"\x04\x22\x4d\x18", "lz4cat"),
];

/// Why input that begins with these bytes is refused by `selvage COMMAND`, and what to do; `None` if
/// it is not compressed.
pub(super) fn refusal(start: &[u8], path: &Path, command: &str) -> Option<String> {
    let (_, cat) = FORMATS.iter().find(|(magic, _)| start.starts_with(magic))?;
    let path = path.display();
    let hint = format!("is compressed; decompress it first: {cat} {path} | selvage {command}");
    Some(hint.replace(&format!("{cat} -"), cat))
}
