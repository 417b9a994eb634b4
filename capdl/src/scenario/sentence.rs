//! The TOML reader's errors as sentences: the line, the key, the value, and the fix.
//!
//! The reader states an error as text. This module knows its words for a key or value that is not possible; others stay as they are.

use super::nearest;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most parts of a key of a setting. The reader takes a few more.
pub(super) const MOST_PARTS: usize = 64;

/// The line of an error, and its sentence.
pub(super) fn sentence(text: &str, place: Option<Range<usize>>, message: &str) -> (Option<usize>, String) {
    let message = message.replace('\n', ", ");
    let Some(offset) = place.map(|place| place.start) else { return too_deep(text, message) };
    let sentence = unknown(&message)
        .or_else(|| impossible(text, offset, &message))
        .or_else(|| choice(text, offset, &message))
        .unwrap_or_else(|| about_key(text, offset, &message));
    (Some(line_of(text, offset)), sentence)
}

/// A key of too many parts, the only error without a place.
fn too_deep(text: &str, message: String) -> (Option<usize>, String) {
    let is_deep = |line: &str| message == "recursion limit" && line.matches('.').count() > MOST_PARTS;
    match text.lines().position(is_deep) {
        Some(index) => (Some(index.saturating_add(1)), format!("a key has more than {MOST_PARTS} parts: write fewer")),
        None => (None, message),
    }
}

/// The line of a list that stands where a table is possible, and its sentence.
pub(super) fn list_for_table(text: &str, offset: usize) -> (usize, String) {
    if let Some(sentence) = several(header(text, offset)) {
        return (line_of(text, offset), sentence);
    }
    let is_element = text.get(..offset).is_some_and(|before| before.trim_end().ends_with(['[', ',']));
    let subject = match key_of(text, offset).filter(|_| !is_element) {
        Some(key) => format!("`{key}`"),
        None => "a value".into(),
    };
    (line_of(text, offset), format!("{subject} is a list: write a table"))
}

/// The text of a file; or the line that is none, and the sentence.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, (usize, String)> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        let line = valid.iter().filter(|byte| **byte == b'\n').count().saturating_add(1);
        let byte = rest.first().copied().unwrap_or_default();
        (line, format!("the byte {byte:#x} is not UTF-8, in which TOML is written: save the file in UTF-8"))
    })
}

/// The line, from 1, of the byte at `offset`.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count().saturating_add(1)
}

/// The line of the key that a sentence begins with, such as `[machine] memory`; that of its table where the key is not written.
pub(super) fn line_of_key(text: &str, document: &Spanned<DeTable<'_>>, sentence: &str) -> Option<usize> {
    let (table, rest) = sentence.trim_start_matches('[').split_once(']').filter(|_| sentence.starts_with('['))?;
    let mut keys = table.split('.').chain(rest.split(' ').nth(1));
    let (mut within, mut found) = (document.get_ref(), None);
    while let Some((key, value)) = keys.next().and_then(|key| within.get_key_value(key)) {
        found = Some(line_of(text, key.span().start));
        let DeValue::Table(inner) = value.get_ref() else { break };
        within = inner;
    }
    found
}

/// A key or a value that is not known: the one that it was to be, or all.
fn unknown(message: &str) -> Option<String> {
    if let Some(key) =
        message.strip_prefix("unknown field `").and_then(|rest| rest.strip_suffix("`, there are no fields"))
    {
        return Some(format!("unknown key `{key}`: leave it out, the table has no keys"));
    }
    let (subject, known) = message.split_once(", expected ").or_else(|| message.split_once(", available keys: "))?;
    let word = match subject.strip_prefix("unexpected keys in table: ") {
        Some(word) => word,
        None => subject.strip_prefix("unknown ")?.split('`').nth(1)?,
    };
    let known = known.split([' ', ',', '`']).filter(|known| !known.is_empty() && !["one", "of", "or"].contains(known));
    let known: Vec<_> = known.collect();
    let what = if subject.contains("variant") { "value" } else { "key" };
    Some(match nearest(word, known.iter().copied()) {
        Some(near) => format!("unknown {what} `{word}`: did you mean `{near}`?"),
        None => format!("unknown {what} `{word}`: write one of {}", known.join(", ")),
    })
}

