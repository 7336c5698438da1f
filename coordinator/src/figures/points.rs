//! Scattered points, with a diagonal on which both values are equal.

use plotters::prelude::*;

use super::frame::{Frame, Key, USUAL, beside_legend};
use super::{FigureError, Series, colour, largest, svg};

/// Scattered points; both axes start at 0 and have the same scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// Title.
    pub title: String,
    /// What the x axis shows, with its unit.
    pub x: String,
    /// What the y axis shows, with its unit.
    pub y: String,
    /// The points.
    pub series: Vec<Series>,
}

impl Points {
    /// The chart as SVG.
    ///
    /// # Errors
    /// [`FigureError`] when the drawing library refuses.
    pub fn svg(&self) -> Result<String, FigureError> {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let top_x = largest(points().map(|point| point.0), 1e-9) * 1.03;
        let top_y = largest(points().map(|point| point.1), 1e-9) * 1.03;
        let names: Vec<String> = self.series.iter().map(|series| series.name.clone()).collect();
        svg(&self.title, |canvas| {
            let plot = beside_legend(canvas, &names, Key::Point)?;
            let frame = Frame { title: &self.title, x: &self.x, y: &self.y, labels: USUAL };
            let mut chart = frame.chart(&plot, 0.0..top_x, 0.0..top_y)?;
            let end = top_x.min(top_y);
            let diagonal = [(0.0, 0.0), (end, end)];
            chart.draw_series([PathElement::new(diagonal, BLACK.mix(0.5).stroke_width(1))])?;
            for (place, series) in self.series.iter().enumerate() {
                let style = colour(place).mix(0.7).filled();
                chart
                    .draw_series(series.points.iter().map(|point| Circle::new(*point, 3, style)))?;
            }
            Ok(())
        })
    }
}
