//! How cost grows with size: log-log panels, and peak memory.

use std::path::PathBuf;

use plotters::prelude::*;

/// A curve: its name, and (size, cost).
pub type Curve = (String, Vec<(f64, f64)>);

/// One panel: a title that names the size, and its curves.
pub struct Panel {
    pub title: String,
    pub curves: Vec<Curve>,
}

/// Peak resident memory of this process, MiB; 0 where the system does not say.
pub fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Draws `target/bench/NAME.svg`, cost in `unit`.
pub fn draw(name: &str, unit: &str, panels: &[Panel]) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&root).unwrap();
    let path = root.join(name).with_extension("svg");
    let area = SVGBackend::new(&path, (320 * panels.len().max(2) as u32, 320)).into_drawing_area();
    area.fill(&WHITE).unwrap();
    for (place, panel) in area.split_evenly((1, panels.len())).iter().zip(panels) {
        let all = || panel.curves.iter().flat_map(|curve| curve.1.iter().copied());
        let least = |of: fn((f64, f64)) -> f64| all().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn((f64, f64)) -> f64| all().map(of).fold(0.0, f64::max);
        let x = (least(|at| at.0)..most(|at| at.0)).log_scale();
        let y = (least(|at| at.1) / 1.5..most(|at| at.1) * 1.5).log_scale();
        let mut chart = ChartBuilder::on(place)
            .margin(8)
            .caption(&panel.title, ("sans-serif", 15))
            .x_label_area_size(28)
            .y_label_area_size(48)
            .build_cartesian_2d(x, y)
            .unwrap();
        chart.configure_mesh().y_desc(unit).draw().unwrap();
        for ((name, points), colour) in
            panel.curves.iter().zip([BLUE, GREEN, MAGENTA, RED, BLACK].iter().cycle())
        {
            let style = colour.stroke_width(2);
            let line = LineSeries::new(points.iter().copied(), style).point_size(3);
            let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], *colour);
            chart.draw_series(line).unwrap().label(name).legend(legend);
        }
        if panel.curves.len() > 1 {
            let labels = chart.configure_series_labels();
            { labels }.background_style(WHITE.mix(0.8)).draw().unwrap();
        }
    }
    area.present().unwrap();
    eprintln!("growth drawn to {}", path.display());
}