/// A value of another type than the key's, or out of its range.
fn impossible(text: &str, offset: usize, message: &str) -> Option<String> {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.split_once(", expected ")?;
    let header = header(text, offset);
    if found == "map" && expected == "a sequence" && header.starts_with('[') && !header.starts_with("[[") {
        return Some(format!("`{header}` is one table where several are possible: write `[{header}]`"));
    }
    if let Some(sentence) = several(header).filter(|_| found == "map" && expected != "a sequence") {
        return Some(sentence);
    }
    let expected = match expected {
        number if most_of(number).is_some() => {
            format!("a whole number from 0 to {}", most_of(number).unwrap_or_default())
        }
        "a boolean" => "true or false".into(),
        "a string" => "text in quotes".into(),
        "a sequence" => "a list in brackets".into(),
        "a map" => "a table".into(),
        table if table.starts_with("struct ") => "a table".into(),
        other => other.into(),
    };
    let found = match found {
        "map" => "a table",
        "sequence" => "a list",
        value => written(value),
    };
    let key = key_of(text, offset).or_else(|| table_at(header).filter(|_| found == "a table"));
    let subject = key.map_or_else(|| "a value".into(), |key| format!("`{key}`"));
    Some(format!("{subject} is {found}: write {expected}"))
}

/// A value as it is written, of the reader's words for it.
pub(super) fn written(found: &str) -> &str {
    found.split('`').nth(1).filter(|_| !found.starts_with("string ")).unwrap_or(found.trim_start_matches("string "))
}

/// The key of the table whose header, or whose key before others, begins the line.
fn table_at(line: &str) -> Option<&str> {
    let key = match line.strip_prefix('[') {
        Some(header) => header.split(']').next()?.rsplit('.').next()?,
        None => line.split_once('.')?.0,
    };
    let key = key.trim();
    key.starts_with(|c: char| c.is_alphabetic()).then_some(key)
}

/// The rest of the line at `offset`.
fn header(text: &str, offset: usize) -> &str {
    text.get(offset..).and_then(|rest| rest.lines().next()).unwrap_or_default().trim()
}

/// The refusal of a header with two brackets.
fn several(header: &str) -> Option<String> {
    let single = header.strip_prefix("[[")?.trim_end_matches(']');
    Some(format!("`{header}` is one of several tables where one is possible: write `[{single}]`"))
}

/// The largest number of a type.
pub(super) fn most_of(integer: &str) -> Option<&'static str> {
    Some(match integer {
        "u8" => "255",
        "u16" => "65535",
        "u32" => "4294967295",
        "u64" | "usize" => "18446744073709551615",
        _ => return None,
    })
}

/// A key that is there twice or missing, or a choice that is no name and no table with one key.
fn choice(text: &str, offset: usize, message: &str) -> Option<String> {
    let subject = || key_of(text, offset).map_or_else(|| "a table".into(), |key| format!("`{key}`"));
    match message {
        "duplicate key" => {
            let key =
                text.get(offset..)?.split(|c: char| c.is_whitespace() || "=]}".contains(c)).next().unwrap_or_default();
            Some(format!("the key `{key}` is there twice: leave one of them out"))
        }
        "wanted exactly 1 element, found 0 elements" => Some(format!("{} is empty: write one key in it", subject())),
        "wanted exactly 1 element, more than 1 element" => {
            Some(format!("{} has several keys where one is possible: leave the others out", subject()))
        }
        "wanted string or table" => Some(format!("{} is no name: write one in quotes", subject())),
        _ => Some(format!("the key {} is missing: add it", message.strip_prefix("missing field ")?)),
    }
}

/// The message about the value at `offset`, with the name of its key in front if it has one on its line.
fn about_key(text: &str, offset: usize, message: &str) -> String {
    key_of(text, offset).map_or_else(|| message.into(), |key| format!("`{key}`: {message}"))
}

