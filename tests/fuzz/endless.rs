//! A log without an end out of a few lines.

/// The lines again and again, until there are so many bytes: `#` is a number that differs each time, `@`
/// one that seldom does.
pub fn log(lines: &[u8], bytes: usize) -> Vec<u8> {
    let mut log = Vec::with_capacity(bytes + lines.len());
    let mut turn: u32 = 0;
    while log.len() < bytes && !lines.is_empty() {
        for byte in lines {
            match byte {
                b'#' => log.extend(turn.to_string().bytes()),
                b'@' => log.extend((turn / 7 % 5).to_string().bytes()),
                _ => log.push(*byte),
            }
        }
        log.push(b'\n');
        turn += 1;
    }
    log
}
