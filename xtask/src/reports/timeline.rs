//! Draws a timeline: one lane for each component, time from left to right.
//!
//! A lane shows when its component ran, and marks for its events. For a load it also shows the rate of its requests as a surface, with an
//! axis on the left, and the longest latency as a line, with an axis on the right. Each axis ends at the lane's own peak. A short last
//! interval is a part of the one before: the rate of a few requests in flight says nothing. In a lane with
//! many marks only those with enough room are named; the legend names all kinds. Marks that would lie on each other stand side by side.

mod marks;

use crate::destination::Destination;
use crate::plain::plain;
use crate::project::write_whole;
use crate::records::results::Results;
use crate::records::timeline::{Event, Timeline, What};
use crate::reports::figure::{self, Align, BAD, Canvas, FAINT, GOOD, GRID, INK, letters, picture, short, width};
use crate::reports::timeline::marks::{LATENCY, Legend, RATE, RUNS, SERVER_ENDS, THIN, mark, name};
use anyhow::Result;
use capdl_spec::Role;
use report::Progress;
use std::path::Path;

/// Space at the picture's sides, for the numbers of an axis, and between these and the names, in pixels.
const MARGIN: i32 = 24;
const AXIS: i32 = 88;
const NAMES_GAP: i32 = 12;
/// Width of the part with the times.
const SPAN: i32 = 880;
const TOP: i32 = 96;
/// Height of the time axis.
const TIMES: i32 = 52;
/// Heights of a lane's parts, from above: marks, throughput and latency, incarnations.
const MARKS: i32 = 20;
const SURFACE: i32 = 44;
const INCARNATION: i32 = 6;
/// Space below each lane.
const GAP: i32 = 8;

/// Distance of marks that would lie on each other, and how far one is moved at most.
const BESIDE: i32 = 13;
const MOST_MOVED: i32 = 4 * BESIDE;

/// Approximate number of grid lines.
const TICKS: f64 = 8.0;

/// File name of the picture in a run's folder, and its ending beside the results in JSON.
const NAME: &str = "timeline.svg";

/// Writes the picture into the run's folder, and beside the results in JSON if there are any.
///
/// # Errors
/// A picture that cannot be written.
pub fn write(results: &Results, folder: &Path, json: Option<&Destination>) -> Result<()> {
    let picture = svg(results);
    write_whole(&folder.join(NAME), picture.as_bytes())?;
    match json.and_then(|json| json.with_extension(NAME)) {
        Some(beside) => Destination::open(&beside)?.write(picture.as_bytes()),
        None => Ok(()),
    }
}

/// The picture of a run's timeline.
pub fn svg(results: &Results) -> String {
    let lanes = lanes(results);
    let frame = Frame::new(results, &lanes);
    let legend = Legend::new(&lanes, frame.width);
    let height = frame.bottom + TIMES + legend.height() + MARGIN;
    let drawn = picture(frame.width, height, |canvas| {
        heading(canvas, results, frame.width);
        frame.draw(canvas);
        frame.titles(canvas, lanes.iter().any(Lane::has_load));
        // The end of a server affects all its clients: draw a line through all lanes.
        for event in lanes.iter().flat_map(Lane::ends_of_server) {
            let x = frame.x(event.at_ns);
            canvas.line([(x, TOP - 4), (x, frame.bottom)], SERVER_ENDS, THIN);
        }
        let mut top = TOP;
        for lane in &lanes {
            lane.draw(canvas, &frame, top);
            top += lane.height();
        }
        legend.draw(canvas, frame.bottom + TIMES);
    });
    plain(&drawn).into_owned()
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
    /// Zero of the times, in a phrase.
    zero: &'static str,
    begin_ns: u64,
    end_ns: u64,
    /// Ends of the part with the times.
    left: i32,
    right: i32,
    /// Width of the picture.
    width: i32,
    /// Bottom of the lanes.
    bottom: i32,
}

