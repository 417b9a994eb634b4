//! Links into the repository: each must lead to a file that exists, and to a heading in it if the link names one.
//!
//! Left out: addresses outside of the repository.

use super::texts::{Texts, line};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// A sentence for each link without a target.
pub(super) fn wrong_links(texts: &Texts, exists: impl Fn(&str) -> bool) -> Vec<String> {
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

pub(super) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Targets of a document's links in the repository, pictures included.
pub(crate) fn links(text: &str) -> Vec<(String, Range<usize>)> {
    let link = |(event, place)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some((dest_url.into_string(), place)),
        _ => None,
    };
    let is_ours = |(link, _): &(String, Range<usize>)| !link.contains("://") && !link.starts_with("mailto:");
    parser(text).into_offset_iter().filter_map(link).filter(is_ours).collect()
}

/// Anchors of a document: its headings in lower case, with `-` for spaces and without other punctuation.
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

/// Anchor of a heading.
pub(super) fn anchor(heading: &str) -> String {
    let kept = |sign: char| match sign {
        ' ' => Some('-'),
        sign => (sign.is_alphanumeric() || "-_".contains(sign)).then_some(sign),
    };
    heading.to_lowercase().chars().filter_map(kept).collect()
}

/// Path of the target of `link`, a link in the file `from`.
pub(crate) fn resolved(from: &str, link: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

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
}
