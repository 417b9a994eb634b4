//! Draws the rate and the latencies of each load, a row each.

use crate::plain::plain;
use crate::records::rates::iops;
use crate::records::results::Results;
use crate::reports::figure::{
    Align, Canvas, FAINT, GRID, INK, OKABE_ITO, colour, letters, picture, short, time, width,
};
use report::Load;

const MARGIN: i32 = 24;
const ROW: i32 = 34;
const TOP: i32 = 60;
const BOTTOM: i32 = 40;
/// Widths of the bars of rates with their numbers, and of the axis of latencies.
const RATES: i32 = 260;
const NUMBER: i32 = 70;
const LATENCIES: i32 = 620;

/// A latency that has a mark: its name, and its nanoseconds.
type Mark = (&'static str, fn(&Load) -> u64);

const MARKS: [Mark; 4] = [
    ("p50", |load| load.p50_ns),
    ("p99", |load| load.p99_ns),
    ("p99.9", |load| load.p999_ns),
    ("max", |load| load.max_ns),
];

/// The picture; `None` without a load that measured anything.
#[must_use]
pub fn svg(results: &Results) -> Option<String> {
    let loads: Vec<&Load> = results.tenants.iter().filter(|load| load.reads.saturating_add(load.writes) > 0).collect();
    let names = loads.iter().map(|load| width(&load.tenant, 15)).max()?;
    let all = || loads.iter().flat_map(|load| MARKS.iter().map(|(_, of)| of(load).max(1) as f64));
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(1.0, f64::max));
    // Whole powers of ten, a decade at least.
    let decades = (least.log10().floor(), (least.log10().floor() + 1.0).max(most.log10().ceil()));
    let left = MARGIN + names + 16;
    let axis = left + RATES + NUMBER;
    let x = |ns: f64| {
        axis + ((ns.max(1.0).log10() - decades.0) / (decades.1 - decades.0) * f64::from(LATENCIES)).round() as i32
    };
    let bottom = TOP + ROW * loads.len() as i32;
    let fastest = loads.iter().map(|load| iops(load)).fold(1.0, f64::max);
    let drawn = picture(axis + LATENCIES + MARGIN + 20, bottom + BOTTOM, |canvas| {
        titles(canvas, left, axis);
        for power in decades.0 as i32..=decades.1 as i32 {
            let (ns, at) = (10f64.powi(power), x(10f64.powi(power)));
            canvas.line([(at, TOP - 4), (at, bottom)], GRID, 1);
            canvas.text(time(ns), (at, bottom + 14), letters(13, INK, Align::Middle));
        }
        for (load, y) in loads.iter().zip((TOP + ROW / 2..).step_by(ROW as usize)) {
            canvas.text(load.tenant.as_str(), (MARGIN, y), letters(15, INK, Align::Left));
            let long = left + (iops(load) / fastest * f64::from(RATES)).round() as i32;
            canvas.rectangle([(left, y - 8), (long.max(left + 1), y + 8)], OKABE_ITO.sky_blue);
            canvas.text(short(iops(load)), (long + 6, y), letters(13, INK, Align::Left));
            let places = MARKS.map(|(_, of)| (x(of(load) as f64), y));
            canvas.line(places, FAINT, 2);
            for (index, place) in places.into_iter().enumerate() {
                canvas.disc(place, 5, colour(index));
            }
        }
    });
    Some(plain(&drawn).into_owned())
}

fn titles(canvas: &mut Canvas, left: i32, axis: i32) {
    let y = TOP - 28;
    canvas.text("tenant", (MARGIN, y), letters(13, FAINT, Align::Left));
    canvas.text("requests a second", (left, y), letters(13, FAINT, Align::Left));
    canvas.text("latency", (axis, y), letters(13, FAINT, Align::Left));
    for (index, (name, _)) in MARKS.iter().enumerate() {
        let at = axis + 80 + 70 * index as i32;
        canvas.disc((at, y), 5, colour(index));
        canvas.text(*name, (at + 10, y), letters(13, INK, Align::Left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::figure::texts::faults;
    use report::clip;

    #[test]
    fn rows_of_all_rates_and_latencies_are_legible() {
        let load = |(index, (reads, p50_ns)): (usize, (u64, u64))| Load {
            tenant: clip(&format!("tenant-with-a-name-{index}")),
            reads,
            elapsed_ns: 1_000_000_000,
            p50_ns,
            p99_ns: p50_ns * 3,
            p999_ns: p50_ns * 40,
            max_ns: p50_ns * 90,
            ..Load::default()
        };
        let tenants = [(1, 1), (1_000_000, 90_000), (300, 5_000_000)].into_iter().enumerate().map(load).collect();
        let drawn = svg(&Results { tenants, ..Results::default() }).unwrap();
        assert_eq!(faults(&drawn), Vec::<String>::new());
        assert!(drawn.contains("1.00 M"), "{drawn}");
    }

    #[test]
    fn without_a_load_there_is_no_picture() {
        assert_eq!(svg(&Results::default()), None);
        assert_eq!(svg(&Results { tenants: vec![Load::default()], ..Results::default() }), None);
    }
}
