//! Tables of limited width.
//!
//! A table that is too wide is wrapped between words. One in which words would have to break is written as blocks: one for each row, in
//! lines of `name: value`. Left out: the width itself, which `out` determines.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use std::fmt::Write as _;
use textwrap::{Options, WordSplitter};

/// Columns that a cell takes beside its content: a space on either side, and a line.
const AROUND: usize = 3;
/// Columns of one value in a block's lines. A longer one takes the room of several.
const STEP: usize = 19;
const INDENT: &str = "  ";

/// Content of a cell: words are aligned left, numbers right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Words.
    Word(String),
    /// A number as text.
    Number(String),
}

impl Value {
    /// The content.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Number(text) => text,
        }
    }
}

/// A table: a heading for each column, and rows of as many values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sheet {
    header: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Sheet {
    /// A table without rows.
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, values: impl IntoIterator<Item = Value>) {
        self.rows.push(values.into_iter().collect());
    }

    /// Adds a row of a name and numbers.
    pub fn numbers(&mut self, name: &str, numbers: impl IntoIterator<Item = String>) {
        let numbers = numbers.into_iter().map(Value::Number);
        self.rows.push(std::iter::once(Value::Word(name.to_owned())).chain(numbers).collect());
    }

    /// The headings.
    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// The rows.
    pub(crate) fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// Whether the sheet has no rows.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in lines of at most `columns` columns, unless a single word is longer. Without an end of line.
    pub fn fit(&self, columns: usize) -> String {
        let mut table = self.table();
        if widest_line(&table.to_string()) <= columns {
            return table.to_string();
        }
        let words: Vec<_> = (0..self.header.len()).map(|column| self.longest_word(column)).collect();
        if words.iter().map(|width| width + AROUND).sum::<usize>() >= columns {
            return self.blocks(columns);
        }
        // A terminal has fewer columns than that.
        let narrow = |width: usize| u16::try_from(width).unwrap_or(u16::MAX);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(narrow(columns));
        for (column, width) in table.column_iter_mut().zip(&words) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(narrow(width + AROUND - 1))));
        }
        table.to_string()
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header(&self.header);
        for row in &self.rows {
            table.add_row(row.iter().map(|value| match value {
                Value::Word(text) => Cell::new(text),
                Value::Number(text) => Cell::new(text).set_alignment(CellAlignment::Right),
            }));
        }
        table
    }

    fn longest_word(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(Value::text);
        let words = cells.chain(self.header.get(column).map(String::as_str)).flat_map(str::split_whitespace);
        words.map(|word| word.chars().count()).max().unwrap_or(0)
    }

    /// A block for each row, under its first value; a row without one continues the block before.
    fn blocks(&self, columns: usize) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let mut named = self.header.iter().zip(row.iter().map(Value::text)).filter(|(_, value)| !value.is_empty());
            if row.first().is_some_and(|first| !first.text().is_empty()) {
                // Writing to a string cannot fail.
                let _ = named.next().map(|(name, value)| writeln!(text, "{name}: {value}"));
            }
            let mut line = String::new();
            for (name, value) in named {
                let place = line.chars().count().next_multiple_of(STEP);
                let pair = format!("{name}: {value}");
                if !line.is_empty() && INDENT.len() + place + pair.chars().count() > columns {
                    write_wrapped(&mut text, &line, columns);
                    line.clear();
                } else {
                    line = format!("{line:place$}");
                }
                // Two spaces at least stand between two values.
                line.push_str(&pair);
                line.push_str("  ");
            }
            write_wrapped(&mut text, &line, columns);
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Writes a line of a block, and wraps it if it is a single value that is too long.
fn write_wrapped(text: &mut String, line: &str, columns: usize) {
    let line = line.trim_end();
    if line.is_empty() {
        return;
    }
    let further = format!("{INDENT}{INDENT}");
    if INDENT.len() + line.chars().count() <= columns {
        let _ = writeln!(text, "{INDENT}{line}");
    } else {
        let options = Options::new(columns).break_words(false).word_splitter(WordSplitter::NoHyphenation);
        let _ = writeln!(text, "{}", textwrap::fill(line, options.initial_indent(INDENT).subsequent_indent(&further)));
    }
}

/// Columns of the widest line.
pub fn widest_line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
