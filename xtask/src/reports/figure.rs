//! Common style of pictures: colours, text sizes, formats of numbers, and output as SVG.
//!
//! The library plotters draws. The colours are those of Okabe and Ito, which people with red-green colour blindness can
//! distinguish.

#[cfg(test)]
pub(crate) mod texts;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::{Color, DrawingArea, IntoDrawingArea, RGBColor, SVGBackend, WHITE};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{IntoFont, TextStyle};

/// Drawing area of a picture.
pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Text.
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Secondary text.
pub(crate) const FAINT: RGBColor = RGBColor(0x70, 0x70, 0x70);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// Errors.
pub(crate) const BAD: RGBColor = OKABE_ITO.vermillion;
/// Recoveries, and checks that held.
pub(crate) const GOOD: RGBColor = OKABE_ITO.green;

/// Palette of Okabe and Ito.
pub(crate) struct Palette {
    pub(crate) blue: RGBColor,
    pub(crate) vermillion: RGBColor,
    pub(crate) green: RGBColor,
    pub(crate) purple: RGBColor,
    pub(crate) orange: RGBColor,
    pub(crate) sky_blue: RGBColor,
}

/// Palette of all pictures of runs and experiments.
pub(crate) const OKABE_ITO: Palette = Palette {
    blue: RGBColor(0x00, 0x72, 0xb2),
    vermillion: RGBColor(0xd5, 0x5e, 0x00),
    green: RGBColor(0x00, 0x9e, 0x73),
    purple: RGBColor(0xcc, 0x79, 0xa7),
    orange: RGBColor(0xe6, 0x9f, 0x00),
    sky_blue: RGBColor(0x56, 0xb4, 0xe9),
};

/// Colours of the compared series, in order.
const SERIES: [RGBColor; 7] = [
    OKABE_ITO.blue,
    OKABE_ITO.vermillion,
    OKABE_ITO.green,
    OKABE_ITO.purple,
    OKABE_ITO.orange,
    OKABE_ITO.sky_blue,
    RGBColor(0x55, 0x55, 0x55),
];

/// The colour of the series `index`.
pub(crate) const fn colour(index: usize) -> RGBColor {
    SERIES[index % SERIES.len()]
}

/// Alignment of a text to its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    /// The text begins there.
    Left,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    Right,
}

/// Text style of `size` pixels, vertically centred on its place.
pub(crate) fn letters(size: u32, colour: RGBColor, align: Align) -> TextStyle<'static> {
    let horizontal = match align {
        Align::Left => HPos::Left,
        Align::Middle => HPos::Center,
        Align::Right => HPos::Right,
    };
    let style = TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(horizontal, VPos::Center));
    TextStyle { color: colour.to_backend_color(), ..style }
}

/// Estimated greatest width of a text in pixels: the font that the reader's program uses is unknown.
pub(crate) fn width(text: &str, size: u32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.56).ceil() as i32
}

/// The picture that `draw` makes, `width` by `height` pixels.
pub(crate) fn picture(width: u32, height: u32, draw: impl FnOnce(&Canvas<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        canvas.fill(&WHITE).map_err(|error| anyhow!("the picture cannot be drawn: {error}"))?;
        draw(&canvas)?;
        canvas.present().map_err(|error| anyhow!("the picture cannot be drawn: {error}"))?;
    }
    Ok(svg)
}

/// A number with three digits and its magnitude: `1.23 k`.
pub(crate) fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{unit}", digits(scaled))
}

/// A duration in nanoseconds, with three digits and its unit.
pub(crate) fn time(ns: f64) -> String {
    let (scaled, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    format!("{} {unit}", digits(scaled))
}

/// Distance of grid lines, about `count` of them over `length`: 1, 2 or 5 times a power of ten.
pub(crate) fn step(length: f64, count: f64) -> f64 {
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
