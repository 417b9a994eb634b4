//! Links of the documents, and the ids of sources that code, scenarios and documents cite.
//!
//! A link into the repository leads to a file that is there, and to a heading of it where it names one. `SEEDS V13` names a row
//! of `docs/sources.md`. Left out: addresses outside of the repository.

use crate::project::Project;
use anyhow::{Context, Result, bail};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// The document whose tables define the ids.
const SOURCES: &str = "docs/sources.md";
/// Folders of which nothing is ours.
const FOREIGN: [&str; 3] = [".git", "target", "kernel/source"];
/// Endings of the files that cite and link.
const ENDINGS: [&str; 3] = ["md", "rs", "toml"];

/// Texts by their places below the project's root.
type Texts = BTreeMap<String, String>;

/// Checks all; what is wrong is one sentence for each place.
///
/// # Errors
/// The sentences, or a file that cannot be read.
pub(crate) fn check(project: &Project) -> Result<()> {
    let mut texts = Texts::new();
    gather(project.root(), Path::new(""), &mut texts)?;
    let mut wrong = wrong_links(&texts, |path| project.path(path).exists());
    wrong.extend(unknown_ids(&texts));
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("; ")) }
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

fn wrong_links(texts: &Texts, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let documents = || texts.iter().filter(|(path, _)| path.ends_with(".md"));
    let headings: BTreeMap<_, _> = documents().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for (link, place) in links(text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { resolved(path, file) };
            let place = format!("{path}:{}", line(text, place.start));
            if !exists(&target) {
                wrong.push(format!("{place} links to '{link}', which is not there"));
            } else if !anchor.is_empty() && headings.get(target.as_str()).is_some_and(|known| !known.contains(anchor)) {
                wrong.push(format!("{place} links to '{link}', and {target} has no such heading"));
            }
        }
    }
    wrong
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Where a document links to in the repository, pictures included.
fn links(text: &str) -> Vec<(String, Range<usize>)> {
    let link = |(event, place)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some((dest_url.into_string(), place)),
        _ => None,
    };
    let is_ours = |(link, _): &(String, Range<usize>)| !link.contains("://") && !link.starts_with("mailto:");
    parser(text).into_offset_iter().filter_map(link).filter(is_ours).collect()
}

/// What a link can name in a document: its headings in lower case, with `-` for spaces and without other signs.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut heading) = (BTreeSet::new(), None::<String>);
    for event in parser(text) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(part) | Event::Code(part), Some(heading)) => heading.push_str(&part),
            (Event::End(TagEnd::Heading(_)), _) => anchors.extend(heading.take().map(|heading| anchor(&heading))),
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = |sign: char| match sign {
        ' ' => Some('-'),
        sign => (sign.is_alphanumeric() || "-_".contains(sign)).then_some(sign),
    };
    heading.to_lowercase().chars().filter_map(kept).collect()
}

/// The place of `link`, which stands in the file `from`.
fn resolved(from: &str, link: &str) -> String {
    let mut place: Vec<_> = Path::new(from).parent().into_iter().flat_map(Path::components).collect();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => _ = place.pop(),
            Component::CurDir => {}
            part => place.push(part),
        }
    }
    place.iter().collect::<PathBuf>().display().to_string()
}

fn unknown_ids(texts: &Texts) -> Vec<String> {
    let known: BTreeSet<_> =
        texts.get(SOURCES).map(String::as_str).unwrap_or_default().lines().filter_map(defined).collect();
    let mut wrong = Vec::new();
    for (path, text) in texts {
        for (number, line) in (1..).zip(text.lines()) {
            for id in cited(line).into_iter().filter(|id| !known.contains(id)) {
                wrong.push(format!("{path}:{number} cites {id}, which {SOURCES} has not"));
            }
        }
    }
    wrong
}

/// The id that a row of a table defines.
fn defined(line: &str) -> Option<&str> {
    line.strip_prefix("| ")?.split(" |").next().filter(|id| is_id(id))
}

/// The ids after each `SEEDS` of a line: `SEEDS V9, V13 to V15`.
fn cited(line: &str) -> Vec<&str> {
    let list = |citation| str::split(citation, |sign: char| !sign.is_alphanumeric() && !" ,".contains(sign)).next();
    let ids = |list| {
        str::split(list, [' ', ',']).filter(|word| !["", "and", "to"].contains(word)).take_while(|word| is_id(word))
    };
    line.split("SEEDS ").skip(1).filter_map(list).flat_map(ids).collect()
}

fn is_id(word: &str) -> bool {
    let Some(number) = word.strip_prefix(|document: char| document.is_ascii_uppercase()) else { return false };
    !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

fn line(text: &str, place: usize) -> usize {
    text.bytes().take(place).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[(&str, &str)]) -> Texts {
        texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    fn wrong(documents: &[(&str, &str)]) -> Vec<String> {
        let texts = texts(documents);
        wrong_links(&texts, |path| texts.contains_key(path))
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_wrong() {
        let found =
            wrong(&[("docs/a.md", "text\n[b](guide/b.md), ![c](../c.svg)"), ("docs/guide/b.md", "[a](../a.md)")]);
        assert_eq!(found, ["docs/a.md:2 links to '../c.svg', which is not there"]);
    }

    #[test]
    fn a_link_to_a_heading_names_one_of_its_document() {
        let a = "# Which kernel, and `why`\n[here](#which-kernel-and-why) [there](b.md#there) [no](b.md#here)";
        let found = wrong(&[("a.md", a), ("b.md", "## There")]);
        assert_eq!(found, ["a.md:2 links to 'b.md#here', and b.md has no such heading"]);
    }

    #[test]
    fn links_in_code_and_to_other_sites_are_not_checked() {
        assert!(wrong(&[("a.md", "`[x](y)` [z](https://z.example/#a)\n\n```\n[x](y)\n```\n")]).is_empty());
    }

    #[test]
    fn a_citation_names_rows_of_the_sources() {
        let sources = (SOURCES, "| id | subject |\n|---|---|\n| V9 | x |\n| V13 | y |\n");
        let found = unknown_ids(&texts(&[
            sources,
            ("a.rs", "// after (SEEDS V9, V13 to V15), O1\n"),
            ("b.toml", "# SEEDS O1."),
        ]));
        assert_eq!(
            found,
            ["a.rs:1 cites V15, which docs/sources.md has not", "b.toml:1 cites O1, which docs/sources.md has not"]
        );
    }

    #[test]
    fn the_documents_are_right() {
        check(&Project::here().unwrap()).unwrap();
    }
}
