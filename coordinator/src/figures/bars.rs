//! Bars: one panel for each quantity, each with a scale of its own, one bar in it for each thing
//! compared.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::frame::{Key, beside_legend, short};
use super::{Canvas, FigureError, Problem, colour, largest, svg};

/// A quantity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// What it is, with its unit.
    pub title: String,
    /// Its value for each thing compared.
    pub values: Vec<f64>,
}

/// Panels of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// Names of the things compared.
    pub bars: Vec<String>,
    /// The quantities.
    pub panels: Vec<Panel>,
}

impl Bars {
    /// The chart as SVG.
    ///
    /// # Errors
    /// [`FigureError`] when the drawing library refuses.
    pub fn svg(&self) -> Result<String, FigureError> {
        svg(&self.title, |canvas| {
            let plot = beside_legend(canvas, &self.bars, Key::Box)?;
            let plot = plot.titled(&self.title, ("sans-serif", 18))?;
            let columns = plot.split_evenly((1, self.panels.len().max(1)));
            for (panel, area) in self.panels.iter().zip(&columns) {
                panel.draw(area)?;
            }
            Ok(())
        })
    }
}

impl Panel {
    fn draw(&self, area: &Canvas<'_>) -> Result<(), Problem> {
        let top = largest(self.values.iter().copied(), 1e-9) * 1.1;
        let count = self.values.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 14))
            .margin(8)
            .x_label_area_size(8)
            .y_label_area_size(38)
            .build_cartesian_2d(0.0..count, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .y_label_formatter(&short)
            .label_style(("sans-serif", 12))
            .bold_line_style(BLACK.mix(0.12))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (place, value) in self.values.iter().enumerate() {
            let left = place as f64;
            let corners = [(left + 0.08, 0.0), (left + 0.92, *value)];
            chart.draw_series([Rectangle::new(corners, colour(place).filled())])?;
            let text = if *value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") };
            let at = chart.backend_coord(&(left + 0.5, *value));
            let origin = area.get_base_pixel();
            // Many narrow bars have no room for their values beside each other.
            if self.values.len() <= 10 {
                let style = ("sans-serif", 11).into_font().color(&BLACK);
                let style = style.pos(Pos::new(HPos::Center, VPos::Bottom));
                let at = (at.0 - origin.0, at.1 - origin.1 - 1);
                area.draw(&Text::new(text, at, style))?;
            }
        }
        Ok(())
    }
}
