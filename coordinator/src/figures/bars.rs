//! Grouped bars: one group for each quantity, one bar in it for each thing compared.

use plotters::prelude::*;

use super::{FigureError, LABELS, MARGIN, colour, largest, svg};

/// Grouped bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// What the height means.
    pub y: String,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// Names of the bars in each group.
    pub bars: Vec<String>,
    /// `heights[bar][group]`.
    pub heights: Vec<Vec<f64>>,
}

impl Bars {
    /// The chart as SVG.
    ///
    /// # Errors
    /// [`FigureError`] when the drawing library refuses.
    pub fn svg(&self) -> Result<String, FigureError> {
        let top = largest(self.heights.iter().flatten().copied(), 1e-9) * 1.08;
        let groups = self.groups.len().max(1) as f64;
        let width = 0.8 / self.bars.len().max(1) as f64;
        svg(&self.title, |canvas| {
            let mut chart = ChartBuilder::on(canvas)
                .caption(&self.title, ("sans-serif", 18))
                .margin(MARGIN)
                .x_label_area_size(LABELS.1)
                .y_label_area_size(LABELS.0)
                .build_cartesian_2d(0.0..groups * 1.25, 0.0..top)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .disable_x_axis()
                .y_desc(&self.y)
                .light_line_style(WHITE)
                .draw()?;
            for (bar, name) in self.bars.iter().enumerate() {
                let style = colour(bar).filled();
                let rectangles = self.heights[bar].iter().enumerate().map(|(group, height)| {
                    let left = group as f64 + 0.1 + width * bar as f64;
                    Rectangle::new([(left, 0.0), (left + width * 0.92, *height)], style)
                });
                chart
                    .draw_series(rectangles)?
                    .label(name)
                    .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], style));
            }
            let label = ("sans-serif", 14).into_font();
            for (group, name) in self.groups.iter().enumerate() {
                let at = chart.backend_coord(&(group as f64 + 0.12, 0.0));
                canvas.draw(&Text::new(name.clone(), (at.0, at.1 + 10), label.clone()))?;
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
