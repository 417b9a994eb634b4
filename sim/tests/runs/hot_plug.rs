//! Controllers that come and go: tenants that wait go on, others end with a typed error, and neighbours notice nothing.

use super::*;
use blk_api::config::RateLimit;
use blk_api::extent::{Blocks, Extent};
use capdl::scenario::{Action, Change, Entitlement, HotPlug, Kill, What, When, Workload};
use report::Changed;
use workload::Forbidden;

/// Milliseconds after which an insertion and a surprise removal have been followed.
const SOON_MS: u32 = 1_300;
/// Cycles of every test run. `HOTPLUG_CYCLES` asks for another number.
const CYCLES: u32 = 40;

fn event(after_ms: u32, action: Action) -> HotPlug {
    HotPlug { controller: "comes".into(), after_ms, action, other: false }
}

fn other(after_ms: u32) -> HotPlug {
    HotPlug { other: true, ..event(after_ms, Action::Insert) }
}

/// The scenario hotplug with loads that end by time: most tests have other events than those that its loads wait for.
fn timed() -> Scenario {
    let mut scenario = scenario("hotplug");
    scenario.moments.clear();
    scenario.tenants.iter_mut().for_each(|tenant| tenant.ends = None);
    loads_last(&mut scenario, 12_000);
    scenario
}

fn failures(run: &Run) -> Vec<String> {
    let failure = |report: &Report| match report {
        Report::Failure { component, reason } => Some(format!("{component}: {reason}")),
        Report::Fault(fault) => Some(format!("{}: {:?}", fault.name, fault.kind)),
        _ => None,
    };
    run.reports.iter().filter_map(failure).collect()
}

fn restarts(run: &Run) -> Vec<u64> {
    let restart = |report: &Report| match report {
        Report::Restart(restart) if restart.name == "nvme-server-comes" => Some(restart.memory_left_bytes),
        _ => None,
    };
    run.reports.iter().filter_map(restart).collect()
}

#[test]
fn a_tenant_waits_for_its_controller_and_its_neighbour_does_not() {
    let scenario = timed();
    let run = run_for(&scenario, 1, 20_000);
    assert_eq!(run.account.findings, "");
    assert_eq!(failures(&run), [""; 0]);
    assert_eq!(restarts(&run).len(), 2);
    let (alice, bob) = (run.load("alice").expect("alice finishes"), run.load("bob").expect("bob finishes"));
    assert!(alice.reads > 0 && alice.writes > 0 && bob.reads > 0);
    let mut alone = scenario.clone();
    alone.hot_plugs.clear();
    let alone = run_for(&alone, 1, 20_000);
    let (with, without) = (bob.p99_ns, alone.load("bob").expect("bob finishes").p99_ns);
    assert!(with <= without + without / 20, "the neighbour's p99 is {with} ns, and {without} ns without hot plug");
}

/// Cycles of a controller that is pulled out with requests in flight and put in again.
#[test]
fn nothing_leaks_over_many_cycles() {
    let cycles: u32 = std::env::var("HOTPLUG_CYCLES").ok().and_then(|count| count.parse().ok()).unwrap_or(CYCLES);
    let mut scenario = timed();
    scenario.tenants.iter_mut().for_each(|tenant| {
        // A client that is held back sleeps, and time passes quickly.
        tenant.iops = Some(RateLimit { per_second: 50, burst: 1 });
        tenant.extents.iter_mut().for_each(|extent| extent.blocks = 512);
        if let Workload::Bench(bench) = &mut tenant.workload {
            bench.milliseconds = u64::from(cycles * 2 * SOON_MS + 2000);
        }
    });
    let cycle = |number: u32| {
        let at_ms = 1000 + number * 2 * SOON_MS;
        [event(at_ms, Action::Pull), event(at_ms + SOON_MS, Action::Insert)]
    };
    scenario.hot_plugs = (0..cycles).flat_map(cycle).collect();
    let run = run_for(&scenario, 2, u64::from(cycles * 2 * SOON_MS + 30_000));
    assert_eq!(run.account.findings, "");
    assert_eq!(failures(&run), [""; 0]);
    let left = restarts(&run);
    assert_eq!(left.len(), cycles as usize);
    assert!(left.iter().all(|bytes| *bytes == left[0]), "the supervisor's memory: {left:?}");
    assert!(run.load("alice").is_some() && run.load("bob").is_some());
}

/// Checks that alice's session, and no other, ended with `DeviceGone`.
fn check_told(run: &Run) {
    assert_eq!(run.account.findings, "");
    let failures = failures(run);
    assert!(failures.iter().all(|failure| failure.starts_with("alice: ")), "{failures:?}");
    assert!(failures[0].ends_with("the controller is gone"), "{failures:?}");
    assert!(run.load("bob").is_some());
}

#[test]
fn a_tenant_that_does_not_wait_is_told() {
    let mut scenario = timed();
    scenario.tenants[0].waits = false;
    check_told(&run_for(&scenario, 1, 20_000));
}

#[test]
fn another_controller_in_the_slot_serves_no_one_and_leaves_again() {
    let mut scenario = timed();
    scenario.hot_plugs = vec![
        event(500, Action::Pull),
        other(1800),
        event(3200, Action::Remove),
        event(3300, Action::Insert),
        event(10_200, Action::Pull),
        other(10_400),
    ];
    let run = run_for(&scenario, 1, 20_000);
    check_told(&run);
    let serial = |report: &Report| match report {
        Report::Controller(one) if one.server == "nvme-server-comes" => Some(one.serial.to_string()),
        _ => None,
    };
    let serials: Vec<_> = run.reports.iter().filter_map(serial).collect();
    assert_eq!(serials, ["comes", "comes-2", "comes", "comes-2"]);
}

