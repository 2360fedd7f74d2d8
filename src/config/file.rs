//! The settings file, wherever it comes from: a file, standard input, a pipe of the shell. Bounded
//! in size and in time: nothing that was named by mistake holds up the start.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Longest file taken, in bytes.
const MAX: usize = 1 << 20;

/// How long a pipe may keep silent, in milliseconds.
const PATIENCE_MS: u16 = 5_000;

/// Reads it; `-` is standard input.
pub(super) fn read(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        return take(io::stdin().lock(), PATIENCE_MS);
    }
    take(open(path)?, PATIENCE_MS)
}

fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe must not wait for its writer.
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_dir() {
        true => Err(io::Error::other("it is a directory")),
        false => Ok(file),
    }
}

fn take(mut input: impl Read + AsFd, patience_ms: u16) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let ready = {
            let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(patience_ms))?
        };
        if ready == 0 {
            return Err(io::Error::other("nothing comes out of it"));
        }
        match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if bytes.len() > MAX {
            return Err(io::Error::other("it is longer than 1 MiB: no settings"));
        }
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn why(path: &Path) -> String {
        let taken = open(path).and_then(|file| take(file, 1));
        taken.expect_err("refused").to_string()
    }

    #[test]
    fn what_is_no_settings_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(why(dir.path()).contains("directory"));
        assert!(why(Path::new("/dev/zero")).contains("1 MiB"));
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(why(&pipe).contains("nothing comes"));
        let long = dir.path().join("long");
        std::fs::write(&long, vec![b'#'; MAX + 1]).unwrap();
        assert!(why(&long).contains("1 MiB"));
        std::fs::write(&long, [0xff]).unwrap();
        assert!(why(&long).contains("UTF-8"));
    }

    #[test]
    fn files_and_pipes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.toml");
        let text = "# settings\n".repeat(20_000);
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap(), text);
        assert_eq!(read(Path::new("/dev/null")).unwrap(), "");
        // As the shell's `<(…)` hands over.
        let (reader, mut writer) = io::pipe().unwrap();
        let thread = std::thread::spawn({
            let text = text.clone();
            move || writer.write_all(text.as_bytes())
        });
        assert_eq!(take(reader, 30_000).unwrap(), text);
        thread.join().unwrap().unwrap();
    }
}
