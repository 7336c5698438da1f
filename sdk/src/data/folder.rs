//! A folder of pictures as a data set: one folder for each class, pictures as PNG or JPEG files.
//!
//! Pictures are decoded when a batch needs them (with [`prefetch`](crate::session::Builder::prefetch) on a thread of
//! its own), so the set may be larger than the memory.

use std::path::{Path, PathBuf};

use tch::Tensor;

use super::augment::{Frame, Levels, Normalisation, Shift, Table, table};
use super::cifar::CHANNELS;
use super::{Batch, Dataset, Draw, decode};
use crate::Error;

/// What happens to a picture of another size than the wanted one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fit {
    /// It is an error, by the picture's name.
    #[default]
    Exact,
    /// It is scaled until it covers the wanted size, and its middle is cut out.
    Crop,
}

/// The pictures under one folder: `FOLDER/CLASS/*.png`, `.jpg` or `.jpeg`. Classes are numbered in the order of their
/// names, pictures in the order of classes and names.
#[derive(Debug, Clone)]
pub struct ImageFolder {
    folder: PathBuf,
    classes: Vec<String>,
    pictures: Vec<(PathBuf, usize)>,
    frame: Frame,
    fit: Fit,
    table: Table,
    augment: bool,
}

fn data(path: &Path, what: &str) -> Error {
    Error::Data(format!("{}: {what}", path.display()))
}

/// The visible entries of a folder, in the order of their names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// The folders in `folder`, by name; a file among them belongs to no class.
fn classes_in(folder: &Path) -> Result<Vec<String>, Error> {
    if !folder.is_dir() {
        return Err(data(
            folder,
            "no such folder; give one with a folder of pictures for each class",
        ));
    }
    let mut classes = Vec::new();
    for path in entries(folder)? {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name else { return Err(data(&path, "its name is not UTF-8")) };
        if !path.is_dir() {
            return Err(data(
                &path,
                "a file beside the classes' folders; it belongs into one of them",
            ));
        }
        classes.push(name.to_owned());
    }
    if classes.is_empty() {
        return Err(data(folder, "no folder there; each class has one, named as the class"));
    }
    Ok(classes)
}

/// The pictures of a class.
fn pictures_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let pictures = entries(folder)?;
    for path in &pictures {
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        if !matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg")) || !path.is_file() {
            return Err(data(path, "not a picture's name; .png, .jpg and .jpeg are read"));
        }
    }
    if pictures.is_empty() {
        return Err(data(folder, "no picture there; a class has one at least (.png, .jpg, .jpeg)"));
    }
    Ok(pictures)
}

impl ImageFolder {
    /// The pictures in `folder`, to be given to the network as `height` x `width` pixels. Lists the names; the pictures
    /// themselves are read later: see [`check`](Self::check).
    ///
    /// # Errors
    /// [`Error::Data`] names a folder or file that has no place there, or a class without a picture.
    pub fn open(folder: &Path, height: usize, width: usize) -> Result<Self, Error> {
        Self::with_classes(folder, classes_in(folder)?, Frame { height, width })
    }

    /// The pictures in `folder/train` and `folder/test`, with the same numbers for the same classes.
    ///
    /// # Errors
    /// As [`open`](Self::open); also when the test has a class that the training has not.
    pub fn pair(folder: &Path, height: usize, width: usize) -> Result<(Self, Self), Error> {
        let (train, test) = (folder.join("train"), folder.join("test"));
        let train = Self::open(&train, height, width)?;
        for class in classes_in(&test)? {
            if !train.classes.contains(&class) {
                let what = format!("a class that {} has not", train.folder.display());
                return Err(data(&test.join(class), &what));
            }
        }
        let test = Self::with_classes(&test, train.classes.clone(), train.frame)?;
        Ok((train, test))
    }

    fn with_classes(folder: &Path, classes: Vec<String>, frame: Frame) -> Result<Self, Error> {
        if frame.height == 0 || frame.width == 0 {
            let got = format!("{} x {}", frame.height, frame.width);
            return Err(Error::invalid("the pictures' size", got, "at least one pixel each way"));
        }
        let mut pictures = Vec::new();
        for (number, class) in classes.iter().enumerate() {
            let inside = folder.join(class);
            // Of a test, which need not have a picture of every class.
            if inside.is_dir() {
                pictures.extend(pictures_in(&inside)?.into_iter().map(|path| (path, number)));
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            classes,
            pictures,
            frame,
            fit: Fit::Exact,
            table: table(&Normalisation::IMAGENET),
            augment: false,
        })
    }

    /// Sets what happens to pictures of another size.
    #[must_use]
    pub fn fit(mut self, fit: Fit) -> Self {
        self.fit = fit;
        self
    }

    /// Sets the means and deviations that levels are normalised by (at first [`Normalisation::IMAGENET`]).
    #[must_use]
    pub fn normalised(mut self, normalisation: &Normalisation) -> Self {
        self.table = table(normalisation);
        self
    }

    /// Turns random crops (by an eighth of the side) and mirroring of training batches on or off (off at first).
    #[must_use]
    pub fn augmented(mut self, augment: bool) -> Self {
        self.augment = augment;
        self
    }

    /// The classes' names, in the order of their numbers.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The files, in the order of the samples' numbers.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.pictures.iter().map(|(path, _)| path.as_path())
    }

    /// Reads every picture, so that a damaged one is found before training and not after hours of it. Returns the means
    /// and deviations of the levels.
    ///
    /// # Errors
    /// [`Error::Data`] names the first file that is no picture, is cut short or has another size.
    pub fn check(&self) -> Result<Normalisation, Error> {
        let mut levels = Levels::default();
        for (path, _) in &self.pictures {
            levels.add(&decode::planes(path, self.frame, self.fit)?);
        }
        Ok(levels.normalisation())
    }

    fn gather(
        &self,
        indices: &[usize],
        mut shift: impl FnMut(usize) -> Shift,
    ) -> Result<Batch, Error> {
        let length = self.frame.len();
        let mut pixels = vec![0f32; indices.len() * length];
        let mut labels = Vec::with_capacity(indices.len());
        for (&index, to) in indices.iter().zip(pixels.chunks_exact_mut(length)) {
            let Some((path, class)) = self.pictures.get(index) else {
                let count = self.pictures.len();
                return Err(Error::Data(format!("sample {index} of {count} pictures")));
            };
            labels.push(*class as i64);
            let planes = decode::planes(path, self.frame, self.fit)?;
            shift(index).copy(&planes, to, &self.table);
        }
        let shape = [indices.len(), CHANNELS, self.frame.height, self.frame.width];
        let x = Tensor::f_from_slice(&pixels)?.f_view(shape.map(|extent| extent as i64))?;
        Ok(Batch::new(x, Tensor::f_from_slice(&labels)?))
    }
}

impl Dataset for ImageFolder {
    fn len(&self) -> usize {
        self.pictures.len()
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        self.gather(indices, |_| self.frame.whole())
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        if !self.augment {
            return self.batch(indices);
        }
        self.gather(indices, |index| self.frame.draw(&mut draw.rng(index)))
    }
}
