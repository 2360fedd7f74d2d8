//! The head of a shared library (elf(5)): whether this machine's loader would take it at all.

/// Bytes of a 64-bit ELF header.
pub const HEADER: usize = 64;

/// Why the loader refuses a file that begins so; none where nothing speaks against it. Its symbols
/// and the libraries that it needs itself are not looked at.
pub fn objection(head: &[u8], arch: Option<&str>) -> Option<String> {
    if head.is_empty() {
        return Some("the file is empty".into());
    }
    if !head.starts_with(b"\x7fELF") {
        return Some("no ELF file".into());
    }
    if head.len() < HEADER {
        return Some("cut short".into());
    }
    let byte = |at: usize| head.get(at).copied().unwrap_or_default();
    let half = |at: usize| u16::from_le_bytes([byte(at), byte(at + 1)]);
    // EI_CLASS, EI_DATA: all machines with these NICs and GPUs are 64-bit, little-endian.
    if byte(4) != 2 {
        return Some("a 32-bit library".into());
    }
    if byte(5) != 1 {
        return Some("a big-endian library".into());
    }
    // e_type 3 is ET_DYN.
    if half(16) != 3 {
        return Some("no shared library".into());
    }
    let wanted = match arch {
        Some("x86_64") => 62,
        Some("aarch64") => 183,
        _ => return None,
    };
    (half(18) != wanted).then(|| {
        let name = match half(18) {
            62 => "x86-64".to_string(),
            183 => "AArch64".to_string(),
            other => format!("machine {other}"),
        };
        format!("built for {name}")
    })
}

/// The head of a library, for tests and simulated nodes.
pub fn head(machine: u16) -> Vec<u8> {
    let mut head = vec![0; HEADER];
    head.splice(..6, *b"\x7fELF\x02\x01");
    head.splice(16..18, 3u16.to_le_bytes());
    head.splice(18..20, machine.to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let good = head(62);
        assert_eq!(objection(&good, Some("x86_64")), None);
        assert_eq!(objection(&good, None), None);
        assert_eq!(objection(&head(183), Some("aarch64")), None);
        let with = |at: usize, byte: u8| {
            let mut head = head(62);
            head[at] = byte;
            objection(&head, Some("x86_64")).unwrap()
        };
        assert_eq!(with(4, 1), "a 32-bit library");
        assert_eq!(with(5, 2), "a big-endian library");
        assert_eq!(with(16, 2), "no shared library");
        assert_eq!(with(18, 183), "built for AArch64");
        assert_eq!(objection(b"", None).unwrap(), "the file is empty");
        assert_eq!(objection(b"#!/bin/sh", None).unwrap(), "no ELF file");
        assert_eq!(objection(b"\x7fELF", None).unwrap(), "cut short");
    }
}
