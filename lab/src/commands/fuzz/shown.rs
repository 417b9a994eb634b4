//! The fuzzers' tables.

use super::{Searched, Target};
use anyhow::Result;
use xtask::out;
use xtask::reports::sheet::{Sheet, Value};

/// Prints the targets.
///
/// # Errors
/// Standard output that takes no more.
pub(super) fn list(targets: &[Target]) -> Result<()> {
    let longest = targets.iter().map(|target| target.name.len()).max().unwrap_or(0);
    targets.iter().try_for_each(|target| out::line(format_args!("{:longest$}  {}", target.name, target.about)))
}

/// Table of the searches' results.
pub(super) fn table(searched: &[Searched]) -> Sheet {
    let mut sheet = Sheet::new(["target", "inputs", "a second", "seconds", "edges", "found"]);
    for one in searched {
        let rate = one.inputs as f64 / one.seconds.max(0.001);
        let found = one.finding.as_ref().map_or("nothing", |finding| finding.input.as_str());
        sheet.row([
            Value::Word(one.target.clone()),
            Value::Number(one.inputs.to_string()),
            Value::Number(format!("{rate:.0}")),
            Value::Number(format!("{:.0}", one.seconds)),
            Value::Number(one.edges.to_string()),
            Value::Word(found.to_owned()),
        ]);
    }
    sheet
}
