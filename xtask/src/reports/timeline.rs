//! Draws a timeline: one lane for each component, time from left to right.
//!
//! A lane shows when its component ran, and marks for its events. For a load it also shows the throughput as a surface and the
//! longest latency as a line. Each is scaled to its own greatest value, which stands at the right. In a lane with many marks only
//! those with enough room are named; the legend names all kinds.

use crate::destination::Destination;
use crate::project::write_whole;
use crate::records::results::Results;
use crate::records::timeline::{Event, Timeline, What};
use crate::reports::figure::{self, Align, BAD, Canvas, FAINT, GOOD, GRID, INK, letters, picture, short, width};
use crate::reports::plain::plain;
use anyhow::Result;
use capdl_spec::Role;
use plotters::prelude::{
    Circle, Color, Cross, EmptyElement, PathElement, Polygon, RGBColor, Rectangle, Text, TriangleMarker, WHITE,
};
use report::Progress;
use std::collections::BTreeSet;
use std::path::Path;

/// Pixels.
const WIDTH: i32 = 1200;
const LEFT: i32 = 170;
const RIGHT: i32 = WIDTH - 170;
const TOP: i32 = 78;
const BELOW: i32 = 92;
/// Heights of a lane's parts, from above: marks, throughput and latency, incarnations.
const MARKS: i32 = 20;
const SURFACE: i32 = 40;
const INCARNATION: i32 = 6;
/// Space below each lane.
const GAP: i32 = 8;

/// Approximate number of grid lines.
const TICKS: f64 = 8.0;

/// File name of the picture in a run's folder, and its ending beside the results in JSON.
const NAME: &str = "timeline.svg";

/// Writes the picture into the run's folder, and beside the results in JSON if there are any.
///
/// # Errors
/// A picture that cannot be drawn or written.
pub(crate) fn write(results: &Results, folder: &Path, json: Option<&Destination>) -> Result<()> {
    let picture = svg(results)?;
    write_whole(&folder.join(NAME), picture.as_bytes())?;
    match json.and_then(|json| json.with_extension(NAME)) {
        Some(beside) => Destination::open(&beside)?.write(picture.as_bytes()),
        None => Ok(()),
    }
}

/// The picture of a run's timeline.
///
/// # Errors
/// A picture that cannot be drawn.
pub(crate) fn svg(results: &Results) -> Result<String> {
    let lanes = lanes(results);
    let height = TOP + lanes.iter().map(Lane::height).sum::<i32>() + BELOW;
    let drawn = picture(WIDTH as u32, height as u32, |canvas| {
        let frame = Frame::new(&results.timeline, height - BELOW);
        heading(canvas, results)?;
        frame.draw(canvas)?;
        // The end of a server affects all its clients: draw a line through all lanes.
        for event in lanes.iter().filter(|lane| lane.serves).flat_map(|lane| &lane.events) {
            if is_grave(event.what) {
                let x = frame.x(event.at_ns);
                canvas.draw(&PathElement::new(vec![(x, TOP - 4), (x, frame.bottom)], BAD.mix(0.35)))?;
            }
        }
        let mut top = TOP;
        for lane in &lanes {
            lane.draw(canvas, &frame, top)?;
            top += lane.height();
        }
        legend(canvas, &lanes, height - 26)
    })?;
    Ok(plain(&drawn).into_owned())
}

/// Whether clients depend on a component of this role.
const fn serves(role: Role) -> bool {
    matches!(role, Role::PciServer | Role::IommuServer | Role::NvmeServer | Role::Policy)
}

/// Whether the component gets a lane only if it has marked events: the root task, which has no role, and the console.
const fn is_silent(role: Option<Role>) -> bool {
    matches!(role, None | Some(Role::Console))
}

/// Positions of times in the picture.
struct Frame {
    begin_ns: u64,
    end_ns: u64,
    bottom: i32,
}

impl Frame {
    fn new(timeline: &Timeline, bottom: i32) -> Self {
        // A time that the serial line forged may be the greatest number.
        let begin_ns = timeline.begin_ns.unwrap_or(0).min(u64::MAX - 1);
        Self { begin_ns, end_ns: timeline.end_ns.max(begin_ns + 1), bottom }
    }

    fn x(&self, at_ns: u64) -> i32 {
        let since = at_ns.clamp(self.begin_ns, self.end_ns) - self.begin_ns;
        LEFT + (since as f64 / (self.end_ns - self.begin_ns) as f64 * f64::from(RIGHT - LEFT)).round() as i32
    }

