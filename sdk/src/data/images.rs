//! Pictures of CIFAR's size as a data set: normalised, and augmented for training if wanted.

use std::path::Path;

use tch::Tensor;

use super::augment::{Frame, Levels, Shift, Table, table};
use super::cifar::{
    CHANNELS, CifarError, IMAGE_BYTES, Layout, Records, SIDE, read_test, read_train,
};
use super::synthetic::{Split, generate};
use super::{Batch, Dataset, Draw, Normalisation};
use crate::Error;

const FRAME: Frame = Frame { height: SIDE, width: SIDE };

impl Normalisation {
    /// Measures a set of pictures. Exact (whole numbers), so the same on every machine.
    ///
    /// A channel that is the same everywhere has standard deviation 1/255: one grey level.
    #[must_use]
    pub fn measure(records: &Records) -> Self {
        let mut levels = Levels::default();
        records.pixels.chunks_exact(IMAGE_BYTES).for_each(|picture| levels.add(picture));
        levels.normalisation()
    }
}

/// A split of pictures in memory.
#[derive(Debug, Clone)]
pub struct Images {
    records: Records,
    table: Table,
    augment: bool,
}

impl Images {
    /// A data set of `records`.
    #[must_use]
    pub fn new(records: Records, normalisation: &Normalisation) -> Self {
        Self { records, table: table(normalisation), augment: false }
    }

    /// Training and test pictures of a CIFAR-10 folder (binary version), normalised by the training
    /// pictures.
    ///
    /// # Errors
    /// [`Error::Data`], which names the file, what was found and what is right.
    pub fn cifar10(folder: &Path) -> Result<(Self, Self), Error> {
        Self::cifar(folder, Layout::Cifar10)
    }

    /// Training and test pictures of a CIFAR-100 folder (binary version) with its 100 classes, normalised by the
    /// training pictures.
    ///
    /// # Errors
    /// As [`Images::cifar10`].
    pub fn cifar100(folder: &Path) -> Result<(Self, Self), Error> {
        Self::cifar(folder, Layout::Cifar100)
    }

    /// Training and test pictures of a folder in `layout`, normalised by the training pictures.
    ///
    /// # Errors
    /// As [`Images::cifar10`].
    pub fn cifar(folder: &Path, layout: Layout) -> Result<(Self, Self), Error> {
        let data = |error: CifarError| Error::Data(error.to_string());
        let train = read_train(folder, layout).map_err(data)?;
        Ok(Self::pair(train, read_test(folder, layout).map_err(data)?))
    }

    /// Generated training and test pictures in the same layout: see [`generate`].
    #[must_use]
    pub fn generated(seed: u64, train: usize, test: usize) -> (Self, Self) {
        Self::pair(generate(seed, Split::Train, train), generate(seed, Split::Test, test))
    }

    fn pair(train: Records, test: Records) -> (Self, Self) {
        let normalisation = Normalisation::measure(&train);
        (Self::new(train, &normalisation), Self::new(test, &normalisation))
    }

    /// Turns random crops and mirroring of training batches on or off (off at first).
    #[must_use]
    pub fn augmented(mut self, augment: bool) -> Self {
        self.augment = augment;
        self
    }

    /// Keeps the first `count` pictures.
    #[must_use]
    pub fn take(mut self, count: usize) -> Self {
        self.records.truncate(count);
        self
    }

