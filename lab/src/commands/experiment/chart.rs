//! Pictures of data: panels side by side, each with lines over an axis of numbers or of names.

use std::ops::Range;
use xtask::reports::figure::{self, Align, BAD, Canvas, FAINT, GRID, INK, Place, colour, letters, picture, width};

/// Width and height of a panel, and the space above the first row of panels, in pixels.
const PANEL: (i32, i32) = (560, 400);
const TOP: i32 = 104;
/// Space in a panel beside its lines: for the values and the label on the left and below, and for the title above.
const LEFT: i32 = 74;
const RIGHT: i32 = 24;
const TITLE: i32 = 30;
const BELOW: i32 = 56;
/// Widths of lines: of the grid and the axes, and of the data.
const THIN: u32 = 1;
const THICK: u32 = 2;
/// Height of the first row of the legend, and of each further one.
const LEGEND: i32 = 78;
const ROW: i32 = 20;

/// A panel of a chart.
pub(crate) struct Panel {
    /// Title above the panel.
    pub(crate) title: String,
    /// Horizontal axis, from left to right.
    pub(crate) x: Axis,
    /// Vertical axis, upwards.
    pub(crate) y: Axis,
    /// Compared series. The same index has the same colour and name in all panels.
    pub(crate) lines: Vec<Line>,
    /// Required values: the height of a line, and its label.
    pub(crate) bounds: Vec<(f64, String)>,
}

/// A line of points.
pub(crate) struct Line {
    /// Name in the legend.
    pub(crate) name: String,
    /// The line's points, from left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

/// An axis.
pub(crate) struct Axis {
    /// Label of the axis.
    pub(crate) label: String,
    /// Formats a value.
    pub(crate) write: fn(f64) -> String,
    /// Positions of values.
    pub(crate) scale: Scale,
}

/// Positions of values on an axis.
pub(crate) enum Scale {
    /// Linear, from 0.
    Linear,
    /// Logarithmic, with this base.
    Powers(f64),
    /// The names of the values 0, 1, 2 and so on.
    Names(Vec<String>),
}

impl Axis {
    /// Position of a value, in the axis's own measure.
    fn at(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Powers(base) => value.max(f64::MIN_POSITIVE).log(base),
            Scale::Linear | Scale::Names(_) => value,
        }
    }

    /// The values with grid lines, and the axis's range, for data between these ends.
    fn ticks(&self, least: f64, most: f64) -> (Vec<f64>, Range<f64>) {
        match &self.scale {
            Scale::Linear => {
                let step = figure::step(most.max(f64::MIN_POSITIVE), 6.0);
                let count = (most / step).ceil().max(1.0);
                ((0..=count as u32).map(|index| f64::from(index) * step).collect(), 0.0..count * step * 1.02)
            }
            Scale::Powers(base) => {
                if let Some(ticks) = fine(*base, least, most) {
                    return ticks;
                }
                let (first, last) =
                    (least.log(*base).floor(), most.log(*base).ceil().max(least.log(*base).floor() + 1.0));
                let every = ((last - first) / 8.0).ceil().max(1.0);
                let steps = ((last - first) / every).floor() as u32;
                let ticks = (0..=steps).map(|index| base.powf(first + f64::from(index) * every)).collect();
                (ticks, first - 0.02 * (last - first)..last + 0.02 * (last - first))
            }
            Scale::Names(names) => {
                ((0..names.len()).map(|index| index as f64).collect(), -0.5..names.len() as f64 - 0.5)
            }
        }
    }

    /// Horizontal shift of a line's points beside their name, so that equal points do not hide each other.
    fn aside(&self, index: usize, of: usize) -> f64 {
        match self.scale {
            Scale::Names(_) => 0.6 * ((index as f64 + 0.5) / of.max(1) as f64 - 0.5),
            Scale::Linear | Scale::Powers(_) => 0.0,
        }
    }

    fn written(&self, at: f64) -> String {
        match &self.scale {
            Scale::Linear => (self.write)(at),
            // A computed power differs from the round number in its last bits.
            Scale::Powers(base) => (self.write)((base.powf(at) * 1e6).round() / 1e6),
            Scale::Names(names) => names.get(at.round() as usize).cloned().unwrap_or_default(),
        }
    }
}

/// The ticks of an axis of tens for data of at most two decades: 1, 2 and 5 times the powers, from the last one below the data to the
/// first one above.
fn fine(base: f64, least: f64, most: f64) -> Option<(Vec<f64>, Range<f64>)> {
    if base != 10.0 || least <= 0.0 || most > least * 100.0 {
        return None;
    }
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    let all: Vec<_> =
        (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * 10_f64.powi(power))).collect();
    let begin = all.iter().rposition(|tick| *tick <= least)?;
    let end = all.iter().position(|tick| *tick >= most)?.max(begin + 1);
    let ticks = all.get(begin..=end)?.to_vec();
    let (low, high) = (ticks.first()?.log10(), ticks.last()?.log10());
    Some((ticks, low - 0.02 * (high - low)..high + 0.02 * (high - low)))
}

