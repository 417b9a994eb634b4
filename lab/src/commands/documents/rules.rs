//! The rules of the authority checker: each has a row in the table of the structure's page, and each row names a rule.

use super::texts::Texts;
use std::collections::BTreeSet;

const CODE: &str = "capdl/check/src/lib.rs";
const DOCUMENT: &str = "docs/structure.md";

/// A sentence for each rule that the checker or the table lacks.
pub(super) fn wrong_rules(texts: &Texts) -> Vec<String> {
    let lines = |path: &str, begin: &'static str, end: &'static str| {
        let lines = texts.get(path).map(String::as_str).unwrap_or_default().lines();
        lines.skip_while(move |line| *line != begin).skip(1).take_while(move |line| *line != end)
    };
    let of_code = lines(CODE, "pub enum Rule {", "}").filter_map(|line| line.strip_prefix("    ")?.strip_suffix(','));
    let rules: BTreeSet<_> = of_code.filter(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic())).collect();
    let rows =
        lines(DOCUMENT, "| rule | what it says |", "").filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: BTreeSet<_> = rows.collect();
    let lacks = |path: &'static str| move |rule: &&str| format!("{path} lacks the rule {rule}");
    rules.difference(&rows).map(lacks(DOCUMENT)).chain(rows.difference(&rules).map(lacks(CODE))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    #[test]
    fn code_and_document_have_the_same_rules() {
        let code = "pub enum Rule {\n    /// One,\n    One,\n    Two,\n}\n    Three,\n";
        let document =
            "| `Zero` |\n\n| rule | what it says |\n|---|---|\n| `One` | one |\n| `Four` | four |\n\n| `Five` |\n";
        assert_eq!(
            wrong_rules(&texts(&[(CODE, code), (DOCUMENT, document)])),
            ["docs/structure.md lacks the rule Two", "capdl/check/src/lib.rs lacks the rule Four"]
        );
    }
}