    /// How many classes there are, in the pictures or not.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.records.classes
    }

    /// The batch of pictures, each moved as `shift` says.
    fn gather(
        &self,
        indices: &[usize],
        mut shift: impl FnMut(usize) -> Shift,
    ) -> Result<Batch, Error> {
        let mut pixels = vec![0f32; indices.len() * IMAGE_BYTES];
        let mut labels = Vec::with_capacity(indices.len());
        for (&index, picture) in indices.iter().zip(pixels.chunks_exact_mut(IMAGE_BYTES)) {
            let Some(&label) = self.records.labels.get(index) else {
                let count = self.records.len();
                return Err(Error::Data(format!("sample {index} of {count} pictures")));
            };
            labels.push(i64::from(label));
            let bytes = &self.records.pixels[index * IMAGE_BYTES..(index + 1) * IMAGE_BYTES];
            shift(index).copy(bytes, picture, &self.table);
        }
        let shape = [indices.len(), CHANNELS, SIDE, SIDE].map(|extent| extent as i64);
        let x = Tensor::f_from_slice(&pixels)?.f_view(shape)?;
        Ok(Batch::new(x, Tensor::f_from_slice(&labels)?))
    }
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        self.gather(indices, |_| FRAME.whole())
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        if !self.augment {
            return self.batch(indices);
        }
        self.gather(indices, |index| FRAME.draw(&mut draw.rng(index)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// One picture whose red plane counts columns, green rows, blue nothing.
    fn ramp() -> Records {
        let mut pixels = Vec::new();
        for channel in 0..CHANNELS {
            for row in 0..SIDE {
                for column in 0..SIDE {
                    pixels.push([column, row, 7][channel] as u8);
                }
            }
        }
        Records { labels: vec![4], pixels, classes: 10 }
    }

    fn plain() -> Normalisation {
        Normalisation { mean: [0.0; 3], std: [1.0 / 255.0; 3] }
    }

    fn level(picture: &Tensor, channel: i64, row: i64, column: i64) -> f64 {
        picture.f_double_value(&[0, channel, row, column]).unwrap().round()
    }

    #[test]
    fn a_batch_holds_the_pixels_in_their_places() {
        let batch = Images::new(ramp(), &plain()).batch(&[0]).unwrap();
        assert_eq!(batch.x.size(), [1, 3, 32, 32]);
        assert_eq!(level(&batch.x, 0, 3, 5), 5.0);
        assert_eq!(level(&batch.x, 1, 3, 5), 3.0);
        assert_eq!(Vec::<i64>::try_from(&batch.y).unwrap(), [4]);
    }

    #[test]
    fn the_training_pictures_have_mean_0_and_deviation_1_after_normalisation() {
        let (train, _) = Images::generated(3, 200, 10);
        let batch = train.batch(&(0..200).collect::<Vec<_>>()).unwrap();
        let x = batch.x.transpose(0, 1).reshape([3, -1]).to_kind(tch::Kind::Double);
        for channel in 0..3 {
            assert!(x.get(channel).mean(None).double_value(&[]).abs() < 1e-4);
            assert!((x.get(channel).std(false).double_value(&[]) - 1.0).abs() < 1e-4);
        }
        assert_eq!(Normalisation::measure(&ramp()).std[2], 1.0 / 255.0);
    }

    #[test]
    fn augmentation_depends_on_seed_epoch_and_sample_and_only_shifts_and_mirrors() {
        let images = Images::new(ramp(), &plain()).augmented(true);
        let draw = |epoch| Draw { seed: 1, epoch };
        let first = images.training_batch(&[0], draw(0)).unwrap().x;
        assert_eq!(first, images.training_batch(&[0, 0], draw(0)).unwrap().x.get(1).unsqueeze(0));
        let mut seen = std::collections::HashSet::new();
        for epoch in 0..300 {
            let x = images.training_batch(&[0], draw(epoch)).unwrap().x;
            let (left, right) = (level(&x, 0, 16, 15), level(&x, 0, 16, 16));
            assert_eq!((left - right).abs(), 1.0, "neighbours stay neighbours");
            let column = if left < right { left } else { right };
            seen.insert((column as i64, level(&x, 1, 16, 16) as i64, left < right));
        }
        // 9 shifts across x 9 down x 2: nearly all of 162 come up in 300 draws.
        assert!(seen.len() > 110, "{}", seen.len());
    }

    #[test]
    fn a_sample_that_is_not_there_is_an_error() {
        assert!(matches!(Images::new(ramp(), &plain()).batch(&[1]), Err(Error::Data(_))));
    }
}
