//! CIFAR-10 in its binary layout, any number of records a file.
//!
//! Source of the layout: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
//! 2009, "binary version": each record is 1 label byte (0..=9) and 3 x 1024 bytes, the red, green
//! and blue planes of a 32 x 32 picture, row by row. The number of records follows from a file's
//! length, so subsets and the full set are read alike.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Channels of a picture.
pub const CHANNELS: usize = 3;
/// Height and width of a picture, in pixels.
pub const SIDE: usize = 32;
/// Number of classes.
pub const CLASSES: usize = 10;
/// Bytes of one picture.
pub const IMAGE_BYTES: usize = CHANNELS * SIDE * SIDE;
/// Bytes of one record: the label and the picture.
pub const RECORD_BYTES: usize = IMAGE_BYTES + 1;

/// Why a CIFAR-10 folder cannot be read.
#[derive(Debug, Error)]
pub enum CifarError {
    /// The folder is not there, or is a file.
    #[error(
        "{path}: no such folder; give the folder that holds data_batch_1.bin .. and test_batch.bin \
         (CIFAR-10, binary version)"
    )]
    MissingFolder {
        /// The folder that was asked for.
        path: PathBuf,
    },
    /// The folder is there but holds no file of the wanted kind.
    #[error(
        "{path}: no {wanted} there (found: {found}); CIFAR-10's binary version has \
         data_batch_1.bin .. data_batch_5.bin and test_batch.bin"
    )]
    NoBatchFiles {
        /// The folder.
        path: PathBuf,
        /// The file name, or pattern of names, looked for.
        wanted: &'static str,
        /// The names that are there (the first few), or "nothing".
        found: String,
    },
    /// A file's length is not a whole number of records.
    #[error(
        "{file}: {length_bytes} bytes are {records} whole records and {rest_bytes} bytes of \
         another; a CIFAR-10 binary file is a whole number (at least 1) of 3073-byte records: the \
         file is cut short or of another format (python version, CIFAR-100?)"
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
    },
    /// A record's label is not a class.
    #[error(
        "{file}: record {record} (byte {offset_bytes}) has label {label}, labels are 0..=9: not a \
         CIFAR-10 binary file"
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

/// Labels and pictures of one split, as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// One class per picture, 0..=9.
    pub labels: Vec<u8>,
    /// `labels.len()` x [`IMAGE_BYTES`]: planes R, G, B, row by row.
    pub pixels: Vec<u8>,
}

impl Records {
    /// Number of pictures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no picture.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Keeps the first `count` pictures.
    pub fn truncate(&mut self, count: usize) {
        self.labels.truncate(count);
        // Any count may be asked for: usize::MAX keeps all.
        self.pixels.truncate(count.saturating_mul(IMAGE_BYTES));
    }

    /// Adds the records of one file's bytes; `file` is named in errors.
    ///
    /// # Errors
    /// A length that is not a whole number of records, or a label over 9.
    pub fn append(&mut self, bytes: &[u8], file: &Path) -> Result<(), CifarError> {
        let (whole, rest) = (bytes.len() / RECORD_BYTES, bytes.len() % RECORD_BYTES);
        if rest != 0 || whole == 0 {
            return Err(CifarError::Truncated {
                file: file.to_owned(),
                length_bytes: bytes.len() as u64,
                records: whole as u64,
                rest_bytes: rest as u64,
            });
        }
        self.labels.reserve(whole);
        self.pixels.reserve(whole * IMAGE_BYTES);
        for (record, row) in bytes.chunks_exact(RECORD_BYTES).enumerate() {
            let label = row[0];
            if usize::from(label) >= CLASSES {
                return Err(CifarError::Label {
                    file: file.to_owned(),
                    record,
                    offset_bytes: (record * RECORD_BYTES) as u64,
                    label,
                });
            }
            self.labels.push(label);
            self.pixels.extend_from_slice(&row[1..]);
        }
        Ok(())
    }
}

/// The training split: every `data_batch_*.bin` of a folder, in the order of their names.
///
/// # Errors
/// See [`CifarError`]; each names the file, what was found and what is right.
pub fn read_train(folder: &Path) -> Result<Records, CifarError> {
    let names = file_names(folder)?;
    let mut batches: Vec<&String> = names
        .iter()
        .filter(|name| name.starts_with("data_batch_") && name.ends_with(".bin"))
        .collect();
    // Shorter names first: data_batch_10.bin comes after data_batch_9.bin.
    batches.sort_by_key(|name| (name.len(), (*name).clone()));
    read_files(folder, &names, &batches, "data_batch_*.bin")
}

