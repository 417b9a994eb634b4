//! The fuzzers' tables.

use super::{Searched, Target};
use crate::out;
use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

/// Prints the targets.
///
/// # Errors
/// Standard output that takes no more.
pub(super) fn list(targets: &[Target]) -> Result<()> {
    let longest = targets.iter().map(|target| target.name.len()).max().unwrap_or(0);
    targets.iter().try_for_each(|target| out::line(format_args!("{:longest$}  {}", target.name, target.about)))
}

/// Table of the searches' results.
pub(super) fn table(searched: &[Searched]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(["target", "inputs", "a second", "seconds", "edges", "found"]);
    for one in searched {
        let rate = one.inputs as f64 / one.seconds.max(0.001);
        let found = one.finding.as_ref().map_or("nothing", |finding| finding.input.as_str());
        table.add_row([
            one.target.clone(),
            one.inputs.to_string(),
            format!("{rate:.0}"),
            format!("{:.0}", one.seconds),
            one.edges.to_string(),
            found.to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
