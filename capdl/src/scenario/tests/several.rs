//! All refusals of a file at once, in the order of its lines.

use super::GOOD;
use crate::Scenario;

/// The refusals of the good scenario after these replacements.
fn refusals(replacements: &[(&str, &str)]) -> Vec<String> {
    let replaced = |text: String, (old, new): &(&str, &str)| {
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1)
    };
    let text = replacements.iter().fold(GOOD.to_owned(), replaced);
    let error = Scenario::parse(&text, "f").unwrap_err().to_string();
    error.lines().map(str::to_owned).collect()
}

fn assert_begin(refusals: &[String], expected: &[&str]) {
    assert_eq!(refusals.len(), expected.len(), "{refusals:#?}");
    for (refusal, expected) in refusals.iter().zip(expected) {
        assert!(refusal.starts_with(expected), "{refusal} for {expected}");
    }
}

#[test]
fn wrong_keys_and_types_in_several_tables_are_refused_together() {
    let several = refusals(&[
        ("queue_pairs = 4", "queue_piars = 4"),
        ("size = \"1M\"", "size = true"),
        ("queue_pairs = 2", "queue_pairs = -2\nclass = \"hihg\""),
        ("depth = 8", "dpeth = 8\nverify = 3"),
        ("name = \"bob\"", "name = 7"),
        ("\"digest\"", "\"digets\""),
    ]);
    let expected = [
        "f:7: unknown key `queue_piars`: did you mean `queue_pairs`?",
        "f:10: `size` is true: write a number of bytes",
        "f:14: `queue_pairs` is -2: write a whole number",
        "f:15: unknown value `hihg`: did you mean `high`?",
        "f:20: in the configuration of bench, unknown key `dpeth`",
        "f:21: in the configuration of bench, `verify` is 3: write true or false",
        "f:24: `name` is 7: write text in quotes",
        "f:28: ",
    ];
    assert_begin(&several, &expected);
}

#[test]
fn missing_keys_are_refused_beside_wrong_ones() {
    let several = refusals(&[
        ("size = \"1M\"", "szie = \"1M\""),
        ("name = \"alice\"\n", ""),
        ("name = \"bob\"", "nmae = \"bob\""),
    ]);
    let expected = ["f:10: unknown key `szie`", "f:12: the key `name` is missing", "f:21: unknown key `nmae`"];
    assert_begin(&several, &expected);
    let of_file = refusals(&[("description = \"Two tenants.\"\n", ""), ("depth = 8", "depth = true")]);
    assert_begin(
        &of_file,
        &["f:1: the key `description` is missing", "f:18: in the configuration of bench, `depth` is true"],
    );
}

#[test]
fn fault_that_is_read_is_not_blamed_for_a_later_one() {
    let with = |faults: &str| refusals(&[("[[tenant]]", &format!("{faults}\n[[tenant]]"))]);
    let good = "[[fault]]\ncommand = { effect = { delay = { ns = 5 } } }\n[[fault]]";
    let wrong = "command = { effect = { delay = { ns = \"x\" } } }";
    assert_begin(&with(&format!("{good}\n{wrong}")), &["f:15: a fault delays by \"x\" ns: write at least 1"]);
    assert_begin(&with(&format!("{good}\n{good}")), &["f:14: a fault is empty", "f:17: a fault is empty"]);
    assert_begin(
        &with(&format!("[[fault]]\n{wrong}\n{good}")),
        &["f:13: a fault delays by \"x\" ns: write at least 1", "f:16: a fault is empty"],
    );
}

#[test]
fn many_tables_are_refused_at_once() {
    let many: String = (0..3000).map(|number| format!("[[tenant]]\nname = \"t{number}\"\n{REST}")).collect();
    let began = std::time::Instant::now();
    let refusals = refusals(&[("[[tenant]]", &format!("{many}[[tenant]]"))]);
    assert!(refusals[0].starts_with("f:5: controller `disk` has 3002 tenants"), "{refusals:?}");
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

/// The rest of a tenant.
const REST: &str = "queue_pairs = 1\nextents = [{ first = 0, blocks = 8 }]\nprogram.name = \"bench\"\n";

#[test]
fn contradictions_of_several_tables_are_refused_together() {
    let several = refusals(&[
        ("name = \"good\"", "name = \"go od\""),
        ("queue_pairs = 2", "queue_pairs = 2\ndepth = 0"),
        ("extents = [{ first = 1024, blocks = 1024 }]", "extents = [{ first = 1024, blocks = 4096 }]"),
        ("[[tenant]]", "[machine]\nmemory = 3\n[[tenant]]"),
    ]);
    assert_begin(
        &several,
        &[
            "f:2: the scenario's name",
            "f:13: [machine] memory",
            "f:14: tenant `alice` has depth 0",
            "f:24: tenant `bob`",
        ],
    );
    // Those of a controller that is refused are not refused for its fault.
    let several = refusals(&[("size = \"1M\"", "size = 1"), ("description", "seed = 1\ndescription")]);
    assert_begin(&several, &["f:6: namespace 1 of `disk` has 1 bytes"]);
    let together = refusals(&[("queue_pairs = 4", "queue_pairs = 3"), ("blocks = 1024", "blocks = 1025")]);
    assert_begin(
        &together,
        &["f:21: tenant `bob` has an extent at block 1024", "f:21: tenant `bob` wants 2 queue pairs"],
    );
    // Copies of a tenant are refused once.
    assert_begin(
        &refusals(&[("queue_pairs = 2", "queue_pairs = 1\ncopies = 9\nweight = 0")]),
        &["f:12: tenant `alice-0`"],
    );
}
