//! Progress of a command: a spinner with the time on a terminal, plain lines elsewhere.

use crate::out;
use crate::plain::plain;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A step that takes less time gets no line of its own where lines stay.
const WORTH_A_LINE: Duration = Duration::from_secs(2);
/// The time between two counts where lines stay.
const A_LINE_EACH: Duration = Duration::from_secs(15);

/// A step under way; it ends when the value is dropped.
pub struct Step {
    what: String,
    since: Instant,
    bar: Option<ProgressBar>,
    /// When the last count was shown.
    last_line: Mutex<Instant>,
}

impl Step {
    /// Starts the step `what`, a phrase such as "building the kernel".
    pub fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} ({elapsed}) {wide_msg:.dim}") {
                bar.set_style(style);
            }
            bar.set_prefix(plain(&what).into_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            out::note(format_args!("{what} ..."));
        }
        let now = Instant::now();
        Self { what, since: now, bar, last_line: Mutex::new(now) }
    }

    /// Shows the current part of the step.
    pub fn say(&self, detail: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(plain(detail).into_owned()),
            None => out::note(format_args!("  {detail}")),
        }
    }

    /// Prints a line that stays, unchanged.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(plain(text)),
            None => out::note(format_args!("{text}")),
        }
    }

    /// Shows the number of parts that are done, `of` so many, and the current one. Where lines stay, there is one each
    /// [`A_LINE_EACH`].
    pub fn count(&self, done: u64, of: u64, now: &str) {
        let mut last_line = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bar.is_none() && last_line.elapsed() < A_LINE_EACH {
            return;
        }
        *last_line = Instant::now();
        self.say(&format!("{done} of {of}: {now}"));
    }

    /// Like [`Step::say`], for details that change too often for lines that stay.
    pub fn tick(&self, detail: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(plain(detail).into_owned());
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
            out::note(format_args!("{} took {:.1} s", self.what, took.as_secs_f64()));
        }
    }
}
