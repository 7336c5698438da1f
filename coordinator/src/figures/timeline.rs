//! Timelines: who held which row when.

use plotters::prelude::*;

use super::{FigureError, LABELS, MARGIN, colour, largest, svg};

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
        svg(&self.title, |canvas| {
            let mut chart = ChartBuilder::on(canvas)
                .caption(&self.title, ("sans-serif", 18))
                .margin(MARGIN)
                .x_label_area_size(LABELS.1)
                .y_label_area_size(LABELS.0)
                .build_cartesian_2d(0.0..end, 0.0..f64::from(self.rows.max(1)))?;
            chart
                .configure_mesh()
                .disable_mesh()
                .x_desc(&self.x)
                .y_desc(&self.y)
                .y_label_formatter(&|row| format!("{row:.0}"))
                .draw()?;
            for (class, name) in self.classes.iter().enumerate() {
                let style = colour(class).filled();
                let blocks = self.blocks.iter().filter(|block| block.class == class);
                let rectangles = blocks.map(|block| {
                    let row = f64::from(block.row);
                    Rectangle::new([(block.from, row + 0.05), (block.to, row + 0.95)], style)
                });
                chart
                    .draw_series(rectangles)?
                    .label(name)
                    .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], style));
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK.mix(0.3))
                .draw()?;
            Ok(())
        })
    }
}
