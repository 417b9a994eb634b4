use super::*;
use blk_api::config::{Class, ClassWeights, RateLimit, SchedulingPolicy};

mod beyond;
mod contradictions;
mod expectations;
mod lists;
mod queue_sharing;
mod schema;
mod settings;
mod several;

const GOOD: &str = r#"
name = "good"
description = "Two tenants."

[[controller]]
name = "disk"
queue_pairs = 4

[[controller.namespace]]
size = "1M"

[[tenant]]
name = "alice"
queue_pairs = 2
extents = [{ first = 0, blocks = 1024 }]

program.name = "bench"
[tenant.program.config]
depth = 8

[[tenant]]
name = "bob"
queue_pairs = 2
extents = [{ first = 1024, blocks = 1024 }]

program.name = "digest"
[tenant.program.config]
"#;

/// Returns the refusal of the good scenario with `old` replaced by `new`.
fn refusal(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "nothing to replace: {old}");
    Scenario::parse(&GOOD.replacen(old, new, 1), "good.toml").unwrap_err().to_string()
}

#[test]
fn a_refusal_shows_control_characters_as_escapes() {
    let error = Scenario::parse("name = \"t\"\n\"a\\u001b[2Jb\" = 1\n", "t.toml").unwrap_err().to_string();
    assert!(error.starts_with("t.toml:2: unknown key `a\\u{1b}[2Jb`"), "{error}");
    assert!(!error.chars().any(char::is_control), "{error:?}");
    // Directions of text, too.
    let error = refusal("depth = 8", "\"a\\u202eb\" = 8");
    assert!(error.contains("unknown key `a\\u{202e}b`"), "{error}");
}

#[test]
fn a_refusal_of_something_long_keeps_its_place_and_its_mend() {
    for long in ["x".repeat(5000), "\\u001b".repeat(900), "…".repeat(700)] {
        let error = refusal("name = \"good\"", &format!("name = \"{long}\""));
        assert!(error.starts_with("good.toml:2: ") && error.ends_with(": rename it"), "{error}");
        assert!(error.chars().count() < 420, "{error}");
    }
}

#[test]
fn a_scenario_is_read_with_its_defaults() {
    let scenario = Scenario::parse(GOOD, "good.toml").unwrap();
    assert_eq!(scenario.machine.memory, 256 << 20);
    assert_eq!(scenario.controllers[0].serial, "disk");
    assert_eq!(scenario.controllers[0].attach, Attach::RootPort);
    assert_eq!(scenario.tenants[0].controller, "disk");
    assert_eq!(scenario.tenants[0].window, 1 << 20);
    assert_eq!(scenario.namespace(&scenario.tenants[1]).map(Namespace::blocks), Some(2048));
    assert_eq!(scenario.expect.timeout_seconds, 60);
}

#[test]
fn a_flood_that_does_nothing_or_never_ends_is_refused() {
    let table = "program.name = \"digest\"\n[tenant.program.config]\n";
    let flood = |keys: &str| refusal(table, &format!("program.name = \"flood\"\n[tenant.program.config]\n{keys}\n"));
    assert!(flood("").contains("a flood of no kinds"));
    assert!(flood("kinds = [\"requests\"]\nturn_milliseconds = 0").contains("turns of 0 milliseconds"));
    assert!(flood("kinds = [\"requests\"]\nblocks = 1025").contains("floods 1025 blocks but has 1024"));
    assert!(flood("kinds = [\"requests\"]\nmilliseconds = 0").contains("name it in [expect] unfinished"));
    let endless = "program.name = \"flood\"\n[tenant.program.config]\nkinds = [\"calls\"]\nmilliseconds = 0\n[expect]\nunfinished = [\"bob\"]\n";
    assert!(Scenario::parse(&GOOD.replacen(table, endless, 1), "good.toml").is_ok());
}

#[test]
fn a_last_attack_on_registers_needs_a_function() {
    let table = "program.name = \"digest\"\n[tenant.program.config]\n";
    let last = |last: &str| format!("program.name = \"hostile\"\n[tenant.program.config]\nlast = \"{last}\"\n");
    assert!(refusal(table, &last("foreign-registers")).contains("has no function for its last attack"));
    assert!(Scenario::parse(&GOOD.replacen(table, &last("tail-backwards"), 1), "good.toml").is_ok());
}

