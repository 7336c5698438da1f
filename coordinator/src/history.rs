//! Who ran when, and with which batch size: the log of a coordinator as a picture.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::prelude::*;
use shockwave_core::engine::ReleaseReason;
use shockwave_proto::v1;

use crate::service::record::Record;

/// A stretch of one lease with one batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its begin, seconds since 1970.
    pub from_unix_s: f64,
    /// Its end, seconds since 1970; none: it goes on.
    pub to_unix_s: Option<f64>,
    /// Batch size, samples; none before the job has said it.
    pub batch: Option<u32>,
}

/// A job's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Number.
    pub job: u64,
    /// Name.
    pub name: String,
    /// Submission, seconds since 1970.
    pub submitted_unix_s: f64,
    /// Completion as the job said it, seconds since 1970.
    pub finished_unix_s: Option<f64>,
    /// Its end, however it came, seconds since 1970; as far as it is known.
    pub ended_unix_s: Option<f64>,
    /// Times that it gave its devices back before its end.
    pub preemptions: u32,
    /// When it ran, in order.
    pub spans: Vec<Span>,
}

/// What a log says about who ran when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    rows: BTreeMap<u64, Row>,
    /// Time of the last record, seconds since 1970.
    last_unix_s: f64,
}

/// Why a picture cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the timeline cannot be drawn: {0}")]
pub struct DrawError(String);

impl History {
    /// Takes a record of the log and when it was written, seconds since 1970; oldest first.
    pub fn add(&mut self, at_unix_s: f64, record: &Record) {
        self.last_unix_s = self.last_unix_s.max(at_unix_s);
        match record {
            Record::Submitted { job, request, .. } => {
                let row = Row {
                    job: *job,
                    name: request.name.clone(),
                    submitted_unix_s: at_unix_s,
                    finished_unix_s: None,
                    ended_unix_s: None,
                    preemptions: 0,
                    spans: Vec::new(),
                };
                self.rows.insert(*job, row);
            }
            Record::Cancelled { job, .. } => self.ended(*job, at_unix_s),
            Record::Running { job, .. } => {
                if let Some(row) = self.rows.get_mut(job) {
                    row.begin(at_unix_s, None);
                }
            }
            Record::Released { job, reason, .. } => {
                if let Some(row) = self.rows.get_mut(job) {
                    row.end(at_unix_s);
                    row.preemptions += u32::from(
                        row.finished_unix_s.is_none() && *reason == ReleaseReason::Yielded,
                    );
                }
            }
            Record::Reported { job, events, .. } => {
                if let Some(row) = self.rows.get_mut(job) {
                    events.iter().for_each(|event| row.hear(at_unix_s, event));
                }
            }
            _ => {}
        }
    }

    /// A job has ended: what the log's records alone do not say of one that failed.
    pub fn ended(&mut self, job: u64, at_unix_s: f64) {
        if let Some(row) = self.rows.get_mut(&job) {
            row.ended_unix_s = Some(at_unix_s);
        }
    }

