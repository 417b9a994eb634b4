//! Boxes, lines and words of the picture, as SVG.

use svg::Document;
use svg::node::element::path::Data;
use svg::node::element::{Circle, Group, Path, Rectangle, Text};

/// The colours, by the thing that is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ink {
    Text,
    Faint,
    RootTask,
    Console,
    PciServer,
    NvmeServer,
    Client,
    Device,
    Call,
    Signal,
    Shared,
    Frames,
    Control,
    Fault,
    Log,
}

impl Ink {
    /// The colour of lines and words.
    const fn stroke(self) -> &'static str {
        match self {
            Self::Text => "#1f2933",
            Self::Faint => "#52606d",
            Self::RootTask => "#7b8794",
            Self::Console | Self::Log => "#7b8794",
            Self::PciServer | Self::Device => "#b7791f",
            Self::NvmeServer => "#0f766e",
            Self::Client | Self::Call => "#2b5fb8",
            Self::Signal => "#c2410c",
            Self::Shared => "#15803d",
            Self::Frames => "#7c3aed",
            Self::Control => "#92400e",
            Self::Fault => "#c53030",
        }
    }

    /// The colour of boxes.
    const fn fill(self) -> &'static str {
        match self {
            Self::RootTask => "#eceff3",
            Self::PciServer => "#fdf3dd",
            Self::NvmeServer => "#dff5f1",
            Self::Client => "#e6eefc",
            Self::Device => "#fbf8f1",
            _ => "#f4f5f7",
        }
    }
}

/// The weight of words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weight {
    Regular,
    Bold,
}

impl Weight {
    /// The weight as an SVG number.
    const fn number(self) -> i32 {
        match self {
            Self::Regular => 400,
            Self::Bold => 600,
        }
    }
}

/// How a line ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    Arrow,
    Dot,
}

/// A line through points, straight or round right-angled corners.
pub(super) struct Line {
    pub(super) points: Vec<(i32, i32)>,
    pub(super) ink: Ink,
    pub(super) dashed: bool,
    pub(super) head: Head,
}

/// The picture under construction.
pub(super) struct Canvas {
    group: Group,
}

impl Canvas {
    pub(super) fn new() -> Self {
        // Fonts people have; the last is the one build machines without a desktop have.
        let group = Group::new().set("font-family", "Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif");
        Self { group }
    }

    fn add(&mut self, node: impl svg::Node) {
        let group = std::mem::replace(&mut self.group, Group::new());
        self.group = group.add(node);
    }

    pub(super) fn card(&mut self, x: i32, y: i32, width: i32, height: i32, ink: Ink) {
        self.add(
            Rectangle::new()
                .set("x", x)
                .set("y", y)
                .set("width", width)
                .set("height", height)
                .set("rx", 8)
                .set("fill", ink.fill())
                .set("stroke", ink.stroke())
                .set("stroke-width", 1.5),
        );
    }

    pub(super) fn text(&mut self, x: i32, y: i32, size: i32, weight: Weight, ink: Ink, words: &str) {
        self.add(Self::words(x, y, size, ink, words).set("font-weight", weight.number()));
    }

    /// Words around `x`, kept readable over lines.
    pub(super) fn centred(&mut self, x: i32, y: i32, size: i32, ink: Ink, words: &str) {
        let text = Self::words(x, y, size, ink, words).set("text-anchor", "middle");
        self.add(text.set("stroke", "#ffffff").set("stroke-width", 3).set("paint-order", "stroke"));
    }

    fn words(x: i32, y: i32, size: i32, ink: Ink, words: &str) -> Text {
        Text::new(words).set("x", x).set("y", y).set("font-size", size).set("fill", ink.stroke())
    }

    pub(super) fn line(&mut self, line: &Line) {
        let [first, .., before, last] = line.points.as_slice() else {
            if let [first, last] = line.points.as_slice() {
                self.stroke(line, Data::new().move_to(*first).line_to(stop(*first, *last)));
                self.head(line, *first, *last);
            }
            return;
        };
        let mut data = Data::new().move_to(*first);
        for point in &line.points[1..line.points.len() - 1] {
            data = data.line_to(*point);
        }
        self.stroke(line, data.line_to(stop(*before, *last)));
        self.head(line, *before, *last);
    }

    /// What `draw` draws, as a group with these attributes, by which a page finds it.
    pub(super) fn marked(&mut self, attributes: &[(&str, &str)], draw: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.group, Group::new());
        draw(self);
        let inner = std::mem::replace(&mut self.group, outer);
        let set = |group: Group, (name, value): &(&str, &str)| group.set(*name, *value);
        self.add(attributes.iter().fold(inner, set));
    }

    fn stroke(&mut self, line: &Line, data: Data) {
        let path = Path::new().set("d", data).set("fill", "none").set("stroke", line.ink.stroke());
        let path = path.set("stroke-width", 1.6).set("stroke-linejoin", "round");
        self.add(if line.dashed { path.set("stroke-dasharray", "5 4") } else { path });
    }

    /// The end of a line that comes from `before` to `last`.
    fn head(&mut self, line: &Line, before: (i32, i32), last: (i32, i32)) {
        let (dx, dy) = direction(before, last);
        let (x, y) = last;
        match line.head {
            Head::Dot => self.add(
                Circle::new().set("cx", x - 5 * dx).set("cy", y - 5 * dy).set("r", 4).set("fill", line.ink.stroke()),
            ),
            Head::Arrow => {
                let back = (x - 9 * dx, y - 9 * dy);
                let data = Data::new()
                    .move_to(last)
                    .line_to((back.0 - 4 * dy, back.1 + 4 * dx))
                    .line_to((back.0 + 4 * dy, back.1 - 4 * dx))
                    .close();
                self.add(Path::new().set("d", data).set("fill", line.ink.stroke()));
            }
        }
    }

    pub(super) fn finish(self, width: i32, height: i32) -> String {
        let paper = Rectangle::new().set("width", width).set("height", height).set("rx", 12).set("fill", "#ffffff");
        let document = Document::new().set("viewBox", (0, 0, width, height)).set("width", width).set("height", height);
        let mut text = document.add(paper).add(self.group).to_string();
        text.push('\n');
        text
    }
}

/// Where a line to `last` stops so that its head covers the end.
fn stop(before: (i32, i32), last: (i32, i32)) -> (i32, i32) {
    let (dx, dy) = direction(before, last);
    (last.0 - 7 * dx, last.1 - 7 * dy)
}

/// The unit step of a horizontal or vertical line.
fn direction(from: (i32, i32), to: (i32, i32)) -> (i32, i32) {
    ((to.0 - from.0).signum(), (to.1 - from.1).signum())
}
