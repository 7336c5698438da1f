//! Line charts.

use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use super::frame::{Chart, Frame, Key, USUAL, beside_legend};
use super::{FigureError, Problem, colour, largest, svg};

/// A named line, or named points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is called in the legend.
    pub name: String,
    /// Its points, x ascending.
    pub points: Vec<(f64, f64)>,
}

/// A line chart; both axes start at 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// Title.
    pub title: String,
    /// What the x axis shows, with its unit.
    pub x: String,
    /// What the y axis shows, with its unit.
    pub y: String,
    /// The lines.
    pub series: Vec<Series>,
    /// An upright mark, such as the fair rho of 1.
    pub mark_x: Option<f64>,
    /// Both axes are logarithmic.
    pub logarithmic: bool,
}

impl Lines {
    /// The chart as SVG.
    ///
    /// # Errors
    /// [`FigureError`] when the drawing library refuses.
    pub fn svg(&self) -> Result<String, FigureError> {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let top_x = largest(points().map(|point| point.0).chain(self.mark_x), 1e-9);
        let top_y = largest(points().map(|point| point.1), 1e-9) * 1.02;
        let low = |top: f64, values: &mut dyn Iterator<Item = f64>| {
            values.filter(|value| *value > 0.0).fold(top, f64::min)
        };
        let low_x = low(top_x, &mut points().map(|point| point.0));
        let low_y = low(top_y, &mut points().map(|point| point.1));
        let names: Vec<String> = match self.series.len() {
            0 | 1 => Vec::new(),
            _ => self.series.iter().map(|series| series.name.clone()).collect(),
        };
        let labels = if self.logarithmic { (5, 8) } else { USUAL };
        let frame = Frame { title: &self.title, x: &self.x, y: &self.y, labels };
        svg(&self.title, |canvas| {
            let plot = beside_legend(canvas, &names, Key::Line)?;
            if self.logarithmic {
                let x = (low_x * 0.95..top_x * 1.05).log_scale();
                let y = (low_y * 0.9..top_y * 1.1).log_scale();
                self.draw(frame.chart(&plot, x, y)?)
            } else {
                self.draw(frame.chart(&plot, 0.0..top_x, 0.0..top_y)?)
            }
        })
    }

    fn draw<X, Y>(&self, mut chart: Chart<'_, '_, X, Y>) -> Result<(), Problem>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        if let Some(mark) = self.mark_x {
            let range = chart.as_coord_spec().get_y_range();
            let line = [(mark, range.start), (mark, range.end)];
            chart.draw_series(LineSeries::new(line, BLACK.mix(0.5).stroke_width(1)))?;
        }
        for (place, series) in self.series.iter().enumerate() {
            let style = colour(place).stroke_width(2);
            chart.draw_series(LineSeries::new(series.points.iter().copied(), style))?;
            if self.logarithmic {
                let points = series.points.iter();
                chart.draw_series(points.map(|at| Circle::new(*at, 3, colour(place).filled())))?;
            }
        }
        Ok(())
    }
}
