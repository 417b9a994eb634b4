//! Runs tests, keeps their results, and reports them.

use super::case::TestCase;
use crate::commands::counted::Counted;
use crate::parallel;
use anyhow::Result;
use quick_junit::{NonSuccessKind, Report, TestCase as JunitCase, TestCaseStatus, TestRerun, TestSuite};
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{iter, thread};
use xtask::out;
use xtask::progress::Step;
use xtask::reports::table;

/// Number of tests whose time is reported at the end, at most.
const SLOWEST: usize = 10;

/// Tests so far, in the order in which they ended.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Vec<Ended>>);

/// A test that ended.
#[derive(Debug)]
struct Ended {
    name: String,
    counted: Counted,
    took: Duration,
}

impl Tally {
    /// Runs one test and prints its result.
    pub(super) fn run(&self, case: &TestCase, test: impl FnOnce() -> Result<Counted>) -> Result<()> {
        self.add(timed(case, test))
    }

    /// Runs tests one after the other, by a thread that leaves the processors to `meanwhile`. Once that is over, the rest of them
    /// run two at a time.
    pub(super) fn run_beside(
        &self,
        patient: Vec<TestCase>,
        test: impl Fn(&TestCase) -> Result<Counted> + Sync,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let left = Mutex::new(VecDeque::from(patient));
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        thread::scope(|scope| {
            let beside = scope.spawn(|| {
                parallel::give_way();
                iter::from_fn(next).try_for_each(|case| self.run(&case, || test(&case)))
            });
            let done = meanwhile();
            let rest = iter::from_fn(next).collect();
            done?;
            self.run_pairs(rest, &test)?;
            beside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Runs tests two at a time, one from either end of the list.
    pub(super) fn run_pairs(
        &self,
        cases: Vec<TestCase>,
        test: impl Fn(&TestCase) -> Result<Counted> + Sync,
    ) -> Result<()> {
        let mut printed = Ok(());
        let work = |case: TestCase| timed(&case, || test(&case));
        parallel::from_both_ends(cases, work, |ended| {
            let added = self.add(ended);
            printed = std::mem::replace(&mut printed, Ok(())).and(added);
        });
        printed
    }

    fn add(&self, ended: Ended) -> Result<()> {
        // The lines of one test stay together.
        let mut all = self.all();
        let Ended { name, counted, took } = &ended;
        let mark = match counted {
            Counted { failed, .. } if !failed.is_empty() => "FAIL ",
            Counted { skipped: Some(_), .. } => "skip ",
            _ => "ok   ",
        };
        out::line(format_args!("{mark} {name} ({:.1} s)", took.as_secs_f64()))?;
        counted.failed.iter().try_for_each(|reason| out::line(format_args!("      {reason}")))?;
        counted.not_judged.iter().try_for_each(|row| out::line(format_args!("      not judged: {row}")))?;
        all.push(ended);
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no test failed.
    pub(super) fn passed(&self) -> bool {
        self.all().iter().all(|ended| ended.counted.failed.is_empty())
    }

    /// Prints the summary.
    pub(super) fn report(&self) -> Result<()> {
        self.summary().iter().try_for_each(|line| out::line(format_args!("{line}")))
    }

    /// The slowest tests, the unsteady ones, the rows that were not judged, the failures, and the sums, as lines.
    fn summary(&self) -> Vec<String> {
        let all = self.all();
        let mut lines = Vec::new();
        if all.len() > SLOWEST {
            lines.push("the slowest:".to_owned());
            lines.extend(slowest(&all).map(|Ended { name, took, .. }| format!("{:7.1} s  {name}", took.as_secs_f64())));
        }
        let unsteady: Vec<_> = all.iter().filter_map(|one| Some((&one.name, one.counted.unsteady.as_ref()?))).collect();
        if !unsteady.is_empty() {
            lines.push("unsteady, passed only when repeated:".to_owned());
            lines.extend(unsteady.iter().map(|(name, first)| format!("      {name}: {first}")));
        }
        let rows: Vec<_> =
            all.iter().flat_map(|one| one.counted.not_judged.iter().map(move |row| (&one.name, row))).collect();
        lines.extend(rows.iter().map(|(name, row)| format!("not judged: {name}: {row}")));
        for Ended { name, counted, .. } in &*all {
            lines.extend(counted.failed.iter().map(|reason| format!("failed: {name}: {reason}")));
        }
        let mut skipped: Vec<_> = all.iter().filter_map(|ended| ended.counted.skipped.as_deref()).collect();
        let count = skipped.len();
        skipped.dedup();
        lines.extend(skipped.iter().map(|reason| format!("skipped: {reason}")));
        lines.extend(table::not_judged(rows.len()));
        let passed: u64 = all.iter().map(|ended| ended.counted.passed).sum();
        let failed: usize = all.iter().map(|ended| ended.counted.failed.len()).sum();
        let more = [(unsteady.len(), "unsteady"), (count, "skipped")];
        let more = more.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
        lines.push(format!("{passed} passed, {failed} failed{}", more.collect::<String>()));
        lines
    }

    /// The tests as JUnit's XML, a test case for each. An unsteady one has its first run (`flakyFailure`), and rows that were not
    /// judged are its `system-out`.
    pub(super) fn junit(&self) -> Result<String> {
        let mut suite = TestSuite::new("cargo xtask test");
        for Ended { name, counted, took } in self.all().iter() {
            let mut status = if counted.skipped.is_some() {
                TestCaseStatus::skipped()
            } else if counted.failed.is_empty() {
                TestCaseStatus::success()
            } else {
                let mut failure = TestCaseStatus::non_success(NonSuccessKind::Failure);
                failure.set_message(counted.failed.join("\n"));
                failure
            };
            if let Some(first) = &counted.unsteady {
                let mut run = TestRerun::new(NonSuccessKind::Failure);
                run.set_message(first.as_str());
                status.add_rerun(run);
            }
            let mut case = JunitCase::new(name.as_str(), status);
            case.set_time(*took);
            if !counted.not_judged.is_empty() {
                let rows: String = counted.not_judged.iter().map(|row| format!("not judged: {row}\n")).collect();
                case.set_system_out(rows);
            }
            suite.add_test_case(case);
        }
        let mut report = Report::new("capnvme");
        report.add_test_suite(suite);
        Ok(report.to_string()?)
    }
}

fn slowest(all: &[Ended]) -> impl Iterator<Item = &Ended> {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|ended| std::cmp::Reverse(ended.took));
    all.into_iter().take(SLOWEST)
}

/// Runs a test; a test that returns an error fails.
fn timed(case: &TestCase, test: impl FnOnce() -> Result<Counted>) -> Ended {
    let (name, since) = (case.to_string(), Instant::now());
    let _step = Step::new(name.clone());
    let counted = test().unwrap_or_else(|error| Counted { failed: vec![format!("{error:#}")], ..Counted::default() });
    Ended { name, counted, took: since.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{anyhow, ensure};

    fn tally() -> Tally {
        let tally = Tally::default();
        tally.run(&TestCase::Soak, || Ok(Counted::one())).unwrap();
        tally.run(&TestCase::Smmu, || Err(anyhow!("1 < 2").context("no QEMU"))).unwrap();
        tally
    }

    #[test]
    fn a_test_that_cannot_be_run_fails_with_its_reason() {
        let tally = tally();
        assert!(!tally.passed());
        assert_eq!(tally.all()[1].counted.failed, ["no QEMU: 1 < 2"]);
    }

    #[test]
    fn pairs_run_every_case_once() {
        let tally = Tally::default();
        let cases = (0..20).map(|i| TestCase::Found(i.to_string())).collect();
        let fails = |case: &TestCase| {
            ensure!(case.to_string() != "found: 7", "it is the seventh");
            Ok(Counted::one())
        };
        tally.run_pairs(cases, fails).unwrap();
        let mut names: Vec<_> = tally.all().iter().map(|ended| ended.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 20);
        assert_eq!(tally.all().iter().map(|ended| ended.counted.passed).sum::<u64>(), 19);
        assert_eq!(slowest(&tally.all()).count(), SLOWEST);
    }

    #[test]
    fn patient_tests_run_beside_others_and_leave_the_processors_to_them() {
        let policy = || thread_priority::thread_schedule_policy().unwrap();
        let usual = policy();
        let (begun, begins) = std::sync::mpsc::channel();
        let (finished, is_over) = std::sync::mpsc::channel::<()>();
        let is_over = Mutex::new(is_over);
        let patient = (0..9).map(|i| TestCase::Found(i.to_string())).collect();
        let test = |case: &TestCase| {
            if case.to_string() == "found: 0" {
                begun.send(policy()).unwrap();
                is_over.lock().unwrap().recv().unwrap();
            }
            Ok(Counted::one())
        };
        let tally = Tally::default();
        let mut patient_policy = None;
        let meanwhile = || {
            patient_policy = begins.recv().ok();
            finished.send(()).unwrap();
            tally.run(&TestCase::Soak, || Ok(Counted::one()))
        };
        tally.run_beside(patient, test, meanwhile).unwrap();
        assert_eq!(tally.all().len(), 10);
        assert!(patient_policy.is_some_and(|policy| policy != usual));
        assert_eq!(policy(), usual);
    }

    /// A steady test, an unsteady one, and one with a row that was not judged.
    fn mixed() -> Tally {
        let tally = Tally::default();
        let unsteady = Counted { unsteady: Some("frank < 1 block".into()), ..Counted::one() };
        let not_judged = Counted { not_judged: vec!["alice waited; too slow".into()], ..Counted::one() };
        for (name, counted) in [("steady", Counted::one()), ("repeated", unsteady), ("late", not_judged)] {
            tally.run(&TestCase::Found(name.into()), || Ok(counted)).unwrap();
        }
        tally
    }

    #[test]
    fn unsteady_tests_and_rows_that_were_not_judged_stand_at_the_end() {
        assert!(mixed().passed());
        let expected = [
            "unsteady, passed only when repeated:",
            "      found: repeated: frank < 1 block",
            "not judged: found: late: alice waited; too slow",
            "1 row was not judged: the machine was too slow",
            "3 passed, 0 failed, 1 unsteady",
        ];
        assert_eq!(mixed().summary(), expected);
        assert_eq!(
            tally().summary(),
            ["failed: the SMMU's driver on QEMU's SMMU: no QEMU: 1 < 2", "1 passed, 1 failed"]
        );
    }

    #[test]
    fn junit_has_first_runs_and_rows_that_were_not_judged() {
        let xml = mixed().junit().unwrap();
        assert!(xml.contains("failures=\"0\""), "{xml}");
        assert!(xml.contains("<flakyFailure message=\"frank &lt; 1 block\""), "{xml}");
        assert!(xml.contains("<system-out>not judged: alice waited; too slow\n</system-out>"), "{xml}");
    }

    #[test]
    fn junit_has_a_case_for_each_test_with_its_reason() {
        let xml = tally().junit().unwrap();
        assert!(xml.contains("tests=\"2\"") && xml.contains("failures=\"1\""), "{xml}");
        assert!(xml.contains("no QEMU: 1 &lt; 2"), "{xml}");
    }
}
