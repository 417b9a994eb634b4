//! First lines of doc comments: each must have a subject of its own, because an index, a completion or a hint shows it alone.
//!
//! Checks the comments of modules and of items that other files see: those with `pub` in any form, the variants of such an
//! enum with their fields, and the methods of such a trait. Indentation says what is inside of what, as rustfmt sets it.

use super::texts::Texts;

/// Openings without a subject. Each refers to a word of an earlier line: a pronoun, or the likeness to another item.
const REFUSED: [&str; 22] = [
    "Its",
    "It",
    "One",
    "Ones",
    "Those",
    "They",
    "Their",
    "Them",
    "Likewise",
    "That of",
    "The same",
    "All of it",
    "All of them",
    "All of one",
    "Another one",
    "Neither of",
    "Whether it",
    "Whether its",
    "Whether one",
    "Whether that",
    "Whether they",
    "Whether their",
];

/// A sentence for each visible doc comment that opens without a subject.
pub(super) fn wrong_openings(texts: &Texts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
        for (number, first) in visible(text) {
            if let Some(opening) = REFUSED.into_iter().find(|opening| opens(first, opening)) {
                wrong.push(format!("{path}:{number} opens a doc comment with '{opening}', which has no subject"));
            }
        }
    }
    wrong
}

/// Whether the line begins with these whole words.
fn opens(line: &str, words: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|next: char| next.is_alphanumeric() || "-_'".contains(next));
    line.strip_prefix(words).is_some_and(|rest| !goes_on(rest))
}

/// The first lines of doc comments that other files see, with their numbers.
fn visible(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    // Blocks around the line: their indentation, and whether everything inside is visible.
    let mut blocks: Vec<(usize, bool)> = Vec::new();
    let (mut comment, mut is_in_head, mut is_in_attribute) = (None, false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start();
        let indentation = line.len() - code.len();
        if let Some(head) = code.strip_prefix("//!") {
            found.extend((!is_in_head).then_some((number, head.trim_start())));
            is_in_head = true;
            continue;
        }
        is_in_head = false;
        if is_in_attribute || code.starts_with("#[") {
            is_in_attribute = !code.ends_with(']');
        } else if let Some(first) = code.strip_prefix("///") {
            comment = comment.or(Some((number, first.trim_start())));
        } else if code.is_empty() {
            comment = None;
        } else if !code.starts_with("//") {
            while blocks.last().is_some_and(|(outer, _)| *outer >= indentation) {
                blocks.pop();
            }
            let is_inside = blocks.last().is_some_and(|(_, is_visible)| *is_visible);
            let is_public = code.starts_with("pub ") || code.starts_with("pub(");
            found.extend(comment.take().filter(|_| is_inside || is_public));
            if code.ends_with(['{', '(']) {
                let is_whole = is_public && code.split([' ', '<']).any(|word| word == "enum" || word == "trait");
                let is_variant = is_inside && code.starts_with(|first: char| first.is_ascii_uppercase());
                blocks.push((indentation, is_whole || is_variant));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    #[test]
    fn an_opening_without_a_subject_is_named_with_its_place() {
        let code = "//! One file.\n//! It is short.\n\n/// Its name.\n#[must_use]\npub(super) fn name() {}\n\n\
                    /// Whether it is open.\nconst HIDDEN: bool = true;\n\n/// Oneself. Items.\npub struct S {\n    \
                    /// Whether it is open.\n    pub open: bool,\n    /// It is hidden.\n    hidden: bool,\n}\n";
        let wrong = wrong_openings(&texts(&[("a.rs", code), ("a.md", "//! It.")]));
        let one =
            |line: usize, words: &str| format!("a.rs:{line} opens a doc comment with '{words}', which has no subject");
        assert_eq!(wrong, [one(1, "One"), one(4, "Its"), one(13, "Whether it")]);
    }

    #[test]
    fn variants_of_enums_and_methods_of_traits_are_seen_from_outside() {
        let code = "pub enum E {\n    /// It ended.\n    Ended {\n        /// Its number.\n        number: u8,\n    },\n}\n\
                    impl E {\n    /// It is.\n    fn is(&self) {}\n}\npub trait T<A> {\n    /// They end.\n    #[expect(\n        dead_code,\n        reason = \"It.\"\n    )]\n    fn end(\n        \
                    &self,\n    );\n}\nenum F {\n    /// It ended.\n    Ended,\n}\n";
        let lines: Vec<_> = visible(code).into_iter().map(|(number, _)| number).collect();
        assert_eq!(lines, [2, 4, 13]);
    }
}
