//! Common style of pictures: colours, text sizes, formats of numbers, and output as SVG.
//!
//! The colours are those of Okabe and Ito, which people with red-green colour blindness can distinguish. The library svg writes the
//! elements; axes and lanes are the drawing modules' own.

#[cfg(test)]
pub(crate) mod texts;

use std::fmt;
use svg::node::element::{Circle, Polygon, Polyline, Rectangle, Text};
use svg::{Document, Node};

/// Font size of letters, as a part of their size in pixels.
const FONT: f64 = 0.8;

/// A colour: red, green and blue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Colour(pub u8, pub u8, pub u8);

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(red, green, blue) = self;
        write!(f, "#{red:02X}{green:02X}{blue:02X}")
    }
}

/// Text.
pub const INK: Colour = Colour(0x22, 0x22, 0x22);
/// Secondary text.
pub const FAINT: Colour = Colour(0x70, 0x70, 0x70);
/// Grid lines.
pub const GRID: Colour = Colour(0xe4, 0xe4, 0xe4);
/// Errors.
pub const BAD: Colour = OKABE_ITO.vermillion;
/// Recoveries, and checks that held.
pub(crate) const GOOD: Colour = OKABE_ITO.green;

/// Palette of Okabe and Ito.
pub(crate) struct Palette {
    pub(crate) blue: Colour,
    pub(crate) vermillion: Colour,
    pub(crate) green: Colour,
    pub(crate) purple: Colour,
    pub(crate) orange: Colour,
    pub(crate) sky_blue: Colour,
}

/// Palette of all pictures of runs and experiments.
pub(crate) const OKABE_ITO: Palette = Palette {
    blue: Colour(0x00, 0x72, 0xb2),
    vermillion: Colour(0xd5, 0x5e, 0x00),
    green: Colour(0x00, 0x9e, 0x73),
    purple: Colour(0xcc, 0x79, 0xa7),
    orange: Colour(0xe6, 0x9f, 0x00),
    sky_blue: Colour(0x56, 0xb4, 0xe9),
};

/// Colours of the compared series, in order.
const SERIES: [Colour; 7] = [
    OKABE_ITO.blue,
    OKABE_ITO.vermillion,
    OKABE_ITO.green,
    OKABE_ITO.purple,
    OKABE_ITO.orange,
    OKABE_ITO.sky_blue,
    Colour(0x55, 0x55, 0x55),
];

/// The colour of the series `index`.
pub const fn colour(index: usize) -> Colour {
    SERIES[index % SERIES.len()]
}

/// Alignment of a text to its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// The text begins there.
    Left,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    Right,
}

/// Style of a text, which is vertically centred on its place.
#[derive(Clone, Copy, Debug)]
pub struct Letters {
    size: u32,
    colour: Colour,
    align: Align,
}

/// Letters of `size` pixels.
pub const fn letters(size: u32, colour: Colour, align: Align) -> Letters {
    Letters { size, colour, align }
}

/// A place in a picture: pixels from its left and its upper edge.
pub type Place = (i32, i32);

/// A picture that is being drawn. Later elements lie on earlier ones.
pub struct Canvas(Document);

impl Canvas {
    /// Draws a line through places, `width` pixels wide.
    pub fn line(&mut self, places: impl AsRef<[Place]>, colour: Colour, width: u32) {
        let line = Polyline::new().set("points", points(places.as_ref())).set("fill", "none");
        self.0.append(line.set("stroke", colour.to_string()).set("stroke-width", width));
    }

    /// Fills the form with these corners.
    pub(crate) fn form(&mut self, corners: &[Place], colour: Colour) {
        self.0.append(Polygon::new().set("points", points(corners)).set("fill", colour.to_string()));
    }

