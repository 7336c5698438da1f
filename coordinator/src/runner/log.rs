//! A job's output on disk: bounded, rotated once, never a reason for training to stop.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::files::MODE_PRIVATE;

/// The older half of a rotated log.
#[must_use]
pub fn rotated(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

/// An append-only log of at most `bytes_max` in two files: `log` and the older `log.1`.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    half_bytes: u64,
    lost_bytes: u64,
}

impl LogFile {
    /// Opens the log to append.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = append(path)?;
        let size_bytes = file.metadata()?.len();
        let half_bytes = (bytes_max / 2).max(1);
        Ok(Self { path: path.to_owned(), file, size_bytes, half_bytes, lost_bytes: 0 })
    }

    /// Appends. What cannot be written (a full disk) is counted and dropped: output is worth less
    /// than training.
    pub fn write(&mut self, data: &[u8]) {
        if self.size_bytes + data.len() as u64 > self.half_bytes && self.size_bytes > 0 {
            self.rotate();
        }
        if self.lost_bytes > 0 {
            let note = format!("\n[shockwave: {} bytes of output were lost]\n", self.lost_bytes);
            if self.append(note.as_bytes()) {
                self.lost_bytes = 0;
            }
        }
        if !self.append(data) {
            self.lost_bytes += data.len() as u64;
        }
    }

    fn append(&mut self, data: &[u8]) -> bool {
        let written = self.file.write_all(data).is_ok();
        // After a part of a write the size on disk is what counts.
        self.size_bytes = self.file.metadata().map_or(self.size_bytes, |meta| meta.len());
        written
    }

    fn rotate(&mut self) {
        if std::fs::rename(&self.path, rotated(&self.path)).is_err() {
            return;
        }
        if let Ok(file) = append(&self.path) {
            self.file = file;
            self.size_bytes = 0;
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE_PRIVATE).open(path)
}

/// Copies a pipe to the log until its end, each line behind `prefix` where there is one.
pub fn pump(mut pipe: impl Read, log: &Arc<Mutex<LogFile>>, prefix: &str) {
    let mut buffer = vec![0; 64 << 10];
    let mut line_start = true;
    loop {
        let count = match pipe.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let data = &buffer[..count];
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if prefix.is_empty() {
            log.write(data);
        } else {
            log.write(&with_prefix(data, prefix, &mut line_start));
        }
    }
}

fn with_prefix(data: &[u8], prefix: &str, line_start: &mut bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 64);
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        if *line_start {
            out.extend_from_slice(prefix.as_bytes());
        }
        out.extend_from_slice(line);
        *line_start = line.ends_with(b"\n");
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_output_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogFile::open(&path, 100).unwrap();
        for number in 0..100 {
            log.write(format!("line {number:02}\n").as_bytes());
        }
        let old = std::fs::read_to_string(rotated(&path)).unwrap();
        let new = std::fs::read_to_string(&path).unwrap();
        assert!(old.len() + new.len() <= 100);
        assert!(new.ends_with("line 99\n"));
        let lines: Vec<String> = (old + &new).lines().map(String::from).collect();
        let first = 100 - lines.len();
        let expected: Vec<String> = (first..100).map(|n| format!("line {n:02}")).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn goes_on_behind_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        LogFile::open(&path, 1000).unwrap().write(b"one\n");
        LogFile::open(&path, 1000).unwrap().write(b"two\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn prefixes_whole_lines_over_split_reads() {
        let mut start = true;
        let mut out = with_prefix(b"a\nb", "[1] ", &mut start);
        out.extend(with_prefix(b"c\nd\n", "[1] ", &mut start));
        assert_eq!(out, b"[1] a\n[1] bc\n[1] d\n");
    }
}
