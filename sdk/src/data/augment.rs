//! Pixel levels as numbers for a network, and random crops and mirroring.

use rand::Rng;

use super::cifar::CHANNELS;

/// Pixels added around a picture before a random crop: one for every eight of its side (He et al. 2016, section 4.2: 4
/// for 32).
const SIDE_PER_PADDING: usize = 8;

/// Mean and standard deviation of each channel, of pixel levels scaled to 0..=1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalisation {
    /// Means of red, green and blue.
    pub mean: [f32; CHANNELS],
    /// Standard deviations of red, green and blue.
    pub std: [f32; CHANNELS],
}

impl Normalisation {
    /// Those of ImageNet's training pictures, which models trained on it expect.
    pub const IMAGENET: Self = Self { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
}

/// Sums up pixel levels. Exact (whole numbers), so the same on every machine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Levels {
    pixels: u64,
    sum: [u64; CHANNELS],
    squares: [u64; CHANNELS],
}

impl Levels {
    /// Adds a picture: its planes red, green and blue.
    pub(super) fn add(&mut self, picture: &[u8]) {
        let plane = picture.len() / CHANNELS;
        self.pixels += plane as u64;
        for (channel, plane) in picture.chunks_exact(plane.max(1)).enumerate() {
            for &level in plane {
                self.sum[channel] += u64::from(level);
                self.squares[channel] += u64::from(level) * u64::from(level);
            }
        }
    }

    /// A channel that is the same everywhere has standard deviation 1/255: one grey level.
    pub(super) fn normalisation(&self) -> Normalisation {
        let count = self.pixels.max(1) as f64;
        let mut normalisation = Normalisation { mean: [0.0; CHANNELS], std: [1.0; CHANNELS] };
        for channel in 0..CHANNELS {
            let mean = self.sum[channel] as f64 / count;
            let variance = self.squares[channel] as f64 / count - mean * mean;
            normalisation.mean[channel] = (mean / 255.0) as f32;
            normalisation.std[channel] = (variance.max(1.0).sqrt() / 255.0) as f32;
        }
        normalisation
    }
}

/// What each level of each channel becomes.
pub(super) type Table = Vec<[f32; 256]>;

/// The table of a normalisation.
pub(super) fn table(normalisation: &Normalisation) -> Table {
    let level = |channel: usize, level: usize| {
        (level as f32 / 255.0 - normalisation.mean[channel]) / normalisation.std[channel]
    };
    (0..CHANNELS).map(|c| std::array::from_fn(|l| level(c, l))).collect()
}

/// Height and width of a picture, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub height: usize,
    pub width: usize,
}

impl Frame {
    /// Numbers in a picture.
    pub(super) fn len(self) -> usize {
        CHANNELS * self.plane()
    }

    fn plane(self) -> usize {
        self.height * self.width
    }

    /// The picture as it is.
    pub(super) fn whole(self) -> Shift {
        Shift { frame: self, down: 0, right: 0, mirror: false }
    }

    /// A random crop of the padded picture, mirrored or not.
    pub(super) fn draw(self, rng: &mut impl Rng) -> Shift {
        let (across, up) = (self.width / SIDE_PER_PADDING, self.height / SIDE_PER_PADDING);
        let down = rng.random_range(0..=2 * up) as isize - up as isize;
        let right = rng.random_range(0..=2 * across) as isize - across as isize;
        Shift { frame: self, down, right, mirror: rng.random() }
    }
}

/// How far a picture is moved, in pixels, and whether it is mirrored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shift {
    frame: Frame,
    down: isize,
    right: isize,
    mirror: bool,
}

impl Shift {
    /// Writes the picture `from` (planes red, green, blue) into `to`, which holds zeros.
    pub(super) fn copy(self, from: &[u8], to: &mut [f32], table: &[[f32; 256]]) {
        let plane = self.frame.plane();
        let planes = from.chunks_exact(plane).zip(to.chunks_exact_mut(plane));
        for ((from, to), levels) in planes.zip(table) {
            self.copy_plane(from, to, levels);
        }
    }

    fn copy_plane(self, from: &[u8], to: &mut [f32], levels: &[f32; 256]) {
        let Frame { height, width } = self.frame;
        for (row, line) in to.chunks_exact_mut(width).enumerate() {
            // Padding is the mean colour, which normalises to 0: `to` holds it already.
            let Some(row) = row.checked_add_signed(self.down).filter(|y| *y < height) else {
                continue;
            };
            for (column, value) in line.iter_mut().enumerate() {
                let column = if self.mirror { width - 1 - column } else { column };
                let x = column.checked_add_signed(self.right).filter(|x| *x < width);
                if let Some(x) = x {
                    *value = levels[usize::from(from[row * width + x])];
                }
            }
        }
    }
}
