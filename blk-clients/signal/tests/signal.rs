//! The whole program on a machine in memory.

use fake_platform::{FakePlatform, Setup};
use report::Report;
use workload::Signal;

#[test]
fn peers_signal_as_often_as_agreed_and_the_leader_reports_it() {
    for leads in [true, false] {
        let platform = FakePlatform::new(&Setup::default());
        if !leads {
            platform.peer_signals();
        }
        let config = Signal { operations: 100, leads, measure: "signal-wait".into() };
        let reports = platform.run(&config, signal::run);
        assert!(matches!(reports.last(), Some(Report::Done { passed: true, .. })), "{reports:?}");
        let measured = reports.iter().find_map(|report| match report {
            Report::Measured(one) => Some((one.operations, one.doorbells)),
            _ => None,
        });
        assert_eq!(measured, leads.then_some((100, 0)));
    }
}

#[test]
fn a_configuration_of_another_program_is_refused() {
    let reports = FakePlatform::new(&Setup::default()).run(&workload::Bench::default(), signal::run);
    assert!(matches!(reports.last(), Some(Report::Done { passed: false, .. })), "{reports:?}");
    let failed = |report: &Report| matches!(report, Report::Failure { reason, .. } if reason.contains("unknown field"));
    assert!(reports.iter().any(failed), "{reports:?}");
}