    /// Fills the rectangle with these upper left and lower right corners.
    pub(crate) fn rectangle(&mut self, [(left, top), (right, bottom)]: [Place; 2], colour: Colour) {
        let place = Rectangle::new().set("x", left).set("y", top);
        let sized = place.set("width", right - left).set("height", bottom - top);
        self.0.append(sized.set("fill", colour.to_string()));
    }

    /// Fills a circle.
    pub fn disc(&mut self, (x, y): Place, radius: u32, colour: Colour) {
        self.0.append(Circle::new().set("cx", x).set("cy", y).set("r", radius).set("fill", colour.to_string()));
    }

    /// Draws a circle's edge, `width` pixels wide.
    pub(crate) fn ring(&mut self, (x, y): Place, radius: u32, colour: Colour, width: u32) {
        let circle = Circle::new().set("cx", x).set("cy", y).set("r", radius).set("fill", "none");
        self.0.append(circle.set("stroke", colour.to_string()).set("stroke-width", width));
    }

    /// Writes words.
    pub fn text(&mut self, words: impl Into<String>, place: Place, letters: Letters) {
        self.0.append(text(words, place, letters));
    }

    /// Writes words from the bottom to the top, centred on their place.
    pub fn upward_text(&mut self, words: impl Into<String>, (x, y): Place, letters: Letters) {
        self.0.append(text(words, (x, y), letters).set("transform", format!("rotate(-90 {x} {y})")));
    }
}

fn text(words: impl Into<String>, (x, y): Place, Letters { size, colour, align }: Letters) -> Text {
    let anchor = match align {
        Align::Left => "start",
        Align::Middle => "middle",
        Align::Right => "end",
    };
    let font = (f64::from(size) * FONT * 10.0).round() / 10.0;
    let text = Text::new(words).set("x", x).set("y", y).set("dy", "0.5ex").set("text-anchor", anchor);
    text.set("font-family", "sans-serif").set("font-size", font).set("fill", colour.to_string())
}

fn points(places: &[Place]) -> String {
    places.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

/// Estimated greatest width of a text in pixels: the font that the reader's program uses is unknown.
pub fn width(text: &str, size: u32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.56).ceil() as i32
}

/// The picture that `draw` makes, `width` by `height` pixels.
pub fn picture(width: i32, height: i32, draw: impl FnOnce(&mut Canvas)) -> String {
    let document = Document::new().set("width", width).set("height", height).set("viewBox", (0, 0, width, height));
    let mut canvas = Canvas(document);
    canvas.rectangle([(0, 0), (width, height)], Colour(0xff, 0xff, 0xff));
    draw(&mut canvas);
    format!("{}\n", canvas.0)
}

/// A number with three digits and its magnitude: `1.23 k`.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{unit}", digits(scaled))
}

/// A duration in nanoseconds, with three digits and its unit.
pub fn time(ns: f64) -> String {
    let (scaled, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    format!("{} {unit}", digits(scaled))
}

/// Distance of grid lines, about `count` of them over `length`: 1, 2 or 5 times a power of ten.
pub fn step(length: f64, count: f64) -> f64 {
    let wanted = (length / count).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(wanted.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= wanted).unwrap_or(wanted)
}

fn digits(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        0.0 => 0,
        _ => 2,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.5, 9.99, 12.34, 999.0, 1_234.0, 56_789.0, 4e6].map(short);
        assert_eq!(shown, ["0", "0.50", "9.99", "12.3", "999", "1.23 k", "56.8 k", "4.00 M"]);
        assert_eq!([150_000.0, 32_100_000.0, 1.028e9].map(time), ["150 µs", "32.1 ms", "1.03 s"]);
    }

    #[test]
    fn the_grids_steps_are_round() {
        let steps = [80.0, 0.9, 4.0, 17.0].map(|length| step(length, 8.0));
        for (step, expected) in steps.into_iter().zip([10.0, 0.2, 0.5, 5.0]) {
            assert!((step - expected).abs() < 1e-9, "{step} is not {expected}");
        }
    }
}
