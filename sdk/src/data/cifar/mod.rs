//! CIFAR-10 and CIFAR-100 in their binary layouts, any number of records a file.
//!
//! Source of the layouts: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009, "binary
//! version". A record is one label byte (CIFAR-100: two, the superclass and the class) and 3 x 1024 bytes, the red,
//! green and blue planes of a 32 x 32 picture, row by row. The number of records follows from a file's length, so
//! subsets and the full sets are read alike.

mod error;
mod layout;

pub use error::CifarError;
pub use layout::Layout;

use std::path::Path;

/// Channels of a picture.
pub const CHANNELS: usize = 3;
/// Height and width of a picture, in pixels.
pub const SIDE: usize = 32;
/// Bytes of one picture.
pub const IMAGE_BYTES: usize = CHANNELS * SIDE * SIDE;

/// Labels and pictures of one split, as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// One class per picture, below [`classes`](Self::classes).
    pub labels: Vec<u8>,
    /// `labels.len()` x [`IMAGE_BYTES`]: planes R, G, B, row by row.
    pub pixels: Vec<u8>,
    /// How many classes there are.
    pub classes: usize,
}

impl Records {
    /// No pictures yet, of `classes` classes.
    #[must_use]
    pub fn of_classes(classes: usize) -> Self {
        Self { classes, ..Self::default() }
    }

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
    /// A length that is not a whole number of records, or a label that is no class.
    fn append(&mut self, bytes: &[u8], file: &Path, layout: Layout) -> Result<(), CifarError> {
        let size = layout.record_bytes();
        let (whole, rest) = (bytes.len() / size, bytes.len() % size);
        if rest != 0 || whole == 0 {
            return Err(CifarError::Truncated {
                file: file.to_owned(),
                length_bytes: bytes.len() as u64,
                records: whole as u64,
                rest_bytes: rest as u64,
                layout,
            });
        }
        self.labels.reserve(whole);
        self.pixels.reserve(whole * IMAGE_BYTES);
        for (record, row) in bytes.chunks_exact(size).enumerate() {
            let (labels, picture) = row.split_at(layout.label_bytes());
            for (index, (&label, classes)) in labels.iter().zip(layout.label_classes()).enumerate()
            {
                if usize::from(label) >= *classes {
                    return Err(CifarError::Label {
                        file: file.to_owned(),
                        record,
                        offset_bytes: (record * size + index) as u64,
                        label,
                        classes: *classes,
                        layout,
                    });
                }
            }
            self.labels.push(labels[layout.label_index()]);
            self.pixels.extend_from_slice(picture);
        }
        Ok(())
    }
}

/// The training split of a folder: of CIFAR-10 every `data_batch_*.bin` in the order of their numbers, of CIFAR-100
/// `train.bin`.
///
/// # Errors
/// See [`CifarError`]; each names the file, what was found and what is right.
pub fn read_train(folder: &Path, layout: Layout) -> Result<Records, CifarError> {
    read_files(folder, layout, layout.train())
}

/// The test split of a folder: `test_batch.bin` of CIFAR-10, `test.bin` of CIFAR-100.
///
/// # Errors
/// See [`CifarError`]; each names the file, what was found and what is right.
pub fn read_test(folder: &Path, layout: Layout) -> Result<Records, CifarError> {
    read_files(folder, layout, layout.test())
}

/// Reads the files whose names are `wanted`, in which a star stands for anything.
fn read_files(folder: &Path, layout: Layout, wanted: &'static str) -> Result<Records, CifarError> {
    let names = file_names(folder, layout)?;
    let fits = |name: &&String| match wanted.split_once('*') {
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
        None => name.as_str() == wanted,
    };
    let mut files: Vec<&String> = names.iter().filter(fits).collect();
    // Shorter names first: data_batch_10.bin comes after data_batch_9.bin.
    files.sort_by_key(|name| (name.len(), (*name).clone()));
    if files.is_empty() {
        let found = match names.as_slice() {
            [] => "nothing".to_owned(),
            few if few.len() <= 8 => few.join(", "),
            many => format!("{}, and {} more", many[..8].join(", "), many.len() - 8),
        };
        return Err(CifarError::NoBatchFiles { path: folder.to_owned(), wanted, found, layout });
    }
    let mut records = Records::of_classes(layout.classes());
    for name in files {
        let file = folder.join(name);
        let bytes =
            std::fs::read(&file).map_err(|source| CifarError::Io { file: file.clone(), source })?;
        records.append(&bytes, &file, layout)?;
    }
    Ok(records)
}

