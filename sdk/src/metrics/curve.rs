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
        // A flat line needs some room too; sizes get half an octave, so that one of them has a label.
        let flat = if self.sizes { 0.5 } else { ys.0.abs() * 1e-3 };
        let room = ((ys.1 - ys.0) * 0.08).max(flat).max(1e-9);
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
        let (sizes, step) = (self.sizes, (high - low) / LABELS as f64);
        let label = move |y: &f64| if sizes { whole(*y, f64::exp2) } else { decimal(*y, step) };
        chart
            .configure_mesh()
            .x_desc("epoch")
            .x_labels(LABELS)
            .y_labels(LABELS)
            .x_label_formatter(&|x| whole(*x, |x| x))
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

/// Labels of an axis, at most.
const LABELS: usize = 10;

/// The label at a whole number: what `f` makes of it. Nothing in between: rounded, it would be said twice or be wrong.
fn whole(at: f64, f: impl Fn(f64) -> f64) -> String {
    if (at - at.round()).abs() > 1e-6 { String::new() } else { format!("{:.0}", f(at.round())) }
}

/// A number with as many digits as tell it from the next label, which is `step` away or more.
fn decimal(value: f64, step: f64) -> String {
    let last_digit = step.log10().floor();
    if value.abs() < step * 1e-6 {
        return "0".to_owned();
    }
    if last_digit < -5.0 || value.abs() >= 1e6 {
        let digits = (value.abs().log10().floor() - last_digit).clamp(0.0, 12.0);
        return format!("{value:.*e}", digits as usize);
    }
    format!("{value:.*}", (-last_digit).max(0.0) as usize)
}

#[cfg(test)]
mod tests {
    use plotters::coord::ranged1d::Ranged;
    use plotters::coord::types::RangedCoordf64;

    use super::{LABELS, decimal, steps, whole};

    /// The labels of an axis that are not empty.
    fn labels(from: f64, to: f64, label: impl Fn(f64) -> String) -> Vec<String> {
        let ticks = RangedCoordf64::from(from..to).key_points(LABELS);
        assert!(!ticks.is_empty(), "{from}..{to}");
        ticks.into_iter().map(label).filter(|label| !label.is_empty()).collect()
    }

    fn assert_distinct(labels: &[String]) {
        assert!(labels.windows(2).all(|pair| pair[0] != pair[1]), "{labels:?}");
    }

    #[test]
    fn no_label_stands_twice_and_each_is_true() {
        let ranges = [
            (2.301, 2.3014),
            (0.0, 1.0),
            (-0.3, 0.25),
            (1.0e-7, 9.0e-7),
            (0.92, 0.921),
            (11.0, 4.0e7),
            (123_456.0, 123_457.0),
        ];
        for (from, to) in ranges {
            let step = (to - from) / LABELS as f64;
            let said = labels(from, to, |y| {
                let text = decimal(y, step);
                let read: f64 = text.parse().unwrap_or(f64::NAN);
                assert!((read - y).abs() <= 0.5 * step, "{text} for {y}");
                text
            });
            assert!(said.len() > 1, "{said:?}");
            assert_distinct(&said);
        }
    }

    #[test]
    fn epochs_and_sizes_have_labels_at_whole_numbers_only() {
        assert_eq!(labels(1.0, 2.0, |x| whole(x, |x| x)), ["1", "2"]);
        assert_eq!(labels(1.0, 3.0, |x| whole(x, |x| x)), ["1", "2", "3"]);
        assert_distinct(&labels(1.0, 37.0, |x| whole(x, |x| x)));
        assert_eq!(labels(4.5, 5.5, |y| whole(y, f64::exp2)), ["32"]);
        assert_eq!(labels(4.7, 8.2, |y| whole(y, f64::exp2)), ["32", "64", "128", "256"]);
    }

    #[test]
    fn a_size_holds_until_it_changes() {
        let points = vec![(1.0, 32.0), (2.0, 32.0), (3.0, 64.0)];
        let expected = [(1.0, 32.0), (1.0, 32.0), (2.0, 32.0), (2.0, 64.0), (3.0, 64.0)];
        assert_eq!(steps(&points), expected);
        assert!(steps(&Vec::new()).is_empty());
    }
}
