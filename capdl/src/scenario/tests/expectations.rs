//! Expected results: who is named in them, and spans.

use super::*;

#[test]
fn expectations_name_who_is_there() {
    for list in ["faults", "expelled", "refused_sessions", "unfinished", "attackers", "digests", "measured"] {
        let text = format!("{GOOD}\n[expect]\n{list} = [\"eve\"]\n");
        let refusal = Scenario::parse(&text, "good.toml").unwrap_err().to_string();
        assert!(refusal.contains("`eve`"), "{refusal}");
    }
}

#[test]
fn who_outlives_is_a_tenant_beside_an_attacker() {
    let expect = |keys: &str| Scenario::parse(&format!("{GOOD}\n[expect]\n{keys}\n"), "good.toml");
    let refusal = |keys: &str| expect(keys).unwrap_err().to_string();
    assert!(expect("attackers = [\"bob\"]\noutlives = [\"alice\"]\nlatency_p99_ms = { alice = 500 }").is_ok());
    assert!(
        refusal("attackers = [\"bob\"]\noutlives = [\"eve\"]").contains("outlives names `eve`, which is no tenant")
    );
    assert!(refusal("faults = [\"bob\"]\noutlives = [\"bob\"]").contains("which is to be outlived itself"));
    assert!(refusal("outlives = [\"alice\"]").contains("without a tenant that attacks"));
    assert!(refusal("latency_p99_ms = { bob = 500 }").contains("latency_p99_ms names `bob`"));
    assert!(refusal("latency_p99_us = { bob = 500 }").contains("latency_p99_us names `bob`"));
}

#[test]
fn span_names_existing_loads_and_changes() {
    let change = "[[change]]\nafter_ms = 100\ntenant = \"alice\"\nweight = 2\n";
    let expect =
        |keys: &str| Scenario::parse(&format!("{GOOD}\n{change}{change}\n[[expect.span]]\n{keys}\n"), "good.toml");
    let span =
        &expect("tenant = \"alice\"\nafter_change = 1\nbefore_change = 2\nat_most_iops = 5").unwrap().expect.spans[0];
    assert_eq!(
        (span.after_change, span.before_change, span.at_most_iops, span.simulated),
        (Some(1), Some(2), Some(5), false)
    );
    for (keys, says) in [
        ("tenant = \"eve\"\nat_most_iops = 5", "names `eve`, which is no tenant with the workload bench"),
        ("tenant = \"bob\"\nat_most_iops = 5", "names `bob`"),
        ("tenant = \"alice\"\nat_least_percent_of = { bob = 50 }", "names `bob`"),
        ("tenant = \"alice\"\nafter_change = 3\nat_most_iops = 5", "names change 3 of 2: count them from 1"),
        ("tenant = \"alice\"\nbefore_change = 0\nat_most_iops = 5", "names change 0 of 2"),
        ("tenant = \"alice\"\nafter_change = 2\nbefore_change = 1\nat_most_iops = 5", "ends before it begins"),
        ("tenant = \"alice\"\nafter_change = 2", "asks for nothing: add at_least_iops"),
    ] {
        let refusal = expect(keys).unwrap_err().to_string();
        assert!(refusal.contains(says), "{refusal}");
    }
}
