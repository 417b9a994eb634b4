//! The ids of sources that code, scenarios and documents cite: `SEEDS V13` names a row of `docs/sources.md`.

use super::texts::Texts;
use std::collections::BTreeSet;

/// The document whose tables define the ids.
const SOURCES: &str = "docs/sources.md";

/// A sentence for each id that no row defines.
pub(super) fn unknown_ids(texts: &Texts) -> Vec<String> {
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

/// The ids after each `SEEDS` in a line: `SEEDS V9, V13 to V15`.
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

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

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
}
