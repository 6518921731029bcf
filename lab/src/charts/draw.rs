//! A figure as an SVG file.

use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Axis, Figure, Kind, Point};

const SIZE: (u32, u32) = (900, 440);
/// Height of each figure if a file has several.
const PANEL_HEIGHT: u32 = 260;
/// The names of the series stand right of the plot.
const LEGEND_WIDTH: u32 = 190;
const FONT: &str = "sans-serif";
const FONT_SIZE: u32 = 13;
/// The mean width of a character of that size in pixels.
const CHARACTER: u32 = 7;
const MARGIN: u32 = 10;
/// The width of the labels of the y axis, and the height of those of the x axis.
const LEFT: u32 = 64;
const BELOW: u32 = 42;
/// The height of a further row of labels of the x axis.
const ROW: u32 = 14;
/// Colours that people with any colour blindness can distinguish (Okabe and Ito, 2008). Further
/// series repeat them, dashed and hollow.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

/// The shade of a region.
const SHADE: RGBColor = RGBColor(240, 228, 200);

/// A figure that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw {}: {why}", path.display())]
pub struct DrawError {
    /// The file.
    pub path: PathBuf,
    /// The message of the drawing library.
    pub why: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws a figure into a file.
///
/// # Errors
/// The file cannot be written.
pub fn draw(figure: &Figure, path: &Path) -> Result<(), DrawError> {
    into_file(figure, path).map_err(|why| DrawError { path: path.to_owned(), why: why.to_string() })
}

fn into_file(figure: &Figure, path: &Path) -> Drawn {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (plot, legend) = area.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    panel(&plot, figure)?;
    names(&legend, figure)?;
    Ok(area.present()?)
}

/// Draws figures that have the same series into one file, one below the other, with one legend.
///
/// # Errors
/// The file cannot be written.
pub fn draw_all(figures: &[Figure], path: &Path) -> Result<(), DrawError> {
    all_into_file(figures, path)
        .map_err(|why| DrawError { path: path.to_owned(), why: why.to_string() })
}

fn all_into_file(figures: &[Figure], path: &Path) -> Drawn {
    let Some(first) = figures.first() else { return Ok(()) };
    let size = (SIZE.0, PANEL_HEIGHT * figures.len() as u32);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let (plots, legend) = area.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    for (plot, figure) in plots.split_evenly((figures.len(), 1)).iter().zip(figures) {
        panel(plot, figure)?;
    }
    names(&legend, first)?;
    Ok(area.present()?)
}

fn panel(plot: &Area<'_>, figure: &Figure) -> Drawn {
    let ((left, right), (low, high)) = (across(figure), up(figure));
    // Each kind of axis is a type of its own in the library.
    match (figure.x.log, figure.y.log) {
        (false, false) => inside(plot, figure, left..right, low..high),
        (false, true) => inside(plot, figure, left..right, (low..high).log_scale()),
        (true, false) => inside(plot, figure, (left..right).log_scale(), low..high),
        (true, true) => inside(plot, figure, (left..right).log_scale(), (low..high).log_scale()),
    }
}

fn points(figure: &Figure) -> impl Iterator<Item = &Point> + Clone {
    figure.series.iter().flat_map(|series| &series.points)
}

/// The range of the x axis.
fn across(figure: &Figure) -> (f64, f64) {
    let values = points(figure).map(|point| point.x);
    match figure.kind {
        Kind::Bars => (-0.5, values.fold(0.0, f64::max) + 0.5),
        Kind::Lines | Kind::Curves { .. } => margins(&figure.x, values, 0.02),
    }
}

/// The range of the y axis. A linear axis starts at 0 unless a value is lower.
fn up(figure: &Figure) -> (f64, f64) {
    let ends = points(figure).flat_map(|point| [point.y.min, point.y.max]);
    let zero = (!figure.y.log).then_some(0.0);
    let (low, high) = margins(&figure.y, ends.chain(zero), 0.05);
    match points(figure).all(|point| point.y.min >= 0.0) {
        true if !figure.y.log => (0.0, high),
        _ => (low, high),
    }
}

/// The label of a logarithmic axis. Labels between 1, 2, 5 and 10 would overlap.
fn log_tick(value: f64) -> String {
    let leading = value / 10_f64.powf(value.log10().floor());
    match [1.0, 2.0, 5.0].iter().any(|named| (leading - named).abs() < 0.01) {
        true => tick(value),
        false => String::new(),
    }
}

/// The range of values with some room on both sides.
fn margins(axis: &Axis, values: impl Iterator<Item = f64> + Clone, share: f64) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if !least.is_finite() {
        return (0.5, 1.0); // nothing to show
    }
    if axis.log {
        let room = (most / least).powf(share).max(1.05);
        return (least / room, most * room);
    }
    let room = match most - least {
        0.0 => 1.0,
        span => span * share,
    };
    (least - room, most + room)
}

