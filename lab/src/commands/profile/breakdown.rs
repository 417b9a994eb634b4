//! A component's instructions by function and by source line.
//!
//! Four of the five lists divide all instructions of the component: each instruction is in one row. In the list of functions with
//! the code inlined into them, an instruction has a row for each function around it.

use super::histogram::Addresses;
use super::symbols::{Frame, Symbols};
use anyhow::Result;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Beginning of the paths of Rust's own library.
const LIBRARY: &str = "library/";

/// Instructions of one function or line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Row<K> {
    #[serde(flatten)]
    pub(super) of: K,
    pub(super) instructions: u64,
}

/// A function.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(super) struct Function {
    pub(super) function: String,
}

/// A source line, with its function and the outermost function that the compiler generated around it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(super) struct Line {
    pub(super) place: String,
    pub(super) function: String,
    pub(super) outermost: String,
}

/// A component's instructions, most first in each list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Breakdown {
    pub(super) component: String,
    pub(super) instructions: u64,
    /// By the function that the compiler generated, with everything inlined into it.
    pub(super) outermost: Vec<Row<Function>>,
    /// By the innermost function, inlined or not, without the code inlined into it.
    pub(super) innermost: Vec<Row<Function>>,
    /// By every function, inlined or not, with the code inlined into it.
    pub(super) inclusive: Vec<Row<Function>>,
    /// By source line.
    pub(super) lines: Vec<Row<Line>>,
    /// By source line outside of Rust's own library; code inlined from the library counts for the line around it.
    pub(super) own_lines: Vec<Row<Line>>,
}

impl Breakdown {
    /// Breaks down the instructions of `component`. Without its program's symbols every function is unknown.
    ///
    /// # Errors
    /// Debug information that cannot be read.
    pub(super) fn of(component: &str, addresses: &Addresses, symbols: Option<&Symbols<'_>>) -> Result<Self> {
        let mut sums = Sums::default();
        for (address, count) in addresses {
            let frames = match symbols {
                Some(symbols) => symbols.frames(*address)?,
                None => vec![Frame { function: "(no program)".into(), place: None }],
            };
            sums.add(&frames, *count);
        }
        Ok(Self {
            component: component.to_owned(),
            instructions: addresses.values().sum(),
            outermost: most_first(sums.outermost),
            innermost: most_first(sums.innermost),
            inclusive: most_first(sums.inclusive),
            lines: most_first(sums.lines),
            own_lines: most_first(sums.own_lines),
        })
    }
}

#[derive(Default)]
struct Sums {
    outermost: BTreeMap<Function, u64>,
    innermost: BTreeMap<Function, u64>,
    inclusive: BTreeMap<Function, u64>,
    lines: BTreeMap<Line, u64>,
    own_lines: BTreeMap<Line, u64>,
}

impl Sums {
    fn add(&mut self, frames: &[Frame], count: u64) {
        let [inner, ..] = frames else { return };
        let outer = frames.last().unwrap_or(inner);
        let function = |frame: &Frame| Function { function: frame.function.clone() };
        *self.outermost.entry(function(outer)).or_default() += count;
        *self.innermost.entry(function(inner)).or_default() += count;
        // A function that is inlined into itself counts an instruction once.
        for function in frames.iter().map(function).collect::<BTreeSet<_>>() {
            *self.inclusive.entry(function).or_default() += count;
        }
        let line = |frame: &Frame| Line {
            place: frame.place.clone().unwrap_or_else(|| "(no line)".into()),
            function: frame.function.clone(),
            outermost: outer.function.clone(),
        };
        let is_library = |frame: &Frame| frame.place.as_ref().is_some_and(|place| place.starts_with(LIBRARY));
        let own = frames.iter().find(|frame| !is_library(frame)).unwrap_or(outer);
        *self.lines.entry(line(inner)).or_default() += count;
        *self.own_lines.entry(line(own)).or_default() += count;
    }
}

fn most_first<K: Ord>(sums: BTreeMap<K, u64>) -> Vec<Row<K>> {
    let mut rows: Vec<_> = sums.into_iter().map(|(of, instructions)| Row { of, instructions }).collect();
    // Stable: rows with the same count stay in the order of their names.
    rows.sort_by_key(|row| std::cmp::Reverse(row.instructions));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, place: &str) -> Frame {
        Frame { function: function.into(), place: Some(place.into()) }
    }

    #[test]
    fn instruction_counts_once_for_each_function_around_it() {
        let mut sums = Sums::default();
        sums.add(&[frame("get", "library/slice.rs:1"), frame("take", "ring.rs:2"), frame("run", "lib.rs:3")], 5);
        sums.add(&[frame("take", "ring.rs:4"), frame("run", "lib.rs:3")], 3);
        sums.add(&[frame("run", "lib.rs:9"), frame("run", "lib.rs:8")], 2);
        let pairs = |rows: Vec<Row<Function>>| {
            rows.into_iter().map(|row| (row.of.function, row.instructions)).collect::<Vec<_>>()
        };
        let named = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(pairs(most_first(sums.outermost)), named(&[("run", 10)]));
        assert_eq!(pairs(most_first(sums.innermost)), named(&[("get", 5), ("take", 3), ("run", 2)]));
        assert_eq!(pairs(most_first(sums.inclusive)), named(&[("run", 10), ("take", 8), ("get", 5)]));
        let lines = most_first(sums.lines);
        assert_eq!(lines.iter().map(|row| row.instructions).sum::<u64>(), 10);
        let line = |place: &str, function: &str| {
            let of = Line { place: place.into(), function: function.into(), outermost: "run".into() };
            Row { of, instructions: 5 }
        };
        assert_eq!(lines.first(), Some(&line("library/slice.rs:1", "get")));
        let own = most_first(sums.own_lines);
        assert_eq!(own.iter().map(|row| row.instructions).sum::<u64>(), 10);
        assert_eq!(own.first(), Some(&line("ring.rs:2", "take")));
    }

    #[test]
    fn a_component_without_a_program_keeps_its_sum() {
        let addresses = Addresses::from([(1, 4), (2, 6)]);
        let breakdown = Breakdown::of("elsewhere", &addresses, None).unwrap();
        assert_eq!((breakdown.instructions, breakdown.outermost.len()), (10, 1));
        assert_eq!(breakdown.innermost.first().map(|row| row.instructions), Some(10));
    }
}
