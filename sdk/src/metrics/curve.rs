//! The learning curve as an SVG picture: loss, metrics, batch size, and the noise scale with its interval.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::record::EpochRecord;

/// Points of one line, in order of their epochs.
type Points = Vec<(f64, f64)>;

/// One panel of the picture.
struct Panel {
    title: String,
    lines: Vec<(String, Points)>,
    /// Lower and upper edge of a band, by epoch.
    band: Vec<(f64, (f64, f64))>,
    /// Whether the values are drawn by their logarithm: sizes of batches.
    sizes: bool,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T> = Result<T, DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>>;

const SIZE: (u32, u32) = (840, 250);

/// Draws the epochs.
pub(super) fn svg(epochs: &[EpochRecord]) -> Result<String, String> {
    let panels = panels(epochs);
    let mut text = String::new();
    {
        let size = (SIZE.0, SIZE.1 * panels.len() as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let draw = || -> Drawn<()> {
            root.fill(&WHITE)?;
            for (area, panel) in root.split_evenly((panels.len(), 1)).iter().zip(&panels) {
                panel.draw(area)?;
            }
            root.present()
        };
        draw().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn points(epochs: &[EpochRecord], value: impl Fn(&EpochRecord) -> Option<f64>) -> Points {
    let point = |e: &EpochRecord| Some(((e.place.epoch + 1) as f64, value(e)?));
    epochs.iter().filter_map(point).filter(|(_, y)| y.is_finite()).collect()
}

/// A value that holds until the next one: corners in between.
fn steps(points: &Points) -> Points {
    let corners = points.windows(2).map(|pair| (pair[0].0, pair[1].1));
    let mut all: Points = points.iter().take(1).copied().collect();
    for (corner, point) in corners.zip(&points[1.min(points.len())..]) {
        all.extend([corner, *point]);
    }
    all
}

/// The panels that there are numbers for.
fn panels(epochs: &[EpochRecord]) -> Vec<Panel> {
    let panel = |title: &str, lines, sizes| Panel {
        title: title.to_owned(),
        lines,
        band: Vec::new(),
        sizes,
    };
    let mut names: Vec<&String> = epochs.iter().flat_map(|e| e.metrics.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let metrics = names.into_iter().map(|name| {
        let line = points(epochs, |e| e.metrics.get(name).copied());
        panel(name, vec![(name.clone(), line)], false)
    });
    let loss = vec![("loss".to_owned(), points(epochs, |e| Some(e.loss)))];
    let mut sizes = vec![("batch size".to_owned(), points(epochs, |e| Some(e.place.batch as f64)))];
    let noise = points(epochs, |e| e.noise_scale.filter(|noise| *noise > 0.0));
    let mut title = "batch size (samples)";
    if !noise.is_empty() {
        title = "batch size and noise scale with its 95 % interval (samples)";
        sizes.push(("noise scale".to_owned(), noise));
    }
    let all = || sizes.iter().flat_map(|(_, points)| points.iter().map(|(_, y)| *y));
    // An end that is infinite or zero is drawn at the edge.
    let edges = (all().fold(f64::INFINITY, f64::min) / 4.0, all().fold(1.0, f64::max) * 4.0);
    let interval = |e: &EpochRecord| {
        let (low, high) = e.noise_interval.filter(|(low, high)| low <= high)?;
        let within = |end: f64| end.clamp(edges.0, edges.1.max(edges.0));
        Some(((e.place.epoch + 1) as f64, (within(low), within(high))))
    };
    let band = epochs.iter().filter_map(interval).collect();
    sizes[0].1 = steps(&sizes[0].1);
    let last = Panel { band, ..panel(title, sizes, true) };
    std::iter::once(panel("training loss", loss, false))
        .chain(metrics)
        .chain(std::iter::once(last))
        .filter(|panel| panel.lines.iter().any(|(_, points)| !points.is_empty()))
        .collect()
}

impl Panel {
    /// A value's height in the panel.
    fn height(&self, value: f64) -> f64 {
        if self.sizes { value.max(1e-300).log2() } else { value }
    }

    /// All points and edges of the band.
    fn extent(&self) -> ((f64, f64), (f64, f64)) {
        let edges = self.band.iter().flat_map(|(x, (low, high))| [(*x, *low), (*x, *high)]);
        let points = self.lines.iter().flat_map(|(_, points)| points.iter().copied());
        let (mut xs, mut ys) = ((1.0f64, 2.0f64), (f64::INFINITY, f64::NEG_INFINITY));
        for (x, y) in points.chain(edges) {
            let y = self.height(y);
            xs = (xs.0.min(x), xs.1.max(x));
            ys = (ys.0.min(y), ys.1.max(y));
        }
        // A flat line needs some room too.
        let room = ((ys.1 - ys.0) * 0.08).max(ys.0.abs() * 1e-3).max(1e-9);
        (xs, (ys.0 - room, ys.1 + room))
    }

    fn draw(&self, area: &Area<'_>) -> Drawn<()> {
        let ((from, to), (low, high)) = self.extent();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 16))
            .margin(8)
            .margin_right(24)
            .x_label_area_size(34)
            .y_label_area_size(64)
            .build_cartesian_2d(from..to, low..high)?;
        let sizes = self.sizes;
        let label = move |y: &f64| if sizes { format!("{:.0}", y.exp2()) } else { short(*y) };
        chart
            .configure_mesh()
            .x_desc("epoch")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&label)
            .light_line_style(WHITE)
            .draw()?;
        let edge = |upper: bool| {
            let at = move |&(x, (low, high)): &(f64, (f64, f64))| {
                (x, self.height(if upper { high } else { low }))
            };
            self.band.iter().map(at)
        };
        let outline: Points = edge(true).chain(edge(false).rev()).collect();
        if outline.len() > 2 {
            chart.draw_series([Polygon::new(outline, full_palette::ORANGE.mix(0.2))])?;
        }
        let colours = [full_palette::BLUE, full_palette::DEEPORANGE];
        for ((name, points), colour) in self.lines.iter().zip(colours) {
            let line: Points = points.iter().map(|&(x, y)| (x, self.height(y))).collect();
            let marks = line.iter().map(|&at| Circle::new(at, 2, colour.filled()));
            chart.draw_series(marks)?;
            let style = colour.stroke_width(2);
            let drawn = chart.draw_series(LineSeries::new(line, style))?;
            if self.lines.len() > 1 {
                let mark = move |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], style);
                drawn.label(name).legend(mark);
            }
        }
        if self.lines.len() > 1 {
            let background = WHITE.mix(0.8);
            chart.configure_series_labels().background_style(background).draw()?;
        }
        Ok(())
    }
}

/// A number in few characters.
fn short(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e5).contains(&value.abs()) {
        return format!("{value:.1e}");
    }
    format!("{value:.3}")
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn a_size_holds_until_it_changes() {
        let points = vec![(1.0, 32.0), (2.0, 32.0), (3.0, 64.0)];
        let expected = [(1.0, 32.0), (1.0, 32.0), (2.0, 32.0), (2.0, 64.0), (3.0, 64.0)];
        assert_eq!(steps(&points), expected);
        assert!(steps(&Vec::new()).is_empty());
    }
}