    /// The grid and the times below it.
    fn draw(&self, canvas: &Canvas<'_>) -> Result<()> {
        let length = self.end_ns - self.begin_ns;
        let (unit_ns, unit) = if length >= 2_000_000_000 { (1e9, "s") } else { (1e6, "ms") };
        let step = figure::step(length as f64 / unit_ns, TICKS);
        let mut value = 0.0;
        while value * unit_ns <= length as f64 {
            let x = self.x(self.begin_ns.saturating_add((value * unit_ns) as u64));
            canvas.draw(&PathElement::new(vec![(x, TOP - 4), (x, self.bottom)], GRID))?;
            let places = usize::from(step < 1.0);
            canvas.draw(&Text::new(
                format!("{value:.places$}"),
                (x, self.bottom + 12),
                letters(13, INK, Align::Middle),
            ))?;
            value += step;
        }
        let says = format!("{unit} since the first component was started");
        let middle = (LEFT + RIGHT) / 2;
        Ok(canvas.draw(&Text::new(says, (middle, self.bottom + 32), letters(13, FAINT, Align::Middle)))?)
    }
}

fn heading(canvas: &Canvas<'_>, results: &Results) -> Result<()> {
    let world = match results.seed {
        Some(seed) => format!("in the simulator, seed {seed}, virtual time"),
        None => "on seL4 in QEMU".to_owned(),
    };
    let verdict = if results.passed { ("PASS", GOOD) } else { ("FAIL", BAD) };
    canvas.draw(&Text::new(results.scenario.clone(), (24, 28), letters(22, INK, Align::Left)))?;
    canvas.draw(&Text::new(world, (24, 52), letters(14, FAINT, Align::Left)))?;
    Ok(canvas.draw(&Text::new(verdict.0, (WIDTH - 24, 28), letters(18, verdict.1, Align::Right)))?)
}

/// Content of one component's lane.
struct Lane<'a> {
    name: &'a str,
    /// Whether clients depend on it.
    serves: bool,
    /// Text below the name.
    about: String,
    colour: RGBColor,
    incarnations: Vec<(u64, u64)>,
    events: Vec<&'a Event>,
    intervals: Vec<&'a Progress>,
}

/// The lanes of a run: the components in the order in which they were started.
fn lanes(results: &Results) -> Vec<Lane<'_>> {
    let timeline = &results.timeline;
    let mut lanes = Vec::new();
    for component in &results.components {
        let name = component.name.as_str();
        let events: Vec<_> = timeline.events_of(name).into_iter().filter(|event| is_marked(event.what)).collect();
        let role = results.roles.get(&component.name).copied();
        if is_silent(role) && events.is_empty() {
            continue;
        }
        let load = results.tenants.iter().find(|load| load.tenant == name);
        let about = load
            .map(|load| format!("{}, {} KiB, depth {}", load.class, f64::from(load.block_bytes) / 1024.0, load.depth));
        lanes.push(Lane {
            name,
            serves: role.is_some_and(serves),
            about: about.unwrap_or_default(),
            colour: figure::colour(lanes.len()),
            incarnations: timeline.incarnations_of(name),
            events,
            intervals: timeline.progress.iter().filter(|interval| interval.tenant == name).collect(),
        });
    }
    lanes
}

/// Whether an event has a mark. The incarnation itself shows a start and an orderly end.
const fn is_marked(what: What) -> bool {
    !matches!(what, What::Started | What::Done)
}

