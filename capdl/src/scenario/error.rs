//! The refusal of a scenario, as a person reads it.

use super::Setting;
use crate::scenario::refusal::Refusal;
use std::fmt;

/// A scenario that is refused: where, and one sentence with the fix; and the other refusals of the file, a line each.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ScenarioError {
    /// The file, or the name it was given; with the setting to blame, if it is one.
    pub file: String,
    /// The line, from 1, where one is to blame.
    pub line: Option<usize>,
    /// The reason, in one sentence.
    pub message: String,
    /// Refusals of later lines.
    pub others: Vec<Self>,
}

impl ScenarioError {
    /// The refusals in the order of their lines. `setting_of` is the setting to blame for what is in a line.
    pub(super) fn new<'a>(
        file: &str,
        mut refusals: Vec<Refusal>,
        setting_of: impl Fn(Option<usize>) -> Option<&'a Setting>,
    ) -> Self {
        refusals.sort_by_key(|refusal| refusal.line);
        refusals.dedup();
        let mut errors = refusals.into_iter().take(MOST).map(|Refusal { line, message }| {
            let (file, line) = match setting_of(line) {
                Some(setting) => (format!("{file} with --set {}", shown(&setting.to_string())), None),
                None => (file.to_owned(), line),
            };
            Self { file, line, message: shown(&message), others: Vec::new() }
        });
        let first = errors.next();
        let none = || Self { file: file.to_owned(), line: None, message: "is refused".into(), others: Vec::new() };
        Self { others: errors.collect(), ..first.unwrap_or_else(none) }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))?;
        write!(f, ": {}", self.message)?;
        self.others.iter().try_for_each(|other| write!(f, "\n{other}"))
    }
}

/// Most refusals of one file.
pub(super) const MOST: usize = 20;
/// The longest message, in characters; a longer one has its middle left out.
const LONGEST_MESSAGE: usize = 400;

/// A message that quotes the file, with characters that are not printed as escapes: a terminal would act on them.
pub(super) fn shown(message: &str) -> String {
    let escaped = |c: char| if "\"'\\".contains(c) { c.to_string() } else { c.escape_debug().to_string() };
    let message: Vec<char> = message.chars().map(escaped).collect::<String>().chars().collect();
    if message.len() <= LONGEST_MESSAGE {
        return message.into_iter().collect();
    }
    // The front states the error, and the end states the fix.
    let (front, end) = (&message[..LONGEST_MESSAGE / 3], &message[message.len() - LONGEST_MESSAGE / 2..]);
    front.iter().chain(&['…']).chain(end).collect()
}
