//! Progress of a command: a spinner with the time on a terminal, plain lines elsewhere.

use crate::out;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A step that takes less time gets no line of its own where lines stay.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

/// A step under way; it ends when the value is dropped.
pub(crate) struct Step {
    what: String,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Step {
    /// Starts the step `what`, a phrase such as "building the kernel".
    pub(crate) fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} ({elapsed}) {wide_msg:.dim}") {
                bar.set_style(style);
            }
            bar.set_prefix(what.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            out::note(format_args!("{what} ..."));
        }
        Self { what, since: Instant::now(), bar }
    }

    /// Shows the current part of the step.
    pub(crate) fn say(&self, detail: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(detail.to_owned()),
            None => out::note(format_args!("  {detail}")),
        }
    }

    /// Prints a line that stays, unchanged.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => out::note(format_args!("{text}")),
        }
    }

    /// Like [`Step::say`], for details that change too often for lines that stay.
    pub(crate) fn tick(&self, detail: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(detail.to_owned());
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let took = self.since.elapsed();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if took >= WORTH_A_LINE {
            out::note(format_args!("{}: {:.1} s", self.what, took.as_secs_f64()));
        }
    }
}
