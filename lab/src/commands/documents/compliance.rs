//! The tests that the page about public compliance suites names: each must exist.

use super::texts::Texts;

const DOCUMENT: &str = "docs/compliance.md";
/// Folder of the tests whose names have no file.
const HOME: &str = "sim/tests/controller/";

/// A sentence for each test in a table of the page that does not exist.
pub(super) fn unknown_tests(texts: &Texts) -> Vec<String> {
    let rows = texts.get(DOCUMENT).map(String::as_str).unwrap_or_default().lines();
    let rows = (1..).zip(rows).filter(|(_, line)| line.starts_with("| "));
    let tests = rows.flat_map(|(number, row)| {
        let code = row.split('`').skip(1).step_by(2);
        code.filter_map(move |code| code.rsplit_once("::").map(|(place, name)| (number, place, name)))
    });
    let unknown = tests.filter(|(_, place, name)| !texts.get(&file(place)).is_some_and(|text| has_test(text, name)));
    unknown
        .map(|(number, place, name)| format!("{DOCUMENT}:{number} names the test {place}::{name}, which is not there"))
        .collect()
}

/// File of a test: named itself, or by the test's module.
fn file(place: &str) -> String {
    if place.contains('/') { place.to_owned() } else { format!("{HOME}{}.rs", place.replace("::", "/")) }
}

fn has_test(text: &str, name: &str) -> bool {
    let begin = format!("fn {name}(");
    let mut is_test = false;
    text.lines().map(str::trim_start).any(|line| {
        let is_found = is_test && line.starts_with(&begin);
        // Other attributes may stand between.
        is_test = line == "#[test]" || is_test && line.starts_with("#[");
        is_found
    })
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    #[test]
    fn each_test_in_a_table_is_a_function_that_is_a_test() {
        let page = "`queues::NAME` in a sentence\n| case | result |\n|---|---|\n| A | `queues::full`, `admin::logs::whole` |\n\
                    | B | does not apply: `queues::helper`, `sim/tests/pci/bars.rs::sized`, `gone.rs::gone` |\n";
        let found = unknown_tests(&texts(&[
            (DOCUMENT, page),
            ("sim/tests/controller/queues.rs", "#[test]\n#[ignore]\nfn full() {\n}\n\nfn helper() {}\n"),
            ("sim/tests/controller/admin/logs.rs", "proptest! {\n    #[test]\n    fn whole(x in any::<u8>()) {}\n}"),
            ("sim/tests/pci/bars.rs", "#[test]\nfn sized_too() {}"),
        ]));
        let missing = |line: usize, test: &str| format!("{DOCUMENT}:{line} names the test {test}, which is not there");
        assert_eq!(
            found,
            [missing(5, "queues::helper"), missing(5, "sim/tests/pci/bars.rs::sized"), missing(5, "gone.rs::gone")]
        );
    }
}
