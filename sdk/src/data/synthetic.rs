//! A generated data set in CIFAR-10's layout, for when there are no files at hand.
//!
//! Each class has its own texture: a few waves of fixed direction, frequency and colour. A picture
//! is its class's texture at a random shift and contrast, mixed with a weaker texture of another
//! class, under pixel noise. So a convolutional network learns it, but not at once, and the
//! gradient noise is real. Record `i` depends on the seed, the split and `i` alone.

use std::f32::consts::TAU;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cifar::{CHANNELS, IMAGE_BYTES, Records, SIDE};

/// Number of classes.
pub const CLASSES: usize = 10;

/// Waves that make up one class's texture.
const WAVES: usize = 3;

/// Half width of the uniform pixel noise, in grey levels of 255.
const NOISE_LEVELS: f32 = 110.0;

/// Which of the two disjoint streams of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// For training.
    Train,
    /// For testing.
    Test,
}

/// One wave of a texture, in cycles per picture side, with a weight per colour.
#[derive(Debug, Clone, Copy)]
struct Wave {
    across: f32,
    down: f32,
    colour: [f32; CHANNELS],
}

/// Generates `count` records of a split, classes in equal shares.
#[must_use]
pub fn generate(seed: u64, split: Split, count: usize) -> Records {
    let textures = textures(seed);
    let mut records = Records {
        labels: Vec::with_capacity(count),
        pixels: Vec::with_capacity(count * IMAGE_BYTES),
        classes: CLASSES,
    };
    for index in 0..count {
        let label = index % CLASSES;
        // A stream per record makes it independent of how many are asked for.
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(2 * index as u64 + u64::from(split == Split::Test) + 2);
        records.labels.push(label as u8);
        paint(&textures, label, &mut rng, &mut records.pixels);
    }
    records
}

fn textures(seed: u64) -> Vec<[Wave; WAVES]> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut wave = || Wave {
        across: rng.random_range(-4.0..4.0),
        down: rng.random_range(-4.0..4.0),
        colour: [(); CHANNELS].map(|()| rng.random_range(-1.0..1.0)),
    };
    (0..CLASSES).map(|_| [(); WAVES].map(|()| wave())).collect()
}

fn paint(textures: &[[Wave; WAVES]], label: usize, rng: &mut ChaCha8Rng, pixels: &mut Vec<u8>) {
    let other = (label + rng.random_range(1..CLASSES)) % CLASSES;
    let layers = [
        (textures[label], rng.random_range(20.0..45.0f32)),
        (textures[other], rng.random_range(5.0..20.0f32)),
    ];
    let shift: [f32; 2] = [rng.random_range(0.0..1.0), rng.random_range(0.0..1.0)];
    let mut canvas = [128.0f32; IMAGE_BYTES];
    for (waves, contrast) in layers {
        for wave in waves {
            add_wave(&mut canvas, wave, contrast, shift);
        }
    }
    pixels.extend(canvas.iter().map(|level| {
        let noise = rng.random_range(-NOISE_LEVELS..NOISE_LEVELS);
        (level + noise).round().clamp(0.0, 255.0) as u8
    }));
}

fn add_wave(canvas: &mut [f32; IMAGE_BYTES], wave: Wave, contrast: f32, shift: [f32; 2]) {
    for row in 0..SIDE {
        for column in 0..SIDE {
            let x = column as f32 / SIDE as f32 + shift[0];
            let y = row as f32 / SIDE as f32 + shift[1];
            let level = contrast * (TAU * (wave.across * x + wave.down * y)).sin();
            for (channel, colour) in wave.colour.iter().enumerate() {
                canvas[(channel * SIDE + row) * SIDE + column] += level * colour;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_record_depends_on_seed_split_and_index_alone() {
        let few = generate(7, Split::Train, 20);
        let more = generate(7, Split::Train, 50);
        assert_eq!(few.pixels, more.pixels[..20 * IMAGE_BYTES]);
        assert_ne!(few.pixels, generate(8, Split::Train, 20).pixels);
        assert_ne!(few.pixels, generate(7, Split::Test, 20).pixels);
    }

    #[test]
    fn classes_come_in_equal_shares() {
        let records = generate(1, Split::Test, 100);
        for class in 0..CLASSES as u8 {
            assert_eq!(records.labels.iter().filter(|label| **label == class).count(), 10);
        }
    }
}