/// The number of later lines with the same points, which would hide this one.
fn hidden_by(lines: &[Line], index: usize) -> u32 {
    let later = lines.iter().skip(index + 1);
    lines.get(index).map_or(0, |line| later.filter(|other| other.points == line.points).count() as u32)
}

/// The part of a panel with the lines.
struct Plot {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    x: Range<f64>,
    y: Range<f64>,
}

impl Plot {
    /// Pixels from the picture's left edge of a value in the horizontal axis's own measure.
    fn x(&self, at: f64) -> i32 {
        self.left + (f64::from(self.right - self.left) * part(at, &self.x)).round() as i32
    }

    /// Pixels from the picture's upper edge of a value in the vertical axis's own measure.
    fn y(&self, at: f64) -> i32 {
        self.bottom - (f64::from(self.bottom - self.top) * part(at, &self.y)).round() as i32
    }
}

fn part(at: f64, range: &Range<f64>) -> f64 {
    (at - range.start) / (range.end - range.start)
}

/// The picture of `panels`, side by side.
pub(crate) fn svg(title: &str, about: &str, panels: &[Panel]) -> String {
    svg_in_rows(title, about, panels, panels.len())
}

/// The picture of `panels`, so many in a row.
pub(crate) fn svg_in_rows(title: &str, about: &str, panels: &[Panel], columns: usize) -> String {
    let columns = columns.max(1);
    let rows = panels.len().div_ceil(columns).max(1);
    let wide = PANEL.0 * columns as i32;
    let lines = panels.iter().map(|panel| panel.lines.as_slice()).max_by_key(|lines| lines.len()).unwrap_or_default();
    let places = legend_places(lines, wide);
    let top = TOP + places.last().map_or(0, |(_, y)| y - LEGEND);
    picture(wide, top + PANEL.1 * rows as i32, |canvas| {
        canvas.text(title, (24, 26), letters(20, INK, Align::Left));
        canvas.text(about, (24, 50), letters(13, FAINT, Align::Left));
        legend(canvas, lines, &places);
        for (index, panel) in panels.iter().enumerate() {
            let (row, column) = ((index / columns) as i32, (index % columns) as i32);
            draw(canvas, (PANEL.0 * column, top + PANEL.1 * row), panel);
        }
    })
}

/// Places of the legend's names: rows as wide as the picture.
fn legend_places(lines: &[Line], wide: i32) -> Vec<(i32, i32)> {
    let (mut x, mut y) = (30, LEGEND);
    let place = |line: &Line| {
        let length = 18 + width(&line.name, 13) + 24;
        if x > 30 && x + length > wide {
            (x, y) = (30, y + ROW);
        }
        x += length;
        (x - length, y)
    };
    lines.iter().map(place).collect()
}

/// Legend with the names of the lines, once for all panels.
fn legend(canvas: &mut Canvas, lines: &[Line], places: &[Place]) {
    for (index, (line, (x, y))) in lines.iter().zip(places.iter().copied()).enumerate() {
        canvas.line([(x - 6, y), (x + 12, y)], colour(index), THICK);
        canvas.disc((x + 3, y), 4, colour(index));
        canvas.text(line.name.as_str(), (x + 18, y), letters(13, INK, Align::Left));
    }
}

