//! The timeline of memory as a picture in SVG.

use super::report::{MemoryReport, SHOWN_KINDS};
use super::timeline::{TimelinePoint, thinned};
use crate::units;
use plotters::prelude::*;
use std::time::Duration;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 480;
/// Most points that the picture draws: its width cannot distinguish more.
const MOST_POINTS: usize = 2048;

const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
const GRID: RGBColor = RGBColor(0xD8, 0xDC, 0xE0);
/// The fill colours of the kinds, distinguishable with colour blindness, on light and on dark
/// ground.
const FILLS: [RGBColor; SHOWN_KINDS.len()] =
    [RGBColor(0x2F, 0x81, 0xC7), RGBColor(0x2B, 0xA0, 0x7A), RGBColor(0xE0, 0x9B, 0x24)];

/// The colours of [`PAPER`], [`INK`] and [`GRID`] on dark ground. A style overrides an attribute.
const STYLE: &str = "<style>@media (prefers-color-scheme: dark) { \
    [fill=\"#FFFFFF\"] { fill: #16191D } [fill=\"#1F2328\"] { fill: #E6E8EB } \
    [stroke=\"#1F2328\"] { stroke: #E6E8EB } [stroke=\"#D8DCE0\"] { stroke: #3A4047 } }</style>";

const TIMES: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
const SIZES: [(f64, &str); 5] = [
    (1.0, "bytes"),
    (1024.0, "KiB"),
    (1048576.0, "MiB"),
    (1073741824.0, "GiB"),
    (1099511627776.0, "TiB"),
];

impl MemoryReport {
    /// Returns the timeline as a picture in SVG: stacked by kind, with axes and a legend, readable
    /// on light and dark ground. The picture is self-contained, without fonts and scripts. Requires
    /// the crate's feature `svg`.
    pub fn timeline_svg(&self) -> String {
        draw(self)
    }
}

/// Returns the picture in SVG.
fn draw(report: &MemoryReport) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
    chart(report, &area).expect("a picture of fixed size is drawn into a string");
    drop(area);
    match svg.find('>').filter(|_| svg.starts_with("<svg")) {
        Some(end) => svg.insert_str(end + 1, STYLE),
        None => {
            log::warn!("the picture does not start with '<svg', so it has no style for dark ground")
        }
    }
    svg
}

type DrawResult = Result<(), Box<dyn std::error::Error>>;

fn chart(
    report: &MemoryReport,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> DrawResult {
    let points = points(report);
    let end = report.elapsed.max(points.last().map_or(Duration::ZERO, |point| point.at));
    let (time, time_unit) = scale(end.as_nanos() as f64, &TIMES);
    let peak = points.iter().map(TimelinePoint::total_bytes).max().unwrap_or(0);
    let (size, size_unit) = scale(peak as f64, &SIZES);
    let axes =
        (0.0..(end.as_nanos() as f64 / time).max(1.0), 0.0..(peak as f64 / size).max(1.0) * 1.08);
    let text = |size: u32| ("sans-serif", size).into_font().color(&INK);

    area.fill(&PAPER)?;
    let title = format!("Live memory of {}, peak {}", report.name, units::bytes(peak));
    let mut builder = ChartBuilder::on(area);
    builder.margin(16).caption(title, text(22)).x_label_area_size(44).y_label_area_size(76);
    let mut chart = builder.build_cartesian_2d(axes.0, axes.1)?;
    let mut mesh = chart.configure_mesh();
    mesh.axis_style(INK).bold_line_style(GRID).light_line_style(TRANSPARENT);
    mesh.label_style(text(16)).axis_desc_style(text(17));
    mesh.x_desc(format!("time since the start ({time_unit})"));
    mesh.y_desc(format!("live memory ({size_unit})"));
    mesh.x_label_formatter(&number).y_label_formatter(&number);
    mesh.draw()?;
    // The whole stack is drawn first; each smaller stack covers the lower part of the one before.
    for kinds in (1..=SHOWN_KINDS.len()).rev() {
        let (kind, name) = SHOWN_KINDS[kinds - 1];
        if report.kind(kind).total_count == 0 {
            continue;
        }
        let steps = steps(&points, end, kinds);
        let scaled = steps.into_iter().map(|(at, bytes)| (at / time, bytes / size));
        let fill = FILLS[kinds - 1];
        let stack = AreaSeries::new(scaled, 0.0, fill.filled());
        chart
            .draw_series(stack)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 12, y + 6)], fill.filled()));
    }
    if report.total.total_count > 0 {
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::UpperLeft).margin(12).label_font(text(15));
        legend.background_style(PAPER).border_style(GRID).draw()?;
    }
    area.present()?;
    Ok(())
}

