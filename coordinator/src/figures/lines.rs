//! Line charts.

use plotters::prelude::*;

use super::{FigureError, LABELS, MARGIN, colour, largest, svg};

/// A named line.
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
        svg(&self.title, |canvas| {
            let mut builder = ChartBuilder::on(canvas);
            builder
                .caption(&self.title, ("sans-serif", 18))
                .margin(MARGIN)
                .x_label_area_size(LABELS.1)
                .y_label_area_size(LABELS.0);
            if self.logarithmic {
                let x = (low_x..top_x * 1.05).log_scale();
                let y = (low_y..top_y * 1.05).log_scale();
                self.draw(builder.build_cartesian_2d(x, y)?)
            } else {
                self.draw(builder.build_cartesian_2d(0.0..top_x, 0.0..top_y)?)
            }
        })
    }

    fn draw<'a, 'b: 'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        X: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
    {
        chart.configure_mesh().x_desc(&self.x).y_desc(&self.y).light_line_style(WHITE).draw()?;
        if let Some(mark) = self.mark_x {
            let top = chart.as_coord_spec().get_y_range().end;
            let line = [(mark, 0.0), (mark, top)];
            chart.draw_series(LineSeries::new(line, BLACK.mix(0.5).stroke_width(1)))?;
        }
        for (place, series) in self.series.iter().enumerate() {
            let style = colour(place).stroke_width(2);
            chart
                .draw_series(LineSeries::new(series.points.iter().copied(), style))?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        if self.series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerRight)
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK.mix(0.3))
                .draw()?;
        }
        Ok(())
    }
}