impl Frame {
    fn new(results: &Results, lanes: &[Lane<'_>]) -> Self {
        let timeline = &results.timeline;
        // A time that the serial line forged may be the greatest number.
        let begin_ns = timeline.begin_ns.unwrap_or(0).min(u64::MAX - 1);
        let names = lanes.iter().map(|lane| width(lane.name, 15).max(width(&lane.about, 12))).max().unwrap_or(0);
        let left = MARGIN + names + NAMES_GAP + AXIS;
        let (right, end_ns) = (left + SPAN, timeline.end_ns.max(begin_ns + 1));
        let bottom = TOP + lanes.iter().map(Lane::height).sum::<i32>();
        Self { zero: results.zero(), begin_ns, end_ns, left, right, width: right + AXIS + MARGIN, bottom }
    }

    fn x(&self, at_ns: u64) -> i32 {
        let since = at_ns.clamp(self.begin_ns, self.end_ns) - self.begin_ns;
        self.left + (since as f64 / (self.end_ns - self.begin_ns) as f64 * f64::from(SPAN)).round() as i32
    }

    /// The grid and the times below it.
    fn draw(&self, canvas: &mut Canvas) {
        let length = self.end_ns - self.begin_ns;
        let (unit_ns, unit) = if length >= 2_000_000_000 { (1e9, "s") } else { (1e6, "ms") };
        let step = figure::step(length as f64 / unit_ns, TICKS);
        let mut value = 0.0;
        while value * unit_ns <= length as f64 {
            let x = self.x(self.begin_ns.saturating_add((value * unit_ns) as u64));
            canvas.line([(x, TOP - 4), (x, self.bottom)], GRID, THIN);
            let places = usize::from(step < 1.0);
            canvas.text(format!("{value:.places$}"), (x, self.bottom + 12), letters(13, INK, Align::Middle));
            value += step;
        }
        let says = format!("{}, {unit}", self.zero);
        let middle = (self.left + self.right) / 2;
        canvas.text(says, (middle, self.bottom + 32), letters(13, FAINT, Align::Middle));
    }

    /// The titles of the names and of the axes of loads.
    fn titles(&self, canvas: &mut Canvas, has_load: bool) {
        let y = TOP - 14;
        let mut title = |says, x, align| canvas.text(says, (x, y), letters(12, FAINT, align));
        title("component", MARGIN, Align::Left);
        if has_load {
            title("requests/s", self.left - 8, Align::Right);
            title("longest latency", self.right + 8, Align::Left);
        }
    }
}

fn heading(canvas: &mut Canvas, results: &Results, width: i32) {
    let world = match results.seed {
        Some(seed) => format!("in the simulator, seed {seed}, virtual time"),
        None => "on seL4 in QEMU".to_owned(),
    };
    let verdict = match (results.passed, results.failed()) {
        (true, _) => ("PASS", GOOD),
        (false, true) => ("FAIL", BAD),
        (false, false) => ("NOT PROMISED", BAD),
    };
    canvas.text(results.scenario.as_str(), (MARGIN, 28), letters(22, INK, Align::Left));
    canvas.text(world, (MARGIN, 52), letters(14, FAINT, Align::Left));
    canvas.text(verdict.0, (width - MARGIN, 28), letters(18, verdict.1, Align::Right));
}

/// Content of one component's lane.
struct Lane<'a> {
    name: &'a str,
    /// Whether clients depend on it.
    serves: bool,
    /// Text below the name.
    about: String,
    incarnations: Vec<(u64, u64)>,
    events: Vec<&'a Event>,
    intervals: Vec<Progress>,
}

/// The lanes of a run: the components in the order in which they were started.
fn lanes(results: &Results) -> Vec<Lane<'_>> {
    let timeline = &results.timeline;
    let mut lanes = Vec::new();
    for component in &results.components {
        let name = component.name.as_str();
        let events = marked(timeline, name);
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
            incarnations: timeline.incarnations_of(name),
            events,
            intervals: intervals(timeline.progress.iter().filter(|interval| interval.tenant == name)),
        });
    }
    lanes
}

/// The intervals of a load. Short ones at the end are joined with the one before.
fn intervals<'a>(all: impl Iterator<Item = &'a Progress>) -> Vec<Progress> {
    let mut intervals: Vec<Progress> = all.cloned().collect();
    let length = |one: &Progress| one.until_ns.saturating_sub(one.since_ns);
    let mut lengths: Vec<_> = intervals.iter().map(length).collect();
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    while let [.., before, last] = intervals.as_mut_slice()
        && length(last) < usual / 2
        && before.until_ns == last.since_ns
    {
        before.until_ns = last.until_ns;
        before.operations = before.operations.saturating_add(last.operations);
        before.bytes = before.bytes.saturating_add(last.bytes);
        before.max_ns = before.max_ns.max(last.max_ns);
        intervals.pop();
    }
    intervals
}

/// Marked events of a component. An opening that the client reports as its return is one event, which has the client's mark.
fn marked<'a>(timeline: &'a Timeline, name: &'a str) -> Vec<&'a Event> {
    let all: Vec<_> = timeline.events_of(name).into_iter().filter(|event| is_marked(event.what)).collect();
    let sessions: Vec<_> =
        all.iter().copied().filter(|event| matches!(event.what, What::Opened | What::Reconnected)).collect();
    let returns = |event: &Event| {
        sessions.windows(3).any(|three| {
            std::ptr::eq(three[1], event) && three[1].what == What::Opened && three[2].what == What::Reconnected
        })
    };
    all.iter().copied().filter(|event| !returns(event)).collect()
}

/// Whether an event has a mark. The incarnation itself shows a start and an orderly end.
const fn is_marked(what: What) -> bool {
    !matches!(what, What::Started | What::Done)
}

