//! Reads one PNG or JPEG file as planes of red, green and blue.

use std::io::Cursor;
use std::path::Path;

use image::imageops::{FilterType, crop_imm, resize};
use image::{ImageFormat, ImageReader, RgbImage};

use super::augment::Frame;
use super::cifar::CHANNELS;
use super::folder::Fit;
use crate::Error;

/// The bytes at a JPEG file's end within which its end marker stands; a few programs write something behind it.
const JPEG_TAIL: usize = 1024;

fn data(path: &Path, what: &str) -> Error {
    Error::Data(format!("{}: {what}", path.display()))
}

/// Whether a JPEG file has its end: decoders fill what is missing with grey.
fn jpeg_ends(bytes: &[u8]) -> bool {
    bytes[bytes.len().saturating_sub(JPEG_TAIL)..].windows(2).any(|pair| pair == [0xff, 0xd9])
}

/// The picture as it lies in the file.
fn read(path: &Path) -> Result<RgbImage, Error> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let format = match image::guess_format(&bytes) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg)) => format,
        _ if bytes.is_empty() => return Err(data(path, "the file is empty")),
        _ => return Err(data(path, "unknown format; PNG and JPEG are read")),
    };
    if format == ImageFormat::Jpeg && !jpeg_ends(&bytes) {
        return Err(data(path, "damaged JPEG: its end is missing, the file is cut short"));
    }
    let name = if format == ImageFormat::Png { "PNG" } else { "JPEG" };
    let decoded = ImageReader::with_format(Cursor::new(bytes), format).decode();
    let decoded = decoded.map_err(|error| data(path, &format!("damaged {name}: {error}")))?;
    Ok(decoded.into_rgb8())
}

/// The middle of the picture, scaled until it covers the frame.
fn cut(picture: &RgbImage, width: u32, height: u32) -> RgbImage {
    let (from_width, from_height) = picture.dimensions();
    let scale =
        (f64::from(width) / f64::from(from_width)).max(f64::from(height) / f64::from(from_height));
    let scaled = |side: u32, least: u32| ((f64::from(side) * scale).round() as u32).max(least);
    let (across, down) = (scaled(from_width, width), scaled(from_height, height));
    let large = resize(picture, across, down, FilterType::Triangle);
    crop_imm(&large, (across - width) / 2, (down - height) / 2, width, height).to_image()
}

/// The picture at `path` in the size of `frame`: planes red, green and blue, row by row.
///
/// # Errors
/// [`Error::Data`] names the file and what is wrong with it.
pub(super) fn planes(path: &Path, frame: Frame, fit: Fit) -> Result<Vec<u8>, Error> {
    let mut picture = read(path)?;
    let (width, height) = (frame.width as u32, frame.height as u32);
    if picture.dimensions() != (width, height) {
        if fit == Fit::Exact {
            let (across, down) = picture.dimensions();
            let what = format!(
                "{across} x {down} pixels (width x height), {width} x {height} are expected; \
                 Fit::Crop scales and cuts"
            );
            return Err(data(path, &what));
        }
        picture = cut(&picture, width, height);
    }
    let pixels = picture.as_raw();
    let plane = |channel: usize| pixels.iter().copied().skip(channel).step_by(CHANNELS);
    Ok((0..CHANNELS).flat_map(plane).collect())
}