/// The test split: `test_batch.bin` of a folder.
///
/// # Errors
/// See [`CifarError`]; each names the file, what was found and what is right.
pub fn read_test(folder: &Path) -> Result<Records, CifarError> {
    let names = file_names(folder)?;
    let wanted: Vec<&String> = names.iter().filter(|name| *name == "test_batch.bin").collect();
    read_files(folder, &names, &wanted, "test_batch.bin")
}

fn read_files(
    folder: &Path,
    names: &[String],
    files: &[&String],
    wanted: &'static str,
) -> Result<Records, CifarError> {
    if files.is_empty() {
        let found = match names {
            [] => "nothing".to_owned(),
            few if few.len() <= 8 => few.join(", "),
            many => format!("{}, and {} more", many[..8].join(", "), many.len() - 8),
        };
        return Err(CifarError::NoBatchFiles { path: folder.to_owned(), wanted, found });
    }
    let mut records = Records::default();
    for name in files {
        let file = folder.join(name);
        let bytes =
            std::fs::read(&file).map_err(|source| CifarError::Io { file: file.clone(), source })?;
        records.append(&bytes, &file)?;
    }
    Ok(records)
}

/// The names in a folder, sorted; names that are not UTF-8 are left out, for no wanted one is.
fn file_names(folder: &Path) -> Result<Vec<String>, CifarError> {
    if !folder.is_dir() {
        return Err(CifarError::MissingFolder { path: folder.to_owned() });
    }
    let failed = |source| CifarError::Io { file: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(label: u8, fill: u8) -> Vec<u8> {
        let mut bytes = vec![fill; RECORD_BYTES];
        bytes[0] = label;
        bytes
    }

    #[test]
    fn more_than_there_are_is_all() {
        let mut records = Records { labels: vec![1, 2], pixels: vec![0; 2 * IMAGE_BYTES] };
        records.truncate(usize::MAX);
        assert_eq!((records.labels.len(), records.pixels.len()), (2, 2 * IMAGE_BYTES));
        records.truncate(1);
        assert_eq!((records.labels.len(), records.pixels.len()), (1, IMAGE_BYTES));
    }

    fn folder_with(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn batches_are_read_in_the_order_of_their_numbers() {
        let folder = folder_with(&[
            ("data_batch_10.bin", record(3, 30)),
            ("data_batch_2.bin", [record(1, 10), record(2, 20)].concat()),
            ("test_batch.bin", record(9, 90)),
            ("batches.meta.txt", b"airplane".to_vec()),
        ]);
        let train = read_train(folder.path()).unwrap();
        assert_eq!(train.labels, [1, 2, 3]);
        assert_eq!(train.pixels.len(), 3 * 3072);
        assert_eq!(train.pixels[2 * 3072], 30);
        assert_eq!(read_test(folder.path()).unwrap().labels, [9]);
    }

    #[test]
    fn each_error_names_the_file_what_was_found_and_what_is_right() {
        let absent = read_train(Path::new("/nowhere/cifar")).unwrap_err().to_string();
        assert!(absent.contains("/nowhere/cifar: no such folder"), "{absent}");

        let folder = folder_with(&[("cifar-10.tar.gz", vec![0; 10])]);
        let none = read_train(folder.path()).unwrap_err().to_string();
        assert!(none.contains("no data_batch_*.bin") && none.contains("cifar-10.tar.gz"), "{none}");

        let folder = folder_with(&[("test_batch.bin", vec![0; 3073 + 100])]);
        let cut = read_test(folder.path()).unwrap_err().to_string();
        assert!(cut.contains("test_batch.bin: 3173 bytes are 1 whole records and 100"), "{cut}");

        let folder = folder_with(&[("test_batch.bin", Vec::new())]);
        assert!(matches!(read_test(folder.path()), Err(CifarError::Truncated { records: 0, .. })));

        let folder = folder_with(&[("test_batch.bin", [record(1, 0), record(10, 0)].concat())]);
        let label = read_test(folder.path()).unwrap_err().to_string();
        assert!(label.contains("record 1 (byte 3073) has label 10"), "{label}");
    }
}
