//! The book's order, `docs/SUMMARY.md`: every document below `docs/`, and every document that a chapter links to, is a chapter.

use super::links::{links, resolved};
use super::texts::{Texts, line};
use std::collections::BTreeSet;

/// File of the order, in mdBook's form.
pub(in crate::commands) const SUMMARY: &str = "docs/SUMMARY.md";

/// The files of the chapters, in order.
pub(in crate::commands) fn chapters(summary: &str) -> Vec<String> {
    links(summary).into_iter().map(|(link, _)| resolved(SUMMARY, &link)).collect()
}

/// A sentence for each document whose place in the book is wrong or missing.
pub(super) fn wrong_chapters(texts: &Texts) -> Vec<String> {
    let Some(summary) = texts.get(SUMMARY) else { return vec![format!("{SUMMARY} is not there")] };
    let (mut known, mut wrong) = (BTreeSet::new(), Vec::new());
    for chapter in chapters(summary) {
        if !texts.contains_key(&chapter) {
            wrong.push(format!("{SUMMARY} names {chapter}, which is not there"));
        }
        if !known.insert(chapter.clone()) {
            wrong.push(format!("{SUMMARY} names {chapter} twice"));
        }
    }
    let documents = texts.keys().filter(|path| path.starts_with("docs/") && path.ends_with(".md") && *path != SUMMARY);
    wrong.extend(documents.filter(|path| !known.contains(*path)).map(|path| format!("{SUMMARY} lacks {path}")));
    for (path, text) in texts.iter().filter(|(path, _)| known.contains(*path)) {
        for (link, place) in links(text) {
            let target = resolved(path, link.split('#').next().unwrap_or_default());
            if target.ends_with(".md") && !known.contains(&target) {
                let place = line(text, place.start);
                wrong.push(format!("{path}:{place} links to {target}, which is no chapter of {SUMMARY}"));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    fn wrong(summary: &str) -> Vec<String> {
        wrong_chapters(&texts(&[
            (SUMMARY, summary),
            ("docs/guide/a.md", "[outside](../../sim/b.md#there), [here](#here), [code](../../c.rs)"),
            ("sim/b.md", ""),
            ("README.md", ""),
        ]))
    }

    #[test]
    fn every_document_is_a_chapter_and_every_chapter_a_document() {
        assert!(wrong("[a](guide/a.md)\n- [b](../sim/b.md)").is_empty());
        assert_eq!(
            wrong("[b](../sim/b.md) [gone](gone.md)"),
            ["docs/SUMMARY.md names docs/gone.md, which is not there", "docs/SUMMARY.md lacks docs/guide/a.md"]
        );
        assert_eq!(
            wrong("[a](guide/a.md) [b](../sim/b.md) [a](guide/a.md)"),
            ["docs/SUMMARY.md names docs/guide/a.md twice"]
        );
    }

    #[test]
    fn what_a_chapter_links_to_is_in_the_book() {
        assert_eq!(
            wrong("[a](guide/a.md)"),
            ["docs/guide/a.md:1 links to sim/b.md, which is no chapter of docs/SUMMARY.md"]
        );
    }
}
