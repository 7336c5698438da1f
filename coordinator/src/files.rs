//! Durable files: a reader sees the old content or the new, never a part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Mode of everything that may hold a secret, from its first moment.
pub const MODE_PRIVATE: u32 = 0o600;

/// A file operation that failed, with the path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FileError {
    /// What was tried.
    pub action: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

/// Names the path and the action in an error.
pub(crate) fn at<T>(
    action: &'static str,
    path: &Path,
    result: io::Result<T>,
) -> Result<T, FileError> {
    result.map_err(|source| FileError { action, path: path.to_owned(), source })
}

/// Writes a file atomically and durably: temporary file, fsync, rename, fsync of the folder.
///
/// # Errors
/// The step that failed, with its path.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = parent.join(format!(".{name}.{}.tmp", std::process::id()));
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(MODE_PRIVATE);
        let mut file = options.open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()
    };
    at("write", &temporary, write())?;
    at("rename to", path, fs::rename(&temporary, path))?;
    sync_folder(parent)
}

/// Writes a value as JSON, atomically and durably.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), FileError> {
    let text = at("encode", path, serde_json::to_vec_pretty(value).map_err(io::Error::other))?;
    write_atomic(path, &text)
}

/// Reads a JSON file; `None` when there is none.
///
/// # Errors
/// Anything but absence, a file that is not the expected JSON included.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => at("read", path, Err(error)),
        Ok(bytes) => {
            at("understand", path, serde_json::from_slice(&bytes).map_err(io::Error::other))
                .map(Some)
        }
    }
}

/// Makes a folder and its parents, readable by the owner only.
///
/// # Errors
/// With the path.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    at("create", path, fs::DirBuilder::new().recursive(true).mode(0o700).create(path))
}

/// Lets this process have as many files and connections open as the system allows it; gives how many.
///
/// The usual soft limit of 1024 is less than the connections that a coordinator holds.
pub fn open_files_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to a live structure.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return 0;
        }
        let wanted = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) == 0 {
            limit = wanted;
        }
    }
    limit.rlim_cur
}

/// Opens a file of a folder that others write in, for reading: only a plain file that lies there
/// itself. A link would have this process read what only it may, a pipe would have it wait for ever.
///
/// # Errors
/// The file or its folder is not there, or something else lies in its place.
pub fn open_foreign(path: &Path) -> io::Result<File> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "not a plain file in its folder");
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused());
    };
    let mut options = OpenOptions::new();
    options.read(true);
    let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let folder = options.clone().custom_flags(flags).open(folder)?;
    let inside = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(inside)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

/// Makes the entries of a folder durable.
///
/// # Errors
/// With the path.
pub fn sync_folder(path: &Path) -> Result<(), FileError> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    at("sync", path, File::open(path).and_then(|folder| folder.sync_all()))
}

/// A lock on a file, held as long as the value lives and at the latest until the process ends.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Takes the lock, or says `None` at once when somebody holds it.
    ///
    /// # Errors
    /// When the file cannot be opened or locked.
    pub fn try_take(path: &Path) -> Result<Option<Self>, FileError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(MODE_PRIVATE);
        let file = at("open", path, options.open(path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => at("lock", path, Err(error)),
        }
    }
}
