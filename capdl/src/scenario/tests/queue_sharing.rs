//! Queue pairs that tenants share.

use super::*;

/// Two tenants that share queue pairs, with a tenant's and a server's lines changed.
fn sharing(queues: &str, bob: &str) -> Result<Scenario, String> {
    let shared = GOOD.replace("queue_pairs = 2\n", "").replacen("name = \"bob\"", &format!("name = \"bob\"\n{bob}"), 1);
    let server = if bob.contains("polled") { "[server]\npriority = 100" } else { "[server]" };
    Scenario::parse(&format!("{shared}\n{server}\nqueues = {queues}\n"), "good.toml").map_err(|error| error.to_string())
}

#[test]
fn tenants_may_share_queue_pairs() {
    for (queues, pairs) in [
        ("{ shared = { queue_pairs = 2, depth = 64 } }", 2),
        ("{ per-core = { cores = 4, depth = 64 } }", 4),
        ("{ pool-per-core = { cores = 2, queue_pairs = 2, depth = 64 } }", 4),
    ] {
        assert_eq!(sharing(queues, "").unwrap().queue_pairs("disk"), pairs);
    }
}

#[test]
fn what_is_wrong_with_shared_queue_pairs_is_said() {
    let one = "{ shared = { queue_pairs = 1, depth = 64 } }";
    for (queues, bob, says) in [
        (
            one,
            "queue_pairs = 1",
            "tenant `bob` has 1 queue pairs of its own where [server] queues are shared: take one away",
        ),
        (one, "core = 0", "tenant `bob` is on core 0 but queue pairs are not by core"),
        (
            one,
            "completion = \"polled\"",
            "tenants `alice` and `bob` share queue pairs but notice completions in different",
        ),
        ("{ per-core = { cores = 0, depth = 64 } }", "", "[server] queues are none: give them 1 queue pair and 1 core"),
        ("{ shared = { queue_pairs = 1, depth = 0 } }", "", "[server] queues have depth 0: give them 1 to 1024"),
        (
            "{ per-core = { cores = 5, depth = 64 } }",
            "",
            "[server] queues are 5 queue pairs but controller `disk` has 4",
        ),
        ("{ shared = { cores = 1, depth = 64 } }", "", "cores"),
        ("\"one\"", "", "one"),
    ] {
        let refusal = sharing(queues, bob).unwrap_err();
        assert!(refusal.contains(says), "{refusal}");
    }
    // On cores of their own they may differ.
    sharing("{ per-core = { cores = 2, depth = 64 } }", "completion = \"polled\"").unwrap();
}
