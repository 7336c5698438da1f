//! Stacked areas over time.

use plotters::prelude::*;

use super::frame::{Frame, Key, USUAL, beside_legend};
use super::{FigureError, colour, largest, svg};

/// Stacked areas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Areas {
    /// Title.
    pub title: String,
    /// What the x axis shows, with its unit.
    pub x: String,
    /// What the y axis shows, with its unit.
    pub y: String,
    /// Names of the layers, lowest first.
    pub layers: Vec<String>,
    /// `(x, height of each layer)`, x ascending; heights hold until the next x.
    pub columns: Vec<(f64, Vec<f64>)>,
}

impl Areas {
    /// The chart as SVG.
    ///
    /// # Errors
    /// [`FigureError`] when the drawing library refuses.
    pub fn svg(&self) -> Result<String, FigureError> {
        let end = largest(self.columns.iter().map(|column| column.0), 1e-9);
        let top = largest(self.columns.iter().map(|column| column.1.iter().sum()), 1e-9) * 1.04;
        svg(&self.title, |canvas| {
            let plot = beside_legend(canvas, &self.layers, Key::Box)?;
            let frame = Frame { title: &self.title, x: &self.x, y: &self.y, labels: USUAL };
            let mut chart = frame.chart(&plot, 0.0..end, 0.0..top)?;
            // The highest sum first: each lower one is painted over it.
            for layer in (0..self.layers.len()).rev() {
                let style = colour(layer).filled();
                chart.draw_series(AreaSeries::new(self.outline(layer), 0.0, style))?;
            }
            Ok(())
        })
    }

    /// The upper edge of a layer, in steps.
    fn outline(&self, layer: usize) -> Vec<(f64, f64)> {
        let mut points = Vec::with_capacity(self.columns.len() * 2);
        let mut height = 0.0;
        for (x, heights) in &self.columns {
            points.push((*x, height));
            height = heights.iter().take(layer + 1).sum();
            points.push((*x, height));
        }
        points
    }
}
