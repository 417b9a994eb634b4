//! Values that a command puts into a scenario before it is checked.

use super::GOOD;
use crate::Scenario;
use crate::scenario::{Setting, Workload};
use blk_api::config::{Class, SchedulingPolicy};
use workload::Forbidden;

fn with(text: &str, settings: &[&str]) -> Result<Scenario, String> {
    let settings: Vec<Setting> = settings.iter().map(|one| one.parse().unwrap()).collect();
    Scenario::parse_with(text, "good.toml", None, &settings).map_err(|error| error.to_string())
}

#[test]
fn setting_replaces_a_value_or_adds_a_key_and_its_tables() {
    let scenario = with(
        GOOD,
        &[
            "tenant.alice.class=high",
            "tenant.2.weight=7",
            "tenant.alice.program.config.depth=4",
            "controller.disk.namespace.1.size=2M",
            "server.policy=\"weighted\"",
            "tenant.alice.extents=[{ first = 0, blocks = 512 }]",
            "tenant.bob.program.config.block_bytes = 4096",
            "seed=9",
            "seed=11",
        ],
    )
    .unwrap();
    let [alice, bob] = scenario.tenants.as_slice() else { panic!("two tenants") };
    let (Workload::Bench(bench), Workload::Digest(digest)) = (&alice.workload, &bob.workload) else {
        panic!("programs")
    };
    assert_eq!((alice.class, bob.weight, bench.depth, digest.block_bytes), (Class::High, 7, 4, 4096));
    assert_eq!((scenario.controllers[0].namespaces[0].size, scenario.seed), (2 << 20, 11));
    assert_eq!((alice.blocks(), scenario.server.policy), (512, SchedulingPolicy::Weighted));
}

#[test]
fn loads_may_lose_the_rights_that_an_operator_can_take() {
    let forbidden = |settings: &[&str]| match &with(GOOD, settings).unwrap().tenants[0].workload {
        Workload::Bench(bench) => bench.forbidden,
        other => panic!("{other:?}"),
    };
    assert_eq!(forbidden(&["control={ acts = [\"kill\", \"pause\"] }"]), Forbidden::Never);
    let rights = "control={ acts = [\"rights\"] }";
    assert_eq!(forbidden(&[rights]), Forbidden::Possibly);
    assert_eq!(forbidden(&[rights, "tenant.alice.program.config.forbidden=for-good"]), Forbidden::ForGood);
}

#[test]
fn table_of_a_list_is_left_out() {
    let names = |settings: &[&str]| {
        let names = |scenario: Scenario| scenario.tenants.into_iter().map(|tenant| tenant.name).collect::<Vec<_>>();
        with(GOOD, settings).map(names)
    };
    assert_eq!(names(&["tenant.alice=none", "tenant.bob.weight=7"]).unwrap(), ["bob"]);
    assert_eq!(names(&["tenant.2=none"]).unwrap(), ["alice"]);
    let refusal = names(&["tenant.alice=none", "tenant.alice.weight=7"]).unwrap_err();
    assert!(refusal.contains("there is no tenant `alice`: write one of bob"), "{refusal}");
}

#[test]
fn key_under_two_names_is_refused() {
    let refusal = with(GOOD, &["tenant.2.weight=7", "tenant.alice.weight=7", "tenant.bob.weight=8"]).unwrap_err();
    let place = "good.toml with --set tenant.bob.weight=8: ";
    assert_eq!(refusal, format!("{place}`tenant.2.weight=7` sets the same key: name it once"));
}

#[test]
fn refusal_of_a_setting_names_it_and_not_a_line() {
    for (setting, expected) in [
        ("tenant.alice.class=hihg", "unknown value `hihg`: did you mean `high`?"),
        ("tenant.alice.clas=high", "unknown key `clas`: did you mean `class`?"),
        ("tenat.alice.class=high", "unknown key `tenat`: did you mean `tenant`?"),
        ("tenant.alcie.class=high", "there is no tenant `alcie`: did you mean `alice`?"),
        ("tenant.class=high", "there is no tenant `class`: write one of alice, bob"),
        ("tenant.alice=high", "`tenant.alice` is a table: name a key in it, or leave it out with tenant.alice=none"),
        ("tenant.alcie=none", "there is no tenant `alcie`: did you mean `alice`?"),
        ("tenant.9.class=high", "there is no tenant `9`: write its number, 1 to 2"),
        ("tenant.0.class=high", "there is no tenant `0`: write its number, 1 to 2"),
        (
            "kill.2.after_ms=5",
            "there is no [[kill]] 2 in this file: write the list with all that it needs, --set 'kill=[{ … }]'",
        ),
        ("fault.1.command.effect=drop-completion", "there is no [[fault]] 1 in this file: write the list with"),
        (
            "controller.disk.change.1.after_ms=5",
            "there is no [[change]] 1 in this file: write the list with all that it needs, --set 'controller.disk.change=[{ … }]'",
        ),
        ("seed=1979-05-27", "`seed` is a date or a time, which no key takes: write"),
        ("controller.disk.namespace.7.size=1M", "there is no namespace `7`: write its number, 1 to 1"),
        ("seed.x=1", "`seed` is no table: name it alone"),
        ("tenant.alice.depth=many", "tenant `alice` has depth \"many\": give it 1 to 1024"),
        (
            "tenant.alice.program.config.dpeth=3",
            "in the configuration of bench, unknown key `dpeth`: did you mean `depth`?",
        ),
        // Values that contradict others are refused at a table's line without the setting.
        ("tenant.alice.depth=5000", "tenant `alice` has depth 5000: give it 1 to 1024"),
        ("tenant.alice.extents=[]", "tenant `alice` has no extents: add"),
        ("machine.memory=3", "[machine] memory is 3 bytes"),
    ] {
        let refusal = with(GOOD, &["seed=3", setting]).unwrap_err();
        let place = format!("good.toml with --set {}: ", setting.parse::<Setting>().unwrap());
        assert!(refusal.starts_with(&format!("{place}{expected}")), "{refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
    }
    // The file itself is refused whatever is set.
    let wrong = GOOD.replacen("depth = 8", "dpeth = 8", 1);
    assert!(with(&wrong, &["seed=3"]).unwrap_err().starts_with("good.toml:19: "));
    let none = with(GOOD.trim_end(), &["seed=-3"]).unwrap_err();
    assert!(none.starts_with("good.toml with --set seed=-3: `seed` is -3: write"), "{none}");
}

#[test]
fn text_that_is_no_setting_is_refused() {
    for (text, expected) in [
        ("tenant.alice.class", "write a key and its value, as in tenant.alice.class=high"),
        ("tenant..class=high", "`tenant..class` is no key: write"),
        (&format!("{}x=1", "x.".repeat(6000)), "the key has 6001 parts, and 64 are the most: write fewer"),
        ("=3", "`` is no key: write"),
        ("seed=", "`` is no value: write"),
        ("seed=[1", "`[1` is no value: write"),
        ("seed=1\nseed=2", "`1\\nseed=2` is no value: write"),
    ] {
        let refusal = text.parse::<Setting>().unwrap_err().to_string();
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}
