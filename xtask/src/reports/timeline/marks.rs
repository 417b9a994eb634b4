//! Marks, colours and legend of the timeline.
//!
//! Each kind of event has a shape of its own, and its group of kinds a colour. The colours are those of Okabe and Ito, which people with
//! red-green colour blindness can distinguish.

use super::{Lane, MARGIN};
use crate::records::timeline::What;
use crate::reports::figure::{Align, BAD, Canvas, Colour, FAINT, GOOD, INK, OKABE_ITO, Place, letters, width};
use std::collections::BTreeSet;

/// Colour of running components.
pub(super) const RUNS: Colour = Colour(0xbb, 0xbb, 0xbb);
/// Colour of the surface of requests.
pub(super) const RATE: Colour = OKABE_ITO.sky_blue;
/// Colour of the line of latencies.
pub(super) const LATENCY: Colour = INK;

/// Colour of the line through all lanes where a server ends.
pub(super) const SERVER_ENDS: Colour = Colour(0xee, 0xbf, 0x99);

/// Rows of the legend: its meaning, and the colour.
const GROUPS: [(&str, Colour); 5] = [
    ("begins, or is back", GOOD),
    ("ends, or fails", BAD),
    ("is changed", OKABE_ITO.blue),
    ("attack", OKABE_ITO.orange),
    ("ends in order", FAINT),
];

/// Widths of lines, pixels.
pub(super) const THIN: u32 = 1;
const THICK: u32 = 2;

/// Height of a row, and place of its first entry.
const ROW: i32 = 22;
const ENTRIES: i32 = MARGIN + 150;
/// Space between an entry's mark and its name, and between entries.
const BESIDE_MARK: i32 = 12;
const BETWEEN: i32 = 28;

/// Form of a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// Corners of a filled form.
    Filled(&'static [(i32, i32)]),
    /// Corners of an outline.
    Outline(&'static [(i32, i32)]),
    /// Disc.
    Disc,
    /// Circle.
    Ring,
    /// Lines from and to.
    Strokes(&'static [[(i32, i32); 2]]),
}

const UP: &[(i32, i32)] = &[(-6, 5), (6, 5), (0, -6)];
const DOWN: &[(i32, i32)] = &[(-6, -5), (6, -5), (0, 6)];
const LEFT: &[(i32, i32)] = &[(5, -6), (5, 6), (-6, 0)];
const RIGHT: &[(i32, i32)] = &[(-5, -6), (-5, 6), (6, 0)];
const SQUARE: &[(i32, i32)] = &[(-5, -5), (5, -5), (5, 5), (-5, 5)];
const DIAMOND: &[(i32, i32)] = &[(0, -6), (6, 0), (0, 6), (-6, 0)];
const HOURGLASS: &[(i32, i32)] = &[(-6, -7), (6, -7), (-6, 7), (6, 7)];
const UPRIGHT: [(i32, i32); 2] = [(0, -6), (0, 6)];
const LEVEL: [(i32, i32); 2] = [(-6, 0), (6, 0)];
const FALLING: [(i32, i32); 2] = [(-5, -5), (5, 5)];
const RISING: [(i32, i32); 2] = [(-5, 5), (5, -5)];

/// The shape of a kind of event, and the place of its colour in [`GROUPS`]; `None` for kinds without a mark.
const fn look(what: What) -> Option<(Shape, usize)> {
    Some(match what {
        What::Opened => (Shape::Filled(UP), 0),
        What::Reconnected => (Shape::Outline(UP), 0),
        What::Restarted => (Shape::Disc, 0),
        What::Killed => (Shape::Strokes(&[FALLING, RISING]), 1),
        What::Faulted => (Shape::Strokes(&[UPRIGHT, LEVEL]), 1),
        What::Failed => (Shape::Strokes(&[UPRIGHT, LEVEL, FALLING, RISING]), 1),
        What::Broken => (Shape::Filled(SQUARE), 1),
        What::Reset => (Shape::Outline(SQUARE), 1),
        What::Reported => (Shape::Strokes(&[LEVEL]), 1),
        What::Refused => (Shape::Filled(DOWN), 1),
        What::Expelled => (Shape::Outline(DOWN), 1),
        What::Revoked => (Shape::Filled(LEFT), 2),
        What::Granted => (Shape::Filled(RIGHT), 2),
        What::Entitled => (Shape::Filled(DIAMOND), 2),
        What::Moved => (Shape::Outline(DIAMOND), 2),
        What::Interrupts => (Shape::Outline(RIGHT), 2),
        What::Ordered => (Shape::Outline(HOURGLASS), 2),
        What::AttackRefused => (Shape::Strokes(&[UPRIGHT]), 3),
        What::AttackDone => (Shape::Filled(HOURGLASS), 3),
        What::Closed => (Shape::Ring, 4),
        What::Started | What::Done => return None,
    })
}

/// Name of a kind of event.
pub(super) const fn name(what: What) -> &'static str {
    match what {
        What::Started => "started",
        What::Opened => "session open",
        What::Closed => "session closed",
        What::Expelled => "session ended by the server",
        What::Refused => "session refused",
        What::AttackRefused => "refused",
        What::AttackDone => "NOT STOPPED",
        What::Faulted => "fault",
        What::Killed => "killed",
        What::Restarted => "runs again",
        What::Reconnected => "session back",
        What::Broken => "controller fails",
        What::Moved => "hot plug",
        What::Reset => "reset",
        What::Reported => "event reported",
        What::Revoked => "rights revoked",
        What::Granted => "rights granted",
        What::Entitled => "share changed",
        What::Interrupts => "interrupts changed",
        What::Ordered => "an operator's act",
        What::Failed => "check failed",
        What::Done => "done",
    }
}

/// Draws the mark of an event.
pub(super) fn mark(canvas: &mut Canvas, what: What, (x, y): Place) {
    let Some((shape, group)) = look(what) else { return };
    let (_, colour) = GROUPS[group];
    let place = |corners: &[(i32, i32)]| corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>();
    match shape {
        Shape::Filled(corners) => canvas.form(&place(corners), colour),
        Shape::Outline(corners) => {
            let mut edge = place(corners);
            edge.extend(edge.first().copied());
            canvas.line(edge, colour, THICK);
        }
        Shape::Disc => canvas.disc((x, y), 6, colour),
        Shape::Ring => canvas.ring((x, y), 5, colour, THICK),
        Shape::Strokes(strokes) => strokes.iter().for_each(|ends| canvas.line(place(ends), colour, THICK)),
    }
}

/// Entry of the legend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    /// Mark of a kind of event.
    Mark(What),
    /// Bar of a component that runs.
    Runs,
    /// Surface of requests.
    Rate,
    /// Line of latencies.
    Latency,
    /// Line through all lanes.
    ServerEnds,
}

