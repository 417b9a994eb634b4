//! The page of a sweep: the file `report.html` in its folder, with the result, figures, runs that did not pass, the table, and the commands
//! that repeat it.

use super::record::Record;
use anyhow::{Context, Result};
use maud::{Markup, html};
use xtask::arguments::typed;
use xtask::reports::page;
use xtask::reports::sheet::{Sheet, Value};

/// Rows of the table, and commands, on the page at most.
const MOST_ROWS: usize = 2000;

/// The page of `of` runs with these records. `table` is the table as CSV.
///
/// # Errors
/// A table that is no CSV.
pub(super) fn html(records: &[Record], of: u64, pictures: &[String], table: &[u8]) -> Result<String> {
    let name = records.first().map_or("", |record| record.scenario.as_str());
    let passed = records.iter().filter(|record| record.passed).count();
    let class = if passed as u64 == of { "good" } else { "bad" };
    let mut csv = csv::Reader::from_reader(table);
    let mut sheet = Sheet::new(csv.headers().context("the table does not decode")?);
    let rows = csv.records().collect::<Result<Vec<_>, _>>().context("the table does not decode")?;
    for row in rows.iter().take(MOST_ROWS) {
        sheet.row(row.iter().map(|value| Value::Number(value.to_owned())));
    }
    let commands: Vec<_> = records.iter().take(MOST_ROWS).map(Record::command).collect();
    let body = html! {
        h1 { "Sweep of " (name) " " span class=(class) { (passed) " of " (of) " runs passed" } }
        @for picture in pictures { (page::picture(picture)) }
        h2 { "Repeat it" }
        pre { (typed()) }
        details { summary { "Its runs" (cut(records.len())) } pre { (commands.join("\n")) } }
        @if records.iter().any(|record| !record.passed) {
            h2 { "Runs that did not pass" }
            @for record in records.iter().filter(|record| !record.passed).take(MOST_ROWS) { (failure(record)) }
        }
        h2 { "Table" (cut(rows.len())) }
        (page::table(&sheet))
    };
    Ok(page::file(&format!("sweep of {name}"), &body))
}

/// A note about rows that are left out.
fn cut(rows: usize) -> String {
    if rows > MOST_ROWS { format!(": the first {MOST_ROWS} of {rows}") } else { String::new() }
}

fn failure(record: &Record) -> Markup {
    let word = if record.not_promised.is_empty() { "FAIL" } else { "NOT PROMISED" };
    html! {
        h3 { span.bad { (word) } " run " (record.run) ": " (record.combination()) }
        ul { @for reason in &record.reasons { li { (reason) } } }
        pre { (record.command()) }
    }
}
