//! Answers of a controller to single commands, and which of those of two controllers may differ.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::fmt;

/// The bit More of a status, as Linux returns it: the model sets it for failures that its error log has, and QEMU keeps no log.
const MORE: u16 = 0x2000;
/// The bit Do Not Retry, which is not compared either: the standard leaves it to the controller (NVMe 1.4, 4.6.1).
const DO_NOT_RETRY: u16 = 0x4000;

/// An answer to one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Status code type and status code, SCT * 100h + SC.
    Status(u16),
    /// Linux did not send the command, for this reason.
    NotSent(String),
}

impl Answer {
    /// The answer in a report: a status, or why there is none.
    pub(super) fn of(said: &str) -> Self {
        let status = said.strip_prefix("status ").and_then(|status| u16::from_str_radix(status, 16).ok());
        status.map_or_else(|| Self::NotSent(said.to_owned()), |status| Self::Status(status & !(MORE | DO_NOT_RETRY)))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status:03x}"),
            Self::NotSent(said) => write!(f, "not sent: {said}"),
        }
    }
}

/// The file of explained differences.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    difference: Vec<Difference>,
}

/// A difference of answers, with its explanation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// Commands, each by words that are all in its label.
    commands: Vec<String>,
    /// The answers: SCT * 100h + SC in hexadecimal.
    model: String,
    qemu: String,
    /// Part of the standard that decides.
    section: String,
    why: String,
}

impl Difference {
    /// The indices of its commands that explain this difference.
    fn explaining(&self, label: &str, model: &Answer, qemu: &Answer) -> Vec<usize> {
        let has = |word: &str| label.split(' ').any(|one| one == word);
        let is_of = |(_, command): &(usize, &String)| command.split(' ').all(&has);
        let is_same = self.model == model.to_string() && self.qemu == qemu.to_string();
        let commands = self.commands.iter().enumerate().filter(|_| is_same);
        commands.filter(is_of).map(|(index, _)| index).collect()
    }
}

/// All explained differences.
pub(super) struct Differences(Vec<Difference>);

impl Differences {
    /// Reads them from the text of `differences.toml`.
    ///
    /// # Errors
    /// Another text.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text).context("differences.toml")?;
        Ok(Self(file.difference))
    }

    /// Compares the answers of model and QEMU to commands with labels; returns a sentence for each difference that nothing
    /// explains, and for each explanation that no command needs.
    pub(super) fn judge(&self, answers: &[(String, Answer, Answer)]) -> Vec<String> {
        let mut used: Vec<_> = self.0.iter().map(|one| vec![false; one.commands.len()]).collect();
        let mut wrong = Vec::new();
        for (label, model, qemu) in answers.iter().filter(|(_, model, qemu)| model != qemu) {
            let mut is_explained = false;
            for (difference, used) in self.0.iter().zip(&mut used) {
                for index in difference.explaining(label, model, qemu) {
                    is_explained = true;
                    used.get_mut(index).into_iter().for_each(|used| *used = true);
                }
            }
            if !is_explained {
                wrong.push(format!(
                    "{label}: the model answers {model}, QEMU's controller {qemu}, and nothing explains it"
                ));
            }
        }
        let commands = self.0.iter().flat_map(|one| one.commands.iter().map(move |command| (one, command)));
        let unused = commands.zip(used.iter().flatten()).filter(|(_, used)| !**used);
        let unused = unused.map(|((Difference { section, why, .. }, command), _)| {
            format!("no command differs as explained for '{command}' ({section}: {why})")
        });
        wrong.extend(unused);
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[difference]]\ncommands = [\"identify cns=05\"]\nmodel = \"002\"\nqemu = \"000\"\n\
                        section = \"5.15.1\"\nwhy = \"It is reserved.\"\n";

    #[test]
    fn an_answer_has_neither_more_nor_do_not_retry() {
        assert_eq!(Answer::of("status 6002"), Answer::Status(2));
        assert_eq!(Answer::of("status 410e"), Answer::Status(0x10e));
        assert_eq!(Answer::of("status 0"), Answer::Status(0));
        assert_eq!(Answer::of("Invalid argument").to_string(), "not sent: Invalid argument");
    }

    #[test]
    fn a_difference_needs_an_explanation_and_an_explanation_a_difference() {
        let differences = Differences::parse(TEXT).unwrap();
        let judged = |label: &str, model, qemu| {
            differences.judge(&[(label.to_owned(), Answer::Status(model), Answer::Status(qemu))])
        };
        assert_eq!(judged("identify cns=05 nsid=1", 2, 0), Vec::<String>::new());
        let unneeded = "no command differs as explained for 'identify cns=05' (5.15.1: It is reserved.)";
        assert_eq!(judged("identify cns=05 nsid=1", 2, 2), [unneeded]);
        let unexplained = "identify cns=06: the model answers 002, QEMU's controller 000, and nothing explains it";
        assert_eq!(judged("identify cns=06", 2, 0), [unexplained, unneeded]);
        assert_eq!(judged("identify cns=05", 0, 2).len(), 2, "the other way round");
    }
}