impl Lane<'_> {
    fn height(&self) -> i32 {
        let surface = if self.intervals.is_empty() { 0 } else { SURFACE };
        MARKS + surface + INCARNATION + GAP
    }

    fn draw(&self, canvas: &Canvas<'_>, frame: &Frame, top: i32) -> Result<()> {
        let bottom = top + self.height() - GAP;
        canvas.draw(&PathElement::new(vec![(24, bottom + GAP / 2), (WIDTH - 24, bottom + GAP / 2)], GRID))?;
        let middle = (top + bottom) / 2;
        let up = if self.about.is_empty() { 0 } else { 8 };
        canvas.draw(&Text::new(self.name.to_owned(), (24, middle - up), letters(15, INK, Align::Left)))?;
        canvas.draw(&Text::new(self.about.clone(), (24, middle + 10), letters(12, FAINT, Align::Left)))?;
        for (since, until) in &self.incarnations {
            let corners = [(frame.x(*since), bottom - INCARNATION), (frame.x(*until).max(frame.x(*since) + 1), bottom)];
            canvas.draw(&Rectangle::new(corners, self.colour.mix(0.75).filled()))?;
        }
        self.draw_load(canvas, frame, bottom - INCARNATION)?;
        self.draw_events(canvas, frame, top + MARKS / 2)
    }

    /// Draws throughput and longest latencies above `base`, and their greatest values at the right.
    fn draw_load(&self, canvas: &Canvas<'_>, frame: &Frame, base: i32) -> Result<()> {
        let rates: Vec<_> = self.intervals.iter().map(|interval| rate(interval)).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let longest = self.intervals.iter().map(|interval| interval.max_ns).max().unwrap_or(0);
        if self.intervals.is_empty() {
            return Ok(());
        }
        let height = f64::from(SURFACE - 6);
        let y = |share: f64| base - (share * height).round() as i32;
        let mut edge = Vec::new();
        let mut line = Vec::new();
        for (interval, rate) in self.intervals.iter().zip(&rates) {
            let (since, until) = (frame.x(interval.since_ns), frame.x(interval.until_ns));
            let level = y(rate / most.max(1.0));
            edge.extend([(since, base), (since, level), (until, level), (until, base)]);
            let longest = y(interval.max_ns as f64 / longest.max(1) as f64);
            line.extend([(since, longest), (until, longest)]);
        }
        canvas.draw(&Polygon::new(edge, self.colour.mix(0.35).filled()))?;
        canvas.draw(&PathElement::new(line, INK.mix(0.8).stroke_width(1)))?;
        let bytes = self.intervals.iter().map(|interval| interval.bytes).sum::<u64>();
        let operations = self.intervals.iter().map(|interval| interval.operations).sum::<u64>().max(1);
        let says = [
            (format!("{} IOPS, {}", short(most), bandwidth(most * bytes as f64 / operations as f64)), INK),
            (format!("latency to {}", figure::time(longest as f64)), FAINT),
        ];
        for ((text, colour), at) in says.into_iter().zip([base - 26, base - 9]) {
            canvas.draw(&Text::new(text, (RIGHT + 10, at), letters(12, colour, Align::Left)))?;
        }
        Ok(())
    }

    /// Draws marks in the lane's upper part, and words beside those that have room.
    fn draw_events(&self, canvas: &Canvas<'_>, frame: &Frame, y: i32) -> Result<()> {
        // The severe ones last, so that no other mark hides them.
        for grave in [false, true] {
            for event in self.events.iter().filter(|event| is_grave(event.what) == grave) {
                mark(canvas, event.what, (frame.x(event.at_ns), y))?;
            }
        }
        let groups = self.groups(frame);
        for (index, (last, words)) in groups.iter().enumerate() {
            let room = groups.get(index + 1).map_or(RIGHT, |(next, _)| next - 8);
            // All words that fit, from the first on.
            let fitting = (0..=words.len()).rev().map(|count| words[..count].join(", "));
            let begin = last + 9;
            if let Some(words) = fitting.into_iter().find(|words| begin + width(words, 12) <= room) {
                canvas.draw(&Text::new(words, (begin, y), letters(12, INK, Align::Left)))?;
            }
        }
        Ok(())
    }

    /// Groups of marks that touch each other: the position of the last mark, and the words.
    fn groups(&self, frame: &Frame) -> Vec<(i32, Vec<String>)> {
        let mut groups: Vec<(i32, Vec<String>)> = Vec::new();
        for event in &self.events {
            let x = frame.x(event.at_ns);
            match groups.last_mut().filter(|(last, _)| x - *last <= 12) {
                Some((last, words)) => {
                    *last = x;
                    words.extend(says(event));
                }
                None => groups.push((x, says(event).into_iter().collect())),
            }
        }
        groups
    }
}

/// Whether an event ends a component or shows an error.
const fn is_grave(what: What) -> bool {
    matches!(what, What::Faulted | What::Killed | What::AttackDone | What::Broken | What::Reset | What::Failed)
}

/// Requests per second.
fn rate(interval: &Progress) -> f64 {
    let ns = interval.until_ns.saturating_sub(interval.since_ns).max(1);
    interval.operations as f64 * 1e9 / ns as f64
}

/// Bytes per second.
fn bandwidth(bytes: f64) -> String {
    let mebibytes = bytes / f64::from(1 << 20);
    if mebibytes < 1000.0 {
        format!("{} MiB/s", short(mebibytes))
    } else {
        format!("{} GiB/s", short(mebibytes / 1024.0))
    }
}

