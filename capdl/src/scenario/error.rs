//! The refusal of a scenario, as a person reads it.

/// A scenario that is refused: where, and one sentence with the fix.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}{}: {message}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct ScenarioError {
    /// The file, or the name it was given.
    pub file: String,
    /// The line, from 1, where one is to blame.
    pub line: Option<usize>,
    /// One sentence.
    pub message: String,
}

/// The longest message, in characters; a longer one has its middle left out.
const LONGEST_MESSAGE: usize = 400;

/// A message that quotes the file, with control characters as escapes: a terminal would act on them.
pub(super) fn shown(message: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let message: Vec<char> = message.chars().map(escaped).collect::<String>().chars().collect();
    if message.len() <= LONGEST_MESSAGE {
        return message.into_iter().collect();
    }
    // The front states the error, and the end states the fix.
    let (front, end) = (&message[..LONGEST_MESSAGE / 3], &message[message.len() - LONGEST_MESSAGE / 2..]);
    front.iter().chain(&['…']).chain(end).collect()
}