    /// The rows, by job number.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// First submission and last record, seconds since 1970; none without jobs.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let first = self.rows().map(|row| row.submitted_unix_s).reduce(f64::min)?;
        Some((first, self.last_unix_s.max(first + 1e-3)))
    }

    /// Draws the rows as an SVG picture.
    ///
    /// # Errors
    /// There is no job, or the drawing library fails.
    pub fn svg(&self) -> Result<String, DrawError> {
        let (from, to) = self.range().ok_or_else(|| DrawError("there are no jobs".into()))?;
        let mut svg = String::new();
        let size = (960, 110 + LEGEND_PX + 44 * self.rows.len() as u32);
        {
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let failed = |error: Drawing| DrawError(error.to_string());
            area.fill(&WHITE).map_err(failed)?;
            let (rows, legend) = area.split_vertically(size.1 - LEGEND_PX);
            self.draw(&rows, from, to).map_err(failed)?;
            draw_legend(&legend).map_err(failed)?;
            area.present().map_err(|error| DrawError(error.to_string()))?;
        }
        Ok(svg)
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        from: f64,
        to: f64,
    ) -> Result<(), Drawing> {
        let rows: Vec<&Row> = self.rows.values().collect();
        let bottom = rows.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .caption("Who ran when, by batch size", ("sans-serif", 18))
            .margin(10)
            .margin_right(20)
            .x_label_area_size(36)
            .y_label_area_size(150)
            .build_cartesian_2d(0.0..to - from, bottom..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .y_label_formatter(&|_| String::new())
            .x_desc("seconds since the first submission")
            .light_line_style(WHITE)
            .draw()?;
        for (index, row) in rows.iter().enumerate() {
            let (top, low) = (index as f64 + 0.2, index as f64 + 0.8);
            let label = format!("{} {}", row.job, row.name);
            let style = ("sans-serif", 13).into_font().color(&BLACK);
            let place = chart.backend_coord(&(0.0, index as f64 + 0.5));
            let at = (place.0 - 145, place.1 - 7);
            area.draw(&Text::new(shorten(&label), at, style))?;
            let end = row.finished_unix_s.or(row.ended_unix_s).unwrap_or(to).min(to);
            let life = [(row.submitted_unix_s - from, top + 0.3), (end - from, top + 0.3)];
            chart.draw_series(LineSeries::new(life, BLACK.mix(0.3)))?;
            for span in &row.spans {
                let (left, right) = (span.from_unix_s - from, span.to_unix_s.unwrap_or(to) - from);
                let bar = Rectangle::new([(left, top), (right, low)], colour(span.batch).filled());
                chart.draw_series([bar])?;
                let (x, y) = chart.backend_coord(&(left, index as f64 + 0.5));
                let width = chart.backend_coord(&(right, 0.0)).0 - x;
                if let Some(batch) = span.batch.filter(|_| width > 26) {
                    let style = ("sans-serif", 11).into_font().color(&WHITE);
                    area.draw(&Text::new(batch.to_string(), (x + 3, y - 5), style))?;
                }
            }
        }
        Ok(())
    }
}

/// What can go wrong with a drawing.
type Drawing = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;

/// Height of the legend, pixels.
const LEGEND_PX: u32 = 30;

