//! Numbers beyond their keys' types: each is refused with the range of its key, as a number within the type is.

use super::refusal;

/// Tables in which a key's number stands, and what follows the place of each.
const MODEL: (&str, &str) = ("queue_pairs = 4", "queue_pairs = 4\nmodel = { ");
const BENCH: (&str, &str) = ("depth = 8", "depth = 8\n");
const TENANT: (&str, &str) = ("name = \"alice\"", "name = \"alice\"\n");

#[test]
fn number_beyond_its_type_is_refused_with_the_range_of_its_key() {
    for ((old, new), key, end, mend) in [
        (
            ("queue_pairs = 4", ""),
            "queue_pairs = 99999",
            "",
            "controller `disk` has 99999 queue pairs: give it 1 to 2047",
        ),
        (("queue_pairs = 4", ""), "queue_pairs = -1", "", "controller `disk` has -1 queue pairs: give it 1 to 2047"),
        (MODEL, "doorbell_stride = 300", " }", "has a doorbell_stride of 300: give it 0 to 10"),
        (MODEL, "doorbell_stride = -1", " }", "has a doorbell_stride of -1: give it 0 to 10"),
        (MODEL, "outstanding = 65536", " }", "has outstanding 65536: give it 1 to 65535"),
        (MODEL, "fetch_ns = 99999999999", " }", "has a fetch_ns of 99999999999: give it 1 to 1000000, or 0"),
        (TENANT, "depth = 70000", "", "tenant `alice` has depth 70000: give it 1 to 1024"),
        (TENANT, "weight = 70000", "", "tenant `alice` has weight 70000: give it 1 to 65535"),
        (TENANT, "priority = 256", "", "tenant `alice` has priority 256, from which"),
        (TENANT, "copies = -3", "", "tenant `alice` has -3 copies: write 256 at most"),
        (BENCH, "segments = 300", "", "has requests of 300 segments: give it 1 to 5"),
        (BENCH, "read_percent = -1", "", "has read_percent = -1: give it 0 to 100"),
        (BENCH, "misalign_bytes = -4", "", "has misalign_bytes = -4: make it a multiple of 4 below 4096"),
        (("depth = 8", ""), "depth = 99999999999", "", "has a workload of depth 99999999999: give it 1 to "),
        (
            ("queue_pairs = 4", ""),
            "queue_pairs = \"x\"",
            "",
            "controller `disk` has \"x\" queue pairs: give it 1 to 2047",
        ),
        (TENANT, "priority = true", "", "tenant `alice` has priority true, from which"),
        (BENCH, "read_percent = 1.5", "", "has read_percent = 1.5: give it 0 to 100"),
        (BENCH, "think_microseconds = -1", "", "has think_microseconds = -1: give it 0 to 49999, less than a tick"),
        (BENCH, "think_microseconds = 1000000000", "", "has think_microseconds = 1000000000: give it 0 to 49999"),
        (("depth = 8", ""), "depth = -1", "", "has a workload of depth -1: give it 1 to "),
    ] {
        let refusal = refusal(old, &format!("{new}{key}{end}"));
        assert!(refusal.contains(mend), "{key}: {refusal}");
        assert!(!refusal.contains('\n'), "{key}: {refusal}");
    }
}

#[test]
fn number_beyond_its_type_has_the_range_of_the_type_where_all_of_it_is_possible() {
    let range = refusal("description", "seed = -1\ndescription");
    assert!(range.ends_with("`seed` is -1: write a whole number from 0 to 18446744073709551615"), "{range}");
}

#[test]
fn number_beyond_its_type_has_the_range_of_its_key_beside_other_defects() {
    let both = refusal("queue_pairs = 4", "queue_pairs = 99999\nqueue_piars = 4");
    assert!(both.contains("controller `disk` has 99999 queue pairs: give it 1 to 2047\n"), "{both}");
    assert!(both.contains("unknown key `queue_piars`"), "{both}");
}

#[test]
fn each_of_several_numbers_is_blamed_on_its_own_table() {
    let depths =
        |alice: &str, bob: &str| {
            let text = super::GOOD
                .replacen("name = \"alice\"", &format!("name = \"alice\"\ndepth = {alice}"), 1)
                .replacen("name = \"bob\"", &format!("name = \"bob\"\ndepth = {bob}"), 1);
            crate::Scenario::parse(&text, "f").unwrap_err().to_string()
        };
    let of = |line: u8, tenant: &str, depth: &str| {
        format!("f:{line}: tenant `{tenant}` has depth {depth}: give it 1 to 1024")
    };
    let both = [of(14, "alice", "70000"), of(24, "bob", "80000")];
    assert_eq!(depths("70000", "80000").lines().collect::<Vec<_>>(), both);
    assert_eq!(depths("-1", "-2").lines().collect::<Vec<_>>(), [of(14, "alice", "-1"), of(24, "bob", "-2")]);
    // The end of the type, where it is written, is no mend of another tenant's number.
    assert_eq!(depths("65535", "70000"), of(24, "bob", "70000"));
}

#[test]
fn number_beyond_its_type_is_blamed_on_its_own_line() {
    assert!(refusal("depth = 8", "verify = true\ndepth = 70000").starts_with("good.toml:20: "));
}