#[test]
fn a_name_that_cannot_be_a_files_is_refused_with_its_line() {
    let named = |name: &str| {
        let text = GOOD.replacen("name = \"good\"", &format!("name = \"{name}\""), 1);
        Scenario::parse(&text, "good.toml").map_err(|error| error.to_string())
    };
    let longest = "x".repeat(64);
    for good in ["a", "2-tenants", "Demo-2", &longest] {
        assert_eq!(named(good).unwrap().name, good);
    }
    let long = "x".repeat(65);
    for bad in ["", "../../x", "/tmp/x", "a/b", "a b", "a.b", "-x", ".", "\\u001b[31m", "ä", &long] {
        let refusal = named(bad).unwrap_err();
        assert!(refusal.starts_with("good.toml:2: the scenario's name `"), "{refusal}");
        assert!(refusal.ends_with("rename it") && !refusal.contains('\u{1b}'), "{refusal}");
    }
}

#[test]
fn names_with_control_characters_are_shown_escaped() {
    for old in ["name = \"disk\"", "name = \"alice\""] {
        let refusal = refusal(old, "name = \"\\u001b[31m\"");
        assert!(refusal.contains("`\\u{1b}[31m`"), "{refusal}");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let refusal = refusal("queue_pairs = 4", "queue_pair = 4");
    assert!(refusal.starts_with("good.toml:7: unknown key `queue_pair`"), "{refusal}");
    assert!(refusal.contains("queue_pairs"), "the fix is there: {refusal}");
}

#[test]
fn an_unknown_key_of_a_workload_is_named_with_its_line() {
    let refusal = refusal("depth = 8", "dept = 8");
    assert!(refusal.starts_with("good.toml:19: ") && refusal.contains("unknown key `dept`"), "{refusal}");
}

#[test]
fn a_value_of_the_wrong_kind_is_named_by_its_key() {
    for (new, key) in [
        ("queue_pairs = [4]", "queue_pairs"),
        ("queue_pairs = 4\nmodel = { version = 2.0 }", "version"),
        ("queue_pairs = 4\nmodel.version = 2.0", "model.version"),
    ] {
        let refusal = refusal("queue_pairs = 4", new);
        assert!(refusal.contains(&format!(": `{key}`")), "{refusal}");
    }
    let in_an_array = refusal("extents = [{ first = 0, blocks = 1024 }]", "extents = [7]");
    assert!(in_an_array.starts_with("good.toml:15: "), "{in_an_array}");
}

#[test]
fn shares_and_the_policy_are_read() {
    let text = GOOD
        .replacen("[[controller]]", "[server]\npolicy = \"weighted\"\nclass_weights = { high = 8 }\n[[controller]]", 1)
        .replacen(
            "name = \"bob\"",
            "name = \"bob\"\nclass = \"low\"\nhighest_class = \"high\"\nweight = 7\n\
             iops = { per_second = 500, burst = 10 }\nbandwidth = { per_second = \"10M\", burst = \"1M\" }",
            1,
        );
    let scenario = Scenario::parse(&text, "good.toml").unwrap();
    assert_eq!(scenario.server.policy, SchedulingPolicy::Weighted);
    assert_eq!(scenario.server.class_weights, ClassWeights { high: 8, medium: 3, low: 1 });
    let [alice, bob] = scenario.tenants.as_slice() else { panic!("two tenants") };
    assert_eq!((alice.highest(), alice.weight, alice.iops, alice.bandwidth), (Class::Medium, 1, None, None));
    assert_eq!((bob.class, bob.highest(), bob.weight), (Class::Low, Class::High, 7));
    assert_eq!(bob.iops, Some(RateLimit { per_second: 500, burst: 10 }));
    assert_eq!(bob.bandwidth, Some(RateLimit { per_second: 10 << 20, burst: 1 << 20 }));
    assert_eq!(Scenario::parse(GOOD, "good.toml").unwrap().server.policy, SchedulingPolicy::Paced);
}

#[test]
fn threads_are_as_urgent_as_their_tenants_unless_somebody_polls() {
    let priorities = |text: &str| {
        let scenario = Scenario::parse(text, "good.toml").unwrap();
        scenario.tenants.iter().map(|tenant| scenario.priority(tenant)).collect::<Vec<_>>()
    };
    let with = |alice: &str, bob: &str| {
        GOOD.replacen("name = \"alice\"", &format!("name = \"alice\"\n{alice}"), 1).replacen(
            "name = \"bob\"",
            &format!("name = \"bob\"\n{bob}"),
            1,
        )
    };
    assert_eq!(priorities(GOOD), [100, 100]);
    assert_eq!(priorities(&with("class = \"urgent\"", "class = \"low\"")), [110, 95]);
    assert_eq!(priorities(&with("class = \"high\"", "class = \"low\"\npriority = 101")), [105, 101]);
    assert_eq!(priorities(&with("class = \"high\"", "completion = \"polled\"")), [120, 120]);
}

#[test]
fn tenants_below_a_polling_server_would_starve() {
    let text = GOOD
        .replacen("name = \"alice\"", "name = \"alice\"\ncompletion = \"polled\"\npriority = 120", 1)
        .replacen("name = \"bob\"", "name = \"bob\"\npriority = 110", 1);
    let refusal = Scenario::parse(&text, "good.toml").unwrap_err().to_string();
    assert!(refusal.contains("would starve while the server polls at 120 for `alice`"), "{refusal}");
}

#[test]
fn priorities_out_of_bounds_are_refused() {
    let refusal = |text: String| Scenario::parse(&text, "good.toml").unwrap_err().to_string();
    for priority in [0, 119, 120, 150, 255] {
        let text = GOOD.replacen("name = \"bob\"", &format!("name = \"bob\"\npriority = {priority}"), 1);
        let says = format!("good.toml:21: tenant `bob` has priority {priority}");
        let refusal = refusal(text);
        assert!(refusal.contains(&says) && refusal.contains("make it 1 to 118"), "{refusal}");
    }
    for priority in [0, 2, 150, 255] {
        let refusal = refusal(format!("{GOOD}\n[server]\npriority = {priority}\n"));
        let says = format!("[server] priority is {priority}");
        assert!(refusal.contains(&says) && refusal.contains("make it 3 to 149"), "{refusal}");
    }
    for priority in [0, 121, 255] {
        let refusal = refusal(format!("{GOOD}\n[console]\npriority = {priority}\n"));
        let says = format!("[console] priority is {priority}");
        assert!(refusal.contains(&says) && refusal.contains("make it 1 to 120"), "{refusal}");
    }
    let text = GOOD.replacen("name = \"bob\"", "name = \"bob\"\npriority = 118", 1);
    assert!(Scenario::parse(&format!("{text}\n[console]\npriority = 120\n"), "good.toml").is_ok());
}

#[test]
fn readers_may_share_blocks() {
    let text = GOOD
        .replacen("first = 1024", "first = 0", 1)
        .replacen("extents", "writable = false\nextents", 2)
        .replacen("depth = 8", "verify = false\nread_percent = 100", 1);
    assert!(Scenario::parse(&text, "good.toml").is_ok());
}

#[test]
fn a_tenant_that_must_be_refused_does_not_count() {
    let text = GOOD.replacen("queue_pairs = 4", "queue_pairs = 2", 1) + "\n[expect]\nrefused_sessions = [\"bob\"]\n";
    assert!(Scenario::parse(&text, "good.toml").is_ok());
}

#[test]
fn more_tenants_than_a_server_can_serve_are_refused() {
    let of = |copies: u32| {
        let text = GOOD.replacen("queue_pairs = 2", &format!("queue_pairs = 1\ncopies = {copies}"), 1);
        Scenario::parse(&text.replacen("blocks = 1024", "blocks = 8", 1), "good.toml")
    };
    let error = of(129).unwrap_err().to_string();
    let first = error.lines().next().unwrap_or_default();
    assert!(first.ends_with("and its server serves 128: give some of them another controller"), "{error}");
    let fewer = of(100).map_err(|error| error.to_string());
    assert!(fewer.as_ref().err().is_none_or(|error| !error.contains("server serves")), "{fewer:?}");
}

#[test]
fn copies_follow_each_other_on_the_namespace() {
    let text =
        GOOD.replacen("queue_pairs = 2", "queue_pairs = 1\ncopies = 2", 1).replacen("blocks = 1024", "blocks = 512", 1);
    let scenario = Scenario::parse(&text, "good.toml").unwrap();
    let names: Vec<_> = scenario.tenants.iter().map(|tenant| (tenant.name.as_str(), tenant.extents[0].first)).collect();
    assert_eq!(names, [("alice-0", 0), ("alice-1", 512), ("bob", 1024)]);
}

#[test]
fn a_controller_that_is_lost_is_one_of_the_scenario_s() {
    let text = format!("{GOOD}\n[expect]\nlost = [\"disc\"]\n");
    let refusal = Scenario::parse(&text, "good.toml").unwrap_err().to_string();
    assert!(refusal.contains("[expect] lost names `disc`, which is no controller: name one"), "{refusal}");
    let scenario = Scenario::parse(&text.replace("disc", "disk"), "good.toml").unwrap();
    let of_lost: Vec<_> =
        ["alice", "nvme-server", "pci-server"].into_iter().filter(|name| scenario.is_of_lost(name)).collect();
    assert_eq!(of_lost, ["alice", "nvme-server"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Scenario::load("scenarios/nowhere.toml").unwrap_err();
    assert!(error.to_string().starts_with("scenarios/nowhere.toml: cannot be read"));
}

#[test]
fn every_scenario_file_loads_and_builds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let entries = ["", "found"].iter().flat_map(|below| std::fs::read_dir(folder.join(below)).unwrap());
    let mut files = 0;
    for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let scenario = Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(path.file_stem().and_then(|stem| stem.to_str()), Some(scenario.name.as_str()));
        for arch in capdl_spec::Arch::ALL {
            let system = crate::build(&scenario, &crate::programs::tests::samples_for(arch));
            system.unwrap_or_else(|error| panic!("{} on {arch}: {error}", scenario.name));
        }
        files += 1;
    }
    assert!(files >= 20, "only {files} scenarios");
}

const PEERS: &str = r#"
name = "peers"
description = "Two tenants that signal each other."
[[controller]]
name = "disk"
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 1024 }]
peer = "bob"
program.name = "signal"
[tenant.program.config]
operations = 10
leads = true
measure = "signal-wait"
[[tenant]]
name = "bob"
queue_pairs = 1
extents = [{ first = 1024, blocks = 1024 }]
peer = "alice"
program.name = "signal"
[tenant.program.config]
operations = 10
[expect]
measured = ["signal-wait"]
"#;