fn inside<X, Y>(area: &Area<'_>, figure: &Figure, x: X, y: Y) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let low = up(figure).0;
    let groups = group_names(figure);
    let rows = rows(&groups, area.dim_in_pixel().0);
    let mut chart = ChartBuilder::on(area)
        .caption(&figure.title, (FONT, 17))
        .margin(MARGIN)
        .x_label_area_size(BELOW + (rows - 1) * ROW)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(x, y)?;
    let name_of = |x: &f64| match figure.kind {
        Kind::Lines | Kind::Curves { .. } => tick(*x),
        // In several rows, which the library does not offer, they are drawn below.
        Kind::Bars if rows > 1 => String::new(),
        Kind::Bars => groups.get(x.round() as usize).cloned().unwrap_or_default(),
    };
    let name_y = |y: &f64| if figure.y.log { log_tick(*y) } else { tick(*y) };
    if let Kind::Curves { shaded: Some([from, until]) } = figure.kind {
        let high = up(figure).1;
        chart.draw_series([Rectangle::new([(from, low), (until, high)], SHADE.filled())])?;
    }
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).bold_line_style(RGBColor(220, 220, 220));
    mesh.x_desc(&figure.x.label).y_desc(&figure.y.label).label_style((FONT, FONT_SIZE));
    mesh.x_label_formatter(&name_of).y_label_formatter(&name_y);
    if let Kind::Bars = figure.kind {
        mesh.x_labels(groups.len());
    }
    mesh.draw()?;
    if rows > 1 {
        let (left, top) = area.get_base_pixel();
        let style = (FONT, FONT_SIZE).into_text_style(area);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        for (name, group) in groups.iter().zip(0_u32..) {
            let (x, y) = chart.backend_coord(&(f64::from(group), low));
            let y = y + 9 + (group % rows * ROW) as i32;
            area.draw_text(name, &style, (x - left, y - top))?;
        }
    }
    match figure.kind {
        Kind::Lines => lines(&mut chart, figure),
        Kind::Curves { .. } => curves(&mut chart, figure),
        Kind::Bars => bars(&mut chart, figure),
    }
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

fn lines<X, Y>(chart: &mut Chart<'_, '_, X, Y>, figure: &Figure) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    for (series, index) in figure.series.iter().zip(0_usize..) {
        let (style, stroke) = (colour(index), colour(index).stroke_width(2));
        let line = series.points.iter().map(|point| (point.x, point.y.mean));
        match is_first_round(index) {
            true => chart.draw_series(LineSeries::new(line.clone(), stroke))?,
            false => chart.draw_series(DashedLineSeries::new(line.clone(), 7, 4, stroke))?,
        };
        chart.draw_series(line.map(|at| Circle::new(at, 3, fill(index))))?;
        chart.draw_series(series.points.iter().map(|point| spread(point, point.x, style)))?;
    }
    Ok(())
}

fn curves<X, Y>(chart: &mut Chart<'_, '_, X, Y>, figure: &Figure) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    for (series, index) in figure.series.iter().zip(0_usize..) {
        let line = series.points.iter().map(|point| (point.x, point.y.mean));
        chart.draw_series(LineSeries::new(line, colour(index).stroke_width(1)))?;
    }
    Ok(())
}

fn bars<X, Y>(chart: &mut Chart<'_, '_, X, Y>, figure: &Figure) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let (low, width) = (up(figure).0, 0.8 / figure.series.len().max(1) as f64);
    for (series, index) in figure.series.iter().zip(0_usize..) {
        let place = |point: &Point| point.x - 0.4 + width * index as f64;
        chart.draw_series(series.points.iter().map(|point| {
            let left = place(point);
            let corners = [(left, low), (left + 0.9 * width, point.y.mean)];
            Rectangle::new(corners, fill(index))
        }))?;
        let middle = |point: &Point| place(point) + 0.45 * width;
        let ends = series.points.iter();
        chart.draw_series(ends.map(|point| spread(point, middle(point), BLACK)))?;
    }
    Ok(())
}

/// A bar from the least to the greatest value.
fn spread(point: &Point, x: f64, colour: RGBColor) -> PathElement<(f64, f64)> {
    PathElement::new(vec![(x, point.y.min), (x, point.y.max)], colour.stroke_width(1))
}

fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

fn is_first_round(series: usize) -> bool {
    series < COLOURS.len()
}

