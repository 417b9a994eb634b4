//! Asynchronous events of a controller at work: each is reported and acted on by its kind, and neighbours go on.

use super::*;

/// Three tenants: alice reads from namespace 1, bob writes there, and carol reads from namespace 2, which may be another one `later`.
/// The event comes after 60 ms.
fn scenario_of(event: Option<&str>, later: &str) -> Scenario {
    let tenant = |name: &str, nsid: u32, first: u32, reads: u8| {
        format!(
            "[[tenant]]\nname = \"{name}\"\nqueue_pairs = 1\ndepth = 8\nnamespace = {nsid}\n\
             extents = [{{ first = {first}, blocks = 8192 }}]\nprogram.name = \"bench\"\n\
             [tenant.program.config]\noperations = 4000\ndepth = 4\nread_percent = {reads}\nverify = false\n\n"
        )
    };
    let event = event
        .map(|event| format!("[[fault]]\ncontroller = {{ at_ns = 60000000, effect = {{ event = \"{event}\" }} }}\n"));
    let text = format!(
        "name = \"events\"\ndescription = \"A controller that reports an event.\"\n\
         [[controller]]\nname = \"disk\"\niops_limit = 20000\n{later}\n\
         [[controller.namespace]]\nsize = \"16M\"\n[[controller.namespace]]\nsize = \"16M\"\nnguid = 2\n{}{}{}{}",
        tenant("alice", 1, 0, 100),
        tenant("bob", 1, 8192, 0),
        tenant("carol", 2, 0, 100),
        event.unwrap_or_default(),
    );
    Scenario::parse(&text, "events").unwrap_or_else(|error| panic!("{error}"))
}

/// Runs it; returns the run, and the events that were reported. Nothing is reset.
fn run_of(event: &str, later: &str) -> (Run, Vec<String>) {
    let run = run_for(&scenario_of(Some(event), later), 1, 60_000);
    assert_eq!(run.account.findings, "", "{event}");
    assert!(!run.reports.iter().any(|report| matches!(report, Report::Reset { .. })), "{event}");
    let text = |report: &Report| match report {
        Report::Event { text, .. } => Some(text.to_string()),
        _ => None,
    };
    let events = run.reports.iter().filter_map(text).collect();
    (run, events)
}

/// Failures that were reported.
fn failures(run: &Run) -> Vec<String> {
    let reason = |report: &Report| match report {
        Report::Failure { component, reason } => Some(format!("{component}: {reason}")),
        _ => None,
    };
    run.reports.iter().filter_map(reason).collect()
}

/// The latency, in nanoseconds, that 99 of 100 operations of the tenant do not exceed.
fn p99_ns(run: &Run, tenant: &str) -> f64 {
    run.load(tenant).unwrap_or_else(|| panic!("{tenant} finishes")).p99_ns as f64
}

/// The tenants finish, and their p99 is within a tenth of that in a run without an event.
fn assert_undisturbed(run: &Run, tenants: &[&str]) {
    let alone = run_for(&scenario_of(None, ""), 1, 60_000);
    for tenant in tenants {
        let (with, without) = (p99_ns(run, tenant), p99_ns(&alone, tenant));
        assert!((with / without - 1.0).abs() <= 0.1, "{tenant}: p99 {with} ns, and {without} ns without the event");
    }
}

#[test]
fn errors_and_warnings_are_reported_and_disturb_nobody() {
    for (event, said) in [
        ("internal-error", "an internal error, which passed"),
        ("spare", "its spare is below the threshold"),
        ("temperature", "a temperature is beyond its threshold"),
        ("reliability", "its subsystem is not reliable any more"),
    ] {
        let (run, events) = run_of(event, "");
        assert!(events.len() == 1 && events[0].starts_with(said), "{events:?}");
        assert_eq!(failures(&run), [""; 0]);
        assert_undisturbed(&run, &["alice", "bob", "carol"]);
    }
}

#[test]
fn read_only_media_end_writers_with_a_clear_status_alone() {
    let (run, events) = run_of("read-only", "");
    assert!(events[0].ends_with("and the media is read-only"), "{events:?}");
    let failures = failures(&run);
    let is_clear = |failure: &String| failure.starts_with("bob: ") && failure.contains("the media is read-only");
    assert!(!failures.is_empty() && failures.iter().all(is_clear), "{failures:?}");
    assert_eq!(run.load("alice").map(|load| load.reads), Some(4000));
    assert_eq!(run.load("carol").map(|load| load.reads), Some(4000));
}

#[test]
fn a_namespace_that_shrinks_or_is_exchanged_ends_its_tenant_and_disturbs_no_neighbour() {
    for change in ["size = \"15M\"", "nguid = 9"] {
        let (run, events) = run_of("namespace-changed", &format!("[[controller.later]]\nnsid = 2\n{change}"));
        assert_eq!(events, ["namespaces changed"]);
        let failures = failures(&run);
        assert!(failures[0].starts_with("nvme-server: the session of carol ended: another namespace"), "{failures:?}");
        assert!(failures.iter().skip(1).all(|failure| failure.starts_with("carol: ")), "{failures:?}");
        assert_undisturbed(&run, &["alice", "bob"]);
    }
}
