//! Pictures, as SVG text: lines, bars, stacked areas, timelines. What is drawn is decided elsewhere.

mod area;
mod bars;
mod frame;
mod lines;
mod points;
mod timeline;

use plotters::coord::Shift;
use plotters::prelude::*;

pub use area::Areas;
pub use bars::{Bars, Panel};
pub use lines::{Lines, Series};
pub use points::Points;
pub use timeline::{Block, Timeline};

/// A picture that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("figure `{title}`: {why}")]
pub struct FigureError {
    /// The picture.
    pub title: String,
    /// Why not.
    pub why: String,
}

/// Width and height of every picture, pixels.
const SIZE: (u32, u32) = (960, 480);

/// Colours that stay apart for the colour-blind (Okabe and Ito), then darker ones.
const PALETTE: [RGBColor; 16] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(160, 140, 0),
    RGBColor(90, 40, 120),
    RGBColor(120, 60, 20),
    RGBColor(0, 80, 60),
    RGBColor(60, 60, 60),
    RGBColor(0, 190, 190),
    RGBColor(240, 140, 140),
    RGBColor(150, 120, 220),
    RGBColor(130, 200, 60),
];

/// The colour of the `place`-th thing in a picture.
fn colour(place: usize) -> RGBColor {
    PALETTE[place % PALETTE.len()]
}

/// What the drawing library may refuse with.
type Problem = Box<dyn std::error::Error>;

/// A drawing area that becomes SVG text.
type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws onto an empty white canvas.
fn svg(
    title: &str,
    draw: impl FnOnce(&Canvas<'_>) -> Result<(), Problem>,
) -> Result<String, FigureError> {
    let failed = |why: String| FigureError { title: title.to_owned(), why };
    let mut text = String::new();
    {
        let canvas = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        canvas.fill(&WHITE).map_err(|error| failed(error.to_string()))?;
        draw(&canvas).map_err(|error| failed(error.to_string()))?;
        canvas.present().map_err(|error| failed(error.to_string()))?;
    }
    Ok(text)
}

/// The largest finite value of some, at least `floor`.
fn largest(values: impl Iterator<Item = f64>, floor: f64) -> f64 {
    values.filter(|value| value.is_finite()).fold(floor, f64::max)
}