impl Entry {
    const fn name(self) -> &'static str {
        match self {
            Self::Mark(what) => name(what),
            Self::Runs => "component runs",
            Self::Rate => "requests per second",
            Self::Latency => "longest latency in an interval",
            Self::ServerEnds => "a server ends, or its controller fails",
        }
    }

    fn draw(self, canvas: &mut Canvas, (x, y): Place) {
        match self {
            Self::Mark(what) => mark(canvas, what, (x, y)),
            Self::Runs => canvas.rectangle([(x - 7, y - 3), (x + 7, y + 3)], RUNS),
            Self::Rate => canvas.rectangle([(x - 7, y - 6), (x + 7, y + 6)], RATE),
            Self::Latency => canvas.line([(x - 7, y), (x + 7, y)], LATENCY, THIN),
            Self::ServerEnds => canvas.line([(x, y - 8), (x, y + 8)], SERVER_ENDS, THIN),
        }
        canvas.text(self.name(), (x + BESIDE_MARK, y), letters(13, INK, Align::Left));
    }
}

/// The legend: rows of entries, each with the meaning of its colour; a row that continues another has none.
pub(super) struct Legend {
    rows: Vec<(&'static str, Vec<(i32, Entry)>)>,
}

impl Legend {
    /// The legend of all that is in the lanes of a picture, of this width.
    pub(super) fn new(lanes: &[Lane<'_>], picture_width: i32) -> Self {
        let mut legend = Self { rows: Vec::new() };
        let kinds: BTreeSet<_> = lanes.iter().flat_map(|lane| &lane.events).map(|event| event.what).collect();
        for (group, (meaning, _)) in GROUPS.iter().enumerate() {
            let of_group = kinds.iter().filter(|what| look(**what).is_some_and(|(_, own)| own == group));
            legend.add(meaning, of_group.map(|what| Entry::Mark(*what)), picture_width);
        }
        let has_load = lanes.iter().any(Lane::has_load);
        let ends = lanes.iter().any(|lane| lane.ends_of_server().next().is_some());
        let entries =
            [(Entry::Runs, true), (Entry::Rate, has_load), (Entry::Latency, has_load), (Entry::ServerEnds, ends)];
        let entries = entries.into_iter().filter(|(_, there)| *there).map(|(entry, _)| entry);
        legend.add("over time", entries, picture_width);
        legend
    }

    fn add(&mut self, meaning: &'static str, entries: impl Iterator<Item = Entry>, picture_width: i32) {
        let mut x = i32::MAX;
        let mut meaning = Some(meaning);
        for entry in entries {
            let wide = BESIDE_MARK + width(entry.name(), 13);
            if x > picture_width - MARGIN - wide {
                self.rows.push((meaning.take().unwrap_or_default(), Vec::new()));
                x = ENTRIES;
            }
            if let Some((_, row)) = self.rows.last_mut() {
                row.push((x, entry));
            }
            x += wide + BETWEEN;
        }
    }

    /// Pixels.
    pub(super) const fn height(&self) -> i32 {
        self.rows.len() as i32 * ROW
    }

    /// Draws it below `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, top: i32) {
        for ((meaning, row), number) in self.rows.iter().zip(0..) {
            let y = top + number * ROW + ROW / 2;
            canvas.text(*meaning, (MARGIN, y), letters(13, FAINT, Align::Left));
            row.iter().for_each(|(x, entry)| entry.draw(canvas, (*x, y)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_has_one_meaning_and_a_colour_too() {
        use What::{
            AttackDone, AttackRefused, Broken, Closed, Entitled, Expelled, Failed, Faulted, Granted, Interrupts,
            Killed, Moved, Opened, Ordered, Reconnected, Refused, Reset, Restarted, Revoked,
        };
        let all = [
            Opened,
            Closed,
            Expelled,
            Refused,
            AttackRefused,
            AttackDone,
            Faulted,
            Killed,
            Restarted,
            Reconnected,
            Broken,
            Moved,
            Reset,
            Revoked,
            Granted,
            Entitled,
            Interrupts,
            Ordered,
            Failed,
        ];
        let shapes: Vec<_> = all.iter().map(|what| look(*what).unwrap().0).collect();
        for (index, shape) in shapes.iter().enumerate() {
            assert!(!shapes[index + 1..].contains(shape), "{:?} is not alone with its mark", all[index]);
        }
        let colours: BTreeSet<_> = GROUPS.iter().map(|(_, Colour(r, g, b))| (r, g, b)).collect();
        assert_eq!(colours.len(), GROUPS.len());
    }
}
