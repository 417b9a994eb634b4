//! Refusals of a scenario's file.

/// A refusal: the line to blame, and the sentence.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

/// Result of a check.
pub(super) type Checked = Result<(), Refusal>;

/// Refuses with this line.
pub(super) fn refuse(line: usize, message: String) -> Checked {
    Err(Refusal { line: Some(line), message })
}

/// Refuses with the line of the key that the message begins with, such as `[machine] memory`; without one, the file as a whole.
pub(super) fn refuse_file(message: String) -> Checked {
    Err(Refusal { line: None, message })
}