#[test]
fn tenants_that_signal_have_a_peer_that_answers() {
    assert!(Scenario::parse(PEERS, "peers.toml").is_ok());
    let cases = [
        ("peer = \"bob\"\n", "", "tenant `alice` signals a peer but names none"),
        ("peer = \"bob\"", "peer = \"carol\"", "has the peer `carol`, which is no other tenant"),
        ("peer = \"bob\"", "peer = \"alice\"", "has the peer `alice`, which is no other tenant"),
        ("operations = 10\nleads", "operations = 11\nleads", "which does not answer"),
        ("operations = 10\nleads", "operations = 0\nleads", "signals 0 times"),
        ("leads = true\n", "", "which does not answer"),
    ];
    for (old, new, expected) in cases {
        assert!(PEERS.contains(old), "nothing to replace: {old}");
        let refusal = Scenario::parse(&PEERS.replacen(old, new, 1), "peers.toml").unwrap_err().to_string();
        assert!(refusal.contains(expected), "{refusal}");
    }
}

const PROBED: &str = r#"
name = "probed"
description = "A probe."
[[controller]]
name = "disk"
[[controller.namespace]]
size = "1M"
[probe]
last = "registers"
[expect]
faults = ["probe"]
attackers = ["probe"]
"#;

#[test]
fn a_probe_takes_the_servers_place() {
    let scenario = Scenario::parse(PROBED, "probed.toml").unwrap();
    assert_eq!(scenario.probe.as_ref().map(|probe| probe.controller.as_str()), Some("disk"));
    assert_eq!(scenario.programs(), ["console", "pci-server", "nvme-probe"]);
    assert_eq!(scenario.server_name("disk"), "probe");
}

#[test]
fn a_probe_where_it_may_not_be_is_refused_with_the_mend() {
    let cases = [
        ("last =", "controller = \"tape\"\nlast =", "names the controller `tape`, which is not there: name `disk`"),
        ("size = \"1M\"", "size = \"1M\"\nbackend = \"null\"", "needs a file of 2 blocks"),
        ("[probe]", "[machine]\nmemory = \"512M\"\n[probe]", "exceeds the 256M"),
        ("faults = [\"probe\"]", "", "[expect] faults does not name `probe`"),
        ("last = \"registers\"", "last = \"nothing\"", "unknown value `nothing`"),
    ];
    for (old, new, expected) in cases {
        assert!(PROBED.contains(old));
        let refusal = Scenario::parse(&PROBED.replacen(old, new, 1), "probed.toml").unwrap_err().to_string();
        assert!(refusal.contains(expected), "{refusal}");
    }
    let both = format!("{GOOD}\n[probe]\nlast = \"registers\"\n");
    let refusal = Scenario::parse(&both, "both.toml").unwrap_err().to_string();
    assert!(refusal.contains("never beside tenants"), "{refusal}");
}