/// What the colours and lines mean.
fn draw_legend(area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Drawing> {
    let mut x = 160;
    let text = |x: i32, words: &str| {
        let style = ("sans-serif", 12).into_font().color(&BLACK);
        area.draw(&Text::new(words.to_owned(), (x, 7), style))
    };
    for (batch, words) in
        [(Some(16), "runs, batch 16"), (Some(256), "256"), (Some(4096), "4096 or more")]
    {
        area.draw(&Rectangle::new([(x, 6), (x + 22, 20)], colour(batch).filled()))?;
        text(x + 28, words)?;
        x += 44 + 7 * words.len() as i32;
    }
    area.draw(&Rectangle::new([(x, 6), (x + 22, 20)], colour(None).filled()))?;
    text(x + 28, "runs, batch not told")?;
    x += 184;
    area.draw(&PathElement::new([(x, 13), (x + 22, 13)], BLACK.mix(0.3)))?;
    text(x + 28, "from its submission to its end")
}

impl Row {
    fn begin(&mut self, at_unix_s: f64, batch: Option<u32>) {
        // A gang starts on several machines: its lease is one stretch.
        if self.spans.last().is_none_or(|span| span.to_unix_s.is_some()) {
            self.spans.push(Span { from_unix_s: at_unix_s, to_unix_s: None, batch });
        }
    }

    fn end(&mut self, at_unix_s: f64) {
        if let Some(span) = self.spans.last_mut().filter(|span| span.to_unix_s.is_none()) {
            span.to_unix_s = Some(at_unix_s.max(span.from_unix_s));
        }
    }

    fn hear(&mut self, at_unix_s: f64, event: &v1::Event) {
        use v1::event::Kind;
        match &event.kind {
            Some(Kind::Started(started)) => self.batch_is(at_unix_s, started.batch),
            Some(Kind::RegimeChanged(changed)) => self.batch_is(at_unix_s, changed.new_batch),
            Some(Kind::Finished(_)) => self.finished_unix_s = Some(at_unix_s),
            _ => {}
        }
    }

    /// Splits the stretch going on where the batch size changes.
    fn batch_is(&mut self, at_unix_s: f64, batch: u32) {
        let Some(span) = self.spans.last_mut().filter(|span| span.to_unix_s.is_none()) else {
            return;
        };
        match span.batch {
            None => span.batch = Some(batch),
            Some(old) if old != batch => {
                self.end(at_unix_s);
                self.begin(at_unix_s, Some(batch));
            }
            Some(_) => {}
        }
    }
}

fn shorten(label: &str) -> String {
    if label.chars().count() <= 22 {
        return label.to_owned();
    }
    label.chars().take(21).chain(['…']).collect()
}

/// From blue (small batches) to orange (4096 samples and more), by the logarithm.
fn colour(batch: Option<u32>) -> RGBColor {
    let Some(batch) = batch else { return RGBColor(160, 160, 160) };
    let share = (f64::from(batch.max(1)).log2() / 12.0).min(1.0);
    let mix = |small: f64, large: f64| (small + (large - small) * share) as u8;
    RGBColor(mix(20.0, 230.0), mix(90.0, 110.0), mix(200.0, 10.0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn submitted(job: u64, name: &str) -> Record {
        let request = v1::JobRequest { name: name.into(), ..Default::default() };
        let user = "me".to_owned();
        Record::Submitted { job, user, key: String::new(), request: Box::new(request) }
    }

    fn running(job: u64, lease_epoch: u64) -> Record {
        Record::Running { job, lease_epoch, node: "n".into() }
    }

    fn released(job: u64, lease_epoch: u64, reason: ReleaseReason) -> Record {
        Record::Released { job, lease_epoch, node: "n".into(), reason }
    }

    fn reported(job: u64, kind: v1::event::Kind) -> Record {
        let event = v1::Event { number: 1, lease_epoch: 1, at_unix_s: 0.0, kind: Some(kind) };
        Record::Reported { job, lease_epoch: 1, events: vec![event] }
    }

    fn started(batch: u32) -> v1::event::Kind {
        v1::event::Kind::Started(v1::Started { batch, ..Default::default() })
    }

    fn example() -> History {
        let changed = v1::RegimeChanged { old_batch: 32, new_batch: 64, ..Default::default() };
        let mut timeline = History::default();
        let records = [
            (100.0, submitted(1, "accordion<&>")),
            (101.0, running(1, 1)),
            (102.0, reported(1, started(32))),
            (105.0, reported(1, v1::event::Kind::RegimeChanged(changed))),
            (108.0, released(1, 1, ReleaseReason::Yielded)),
            (110.0, running(1, 2)),
            (111.0, reported(1, started(64))),
            (114.0, reported(1, v1::event::Kind::Finished(v1::Finished::default()))),
            (115.0, released(1, 2, ReleaseReason::Exited { code: 0 })),
        ];
        for (at_unix_s, record) in records {
            timeline.add(at_unix_s, &record);
        }
        timeline
    }

    #[test]
    fn leases_are_split_where_the_batch_size_changes() {
        let timeline = example();
        let row = timeline.rows().next().unwrap();
        let spans: Vec<_> =
            row.spans.iter().map(|s| (s.from_unix_s, s.to_unix_s.unwrap(), s.batch)).collect();
        let expected =
            [(101.0, 105.0, Some(32)), (105.0, 108.0, Some(64)), (110.0, 115.0, Some(64))];
        assert_eq!(spans, expected);
        assert_eq!((row.preemptions, row.finished_unix_s), (1, Some(114.0)));
    }

    #[test]
    fn a_job_that_has_ended_waits_no_more() {
        let mut timeline = example();
        timeline.add(120.0, &submitted(2, "cancelled"));
        timeline.add(130.0, &Record::Cancelled { job: 2, why: "mistake".into() });
        timeline.add(140.0, &submitted(3, "failed"));
        timeline.ended(3, 150.0);
        timeline.add(200.0, &Record::Tick);
        let ends: Vec<_> = timeline.rows().map(|row| row.ended_unix_s).collect();
        assert_eq!(ends, [None, Some(130.0), Some(150.0)]);
        let svg = timeline.svg().unwrap();
        // Time 0 of the axis is at 160, its end at 940: a life of 10 s in 100 is 78 pixels long.
        let lives = svg.lines().filter(|line| line.contains("polyline") && line.contains("0.3"));
        let widths: Vec<f64> = lives
            .filter_map(|line| {
                let points = line.split("points=\"").nth(1)?.split('"').next()?;
                let xs: Vec<f64> = points
                    .split_whitespace()
                    .filter_map(|point| point.split(',').next()?.parse().ok())
                    .collect();
                Some(xs.last()? - xs.first()?)
            })
            .collect();
        assert!(widths.len() >= 3 && widths.iter().all(|width| *width < 200.0), "{widths:?}");
    }

    #[test]
    fn the_picture_names_the_jobs_and_is_well_formed() {
        let svg = example().svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(svg.contains("accordion&lt;&amp;&gt;"), "names are escaped");
        assert_eq!(svg.matches("<rect").count(), 1 + 3 + 4, "background, stretches, legend");
        assert!(svg.contains("from its submission to its end"), "a legend");
        assert!(History::default().svg().is_err());
    }
}