/// The names in a folder, sorted; names that are not UTF-8 are left out, for no wanted one is.
fn file_names(folder: &Path, layout: Layout) -> Result<Vec<String>, CifarError> {
    if !folder.is_dir() {
        return Err(CifarError::MissingFolder { path: folder.to_owned(), layout });
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

    fn record(labels: &[u8], fill: u8) -> Vec<u8> {
        [labels, &[fill; IMAGE_BYTES]].concat()
    }

    #[test]
    fn more_than_there_are_is_all() {
        let mut records =
            Records { labels: vec![1, 2], pixels: vec![0; 2 * IMAGE_BYTES], classes: 3 };
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
            ("data_batch_10.bin", record(&[3], 30)),
            ("data_batch_2.bin", [record(&[1], 10), record(&[2], 20)].concat()),
            ("test_batch.bin", record(&[9], 90)),
            ("batches.meta.txt", b"airplane".to_vec()),
        ]);
        let train = read_train(folder.path(), Layout::Cifar10).unwrap();
        assert_eq!(train.labels, [1, 2, 3]);
        assert_eq!(train.pixels.len(), 3 * 3072);
        assert_eq!(train.pixels[2 * 3072], 30);
        assert_eq!(read_test(folder.path(), Layout::Cifar10).unwrap().labels, [9]);
    }

    #[test]
    fn each_error_names_the_file_what_was_found_and_what_is_right() {
        let absent =
            read_train(Path::new("/nowhere/cifar"), Layout::Cifar10).unwrap_err().to_string();
        assert!(absent.contains("/nowhere/cifar: no such folder"), "{absent}");

        let folder = folder_with(&[("cifar-10.tar.gz", vec![0; 10])]);
        let none = read_train(folder.path(), Layout::Cifar10).unwrap_err().to_string();
        assert!(none.contains("no data_batch_*.bin") && none.contains("cifar-10.tar.gz"), "{none}");

        let folder = folder_with(&[("test_batch.bin", vec![0; 3073 + 100])]);
        let cut = read_test(folder.path(), Layout::Cifar10).unwrap_err().to_string();
        assert!(cut.contains("test_batch.bin: 3173 bytes are 1 whole records and 100"), "{cut}");

        let folder = folder_with(&[("test_batch.bin", Vec::new())]);
        assert!(matches!(
            read_test(folder.path(), Layout::Cifar10),
            Err(CifarError::Truncated { records: 0, .. })
        ));

        let folder =
            folder_with(&[("test_batch.bin", [record(&[1], 0), record(&[10], 0)].concat())]);
        let label = read_test(folder.path(), Layout::Cifar10).unwrap_err().to_string();
        assert!(label.contains("record 1 (byte 3073) has label 10"), "{label}");
    }

    #[test]
    fn cifar_100_gives_the_class_or_the_superclass() {
        let folder = folder_with(&[
            ("train.bin", [record(&[19, 99], 10), record(&[3, 42], 20)].concat()),
            ("test.bin", record(&[0, 7], 30)),
            ("fine_label_names.txt", b"apple".to_vec()),
        ]);
        let fine = read_train(folder.path(), Layout::Cifar100).unwrap();
        assert_eq!((fine.labels, fine.classes), (vec![99, 42], 100));
        assert_eq!((fine.pixels.len(), fine.pixels[0], fine.pixels[3072]), (2 * 3072, 10, 20));
        let coarse = read_train(folder.path(), Layout::Cifar100Coarse).unwrap();
        assert_eq!((coarse.labels, coarse.classes), (vec![19, 3], 20));
        assert_eq!(read_test(folder.path(), Layout::Cifar100).unwrap().labels, [7]);
    }

    #[test]
    fn one_set_taken_for_the_other_is_told() {
        let folder = folder_with(&[
            ("train.bin", [record(&[19, 99], 10), record(&[20, 0], 20)].concat()),
            ("test.bin", vec![0; 3073]),
        ]);
        let label = read_train(folder.path(), Layout::Cifar100).unwrap_err().to_string();
        assert!(label.contains("record 1 (byte 3074) has label 20, labels are 0..=19"), "{label}");
        let size = read_test(folder.path(), Layout::Cifar100).unwrap_err().to_string();
        assert!(size.contains("test.bin: 3073 bytes are 0 whole records and 3073"), "{size}");
        assert!(size.contains("3074-byte records") && size.contains("CIFAR-100"), "{size}");
        let other = read_train(folder.path(), Layout::Cifar10).unwrap_err().to_string();
        assert!(other.contains("(found: test.bin, train.bin)"), "{other}");
    }
}