/// The key, on the same line, of the value at `offset`, or of the list of numbers that has it.
pub(super) fn key_of(text: &str, offset: usize) -> Option<&str> {
    let line = text.get(..offset)?.rsplit('\n').next()?;
    let before_list =
        line.rsplit_once('[').filter(|(_, list)| list.chars().all(|c| c.is_ascii_digit() || ", ".contains(c)));
    let before_value = before_list.map_or(line, |(before, _)| before);
    let before_equals = before_value.trim_end().strip_suffix('=')?.trim_end();
    let is_key = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let key = before_equals.get(before_equals.trim_end_matches(is_key).len()..)?;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    const SYSTEM: &str = "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\n\
        [[controller.namespace]]\nsize = \"1M\"\n[[tenant]]\nname = \"alice\"\nqueue_pairs = 1\n\
        extents = [{ first = 0, blocks = 64 }]\nprogram.name = \"bench\"\n[tenant.program.config]\n";

    fn refusal(text: &str) -> String {
        Scenario::parse(text, "file").unwrap_err().to_string()
    }

    #[test]
    fn key_or_value_that_is_misspelt_is_named_with_the_one_that_it_was_to_be() {
        for (old, new, expected) in [
            ("queue_pairs", "queue_pair", "file:9: unknown key `queue_pair`: did you mean `queue_pairs`?"),
            ("size =", "szie =", "file:6: unknown key `szie`: did you mean `size`?"),
            ("[[tenant]]", "[[chnage]]\n[[tenant]]", "file:7: unknown key `chnage`: did you mean `change`?"),
            (
                "[[controller]]",
                "[machine]\nthread_order = \"drwan\"\n[[controller]]",
                "file:4: unknown value `drwan`: did you mean `drawn`?",
            ),
            ("[[controller]]", "[console]\ncolour = 1\n[[controller]]", "file:4: unknown key `colour`: write one of "),
        ] {
            let refusal = refusal(&SYSTEM.replacen(old, new, 1));
            assert!(refusal.starts_with(expected), "{refusal}");
        }
    }

    #[test]
    fn wrong_key_of_a_program_has_its_own_line() {
        let config = |keys: &str| refusal(&format!("{SYSTEM}operations = 4\n{keys}"));
        let place = "file:14: in the configuration of bench, ";
        assert_eq!(config("dpeth = 3"), format!("{place}unknown key `dpeth`: did you mean `depth`?"));
        assert_eq!(
            config("seed = -3"),
            format!("{place}`seed` is -3: write a whole number from 0 to 18446744073709551615")
        );
        assert_eq!(config("verify = \"no\""), format!("{place}`verify` is \"no\": write true or false"));
    }

    #[test]
    fn value_of_another_type_or_size_is_refused_with_what_is_possible() {
        for (key, expected) in [
            ("seed = -1", "`seed` is -1: write a whole number from 0 to 18446744073709551615"),
            ("seed = 99999999999999999999", "`seed` is 99999999999999999999: write a whole number from 0"),
            ("seed = nan", "`seed` is NaN: write a whole number from 0"),
            ("seed = \"7\"", "`seed` is \"7\": write a whole number from 0"),
            ("seed = [7]", "`seed` is a list: write a whole number from 0"),
            ("fault = [{ controller = { at_ns = 1, effect = 7 } }]", "`effect` is no name: write one in quotes"),
            ("machine = 7", "`machine` is 7: write a table"),
            ("change = 7", "`change` is 7: write a list in brackets"),
            (
                "fault = [{ command = { effect = \"drop-completion\", opcodes = [1, 300] } }]",
                "`opcodes` is 300: write a whole number from 0 to 255",
            ),
            (
                "fault = [{ command = { effect = { status = { sct = 300, sc = 1 } } } }]",
                "`sct` is 300: write a whole number from 0 to 255",
            ),
            ("fault = [{ command = { effect = {} } }]", "`effect` is empty: write one key in it"),
            (
                "fault = [{ command = { effect = { delay = { ns = 1 }, wrong-cid = {} } } }]",
                "`effect` has several keys where one is possible",
            ),
            (
                "fault = [{ command = { effect = { delay = { ns = 1, until = 2 } } } }]",
                "unknown key `until`: write one of ns",
            ),
            ("fault = [{}]", "`fault`: a fault is empty: write `command`, `controller` or `component`"),
            (
                "fault = [{ command = { effect = \"wrong-cid\" }, controller = { at_ns = 1, effect = \"removal\" } }]",
                "`fault`: a fault has several of `command`, `controller` and `component`: write a [[fault]] for each",
            ),
            ("fault = [{ comand = {} }]", "unknown key `comand`: did you mean `command`?"),
            ("machine.memory.x = 1", "`memory` is a table: write a number of bytes"),
            ("server.priority = { x = 1 }", "`server.priority` is a table: write a whole number from 0 to 255"),
            (
                "machine = { memory = 1979-05-27 }",
                "`memory` is a date or a time, which no key takes: write a number, true",
            ),
            (
                "fault = [{ controller = { at_ns = 1, effect = { all-ones = 1979-05-27 } } }]",
                "`all-ones` is a date or a time, which no key takes",
            ),
            ("edu = { x = 1 }", "unknown key `x`: leave it out, the table has no keys"),
            ("seed = 1\nseed = 2", "the key `seed` is there twice: leave one of them out"),
        ] {
            let refusal = refusal(&format!("{key}\n{SYSTEM}"));
            let line = key.lines().count();
            assert!(refusal.starts_with(&format!("file:{line}: {expected}")), "{refusal}");
        }
    }

    #[test]
    fn key_of_too_many_parts_has_its_line() {
        let text = format!("{SYSTEM}{}x = 1", "x.".repeat(99));
        assert_eq!(refusal(&text), "file:13: a key has more than 64 parts: write fewer");
    }

    #[test]
    fn list_of_another_length_is_refused() {
        for (delays, expected) in [
            ("[1, 2]", "file:5: `retry_delays`: there are 2 delays: write three, 0 for none"),
            ("[1, 2, 3, 4]", "file:5: `retry_delays`: there are 4 delays: write three, 0 for none"),
            (
                "[1, 2, 3, \"x\"]",
                "file:5: `retry_delays` is \"x\": write a whole number from 0 to 65535\n\
                 file:5: `retry_delays`: there are 4 delays: write three, 0 for none",
            ),
            ("{ a = 1 }", "file:5: `retry_delays` is a table: write a list in brackets"),
        ] {
            let model = format!("name = \"disk\"\nmodel = {{ retry_delays = {delays} }}");
            assert_eq!(refusal(&SYSTEM.replacen("name = \"disk\"", &model, 1)), expected);
        }
    }

    #[test]
    fn configuration_has_numbers_of_64_bits() {
        let scenario = Scenario::parse(&format!("{SYSTEM}seed = 18446744073709551615"), "file").unwrap();
        let crate::scenario::Workload::Bench(bench) = &scenario.tenants[0].workload else { panic!("a load") };
        assert_eq!(bench.seed, u64::MAX);
    }

    #[test]
    fn table_that_is_one_of_several_is_written_with_two_brackets() {
        assert_eq!(
            refusal(&SYSTEM.replacen("[[controller]]", "[controller]", 1).replacen(
                "[[controller.namespace]]",
                "[controller.namespace]",
                1
            )),
            "file:3: `[controller]` is one table where several are possible: write `[[controller]]`"
        );
        assert_eq!(
            refusal(&SYSTEM.replacen("[[controller.namespace]]", "[controller.namespace]", 1)),
            "file:5: `[controller.namespace]` is one table where several are possible: write `[[controller.namespace]]`"
        );
        assert_eq!(
            refusal(&SYSTEM.replacen("[[controller]]", "[[machine]]\n[[controller]]", 1)),
            "file:3: `[[machine]]` is one of several tables where one is possible: write `[machine]`"
        );
        assert_eq!(refusal("description = \"b\"\n"), "file:1: the key `name` is missing: add it");
    }

    #[test]
    fn refusal_of_a_table_s_key_has_its_line() {
        let with = |keys: &str| refusal(&format!("{SYSTEM}operations = 4\n{keys}"));
        assert!(with("[machine]\niommu = true\nmemory = 1").starts_with("file:16: [machine] memory"));
        assert!(with("[server]\n\nrecords = 3").starts_with("file:16: [server] records is 3"));
        assert!(with("[expect]\nlost = [\"x\"]").starts_with("file:15: [expect] lost names `x`"));
        assert!(with("[expect]\noutlives = [\"alice\"]").starts_with("file:15: [expect] outlives"));
    }

    #[test]
    fn file_that_is_not_utf_8_is_refused_with_the_line() {
        assert_eq!(super::utf8("name = \"ä\"".as_bytes()), Ok("name = \"ä\""));
        let refusal = "the byte 0xff is not UTF-8, in which TOML is written: save the file in UTF-8".to_owned();
        assert_eq!(super::utf8(b"name = \"a\"\ndescription = \"\xff\"\n"), Err((2, refusal)));
    }
}
