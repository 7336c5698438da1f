//! What all charts share: the title, room for axes, and a legend beside the plot, so that it hides
//! nothing.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use super::{Canvas, Problem, colour};

/// Margin around a picture, pixels.
const MARGIN: u32 = 12;
/// Room for labels left of and below an axis, pixels.
const LABELS: (u32, u32) = (64, 46);
/// Height of a line of the legend, and of the room above its first, pixels.
const LINE: (i32, i32) = (20, 44);
/// Mean width of a letter of the legend, pixels.
const LETTER: f64 = 7.2;

/// How the legend shows a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A filled box.
    Box,
    /// A line.
    Line,
    /// A point.
    Point,
}

/// Labels on each axis where nothing else is asked for.
pub(super) const USUAL: (usize, usize) = (11, 11);

/// Title and axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'f> {
    pub(super) title: &'f str,
    pub(super) x: &'f str,
    pub(super) y: &'f str,
    /// Most labels on the x and on the y axis.
    pub(super) labels: (usize, usize),
}

/// A chart on an area.
pub(super) type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

impl Frame<'_> {
    /// A chart with its axes on an area.
    pub(super) fn chart<'a, 'b: 'a, X, Y>(
        &self,
        area: &'a DrawingArea<SVGBackend<'b>, Shift>,
        x: X,
        y: Y,
    ) -> Result<Chart<'a, 'b, X::CoordDescType, Y::CoordDescType>, Problem>
    where
        X: plotters::coord::ranged1d::AsRangedCoord<Value = f64>,
        Y: plotters::coord::ranged1d::AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 18))
            .margin(MARGIN)
            .x_label_area_size(LABELS.1)
            .y_label_area_size(LABELS.0)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .x_labels(self.labels.0)
            .y_labels(self.labels.1)
            .x_label_formatter(&short)
            .y_label_formatter(&short)
            .axis_desc_style(("sans-serif", 15))
            .label_style(("sans-serif", 13))
            .bold_line_style(BLACK.mix(0.12))
            .light_line_style(TRANSPARENT)
            .draw()?;
        Ok(chart)
    }
}

/// A number on an axis, without zeros that say nothing.
#[allow(clippy::trivially_copy_pass_by_ref)] // the drawing library hands out references
pub(super) fn short(value: &f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

/// Parts a canvas into the plot and, where there are names, a legend.
pub(super) fn beside_legend<'b>(
    canvas: &Canvas<'b>,
    names: &[String],
    key: Key,
) -> Result<Canvas<'b>, Problem> {
    if names.is_empty() {
        return Ok(canvas.clone());
    }
    let letters = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let width = 40 + (letters as f64 * LETTER) as u32;
    let (plot, legend) = canvas.split_horizontally(canvas.dim_in_pixel().0.saturating_sub(width));
    for (place, name) in names.iter().enumerate() {
        let y = LINE.1 + LINE.0 * place as i32;
        let colour = colour(place);
        match key {
            Key::Box => legend.draw(&Rectangle::new([(2, y), (18, y + 11)], colour.filled()))?,
            Key::Line => {
                let line = vec![(2, y + 6), (20, y + 6)];
                legend.draw(&PathElement::new(line, colour.stroke_width(3)))?;
            }
            Key::Point => legend.draw(&Circle::new((10, y + 6), 4, colour.filled()))?,
        }
        let text = Text::new(name.clone(), (26, y), ("sans-serif", 13).into_font());
        legend.draw(&text)?;
    }
    Ok(plot)
}