/// Words beside a mark; `None` for frequent events.
fn says(event: &Event) -> Option<String> {
    match event.what {
        What::Opened | What::Closed | What::AttackRefused | What::Started | What::Done => None,
        What::Revoked | What::Granted => Some(format!("{}: {}", name(event.what), event.words)),
        What::Reconnected => Some(format!("{}, {}", name(event.what), event.words)),
        What::Restarted => Some(format!("{} {}", name(event.what), event.words)),
        What::Broken => Some(format!("fault: {}", event.words)),
        What::Moved => Some(event.words.to_string()),
        What::Faulted if !event.words.is_empty() => Some(format!("fault: {}", event.words)),
        what => Some(name(what).to_owned()),
    }
}

const fn name(what: What) -> &'static str {
    match what {
        What::Started => "started",
        What::Opened => "session open",
        What::Closed => "session closed",
        What::Expelled => "session ended by the server",
        What::Refused => "session refused",
        What::AttackRefused => "attack refused",
        What::AttackDone => "ATTACK NOT STOPPED",
        What::Faulted => "fault",
        What::Killed => "killed",
        What::Restarted => "runs again",
        What::Reconnected => "session back",
        What::Broken => "controller fails",
        What::Moved => "hot plug",
        What::Reset => "reset",
        What::Revoked => "rights revoked",
        What::Granted => "rights granted",
        What::Entitled => "share changed",
        What::Interrupts => "interrupts changed",
        What::Failed => "check failed",
        What::Done => "done",
    }
}

/// Draws the mark of an event.
fn mark(canvas: &Canvas<'_>, what: What, at: (i32, i32)) -> Result<()> {
    let thick = |colour: RGBColor| colour.stroke_width(2);
    match what {
        What::Opened => canvas.draw(&TriangleMarker::new(at, 6, GOOD.filled())),
        What::Closed => canvas.draw(&Circle::new(at, 4, FAINT.filled())),
        What::AttackRefused => {
            canvas.draw(&PathElement::new(vec![(at.0, at.1 - 6), (at.0, at.1 + 6)], GOOD.mix(0.6).stroke_width(1)))
        }
        What::AttackDone => canvas.draw(&Circle::new(at, 7, BAD.filled())),
        What::Faulted | What::Killed | What::Broken => canvas.draw(&Cross::new(at, 5, thick(BAD))),
        What::Moved => canvas.draw(&TriangleMarker::new(at, 6, thick(INK))),
        What::Expelled | What::Refused => canvas.draw(&Circle::new(at, 5, thick(BAD))),
        What::Restarted | What::Reconnected | What::Granted | What::Entitled | What::Interrupts => {
            let shape =
                EmptyElement::at(at) + Circle::new((0, 0), 5, GOOD.filled()) + Circle::new((0, 0), 2, WHITE.filled());
            canvas.draw(&shape)
        }
        What::Reset | What::Failed | What::Revoked => {
            canvas.draw(&Rectangle::new([(at.0 - 4, at.1 - 4), (at.0 + 4, at.1 + 4)], BAD.filled()))
        }
        What::Started | What::Done => Ok(()),
    }?;
    Ok(())
}

/// Legend of all kinds of marks, and of the surface and the line.
fn legend(canvas: &Canvas<'_>, lanes: &[Lane<'_>], y: i32) -> Result<()> {
    let kinds: BTreeSet<_> = lanes.iter().flat_map(|lane| &lane.events).map(|event| event.what).collect();
    let mut x = 34;
    for what in kinds {
        mark(canvas, what, (x, y))?;
        x = name_beside(canvas, name(what), x, y)?;
    }
    if lanes.iter().any(|lane| !lane.intervals.is_empty()) {
        canvas.draw(&Rectangle::new([(x - 6, y - 5), (x + 6, y + 5)], figure::colour(0).mix(0.35).filled()))?;
        x = name_beside(canvas, "throughput", x, y)?;
        canvas.draw(&PathElement::new(vec![(x - 7, y), (x + 7, y)], INK.mix(0.8).stroke_width(1)))?;
        name_beside(canvas, "longest latency", x, y)?;
    }
    Ok(())
}