/// Draws a panel whose upper left corner is `corner`.
fn draw(canvas: &mut Canvas, corner: Place, panel: &Panel) {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let ends = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (x_least, x_most) = ends(&mut points().map(|point| point.0));
    let (y_least, y_most) = ends(&mut points().map(|point| point.1).chain(panel.bounds.iter().map(|bound| bound.0)));
    let (x_ticks, x) = panel.x.ticks(x_least, x_most);
    let (y_ticks, y) = panel.y.ticks(y_least, y_most);
    let (left, right) = (corner.0 + LEFT, corner.0 + PANEL.0 - RIGHT);
    let (top, bottom) = (corner.1 + TITLE, corner.1 + PANEL.1 - BELOW);
    let plot = Plot { left, right, top, bottom, x, y };
    let middle = ((left + right) / 2, (top + bottom) / 2);
    canvas.text(panel.title.as_str(), (middle.0, top - 16), letters(15, INK, Align::Middle));
    for at in x_ticks.into_iter().map(|tick| panel.x.at(tick)) {
        let x = plot.x(at);
        canvas.line([(x, top), (x, bottom)], GRID, THIN);
        canvas.text(panel.x.written(at), (x, bottom + 14), letters(12, INK, Align::Middle));
    }
    for at in y_ticks.into_iter().map(|tick| panel.y.at(tick)) {
        let y = plot.y(at);
        canvas.line([(left, y), (right, y)], GRID, THIN);
        canvas.text(panel.y.written(at), (left - 8, y), letters(12, INK, Align::Right));
    }
    canvas.line([(left, top), (left, bottom), (right, bottom)], FAINT, THIN);
    canvas.text(panel.x.label.as_str(), (middle.0, bottom + 36), letters(13, FAINT, Align::Middle));
    canvas.upward_text(panel.y.label.as_str(), (corner.0 + 16, middle.1), letters(13, FAINT, Align::Middle));
    for (bound, says) in &panel.bounds {
        let y = plot.y(panel.y.at(*bound));
        canvas.line([(left, y), (right, y)], BAD, THIN);
        canvas.text(says.as_str(), (left + 6, y + 9), letters(12, BAD, Align::Left));
    }
    for (index, line) in panel.lines.iter().enumerate() {
        let aside = panel.x.aside(index, panel.lines.len());
        let place = |(x, y): &(f64, f64)| (plot.x(panel.x.at(*x) + aside), plot.y(panel.y.at(*y)));
        let places: Vec<_> = line.points.iter().map(place).collect();
        // A line is as much wider as it has others upon it.
        let has_line = !matches!(panel.x.scale, Scale::Names(_));
        let hidden = if has_line { hidden_by(&panel.lines, index) } else { 0 };
        if has_line {
            canvas.line(&places, colour(index), THICK + 4 * hidden);
        }
        places.into_iter().for_each(|place| canvas.disc(place, 4 + 2 * hidden, colour(index)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { label: "x".into(), write: figure::short, scale }
    }

    #[test]
    fn ticks_hold_all_data() {
        let (ticks, range) = axis(Scale::Linear).ticks(3.0, 97.0);
        assert_eq!(ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert!(range.start <= 0.0 && range.end >= 100.0);
        let powers = axis(Scale::Powers(2.0));
        let (ticks, range) = powers.ticks(1.0, 64.0);
        assert_eq!(ticks, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        assert!(range.start < powers.at(1.0) && powers.at(64.0) < range.end);
        let (ticks, range) = axis(Scale::Powers(10.0)).ticks(120.0, 900.0);
        assert_eq!(ticks, [100.0, 200.0, 500.0, 1000.0]);
        assert!(range.start < 2.0 && range.end > 3.0);
        assert_eq!(axis(Scale::Powers(10.0)).ticks(500.0, 500.0).0, [500.0, 1000.0]);
        assert_eq!(axis(Scale::Powers(10.0)).ticks(1.0, 5000.0).0, [1.0, 10.0, 100.0, 1000.0, 10000.0]);
        let (ticks, _) = axis(Scale::Powers(2.0)).ticks(1.0, 65_536.0);
        assert!(ticks.len() <= 9, "{ticks:?}");
    }

    #[test]
    fn a_legend_wider_than_the_picture_has_several_rows() {
        let line = |name: &str| Line { name: name.into(), points: Vec::new() };
        let names = ["policy=paced depth=128", "policy=weighted depth=128", "policy=dedicated depth=128"].map(line);
        let places = legend_places(&names, 560);
        assert_eq!(places.iter().map(|(_, y)| *y).collect::<Vec<_>>(), [78, 78, 98]);
        let ends = places.iter().zip(&names).map(|((x, _), line)| x + 18 + width(&line.name, 13));
        assert!(ends.into_iter().all(|end| end <= 560));
        assert_eq!(places[2].0, places[0].0);
    }

    #[test]
    fn a_line_under_others_is_wider() {
        let line = |points: &[(f64, f64)]| Line { name: String::new(), points: points.to_vec() };
        let lines = [&[(0.0, 1.0)][..], &[(0.0, 2.0)], &[(0.0, 1.0)], &[(0.0, 1.0)]].map(line);
        assert_eq!([0, 1, 2, 3].map(|index| hidden_by(&lines, index)), [2, 0, 1, 0]);
    }

    #[test]
    fn a_panel_shows_its_lines_names_and_bounds() {
        let lines = vec![Line { name: "paced".into(), points: vec![(0.0, 0.2), (1.0, 30.0)] }];
        let panel = Panel {
            title: "latency".into(),
            x: axis(Scale::Names(vec!["p50".into(), "p99".into()])),
            y: axis(Scale::Powers(10.0)),
            lines,
            bounds: vec![(0.17, "to reach".into())],
        };
        let svg = svg("neighbour", "in the simulator", &[panel]);
        for expected in ["neighbour", "in the simulator", "latency", "paced", "p50", "p99", "to reach"] {
            assert!(svg.contains(expected), "no {expected} in {svg}");
        }
    }
}