#[test]
fn two_controllers_leave_and_return_at_one_instant() {
    let run = run_for(&scenario("hotplug-together"), 1, 20_000);
    assert_eq!(run.account.findings, "");
    assert_eq!(failures(&run), [""; 0]);
    for tenant in ["alice", "carol", "bob"] {
        let load = run.load(tenant).expect("it finishes");
        assert!(load.reads > 0 && load.wrong_bytes == 0, "{tenant}");
    }
}

/// The scenario with loads of this length, other events, and these kills.
fn killed(milliseconds: u64, events: Vec<HotPlug>, kills: &[(&str, u32)]) -> Scenario {
    let mut scenario = timed();
    loads_last(&mut scenario, milliseconds);
    scenario.tenants.iter_mut().for_each(|tenant| tenant.iops = Some(RateLimit { per_second: 200, burst: 4 }));
    scenario.hot_plugs = events;
    scenario.kills = kills.iter().map(|(component, after_ms)| Kill::new(component, *after_ms)).collect();
    scenario
}

/// Runs a scenario in which every tenant finishes its load, and nothing fails.
fn run_to_the_end(scenario: &Scenario) -> Run {
    let run = run_for(scenario, 1, 40_000);
    let what = format!("{:?} {:?}", scenario.kills, scenario.hot_plugs);
    assert_eq!(run.account.findings, "", "{what}");
    let is_killed = |failure: &String| [": Killed", ": ServerDied"].iter().any(|end| failure.ends_with(end));
    let failures: Vec<_> = failures(&run).into_iter().filter(|failure| !is_killed(failure)).collect();
    assert_eq!(failures, [""; 0], "{what}");
    for tenant in &scenario.tenants {
        let load = run.load(&tenant.name).unwrap_or_else(|| panic!("{} finishes: {what}", tenant.name));
        assert!(load.reads > 0 && load.wrong_bytes == 0 && load.errors == 0, "{}: {what}", tenant.name);
    }
    run
}

#[test]
fn a_tenant_waits_for_its_controller_although_its_server_dies_meanwhile() {
    let events = vec![event(500, Action::Pull), event(2500, Action::Insert)];
    run_to_the_end(&killed(4500, events, &[("nvme-server-comes", 1000)]));
}

#[test]
fn rights_and_shares_change_while_the_controller_is_out() {
    let events = vec![event(500, Action::Pull), event(2500, Action::Insert)];
    let change = |after_ms, what| Change { when: When::after_ms(after_ms), tenant: "alice".into(), what };
    for kills in [&[][..], &[("nvme-server-comes", 1000)]] {
        let mut scenario = killed(4500, events.clone(), kills);
        scenario.changes = vec![
            change(1400, What::Revoke(vec![Blocks { first: 1024, blocks: 512 }])),
            change(1500, What::Entitle(Entitlement { weight: Some(7), depth: Some(4), ..Entitlement::default() })),
            change(3000, What::Grant(vec![Extent::new(1024, 512)])),
        ];
        if let Workload::Bench(bench) = &mut scenario.tenants[0].workload {
            bench.forbidden = Forbidden::ForAWhile;
        }
        let run = run_to_the_end(&scenario);
        let times: Vec<_> = run
            .reports
            .iter()
            .filter_map(|report| match report {
                Report::Change(change) => Some((change.what, change.at_ns / 1_000_000, change.took_ns / 1_000_000)),
                _ => None,
            })
            .collect();
        // Nothing is in flight when rights are taken while the controller is out. A share waits for it.
        assert!(
            matches!(
                times[..],
                [
                    (Changed::Revoked { blocks: 512 }, 1400.., 0..100),
                    (Changed::Entitled, 1500.., 900..1900),
                    (Changed::Granted { blocks: 512 }, 3000.., 0..100),
                ]
            ),
            "{times:?}"
        );
    }
}

#[test]
fn a_requested_removal_is_carried_out_although_the_pci_server_dies() {
    for after_ms in [700, 3000, 5450, 5550] {
        let events = vec![event(500, Action::Remove), event(900, Action::Insert)];
        let run = run_to_the_end(&killed(9000, events, &[("pci-server", after_ms)]));
        // It is started for its own restart, and for the controller that is put in again.
        assert_eq!(restarts(&run).len(), 2, "after {after_ms} ms");
    }
}

/// Milliseconds at which a component dies: before a controller is pulled out, while that is noticed, while it is out, while another
/// one arrives, while it may be withdrawn, while it leaves, while it loses its power, and while it arrives again.
const PHASES: [u32; 16] = [450, 510, 560, 640, 1200, 1510, 1570, 1640, 1720, 3030, 5000, 8010, 8070, 8400, 9160, 9400];

#[test]
fn a_tenant_waits_whichever_component_dies_in_whichever_phase() {
    let events = vec![
        event(500, Action::Pull),
        event(1500, Action::Insert),
        event(3000, Action::Remove),
        event(3500, Action::Insert),
    ];
    for component in ["pci-server", "nvme-server-comes", "policy-comes"] {
        for after_ms in PHASES {
            run_to_the_end(&killed(11_500, events.clone(), &[(component, after_ms)]));
        }
    }
}
