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
mod pictures;
mod reference;
mod rules;
mod scenario;
mod shown;
mod summary;

pub(super) use links::{links, resolved};
pub(super) use made::redraw;
pub(super) use summary::{SUMMARY, chapters};

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use xtask::project::Project;

/// Folders without files of the project.
const FOREIGN: [&str; 3] = [".git", "target", "kernel/source"];
/// Extensions of the files that cite and link, of figures and their data, and of schemas.
const ENDINGS: [&str; 6] = ["md", "rs", "toml", "csv", "svg", "json"];

/// Texts by their paths below the project's root.
pub(super) type Texts = BTreeMap<String, String>;

/// Checks links, citations, the order of the book, commands and output that documents show, the table of rules, the tests of
/// the compliance page, names of code, and the openings of doc comments.
///
/// # Errors
/// One sentence for each place that is wrong, or a file that cannot be read.
pub(crate) fn check(project: &Project) -> Result<()> {
    let texts = gathered(project)?;
    let mut wrong = links::wrong_links(&texts, |path| project.path(path).exists());
    wrong.extend(ids::unknown_ids(&texts));
    wrong.extend(summary::wrong_chapters(&texts));
    wrong.extend(shown::unknown_commands(&texts, &crate::command()));
    wrong.extend(rules::wrong_rules(&texts));
    wrong.extend(extract::wrong_lines(&texts));
    wrong.extend(compliance::unknown_tests(&texts));
    wrong.extend(code_names::wrong_names(&texts, |path| project.path(path).exists()));
    wrong.extend(openings::wrong_openings(&texts));
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("; ")) }
}

/// Checks the generated parts of documents.
///
/// # Errors
/// The documents that differ from their sources, or a source that cannot be read.
pub(crate) fn check_made(project: &Project) -> Result<()> {
    let stale: Vec<_> = made::stale(project)?.into_keys().collect();
    match stale.as_slice() {
        [] => Ok(()),
        stale => bail!(
            "{} {} not what the sources say: run cargo xtask docs --redraw, and look at the difference",
            stale.join(", "),
            if stale.len() == 1 { "is" } else { "are" }
        ),
    }
}

/// All texts of the project.
///
/// # Errors
/// A folder or a file that cannot be read.
pub(super) fn gathered(project: &Project) -> Result<Texts> {
    let mut texts = Texts::new();
    gather(project.root(), Path::new(""), &mut texts)?;
    Ok(texts)
}

fn gather(root: &Path, folder: &Path, texts: &mut Texts) -> Result<()> {
    let unreadable = || format!("cannot read {}", root.join(folder).display());
    for entry in fs::read_dir(root.join(folder)).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type().with_context(unreadable)?;
        if kind.is_dir() && !FOREIGN.iter().any(|foreign| path == Path::new(foreign)) {
            gather(root, &path, texts)?;
        } else if kind.is_file() && path.extension().is_some_and(|ending| ENDINGS.iter().any(|ours| ending == *ours)) {
            let text =
                fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
            texts.insert(path.display().to_string(), text);
        }
    }
    Ok(())
}

fn line(text: &str, place: usize) -> usize {
    text.bytes().take(place).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
fn texts(texts: &[(&str, &str)]) -> Texts {
    texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_are_right() {
        check(&Project::here().unwrap()).unwrap();
    }

    #[test]
    fn the_documents_are_what_their_sources_say() {
        check_made(&Project::here().unwrap()).unwrap();
    }
}
