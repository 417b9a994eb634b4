//! The page of a run: the file `report.html` in its folder, with the result, figures, tables, timeline, capability graph, events, log, and
//! the command that repeats the run.

use crate::plain::plain;
use crate::project::{Project, write_whole};
use crate::records::results::Results;
use crate::reports::live_log;
use crate::reports::page::{self, picture};
use crate::reports::sheet::{Sheet, Value};
use crate::reports::table::{self, Part};
use crate::reports::{loads, timeline};
use anyhow::Result;
use capdl::Scenario;
use maud::{Markup, html};
use std::fs;
use std::path::Path;

/// File name of the page in a run's folder.
pub const NAME: &str = "report.html";
/// Lines of the log on the page, at most: its last ones.
const MOST_LINES: usize = 4000;

/// Writes the page of a run into its folder. `command` repeats the run.
///
/// # Errors
/// A page that cannot be written.
pub fn write(project: &Project, folder: &Path, scenario: &Scenario, results: &Results, command: &str) -> Result<()> {
    let read = |name: &str| fs::read(folder.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let texts = Texts { graph: read("system.svg"), log: read("log"), events: read("events") };
    let page = html(&scenario.description, results, command, &project.shown(folder), &texts);
    write_whole(&folder.join(NAME), page.as_bytes())
}

/// Contents of the files of a run's folder.
#[derive(Default)]
struct Texts {
    graph: Option<String>,
    log: Option<String>,
    /// The simulator's last events around a failure.
    events: Option<String>,
}

fn html(description: &str, results: &Results, command: &str, folder: &str, texts: &Texts) -> String {
    let parts = table::parts(results);
    let body = html! {
        (head(description, results))
        h2 { "Repeat it" }
        pre { (command) }
        p.faint { "The files of the run are in " code { (folder) } "." }
        @if let Some(loads) = loads::svg(results) {
            h2 { "Rates and latencies" }
            (picture(&loads))
        }
        h2 { "Timeline" }
        (picture(&timeline::svg(results)))
        (events(results))
        h2 { "Tables" }
        @for part in &parts { (of_part(part)) }
        @if let Some(graph) = &texts.graph {
            h2 { "Capability graph" }
            (picture(graph))
        }
        @if let Some(events) = &texts.events { (lines("Steps around the first failure", events)) }
        @if let Some(log) = &texts.log { (lines("Log", log)) }
    };
    page::file(&format!("{}: {}", results.scenario, verdict(results).0), &body)
}

/// The verdict, and the class of its colour.
fn verdict(results: &Results) -> (&'static str, &'static str) {
    match (results.passed, results.failed()) {
        (true, _) => ("PASS", "good"),
        (false, true) => ("FAIL", "bad"),
        (false, false) => ("NOT PROMISED", "bad"),
    }
}

fn head(description: &str, results: &Results) -> Markup {
    let (verdict, class) = verdict(results);
    let world = match results.seed {
        Some(seed) => format!(
            "In the simulator of the {} machine, seed {seed}, {:.3} s of virtual time.",
            results.arch, results.seconds
        ),
        None => format!("On seL4 in QEMU's {} machine, {:.1} s.", results.arch, results.seconds),
    };
    html! {
        h1 { (results.scenario) " " span class=(class) { (verdict) } }
        p { (description.trim()) }
        p.faint { (world) }
        @if !results.not_promised.is_empty() {
            p { "The scenario relies on " (results.not_promised.join(", ")) ", and this kernel lacks it." }
        }
        @if !results.reasons.is_empty() {
            ul { @for reason in &results.reasons { li.bad { (reason) } } }
        }
        @if !results.not_judged.is_empty() {
            p { "Not judged, because the build machine was too slow:" }
            ul { @for row in &results.not_judged { li { (row) } } }
        }
    }
}

/// The events, in the sentences of the live log.
fn events(results: &Results) -> Markup {
    let mut sheet = Sheet::new(["s", "what happened"]);
    for (seconds, words) in live_log::sentences(results) {
        sheet.row([Value::Number(format!("{seconds:.3}")), Value::Word(words)]);
    }
    html! {
        @if !sheet.is_empty() {
            h2 { "Events" }
            p.faint { (results.zero()) }
            (page::table(&sheet))
        }
    }
}

fn of_part(part: &Part) -> Markup {
    match part {
        Part::Table(title, sheet) => {
            let (title, more) = title.split_once('\n').unwrap_or((title, ""));
            html! {
                h3 { (title) }
                @if !more.is_empty() { p.faint { (more) } }
                (page::table(sheet))
            }
        }
        Part::Text(text) | Part::Sentences(text) | Part::Lines(text) => html! { pre { (text.trim_end()) } },
    }
}

/// A text that is shown when the reader asks for it; of a long one, the last lines.
fn lines(title: &str, text: &str) -> Markup {
    let text = plain(text);
    let all = text.lines().count();
    let left_out = all.saturating_sub(MOST_LINES);
    let shown: Vec<_> = text.lines().skip(left_out).collect();
    html! {
        h2 { (title) }
        details {
            summary {
                (all) " lines"
                @if left_out > 0 { ", of which the first " (left_out) " are only in the file" }
            }
            pre { (shown.join("\n")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::timeline::tests::{killed, started};
    use crate::reports::page::tests::{HOSTILE, acts};
    use report::{Attack, Load, Report, Stamped, clip};
    use std::time::Duration;

    fn results(name: &str) -> Results {
        let attack =
            Attack { tenant: clip(name), kind: clip(name), attack: clip(name), refused: false, stopped_by: clip(name) };
        let load = Load {
            tenant: clip(name),
            class: clip(name),
            reads: 9,
            elapsed_ns: 1,
            p50_ns: 7,
            max_ns: 99,
            ..Load::default()
        };
        let mut results = Results { scenario: name.into(), folder: "target/runs/a-1".into(), ..Results::default() };
        for report in [started(name), killed(name), Report::Attack(attack), Report::Load(load)] {
            results.take(Stamped { at_ns: 5, report }, Duration::ZERO);
        }
        results.timeline.begin_ns = Some(0);
        results.reasons.push(name.into());
        results.not_judged.push(name.into());
        results
    }

    #[test]
    fn what_a_guest_wrote_never_becomes_a_part_of_the_page() {
        // Names are clipped: each end of the text is tried.
        for hostile in [HOSTILE, "<img src=x onerror=x>", "</pre><script>"] {
            let texts = Texts { log: Some(HOSTILE.into()), events: Some(HOSTILE.into()), graph: None };
            let page = html(HOSTILE, &results(hostile), HOSTILE, HOSTILE, &texts);
            assert!(!acts(&page), "{page}");
            assert!(!page.contains("</pre><script"));
        }
    }

    #[test]
    fn a_page_has_the_result_the_command_and_all_parts() {
        let texts = Texts { graph: Some("<svg id=\"graph\"/>".into()), log: Some("one\ntwo\n".into()), events: None };
        let page = html("b", &results("alice"), "cargo xtask sim a", "target/runs/a-1", &texts);
        for part in [
            "<title>alice: FAIL</title>",
            "<li class=\"bad\">alice</li>",
            "<pre>cargo xtask sim a</pre>",
            "<h2>Rates and latencies</h2>",
            "<h2>Timeline</h2>",
            "alice is killed, in the middle of what it does",
            "<h3>Tenants</h3>",
            "<svg id=\"graph\"/>",
            "2 lines",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn a_long_log_is_shown_from_its_end() {
        let text: String = (0..MOST_LINES + 2).map(|number| format!("line {number}.\n")).collect();
        let page = lines("Log", &text).into_string();
        assert!(page.contains("first 2 are only") && !page.contains("line 1.") && page.contains("line 2."));
    }
}