/// The style of a mark: full in the first round of colours, hollow in the next.
fn fill(series: usize) -> ShapeStyle {
    match is_first_round(series) {
        true => colour(series).filled(),
        false => colour(series).stroke_width(2),
    }
}

fn group_names(figure: &Figure) -> Vec<String> {
    let mut named: Vec<(f64, String)> =
        points(figure).filter_map(|point| Some((point.x, point.label.clone()?))).collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    named.dedup();
    named.into_iter().map(|(_, name)| name).collect()
}

/// The number of rows of labels below an area of this width, so that neighbours do not overlap.
fn rows(names: &[String], width: u32) -> u32 {
    let longest = names.iter().map(|name| name.chars().count() as u32 + 1).max().unwrap_or(0);
    let room = width.saturating_sub(2 * MARGIN + LEFT) / names.len().max(1) as u32;
    (longest * CHARACTER).div_ceil(room.max(1)).clamp(1, 3)
}

/// A number at an axis, as short as possible.
fn tick(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 10.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The legend.
fn names(area: &Area<'_>, figure: &Figure) -> Drawn {
    for (series, index) in figure.series.iter().zip(0_usize..) {
        let y = 44 + 20 * index as i32;
        area.draw(&Rectangle::new([(4, y), (16, y + 12)], fill(index)))?;
        area.draw(&Text::new(series.name.clone(), (22, y), (FONT, 13)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_a_shade_and_no_marks() {
        let points: Vec<Point> = (0..3).map(|x| Point::at(x.into(), &[1.0])).collect();
        let figure = |kind| Figure {
            id: "fig01".into(),
            title: "Goodput".into(),
            x: Axis::linear("time [ms]"),
            y: Axis::linear("goodput [Mbit/s]"),
            kind,
            series: vec![crate::charts::Series { name: "A".into(), points: points.clone() }],
        };
        let drawn = |kind| {
            let file = std::env::temp_dir().join(format!("braid-charts-{}", std::process::id()));
            draw(&figure(kind), &file).expect("a file for the test");
            let svg = std::fs::read_to_string(&file).expect("an SVG");
            std::fs::remove_file(&file).expect("the file is ours");
            (svg.matches("<circle").count(), svg.contains("#F0E4C8"))
        };
        assert_eq!(drawn(Kind::Lines), (3, false));
        assert_eq!(drawn(Kind::Curves { shaded: None }), (0, false));
        assert_eq!(drawn(Kind::Curves { shaded: Some([0.5, 1.5]) }), (0, true));
    }

    #[test]
    fn long_labels_are_in_rows() {
        let names = |count: usize| vec!["round-robin".to_owned(); count];
        assert_eq!([5, 12, 20, 100].map(|count| rows(&names(count), 710)), [1, 2, 3, 3]);
        let points = (0..12).map(|group| Point::bar(group, "round-robin", &[1.0])).collect();
        let figure = Figure {
            id: "rows".into(),
            title: "Rows".into(),
            x: Axis::linear("policy"),
            y: Axis::linear("goodput"),
            kind: Kind::Bars,
            series: vec![crate::charts::Series { name: "A".into(), points }],
        };
        let file = std::env::temp_dir().join(format!("braid-rows-{}", std::process::id()));
        draw(&figure, &file).expect("a file for the test");
        let svg = std::fs::read_to_string(&file).expect("an SVG");
        std::fs::remove_file(&file).expect("the file is ours");
        let lines: Vec<&str> = svg.lines().collect();
        let labels = lines.windows(2).filter(|pair| pair[1] == "round-robin");
        let heights: Vec<&str> =
            labels.filter_map(|pair| pair[0].split(" y=\"").nth(1)?.split('"').next()).collect();
        assert_eq!(heights.len(), 12, "{svg}");
        assert!(heights.windows(2).all(|pair| pair[0] != pair[1]), "{heights:?}");
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!([0.0, 0.25, 1.0, 1.5, 300.0].map(tick), ["0", "0.25", "1", "1.5", "300"]);
    }

    #[test]
    fn a_range_is_never_empty() {
        let linear = margins(&Axis::linear(""), [3.0].into_iter(), 0.1);
        let log = margins(&Axis::log(""), [3.0].into_iter(), 0.1);
        assert_eq!([1.0, 30.0, 0.2, 5e6].map(log_tick), ["1", "", "0.2", "5000000"]);
        assert!(linear.0 < 3.0 && linear.1 > 3.0 && log.0 < 3.0 && log.1 > 3.0);
        let none = margins(&Axis::linear(""), std::iter::empty(), 0.1);
        assert!(none.0 < none.1);
    }
}
