//! Records what SQLite writes: a copy of its own file layer whose writes, syncs, truncations and
//! deletions are noted before they are carried out.
//!
//! Only files below one watched folder are recorded, and only in this process.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Result, ensure};
use rusqlite::ffi;

/// Something that happened to the files.
#[derive(Clone, Debug)]
pub enum Op {
    /// Bytes were written.
    Write {
        /// The file's name.
        file: String,
        /// Where, bytes.
        offset: usize,
        /// What.
        data: Vec<u8>,
    },
    /// The file was cut or lengthened.
    Truncate {
        /// The file's name.
        file: String,
        /// To so many bytes.
        size: usize,
    },
    /// What was written to the file before is on the disk.
    Sync {
        /// The file's name.
        file: String,
    },
    /// The file was removed.
    Delete {
        /// The file's name.
        file: String,
    },
    /// Everything up to this record was acknowledged.
    Acknowledged(u64),
}

#[derive(Default)]
struct Recorder {
    watched: Option<PathBuf>,
    tape: Vec<Op>,
}

static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
/// Open files by their address: the name, and SQLite's own methods (of several kinds).
static FILES: Mutex<BTreeMap<usize, (String, &'static Methods)>> = Mutex::new(BTreeMap::new());
static LAYER: OnceLock<Layer> = OnceLock::new();

/// SQLite's tables of functions; they are never changed once they are made.
struct Methods(ffi::sqlite3_io_methods);
struct Layer(ffi::sqlite3_vfs);

// SAFETY: tables of plain function pointers, and pointers to static data of SQLite.
unsafe impl Send for Methods {}
// SAFETY: as above.
unsafe impl Sync for Methods {}
// SAFETY: as above.
unsafe impl Send for Layer {}
// SAFETY: as above.
unsafe impl Sync for Layer {}

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to record what is written below a folder.
///
/// # Errors
/// SQLite has no file layer of its own.
pub fn start(folder: &Path) -> Result<()> {
    install()?;
    *recorder() = Some(Recorder { watched: Some(folder.to_owned()), ..Recorder::default() });
    Ok(())
}

/// Notes that everything up to a record was acknowledged.
pub fn acknowledge(number: u64) {
    note(Op::Acknowledged(number));
}

/// How much has been recorded.
#[must_use]
pub fn length() -> usize {
    recorder().as_ref().map_or(0, |recorder| recorder.tape.len())
}

/// Ends the recording and gives it.
#[must_use]
pub fn finish() -> Vec<Op> {
    recorder().take().map(|recorder| recorder.tape).unwrap_or_default()
}

fn note(op: Op) {
    if let Some(recorder) = recorder().as_mut() {
        recorder.tape.push(op);
    }
}

/// Makes the recording layer SQLite's default, once.
fn install() -> Result<()> {
    if LAYER.get().is_some() {
        return Ok(());
    }
    // SAFETY: SQLite gives its default layer, which lives as long as the process.
    let default = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    ensure!(!default.is_null(), "SQLite has no file layer");
    // SAFETY: not null; a plain structure that may be copied under another name.
    let mut layer = unsafe { *default };
    layer.zName = CString::new("tape")?.into_raw();
    layer.pNext = std::ptr::null_mut();
    layer.xOpen = Some(open);
    layer.xDelete = Some(delete);
    let layer = LAYER.get_or_init(|| Layer(layer));
    // SAFETY: the structure is static; SQLite changes its `pNext` under its own lock.
    let result = unsafe { ffi::sqlite3_vfs_register(std::ptr::from_ref(&layer.0).cast_mut(), 1) };
    ensure!(result == ffi::SQLITE_OK, "SQLite takes no file layer: {result}");
    Ok(())
}

/// SQLite's own layer, by its name: the recording one is the default now.
fn own() -> *mut ffi::sqlite3_vfs {
    // SAFETY: the name is a constant string that ends with NUL.
    unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) }
}

/// The name of a watched file.
fn watched(name: *const c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: SQLite hands over strings that end with NUL.
    let path = PathBuf::from(unsafe { CStr::from_ptr(name) }.to_str().ok()?);
    let recorder = recorder();
    let folder = recorder.as_ref()?.watched.as_ref()?;
    (path.parent() == Some(folder)).then(|| path.file_name()?.to_str().map(str::to_owned))?
}

unsafe extern "C" fn open(
    _layer: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let own = own();
    // SAFETY: the arguments are SQLite's own, handed on to its own function.
    let result = unsafe {
        match (*own).xOpen {
            Some(open) => open(own, name, file, flags, out_flags),
            None => return ffi::SQLITE_CANTOPEN,
        }
    };
    let Some(name) = watched(name).filter(|_| result == ffi::SQLITE_OK) else { return result };
    // A table for each file, kept for good: some hundred bytes for each of a handful of files.
    // SAFETY: the file was opened, so its methods are set to a static table.
    unsafe {
        let original: &'static Methods = Box::leak(Box::new(Methods(*(*file).pMethods)));
        let mut methods = original.0;
        methods.xWrite = Some(write);
        methods.xTruncate = Some(truncate);
        methods.xSync = Some(sync);
        methods.xClose = Some(close);
        (*file).pMethods = &raw const Box::leak(Box::new(Methods(methods))).0;
        files().insert(file as usize, (name, original));
    }
    result
}

fn files() -> MutexGuard<'static, BTreeMap<usize, (String, &'static Methods)>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn delete(
    _layer: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    if let Some(file) = watched(name) {
        note(Op::Delete { file });
    }
    let own = own();
    // SAFETY: as in `open`.
    unsafe { (*own).xDelete.map_or(ffi::SQLITE_ERROR, |delete| delete(own, name, sync_folder)) }
}

/// The name of an open file, and SQLite's own methods for it.
fn known(file: *mut ffi::sqlite3_file) -> Option<(String, &'static ffi::sqlite3_io_methods)> {
    files().get(&(file as usize)).map(|(name, methods)| (name.clone(), &methods.0))
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let Some((name, own)) = known(file) else { return ffi::SQLITE_IOERR };
    // SAFETY: SQLite hands over so many readable bytes.
    let bytes =
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), count.unsigned_abs() as usize) };
    note(Op::Write { file: name, offset: offset as usize, data: bytes.to_vec() });
    // SAFETY: as in `open`.
    own.xWrite.map_or(ffi::SQLITE_IOERR, |write| unsafe { write(file, data, count, offset) })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    let Some((name, own)) = known(file) else { return ffi::SQLITE_IOERR };
    note(Op::Truncate { file: name, size: size as usize });
    // SAFETY: as in `open`.
    own.xTruncate.map_or(ffi::SQLITE_IOERR, |truncate| unsafe { truncate(file, size) })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let Some((name, own)) = known(file) else { return ffi::SQLITE_IOERR };
    // SAFETY: as in `open`.
    let result = own.xSync.map_or(ffi::SQLITE_IOERR, |sync| unsafe { sync(file, flags) });
    if result == ffi::SQLITE_OK {
        note(Op::Sync { file: name });
    }
    result
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let Some((_, own)) = known(file) else { return ffi::SQLITE_IOERR };
    files().remove(&(file as usize));
    // SAFETY: as in `open`.
    own.xClose.map_or(ffi::SQLITE_IOERR, |close| unsafe { close(file) })
}