fn points(report: &MemoryReport) -> Vec<TimelinePoint> {
    let mut points = report.timeline.clone();
    while points.len() > MOST_POINTS {
        points = thinned(&points);
    }
    points
}

/// Returns the corners of the upper edge of the first `kinds` shown kinds, in nanoseconds and
/// bytes. Each level holds until the next point.
fn steps(points: &[TimelinePoint], end: Duration, kinds: usize) -> Vec<(f64, f64)> {
    let mut corners = vec![(0.0, 0.0)];
    let mut level = 0.0;
    for point in points {
        let at = point.at.as_nanos() as f64;
        corners.push((at, level));
        level = SHOWN_KINDS[..kinds].iter().map(|(kind, _)| point.bytes(*kind) as f64).sum();
        corners.push((at, level));
    }
    corners.push((end.as_nanos() as f64, level));
    corners
}

/// Returns the largest unit that is not larger than `most`, else the smallest.
fn scale<'a>(most: f64, units: &[(f64, &'a str)]) -> (f64, &'a str) {
    let fits = units.iter().rev().find(|(unit, _)| most >= *unit);
    fits.or(units.first()).copied().unwrap_or((1.0, ""))
}

/// Formats a number with at most two decimals: "0", "0.25", "1500".
fn number(value: &f64) -> String {
    let shown = format!("{value:.2}");
    shown.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::super::block::Use;
    use super::super::ledger::Ledger;
    use super::super::memory_use::Change;
    use super::*;
    use longshore_plugin_api::MemoryKind;
    use std::panic::Location;

    fn report(name: &str, allocations: u64) -> MemoryReport {
        let mut ledger = Ledger::default();
        let user = Use { bytes: 1 << 20, location: Location::caller() };
        for i in 0..allocations {
            let kind = SHOWN_KINDS[i as usize % SHOWN_KINDS.len()].0;
            let change = if i % 7 == 6 { Change::Freed } else { Change::Allocated };
            ledger.apply(Duration::from_micros(100 * i), change, kind, user);
        }
        ledger.report(name, Duration::from_micros(100 * allocations), true)
    }

    #[test]
    fn it_has_axes_with_units_a_title_and_a_legend() {
        let svg = report("toy:0", 40).timeline_svg();
        let texts = [
            "Live memory of toy:0, peak ",
            "time since the start (ms)",
            "live memory (MiB)",
            "device",
            "managed",
            "host",
            "prefers-color-scheme: dark",
        ];
        for text in texts {
            assert!(svg.contains(text), "no '{text}' in {svg}");
        }
        assert_eq!(svg.matches("<polygon").count(), SHOWN_KINDS.len());
    }

    #[test]
    fn it_needs_nothing_beside_it() {
        let svg = report("toy:0", 40).timeline_svg();
        let svg = svg.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for foreign in ["http", "<script", "<image", "@import", "url("] {
            assert!(!svg.contains(foreign), "'{foreign}' in {svg}");
        }
    }

    #[test]
    fn a_devices_name_cannot_break_it() {
        let svg = report("<b>&\"toy\"", 3).timeline_svg();
        assert!(svg.contains("&lt;b&gt;&amp;"), "{svg}");
        assert!(!svg.contains("<b>"), "{svg}");
    }

    #[test]
    fn nothing_and_very_much_can_be_drawn() {
        assert!(report("toy:0", 0).timeline_svg().ends_with("</svg>\n"));
        let mut huge = report("toy:0", 9000);
        huge.timeline.iter_mut().for_each(|point| point.live_bytes = [u64::MAX; 3]);
        huge.elapsed = Duration::MAX;
        assert!(huge.timeline_svg().len() < 500_000);
        assert_eq!(report("x", 3).kind(MemoryKind::Device).total_count, 1);
    }

    #[test]
    fn a_level_holds_until_the_next_point() {
        let points = report("toy:0", 2).timeline;
        let mib = f64::from(1 << 20);
        let expected =
            [(0.0, 0.0), (0.0, 0.0), (0.0, mib), (1e5, mib), (1e5, 2.0 * mib), (2e5, 2.0 * mib)];
        assert_eq!(steps(&points, Duration::from_micros(200), 2), expected);
    }

    #[test]
    fn numbers_have_no_useless_digits() {
        assert_eq!(
            [0.0, 0.25, 1500.0, 1.234].map(|value| number(&value)),
            ["0", "0.25", "1500", "1.23"]
        );
    }
}
