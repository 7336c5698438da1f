//! Timelines: who held which row when.

use plotters::prelude::*;

use super::frame::{Frame, Key, beside_legend};
use super::{FigureError, colour, largest, svg};

/// One row held over a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Row, from 0.
    pub row: u32,
    /// From when, in the x axis's unit.
    pub from: f64,
    /// Until when.
    pub to: f64,
    /// Class, an index into [`Timeline::classes`]: its colour.
    pub class: usize,
}

/// A timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Title.
    pub title: String,
    /// What the x axis shows, with its unit.
    pub x: String,
    /// What a row is.
    pub y: String,
    /// Number of rows.
    pub rows: u32,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// The blocks.
    pub blocks: Vec<Block>,
}

impl Timeline {
    /// The chart as SVG.
    ///
    /// # Errors
    /// [`FigureError`] when the drawing library refuses.
    pub fn svg(&self) -> Result<String, FigureError> {
        let end = largest(self.blocks.iter().map(|block| block.to), 1e-9);
        let rows = f64::from(self.rows.max(1));
        // A gap between rows, where they are high enough for one; none between blocks, but an edge
        // where another job begins.
        let gap = if self.rows <= 64 { 0.08 } else { 0.0 };
        svg(&self.title, |canvas| {
            let plot = beside_legend(canvas, &self.classes, Key::Box)?;
            // No label between two rows.
            let labels = (11, (self.rows as usize + 1).min(11));
            let frame = Frame { title: &self.title, x: &self.x, y: &self.y, labels };
            let mut chart = frame.chart(&plot, 0.0..end, 0.0..rows)?;
            for block in &self.blocks {
                let row = f64::from(block.row);
                let corners = [(block.from, row + gap), (block.to, row + 1.0 - gap)];
                let fill = Rectangle::new(corners, colour(block.class).filled());
                chart.draw_series([fill])?;
                if self.rows <= 64 {
                    let edge = [(block.from, row + gap), (block.from, row + 1.0 - gap)];
                    chart.draw_series([PathElement::new(edge, WHITE.stroke_width(1))])?;
                }
            }
            Ok(())
        })
    }
}