impl Lane<'_> {
    fn height(&self) -> i32 {
        let surface = if self.has_load() { SURFACE } else { 0 };
        MARKS + surface + INCARNATION + GAP
    }

    const fn has_load(&self) -> bool {
        !self.intervals.is_empty()
    }

    /// Events that end a server, and so affect its clients.
    fn ends_of_server(&self) -> impl Iterator<Item = &&Event> {
        self.events.iter().filter(|event| self.serves && is_grave(event.what))
    }

    fn draw(&self, canvas: &mut Canvas, frame: &Frame, top: i32) {
        let bottom = top + self.height() - GAP;
        let below = bottom + GAP / 2;
        canvas.line([(MARGIN, below), (frame.width - MARGIN, below)], GRID, THIN);
        let middle = (top + bottom) / 2;
        let up = if self.about.is_empty() { 0 } else { 8 };
        canvas.text(self.name, (MARGIN, middle - up), letters(15, INK, Align::Left));
        canvas.text(self.about.as_str(), (MARGIN, middle + 10), letters(12, FAINT, Align::Left));
        for (since, until) in &self.incarnations {
            let corners = [(frame.x(*since), bottom - INCARNATION), (frame.x(*until).max(frame.x(*since) + 1), bottom)];
            canvas.rectangle(corners, RUNS);
        }
        self.draw_load(canvas, frame, bottom - INCARNATION);
        self.draw_events(canvas, frame, top + MARKS / 2);
    }

    /// Draws rates and longest latencies above `base`, and their axes.
    fn draw_load(&self, canvas: &mut Canvas, frame: &Frame, base: i32) {
        if !self.has_load() {
            return;
        }
        let rates: Vec<_> = self.intervals.iter().map(rate).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let longest = self.intervals.iter().map(|interval| interval.max_ns).max().unwrap_or(0);
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
        canvas.form(&edge, RATE);
        canvas.line(line, LATENCY, THIN);
        let peaks = [format!("peak {}", short(most)), format!("peak {}", figure::time(longest as f64))];
        let places = [(frame.left, -8, Align::Right), (frame.right, 8, Align::Left)];
        for (peak, (x, aside, align)) in peaks.into_iter().zip(places) {
            canvas.line([(x, y(1.0)), (x, base)], FAINT, THIN);
            canvas.text(peak, (x + aside, y(1.0) + 4), letters(12, INK, align));
            canvas.text("0", (x + aside, base - 4), letters(12, INK, align));
        }
    }

    /// Draws marks in the lane's upper part, and words beside those that have room.
    fn draw_events(&self, canvas: &mut Canvas, frame: &Frame, y: i32) {
        let places = self.places(frame);
        // The severe ones last, so that no other mark hides them.
        for grave in [false, true] {
            for (event, x) in places.iter().filter(|(event, _)| is_grave(event.what) == grave) {
                mark(canvas, event.what, (*x, y));
            }
        }
        let groups = groups(&places);
        for (index, (last, words)) in groups.iter().enumerate() {
            let room = groups.get(index + 1).map_or(frame.right, |(next, _)| next.first - 8);
            // All words that fit, from the first on.
            let fitting = (0..=words.len()).rev().map(|count| words[..count].join(", "));
            let begin = last.last + 10;
            if let Some(words) = fitting.into_iter().find(|words| begin + width(words, 12) <= room) {
                canvas.text(words, (begin, y), letters(12, INK, Align::Left));
            }
        }
    }

    /// The events with the places of their marks. One that would lie on the mark before stands beside it, unless it would then be too far
    /// from its time. Refused attacks are narrow and many, and stand at their times.
    fn places(&self, frame: &Frame) -> Vec<(&Event, i32)> {
        let mut before = i32::MIN;
        let place = |event: &&'_ Event| {
            let own = frame.x(event.at_ns);
            let beside = before.saturating_add(BESIDE);
            let x = if own < beside && beside - own <= MOST_MOVED { beside } else { own };
            if event.what == What::AttackRefused {
                return own;
            }
            before = x;
            x
        };
        let places: Vec<_> = self.events.iter().map(place).collect();
        self.events.iter().copied().zip(places).collect()
    }
}

/// Places of the first and the last mark of a group.
struct Ends {
    first: i32,
    last: i32,
}

/// Groups of marks that stand beside each other, with their words.
fn groups(places: &[(&Event, i32)]) -> Vec<(Ends, Vec<String>)> {
    let mut groups: Vec<(Ends, Vec<String>)> = Vec::new();
    for (event, x) in places {
        match groups.last_mut().filter(|(ends, _)| *x - ends.last <= BESIDE) {
            Some((ends, words)) => {
                ends.last = ends.last.max(*x);
                words.extend(says(event));
            }
            None => groups.push((Ends { first: *x, last: *x }, says(event).into_iter().collect())),
        }
    }
    groups
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

/// Words beside a mark; `None` for frequent events.
fn says(event: &Event) -> Option<String> {
    match event.what {
        What::Opened | What::Closed | What::AttackRefused | What::Started | What::Done => None,
        What::Revoked | What::Granted => Some(format!("{}: {}", name(event.what), event.words)),
        What::Entitled if !event.words.is_empty() => Some(event.words.to_string()),
        What::Reconnected => Some(format!("{}, {}", name(event.what), event.words)),
        What::Restarted => Some(format!("{} {}", name(event.what), event.words)),
        What::Broken => Some(format!("fault: {}", event.words)),
        What::Moved => Some(event.words.to_string()),
        What::Faulted if !event.words.is_empty() => Some(format!("fault: {}", event.words)),
        what => Some(name(what).to_owned()),
    }
}

#[cfg(test)]
mod tests;
