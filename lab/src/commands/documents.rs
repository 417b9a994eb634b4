//! The documents: checks of their form, and their generated parts.
//!
//! [`check`] looks for defects that only a person can fix: links, citations, the order of the book, commands, rules, names of
//! code, openings of doc comments. [`made`] generates the parts that have a source, such as figures, tables and numbers: a check
//! compares them, and `cargo xtask docs --redraw` writes them. Left out: whether a document's statements are true.

mod attacks;
mod benchmarks;
mod code_names;
mod compliance;
mod counts;
mod extract;
mod ids;
mod licences;
mod links;
mod made;
mod openings;
mod options;
mod parts;
mod pictures;
mod reference;
mod rules;
mod scenario;
mod shown;
mod subcommands;
mod summary;
mod texts;

pub(super) use links::{links, resolved};
pub(super) use made::redraw;
pub(super) use summary::{SUMMARY, chapters};
pub(super) use texts::{Texts, gathered};

use anyhow::{Result, bail};
use clap::Command;
use xtask::project::Project;

/// Checks links, citations, the order of the book, commands and output that documents show, the table of rules, the tests of
/// the compliance page, names of code, and the openings of doc comments.
///
/// # Errors
/// A sentence for each place that is wrong, or an error for a file that cannot be read.
pub(crate) fn check(project: &Project, program: &Command) -> Result<()> {
    let texts = gathered(project)?;
    let mut wrong = links::wrong_links(&texts, |path| project.path(path).exists());
    wrong.extend(ids::unknown_ids(&texts));
    wrong.extend(summary::wrong_chapters(&texts));
    wrong.extend(shown::unknown_commands(&texts, program));
    wrong.extend(rules::wrong_rules(&texts));
    wrong.extend(extract::wrong_lines(&texts));
    wrong.extend(compliance::unknown_tests(&texts));
    wrong.extend(code_names::wrong_names(&texts, |path| project.path(path).exists()));
    wrong.extend(openings::wrong_openings(&texts));
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("; ")) }
}

/// Checks the generated parts of documents. `program` has the commands and their options.
///
/// # Errors
/// The documents that differ from their sources, or a source that cannot be read.
pub(crate) fn check_made(project: &Project, program: &Command) -> Result<()> {
    let stale: Vec<_> = made::stale(project, program)?.into_keys().collect();
    match stale.as_slice() {
        [] => Ok(()),
        stale => bail!(
            "{} {} not what the sources say: run cargo xtask docs --redraw, and look at the difference",
            stale.join(", "),
            if stale.len() == 1 { "is" } else { "are" }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_are_right() {
        check(&Project::here().unwrap(), &crate::program()).unwrap();
    }

    #[test]
    fn the_documents_are_what_their_sources_say() {
        check_made(&Project::here().unwrap(), &crate::program()).unwrap();
    }
}