/// Writes a name beside a mark; returns the place of the next mark.
fn name_beside(canvas: &Canvas<'_>, name: &'static str, x: i32, y: i32) -> Result<i32> {
    canvas.draw(&Text::new(name, (x + 12, y), letters(13, INK, Align::Left)))?;
    Ok(x + 12 + width(name, 13) + 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::records::timeline::tests::{killed, started};
    use report::{Report, Stamped, clip};
    use std::time::Duration;

    /// The texts of a picture: their left and right ends, their height, and their words.
    fn texts(svg: &str) -> Vec<(f64, f64, f64, String)> {
        let value = |text: &str, name: &str| {
            let rest = text.split_once(&format!(" {name}=\"")).map_or("", |(_, rest)| rest);
            rest.split('"').next().unwrap_or("").to_owned()
        };
        let number = |text: &str, name: &str| value(text, name).parse::<f64>().unwrap();
        let parts = svg.split("<text").skip(1).map(|part| part.split("</text>").next().unwrap());
        let text = |part: &str| {
            let (attributes, words) = part.split_once('>').unwrap();
            // plotters writes the size of letters divided by 1.24.
            let size = number(&format!(" {attributes}"), "font-size") * 1.24;
            let wide = f64::from(width(words.trim(), size.round() as u32));
            let at = number(&format!(" {attributes}"), "x");
            let begin = match value(attributes, "text-anchor").as_str() {
                "end" => at - wide,
                "middle" => at - wide / 2.0,
                _ => at,
            };
            (begin, begin + wide, number(attributes, "y"), words.trim().to_owned())
        };
        parts.map(text).collect()
    }

    fn results(reports: Vec<(u64, Report)>) -> Results {
        let roles = [(clip("nvme-server"), Role::NvmeServer), (clip("alice"), Role::Client)].into();
        let mut results = Results { scenario: "t".into(), roles, ..Results::default() };
        reports.into_iter().for_each(|(at_ns, report)| results.take(Stamped { at_ns, report }, Duration::ZERO));
        results
    }

    #[test]
    fn whatever_happens_when_no_words_lie_on_others_or_outside() {
        for (distance, count) in [(1, 12), (9, 20), (40, 6), (300, 3), (2_000, 2)] {
            let mut reports = vec![(0, started("nvme-server")), (0, started("alice"))];
            let mut moves = Vec::new();
            for index in 0..count {
                let at_ns = 1_000_000 * distance * (index + 1);
                let restart = report::Restart {
                    name: clip("nvme-server"),
                    times: 1,
                    ended_at_ns: at_ns,
                    took_ns: 1_000_000,
                    memory_left_bytes: 7,
                };
                reports.push((at_ns, killed("nvme-server")));
                moves.push(at_ns + 500_000);
                reports.push((at_ns, Report::Restart(restart)));
                reports.push((
                    at_ns,
                    Report::Reconnected(report::Reconnected {
                        tenant: clip("alice"),
                        at_ns: at_ns + 2_000_000,
                        reissued: 7,
                    }),
                ));
                let (since_ns, operations) = (at_ns - 1_000_000, 1_000 * index);
                let progress = Progress {
                    tenant: clip("alice"),
                    since_ns,
                    until_ns: at_ns,
                    operations,
                    bytes: 4 << 20,
                    max_ns: 5_000,
                };
                reports.push((at_ns, Report::Progress(progress)));
            }
            reports.push((
                1_000_000 * distance * (count + 1),
                Report::Opened { tenant: clip("alice"), pages_left: 9, io_tables_left: 9 },
            ));
            let mut results = results(reports);
            moves.into_iter().for_each(|at_ns| results.timeline.moved(at_ns, "nvme-server", "it is pulled out"));
            let svg = svg(&results).unwrap();
            let texts = texts(&svg);
            for kind in ["killed", "hot plug"] {
                assert!(texts.iter().any(|(_, _, _, words)| words.starts_with(kind)), "{kind}: {texts:?}");
            }
            for (index, (begin, end, y, words)) in texts.iter().enumerate() {
                assert!(*begin >= 0.0 && *end <= f64::from(WIDTH), "'{words}' goes beyond the picture");
                for (other_begin, other_end, other_y, other) in &texts[index + 1..] {
                    let apart = (y - other_y).abs() >= 10.0 || end <= other_begin || other_end <= begin;
                    assert!(apart, "'{words}' lies on '{other}' at {distance} ms");
                }
            }
        }
    }

    #[test]
    fn a_run_in_which_nothing_happened_has_a_picture_too() {
        assert!(svg(&Results::default()).unwrap().ends_with("</svg>\n"));
    }
}
