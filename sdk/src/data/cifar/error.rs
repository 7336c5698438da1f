//! Why a folder cannot be read.

use std::path::PathBuf;

use thiserror::Error;

use super::Layout;

/// Why a folder of CIFAR-10 or CIFAR-100 cannot be read.
#[derive(Debug, Error)]
pub enum CifarError {
    /// The folder is not there, or is a file.
    #[error(
        "{path}: no such folder; give the folder that holds {} ({}, binary version)",
        layout.files(),
        layout.name()
    )]
    MissingFolder {
        /// The folder that was asked for.
        path: PathBuf,
        /// The wanted set.
        layout: Layout,
    },
    /// The folder is there but holds no file of the wanted kind.
    #[error(
        "{path}: no {wanted} there (found: {found}); {}'s binary version has {}",
        layout.name(),
        layout.files()
    )]
    NoBatchFiles {
        /// The folder.
        path: PathBuf,
        /// The file name, or pattern of names, looked for.
        wanted: &'static str,
        /// The names that are there (the first few), or "nothing".
        found: String,
        /// The wanted set.
        layout: Layout,
    },
    /// A file's length is not a whole number of records.
    #[error(
        "{file}: {length_bytes} bytes are {records} whole records and {rest_bytes} bytes of \
         another; a {} binary file is a whole number (at least 1) of {}-byte records: the file is \
         cut short or of another format (python version, another set?)",
        layout.name(),
        layout.record_bytes()
    )]
    Truncated {
        /// The file.
        file: PathBuf,
        /// Its length.
        length_bytes: u64,
        /// Whole records in it.
        records: u64,
        /// Bytes after the last whole record.
        rest_bytes: u64,
        /// The wanted set.
        layout: Layout,
    },
    /// A record's label is not a class.
    #[error(
        "{file}: record {record} (byte {offset_bytes}) has label {label}, labels are 0..={}: not a \
         {} binary file",
        classes - 1,
        layout.name()
    )]
    Label {
        /// The file.
        file: PathBuf,
        /// The record's number, from 0.
        record: usize,
        /// Where the label stands in the file.
        offset_bytes: u64,
        /// What stands there.
        label: u8,
        /// How many there are.
        classes: usize,
        /// The wanted set.
        layout: Layout,
    },
    /// The operating system refused.
    #[error("{file}: {source}")]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
