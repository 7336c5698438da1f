//! Pictures as a data set: normalised, and augmented for training if wanted.

use std::path::Path;

use rand::Rng;
use tch::Tensor;

use super::cifar::{CHANNELS, IMAGE_BYTES, Records, SIDE, read_test, read_train};
use super::synthetic::{Split, generate};
use super::{Batch, Dataset, Draw};
use crate::Error;

/// Pixels added around a picture before a random crop (He et al. 2016, section 4.2).
const PADDING: usize = 4;

/// Mean and standard deviation of each channel, of pixel levels scaled to 0..=1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalisation {
    /// Means of red, green and blue.
    pub mean: [f32; CHANNELS],
    /// Standard deviations of red, green and blue.
    pub std: [f32; CHANNELS],
}

impl Normalisation {
    /// Measures a set of pictures. Exact (whole numbers), so the same on every machine.
    ///
    /// A channel that is the same everywhere has standard deviation 1/255: one grey level.
    #[must_use]
    pub fn measure(records: &Records) -> Self {
        let (mut sum, mut squares) = ([0u64; CHANNELS], [0u64; CHANNELS]);
        for picture in records.pixels.chunks_exact(IMAGE_BYTES) {
            for (channel, plane) in picture.chunks_exact(SIDE * SIDE).enumerate() {
                for &level in plane {
                    sum[channel] += u64::from(level);
                    squares[channel] += u64::from(level) * u64::from(level);
                }
            }
        }
        let count = (records.len() * SIDE * SIDE).max(1) as f64;
        let mut normalisation = Self { mean: [0.0; CHANNELS], std: [1.0; CHANNELS] };
        for channel in 0..CHANNELS {
            let mean = sum[channel] as f64 / count;
            let variance = squares[channel] as f64 / count - mean * mean;
            normalisation.mean[channel] = (mean / 255.0) as f32;
            normalisation.std[channel] = (variance.max(1.0).sqrt() / 255.0) as f32;
        }
        normalisation
    }
}

/// A split of pictures in memory.
#[derive(Debug, Clone)]
pub struct Images {
    records: Records,
    /// What each level of each channel becomes.
    levels: Vec<[f32; 256]>,
    augment: bool,
}

impl Images {
    /// A data set of `records`.
    #[must_use]
    pub fn new(records: Records, normalisation: &Normalisation) -> Self {
        let level = |channel: usize, level: usize| {
            (level as f32 / 255.0 - normalisation.mean[channel]) / normalisation.std[channel]
        };
        let levels = (0..CHANNELS).map(|c| std::array::from_fn(|l| level(c, l))).collect();
        Self { records, levels, augment: false }
    }

    /// Training and test pictures of a CIFAR-10 folder (binary version), normalised by the training
    /// pictures.
    ///
    /// # Errors
    /// [`Error::Data`], which names the file, what was found and what is right.
    pub fn cifar10(folder: &Path) -> Result<(Self, Self), Error> {
        let read = |split: fn(&Path) -> Result<Records, super::cifar::CifarError>| {
            split(folder).map_err(|error| Error::Data(error.to_string()))
        };
        Ok(Self::pair(read(read_train)?, read(read_test)?))
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

    /// The batch of pictures that `shift` moves: how far right and down, and whether mirrored.
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
            let planes = bytes.chunks_exact(SIDE * SIDE).zip(picture.chunks_exact_mut(SIDE * SIDE));
            let shift = shift(index);
            for ((from, to), levels) in planes.zip(&self.levels) {
                shift.copy(from, to, levels);
            }
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
        self.gather(indices, |_| Shift { down: PADDING, right: PADDING, mirror: false })
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        if !self.augment {
            return self.batch(indices);
        }
        self.gather(indices, |index| {
            let mut rng = draw.rng(index);
            let (down, right) =
                (rng.random_range(0..=2 * PADDING), rng.random_range(0..=2 * PADDING));
            Shift { down, right, mirror: rng.random() }
        })
    }
}

/// Where a crop lies in the padded picture (`PADDING`, `PADDING`: in the middle), and whether it is
/// mirrored.
#[derive(Debug, Clone, Copy)]
struct Shift {
    down: usize,
    right: usize,
    mirror: bool,
}

impl Shift {
    fn copy(self, from: &[u8], to: &mut [f32], levels: &[f32; 256]) {
        for (row, line) in to.chunks_exact_mut(SIDE).enumerate() {
            // Padding is the mean colour, which normalises to 0: `to` holds it already.
            let Some(source) = (row + self.down).checked_sub(PADDING).filter(|y| *y < SIDE) else {
                continue;
            };
            for (column, value) in line.iter_mut().enumerate() {
                let column = if self.mirror { SIDE - 1 - column } else { column };
                let x = (column + self.right).checked_sub(PADDING).filter(|x| *x < SIDE);
                if let Some(x) = x {
                    *value = levels[usize::from(from[source * SIDE + x])];
                }
            }
        }
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
        Records { labels: vec![4], pixels }
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
